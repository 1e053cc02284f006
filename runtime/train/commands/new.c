/* new.c - the command new: passes its options to exporter/new.h. */

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exporter/new.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/run/files.h"
#include "runtime/train/options/options.h"

static ot_status unknown_kind(const char *kind, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    ot_status s = a ? ot_registry_unknown(&ot_recipes, "kind of model", kind, a, err)
                    : ot_fail(err, OT_E_NOMEM, "new: out of memory");
    ot_arena_free(a);
    return s;
}

static ot_status check_place(const ot_options *o, const char *path, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    const char *what = a ? ot_arena_printf(a, "-o %s", path) : NULL;
    ot_inputs in = { .configs = a ? ot_options_configs(o, a) : NULL };
    ot_status s = what ? ot_output_check(&in, AT_FDCWD, path, OT_FILE_MODEL, what, err)
                       : ot_fail(err, OT_E_NOMEM, "no memory for a path");
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

/* Describes the written file. */
static ot_status describe(const char *path, const ot_entry *k, bool replaced, const ot_callbacks *cb, ot_error *err)
{
    char line[6000], name[4096], ends[600] = "";
    int64_t elements = 0, open;
    ot_model *m;
    ot_error none = { 0 };
    OT_TRY(ot_model_load(path, &m, err));
    const ot_imported *f = m->file;
    ot_graph *shaped = ot_dry_run_shapes(m, &open, &none);
    const ot_graph *g = shaped ? shaped : f->graph;
    for (int i = 0; i < f->n_sources; i++) /* scalars are constants of formulas */
        if (ot_is_float(f->sources[i].dtype) && f->sources[i].shape.rank) elements += ot_numel(&f->sources[i].shape);
    add_ends(ends, sizeof ends, f->graph->inputs, f->graph->n_inputs);
    snprintf(ends + strlen(ends), sizeof ends - strlen(ends), " -> ");
    add_ends(ends, sizeof ends, g->outputs, g->n_outputs);
    snprintf(line, sizeof line, "%s: %s: %s; %lld parameters%s", ot_shown(path, name, sizeof name), k->meaning, ends,
             (long long)elements, replaced ? "; the existing model was replaced" : "");
    cb->message(cb->user, OT_INFO, line);
    if (shaped) ot_graph_free(shaped);
    ot_model_free(m);
    return OT_OK;
}

/* The number of classes; 0: not given.  (A training takes other values, too.) */
static ot_status read_classes(const ot_options *o, int64_t *out, ot_error *err)
{
    const char *text = ot_options_get(o, "classes");
    double n = 0;
    if (text && (!ot_number(text, &n) || n != floor(n)))
        return ot_fail(err, OT_E_USAGE, "--classes: '%s' is not a whole number", text);
    if (text && !(n >= 1 && n <= 1e9))
        return ot_fail(err, OT_E_USAGE, "--classes: %s is out of range; expected 1 to 1000000000", text);
    *out = (int64_t)n;
    return OT_OK;
}

ot_status ot_new_file(const char *kind, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(kind);
    OT_GIVEN(o);
    int64_t size[3] = { 0 }, hidden[OT_NEW_HIDDEN], classes = 0;
    int n_hidden = 0;
    const ot_entry *found = ot_registry_find(&ot_recipes, kind);
    const char *input = ot_options_get(o, "input"), *layers = ot_options_get(o, "hidden"),
               *path = ot_options_get(o, "o");
    if (!found) return unknown_kind(kind, err);
    OT_TRY(read_classes(o, &classes, err));
    bool tokens = input && !strchr(input, 'x') && ot_new_numbers(input, 'x', size, 1) == 1;
    if (input && !tokens && ot_new_numbers(input, 'x', size, 3) != 3)
        return ot_fail(err, OT_E_USAGE, "--input: expected CxHxW such as 3x32x32, or a number of tokens, got '%s'",
                       input);
    if (layers && (n_hidden = ot_new_numbers(layers, ',', hidden, OT_NEW_HIDDEN)) < 0)
        return ot_fail(err, OT_E_USAGE, "--hidden: expected a list such as 128,64, got '%s'", layers);

    ot_new_options w = {
        .opset = (int)ot_options_int(o, "opset"),
        .classes = classes,
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
