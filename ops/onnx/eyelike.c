/* eyelike.c - EyeLike: ones on a diagonal of a matrix of the shape of x.
 *
 * Spec    ai.onnx EyeLike 9, 22.
 * Grad    zero: the result depends on the shape of x only. */
#include "ops/kernels/move.h"

#include <stddef.h>

typedef struct eye_attrs {
    int64_t dtype, k;
} eye_attrs;

static const ot_attr eye_rows[] = {
    { "dtype", OT_INT, offsetof(eye_attrs, dtype), 0, NULL },
    { "k", OT_INT, offsetof(eye_attrs, k), 0, NULL },
    { 0 },
};

static ot_status eye_infer(ot_node *n, ot_error *err)
{
    const eye_attrs *a = n->attrs;
    ot_dtype t = a->dtype ? (ot_dtype)a->dtype : n->in[0]->dtype;
    if (n->in[0]->shape.rank != 2) return ot_node_fail(n, err, "x has rank %d; expected 2", n->in[0]->shape.rank);
    if (a->dtype < 0 || a->dtype > OT_I2 || ot_dtype_bits(t) < 8)
        return ot_node_fail(n, err, "invalid element type %lld", (long long)a->dtype);
    return ot_set(n->out[0], t, &n->in[0]->shape);
}

static void eye_lower(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    int64_t k = ((const eye_attrs *)b->node->attrs)->k, rows = y->shape.dim[0], columns = y->shape.dim[1];
    void *bytes = ot_const_alloc(b, &y->shape, y->dtype);
    for (int64_t i = 0; bytes && i < rows; i++)
        if (k < columns && k > -rows && i + k >= 0 && i + k < columns)
            ot_set_f64(bytes, y->dtype, i * columns + i + k, 1);
    if (bytes) ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, bytes));
}

const ot_op ot_op_EyeLike = {
    .name = "EyeLike",
    .types = { "T", .T = OT_SET_COMMON },
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .nondiff = 1,
    .attrs = eye_rows,
    .attr_size = sizeof(eye_attrs),
    .infer = eye_infer,
    .lower = eye_lower,
    .grad_zero = "only the shape of x is used",
    .flags = OT_FROM_SHAPES,
};
