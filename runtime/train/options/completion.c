/* completion.c - `onnxtrain completion bash|zsh|fish`: scripts that complete commands, options and their values, generated
 * from the tables of the help.
 *
 * Each script has the same four tables in the syntax of its shell: options of a command, values of an option or a command, keys of
 * a named value, values of a key.  The values of an option are read from the table's `argument`: of "auto|cpu|cuda[:N]" the words in
 * lower case are candidates, DATASET means the named data sets, FILE, PATH, DIR and MODEL mean paths. */

#include <ctype.h>
#include <string.h>

#include "runtime/data/data.h"
#include "runtime/train/options/options.h"
#include "runtime/train/options/help_page.h"

typedef struct values {
    const char *words; /* separated by blanks; "": none known */
    bool paths;        /* a path is one too */
} values;

static const char *registry_words(ot_help_page *p, const ot_registry *r)
{
    const char *all = "";
    for (const ot_entry *const *e = r->entries; *e && all; e++)
        all = ot_arena_printf(p->a, "%s%s%s", all, *all ? " " : "", (*e)->name);
    return ot_help_part(p, all);
}

/* Of an option or command by its name, and of what its table has as argument. */
static values values_of(ot_help_page *p, const char *name, const char *argument)
{
    const ot_registry *r = ot_topic_find(name);
    values v = { "", false };
    if (r && strcmp(name, "data")) return (values){ registry_words(p, r), false };
    for (const char *at = argument; *at && *at != ' ';) {
        int n = (int)strcspn(at, "| "), small = (int)strcspn(at, "|[ ");
        bool lower = small > 0;
        for (int i = 0; i < small; i++) lower &= !isupper((unsigned char)at[i]);
        const char *word = lower ? ot_arena_printf(p->a, "%.*s", small, at) : NULL;
        if (n == 7 && !memcmp(at, "DATASET", 7)) word = registry_words(p, &ot_data_sets);
        else if (!lower)
            v.paths |= (n == 4 && (!memcmp(at, "FILE", 4) || !memcmp(at, "PATH", 4))) ||
                       (n == 3 && !memcmp(at, "DIR", 3)) || (n == 5 && !memcmp(at, "MODEL", 5));
        if (word || lower)
            v.words =
                ot_help_part(p, ot_arena_printf(p->a, "%s%s%s", v.words, *v.words ? " " : "", ot_help_part(p, word)));
        at += n + (at[n] == '|');
    }
    return v;
}

/* text as one word of a shell; backslash: fish has \' within quotes, the others '\''. */
static void print_quoted(ot_help_page *p, const char *text, bool backslash)
{
    fputc('\'', p->f);
    for (; *text; text++) {
        if (*text == '\'') fputs(backslash ? "\\'" : "'\\''", p->f);
        else if (*text == '\\' && backslash) fputs("\\\\", p->f);
        else fputc(*text, p->f);
    }
    fputc('\'', p->f);
}

/* ---- the tables, as cases of a shell: from the words before the cursor to the candidates -------------------- */

typedef struct dialect {
    const char *row;   /* printf format of a case: its patterns, its candidates */
    const char *comma; /* between two patterns of a case */
} dialect;

static const dialect sh = { "    %s) found='%s' ;;\n", " | " },
                     fish = { "        case %s\n            echo '%s'\n", " " };

static const char *dashed(const ot_option_info *o) { return strlen(o->name) > 1 ? "--" : "-"; }

static void print_command_options(ot_help_page *p, const dialect *d)
{
    const ot_command_info *c;
    const ot_option_info *o;
    for (int i = 0; (c = ot_command_at(i)); i++) {
        const char *all = "--help";
        for (int k = 0; (o = ot_option_at(k)) && all; k++)
            if (o->commands & c->bit) all = ot_arena_printf(p->a, "%s %s%s", all, dashed(o), o->name);
        fprintf(p->f, d->row, c->name, ot_help_part(p, all));
    }
}

/* PATHS among the words says that a path is possible. */
static void print_values(ot_help_page *p, const dialect *d)
{
    const ot_command_info *c;
    const ot_option_info *o;
    const ot_registry *r;
    for (int i = 0; (o = ot_option_at(i)); i++) {
        if (!o->argument || o->optional) continue;
        values v = values_of(p, o->name, o->argument);
        const char *name = ot_arena_printf(p->a, "%s%s", dashed(o), o->name);
        const char *words = ot_arena_printf(p->a, "%s%s", v.words, v.paths ? " PATHS" : "");
        fprintf(p->f, d->row, ot_help_part(p, name), words ? words : "");
        p->lost |= !words;
    }
    for (int i = 0; (c = ot_command_at(i)); i++) {
        if (c->bit == OT_CMD_HELP || !c->words) continue;
        values v = values_of(p, c->name, c->arguments);
        fprintf(p->f, d->row, c->name, v.paths ? "PATHS" : v.words);
    }
    const char *topics = "option", *options = "";
    for (int i = 0; (r = ot_topic_at(i)) && topics; i++) topics = ot_arena_printf(p->a, "%s %s", topics, r->sort);
    for (int i = 0; (o = ot_option_at(i)) && options; i++) options = ot_arena_printf(p->a, "%s %s", options, o->name);
    fprintf(p->f, d->row, "help", ot_help_part(p, topics));
    fprintf(p->f, d->row, "help:option", ot_help_part(p, options));
    for (int i = 0; (r = ot_topic_at(i)); i++) {
        const char *name = ot_arena_printf(p->a, "help:%s", r->sort);
        fprintf(p->f, d->row, ot_help_part(p, name), registry_words(p, r));
    }
}

/* --optimizer:adamw, and --loss:mse:reduction. */
static void print_keys(ot_help_page *p, const dialect *d)
{
    const ot_option_info *o;
    for (int i = 0; (o = ot_option_at(i)); i++) {
        const ot_registry *r = o->argument ? ot_topic_find(o->name) : NULL;
        if (!r) continue;
        for (const ot_entry *const *e = r->entries; *e; e++) {
            const char *keys = "";
            for (const ot_key *k = (*e)->keys; k && k->name && keys; k++) {
                const char *words = k->kind == OT_KEY_FLAG ? "true false" : k->kind == OT_KEY_WORD ? k->words : NULL;
                const char *key = ot_arena_printf(p->a, "--%s:%s:%s", o->name, (*e)->name, k->name);
                if (words) fprintf(p->f, d->row, ot_help_part(p, key), words);
                keys = ot_arena_printf(p->a, "%s%s%s=", keys, *keys ? " " : "", k->name);
            }
            const char *name = ot_arena_printf(p->a, "--%s:%s", o->name, (*e)->name);
            if (!keys || *keys) fprintf(p->f, d->row, ot_help_part(p, name), ot_help_part(p, keys));
        }
    }
}

/* ---- bash ------------------------------------------------------------------------------------------- */

/* The word at the cursor is read from the line: bash takes `:` and `=` for the ends of words, and replaces only what is behind the last. */
static const char bash_end[] =
    "    *) return 1 ;;\n"
    "    esac\n"
    "}\n\n"
    "_onnxtrain()\n"
    "{\n"
    "    local line=${COMP_LINE:0:COMP_POINT} command=train option= first=0 word whole left found path seen=() list=()\n"
    "    whole=${line##*[[:space:]]}\n"
    "    read -ra seen <<<\"${line%\"$whole\"}\"\n"
    "    _onnxtrain_options \"${seen[1]}\" && command=${seen[1]} first=1\n"
    "    word=$whole left=\n"
    "    if [[ $word == --*=* ]]; then\n"
    "        option=${word%%=*} left=$option= word=${word#*=}\n"
    "    elif [[ ${seen[-1]} == -* ]]; then\n"
    "        option=${seen[-1]}\n"
    "    fi\n"
    "    if [[ $option ]] && _onnxtrain_values \"$option\"; then\n"
    "        if [[ $word == *:* ]]; then\n"
    "            local name=${word%%:*} tail=${word##*[:,]}\n"
    "            left+=${word%\"$tail\"} name=${name##*=}\n"
    "            if [[ $tail == *=* ]]; then\n"
    "                left+=${tail%%=*}= word=${tail#*=}\n"
    "                _onnxtrain_values \"$option:$name:${tail%%=*}\" || found=\n"
    "            else\n"
    "                word=$tail\n"
    "                _onnxtrain_values \"$option:$name\" || found=\n"
    "                compopt -o nospace 2>/dev/null\n"
    "            fi\n"
    "        fi\n"
    "    elif [[ $word == -* ]]; then\n"
    "        _onnxtrain_options \"$command\"\n"
    "    elif ((${#seen[@]} == 1)); then\n"
    "        found=\"$commands PATHS\"\n"
    "    elif [[ $command == help ]] && ((${#seen[@]} == 3)); then\n"
    "        _onnxtrain_values \"help:${seen[2]}\" || found=\n"
    "    else\n"
    "        _onnxtrain_values \"$command\" || found=\n"
    "    fi\n"
    "    mapfile -t list < <(compgen -W \"${found%PATHS}\" -- \"$word\")\n"
    "    COMPREPLY=()\n"
    "    if [[ $found == *PATHS ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t -O ${#list[@]} list < <(compgen -f -- \"$word\")\n"
    "    fi\n"
    "    local cut=${whole%\"${whole##*[:=]}\"}\n"
    "    for word in \"${list[@]}\"; do\n"
    "        word=$left$word\n"
    "        COMPREPLY+=(\"${word#\"$cut\"}\")\n"
    "    done\n"
    "}\n\n"
    "complete -F _onnxtrain onnxtrain\n";

static void print_bash(ot_help_page *p)
{
    fputs(
        "# bash completion of onnxtrain; source: 'onnxtrain completion bash'.\n\n_onnxtrain_options()\n{\n    case $1 in\n",
        p->f);
    print_command_options(p, &sh);
    fputs("    *) return 1 ;;\n    esac\n}\n\n_onnxtrain_values()\n{\n    case $1 in\n", p->f);
    print_values(p, &sh);
    print_keys(p, &sh);
    const char *commands = registry_words(p, &ot_commands), *at = strstr(bash_end, "$commands");
    fprintf(p->f, "%.*s%s%s", (int)(at - bash_end), bash_end, commands, at + strlen("$commands"));
}

/* ---- zsh -------------------------------------------------------------------------------------------- */

/* In a specification of _arguments `:` and brackets end a part. */
static const char *zsh_text(ot_help_page *p, const char *text)
{
    size_t n = strlen(text);
    char *out = ot_arena_alloc(p->a, 2 * n + 2), *to = out;
    for (; out && *text; text++) {
        if (strchr(":[]\\", *text)) *to++ = '\\';
        *to++ = *text;
    }
    return ot_help_part(p, out);
}

/* The end of _onnxtrain_table, and the functions up to the list of commands. */
static const char zsh_value[] =
    "    esac\n}\n\n"
    "# Completes the value of an option or command: names, name:key=value,key=value, paths.\n"
    "_onnxtrain_value() {\n"
    "    local what=$argv[-1] found name key\n"
    "    if [[ $PREFIX == *:* && $what == --* ]]; then\n"
    "        name=${${PREFIX%%:*}##*=}\n"
    "        compset -P '*[:,]'\n"
    "        what=$what:$name\n"
    "        if [[ $PREFIX == *=* ]]; then\n"
    "            key=${PREFIX%%=*}\n"
    "            compset -P '*='\n"
    "            what=$what:$key\n"
    "        fi\n"
    "        _onnxtrain_table $what\n"
    "        compadd -S '' -- ${=found}\n"
    "        return\n"
    "    fi\n"
    "    _onnxtrain_table $what\n"
    "    compadd -- ${=${found%PATHS}}\n"
    "    [[ $found == *PATHS ]] && _files\n"
    "}\n\n"
    "_onnxtrain() {\n"
    "    local command=train found\n"
    "    local -a use commands\n"
    "    local -A spec\n"
    "    commands=(\n";

/* The rest of _onnxtrain, after the list of options. */
static const char zsh_end[] =
    "    )\n"
    "    if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
    "        _describe command commands\n"
    "        _files\n"
    "        return\n"
    "    fi\n"
    "    if (($commands[(I)$words[2]:*])); then\n"
    "        command=$words[2]\n"
    "        shift words\n"
    "        ((CURRENT--))\n"
    "    fi\n"
    "    _onnxtrain_options $command\n"
    "    for found in ${=found}; do use+=($spec[$found]); done\n"
    "    _arguments -S $use \"1: :_onnxtrain_value $command\" \"2: :_onnxtrain_value $command:$words[2]\"\n"
    "}\n\n"
    "[[ $funcstack[1] == _onnxtrain ]] && _onnxtrain \"$@\" || compdef _onnxtrain onnxtrain\n";

static void print_zsh(ot_help_page *p)
{
    const ot_command_info *c;
    const ot_option_info *o;
    fputs("#compdef onnxtrain\n# zsh completion of onnxtrain; source: 'onnxtrain completion zsh'.\n\n"
          "_onnxtrain_options() {\n    case $1 in\n",
          p->f);
    print_command_options(p, &sh);
    fputs("    *) return 1 ;;\n    esac\n}\n\n_onnxtrain_table() {\n    found=\n    case $1 in\n", p->f);
    print_values(p, &sh);
    print_keys(p, &sh);
    fputs(zsh_value, p->f);
    for (int i = 0; (c = ot_command_at(i)); i++) {
        const char *row = ot_arena_printf(p->a, "%s:%s", c->name, c->meaning);
        fputs("        ", p->f);
        print_quoted(p, ot_help_part(p, row), false);
        fputc('\n', p->f);
    }
    fputs("    )\n    spec=(\n        --help '(- *)--help[print the help]'\n", p->f);
    for (int i = 0; (o = ot_option_at(i)); i++) {
        const char *row =
            ot_arena_printf(p->a, "%s%s%s%s[%s]", o->repeats ? "*" : "", dashed(o), o->name,
                            o->argument && !o->optional && strlen(o->name) > 1 ? "=" : "", zsh_text(p, o->help));
        if (o->argument && !o->optional)
            row = ot_arena_printf(p->a, "%s:%s:_onnxtrain_value %s%s", ot_help_part(p, row), zsh_text(p, o->argument),
                                  dashed(o), o->name);
        fprintf(p->f, "        %s%s ", dashed(o), o->name);
        print_quoted(p, ot_help_part(p, row), false);
        fputc('\n', p->f);
    }
    fputs(zsh_end, p->f);
}

/* ---- fish ------------------------------------------------------------------------------------------- */

/* The end of __onnxtrain_values, and the functions up to the list of commands. */
static const char fish_option[] = "    end | string split -n ' ' | string match -v PATHS\n"
                                  "end\n\n"
                                  "# Of an option: names, name:key=, name:key=value.\n"
                                  "function __onnxtrain_option\n"
                                  "    set -l word (commandline -ct | string replace -r -- '^--[^=]*=' '')\n"
                                  "    if not string match -q '*:*' -- $word\n"
                                  "        __onnxtrain_values $argv[1]\n"
                                  "        return\n"
                                  "    end\n"
                                  "    set -l name (string replace -r ':.*' '' -- $word | string replace -r '.*=' '')\n"
                                  "    set -l tail (string replace -r '.*[:,]' '' -- $word)\n"
                                  "    set -l left (string replace -r '[^:,]*$' '' -- $word)\n"
                                  "    if string match -q '*=*' -- $tail\n"
                                  "        set -l key (string replace -r '=.*' '' -- $tail)\n"
                                  "        printf '%s\\n' $left$key=(__onnxtrain_values $argv[1]:$name:$key)\n"
                                  "    else\n"
                                  "        printf '%s\\n' $left(__onnxtrain_values $argv[1]:$name)\n"
                                  "    end\n"
                                  "end\n\n"
                                  "# Is the command of the line one of these?\n"
                                  "function __onnxtrain_is\n"
                                  "    set -l words (commandline -opc)\n"
                                  "    set -l command train\n"
                                  "    contains -- \"$words[2]\" ";

/* The functions after the list of commands. */
static const char fish_word[] = "; and set command $words[2]\n"
                                "    contains -- $command $argv\n"
                                "end\n\n"
                                "# What the commands take beside options.\n"
                                "function __onnxtrain_word\n"
                                "    set -l words (commandline -opc)\n"
                                "    if test (count $words) -eq 3 -a \"$words[2]\" = help\n"
                                "        __onnxtrain_values help:$words[3]\n"
                                "    else if test (count $words) -ge 2\n"
                                "        __onnxtrain_values $words[2]\n"
                                "    end\n"
                                "end\n\n"
                                "complete -c onnxtrain -l help -s h -d 'print the help'\n";

static void print_fish(ot_help_page *p)
{
    const ot_command_info *c;
    const ot_option_info *o;
    fputs("# fish completion of onnxtrain; source: 'onnxtrain completion fish'.\n\n"
          "function __onnxtrain_values\n    switch $argv[1]\n",
          p->f);
    print_values(p, &fish);
    print_keys(p, &fish);
    fputs(fish_option, p->f);
    fputs(registry_words(p, &ot_commands), p->f);
    fputs(fish_word, p->f);
    for (int i = 0; (c = ot_command_at(i)); i++) {
        fprintf(p->f, "complete -c onnxtrain -n __fish_is_first_arg -a %s -d ", c->name);
        print_quoted(p, c->meaning, true);
        fputc('\n', p->f);
        if (c->words && !values_of(p, c->name, c->arguments).paths)
            fprintf(p->f, "complete -c onnxtrain -n '__onnxtrain_is %s' -f -a '(__onnxtrain_word)'\n", c->name);
    }
    for (int i = 0; (o = ot_option_at(i)); i++) {
        fputs("complete -c onnxtrain -n '__onnxtrain_is", p->f);
        for (int k = 0; (c = ot_command_at(k)); k++)
            if (o->commands & c->bit) fprintf(p->f, " %s", c->name);
        fputc('\'', p->f);
        if (strlen(o->name) > 1) fprintf(p->f, " -l %s", o->name);
        if (o->letter) fprintf(p->f, " -s %c", o->letter);
        if (o->argument && !o->optional)
            fprintf(p->f, " %s -a '(__onnxtrain_option %s%s)'",
                    values_of(p, o->name, o->argument).paths ? "-r -F" : "-x", dashed(o), o->name);
        fputs(" -d ", p->f);
        print_quoted(p, o->help, true);
        fputc('\n', p->f);
    }
}

ot_status ot_completion_text(const char *shell, char **text, ot_error *err)
{
    OT_ENTER(err);
    static const struct {
        const char *name;
        void (*print)(ot_help_page *p);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };
    OT_GIVEN(shell);
    OT_GIVEN(text);
    ot_help_page p = { 0 };
    ot_status s = ot_help_open(&p, text, err);
    void (*print)(ot_help_page *) = NULL;
    for (int i = 0; i < OT_LEN(shells); i++)
        if (!strcmp(shells[i].name, shell)) print = shells[i].print;
    if (!s && print) print(&p);
    if (!s && !print) s = ot_fail(err, OT_E_USAGE, "unknown shell '%s'; supported: bash, zsh, fish", shell);
    return ot_help_close(&p, s, text, err);
}
