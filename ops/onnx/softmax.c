/* softmax.c - Softmax and LogSoftmax.
 *
 * Spec    ai.onnx Softmax, LogSoftmax 13: one axis, the last by default.  For older versions, in which all axes from
 *         `axis` on are one row, importer/upgrade.c sets `flatten`. */
#include "ops/kernels/softmax.h"
#include "ops/onnx/batching.h"

typedef struct ot_softmax {
    int64_t axis, flatten;
} ot_softmax;

static const ot_attr attrs[] = {
    { "axis", OT_INT, offsetof(ot_softmax, axis), -1, NULL },
    { "flatten", OT_INT, offsetof(ot_softmax, flatten), 0,
      NULL }, /* set by upgrade.c: all axes from `axis` on are one row */
    { 0 },
};

static ot_status softmax_infer(ot_node *n, ot_error *err)
{
    int axis, rank = n->in[0]->shape.rank;
    int64_t a = ((const ot_softmax *)n->attrs)->axis;
    /* A scalar is a row of one element. */
    if (rank > 0) OT_TRY(ot_node_axis(n, a, rank, &axis, err));
    return ot_like(n->out[0], n->in[0]);
}

static void lower(ot_build *b, bool log)
{
    ot_value *x = b->node->in[0];
    ot_shape s = x->shape, row = { .rank = 1, .dim = { 1 } };
    ot_softmax_axis r = { .log = log };
    int axis = 0;
    ot_axis(((const ot_softmax *)b->node->attrs)->axis, s.rank, &axis);
    r.axis = axis;
    if (((const ot_softmax *)b->node->attrs)->flatten && s.rank > 0) {
        ot_shape flat = { .rank = 2, .dim = { 1, 1 } };
        for (int d = 0; d < s.rank; d++) flat.dim[d >= axis] *= s.dim[d];
        x = ot_view(b, x, &flat);
        r.axis = 1;
        ot_yield(b, 0, ot_view(b, ot_emit(b, &ot_op_SoftmaxAxis, &r, OT_IN(x)), &s));
        return;
    }
    if (s.rank == 0) x = ot_view(b, x, &row);
    ot_value *y = ot_emit(b, &ot_op_SoftmaxAxis, &r, OT_IN(x));
    ot_yield(b, 0, s.rank ? y : ot_view(b, y, &s));
}

static void softmax_lower(ot_build *b) { lower(b, false); }
static void logsoftmax_lower(ot_build *b) { lower(b, true); }

const ot_op ot_op_Softmax = {
    .name = "Softmax",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_softmax),
    .infer = softmax_infer,
    .lower = softmax_lower,
    .batch = ot_batch_by_axis,
};

const ot_op ot_op_LogSoftmax = {
    .name = "LogSoftmax",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_softmax),
    .infer = softmax_infer,
    .lower = logsoftmax_lower,
    .batch = ot_batch_by_axis,
};
