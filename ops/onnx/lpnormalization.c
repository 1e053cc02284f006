/* lpnormalization.c - LpNormalization, MeanVarianceNormalization, Hardmax: rows scaled or marked.
 *
 * Spec    ai.onnx LpNormalization 22, MeanVarianceNormalization 13, Hardmax 13.
 * Shapes  x, y: any
 * Grad    LpNormalization: a row of zeros counts as one of norm 1; Hardmax: zero, a step */
#include "ops/kernels/map.h"
#include "ops/kernels/scatter.h"

/* ---- LpNormalization: y = x / |x|_p along an axis ------------------------------ */

typedef struct ot_lp { int64_t axis, p; } ot_lp;

static const ot_attr lp_attrs[] = {
    { "axis", OT_INT, offsetof(ot_lp, axis), -1, NULL },
    { "p",    OT_INT, offsetof(ot_lp, p),    2,  NULL },
    { 0 }
};

static ot_status lp_infer(ot_node *n, ot_error *err)
{
    const ot_lp *a = n->attrs;
    int          axis;
    if (!ot_axis(a->axis, n->in[0]->shape.rank, &axis))
        return ot_node_fail(n, err, "axis %lld is out of range for rank %d", (long long)a->axis, n->in[0]->shape.rank);
    if (a->p != 1 && a->p != 2) return ot_node_fail(n, err, "p is %lld; 1 or 2 is needed", (long long)a->p);
    return ot_like(n->out[0], n->in[0]);
}

static void lp_lower(ot_build *b)
{
    const ot_lp *a = b->node->attrs;
    ot_value    *x = b->node->in[0];
    int          axis = 0;
    ot_axis(a->axis, x->shape.rank, &axis);
    int64_t   axes[1] = { axis };
    ot_value *sum = ot_sum(b, ot_map1(b, a->p == 2 ? OT_FN_Square : OT_FN_Abs, 0, 0, x), axes, 1, true);
    /* One in place of a zero before the root: neither it nor its slope is infinite. */
    ot_value *none = ot_map2(b, OT_FN_Equal, 0, 0, sum, ot_scalar(b, x->dtype, 0));
    sum = ot_map3(b, OT_FN_Where, 0, 0, none, ot_scalar(b, x->dtype, 1), sum);
    ot_yield(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, x, ot_map1(b, a->p == 2 ? OT_FN_Rsqrt : OT_FN_Reciprocal, 0, 0, sum)));
}

const ot_op ot_op_LpNormalization = {
    .name = "LpNormalization", .types = { "T", .T = OT_SET_FLOAT }, .since = 22, .in = { 1, 1 }, .out = { 1, 1 }, .attrs = lp_attrs,
    .attr_size = sizeof(ot_lp), .infer = lp_infer, .lower = lp_lower,
};

/* ---- MeanVarianceNormalization: y = (x - mean) / (deviation + 1e-9) ------------- */

typedef struct ot_mvn { ot_ints axes; } ot_mvn;

static const ot_attr mvn_attrs[] = { { "axes", OT_INTS, offsetof(ot_mvn, axes), 0, NULL }, { 0 } };

/* The axes and the number of elements they hold. */
static bool mvn_axes(const ot_node *n, int64_t *axes, int *count, double *elements)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const ot_mvn        *a = n->attrs;
    const ot_shape      *x = &n->in[0]->shape;
    ot_ints              list = a->axes.n ? a->axes : (ot_ints){ 3, usual };
    bool                 seen[OT_MAX_RANK] = { false };
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
    int     count;
    double  elements;
    if (((const ot_mvn *)n->attrs)->axes.n > OT_MAX_RANK || !mvn_axes(n, axes, &count, &elements))
        return ot_node_fail(n, err, "axes are out of range, or twice the same, for rank %d", n->in[0]->shape.rank);
    return ot_like(n->out[0], n->in[0]);
}

static void mvn_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    int64_t   axes[OT_MAX_RANK];
    int       n;
    double    elements;
    if (!mvn_axes(b->node, axes, &n, &elements)) return;
    ot_value *each = ot_scalar(b, x->dtype, 1 / elements);
    ot_value *d = ot_map2(b, OT_FN_Sub, 0, 0, x, ot_map2(b, OT_FN_Mul, 0, 0, ot_sum(b, x, axes, n, true), each));
    ot_value *var = ot_map2(b, OT_FN_Mul, 0, 0, ot_sum(b, ot_map1(b, OT_FN_Square, 0, 0, d), axes, n, true), each);
    ot_value *deviation = ot_map2(b, OT_FN_Add, 0, 0, ot_map1(b, OT_FN_Sqrt, 0, 0, var), ot_scalar(b, x->dtype, 1e-9));
    ot_yield(b, 0, ot_map2(b, OT_FN_Div, 0, 0, d, deviation));
}

const ot_op ot_op_MeanVarianceNormalization = {
    .name = "MeanVarianceNormalization", .types = { "T", .T = OT_SET_FLOAT },
    .since = 13, .in = { 1, 1 }, .out = { 1, 1 }, .attrs = mvn_attrs,
    .attr_size = sizeof(ot_mvn), .infer = mvn_infer, .lower = mvn_lower,
};

/* ---- Hardmax: 1 at the first maximum along an axis, 0 elsewhere ------------------ */

static const ot_attr hardmax_attrs[] = { { "axis", OT_INT, offsetof(ot_lp, axis), -1, NULL }, { 0 } };

static ot_status hardmax_infer(ot_node *n, ot_error *err)
{
    int axis;
    if (!ot_axis(((const ot_lp *)n->attrs)->axis, n->in[0]->shape.rank, &axis))
        return ot_node_fail(n, err, "axis is out of range for rank %d", n->in[0]->shape.rank);
    return ot_like(n->out[0], n->in[0]);
}

static void hardmax_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    int       axis = 0;
    ot_axis(((const ot_lp *)b->node->attrs)->axis, x->shape.rank, &axis);
    ot_shape line = { .rank = x->shape.rank };
    for (int d = 0; d < line.rank; d++) line.dim[d] = d == axis ? x->shape.dim[d] : 1;
    if (line.dim[axis] == 0) { /* no class, no maximum */
        ot_yield(b, 0, ot_map1(b, OT_FN_Copy, 0, 0, x));
        return;
    }
    int64_t *place = ot_graph_alloc(b->graph, (size_t)line.dim[axis] * sizeof *place);
    if (!place) return;
    for (int64_t i = 0; i < line.dim[axis]; i++) place[i] = i;
    ot_value *first = ot_emit(b, &ot_op_TopKIndex, &(ot_topk_index){ .axis = axis, .k = 1 }, OT_IN(x));
    ot_value *hit = ot_map2(b, OT_FN_Equal, 0, 0, first, ot_graph_const_of(b->graph, "", OT_I64, &line, place));
    ot_yield(b, 0, ot_map3(b, OT_FN_Where, 0, 0, hit, ot_scalar(b, x->dtype, 1), ot_scalar(b, x->dtype, 0)));
}

const ot_op ot_op_Hardmax = {
    .name = "Hardmax", .types = { "T", .T = OT_SET_FLOAT }, .since = 13, .in = { 1, 1 }, .out = { 1, 1 }, .attrs = hardmax_attrs,
    .attr_size = sizeof(ot_lp), .infer = hardmax_infer, .lower = hardmax_lower,
    .grad_zero = "a step function",
};
