/* new.c - `onnxtrain new`: checks the options, runs the recipe, writes the file. */
#include "exporter/new.h"

#include <stdlib.h>

#include "exporter/build.h"

int ot_new_numbers(const char *text, char between, int64_t *list, int most)
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

/* Puts the default where *v is 0. */
static ot_status option_extent(const char *name, int64_t *v, int64_t usual, ot_error *err)
{
    if (*v == 0) *v = usual;
    if (*v < 1 || *v > OT_NEW_EXTENT_MAX)
        return ot_fail(err, OT_E_USAGE, "new: %s is %lld, expected 1 to %d", name, (long long)*v, OT_NEW_EXTENT_MAX);
    return OT_OK;
}

static int64_t usual(const ot_recipe *r, const char *key)
{
    return (int64_t)ot_key_number(ot_entry_key(&r->entry, key)->dflt);
}

/* hidden: room for the usual hidden layers. */
static ot_status hidden_resolve(const ot_recipe *r, ot_new_options *o, int64_t hidden[OT_NEW_HIDDEN], ot_error *err)
{
    const ot_key *k = ot_entry_key(&r->entry, "hidden");
    if (o->n_hidden && !k)
        return ot_fail(err, OT_E_USAGE, "new: hidden layers can be set for mlp only, not for %s", r->entry.name);
    if (k && !o->n_hidden) {
        o->n_hidden = ot_new_numbers(k->dflt, ',', hidden, OT_NEW_HIDDEN);
        o->hidden = hidden;
    }
    for (int i = 0; i < o->n_hidden; i++)
        if (o->hidden[i] < 1 || o->hidden[i] > OT_NEW_EXTENT_MAX)
            return ot_fail(err, OT_E_USAGE, "new: hidden layer %d has %lld units, expected 1 to %d", i + 1,
                           (long long)o->hidden[i], OT_NEW_EXTENT_MAX);
    return OT_OK;
}

/* The input is (N, tokens). */
static bool sequence(const ot_recipe *r) { return ot_entry_key(&r->entry, "input")->kind == OT_KEY_WHOLE; }

static ot_status options_resolve(const ot_recipe *r, ot_new_options *o, int64_t hidden[OT_NEW_HIDDEN], ot_error *err)
{
    const char *name = r->entry.name;
    int least = (int)ot_entry_key(&r->entry, "opset")->least;
    if (o->opset == 0) o->opset = (int)usual(r, "opset");
    if (o->scale == 0) o->scale = 1;
    if (o->opset < OT_NEW_OPSET_MIN || o->opset > OT_NEW_OPSET_MAX)
        return ot_fail(err, OT_E_USAGE, "new: opset is %d, expected %d to %d", o->opset, OT_NEW_OPSET_MIN,
                       OT_NEW_OPSET_MAX);
    if (o->opset < least)
        return ot_fail(err, OT_E_USAGE, "new: %s needs operators of opset %d, but opset is %d", name, least, o->opset);
    if (!(o->scale > 0 && o->scale <= OT_NEW_SCALE_MAX))
        return ot_fail(err, OT_E_USAGE, "new: the width multiplier is %g, expected above 0 and at most %g", o->scale,
                       OT_NEW_SCALE_MAX);
    if (o->batch < 0 || o->batch > OT_NEW_EXTENT_MAX)
        return ot_fail(err, OT_E_USAGE, "new: batch is %lld, expected 1 to %d, or 0 for a symbolic batch",
                       (long long)o->batch, OT_NEW_EXTENT_MAX);
    OT_TRY(hidden_resolve(r, o, hidden, err));
    OT_TRY(option_extent("classes", &o->classes, usual(r, "classes"), err));
    if (sequence(r) && o->channels > 0)
        return ot_fail(err, OT_E_USAGE, "new: the input of %s must be a number of tokens", name);
    if (!sequence(r) && o->tokens > 0)
        return ot_fail(
            err, OT_E_USAGE,
            "new: the input of %s must be channels, height and width, such as %s, or 1x1x%lld for %lld values", name,
            ot_entry_key(&r->entry, "input")->dflt, (long long)o->tokens, (long long)o->tokens);
    if (!sequence(r) && o->layers > 0)
        return ot_fail(err, OT_E_USAGE, "new: layers can be set for gpt2 and bert only, not for %s", name);
    if (sequence(r)) {
        OT_TRY(option_extent("tokens", &o->tokens, usual(r, "input"), err));
        return option_extent("layers", &o->layers, usual(r, "layers"), err);
    }
    int64_t size[3] = { 0 };
    (void)ot_new_numbers(ot_entry_key(&r->entry, "input")->dflt, 'x', size, 3);
    OT_TRY(option_extent("channels", &o->channels, size[0], err));
    OT_TRY(option_extent("height", &o->height, size[1], err));
    return option_extent("width", &o->width, size[2], err);
}

ot_status ot_new_model(const char *kind, const ot_new_options *o, const char *path, ot_error *err)
{
    const ot_recipe *r = ot_recipe_find(kind);
    ot_new_options options = o ? *o : (ot_new_options){ 0 };
    int64_t hidden[OT_NEW_HIDDEN];
    ot_status s = r ? options_resolve(r, &options, hidden, err) : OT_OK;
    if (s) return s;
    ot_arena *arena = ot_arena_new();
    if (!arena) return ot_fail(err, OT_E_NOMEM, "new: out of memory");
    if (!r) {
        s = ot_registry_unknown(&ot_recipes, "kind of model", kind, arena, err);
        ot_arena_free(arena);
        return s;
    }
    ot_net net;
    ot_net_begin(&net, arena, r->entry.name, &options, err);
    ot_feature y = r->build(&net, sequence(r) ? ot_net_tokens(&net, "input") : ot_net_input(&net, r->flat));
    s = ot_net_end(&net, y, path);
    ot_arena_free(arena);
    return s;
}
