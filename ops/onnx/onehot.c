/* onehot.c - OneHot: makes a row with a single `on` value per index.
 *
 * Spec    ai.onnx OneHot 9, 11.  depth must be constant.
 * Grad    of values. */
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct onehot_attrs {
    int64_t axis;
} onehot_attrs;

static const ot_attr onehot_rows[] = {
    { "axis", OT_INT, offsetof(onehot_attrs, axis), -1, NULL },
    { 0 },
};

/* depth may be a float. */
static ot_status onehot_shape(const ot_node *n, int *axis, int64_t *depth, ot_shape *y, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    const ot_value *d = n->in[1];
    if (!ot_is_const(d) || ot_numel(&d->shape) != 1)
        return ot_node_fail(n, err, "depth must be a single number known before the run");
    double v = ot_get_f64(d->data, d->dtype, 0);
    if (!(v >= 0 && v < 0x1p62)) return ot_node_fail(n, err, "invalid depth %g", v);
    *depth = (int64_t)v;
    if (x->rank == OT_MAX_RANK) return ot_node_fail(n, err, "the result would have more than %d axes", OT_MAX_RANK);
    OT_TRY(ot_node_axis(n, ((const onehot_attrs *)n->attrs)->axis, x->rank + 1, axis, err));
    *y = (ot_shape){ .rank = x->rank + 1 };
    for (int i = 0, e = 0; i < y->rank; i++) y->dim[i] = i == *axis ? *depth : x->dim[e++];
    return OT_OK;
}

static ot_status onehot_infer(ot_node *n, ot_error *err)
{
    ot_shape y;
    int axis;
    int64_t depth;
    OT_TRY(onehot_shape(n, &axis, &depth, &y, err));
    if (n->in[2]->shape.rank != 1 || n->in[2]->shape.dim[0] != 2)
        return ot_node_fail(n, err, "values must be [off, on]");
    if (!ot_shape_fits(&y, OT_I64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[2]->dtype, &y);
}

/* Element i of a list of two, as a scalar. */
static ot_value *pick(ot_build *b, ot_value *values, int64_t i)
{
    return ot_emit(b, &ot_op_Gather, NULL, OT_IN(values, ot_scalar(b, OT_I64, (double)i)));
}

static void onehot_lower(ot_build *b)
{
    ot_shape y, line = { .rank = 0 }, one;
    int axis;
    int64_t depth, *range;
    if (onehot_shape(b->node, &axis, &depth, &y, b->graph->err) != OT_OK) return;
    one = line = y;
    for (int d = 0; d < y.rank; d++) line.dim[d] = d == axis ? depth : 1;
    one.dim[axis] = 1;
    range = ot_const_alloc(b, &line, OT_I64);
    if (!range) return;
    for (int64_t i = 0; i < depth; i++) range[i] = i;
    ot_value *index = ot_view(b, ot_cast(b, b->node->in[0], OT_I64), &one), *values = b->node->in[2];
    ot_value *low = ot_map2(b, OT_FN_Less, 0, 0, index, ot_scalar(b, OT_I64, 0));
    ot_value *end = ot_map2(b, OT_FN_Add, 0, 0, index, ot_scalar(b, OT_I64, (double)depth));
    index = ot_map3(b, OT_FN_Where, 0, 0, low, end, index);
    ot_value *hit = ot_map2(b, OT_FN_Equal, 0, 0, index, ot_graph_const_of(b->graph, "", OT_I64, &line, range));
    ot_yield(b, 0, ot_map3(b, OT_FN_Where, 0, 0, hit, pick(b, values, 1), pick(b, values, 0)));
}

static bool one_hot_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)b;
    int axis, a = ot_batch_axis(n->in[0]);
    if (!ot_batch_first_alone(n) || !ot_axis(ot_attr_get(n, "axis", -1), own[0].rank, &axis)) return false;
    return ot_batch_on(r, n, a < axis ? a : a + 1);
}

const ot_op ot_op_OneHot = {
    .name = "OneHot",
    .types = { "UVT", .T = OT_SET_COMMON, .U = OT_SET_NUMBER, .V = OT_SET_NUMBER },
    .slots = "-",
    .since = 11,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .nondiff = 3,
    .attrs = onehot_rows,
    .attr_size = sizeof(onehot_attrs),
    .infer = onehot_infer,
    .lower = onehot_lower,
    .batch = one_hot_batch,
};
