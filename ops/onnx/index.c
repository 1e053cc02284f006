/* index.c - operators about coordinates: Trilu, OneHot, Range, EyeLike, ReverseSequence, Compress,
 * CenterCropPad.
 *
 * Spec    ai.onnx Trilu 14; OneHot 9, 11; Range 11, 27; EyeLike 9, 22; ReverseSequence 10; Compress 9, 11;
 *         CenterCropPad 18.  Sizes, limits and Compress's condition must be constants.
 * Grad    of what they are built from: a mask, a choice, a Take, a Pad. */
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ops/kernels/take.h"

/* Zeroed memory for a constant of the plan. */
static void *constant_bytes(ot_build *b, const ot_shape *s, ot_dtype t)
{
    if (ot_broken(b)) return NULL;
    return ot_graph_alloc(b->graph, ot_bytes(s, t) + 1);
}

/* ---- Trilu ----------------------------------------------------------------- */

typedef struct trilu_attrs { int64_t upper; } trilu_attrs;

static const ot_attr trilu_rows[] = {
    { "upper", OT_INT, offsetof(trilu_attrs, upper), 1, NULL },
    { 0 }
};

static ot_status trilu_infer(ot_node *n, ot_error *err)
{
    ot_ints k;
    OT_TRY(ot_const_ints(n, 1, &k, err));
    if (k.n > 1 || n->in[0]->shape.rank < 2) return ot_node_fail(n, err, "matrices and one diagonal are needed");
    return ot_like(n->out[0], n->in[0]);
}

static void trilu_lower(ot_build *b)
{
    const ot_shape *x = &b->node->in[0]->shape;
    ot_shape        s = { .rank = 2, .dim = { x->dim[x->rank - 2], x->dim[x->rank - 1] } };
    bool            upper = ((const trilu_attrs *)b->node->attrs)->upper, *mask = constant_bytes(b, &s, OT_BOOL);
    ot_ints         list;
    if (!mask || ot_const_ints(b->node, 1, &list, b->graph->err) != OT_OK) return;
    int64_t k = list.n ? list.v[0] : 0;
    /* Beyond the corners every diagonal is the same, and nothing overflows. */
    if (k > s.dim[1]) k = s.dim[1];
    if (k < -s.dim[0]) k = -s.dim[0];
    for (int64_t i = 0; i < s.dim[0]; i++)
        for (int64_t j = 0; j < s.dim[1]; j++) mask[i * s.dim[1] + j] = upper ? j - i >= k : j - i <= k;
    ot_value *m = ot_graph_const_of(b->graph, "", OT_BOOL, &s, mask);
    ot_value *zero = ot_scalar(b, b->node->in[0]->dtype, 0);
    ot_yield(b, 0, ot_map3(b, OT_FN_Where, 0, 0, m, b->node->in[0], zero));
}

const ot_op ot_op_Trilu = {
    .name = "Trilu", .types = { "Ti", .T = OT_SET_COMMON }, .since = 14, .in = { 1, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = trilu_rows, .attr_size = sizeof(trilu_attrs), .infer = trilu_infer, .lower = trilu_lower,
};

/* ---- OneHot ---------------------------------------------------------------- */

typedef struct onehot_attrs { int64_t axis; } onehot_attrs;

static const ot_attr onehot_rows[] = {
    { "axis", OT_INT, offsetof(onehot_attrs, axis), -1, NULL },
    { 0 }
};

/* depth may come as a float. */
static ot_status onehot_shape(const ot_node *n, int *axis, int64_t *depth, ot_shape *y, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    const ot_value *d = n->in[1];
    if (!ot_is_const(d) || ot_numel(&d->shape) != 1)
        return ot_node_fail(n, err, "depth must be one number that is known before the run");
    double v = ot_get_f64(d->data, d->dtype, 0);
    if (!(v >= 0 && v < 0x1p62)) return ot_node_fail(n, err, "a depth of %g", v);
    *depth = (int64_t)v;
    if (x->rank == OT_MAX_RANK || !ot_axis(((const onehot_attrs *)n->attrs)->axis, x->rank + 1, axis))
        return ot_node_fail(n, err, "axis %lld of a result of rank %d", (long long)((const onehot_attrs *)n->attrs)->axis, x->rank + 1);
    *y = (ot_shape){ .rank = x->rank + 1 };
    for (int i = 0, e = 0; i < y->rank; i++) y->dim[i] = i == *axis ? *depth : x->dim[e++];
    return OT_OK;
}

static ot_status onehot_infer(ot_node *n, ot_error *err)
{
    ot_shape y;
    int      axis;
    int64_t  depth;
    OT_TRY(onehot_shape(n, &axis, &depth, &y, err));
    if (n->in[2]->shape.rank != 1 || n->in[2]->shape.dim[0] != 2) return ot_node_fail(n, err, "values must be [off, on]");
    if (!ot_shape_fits(&y, OT_I64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[2]->dtype, &y);
}

/* Element i of a list of two, as a scalar. */
static ot_value *pick(ot_build *b, ot_value *values, int64_t i)
{
    return ot_emit(b, &ot_op_Gather, NULL, OT_IN(values, ot_scalar(b, OT_I64, (double)i)));
}

static void onehot_lower(ot_build *b)
{
    ot_shape y, line = { .rank = 0 }, one;
    int      axis;
    int64_t  depth, *range;
    if (onehot_shape(b->node, &axis, &depth, &y, b->graph->err) != OT_OK) return;
    one = line = y;
    for (int d = 0; d < y.rank; d++) line.dim[d] = d == axis ? depth : 1;
    one.dim[axis] = 1;
    range = constant_bytes(b, &line, OT_I64);
    if (!range) return;
    for (int64_t i = 0; i < depth; i++) range[i] = i;
    ot_value *index = ot_view(b, ot_cast(b, b->node->in[0], OT_I64), &one), *values = b->node->in[2];
    ot_value *low = ot_map2(b, OT_FN_Less, 0, 0, index, ot_scalar(b, OT_I64, 0));
    ot_value *end = ot_map2(b, OT_FN_Add, 0, 0, index, ot_scalar(b, OT_I64, (double)depth));
    index = ot_map3(b, OT_FN_Where, 0, 0, low, end, index);
    ot_value *hit = ot_map2(b, OT_FN_Equal, 0, 0, index, ot_graph_const_of(b->graph, "", OT_I64, &line, range));
    ot_yield(b, 0, ot_map3(b, OT_FN_Where, 0, 0, hit, pick(b, values, 1), pick(b, values, 0)));
}

const ot_op ot_op_OneHot = {
    .name = "OneHot", .types = { "UVT", .T = OT_SET_COMMON, .U = OT_SET_NUMBER, .V = OT_SET_NUMBER },
    .since = 11, .in = { 3, 3 }, .out = { 1, 1 }, .nondiff = 3,
    .attrs = onehot_rows, .attr_size = sizeof(onehot_attrs), .infer = onehot_infer, .lower = onehot_lower,
};

/* ---- Range ----------------------------------------------------------------- */

static ot_status range_infer(ot_node *n, ot_error *err)
{
    ot_dtype t = n->in[0]->dtype;
    for (int i = 0; i < 3; i++)
        if (!ot_is_const(n->in[i]) || ot_numel(&n->in[i]->shape) != 1 || n->in[i]->dtype != t)
            return ot_node_fail(n, err, "start, limit and delta must be numbers of one type, known before the run");
    double start = ot_get_f64(n->in[0]->data, t, 0), limit = ot_get_f64(n->in[1]->data, t, 0), delta = ot_get_f64(n->in[2]->data, t, 0);
    double count = delta ? ceil((limit - start) / delta) : NAN;
    if (ot_is_int(t) && delta) { /* exact, where doubles are not */
        int64_t d = ot_get_i64(n->in[2]->data, t, 0), span;
        if (d == INT64_MIN || __builtin_sub_overflow(ot_get_i64(n->in[1]->data, t, 0), ot_get_i64(n->in[0]->data, t, 0), &span))
            return ot_node_fail(n, err, "start %g, limit %g, delta %g do not make a range", start, limit, delta);
        int64_t by = d < 0 ? -d : d, way = d < 0 ? -span : span;
        count = way > 0 ? (double)((way - 1) / by + 1) : 0;
    }
    if (!(count < 0x1p56)) return ot_node_fail(n, err, "start %g, limit %g, delta %g do not make a range", start, limit, delta);
    ot_shape y = { .rank = 1, .dim = { count > 0 ? (int64_t)count : 0 } };
    if (!ot_shape_fits(&y, t)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], t, &y);
}

static void range_lower(ot_build *b)
{
    const ot_node  *n = b->node;
    const ot_value *y = n->out[0];
    ot_dtype        t = y->dtype;
    void           *bytes = constant_bytes(b, &y->shape, t);
    if (!bytes) return;
    double  start = ot_get_f64(n->in[0]->data, t, 0), delta = ot_get_f64(n->in[2]->data, t, 0);
    int64_t first = ot_is_int(t) ? ot_get_i64(n->in[0]->data, t, 0) : 0, by = ot_is_int(t) ? ot_get_i64(n->in[2]->data, t, 0) : 0;
    for (int64_t i = 0; i < y->shape.dim[0]; i++)
        if (ot_is_int(t)) ot_set_i64(bytes, t, i, first + i * by);
        else ot_set_f64(bytes, t, i, start + (double)i * delta);
    ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, t, &y->shape, bytes));
}

const ot_op ot_op_Range = {
    .name = "Range", .types = { "T", .T = OT_SET_FLOAT | OT_TYPE(OT_I16) | OT_SET_INDEX },
    .since = 11, .in = { 3, 3 }, .out = { 1, 1 }, .nondiff = 7,
    .infer = range_infer, .lower = range_lower, .grad_zero = "its inputs are constants",
};

/* ---- EyeLike --------------------------------------------------------------- */

typedef struct eye_attrs { int64_t dtype, k; } eye_attrs;

static const ot_attr eye_rows[] = {
    { "dtype", OT_INT, offsetof(eye_attrs, dtype), 0, NULL },
    { "k",     OT_INT, offsetof(eye_attrs, k),     0, NULL },
    { 0 }
};

static ot_status eye_infer(ot_node *n, ot_error *err)
{
    const eye_attrs *a = n->attrs;
    ot_dtype         t = a->dtype ? (ot_dtype)a->dtype : n->in[0]->dtype;
    if (n->in[0]->shape.rank != 2) return ot_node_fail(n, err, "x has rank %d; 2 is needed", n->in[0]->shape.rank);
    if (a->dtype < 0 || a->dtype > OT_I2 || ot_dtype_bits(t) < 8) return ot_node_fail(n, err, "element type %lld", (long long)a->dtype);
    return ot_set(n->out[0], t, &n->in[0]->shape);
}

static void eye_lower(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    int64_t         k = ((const eye_attrs *)b->node->attrs)->k, rows = y->shape.dim[0], columns = y->shape.dim[1];
    void           *bytes = constant_bytes(b, &y->shape, y->dtype);
    for (int64_t i = 0; bytes && i < rows; i++)
        if (k < columns && k > -rows && i + k >= 0 && i + k < columns) ot_set_f64(bytes, y->dtype, i * columns + i + k, 1);
    if (bytes) ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, bytes));
}

const ot_op ot_op_EyeLike = {
    .name = "EyeLike", .types = { "T", .T = OT_SET_COMMON }, .since = 22, .in = { 1, 1 }, .out = { 1, 1 }, .nondiff = 1,
    .attrs = eye_rows, .attr_size = sizeof(eye_attrs), .infer = eye_infer, .lower = eye_lower,
    .grad_zero = "only the shape of x is read",
};

/* ---- ReverseSequence ------------------------------------------------------- */

typedef struct reverse_attrs { int64_t batch_axis, time_axis; } reverse_attrs;

static const ot_attr reverse_rows[] = {
    { "batch_axis", OT_INT, offsetof(reverse_attrs, batch_axis), 1, NULL },
    { "time_axis",  OT_INT, offsetof(reverse_attrs, time_axis),  0, NULL },
    { 0 }
};

static ot_status reverse_infer(ot_node *n, ot_error *err)
{
    const reverse_attrs *a = n->attrs;
    const ot_shape      *x = &n->in[0]->shape, *l = &n->in[1]->shape;
    if (x->rank < 2 || a->batch_axis + a->time_axis != 1 || a->batch_axis < 0 || a->time_axis < 0)
        return ot_node_fail(n, err, "batch and time must be axes 0 and 1");
    if (l->rank != 1 || l->dim[0] != x->dim[a->batch_axis])
        return ot_node_fail(n, err, "one length for each of %lld sequences is needed", (long long)x->dim[a->batch_axis]);
    OT_TRY(ot_index_check(n, 1, 0, 1, 0, x->dim[a->time_axis], err));
    return ot_like(n->out[0], n->in[0]);
}

/* Row (t, b) of x comes from row (length - 1 - t, b) within the sequence. */
static void reverse_lower(ot_build *b)
{
    const ot_shape *x = &b->node->in[0]->shape;
    int             ta = (int)((const reverse_attrs *)b->node->attrs)->time_axis, ba = 1 - ta;
    int64_t         T = x->dim[ta], B = x->dim[ba], inner = 1;
    for (int d = 2; d < x->rank; d++) inner *= x->dim[d];
    ot_shape times = { .rank = 2, .dim = { 1, 1 } }, batches = times, rows = { .rank = 2, .dim = { T * B, inner } };
    times.dim[ta] = T;
    batches.dim[ba] = B;
    int64_t *t = constant_bytes(b, &times, OT_I64), *first = constant_bytes(b, &batches, OT_I64);
    if (!t || !first) return;
    for (int64_t i = 0; i < T; i++) t[i] = i;
    for (int64_t i = 0; i < B; i++) first[i] = i * (ba == 0 ? T : 1);
    ot_value *time = ot_graph_const_of(b->graph, "", OT_I64, &times, t);
    ot_value *length = ot_view(b, ot_counts(b, b->node->in[1], T), &batches);
    ot_value *back = ot_map2(b, OT_FN_Sub, 0, 0, ot_map2(b, OT_FN_Sub, 0, 0, length, ot_scalar(b, OT_I64, 1)), time);
    ot_value *from = ot_map3(b, OT_FN_Where, 0, 0, ot_map2(b, OT_FN_Less, 0, 0, time, length), back, time);
    from = ot_map2(b, OT_FN_Mul, 0, 0, from, ot_scalar(b, OT_I64, ta == 0 ? (double)B : 1));
    from = ot_map2(b, OT_FN_Add, 0, 0, from, ot_graph_const_of(b->graph, "", OT_I64, &batches, first));
    ot_value *place = ot_view(b, from, &(ot_shape){ .rank = 1, .dim = { T * B } });
    ot_value *y = ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(ot_view(b, b->node->in[0], &rows), place));
    ot_yield(b, 0, ot_view(b, y, x));
}

const ot_op ot_op_ReverseSequence = {
    .name = "ReverseSequence", .types = { "Ti", .T = OT_SET_COMMON },
    .since = 10, .in = { 2, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = reverse_rows, .attr_size = sizeof(reverse_attrs), .infer = reverse_infer, .lower = reverse_lower,
};

/* ---- Compress -------------------------------------------------------------- */

#define NO_AXIS (-0x1p62)

typedef struct compress_attrs { int64_t axis; } compress_attrs;

static const ot_attr compress_rows[] = {
    { "axis", OT_INT, offsetof(compress_attrs, axis), NO_AXIS, NULL },
    { 0 }
};

/* Along which axis, and whether x is flattened first. */
static ot_status compress_axis(const ot_node *n, int *axis, bool *flat, int64_t *count, ot_error *err)
{
    int64_t         a = ((const compress_attrs *)n->attrs)->axis;
    const ot_value *c = n->in[1];
    *flat = a == (int64_t)NO_AXIS;
    *axis = 0;
    if (!*flat && !ot_axis(a, n->in[0]->shape.rank, axis))
        return ot_node_fail(n, err, "axis %lld of a tensor of rank %d", (long long)a, n->in[0]->shape.rank);
    if (!ot_is_const(c) || c->dtype != OT_BOOL || c->shape.rank != 1)
        return ot_node_fail(n, err, "the condition must be a list of bools that is known before the run");
    int64_t size = *flat ? ot_numel(&n->in[0]->shape) : n->in[0]->shape.dim[*axis];
    if (c->shape.dim[0] > size) return ot_node_fail(n, err, "%lld conditions for %lld elements", (long long)c->shape.dim[0], (long long)size);
    *count = 0;
    for (int64_t i = 0; i < c->shape.dim[0]; i++) *count += ((const uint8_t *)c->data)[i] != 0;
    return OT_OK;
}

static ot_status compress_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    int      axis;
    bool     flat;
    int64_t  count;
    OT_TRY(compress_axis(n, &axis, &flat, &count, err));
    if (flat) y.rank = 1;
    y.dim[axis] = count;
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void compress_lower(ot_build *b)
{
    int      axis;
    bool     flat;
    int64_t  count, total = ot_numel(&b->node->in[0]->shape);
    if (compress_axis(b->node, &axis, &flat, &count, b->graph->err) != OT_OK) return;
    ot_shape       s = { .rank = 1, .dim = { count } };
    int64_t       *list = constant_bytes(b, &s, OT_I64);
    const ot_value *c = b->node->in[1];
    if (!list) return;
    for (int64_t i = 0, k = 0; i < c->shape.dim[0]; i++)
        if (((const uint8_t *)c->data)[i]) list[k++] = i;
    ot_value *x = flat ? ot_view(b, b->node->in[0], &(ot_shape){ .rank = 1, .dim = { total } }) : b->node->in[0];
    ot_yield(b, 0, ot_emit(b, &ot_op_Take, &(ot_take){ axis }, OT_IN(x, ot_graph_const_of(b->graph, "", OT_I64, &s, list))));
}

const ot_op ot_op_Compress = {
    .name = "Compress", .types = { "Tb", .T = OT_SET_COMMON }, .since = 11, .in = { 2, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = compress_rows, .attr_size = sizeof(compress_attrs), .infer = compress_infer, .lower = compress_lower,
};

/* ---- CenterCropPad --------------------------------------------------------- */

typedef struct center_attrs { ot_ints axes; } center_attrs;

static const ot_attr center_rows[] = {
    { "axes", OT_INTS, offsetof(center_attrs, axes), 0, NULL },
    { 0 }
};

static ot_status center_pads(const ot_node *n, int64_t pads[2 * OT_MAX_RANK], ot_shape *y, ot_error *err)
{
    const ot_ints *axes = &((const center_attrs *)n->attrs)->axes;
    ot_shape       want;
    *y = n->in[0]->shape;
    OT_TRY(ot_shape_input(n, 1, &want, err));
    if (want.rank != (axes->n ? axes->n : y->rank))
        return ot_node_fail(n, err, "%d sizes for %d axes", want.rank, axes->n ? axes->n : y->rank);
    memset(pads, 0, 2 * OT_MAX_RANK * sizeof *pads);
    for (int i = 0; i < want.rank; i++) {
        int d = i;
        if (axes->n && !ot_axis(axes->v[i], y->rank, &d)) return ot_node_fail(n, err, "axis %lld", (long long)axes->v[i]);
        int64_t more = want.dim[i] - n->in[0]->shape.dim[d];
        pads[d] = more < 0 ? -(-more / 2) : more / 2;
        pads[d + y->rank] = more - pads[d];
        y->dim[d] = want.dim[i];
    }
    return OT_OK;
}

static ot_status center_infer(ot_node *n, ot_error *err)
{
    int64_t  pads[2 * OT_MAX_RANK];
    ot_shape y;
    OT_TRY(center_pads(n, pads, &y, err));
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void center_lower(ot_build *b)
{
    int64_t  pads[2 * OT_MAX_RANK];
    ot_shape y;
    if (center_pads(b->node, pads, &y, b->graph->err) != OT_OK) return;
    ot_yield(b, 0, ot_emit(b, &ot_op_Pad, NULL, OT_IN(b->node->in[0], ot_ints_const(b, pads, 2 * y.rank))));
}

const ot_op ot_op_CenterCropPad = {
    .name = "CenterCropPad", .types = { "Tx", .T = OT_SET_COMMON }, .since = 18, .in = { 2, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = center_rows, .attr_size = sizeof(center_attrs), .infer = center_infer, .lower = center_lower,
};
