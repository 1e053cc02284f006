/* bitcast.c - BitCast: reinterprets elements as another type of the same width.
 *
 * Spec    ai.onnx BitCast 26.
 * Shapes  y: that of x
 * Grad    none: a bit pattern is not a differentiable function of its number. */
#include "ops/kernels/bits.h"

#include <stddef.h>

static const ot_attr bitcast_rows[] = {
    { "to", OT_INT, offsetof(ot_bits, to), OT_REQUIRED, NULL },
    { 0 },
};

static void bitcast_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    ot_yield(b, 0, x->dtype == b->node->out[0]->dtype ? x : ot_emit(b, &ot_op_Bits, b->node->attrs, OT_IN(x)));
}

const ot_op ot_op_BitCast = {
    .name = "BitCast",
    .types = { "n" },
    .since = 26,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .nondiff = 1,
    .attrs = bitcast_rows,
    .attr_size = sizeof(ot_bits),
    .infer = ot_bits_infer,
    .lower = bitcast_lower,
    .grad_zero = "bits are reinterpreted as another type",
};
