/* cumsum.c - CumSum: cumulative sums along an axis.
 *
 * Spec    ai.onnx CumSum 11, 14.  axis must be constant.
 * Shapes  y: that of x
 * Grad    of PrefixSum */
#include "ops/kernels/move.h"
#include "ops/kernels/prefixsum.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct cumsum_attrs {
    int64_t exclusive, reverse;
} cumsum_attrs;

static const ot_attr cumsum_rows[] = {
    { "exclusive", OT_INT, offsetof(cumsum_attrs, exclusive), 0, NULL },
    { "reverse", OT_INT, offsetof(cumsum_attrs, reverse), 0, NULL },
    { 0 },
};

static ot_status cumsum_infer(ot_node *n, ot_error *err)
{
    int64_t set;
    ot_ints axis;
    OT_TRY(ot_axes_input(n, 1, n->in[0]->shape.rank, &set, &axis, err));
    if (axis.n != 1) return ot_node_fail(n, err, "%d axes, expected 1", axis.n);
    if (ot_dtype_bits(n->in[0]->dtype) < 8)
        return ot_node_fail(n, err, "%s cannot be summed", ot_dtype_name(n->in[0]->dtype));
    return ot_like(n->out[0], n->in[0]);
}

static void cumsum_lower(ot_build *b)
{
    const cumsum_attrs *a = b->node->attrs;
    ot_ints axis;
    int d = 0;
    if (ot_const_ints(b->node, 1, &axis, b->graph->err) != OT_OK) return;
    ot_axis(axis.v[0], b->node->in[0]->shape.rank, &d);
    ot_prefix_sum c = { .axis = d, .exclusive = a->exclusive != 0, .reverse = a->reverse != 0 };
    ot_yield(b, 0, ot_emit(b, &ot_op_PrefixSum, &c, OT_IN(b->node->in[0])));
}

const ot_op ot_op_CumSum = {
    .name = "CumSum",
    .types = { "Tx", .T = OT_SET_WIDE },
    .slots = "-",
    .since = 14,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .nondiff = 1u << 1,
    .attrs = cumsum_rows,
    .attr_size = sizeof(cumsum_attrs),
    .infer = cumsum_infer,
    .lower = cumsum_lower,
    .batch = ot_batch_cumulated,
};
