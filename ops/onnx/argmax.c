/* argmax.c - ArgMax, ArgMin: the index of the largest or smallest element along an axis.
 *
 * Spec    ai.onnx ArgMax, ArgMin 1 to 13.  Of equal elements the first is taken (select_last_index: the last); NaN
 *         counts as largest.
 * Grad    none: indices */
#include "ops/kernels/topkindex.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct argmax_attrs {
    int64_t axis, keepdims, select_last_index;
} argmax_attrs;

static const ot_attr argmax_rows[] = {
    { "axis", OT_INT, offsetof(argmax_attrs, axis), 0, NULL },
    { "keepdims", OT_INT, offsetof(argmax_attrs, keepdims), 1, NULL },
    { "select_last_index", OT_INT, offsetof(argmax_attrs, select_last_index), 0, NULL },
    { 0 },
};

static ot_status argmax_infer(ot_node *n, ot_error *err)
{
    const argmax_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    ot_shape y = { .rank = 0 };
    int axis;
    OT_TRY(ot_node_axis(n, a->axis, x->rank, &axis, err));
    if (x->dim[axis] == 0) return ot_node_fail(n, err, "axis %d is empty", axis);
    for (int d = 0; d < x->rank; d++)
        if (d != axis || a->keepdims) y.dim[y.rank++] = d == axis ? 1 : x->dim[d];
    return ot_set(n->out[0], OT_I64, &y);
}

static void argmax_emit(ot_build *b, bool smallest)
{
    const argmax_attrs *a = b->node->attrs;
    int axis = 0;
    ot_axis(a->axis, b->node->in[0]->shape.rank, &axis);
    ot_value *at = ot_emit(b, &ot_op_TopKIndex, &(ot_topk_index){ axis, 1, smallest, a->select_last_index },
                           OT_IN(b->node->in[0]));
    ot_yield(b, 0, ot_view(b, at, &b->node->out[0]->shape));
}

static void argmax_lower(ot_build *b) { argmax_emit(b, false); }
static void argmin_lower(ot_build *b) { argmax_emit(b, true); }

#define ARGMAX(op, rule)                                                                           \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = OT_SET_NUMBER }, .since = 13, .in = { 1, 1 }, .out = { 1, 1 }, .nondiff = 1, \
        .attrs = argmax_rows, .attr_size = sizeof(argmax_attrs), .infer = argmax_infer,            \
        .gives = "i", .batch = ot_batch_by_axis, .lower = rule, .grad_zero = "the output contains indices",                       \
    };

ARGMAX(ArgMax, argmax_lower)
ARGMAX(ArgMin, argmin_lower)
