/* softmaxrows.c - SoftmaxRows: softmax or its logarithm along one axis.
 *
 * Shapes    x, y: any, of rank 1 or more
 * Grad      dx = y (dy - sum y dy)       log: dx = dy - exp(y) sum dy; reads y, not x
 * Numerics  the maximum is subtracted; sums are f64 in the reference, blocked f32 elsewhere */
#include "ops/softmaxrows.h"

ot_rows_view ot_rows_of(const ot_shape *s, int64_t axis)
{
    ot_rows_view v = { 1, s->dim[axis], 1 };
    for (int d = 0; d < s->rank; d++) {
        if (d < axis) v.before *= s->dim[d];
        if (d > axis) v.after *= s->dim[d];
    }
    return v;
}

static ot_status rows_infer(ot_node *n, ot_error *err)
{
    (void)err;
    return ot_like(n->out[0], n->in[0]);
}

static void rows_grad(ot_build *b)
{
    ot_set_din(b, 0, ot_emit(b, &ot_op_SoftmaxRowsDx, b->node->attrs, OT_IN(ot_dout(b, 0), b->node->out[0])));
}

const ot_op ot_op_SoftmaxRows = {
    .name = "SoftmaxRows", .types = { "T", .T = OT_SET_FLOAT }, .in = { 1, 1 }, .out = { 1, 1 }, .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_softmax_rows), .infer = rows_infer, .grad = rows_grad,
};

const ot_op ot_op_SoftmaxRowsDx = {
    .name = "SoftmaxRowsDx", .types = { "T", .T = OT_SET_FLOAT }, .in = { 2, 2 }, .out = { 1, 1 }, .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_softmax_rows), .infer = rows_infer,
};
