/* strings.c - StringEqual and StringTake: Equal and Gather for tensors of strings.
 *
 * Shapes  StringEqual: a, b: any that broadcast;  y: bool
 *         StringTake: x: strings; index: int64, into x as a flat list;  y: strings, of the shape of index
 *         A string tensor is an array of pointers to C strings, which live as long as the constant or fed tensor. */

#include "ops/op.h"

static ot_status stringequal_infer(ot_node *n, ot_error *err)
{
    ot_shape s;
    if (n->in[0]->dtype != OT_STRING || n->in[1]->dtype != OT_STRING)
        return ot_node_fail(n, err, "expected two string tensors");
    if (!ot_broadcast(&n->in[0]->shape, &n->in[1]->shape, &s)) {
        char a[128], b[128];
        return ot_node_fail(n, err, "inputs of shape %s and %s do not broadcast", ot_shape_text(&n->in[0]->shape, a),
                            ot_shape_text(&n->in[1]->shape, b));
    }
    return ot_set(n->out[0], OT_BOOL, &s);
}

const ot_op ot_op_StringEqual = {
    .name = "StringEqual",
    .types = { "s" },
    .in = { 2, 2 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .infer = stringequal_infer,
    .grad_zero = "strings have no gradient",
};

static ot_status stringtake_infer(ot_node *n, ot_error *err)
{
    (void)err;
    return ot_set(n->out[0], OT_STRING, &n->in[1]->shape);
}

const ot_op ot_op_StringTake = {
    .name = "StringTake",
    .types = { "si" },
    .in = { 2, 2 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .nondiff = 3,
    .infer = stringtake_infer,
    .grad_zero = "strings have no gradient",
};
