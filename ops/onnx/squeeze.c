/* squeeze.c - Squeeze: removes axes of size 1; Unsqueeze: inserts axes of size 1.
 *
 * Spec    ai.onnx Squeeze 1, 11, 13, 21, 23, 24, 25 and Unsqueeze likewise; axes are an input.
 * Shapes  Squeeze without axes drops every axis of size 1.  Unsqueeze's axes count in y. */
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

static ot_status squeeze_infer(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    ot_shape y = { .rank = 0 };
    int64_t set;
    ot_ints list;
    OT_TRY(ot_axes_input(n, 1, x->rank, &set, &list, err));
    bool all = n->n_in < 2 || !n->in[1];
    for (int d = 0; d < x->rank; d++) {
        bool gone = all ? x->dim[d] == 1 : set >> d & 1;
        if (gone && x->dim[d] != 1)
            return ot_node_fail(n, err, "axis %d has %lld elements, expected 1", d, (long long)x->dim[d]);
        if (!gone) y.dim[y.rank++] = x->dim[d];
    }
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static ot_status unsqueeze_infer(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    ot_shape y = { .rank = 0 };
    int64_t set;
    ot_ints list;
    OT_TRY(ot_const_ints(n, 1, &list, err));
    if (x->rank + list.n > OT_MAX_RANK)
        return ot_node_fail(n, err, "a result of %d axes; at most %d are supported", x->rank + list.n, OT_MAX_RANK);
    OT_TRY(ot_axes_input(n, 1, x->rank + list.n, &set, NULL, err));
    for (int d = 0, e = 0; d < x->rank + list.n; d++) y.dim[y.rank++] = set >> d & 1 ? 1 : x->dim[e++];
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void view_lower(ot_build *b) { ot_yield(b, 0, ot_view(b, b->node->in[0], &b->node->out[0]->shape)); }

const ot_op ot_op_Squeeze = {
    .name = "Squeeze",
    .types = { "ti" },
    .slots = ">-",
    .since = 25,
    .in = { 1, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .infer = squeeze_infer,
    .lower = view_lower,
    .flags = OT_MOVES | OT_SAME,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_viewed,
};

const ot_op ot_op_Unsqueeze = {
    .name = "Unsqueeze",
    .types = { "ti" },
    .slots = ">-",
    .since = 25,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .infer = unsqueeze_infer,
    .lower = view_lower,
    .flags = OT_MOVES | OT_SAME,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_viewed,
};
