/* bitcast.c - Bits: the same bytes as elements of another type of the same width; BitCast from it.
 *
 * Spec    ai.onnx BitCast 26.
 * Shapes  y: that of x
 * Grad    none: the same bits mean another number. */
#include "ops/kernels/move.h"

#include <stddef.h>

typedef struct bits_attrs { int64_t to; } bits_attrs;

static const ot_attr bitcast_rows[] = {
    { "to", OT_INT, offsetof(bits_attrs, to), OT_REQUIRED, NULL },
    { 0 }
};

static ot_status bits_infer(ot_node *n, ot_error *err)
{
    int64_t  to = ((const bits_attrs *)n->attrs)->to;
    ot_dtype from = n->in[0]->dtype;
    bool     known = to > 0 && to <= OT_I2 && ot_dtype_bits((ot_dtype)to);
    if (!known || ot_dtype_bits((ot_dtype)to) != ot_dtype_bits(from))
        return ot_node_fail(n, err, "from %s to %s: both need elements of the same width", ot_dtype_name(from),
                            known ? ot_dtype_name((ot_dtype)to) : "no supported type");
    return ot_set(n->out[0], (ot_dtype)to, &n->in[0]->shape);
}

const ot_op ot_op_Bits = {
    .name = "Bits", .types = { "n" }, .in = { 1, 1 }, .out = { 1, 1 }, .flags = OT_INTERNAL, .nondiff = 1,
    .attr_size = sizeof(bits_attrs), .infer = bits_infer, .grad_zero = "bits are copied into another type",
};

static void bitcast_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    ot_yield(b, 0, x->dtype == b->node->out[0]->dtype ? x : ot_emit(b, &ot_op_Bits, b->node->attrs, OT_IN(x)));
}

const ot_op ot_op_BitCast = {
    .name = "BitCast", .types = { "n" }, .since = 26, .in = { 1, 1 }, .out = { 1, 1 }, .nondiff = 1,
    .attrs = bitcast_rows, .attr_size = sizeof(bits_attrs), .infer = bits_infer, .lower = bitcast_lower,
    .grad_zero = "bits are copied into another type",
};
