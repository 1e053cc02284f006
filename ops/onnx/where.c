/* where.c - Where: selects from two operands, element by element.
 *
 * Spec    ai.onnx Where 16.
 * Shapes  all three broadcast
 * Grad    to the selected operand */

#include "ops/onnx/batching.h"
#include "ops/onnx/elementwise.h"

static ot_status where_infer(ot_node *n, ot_error *err)
{
    const ot_value *c = n->in[0], *x = n->in[1], *y = n->in[2];
    ot_shape s;
    if (c->dtype != OT_BOOL) return ot_node_fail(n, err, "the condition is %s; expected bool", ot_dtype_name(c->dtype));
    if (x->dtype != y->dtype || !ot_dtype_bits(x->dtype))
        return ot_node_fail(n, err, "a choice between %s and %s; expected numbers of one type", ot_dtype_name(x->dtype),
                            ot_dtype_name(y->dtype));
    if (!ot_broadcast(&c->shape, &x->shape, &s) || !ot_broadcast(&s, &y->shape, &s)) {
        char t[3][128];
        return ot_node_fail(n, err, "shapes %s, %s and %s do not broadcast", ot_shape_text(&c->shape, t[0]),
                            ot_shape_text(&x->shape, t[1]), ot_shape_text(&y->shape, t[2]));
    }
    return ot_set(n->out[0], x->dtype, &s);
}

static void where_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_Where); }

const ot_op ot_op_Where = {
    .name = "Where",
    .types = { "bT", .T = OT_SET_COMMON },
    .slots = "-cc",
    .since = 16,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_GREATEST,
    .nondiff = 1,
    .infer = where_infer,
    .lower = where_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_pointwise,
};
