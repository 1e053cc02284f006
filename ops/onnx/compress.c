/* compress.c - Compress: selects the elements or slices whose condition is true.
 *
 * Spec    ai.onnx Compress 9, 11.  The condition must be constant.
 * Grad    of Take. */
#include "ops/kernels/move.h"
#include "ops/kernels/take.h"

#include <stddef.h>

#define NO_AXIS (-0x1p62)

typedef struct compress_attrs {
    int64_t axis;
} compress_attrs;

static const ot_attr compress_rows[] = {
    { "axis", OT_INT, offsetof(compress_attrs, axis), NO_AXIS, NULL },
    { 0 },
};

/* The axis, and whether x is flattened first. */
static ot_status compress_axis(const ot_node *n, int *axis, bool *flat, int64_t *count, ot_error *err)
{
    int64_t a = ((const compress_attrs *)n->attrs)->axis;
    const ot_value *c = n->in[1];
    *flat = a == (int64_t)NO_AXIS;
    *axis = 0;
    if (!*flat) OT_TRY(ot_node_axis(n, a, n->in[0]->shape.rank, axis, err));
    if (!ot_is_const(c) || c->dtype != OT_BOOL || c->shape.rank != 1)
        return ot_node_fail(n, err, "the condition must be a list of bools known before the run");
    int64_t size = *flat ? ot_numel(&n->in[0]->shape) : n->in[0]->shape.dim[*axis];
    if (c->shape.dim[0] > size)
        return ot_node_fail(n, err, "%lld conditions for %lld elements", (long long)c->shape.dim[0], (long long)size);
    *count = 0;
    for (int64_t i = 0; i < c->shape.dim[0]; i++) *count += ((const uint8_t *)c->data)[i] != 0;
    return OT_OK;
}

static ot_status compress_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    int axis;
    bool flat;
    int64_t count;
    OT_TRY(compress_axis(n, &axis, &flat, &count, err));
    if (flat) y.rank = 1;
    y.dim[axis] = count;
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void compress_lower(ot_build *b)
{
    int axis;
    bool flat;
    int64_t count, total = ot_numel(&b->node->in[0]->shape);
    if (compress_axis(b->node, &axis, &flat, &count, b->graph->err) != OT_OK) return;
    ot_shape s = { .rank = 1, .dim = { count } };
    int64_t *list = ot_const_alloc(b, &s, OT_I64);
    const ot_value *c = b->node->in[1];
    if (!list) return;
    for (int64_t i = 0, k = 0; i < c->shape.dim[0]; i++)
        if (((const uint8_t *)c->data)[i]) list[k++] = i;
    ot_value *x = flat ? ot_view(b, b->node->in[0], &(ot_shape){ .rank = 1, .dim = { total } }) : b->node->in[0];
    ot_yield(b, 0,
             ot_emit(b, &ot_op_Take, &(ot_take){ axis }, OT_IN(x, ot_graph_const_of(b->graph, "", OT_I64, &s, list))));
}

const ot_op ot_op_Compress = {
    .name = "Compress",
    .types = { "Tb", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 11,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = compress_rows,
    .attr_size = sizeof(compress_attrs),
    .infer = compress_infer,
    .lower = compress_lower,
};
