/* topkindex.c - TopKIndex: the indices of the largest elements along an axis.
 *
 * Shapes  x: (o.., n, r..)   y: (o.., k, r..) int64.  The result is always sorted; NaN counts as largest.
 * Grad    none: indices */
#include "ops/kernels/topkindex.h"

static ot_status topk_index_infer(ot_node *n, ot_error *err)
{
    const ot_topk_index *a = n->attrs;
    ot_shape y = n->in[0]->shape;
    if (a->axis < 0 || a->axis >= y.rank || a->k < 0 || a->k > y.dim[a->axis] || !ot_dtype_bits(n->in[0]->dtype))
        return ot_node_fail(n, err, "%lld elements on axis %lld are too many", (long long)a->k, (long long)a->axis);
    y.dim[a->axis] = a->k;
    return ot_set(n->out[0], OT_I64, &y);
}

const ot_op ot_op_TopKIndex = {
    .name = "TopKIndex",
    .types = { "n" },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .nondiff = 1,
    .attr_size = sizeof(ot_topk_index),
    .infer = topk_index_infer,
    .grad_zero = "the output contains indices",
};
