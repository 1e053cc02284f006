/* bits.c - Bits: reinterprets elements as another type of the same width (ONNX's BitCast).
 *
 * Shapes  y: that of x
 * Grad    none: a bit pattern is not a differentiable function of its number. */
#include "ops/kernels/bits.h"

ot_status ot_bits_infer(ot_node *n, ot_error *err)
{
    int64_t to = ((const ot_bits *)n->attrs)->to;
    ot_dtype from = n->in[0]->dtype;
    bool known = to > 0 && to <= OT_I2 && ot_dtype_bits((ot_dtype)to);
    if (!known || ot_dtype_bits((ot_dtype)to) != ot_dtype_bits(from))
        return ot_node_fail(n, err, "from %s to %s: the elements must have the same size", ot_dtype_name(from),
                            known ? ot_dtype_name((ot_dtype)to) : "unsupported type");
    return ot_set(n->out[0], (ot_dtype)to, &n->in[0]->shape);
}

const ot_op ot_op_Bits = {
    .name = "Bits",
    .types = { "n" },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .nondiff = 1,
    .attr_size = sizeof(ot_bits),
    .infer = ot_bits_infer,
    .grad_zero = "bits are reinterpreted as another type",
};
