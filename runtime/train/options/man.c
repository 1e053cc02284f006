/* man.c - `onnxtrain help --man`: the manual page, in the macros of man(7), from the tables that the help is made from. */

#include <ctype.h>
#include <string.h>

#include "runtime/train/options/options.h"
#include "runtime/train/options/help_page.h"

/* Text as roff prints it: a dash that can be copied, no command at the start of a line. */
static void print_text(ot_help_page *p, const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", p->f);
    for (; *text; text++) {
        if (*text == '\\') fputs("\\e", p->f);
        else if (*text == '-') fputs("\\-", p->f);
        else fputc(*text, p->f);
    }
}

static void print_line(ot_help_page *p, const char *text)
{
    print_text(p, text);
    fputc('\n', p->f);
}

static void print_bold(ot_help_page *p, const char *text, const char *more)
{
    fputs("\\fB", p->f);
    print_text(p, text);
    fputs("\\fR", p->f);
    if (more && *more && strncmp(more, "[=", 2)) fputs(" ", p->f);
    if (more) print_text(p, more);
}

static void print_commands(ot_help_page *p)
{
    const ot_command_info *c;
    const ot_option_info *o;
    fputs(".SH COMMANDS\n", p->f);
    for (int i = 0; (c = ot_command_at(i)); i++) {
        const char *name = ot_arena_printf(p->a, "onnxtrain %s", c->name);
        fputs(".SS ", p->f);
        print_bold(p, ot_help_part(p, name), c->arguments);
        fputc('\n', p->f);
        print_line(p, c->meaning);
        fputs(".br\nOptions:", p->f);
        for (int k = 0, n = 0; (o = ot_option_at(k)); k++) {
            if (!(o->commands & c->bit)) continue;
            fputs(n++ ? ", " : " ", p->f);
            print_bold(p, strlen(o->name) > 1 ? "--" : "-", NULL);
            print_bold(p, o->name, NULL);
        }
        fputs(".\n", p->f);
    }
}

static void print_options(ot_help_page *p)
{
    const ot_option_info *o;
    const char *group = "";
    fputs(".SH OPTIONS\n", p->f);
    for (int i = 0; (o = ot_option_at(i)); i++) {
        if (strcmp(group, o->group)) fprintf(p->f, ".SS %s\n", o->group);
        group = o->group;
        fputs(".TP\n", p->f);
        if (o->letter && strlen(o->name) > 1) fprintf(p->f, "\\fB\\-%c\\fR, ", o->letter);
        const char *name = ot_arena_printf(p->a, "%s%s", strlen(o->name) > 1 ? "--" : "-", o->name);
        print_bold(p, ot_help_part(p, name), o->argument);
        fputc('\n', p->f);
        print_text(p, o->help);
        if (o->repeats) fputs("; may be repeated", p->f);
        if (o->value) fputs(". Default: ", p->f), print_text(p, o->value);
        fputc('\n', p->f);
    }
}

static void print_registry(ot_help_page *p, const ot_registry *r)
{
    fputs(".SH ", p->f);
    for (const char *t = r->sort; *t; t++) fputc(toupper((unsigned char)*t), p->f);
    fputc('\n', p->f);
    print_line(p, r->meaning);
    for (const ot_entry *const *e = r->entries; *e; e++) {
        fputs(".TP\n", p->f);
        print_bold(p, (*e)->name, NULL);
        fputc('\n', p->f);
        print_line(p, (*e)->meaning);
        for (const ot_key *k = (*e)->keys; k && k->name; k++) {
            fputs(".RS\n.TP\n", p->f);
            print_bold(p, k->name,
                       ot_help_part(p, ot_arena_printf(p->a, "(%s)",
                                                       k->dflt      ? k->dflt
                                                       : k->without ? k->without
                                                                    : "must be given")));
            fputc('\n', p->f);
            print_text(p, k->meaning);
            fputs("; ", p->f);
            print_line(p, ot_help_part(p, ot_key_wants(k, p->a)));
            fputs(".RE\n", p->f);
        }
    }
}

ot_status ot_man_text(char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    const ot_registry *r;
    ot_help_page p = { 0 };
    ot_status s = ot_help_open(&p, text, err);
    if (s) return ot_help_close(&p, s, text, err);
    fprintf(
        p.f,
        ".TH ONNXTRAIN 1 \"\" \"onnxtrain %s\" \"User Commands\"\n"
        ".nh\n.ad l\n"
        ".SH NAME\nonnxtrain \\- train an ONNX model and write the same file with new weights\n"
        ".SH SYNOPSIS\n"
        "\\fBonnxtrain\\fR [\\fICOMMAND\\fR] \\fIMODEL\\fR [\\fIOPTION\\fR ...]\n"
        ".SH DESCRIPTION\n"
        "Reads an ONNX file, trains it on data, and writes the file again: the same nodes, names, opset and metadata with trained\n"
        "weights. Without a command it trains. Results go to standard output, all else to standard error.\n",
        OT_VERSION);
    print_commands(&p);
    print_options(&p);
    for (int i = 0; (r = ot_topic_at(i)); i++)
        if (r != &ot_commands) print_registry(&p, r);
    fputs(".SH EXIT STATUS\n", p.f);
#define ROW(code, number, what) fprintf(p.f, ".TP\n\\fB%d\\fR\n%s\n", number, what);
    OT_STATUS_LIST(ROW)
#undef ROW
    fputs(
        ".TP\n\\fB128+N\\fR\nstopped by signal N (129 SIGHUP, 130 SIGINT, 141 SIGPIPE, 143 SIGTERM, 152 SIGXCPU); the model is written\n.SH EXAMPLES\n.nf\n",
        p.f);
    print_text(&p, ot_help_examples);
    fputs(".fi\n.SH SEE ALSO\n\\fBonnxtrain help\\fR \\fITOPIC NAME\\fR prints one entry of these lists.\n", p.f);
    return ot_help_close(&p, s, text, err);
}
