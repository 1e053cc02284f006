/* new.c - the command new: its options for exporter/new.h. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/new.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/run/files.h"
#include "runtime/train/options/options.h"
#include "runtime/train/options/specs.h"

/* "3x32x32" or "128,64": whole numbers above 0.  Returns how many, -1: something else. */
static int read_numbers(const char *text, char between, int64_t *list, int most)
{
    int n = 0;
    while (n < most) {
        char *end;
        if (*text < '1' || *text > '9') return -1;
        long long v = strtoll(text, &end, 10);
        if (v <= 0 || v > 1000000000) return -1;
        list[n++] = v;
        if (!*end) return n;
        if (*end != between) return -1;
        text = end + 1;
    }
    return -1;
}

static ot_status no_kind(const char *kind, ot_error *err)
{
    int best = 3;
    const ot_new_kind *k, *near = NULL;
    char names[512] = "";
    for (int i = 0; (k = ot_new_kind_at(i)); i++) {
        int d = ot_edit_distance(kind, k->name, 2);
        if (d < best) best = d, near = k;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 k->name);
    }
    if (near)
        return ot_fail(err, OT_E_USAGE, "new: unknown kind '%s'; did you mean '%s'?", kind,
                       near->name);
    return ot_fail(err, OT_E_USAGE, "new: unknown kind '%s'; there are %s", kind, names);
}

static ot_status check_place(const ot_options *o, const char *path, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    const char *what = a ? ot_arena_printf(a, "-o %s", path) : NULL;
    ot_inputs in = { .configs = a ? ot_options_configs(o, a) : NULL };
    ot_status s = what ? ot_output_check(&in, AT_FDCWD, path, OT_FILE_MODEL, what, err) : ot_fail(err, OT_E_NOMEM, "no memory for a path");
    ot_arena_free(a);
    return s;
}

static void add_ends(char *line, size_t most, ot_value *const *list, int n)
{
    static const char *const batch[OT_MAX_RANK] = { "N" };
    char shape[256];
    for (int i = 0; i < n; i++) {
        size_t at = strlen(line);
        ot_value v = *list[i];
        v.dim_names = batch;
        snprintf(line + at, most - at, "%s%s %s", i ? ", " : "", v.name, ot_symbolic_shape(&v, shape));
    }
}

/* What the file says, as it was written: the text of its kind is about the usual sizes. */
static ot_status describe(const char *path, const ot_new_kind *k, bool replaced, const ot_callbacks *cb, ot_error *err)
{
    char line[6000], name[4096], ends[600] = "";
    int64_t elements = 0, open;
    ot_model *m;
    ot_error none = { 0 };
    OT_TRY(ot_model_load(path, &m, err));
    const ot_imported *f = m->file;
    ot_graph *shaped = ot_rehearse_shapes(m, &open, &none);
    const ot_graph *g = shaped ? shaped : f->graph;
    for (int i = 0; i < f->n_sources; i++) /* scalars are constants of formulas */
        if (ot_is_float(f->sources[i].dtype) && f->sources[i].shape.rank) elements += ot_numel(&f->sources[i].shape);
    add_ends(ends, sizeof ends, f->graph->inputs, f->graph->n_inputs);
    snprintf(ends + strlen(ends), sizeof ends - strlen(ends), " -> ");
    add_ends(ends, sizeof ends, g->outputs, g->n_outputs);
    snprintf(line, sizeof line, "%s: %.*s: %s; %lld parameters%s", ot_shown(path, name, sizeof name), (int)strcspn(k->text, "(") - 1, k->text, ends, (long long)elements,
             replaced ? "; the model that was there is replaced" : "");
    cb->message(cb->user, OT_INFO, line);
    if (shaped) ot_graph_free(shaped);
    ot_model_free(m);
    return OT_OK;
}

ot_status ot_new_file(const char *kind, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_GIVEN(kind);
    OT_GIVEN(o);
    enum { MOST_HIDDEN = 64 };
    int64_t size[3] = { 0 }, hidden[MOST_HIDDEN];
    int n_hidden = 0;
    const ot_new_kind *k, *found = NULL;
    const char *input = ot_options_get(o, "input"), *layers = ot_options_get(o, "hidden"),
               *path = ot_options_get(o, "o");
    for (int i = 0; (k = ot_new_kind_at(i)); i++)
        if (!strcmp(k->name, kind)) found = k;
    if (!found) return no_kind(kind, err);
    bool tokens = input && !strchr(input, 'x') && read_numbers(input, 'x', size, 1) == 1;
    if (input && !tokens && read_numbers(input, 'x', size, 3) != 3)
        return ot_fail(err, OT_E_USAGE, "--input: '%s' is neither CxHxW (such as 3x32x32) nor a number of tokens", input);
    if (layers && (n_hidden = read_numbers(layers, ',', hidden, MOST_HIDDEN)) < 0)
        return ot_fail(err, OT_E_USAGE, "--hidden: '%s' is not a list such as 128,64", layers);

    ot_new_options w = {
        .opset = (int)ot_options_int(o, "opset"),
        .classes = ot_options_int(o, "classes"),
        .channels = tokens ? 0 : size[0],
        .height = size[1],
        .width = size[2],
        .scale = ot_options_num(o, "scale"),
        .batch = ot_options_int(o, "batch-size"),
        .seed = (uint64_t)ot_options_int(o, "seed"),
        .n_hidden = n_hidden,
        .hidden = n_hidden ? hidden : NULL,
        .tokens = tokens ? size[0] : 0,
        .layers = ot_options_int(o, "layers"),
    };
    char own[256];
    if (!path) {
        snprintf(own, sizeof own, "%s.onnx", kind);
        path = own;
    }
    ot_file_id id;
    bool there = ot_file_of(AT_FDCWD, path, &id);
    OT_TRY(check_place(o, path, err));
    OT_TRY(ot_new_model(kind, &w, path, err));
    return cb && cb->message ? describe(path, found, there, cb, err) : OT_OK;
}
