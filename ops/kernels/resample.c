/* resample.c - Resample: resamples an axis with a table of weights.
 *
 * Shapes  resample.h
 * Grad    dx = Resample(dy) by the transposed table */
#include "ops/kernels/resample.h"

static ot_status interp_infer(ot_node *n, ot_error *err)
{
    const ot_resample *a = n->attrs;
    ot_shape y = n->in[0]->shape;
    if (!ot_is_float(n->in[0]->dtype))
        return ot_node_fail(n, err, "%s cannot be interpolated", ot_dtype_name(n->in[0]->dtype));
    if (a->axis < 0 || a->axis >= y.rank || a->size < 0)
        return ot_node_fail(n, err, "invalid axis %lld", (long long)a->axis);
    for (int64_t t = 0; t < a->start[a->size]; t++)
        if (a->from[t] < 0 || a->from[t] >= y.dim[a->axis])
            return ot_node_fail(n, err,
                                "the table is out of range of the "
                                "axis");
    y.dim[a->axis] = a->size;
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void interp_grad(ot_build *b)
{
    const ot_resample *a = b->node->attrs;
    int64_t n = b->node->in[0]->shape.dim[a->axis], taps = a->start[a->size];
    int64_t *start = ot_graph_alloc(b->graph, (size_t)(n + 2) * sizeof *start);
    int64_t *from = ot_graph_alloc(b->graph, (size_t)(taps + 1) * sizeof *from);
    double *weight = ot_graph_alloc(b->graph, (size_t)(taps + 1) * sizeof *weight);
    if (!start || !from || !weight) return;
    /* Counting sort: start[k + 1] runs from the first tap of element k to the first of the next. */
    for (int64_t t = 0; t < taps; t++) start[a->from[t] + 2]++;
    for (int64_t k = 0; k < n; k++) start[k + 2] += start[k + 1];
    for (int64_t i = 0; i < a->size; i++)
        for (int64_t t = a->start[i]; t < a->start[i + 1]; t++) {
            int64_t at = start[a->from[t] + 1]++;
            from[at] = i;
            weight[at] = a->weight[t];
        }
    ot_resample back = { .axis = a->axis, .size = n, .start = start, .from = from, .weight = weight };
    ot_set_din(b, 0, ot_emit(b, &ot_op_Resample, &back, OT_IN(ot_dout(b, 0))));
}

const ot_op ot_op_Resample = {
    .name = "Resample",
    .types = { "r" },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_resample),
    .infer = interp_infer,
    .grad = interp_grad,
    .half = OT_HALF_FOLLOWS,
};
