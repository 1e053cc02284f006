/* lpnormalization.c - LpNormalization: y = x / |x|_p along an axis.
 *
 * Spec    ai.onnx LpNormalization 22.
 * Shapes  x, y: any
 * Grad    a row of zeros counts as a row of norm 1 */
#include "ops/kernels/map.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct lp_attrs {
    int64_t axis, p;
} lp_attrs;

static const ot_attr lp_rows[] = {
    { "axis", OT_INT, offsetof(lp_attrs, axis), -1, NULL },
    { "p", OT_INT, offsetof(lp_attrs, p), 2, NULL },
    { 0 },
};

static ot_status lp_infer(ot_node *n, ot_error *err)
{
    const lp_attrs *a = n->attrs;
    int axis;
    OT_TRY(ot_node_axis(n, a->axis, n->in[0]->shape.rank, &axis, err));
    if (a->p != 1 && a->p != 2) return ot_node_fail(n, err, "p is %lld; expected 1 or 2", (long long)a->p);
    return ot_like(n->out[0], n->in[0]);
}

static void lp_lower(ot_build *b)
{
    const lp_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0];
    int axis = 0;
    ot_axis(a->axis, x->shape.rank, &axis);
    int64_t axes[1] = { axis };
    ot_value *sum = ot_sum(b, ot_map1(b, a->p == 2 ? OT_FN_Square : OT_FN_Abs, 0, 0, x), axes, 1, true);
    /* Replaces zero by one before the root: value and slope are then finite. */
    ot_value *none = ot_map2(b, OT_FN_Equal, 0, 0, sum, ot_scalar(b, x->dtype, 0));
    sum = ot_map3(b, OT_FN_Where, 0, 0, none, ot_scalar(b, x->dtype, 1), sum);
    ot_yield(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, x, ot_map1(b, a->p == 2 ? OT_FN_Rsqrt : OT_FN_Reciprocal, 0, 0, sum)));
}

const ot_op ot_op_LpNormalization = {
    .name = "LpNormalization",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = lp_rows,
    .attr_size = sizeof(lp_attrs),
    .infer = lp_infer,
    .lower = lp_lower,
    .batch = ot_batch_by_axis,
};
