/* shape.c - Shape and Size: the shape of x as numbers, independent of its elements.
 *
 * Spec    ai.onnx Shape 1, 13, 15, 19, 21, 23, 24, 25 (start and end cut the list); Size likewise.
 * Shapes  Shape: (end - start) int64   Size: () int64 */
#include "ops/kernels/move.h"

#include <stddef.h>

typedef struct shape_attrs {
    int64_t start, end;
} shape_attrs;

static const ot_attr shape_rows[] = {
    { "start", OT_INT, offsetof(shape_attrs, start), 0, NULL },
    { "end", OT_INT, offsetof(shape_attrs, end), 1e18, NULL },
    { 0 },
};

/* A negative index counts from the end; the result is clamped to the list. */
static int64_t cut(int64_t v, int rank)
{
    if (v < 0) v += rank;
    return v < 0 ? 0 : v > rank ? rank : v;
}

static ot_status shape_infer(ot_node *n, ot_error *err)
{
    const shape_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    int64_t from = cut(a->start, x->rank), to = cut(a->end, x->rank);
    ot_shape y = { .rank = 1, .dim = { to > from ? to - from : 0 } };
    int64_t *data = ot_node_alloc(n, OT_MAX_RANK * sizeof *data);
    if (!data) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    for (int64_t i = 0; i < y.dim[0]; i++) data[i] = x->dim[from + i];
    n->out[0]->data = data;
    n->out[0]->role = OT_CONST;
    return ot_set(n->out[0], OT_I64, &y);
}

static ot_status size_infer(ot_node *n, ot_error *err)
{
    int64_t *data = ot_node_alloc(n, sizeof *data);
    if (!data) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    *data = ot_numel(&n->in[0]->shape);
    n->out[0]->data = data;
    n->out[0]->role = OT_CONST;
    return ot_set(n->out[0], OT_I64, &OT_SCALAR);
}

static void known_lower(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    if (!ot_broken(b)) ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, y->data));
}

const ot_op ot_op_Shape = {
    .name = "Shape",
    .types = { "*" },
    .since = 25,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_FROM_SHAPES,
    .nondiff = 1,
    .attrs = shape_rows,
    .attr_size = sizeof(shape_attrs),
    .infer = shape_infer,
    .lower = known_lower,
    .grad_zero = "a shape does not depend on the values",
    .gives = "i",
};

const ot_op ot_op_Size = {
    .name = "Size",
    .types = { "*" },
    .since = 25,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_FROM_SHAPES,
    .nondiff = 1,
    .infer = size_infer,
    .lower = known_lower,
    .grad_zero = "a size does not depend on the values",
    .gives = "i",
};
