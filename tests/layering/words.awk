# words.awk - words of `words` in the string literals of C sources; `words` is the first file, the sources follow.
# With -v of=comments: words of `comments` in comments, within a line; names of C (with an underscore) are not words.
# Plain awk (mawk, gawk, busybox). Every finding is one line: "file:line: what".

# The literals of a line that have two words or more, as " lower case words "; `in_comment` lives across lines.
function text_of(line,    out, c, i, n, open, one) {
    out = ""
    n = length(line)
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        if (in_comment) {
            if (substr(line, i, 2) == "*/") { in_comment = 0; i++ }
        } else if (open) {
            if (c == "\\") { one = one " "; i++ }
            else if (c == "\"") { out = out words_of(one); open = 0 }
            else one = one c
        } else if (substr(line, i, 2) == "/*") { in_comment = 1; i++ }
        else if (substr(line, i, 3) == "'\"'") i += 2
        else if (c == "\"") { open = 1; one = "" }
    }
    return out
}

# The comments of a line, likewise.
function comments_of(line,    out, i, n, open) {
    out = ""
    n = length(line)
    for (i = 1; i <= n; i++) {
        if (in_comment) {
            if (substr(line, i, 2) == "*/") { in_comment = 0; i++; out = out " | " }
            else out = out substr(line, i, 1)
        } else if (open) {
            if (substr(line, i, 1) == "\\") i++
            else if (substr(line, i, 1) == "\"") open = 0
        } else if (substr(line, i, 2) == "/*") { in_comment = 1; i++ }
        else if (substr(line, i, 3) == "'\"'") i += 2
        else if (substr(line, i, 1) == "\"") open = 1
    }
    gsub(/[A-Za-z0-9]*_[A-Za-z0-9_]*/, " | ", out)
    out = tolower(out)
    gsub(/[^a-z|]+/, " ", out)
    return out == "" ? "" : " " out " "
}

function words_of(s) {
    gsub(/%[-+ #0-9.*]*(hh|h|ll|l|z)?[a-zA-Z]/, " ", s)
    s = tolower(s)
    gsub(/[^a-z]+/, " ", s)
    gsub(/there (is|are) no/, "there", s)
    return split(s, part, " ") > 1 ? " " s " | " : ""
}

FNR == NR {
    if ($0 ~ /^#/) next
    split($0, half, "\t")
    instead[half[1]] = half[2]
    next
}
FNR == 1 { in_comment = 0 }
/^[ ]*#[ ]*include/ { next }
{
    text = of == "comments" ? comments_of($0) : text_of($0)
    if (text == "") next
    gsub(/ +/, " ", text)
    for (w in instead)
        if (index(text, " " w " ")) {
            printf "%s:%d: \"%s\" in a %s; write: %s\n", FILENAME, FNR, w, of == "comments" ? "comment" : "text", instead[w]
            findings++
        }
}
END { exit findings > 0 }
