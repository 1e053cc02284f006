/* expand.c - Expand: broadcasts x with a shape.
 *
 * Spec    ai.onnx Expand 8, 13.  Either of x and the shape may be the smaller one.
 * Grad    dx = dy summed over the repetitions */
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

static ot_status expand_infer(ot_node *n, ot_error *err)
{
    ot_shape want, y;
    char from[128], to[128];
    OT_TRY(ot_shape_input(n, 1, &want, err));
    if (!ot_broadcast(&n->in[0]->shape, &want, &y))
        return ot_node_fail(n, err, "%s does not broadcast with %s", ot_shape_text(&n->in[0]->shape, from),
                            ot_shape_text(&want, to));
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void expand_lower(ot_build *b) { ot_yield(b, 0, ot_expand(b, b->node->in[0], &b->node->out[0]->shape)); }

static bool expand_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    const ot_shape *y = &own[0];
    if (!ot_batch_has(n, 0) || !y->rank) return false;
    ot_shape s = ot_own_shape(b, n->in[0]), p = ot_padded_shape(&s, y->rank), to;
    int axis = ot_batch_axis_in(b, n->in[0], y);
    ot_value *x = ot_batch_placed(b, n->in[0], y->rank, axis);
    bool as_is = p.dim[axis] == y->dim[axis];
    if (!x) return false;
    if (!as_is && !(x = ot_batch_apart(b, x, &p, axis))) return false;
    if (!(as_is ? ot_joined_shape(b, y, ot_on_axis(axis), &to) : ot_with_axis(y, axis, b->count, &to))) return false;
    r->in[0] = x;
    r->in[1] = ot_batch_shape(b, &to);
    return as_is ? ot_batch_on(r, n, axis) : ot_batch_explicit(r, axis);
}

const ot_op ot_op_Expand = {
    .name = "Expand",
    .types = { "Ti", .T = OT_SET_COMMON },
    .slots = "j-",
    .since = 13,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .infer = expand_infer,
    .lower = expand_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = expand_batch,
};
