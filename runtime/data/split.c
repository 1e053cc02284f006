/* split.c - keeps a part of a data set back: --val-split, --folds.
 *
 * Which samples are kept depends on (seed, fraction, targets) only.  Where the target is one whole number per sample, every
 * class gives its share: floor(fraction * n), and those with the largest remainders one more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/internal.h"

enum { MOST_CLASSES = 4096, MANY_CLASSES = 100 };

/* The epoch whose order picks the samples; no training gets so far. */
static const uint64_t split_epoch = UINT64_MAX;

typedef struct class_count {
    int64_t value, n, quota;
    double remainder;
} class_count;

/* The target by which samples are classes: "target", else the first; NULL: none has one number per sample. */
static const ot_array *class_array(const ot_dataset *d)
{
    const ot_array *first = NULL;
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        bool one = !a->whole && a->t.dtype != OT_STRING && ot_array_elements(a) == d->samples;
        if (a->role != OT_ARRAY_TARGET || !one) continue;
        if (!first || !strcmp(a->t.name, "target")) first = a;
    }
    return first;
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int by_remainder(const void *a, const void *b)
{
    const class_count *x = a, *y = b;
    if (x->remainder != y->remainder) return x->remainder < y->remainder ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

static int by_class(const void *a, const void *b)
{
    const class_count *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* The class of every sample, and the classes in order of their value; *n 0: the target is no class. */
static void find_classes(const ot_dataset *d, int64_t *value, int64_t *sorted, class_count *c, int *n)
{
    const ot_array *a = class_array(d);
    *n = 0;
    for (int64_t i = 0; a && i < d->samples; i++) {
        int64_t at = ot_array_at(a, i);
        double v = ot_is_float(a->t.dtype) ? ot_get_f64(a->t.data, a->t.dtype, at) : 0;
        if (v != floor(v) || fabs(v) > 1e9) return;
        value[i] = ot_is_float(a->t.dtype) ? (int64_t)v : ot_get_i64(a->t.data, a->t.dtype, at);
    }
    if (!a) return;
    memcpy(sorted, value, (size_t)d->samples * sizeof *sorted);
    qsort(sorted, (size_t)d->samples, sizeof *sorted, by_value);
    int count = 0;
    for (int64_t i = 0; i < d->samples; i++) {
        if (i && sorted[i] == sorted[i - 1]) {
            c[count - 1].n++;
            continue;
        }
        if (count == MOST_CLASSES) return;
        c[count++] = (class_count){ .value = sorted[i], .n = 1 };
    }
    /* Nearly every value is another, or many are far from each other: a measured quantity. */
    bool far = count > MANY_CLASSES && (uint64_t)c[count - 1].value - (uint64_t)c[0].value >= 2 * (uint64_t)count;
    *n = 2 * (int64_t)count <= d->samples && !far ? count : 0;
}

/* How many samples of each class are kept, `keep` in all. */
static void set_quotas(class_count *c, int n, double fraction, int64_t keep)
{
    int64_t left = keep;
    for (int i = 0; i < n; i++) {
        double share = fraction * (double)c[i].n;
        c[i].quota = (int64_t)floor(share);
        c[i].remainder = share - floor(share);
        left -= c[i].quota;
    }
    qsort(c, (size_t)n, sizeof *c, by_remainder);
    for (int i = 0; left > 0 && i < n; i++)
        if (c[i].quota < c[i].n) c[i].quota++, left--;
    for (int i = n - 1; left < 0 && i >= 0; i--) /* the least remainders give back what rounding took too much */
        if (c[i].quota > 0) c[i].quota--, left++;
    qsort(c, (size_t)n, sizeof *c, by_class);
}

static void mark_kept(const int64_t *order, int64_t samples, const int64_t *value, class_count *c, int n, int64_t keep,
                      bool *kept)
{
    for (int64_t i = 0; i < samples && keep > 0; i++) {
        class_count key = { .value = n ? value[order[i]] : 0 };
        class_count *of = n ? bsearch(&key, c, (size_t)n, sizeof *c, by_class) : NULL;
        if (n && (!of || !of->quota)) continue;
        if (of) of->quota--;
        kept[order[i]] = true;
        keep--;
    }
}

static int64_t row_bytes(const ot_array *a)
{
    int64_t n = a->t.dim[0] ? ot_array_elements(a) / a->t.dim[0] : 0;
    return a->t.dtype == OT_STRING ? n * (int64_t)sizeof(char *) : n * ot_dtype_bits(a->t.dtype) / 8;
}

/* Rows of which others are parts, or that are a file's, stay where they are: each part has a list of its own. */
static ot_status list_rows(ot_array *from, ot_array *to, const bool *kept, int64_t keep, ot_arena *mine,
                           ot_arena *other, ot_error *err)
{
    int64_t n = from->t.dim[0];
    int64_t *rest = ot_arena_alloc(mine, (size_t)(n - keep + 1) * sizeof *rest);
    int64_t *taken = ot_arena_alloc(other, (size_t)(keep + 1) * sizeof *taken);
    if (!rest || !taken) return ot_fail(err, OT_E_NOMEM, "no memory for the validation samples");
    for (int64_t i = 0, r = 0, t = 0; i < n; i++) {
        int64_t row = from->row ? from->row[i] : i;
        if (kept[i]) taken[t++] = row;
        else rest[r++] = row;
    }
    to->row = taken;
    from->row = rest;
    to->t.dim[0] = keep;
    from->t.dim[0] = n - keep;
    return OT_OK;
}

/* Moves the samples of an array that are kept to `to`, and closes the gaps. */
static ot_status move_rows(ot_array *from, ot_array *to, const bool *kept, int64_t keep, ot_arena *a, ot_error *err)
{
    int64_t bytes = row_bytes(from), n = from->t.dim[0];
    char *rows = ot_arena_alloc(a, (size_t)(bytes * keep) + 1), *at = rows, *p = from->t.data, *end = p;
    if (!rows) return ot_fail(err, OT_E_NOMEM, "no memory for the validation samples");
    for (int64_t i = 0; i < n; i++) {
        char **into = kept[i] ? &at : &end;
        if (*into != p + i * bytes) memmove(*into, p + i * bytes, (size_t)bytes);
        *into += bytes;
    }
    to->t.data = rows;
    to->t.dim[0] = keep;
    from->t.dim[0] = n - keep;
    return OT_OK;
}

/* The number that each sample has in its file, for messages. */
static ot_status number_samples(ot_dataset *d, ot_dataset *v, const bool *kept, int64_t samples, ot_error *err)
{
    int64_t *mine = ot_arena_alloc(d->arena, (size_t)(d->samples + 1) * sizeof *mine), *other;
    if (!mine || !(other = ot_arena_alloc(v->arena, (size_t)(v->samples + 1) * sizeof *other)))
        return ot_fail(err, OT_E_NOMEM, "no memory for the validation samples");
    d->origin = mine;
    v->origin = other;
    for (int64_t i = 0; i < samples; i++) *(kept[i] ? other++ : mine++) = i;
    return OT_OK;
}

static ot_status cut(ot_dataset *d, const bool *kept, int64_t keep, ot_dataset *v, ot_error *err)
{
    ot_arena *own = v->arena;
    const char *name = ot_arena_printf(own, "%s (kept back)", d->name);
    ot_array *arrays = ot_arena_alloc(own, (size_t)(d->n + 1) * sizeof *arrays);
    int64_t samples = d->samples;
    uint64_t content = ot_dataset_content(d);
    if (!name || !arrays) return ot_fail(err, OT_E_NOMEM, "no memory for the validation samples");
    *v = *d;
    v->arena = own;
    v->members = NULL; /* they stay d's */
    v->name = name;
    v->array = arrays;
    v->notes = NULL;
    if (d->n) memcpy(arrays, d->array, (size_t)d->n * sizeof *arrays);
    for (int i = 0; i < d->n; i++) {
        ot_array *x = &d->array[i];
        if (x->whole) continue;
        if (x->same) {
            arrays[i].t.dim[0] = keep;
            x->t.dim[0] = samples - keep;
            continue;
        }
        bool moves = !x->mapped && !x->stride && !x->row;
        OT_TRY(moves ? move_rows(x, &arrays[i], kept, keep, own, err)
                     : list_rows(x, &arrays[i], kept, keep, d->arena, own, err));
    }
    d->samples = samples - keep;
    v->samples = keep;
    v->hash = ot_hash(d->hash, kept, (size_t)samples * sizeof *kept);
    v->split = ot_hash(content, kept, (size_t)samples * sizeof *kept);
    return number_samples(d, v, kept, samples, err);
}

/* Deals the samples to the folds in turn, class after class, each class in the order that was drawn.  Returns how many the
 * fold gets. */
static int64_t mark_fold(const int64_t *order, int64_t samples, const int64_t *value, class_count *c, int n, int fold,
                         int folds, bool *kept)
{
    int64_t start = 0, got = 0, all = 0;
    for (int i = 0; i < n; i++) {
        c[i].quota = start; /* the place of its next sample */
        start += c[i].n;
    }
    for (int64_t i = 0; i < samples; i++) {
        class_count key = { .value = n ? value[order[i]] : 0 };
        class_count *of = n ? bsearch(&key, c, (size_t)n, sizeof *c, by_class) : NULL;
        int64_t place = of ? of->quota++ : all++;
        kept[order[i]] = place % folds == fold - 1;
        got += kept[order[i]];
    }
    return got;
}

static ot_status check_arrays(const ot_dataset *d, ot_error *err)
{
    for (int i = 0; i < d->n; i++)
        if (!d->array[i].whole && d->array[i].t.dtype != OT_STRING && ot_dtype_bits(d->array[i].t.dtype) < 8)
            return ot_fail(err, OT_E_DATA,
                           "%s: array '%s' has elements smaller than a byte and cannot be split; use --val", d->name,
                           d->array[i].t.name);
    return OT_OK;
}

/* Those that are classes: OT_IGNORED gives its share, too, but is none. */
static int count_classes(const class_count *c, int n)
{
    int count = n;
    for (int i = 0; i < n; i++) count -= c[i].value == OT_IGNORED;
    return count;
}

/* folds 0: a fraction is kept, else one of the folds. */
static ot_status keep_back(ot_dataset *d, double fraction, int fold, int folds, uint64_t seed, ot_dataset **out,
                           int *classes, ot_error *err)
{
    int64_t n = d->samples, keep = (int64_t)llround(fraction * (double)n);
    if (d->windows) return ot_windows_keep(d, fraction, fold, folds, out, err);
    OT_TRY(check_arrays(d, err));
    keep = keep < 1 ? 1 : keep > n - 1 ? n - 1 : keep;
    ot_dataset *v = ot_dataset_new(d->name);
    ot_arena *a = ot_arena_new();
    int64_t *order = a ? ot_arena_alloc(a, (size_t)n * sizeof *order) : NULL;
    int64_t *value = a ? ot_arena_alloc(a, (size_t)n * sizeof *value) : NULL;
    class_count *c = a ? ot_arena_alloc(a, MOST_CLASSES * sizeof *c) : NULL;
    bool *kept = a ? ot_arena_alloc(a, (size_t)n) : NULL;
    ot_status s =
        v && order && value && c && kept ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the validation samples");
    if (!s && d->table && ot_table_has_windows(d->table)) { /* which overlap: the last ones */
        keep = ot_row_windows_keep(d->table, n, fraction, kept);
        s = cut(d, kept, keep, v, err);
    } else if (!s) {
        int found;
        find_classes(d, value, order, c, &found);
        *classes = count_classes(c, found);
        if (!folds) set_quotas(c, found, fraction, keep);
        ot_order(seed, split_epoch, n, order);
        if (folds) keep = mark_fold(order, n, value, c, found, fold, folds, kept);
        else mark_kept(order, n, value, c, found, keep, kept);
        s = cut(d, kept, keep, v, err);
    }
    if (a) ot_arena_free(a);
    if (s) ot_dataset_free(v);
    else *out = v;
    return s;
}

ot_status ot_dataset_split(ot_dataset *d, double fraction, uint64_t seed, ot_dataset **out, int *classes, ot_error *err)
{
    *out = NULL;
    *classes = 0;
    if (d->samples < 2)
        return ot_fail(err, OT_E_DATA, "%s: %lld sample%s cannot be split into training and validation", d->name,
                       (long long)d->samples, d->samples == 1 ? "" : "s");
    return keep_back(d, fraction, 0, 0, seed, out, classes, err);
}

ot_status ot_dataset_fold(ot_dataset *d, int fold, int folds, uint64_t seed, ot_dataset **out, int *classes,
                          ot_error *err)
{
    *out = NULL;
    *classes = 0;
    if (d->table && ot_table_has_windows(d->table))
        return ot_fail(err, OT_E_USAGE,
                       "--folds: samples are windows of rows in their order, and a fold would be trained on rows "
                       "that follow those that it is validated on; use --val-split");
    if (d->samples < folds)
        return ot_fail(err, OT_E_DATA, "%s: %lld sample%s cannot be split into %d folds", d->name,
                       (long long)d->samples, d->samples == 1 ? "" : "s", folds);
    return keep_back(d, 0, fold, folds, seed, out, classes, err);
}
