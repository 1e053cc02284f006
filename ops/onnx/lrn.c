/* lrn.c - LRN: local response normalisation across channels.
 *
 * Spec    ai.onnx LRN 13: y = x / (bias + alpha/size * sum of x^2 over `size` neighbouring channels)^beta
 * Shapes  x, y: (N, C, ...)
 * The mean over neighbours, padding included, is an average pool along C. */
#include "ops/kernels/map.h"
#include "ops/kernels/pool.h"
#include "ops/onnx/batching.h"

typedef struct ot_lrn {
    double alpha, beta, bias;
    int64_t size;
} ot_lrn;

#define AT(field) offsetof(ot_lrn, field)
static const ot_attr attrs[] = {
    { "alpha", OT_FLOAT, AT(alpha), 1e-4, NULL },
    { "beta", OT_FLOAT, AT(beta), 0.75, NULL },
    { "bias", OT_FLOAT, AT(bias), 1, NULL },
    { "size", OT_INT, AT(size), OT_REQUIRED, NULL },
    { 0 },
};
#undef AT

static ot_status infer(ot_node *n, ot_error *err)
{
    const ot_lrn *a = n->attrs;
    if (n->in[0]->shape.rank < 2)
        return ot_node_fail(n, err, "x has rank %d; expected 2 or more", n->in[0]->shape.rank);
    if (a->size < 1 || a->size >= INT32_MAX)
        return ot_node_fail(n, err, "size is %lld; expected at least 1", (long long)a->size);
    return ot_like(n->out[0], n->in[0]);
}

static void lower(ot_build *b)
{
    const ot_lrn *a = b->node->attrs;
    ot_value *x = b->node->in[0];
    ot_shape plane = { .rank = 4, .dim = { x->shape.dim[0], 1, x->shape.dim[1], 1 } };
    for (int d = 2; d < x->shape.rank; d++) plane.dim[3] *= x->shape.dim[d];
    ot_pool p = { .include_pad = 1, .out = { plane.dim[2], plane.dim[3] } };
    p.window = (ot_window){ .nd = 2,
                            .kernel = { a->size, 1 },
                            .stride = { 1, 1 },
                            .dilation = { 1, 1 },
                            .pad_lo = { (a->size - 1) / 2, 0 },
                            .pad_hi = { a->size - 1 - (a->size - 1) / 2, 0 } };
    ot_value *square = ot_view(b, ot_map1(b, OT_FN_Square, 0, 0, x), &plane);
    ot_value *mean = ot_view(b, ot_emit(b, &ot_op_PoolAvg, &p, OT_IN(square)), &x->shape);
    ot_value *sum = ot_map2(b, OT_FN_Mul, 0, 0, mean, ot_scalar(b, x->dtype, a->alpha));
    ot_value *base = ot_map2(b, OT_FN_Add, 0, 0, sum, ot_scalar(b, x->dtype, a->bias));
    ot_yield(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, x, ot_map1(b, OT_FN_PowP, -a->beta, 0, base)));
}

const ot_op ot_op_LRN = {
    .name = "LRN",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_lrn),
    .infer = infer,
    .lower = lower,
    .batch = ot_batch_first,
};
