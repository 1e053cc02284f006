/* flatten.c - Flatten: merges the axes before `axis` into one, and those from it on into another.
 *
 * Spec    ai.onnx Flatten 1, 9, 11, 13, 21, 23, 24, 25.
 * Shapes  x: (d0..dr)   y: (d0*..*d(axis-1), d(axis)*..*dr) */
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct flatten_attrs {
    int64_t axis;
} flatten_attrs;

static const ot_attr flatten_rows[] = {
    { "axis", OT_INT, offsetof(flatten_attrs, axis), 1, NULL },
    { 0 },
};

static ot_status flatten_infer(ot_node *n, ot_error *err)
{
    int64_t axis = ((const flatten_attrs *)n->attrs)->axis;
    const ot_shape *x = &n->in[0]->shape;
    ot_shape y = { .rank = 2, .dim = { 1, 1 } };
    if (axis < -x->rank || axis > x->rank)
        return ot_node_fail(n, err, "axis %lld; a tensor of rank %d takes %d to %d", (long long)axis, x->rank, -x->rank,
                            x->rank);
    if (axis < 0) axis += x->rank;
    for (int d = 0; d < x->rank; d++)
        if (!ot_mul(y.dim[d >= axis], x->dim[d], &y.dim[d >= axis]))
            return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void flatten_lower(ot_build *b) { ot_yield(b, 0, ot_view(b, b->node->in[0], &b->node->out[0]->shape)); }

const ot_op ot_op_Flatten = {
    .name = "Flatten",
    .types = { "t" },
    .slots = ">",
    .since = 25,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_TWO,
    .attrs = flatten_rows,
    .attr_size = sizeof(flatten_attrs),
    .infer = flatten_infer,
    .lower = flatten_lower,
    .flags = OT_MOVES | OT_SAME,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_viewed,
};
