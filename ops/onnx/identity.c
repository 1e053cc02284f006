/* identity.c - Identity: y is x.
 *
 * Spec    ai.onnx Identity 1, 13, 14, 16, 19, 21, 23, 24, 25, on tensors. */
#include "ops/onnx/batching.h"
#include "ops/op.h"

static ot_status identity_infer(ot_node *n, ot_error *err)
{
    (void)err;
    return ot_like(n->out[0], n->in[0]);
}

static void identity_lower(ot_build *b) { ot_yield(b, 0, b->node->in[0]); }

const ot_op ot_op_Identity = {
    .name = "Identity",
    .types = { "*" },
    .slots = ">",
    .since = 25,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .infer = identity_infer,
    .lower = identity_lower,
    .flags = OT_MOVES | OT_SAME,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_pointwise,
};
