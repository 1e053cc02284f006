/* expand.c - Expand: x broadcast with a shape.
 *
 * Spec    ai.onnx Expand 8, 13.  Both x and the shape may be the one that grows.
 * Grad    dx = dy summed over what was repeated */
#include "ops/kernels/move.h"

static ot_status expand_infer(ot_node *n, ot_error *err)
{
    ot_shape want, y;
    char     from[128], to[128];
    OT_TRY(ot_shape_input(n, 1, &want, err));
    if (!ot_broadcast(&n->in[0]->shape, &want, &y))
        return ot_node_fail(n, err, "%s does not broadcast with %s", ot_shape_text(&n->in[0]->shape, from),
                            ot_shape_text(&want, to));
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void expand_lower(ot_build *b)
{
    ot_yield(b, 0, ot_expand(b, b->node->in[0], &b->node->out[0]->shape));
}

const ot_op ot_op_Expand = {
    .name = "Expand", .types = { "Ti", .T = OT_SET_COMMON }, .since = 13, .in = { 2, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .infer = expand_infer, .lower = expand_lower,
};
