/* meanvariancenormalization.c - MeanVarianceNormalization: y = (x - mean) / (deviation + 1e-9).
 *
 * Spec    ai.onnx MeanVarianceNormalization 13.
 * Shapes  x, y: any */
#include "ops/kernels/map.h"

#include <stddef.h>

typedef struct ot_mvn {
    ot_ints axes;
} ot_mvn;

static const ot_attr mvn_attrs[] = { { "axes", OT_INTS, offsetof(ot_mvn, axes), 0, NULL }, { 0 } };

/* The axes and their number of elements. */
static bool mvn_axes(const ot_node *n, int64_t *axes, int *count, double *elements)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const ot_mvn *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    ot_ints list = a->axes.n ? a->axes : (ot_ints){ 3, usual };
    bool seen[OT_MAX_RANK] = { false };
    *count = 0;
    *elements = 1;
    for (int i = 0; i < list.n; i++) {
        int axis;
        if (!ot_axis(list.v[i], x->rank, &axis) || seen[axis]) return false;
        seen[axis] = true;
        axes[(*count)++] = axis;
        *elements *= (double)x->dim[axis];
    }
    return true;
}

static ot_status mvn_infer(ot_node *n, ot_error *err)
{
    int64_t axes[OT_MAX_RANK];
    int count;
    double elements;
    if (((const ot_mvn *)n->attrs)->axes.n > OT_MAX_RANK || !mvn_axes(n, axes, &count, &elements))
        return ot_node_fail(n, err, "axes are out of range or repeated for rank %d", n->in[0]->shape.rank);
    return ot_like(n->out[0], n->in[0]);
}

static void mvn_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    int64_t axes[OT_MAX_RANK];
    int n;
    double elements;
    if (!mvn_axes(b->node, axes, &n, &elements)) return;
    ot_value *each = ot_scalar(b, x->dtype, 1 / elements);
    ot_value *d = ot_map2(b, OT_FN_Sub, 0, 0, x, ot_map2(b, OT_FN_Mul, 0, 0, ot_sum(b, x, axes, n, true), each));
    ot_value *var = ot_map2(b, OT_FN_Mul, 0, 0, ot_sum(b, ot_map1(b, OT_FN_Square, 0, 0, d), axes, n, true), each);
    ot_value *deviation = ot_map2(b, OT_FN_Add, 0, 0, ot_map1(b, OT_FN_Sqrt, 0, 0, var), ot_scalar(b, x->dtype, 1e-9));
    ot_yield(b, 0, ot_map2(b, OT_FN_Div, 0, 0, d, deviation));
}

const ot_op ot_op_MeanVarianceNormalization = {
    .name = "MeanVarianceNormalization",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = mvn_attrs,
    .attr_size = sizeof(ot_mvn),
    .infer = mvn_infer,
    .lower = mvn_lower,
};
