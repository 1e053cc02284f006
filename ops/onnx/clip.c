/* clip.c - Clip: limits elements to a range.
 *
 * Spec    ai.onnx Clip 13.  A missing bound is the least or greatest number of the type.
 * Shapes  bounds are scalars
 * Grad    1 between the bounds, 0 on them, as PyTorch from 2.15 on; 1 on them in fake quantization */
#include <math.h>

#include "ops/onnx/batching.h"
#include "ops/onnx/elementwise.h"
#include "ops/onnx/quantize.h"

static ot_status clip_infer(ot_node *n, ot_error *err)
{
    if (!ot_dtype_bits(n->in[0]->dtype)) return ot_node_fail(n, err, "expected numbers");
    for (int i = 1; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (v && (ot_numel(&v->shape) != 1 || v->dtype != n->in[0]->dtype))
            return ot_node_fail(n, err, "%s must be a scalar of type %s", i == 1 ? "min" : "max",
                                ot_dtype_name(n->in[0]->dtype));
    }
    return ot_like(n->out[0], n->in[0]);
}

/* The bound in input i, or the end of the type's range. */
static ot_value *bound(ot_build *b, int i, int sign)
{
    const ot_node *n = b->node;
    ot_dtype t = n->in[0]->dtype;
    if (i < n->n_in && n->in[i]) return ot_view(b, n->in[i], &OT_SCALAR);
    if (ot_is_float(t)) return ot_scalar(b, t, sign * (double)INFINITY);
    double half = ldexp(1, ot_dtype_bits(t) - ot_is_signed(t));
    return ot_scalar(b, t, sign > 0 ? half - 1 : ot_is_signed(t) ? -half : 0);
}

static void clip_lower(ot_build *b)
{
    const ot_clip *a = b->node->attrs;
    ot_yield(b, 0, ot_map3(b, OT_FN_Clip, a->through, 0, b->node->in[0], bound(b, 1, -1), bound(b, 2, 1)));
}

static const ot_attr clip_rows[] = { { 0 } };

const ot_op ot_op_Clip = {
    .name = "Clip",
    .types = { "T", .T = OT_SET_NUMBER },
    .slots = "-",
    .since = 13,
    .in = { 1, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = clip_rows,
    .attr_size = sizeof(ot_clip),
    .infer = clip_infer,
    .lower = clip_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_pointwise,
};
