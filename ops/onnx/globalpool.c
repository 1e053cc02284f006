/* globalpool.c - GlobalAveragePool, GlobalMaxPool: pooling over all spatial axes is a reduction.
 *
 * Spec    ai.onnx GlobalAveragePool, GlobalMaxPool 1, 22.
 * Shapes  x: (N, C, i1..id)  y: (N, C, 1..1)
 * Grad    the maximum's is split equally among ties, as for every reduction. */
#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "ops/onnx/batching.h"

static ot_status infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    if (y.rank < 2) return ot_node_fail(n, err, "x has rank %d; expected 2 or more", y.rank);
    for (int d = 2; d < y.rank; d++) y.dim[d] = 1;
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static int64_t spatial_axes(const ot_shape *x)
{
    int64_t axes = 0;
    for (int d = 2; d < x->rank; d++) axes |= (int64_t)1 << d;
    return axes;
}

static void average_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    ot_reduce r = { .kind = OT_REDUCE_SUM, .axes = spatial_axes(&x->shape), .keepdims = 1 };
    int64_t n = 1;
    for (int d = 2; d < x->shape.rank; d++) n *= x->shape.dim[d];
    if (x->shape.rank == 2) {
        ot_yield(b, 0, ot_map1(b, OT_FN_Copy, 0, 0, x));
        return;
    }
    ot_value *sum = ot_emit(b, &ot_op_Reduce, &r, OT_IN(x));
    ot_yield(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, sum, ot_scalar(b, x->dtype, 1 / (double)n)));
}

static void max_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    ot_reduce r = { .kind = OT_REDUCE_MAX, .axes = spatial_axes(&x->shape), .keepdims = 1 };
    ot_yield(b, 0, x->shape.rank == 2 ? ot_map1(b, OT_FN_Copy, 0, 0, x) : ot_emit(b, &ot_op_Reduce, &r, OT_IN(x)));
}

const ot_op ot_op_GlobalAveragePool = {
    .name = "GlobalAveragePool",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .infer = infer,
    .lower = average_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_first,
};

const ot_op ot_op_GlobalMaxPool = {
    .name = "GlobalMaxPool",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .infer = infer,
    .lower = max_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_first,
};
