/* help.c - the help, made from the option table. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/options/options.h"

static const char first_line[] = "onnxtrain trains an ONNX model and writes the same file with new weights.\n";

const char ot_help_examples[] =

    "  onnxtrain models/lenet.onnx --data mnist\n"
    "  onnxtrain net.onnx --data train.npz --val val.npz --loss mse --lr 1e-4 --epochs 50\n"
    "  onnxtrain net.onnx --data mnist --optimizer sgd:lr=0.1,momentum=0.9 --schedule "
    "cosine:warmup=100\n"
    "  onnxtrain net.onnx --data train.npz --freeze 'backbone.*' -o tuned.onnx\n"
    "  onnxtrain eval lenet-trained.onnx --data mnist\n";

void ot_option_print(const ot_option_info *r, bool defaults, FILE *f)
{
    const ot_registry *names = ot_topic_find(r->name);
    char name[80], extra[80] = "";
    snprintf(name, sizeof name, "%s%s%s%s%s", strlen(r->name) > 1 ? "--" : "-", r->name,
             r->argument && !r->optional ? " " : "", r->argument ? r->argument : "",
             r->letter && strlen(r->name) > 1 ? "" : "");
    if (r->value && defaults) snprintf(extra, sizeof extra, " (%s)", r->value);
    if (strlen(name) > 27) fprintf(f, "  %s\n  %27s", name, "");
    else fprintf(f, "  %-27s", name);
    fprintf(f, " %s%s%s\n", defaults ? r->help : ot_option_plain(r), extra, r->repeats ? "; may be repeated" : "");
    if (!names) return;
    int at = fprintf(f, "  %27s", "");
    for (const ot_entry *const *e = names->entries; *e; e++) {
        if (at > 110) at = fprintf(f, "\n  %27s", "");
        at += fprintf(f, " %s", (*e)->name);
    }
    fputc('\n', f);
}

static void print_commands(FILE *f)
{
    const ot_command_info *c;
    for (int i = 0; (c = ot_command_at(i)); i++) {
        char line[64];
        snprintf(line, sizeof line, i ? "%s %s" : "[%s] %s", c->name, c->arguments);
        fprintf(f, "  onnxtrain %-36s  %s\n", line, c->meaning);
    }
}

static void print_options(bool all, FILE *f)
{
    const ot_option_info *r;
    const char *group = "";
    for (int i = 0; (r = ot_option_at(i)); i++) {
        if (!all && !r->basic) continue;
        if (all && strcmp(group, r->group)) fprintf(f, "\n%s\n", r->group);
        else if (!all && !*group) fprintf(f, "\nOptions (--help-all lists all of them)\n");
        group = r->group;
        ot_option_print(r, true, f);
    }
}

ot_status ot_help_text(bool all, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    size_t size = 0;
    *text = NULL;
    FILE *f = open_memstream(text, &size);
    if (!f) return ot_fail(err, OT_E_NOMEM, "no memory for the help");
    fprintf(f, "%s\n", first_line);
    print_commands(f);
    print_options(all, f);
    fprintf(f, "\nExamples\n%s", ot_help_examples);
    if (all) {
        fputs("\nExit codes\n", f);
#define ROW(code, number, what) fprintf(f, "  %3d  %s\n", number, what);
        OT_STATUS_LIST(ROW)
#undef ROW
        fputs(
            "  128+N  stopped by signal N (129 SIGHUP, 130 SIGINT, 141 SIGPIPE, 143 SIGTERM, 152 SIGXCPU); the model is written\n",
            f);
    }
    if (ot_memstream_close(f)) return OT_OK;
    free(*text);
    *text = NULL;
    return ot_fail(err, OT_E_NOMEM, "no memory for the help");
}
