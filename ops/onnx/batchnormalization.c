/* batchnormalization.c - BatchNormalization in both modes.
 *
 * Spec    ai.onnx BatchNormalization 15.  Running statistics become old*momentum + batch*(1-momentum) (PyTorch's
 *         momentum is one minus this one) with the population variance, or the unbiased one on request.
 * Shapes  x, y: (N, C, ...)   scale, b, mean, var: (C)
 * Grad    through batch statistics in training; evaluation is a Map with constant statistics. */
#include "ops/kernels/batchnorm.h"
#include "ops/kernels/map.h"
#include "ops/onnx/batching.h"

#define AT(field) offsetof(ot_batch_normalization, field)
static const ot_attr attrs[] = {
    { "epsilon", OT_FLOAT, AT(epsilon), 1e-5, NULL },
    { "momentum", OT_FLOAT, AT(momentum), 0.9, NULL },
    { "training_mode", OT_INT, AT(training_mode), 0, NULL },
    { 0 },
};
#undef AT

static ot_status infer(ot_node *n, ot_error *err)
{
    const ot_value *x = n->in[0];
    if (x->shape.rank < 2) return ot_node_fail(n, err, "x has rank %d; expected 2 or more", x->shape.rank);
    for (int i = 1; i < 5; i++)
        if (n->in[i]->shape.rank != 1 || n->in[i]->shape.dim[0] != x->shape.dim[1])
            return ot_node_fail(n, err, "input %d ('%s') must have one value per channel, %lld", i, n->in[i]->name,
                                (long long)x->shape.dim[1]);
    for (int i = 1; i < n->n_out; i++) {
        if (n->out[i] && !((const ot_batch_normalization *)n->attrs)->training_mode)
            return ot_node_fail(n, err, "output %d ('%s') exists with training_mode = 1 only", i, n->out[i]->name);
        ot_like(n->out[i], n->in[2 + i]);
    }
    return ot_like(n->out[0], x);
}

static ot_value *mul(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Mul, 0, 0, x, y); }
static ot_value *scaled(ot_build *b, ot_value *x, double f) { return mul(b, x, x ? ot_scalar(b, x->dtype, f) : NULL); }

static void evaluate(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_batch_normalization *a = n->attrs;
    ot_value *x = n->in[0], *scale = n->in[1], *bias = n->in[2];
    ot_shape s = { .rank = x->shape.rank };
    for (int d = 0; d < s.rank; d++) s.dim[d] = d == 1 ? x->shape.dim[1] : 1;
    /* Statistics may be wider than x: the factor is computed in their type, applied in x's. */
    ot_dtype t = n->in[4]->dtype;
    ot_value *inv = ot_map1(b, OT_FN_Rsqrt, 0, 0, ot_map2(b, OT_FN_Add, 0, 0, n->in[4], ot_scalar(b, t, a->epsilon)));
    ot_value *factor = mul(b, ot_cast(b, scale, t), inv);
    ot_value *shift = ot_map2(b, OT_FN_Sub, 0, 0, ot_cast(b, bias, t), mul(b, n->in[3], factor));
    factor = ot_view(b, factor, &s);
    shift = ot_view(b, shift, &s);
    ot_value *y = ot_map2(b, OT_FN_Add, 0, 0, mul(b, ot_cast(b, x, t), factor), shift);
    ot_yield(b, 0, ot_cast(b, y, x->dtype));
}

static void lower(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_batch_normalization *a = n->attrs;
    if (!a->training_mode) {
        evaluate(b);
        return;
    }
    ot_batch_norm k = { .epsilon = a->epsilon };
    ot_value *x = n->in[0];
    ot_node *norm = ot_emit_n(b, &ot_op_BatchNorm, &k, OT_IN(x, n->in[1], n->in[2]), 4);
    if (!norm) return;
    ot_yield(b, 0, norm->out[0]);
    double m = (double)ot_numel(&x->shape) / (double)(x->shape.dim[1] ? x->shape.dim[1] : 1);
    for (int i = 1; i < n->n_out && i < 3; i++) {
        if (!n->out[i]) continue;
        ot_dtype t = n->in[2 + i]->dtype;
        double unbias = i == 2 && a->unbiased && m > 1 ? m / (m - 1) : 1;
        ot_value *batch = scaled(b, ot_cast(b, norm->out[i], t), (1 - a->momentum) * unbias);
        ot_yield(b, i, ot_map2(b, OT_FN_Add, 0, 0, scaled(b, n->in[2 + i], a->momentum), batch));
    }
}

const ot_op ot_op_BatchNormalization = {
    .name = "BatchNormalization",
    .types = { "TUUVV", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT, .V = OT_SET_FLOAT },
    .slots = "-nott",
    .since = 15,
    .in = { 5, 5 },
    .out = { 1, 3 },
    .rank = OT_RANK_KEPT,
    .nondiff = 1u << 3 | 1u << 4,
    .attrs = attrs,
    .attr_size = sizeof(ot_batch_normalization),
    .infer = infer,
    .lower = lower,
    .flags = OT_WHOLE_BATCH,
    .half = OT_HALF_NORM,
    .batch = ot_batch_first,
};
