/* new.c - `onnxtrain new`: checks the options, runs the recipe, writes the file. */
#include "exporter/new.h"

#include <stdio.h>
#include <string.h>

#include "exporter/build.h"

/* No network beyond these fits into the 2 GiB of a file; and their products do not overflow. */
#define NEW_EXTENT_MAX 65536
#define NEW_SCALE_MAX  64.0

const ot_new_kind *ot_new_kind_at(int i)
{
    return i >= 0 && i < ot_n_recipes ? &ot_recipes[i].kind : NULL;
}

static const ot_recipe *recipe_find(const char *kind)
{
    for (int i = 0; i < ot_n_recipes; i++)
        if (!strcmp(ot_recipes[i].kind.name, kind)) return &ot_recipes[i];
    return NULL;
}

static ot_status recipe_unknown(const char *kind, ot_error *err)
{
    char known[256];
    size_t at = 0;
    for (int i = 0; i < ot_n_recipes && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, " %s", ot_recipes[i].kind.name);
    return ot_fail(err, OT_E_USAGE, "new: no kind of model is called '%s'; there are%s", kind, known);
}

/* Puts the default where *v is 0. */
static ot_status option_extent(const char *name, int64_t *v, int64_t usual, ot_error *err)
{
    if (*v == 0) *v = usual;
    if (*v < 1 || *v > NEW_EXTENT_MAX)
        return ot_fail(err, OT_E_USAGE, "new: %s is %lld; it must be 1 to %d", name, (long long)*v,
                       NEW_EXTENT_MAX);
    return OT_OK;
}

static ot_status options_resolve(const ot_recipe *r, ot_new_options *o, ot_error *err)
{
    if (o->opset == 0) o->opset = r->opset > 17 ? r->opset : 17;
    if (o->scale == 0) o->scale = 1;
    if (o->opset < OT_NEW_OPSET_MIN || o->opset > OT_NEW_OPSET_MAX)
        return ot_fail(err, OT_E_USAGE, "new: opset is %d; it must be %d to %d", o->opset,
                       OT_NEW_OPSET_MIN, OT_NEW_OPSET_MAX);
    if (o->opset < r->opset)
        return ot_fail(err, OT_E_USAGE, "new: %s needs operators of opset %d; opset is %d", r->kind.name, r->opset, o->opset);
    if (!(o->scale > 0 && o->scale <= NEW_SCALE_MAX))
        return ot_fail(err, OT_E_USAGE, "new: the width multiplier is %g; it must be above 0 and at most %g",
                       o->scale, NEW_SCALE_MAX);
    if (o->batch < 0 || o->batch > NEW_EXTENT_MAX)
        return ot_fail(err, OT_E_USAGE, "new: batch is %lld; it must be 1 to %d, or 0 for a symbolic one",
                       (long long)o->batch, NEW_EXTENT_MAX);
    if (o->n_hidden && strcmp(r->kind.name, "mlp") != 0)
        return ot_fail(err, OT_E_USAGE, "new: hidden layers are mlp's; %s has its own", r->kind.name);
    for (int i = 0; i < o->n_hidden; i++)
        if (o->hidden[i] < 1 || o->hidden[i] > NEW_EXTENT_MAX)
            return ot_fail(err, OT_E_USAGE, "new: hidden layer %d has %lld units; it must be 1 to %d", i + 1,
                           (long long)o->hidden[i], NEW_EXTENT_MAX);
    OT_TRY(option_extent("classes", &o->classes, r->classes ? r->classes : 10, err));
    bool sequence = r->tokens > 0;
    if (sequence ? o->channels > 0 : o->tokens > 0 || o->layers > 0)
        return ot_fail(err, OT_E_USAGE, sequence ? "new: the input of %s is a number of tokens" : "new: tokens and layers are gpt2's and bert's; %s has its own",
                       r->kind.name);
    if (sequence) {
        OT_TRY(option_extent("tokens", &o->tokens, r->tokens, err));
        return option_extent("layers", &o->layers, r->layers, err);
    }
    OT_TRY(option_extent("channels", &o->channels, r->channels, err));
    OT_TRY(option_extent("height", &o->height, r->height, err));
    return option_extent("width", &o->width, r->width, err);
}

ot_status ot_new_model(const char *kind, const ot_new_options *o, const char *path, ot_error *err)
{
    const ot_recipe *r = recipe_find(kind);
    if (!r) return recipe_unknown(kind, err);
    ot_new_options options = o ? *o : (ot_new_options){ 0 };
    OT_TRY(options_resolve(r, &options, err));
    ot_arena *arena = ot_arena_new();
    if (!arena) return ot_fail(err, OT_E_NOMEM, "new: out of memory");
    ot_net net;
    ot_net_begin(&net, arena, r->kind.name, &options, err);
    ot_feature y = r->build(&net, r->tokens ? ot_net_tokens(&net, "input") : ot_net_input(&net, r->flat));
    ot_status s = ot_net_end(&net, y, path);
    ot_arena_free(arena);
    return s;
}
