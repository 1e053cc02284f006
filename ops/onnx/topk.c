/* topk.c - TopKIndex: where the largest are; TopK, ArgMax, ArgMin from it.
 *
 * Spec    ai.onnx TopK 10, 11, 24; ArgMax, ArgMin 1 to 13.  Of equal elements the one with the lower index
 *         comes first (select_last_index: the last).  The result is always sorted; NaN counts as largest.
 * Shapes  TopK: x: (o.., n, r..)  k: one constant   values, indices: (o.., k, r..)
 * Grad    values: dy added where each came from.  Indices have none. */
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"

#include <stddef.h>

#include "ops/kernels/take.h"

static ot_status arg_infer(ot_node *n, ot_error *err)
{
    const ot_topk_index *a = n->attrs;
    ot_shape      y = n->in[0]->shape;
    if (a->axis < 0 || a->axis >= y.rank || a->k < 0 || a->k > y.dim[a->axis] || !ot_dtype_bits(n->in[0]->dtype))
        return ot_node_fail(n, err, "%lld elements along axis %lld", (long long)a->k, (long long)a->axis);
    y.dim[a->axis] = a->k;
    return ot_set(n->out[0], OT_I64, &y);
}

const ot_op ot_op_TopKIndex = {
    .name = "TopKIndex", .types = { "n" }, .in = { 1, 1 }, .out = { 1, 1 }, .flags = OT_INTERNAL, .nondiff = 1,
    .attr_size = sizeof(ot_topk_index), .infer = arg_infer, .grad_zero = "the output holds indices",
};

/* ---- TopK ------------------------------------------------------------------ */

typedef struct topk_attrs { int64_t axis, largest, sorted; } topk_attrs;

static const ot_attr topk_rows[] = {
    { "axis",    OT_INT, offsetof(topk_attrs, axis),    -1, NULL },
    { "largest", OT_INT, offsetof(topk_attrs, largest), 1,  NULL },
    { "sorted",  OT_INT, offsetof(topk_attrs, sorted),  1,  NULL },
    { 0 }
};

static ot_status topk_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    int      axis;
    ot_ints  k;
    OT_TRY(ot_const_ints(n, 1, &k, err));
    if (!ot_axis(((const topk_attrs *)n->attrs)->axis, y.rank, &axis))
        return ot_node_fail(n, err, "axis %lld of a tensor of rank %d", (long long)((const topk_attrs *)n->attrs)->axis, y.rank);
    if (k.n != 1 || k.v[0] < 0 || k.v[0] > y.dim[axis])
        return ot_node_fail(n, err, "k is %lld; axis %d has %lld elements", k.n == 1 ? (long long)k.v[0] : -1LL, axis,
                            (long long)y.dim[axis]);
    y.dim[axis] = k.v[0];
    if (n->out[0]) ot_set(n->out[0], n->in[0]->dtype, &y);
    if (n->n_out > 1 && n->out[1]) ot_set(n->out[1], OT_I64, &y);
    return OT_OK;
}

static void topk_lower(ot_build *b)
{
    const topk_attrs *a = b->node->attrs;
    ot_value         *x = b->node->in[0];
    const ot_value   *y = b->node->out[0] ? b->node->out[0] : b->node->out[1];
    int               axis = 0;
    ot_axis(a->axis, x->shape.rank, &axis);
    ot_value *at = ot_emit(b, &ot_op_TopKIndex, &(ot_topk_index){ axis, y->shape.dim[axis], !a->largest, 0 }, OT_IN(x));
    if (b->node->n_out > 1 && b->node->out[1]) ot_yield(b, 1, at);
    if (!b->node->out[0]) return;
    ot_flat_index p = { .kind = OT_FLAT_ALONG, .axis = axis, .x = x->shape };
    ot_value *flat = ot_view(b, x, &(ot_shape){ .rank = 1, .dim = { ot_numel(&x->shape) } });
    ot_yield(b, 0, ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(flat, ot_emit(b, &ot_op_FlatIndex, &p, OT_IN(at)))));
}

const ot_op ot_op_TopK = {
    .name = "TopK", .types = { "Ti", .T = OT_SET_NUMBER }, .since = 24, .in = { 2, 2 }, .out = { 1, 2 }, .nondiff = 1u << 1,
    .attrs = topk_rows, .attr_size = sizeof(topk_attrs), .infer = topk_infer, .lower = topk_lower,
};

/* ---- ArgMax, ArgMin -------------------------------------------------------- */

typedef struct argmax_attrs { int64_t axis, keepdims, select_last_index; } argmax_attrs;

static const ot_attr argmax_rows[] = {
    { "axis",              OT_INT, offsetof(argmax_attrs, axis),              0, NULL },
    { "keepdims",          OT_INT, offsetof(argmax_attrs, keepdims),          1, NULL },
    { "select_last_index", OT_INT, offsetof(argmax_attrs, select_last_index), 0, NULL },
    { 0 }
};

static ot_status argmax_infer(ot_node *n, ot_error *err)
{
    const argmax_attrs *a = n->attrs;
    const ot_shape     *x = &n->in[0]->shape;
    ot_shape            y = { .rank = 0 };
    int                 axis;
    if (!ot_axis(a->axis, x->rank, &axis))
        return ot_node_fail(n, err, "axis %lld of a tensor of rank %d", (long long)a->axis, x->rank);
    if (x->dim[axis] == 0) return ot_node_fail(n, err, "axis %d has no elements to choose from", axis);
    for (int d = 0; d < x->rank; d++)
        if (d != axis || a->keepdims) y.dim[y.rank++] = d == axis ? 1 : x->dim[d];
    return ot_set(n->out[0], OT_I64, &y);
}

static void argmax_emit(ot_build *b, bool smallest)
{
    const argmax_attrs *a = b->node->attrs;
    int                 axis = 0;
    ot_axis(a->axis, b->node->in[0]->shape.rank, &axis);
    ot_value *at = ot_emit(b, &ot_op_TopKIndex, &(ot_topk_index){ axis, 1, smallest, a->select_last_index }, OT_IN(b->node->in[0]));
    ot_yield(b, 0, ot_view(b, at, &b->node->out[0]->shape));
}

static void argmax_lower(ot_build *b) { argmax_emit(b, false); }
static void argmin_lower(ot_build *b) { argmax_emit(b, true); }

#define ARGMAX(op, rule)                                                                           \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = OT_SET_NUMBER }, .since = 13, .in = { 1, 1 }, .out = { 1, 1 }, .nondiff = 1, \
        .attrs = argmax_rows, .attr_size = sizeof(argmax_attrs), .infer = argmax_infer,            \
        .lower = rule, .grad_zero = "the output holds indices",                                    \
    };

ARGMAX(ArgMax, argmax_lower)
ARGMAX(ArgMin, argmin_lower)
