/* stringequal.c - StringEqual: what Equal does on tensors of strings.
 *
 * Shapes  a, b: any that broadcast;  y: bool.  A string tensor is an array of pointers to C strings. */

#include "ops/op.h"

static ot_status stringequal_infer(ot_node *n, ot_error *err)
{
    ot_shape s;
    if (n->in[0]->dtype != OT_STRING || n->in[1]->dtype != OT_STRING) return ot_node_fail(n, err, "two tensors of strings are needed");
    if (!ot_broadcast(&n->in[0]->shape, &n->in[1]->shape, &s)) {
        char a[128], b[128];
        return ot_node_fail(n, err, "inputs of shape %s and %s do not broadcast",
                            ot_shape_text(&n->in[0]->shape, a), ot_shape_text(&n->in[1]->shape, b));
    }
    return ot_set(n->out[0], OT_BOOL, &s);
}

const ot_op ot_op_StringEqual = {
    .name = "StringEqual", .types = { "s" }, .in = { 2, 2 }, .out = { 1, 1 }, .flags = OT_INTERNAL,
    .infer = stringequal_infer, .grad_zero = "strings have no gradient",
};
