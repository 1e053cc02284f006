# rules.awk - findings about C sources; `layers` is the first file, the sources follow.
# Plain awk (mawk, gawk, busybox). Every finding is one line: "file:line: what".

function finding(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; findings++ }

# The layer of a path relative to the root; "" for what is outside the rule.
function layer_of(path,    part, n) {
    n = split(path, part, "/")
    if (path == "runtime/onnxtrain.h") return "public"
    if (path == "ops/op.h") return "op"
    if (path ~ /^runtime\/main[^\/]*$/) return "main"
    if (part[1] == "runtime" && part[2] == "train" && n > 3) return part[3]
    if (part[1] == "runtime") return n > 2 ? part[2] : ""
    if (part[1] == "ops" && n > 2) return part[2]
    if (part[1] == "tests") return "tests"
    return part[1]
}

# Code without comments and without the insides of literals; `in_comment` lives across lines.
function code_of(line,    out, c, i, n, quote) {
    out = ""
    n = length(line)
    quote = ""
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        if (in_comment) {
            if (substr(line, i, 2) == "*/") { in_comment = 0; i++ }
        } else if (quote != "") {
            if (c == "\\") i++
            else if (c == quote) { quote = ""; out = out c }
        } else if (substr(line, i, 2) == "/*") { in_comment = 1; i++ }
        else if (substr(line, i, 2) == "//") { finding("// comment; the tree uses /* */"); break }
        else { if (c == "\"" || c == "'") quote = c; out = out c }
    }
    return out
}

function end_of_file() {
    if (last_file != "" && last_line > 800) {
        printf "%s:%d: %d lines; 800 are the limit\n", last_file, last_line, last_line
        findings++
    }
}

FNR == NR { # the table
    if ($0 ~ /^[a-z]+:/) {
        split($0, half, ":")
        known[half[1]] = 1
        m = split(half[2], word, " ")
        for (k = 1; k <= m; k++) may[half[1], word[k]] = 1
    }
    next
}

FNR == 1 {
    end_of_file()
    last_file = FILENAME
    layer = layer_of(FILENAME)
    in_comment = 0
    opened = 0
    name = FILENAME
    sub(/.*\//, "", name)
    if (!(layer in known) && layer != "op" && layer != "tests" && layer != "cmake") finding("folder is in no layer of tests/layering/layers")
    if (substr($0, 1, length(name) + 6) != "/* " name " - ") finding("does not begin with \"/* " name " - what it is.\"")
}

{ last_line = FNR }

/TODO|FIXME|(^|[^X])XXX([^X]|$)/ && layer != "cmake" { finding("unfinished business: TODO, FIXME or XXX") }
# Rows of tables may be long; code may not.
length($0) > 180 && !/\\$/ && !/^ +(\{|[A-Z]+\() ?"?/ { finding("line of " length($0) " characters") }
/\t/ { finding("tab") }

/^[ ]*#[ ]*include/ {
    path = $0
    sub(/^[ ]*#[ ]*include[ ]*/, "", path)
    quoted = substr(path, 1, 1) == "\""
    path = substr(path, 2)
    sub(/[">].*/, "", path)
    if (path ~ /pb-c\.h$|^protobuf-c\// && layer != "importer" && layer != "exporter" && layer != "tests")
        finding("protobuf outside importer/ and exporter/: " path)
    if (path ~ /dnnl/ && layer != "cpu" && layer != "backends" && layer != "tests")
        finding("oneDNN outside ops/cpu and runtime/backends: " path)
    if (path ~ /^(jpeglib|jerror|spng|tiffio|openjpeg|cairo|webp\/.*)\.h$/ && layer != "picture")
        finding("decoder of pictures outside runtime/picture: " path)
    if (quoted && layer != "tests") {
        if (path !~ /\// && path !~ /pb-c\.h$/) finding("include by the path from the root: " path)
        to = layer_of(path)
        if (path ~ /pb-c\.h$/) to = "proto"
        if (!((layer, to) in may)) finding(layer " may not include " to ": " path)
    }
    next
}

{ code = code_of($0) }

layer == "tests" || layer == "cmake" { next }

code ~ /(^|[^A-Za-z0-9_])(ProtobufC|Onnx__)/ && layer != "importer" && layer != "exporter" {
    finding("protobuf type outside importer/ and exporter/")
}

layer != "main" && code ~ /(^|[^A-Za-z0-9_.>])(exit|_exit|abort|printf|puts|putchar|perror|vprintf)[ ]*\(/ {
    if (code !~ /OT_PRINTF|format\(printf/) finding("library code neither prints nor ends the process")
}
layer != "main" && code ~ /(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)/ { finding("library code knows no stdout or stderr") }
code ~ /(^|[^A-Za-z0-9_])(strcat|gets|strtok|alloca)[ ]*\(/ { finding("function without a bound") }

# A variable of the file that can change; a lock is for a library that has such variables.
code !~ /PTHREAD_MUTEX_INITIALIZER/ && code ~ /^(static|_Thread_local)[ ]/ && code !~ /\(/ && code !~ /(^|[^A-Za-z0-9_])const([^A-Za-z0-9_]|$)/ && code ~ /[=;]/ && layer != "main" {
    finding("global state that can change")
}

# One name, one type: where its members are listed.
code ~ /^\}[ ]*ot_[a-z0-9_]+;/ || code ~ /^(struct|union|enum)[ ]+ot_[a-z0-9_]+[ ]*\{/ {
    type = code
    sub(/^\}[ ]*|^[a-z]+[ ]+/, "", type)
    sub(/[^a-z0-9_].*/, "", type)
    if (type in defined) finding("type " type " has that name in " defined[type] " too")
    else defined[type] = FILENAME
}

# Functions: from the line of the signature to the closing brace, both in the first column.
code ~ /^[A-Za-z_].*\(/ && !opened { signature = FNR; title = code }
code ~ /^\{/ || code ~ /^[A-Za-z_].*\).*\{[ ]*$/ || (code ~ /^[ ].*\)[ ]*\{[ ]*$/ && !opened && signature == FNR - 1) {
    if (!opened && title != "") { opened = signature }
}
code ~ /^\}/ {
    if (opened && FNR - opened + 1 > 80) {
        sub(/\(.*/, "", title)
        sub(/.*[ *]/, "", title)
        finding("function " title " has " (FNR - opened + 1) " lines; 80 are the limit")
    }
    opened = 0
    title = ""
}

END { end_of_file(); exit findings > 0 }
