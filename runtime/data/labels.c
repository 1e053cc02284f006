/* labels.c - a target of numbers that a model has as names of its classes: 5 and 7 become 0 and 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/internal.h"

typedef struct label {
    int64_t value;
    int class;
} label;

static int by_value(const void *a, const void *b)
{
    int64_t x = ((const label *)a)->value, y = ((const label *)b)->value;
    return (x > y) - (x < y);
}

/* false: one of the names is no whole number as it is usually written. */
static bool read_labels(const char *const *name, int n, label *out)
{
    for (int i = 0; i < n; i++) {
        char again[32];
        out[i] = (label){ strtoll(name[i], NULL, 10), i };
        snprintf(again, sizeof again, "%lld", (long long)out[i].value);
        if (strcmp(again, name[i]) != 0) return false;
    }
    qsort(out, (size_t)n, sizeof *out, by_value);
    return true;
}

/* The target of one whole number per sample, among several the one that is called so; NULL: there is none. */
static ot_array *find_target(const ot_dataset *d)
{
    ot_array *found = NULL;
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        ot_array *a = &d->array[i];
        if (a->role != OT_ARRAY_TARGET) continue;
        if (!found || strcmp(found->t.name, "target") != 0) found = a;
        n++;
    }
    if (!found || found->source || (n > 1 && strcmp(found->t.name, "target") != 0)) return NULL;
    ot_error ignored = { 0 };
    bool one = found->t.rank == 1 || (found->t.rank == 2 && found->t.dim[1] == 1);
    return one && !ot_array_fits(found, OT_I64, &ignored) ? found : NULL;
}

ot_status ot_labels_match(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err)
{
    enum { IGNORED = -100 };
    ot_array *a = find_target(d);
    int64_t samples = a ? ot_array_elements(a) : 0;
    label *of = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *of);
    int64_t *class = ot_arena_alloc(d->arena, ((size_t)samples + 1) * sizeof *class);
    if (!of || !class) return ot_fail(err, OT_E_NOMEM, "%s: no memory for classes", d->name);
    if (!a || !read_labels(name, n, of)) return OT_OK;
    for (int64_t i = 0; i < samples; i++) {
        label key = { .value = ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i)) };
        const label *at = bsearch(&key, of, (size_t)n, sizeof *of, by_value);
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)key.value);
        if (!at && key.value != IGNORED) return ot_unknown_class(d, text, name, n, from, err);
        class[i] = at ? at->class : IGNORED;
    }
    a->t = (ot_tensor){ .name = a->t.name, .dtype = OT_I64, .rank = 1, .dim = { samples }, .data = class };
    a->mapped = a->same = false;
    a->row = NULL;
    a->stride = 0;
    d->labelled = true;
    return OT_OK;
}
