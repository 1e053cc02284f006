/* unique.c - Unique: the elements or slices that differ, where each is first, and how many there are.
 *
 * Spec    ai.onnx Unique 11, 28.  How many are left is a size, so x must be known before the run.
 *         NaNs are equal to each other and larger than any number.
 * Shapes  y: (u), or x with u slices on `axis`   indices, counts: (u)   inverse: one number per element or slice
 * Grad    none: y is a constant, the others are indices. */
#include "ops/onnx/counted.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NO_AXIS (-0x1p62)

typedef struct unique_attrs {
    int64_t axis, sorted;
} unique_attrs;

static const ot_attr unique_rows[] = {
    { "axis", OT_INT, offsetof(unique_attrs, axis), NO_AXIS, NULL },
    { "sorted", OT_INT, offsetof(unique_attrs, sorted), 1, NULL },
    { 0 },
};

/* Slice `index` of x, seen as (outer, n, inner). */
typedef struct slice {
    const ot_value *x;
    int64_t outer, n, inner, index;
} slice;

static int numbers(const ot_value *x, int64_t i, int64_t j)
{
    if (ot_is_float(x->dtype)) {
        double a = ot_get_f64(x->data, x->dtype, i), c = ot_get_f64(x->data, x->dtype, j);
        if (a != a || c != c) return (a != a) - (c != c);
        return (a > c) - (a < c);
    }
    if (x->dtype == OT_U64) {
        uint64_t a = (uint64_t)ot_get_i64(x->data, x->dtype, i), c = (uint64_t)ot_get_i64(x->data, x->dtype, j);
        return (a > c) - (a < c);
    }
    int64_t a = ot_get_i64(x->data, x->dtype, i), c = ot_get_i64(x->data, x->dtype, j);
    return (a > c) - (a < c);
}

static int slices(const slice *a, const slice *c)
{
    int d = 0;
    for (int64_t o = 0; o < a->outer && !d; o++)
        for (int64_t k = 0; k < a->inner && !d; k++)
            d = numbers(a->x, (o * a->n + a->index) * a->inner + k, (o * a->n + c->index) * a->inner + k);
    return d;
}

static int by_value(const void *a, const void *c)
{
    const slice *s = a, *t = c;
    int d = slices(s, t);
    return d ? d : (s->index > t->index) - (s->index < t->index);
}

static ot_status unique_split(const ot_node *n, slice *s, int *axis, ot_error *err)
{
    int64_t a = ((const unique_attrs *)n->attrs)->axis;
    const ot_value *x = n->in[0];
    *axis = -1;
    if (!ot_is_const(x))
        return ot_node_fail(n, err,
                            "x must be known before the run, because the number of unique "
                            "elements is a size");
    *s = (slice){ x, 1, ot_numel(&x->shape), 1, 0 };
    if (a == (int64_t)NO_AXIS) return OT_OK;
    OT_TRY(ot_node_axis(n, a, x->shape.rank, axis, err));
    s->n = x->shape.dim[*axis];
    for (int d = 0; d < x->shape.rank; d++)
        if (d != *axis) *(d < *axis ? &s->outer : &s->inner) *= x->shape.dim[d];
    return OT_OK;
}

/* first[u]: the first slice of group u; group[i]: that of slice i; both by value, in the order of first occurrence if unsorted. */
typedef struct groups {
    int64_t n, *first, *group, *count;
} groups;

static ot_status group(ot_node *n, const slice *s, groups *g, ot_error *err)
{
    int64_t size = s->n, each = s->outer * s->inner, work;
    if (s->n > (int64_t)1 << 40) return ot_counted_too_long(n, err); /* slices of no elements can be that many */
    for (int64_t k = s->n; k > 1; k /= 2) size += s->n;
    if (!ot_mul(size, each > 0 ? each : 1, &work) || !ot_counted_afford(n, work)) return ot_counted_too_long(n, err);
    slice *list = ot_node_alloc(n, (size_t)(s->n + 1) * sizeof *list);
    int64_t *all = ot_node_alloc(n, (size_t)(s->n + 1) * 4 * sizeof *all), *rank = all + 3 * (s->n + 1);
    if (!list || !all) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    *g = (groups){ 0, all, all + s->n + 1, all + 2 * (s->n + 1) };
    for (int64_t i = 0; i < s->n; i++) {
        list[i] = *s;
        list[i].index = i;
    }
    if (s->n) qsort(list, (size_t)s->n, sizeof *list, by_value);
    for (int64_t i = 0; i < s->n; i++) { /* equal ones are in order: the first of them is the first occurrence */
        if (i == 0 || slices(&list[i - 1], &list[i])) g->first[g->n++] = list[i].index;
        g->group[list[i].index] = g->n - 1;
    }
    if (!((const unique_attrs *)n->attrs)->sorted) {
        int64_t next = 0;
        for (int64_t i = 0; i < s->n; i++) {
            int64_t u = g->group[i];
            if (g->first[u] == i) rank[u] = next++;
            g->group[i] = rank[u];
        }
        for (int64_t i = s->n - 1; i >= 0; i--) g->first[g->group[i]] = i;
    }
    for (int64_t i = 0; i < s->n; i++) g->count[g->group[i]]++;
    return OT_OK;
}

static ot_status unique_infer(ot_node *n, ot_error *err)
{
    slice s;
    groups g = { 0 };
    int axis;
    ot_status status = OT_OK;
    OT_TRY(unique_split(n, &s, &axis, err));
    OT_TRY(group(n, &s, &g, err));
    const ot_value *x = n->in[0];
    ot_shape y = x->shape, list = { .rank = 1, .dim = { g.n } }, all = { .rank = 1, .dim = { s.n } };
    size_t size = (size_t)ot_dtype_bits(x->dtype) / 8;
    if (axis < 0) y = list;
    else y.dim[axis] = g.n;
    char *to = ot_counted_output(n, 0, x->dtype, &y, &status, err);
    int64_t *index = ot_counted_output(n, 1, OT_I64, &list, &status, err),
            *inverse = ot_counted_output(n, 2, OT_I64, &all, &status, err);
    int64_t *count = ot_counted_output(n, 3, OT_I64, &list, &status, err);
    for (int64_t o = 0; o < s.outer && to; o++)
        for (int64_t u = 0; u < g.n; u++)
            memcpy(to + (size_t)((o * g.n + u) * s.inner) * size,
                   (const char *)x->data + (size_t)((o * s.n + g.first[u]) * s.inner) * size, (size_t)s.inner * size);
    for (int64_t u = 0; u < g.n; u++) {
        if (index) index[u] = g.first[u];
        if (count) count[u] = g.count[u];
    }
    for (int64_t i = 0; i < s.n && inverse; i++) inverse[i] = g.group[i];
    return status;
}

const ot_op ot_op_Unique = {
    .name = "Unique",
    .types = { "T", .T = OT_SET_COMMON },
    .since = 28,
    .in = { 1, 1 },
    .out = { 1, 4 },
    .flags = OT_COUNTED,
    .nondiff = 1,
    .attrs = unique_rows,
    .attr_size = sizeof(unique_attrs),
    .infer = unique_infer,
    .lower = ot_counted_lower,
    .grad_zero = "its input is a constant",
};
