/* topk.c - TopK: the k largest elements along an axis, and their indices.
 *
 * Spec    ai.onnx TopK 10, 11, 24.  Of equal elements the one with the lower index comes first.  The result is always
 *         sorted; NaN counts as largest.
 * Shapes  x: (o.., n, r..)  k: one constant   values, indices: (o.., k, r..)
 * Grad    values: dy added at the selected positions.  Indices have none. */
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/take.h"
#include "ops/kernels/topkindex.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct topk_attrs {
    int64_t axis, largest, sorted;
} topk_attrs;

static const ot_attr topk_rows[] = {
    { "axis", OT_INT, offsetof(topk_attrs, axis), -1, NULL },
    { "largest", OT_INT, offsetof(topk_attrs, largest), 1, NULL },
    { "sorted", OT_INT, offsetof(topk_attrs, sorted), 1, NULL },
    { 0 },
};

static ot_status topk_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    int axis;
    ot_ints k;
    OT_TRY(ot_const_ints(n, 1, &k, err));
    OT_TRY(ot_node_axis(n, ((const topk_attrs *)n->attrs)->axis, y.rank, &axis, err));
    if (k.n != 1 || k.v[0] < 0 || k.v[0] > y.dim[axis])
        return ot_node_fail(n, err, "k is %lld, but axis %d has %lld elements", k.n == 1 ? (long long)k.v[0] : -1LL,
                            axis, (long long)y.dim[axis]);
    y.dim[axis] = k.v[0];
    if (n->out[0]) ot_set(n->out[0], n->in[0]->dtype, &y);
    if (n->n_out > 1 && n->out[1]) ot_set(n->out[1], OT_I64, &y);
    return OT_OK;
}

static void topk_lower(ot_build *b)
{
    const topk_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0];
    const ot_value *y = b->node->out[0] ? b->node->out[0] : b->node->out[1];
    int axis = 0;
    ot_axis(a->axis, x->shape.rank, &axis);
    ot_value *at = ot_emit(b, &ot_op_TopKIndex, &(ot_topk_index){ axis, y->shape.dim[axis], !a->largest, 0 }, OT_IN(x));
    if (b->node->n_out > 1 && b->node->out[1]) ot_yield(b, 1, at);
    if (!b->node->out[0]) return;
    ot_flat_index p = { .kind = OT_FLAT_ALONG, .axis = axis, .x = x->shape };
    ot_value *flat = ot_view(b, x, &(ot_shape){ .rank = 1, .dim = { ot_numel(&x->shape) } });
    ot_yield(b, 0, ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(flat, ot_emit(b, &ot_op_FlatIndex, &p, OT_IN(at)))));
}

const ot_op ot_op_TopK = {
    .name = "TopK",
    .types = { "Ti", .T = OT_SET_NUMBER },
    .slots = "-",
    .since = 24,
    .in = { 2, 2 },
    .out = { 1, 2 },
    .nondiff = 1u << 1,
    .attrs = topk_rows,
    .attr_size = sizeof(topk_attrs),
    .infer = topk_infer,
    .lower = topk_lower,
    .batch = ot_batch_by_axis,
};
