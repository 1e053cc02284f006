/* layernormalization.c - LayerNormalization and RMSNormalization.
 *
 * Spec    ai.onnx LayerNormalization 17, RMSNormalization 23.  Computed in f32 (f64 for f64).
 * Shapes  x, y: any   scale, b: broadcast to x   mean, inv_std_dev: x's shape with ones from `axis` on */
#include "ops/kernels/map.h"
#include "ops/kernels/layernorm.h"
#include "ops/onnx/batching.h"

typedef struct ot_layer_normalization {
    int64_t axis, stash_type;
    double epsilon;
} ot_layer_normalization;

#define AT(field) offsetof(ot_layer_normalization, field)
static const ot_attr attrs[] = {
    { "axis", OT_INT, AT(axis), -1, NULL },
    { "epsilon", OT_FLOAT, AT(epsilon), 1e-5, NULL },
    { "stash_type", OT_INT, AT(stash_type), OT_F32, NULL },
    { 0 },
};
#undef AT

static ot_status infer(ot_node *n, ot_error *err)
{
    const ot_layer_normalization *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    ot_shape row = *x, all;
    int axis;
    char text[128];
    OT_TRY(ot_node_axis(n, a->axis, x->rank, &axis, err));
    if (a->stash_type != OT_F32 && a->stash_type != OT_F64 && a->stash_type != OT_F16 && a->stash_type != OT_BF16)
        return ot_node_fail(n, err, "stash_type is %lld; expected a float type", (long long)a->stash_type);
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!ot_broadcast(x, &n->in[i]->shape, &all) || !ot_shape_eq(x, &all)))
            return ot_node_fail(n, err, "input %d is %s; it must broadcast to x", i,
                                ot_shape_text(&n->in[i]->shape, text));
    for (int d = axis; d < row.rank; d++) row.dim[d] = 1;
    for (int i = 1; i < n->n_out; i++) ot_set(n->out[i], (ot_dtype)a->stash_type, &row);
    return ot_like(n->out[0], n->in[0]);
}

static void lower(ot_build *b, bool center)
{
    const ot_node *n = b->node;
    const ot_layer_normalization *a = n->attrs;
    ot_value *x = n->in[0], *scale = n->in[1], *bias = ot_node_in(n, 2);
    ot_layer_norm r = { .epsilon = a->epsilon, .center = center };
    int axis = 0;
    ot_axis(a->axis, x->shape.rank, &axis);
    r.axis = axis;
    /* Scale and bias become operands of the kernel if they have one value per element of a row. */
    bool scale_in = ot_layer_norm_covers(scale, &x->shape, axis) && scale->dtype == x->dtype;
    bool bias_in = scale_in && bias && ot_layer_norm_covers(bias, &x->shape, axis) && bias->dtype == x->dtype;

    ot_value *in[3] = { x, scale, bias };
    ot_node *k = ot_emit_n(b, &ot_op_LayerNorm, &r, in, bias_in ? 3 : scale_in ? 2 : 1, 3);
    if (!k) return;
    ot_value *y = k->out[0];
    if (!scale_in) y = ot_cast(b, ot_map2(b, OT_FN_Mul, 0, 0, y, scale), x->dtype);
    if (bias && !bias_in) y = ot_cast(b, ot_map2(b, OT_FN_Add, 0, 0, y, bias), x->dtype);
    ot_yield(b, 0, y);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i]) ot_yield(b, i, ot_cast(b, k->out[i], n->out[i]->dtype));
}

static void layer_lower(ot_build *b) { lower(b, true); }
static void rms_lower(ot_build *b) { lower(b, false); }

const ot_op ot_op_LayerNormalization = {
    .name = "LayerNormalization",
    .types = { "TUU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT },
    .slots = "nno",
    .since = 17,
    .in = { 2, 3 },
    .out = { 1, 3 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_layer_normalization),
    .infer = infer,
    .lower = layer_lower,
    .batch = ot_batch_from_axis,
};

const ot_op ot_op_RMSNormalization = {
    .name = "RMSNormalization",
    .types = { "TU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT },
    .slots = "nn",
    .since = 23,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_layer_normalization),
    .infer = infer,
    .lower = rms_lower,
    .batch = ot_batch_from_axis,
};
