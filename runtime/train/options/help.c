/* help.c - the help, made from the option table. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/options/options.h"

static const char usage[] =
    "onnxtrain trains an ONNX model and writes the same file with new weights.\n"
    "\n"
    "  onnxtrain [train] MODEL --data DATA [-o OUT.onnx]  train; DATA: mnist, cifar10 ... or a file\n"
    "  onnxtrain eval    MODEL --data DATA             loss, accuracy, confusion matrix\n"
    "  onnxtrain run     MODEL --data X.npz -o Y.npz   run the model, write its outputs by name\n"
    "  onnxtrain grad    MODEL --data X.npz -o G.npz   gradient of the loss for each trained initializer\n"
    "  onnxtrain export  MODEL -o FILE                 write the model for inference, without training parts\n"
    "  onnxtrain check   MODEL [--data DATA]           whether and how the model can be trained\n"
    "  onnxtrain inspect MODEL                         which initializers train, and why; --graph: all nodes\n"
    "  onnxtrain plan    MODEL [--data DATA]           kernels and memory of a training step\n"
    "  onnxtrain new     KIND -o MODEL                 a network with fresh weights\n"
    "  onnxtrain ops | env                             supported operators; build and machine\n"
    "  onnxtrain help    TOPIC [NAME]                  optimizer, loss, schedule, data, new, metric, option: names, keys, defaults\n";

static const char examples[] = "\n"
                               "Examples\n"
                               "  onnxtrain models/lenet.onnx --data mnist\n"
                               "  onnxtrain net.onnx --data train.npz --val val.npz --loss mse --lr 1e-4 --epochs 50\n"
                               "  onnxtrain net.onnx --data mnist --optimizer sgd:lr=0.1,momentum=0.9 --schedule "
                               "cosine:warmup=100\n"
                               "  onnxtrain net.onnx --data train.npz --freeze 'backbone.*' -o tuned.onnx\n"
                               "  onnxtrain eval lenet-trained.onnx --data mnist\n";

static void print_row(const ot_option_info *r, FILE *f)
{
    const ot_registry *names = ot_topic_find(r->name);
    char name[80], extra[80] = "";
    snprintf(name, sizeof name, "%s%s%s%s%s", strlen(r->name) > 1 ? "--" : "-", r->name, r->argument ? " " : "",
             r->argument ? r->argument : "", r->letter && strlen(r->name) > 1 ? "" : "");
    if (r->value) snprintf(extra, sizeof extra, " (%s)", r->value);
    if (strlen(name) > 27) fprintf(f, "  %s\n  %27s", name, "");
    else fprintf(f, "  %-27s", name);
    fprintf(f, " %s%s%s\n", r->help, extra, r->repeats ? "; may be repeated" : "");
    if (!names) return;
    int at = fprintf(f, "  %27s", "");
    for (const ot_entry *const *e = names->entries; *e; e++) {
        if (at > 110) at = fprintf(f, "\n  %27s", "");
        at += fprintf(f, " %s", (*e)->name);
    }
    fputc('\n', f);
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
        print_row(r, f);
    }
}

ot_status ot_help_text(bool all, char **text, ot_error *err)
{
    OT_GIVEN(text);
    size_t size = 0;
    *text = NULL;
    FILE *f = open_memstream(text, &size);
    if (!f) return ot_fail(err, OT_E_NOMEM, "no memory for the help");
    fputs(usage, f);
    print_options(all, f);
    fputs(examples, f);
    if (all) {
        fputs("\nExit codes\n", f);
#define ROW(code, number, what) fprintf(f, "  %3d  %s\n", number, what);
        OT_STATUS_LIST(ROW)
#undef ROW
        fputs("  130, 143  stopped by a signal; the model is written\n", f);
    }
    if (ot_memstream_close(f)) return OT_OK;
    free(*text);
    *text = NULL;
    return ot_fail(err, OT_E_NOMEM, "no memory for the help");
}
