/* prefixsum.c - PrefixSum: cumulative sums along an axis.
 *
 * Shapes  y: that of x
 * Grad    dx = the cumulative sum of dy in reverse */
#include "ops/kernels/prefixsum.h"

static ot_status prefix_sum_infer(ot_node *n, ot_error *err)
{
    const ot_prefix_sum *a = n->attrs;
    if (a->axis < 0 || a->axis >= n->in[0]->shape.rank || !ot_dtype_bits(n->in[0]->dtype))
        return ot_node_fail(n, err, "invalid axis %lld", (long long)a->axis);
    return ot_like(n->out[0], n->in[0]);
}

static void prefix_sum_grad(ot_build *b)
{
    ot_prefix_sum a = *(const ot_prefix_sum *)b->node->attrs;
    a.reverse = !a.reverse;
    ot_set_din(b, 0, ot_emit(b, &ot_op_PrefixSum, &a, OT_IN(ot_dout(b, 0))));
}

const ot_op ot_op_PrefixSum = {
    .name = "PrefixSum",
    .types = { "n" },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_prefix_sum),
    .infer = prefix_sum_infer,
    .grad = prefix_sum_grad,
};
