/* hardmax.c - Hardmax: 1 at the first maximum along an axis, 0 elsewhere.
 *
 * Spec    ai.onnx Hardmax 13.
 * Shapes  x, y: any
 * Grad    zero: a step function */
#include "ops/kernels/map.h"
#include "ops/kernels/topkindex.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct hardmax_attrs {
    int64_t axis;
} hardmax_attrs;

static const ot_attr hardmax_rows[] = { { "axis", OT_INT, offsetof(hardmax_attrs, axis), -1, NULL }, { 0 } };

static ot_status hardmax_infer(ot_node *n, ot_error *err)
{
    int axis;
    OT_TRY(ot_node_axis(n, ((const hardmax_attrs *)n->attrs)->axis, n->in[0]->shape.rank, &axis, err));
    return ot_like(n->out[0], n->in[0]);
}

static void hardmax_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    int axis = 0;
    ot_axis(((const hardmax_attrs *)b->node->attrs)->axis, x->shape.rank, &axis);
    ot_shape line = { .rank = x->shape.rank };
    for (int d = 0; d < line.rank; d++) line.dim[d] = d == axis ? x->shape.dim[d] : 1;
    if (line.dim[axis] == 0) { /* without classes there is no maximum */
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
    .name = "Hardmax",
    .types = { "T", .T = OT_SET_FLOAT },
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = hardmax_rows,
    .attr_size = sizeof(hardmax_attrs),
    .infer = hardmax_infer,
    .lower = hardmax_lower,
    .grad_zero = "a step function",
    .batch = ot_batch_by_axis,
};
