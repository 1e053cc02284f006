/* elementwise.c - shapes, types, and lowering of operators that are one function of a Map.
 *
 * Shapes  any that broadcast. */

#include "ops/onnx/elementwise.h"

static ot_status infer_as(ot_node *n, ot_dtype t, ot_error *err)
{
    ot_shape s = OT_SCALAR;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *x = n->in[i];
        if (!x) return ot_node_fail(n, err, "input %d is missing", i);
        if (!ot_dtype_bits(x->dtype))
            return ot_node_fail(n, err, "input %d is %s; expected numbers", i, ot_dtype_name(x->dtype));
        if (x->dtype != n->in[0]->dtype)
            return ot_node_fail(n, err, "inputs of type %s and %s; expected one type", ot_dtype_name(n->in[0]->dtype),
                                ot_dtype_name(x->dtype));
        char a[128], b[128];
        ot_shape before = s;
        if (!ot_broadcast(&before, &x->shape, &s))
            return ot_node_fail(n, err, "inputs of shape %s and %s do not broadcast", ot_shape_text(&before, a),
                                ot_shape_text(&x->shape, b));
    }
    return ot_set(n->out[0], t, &s);
}

ot_status ot_elementwise_infer(ot_node *n, ot_error *err)
{
    return infer_as(n, n->in[0] ? n->in[0]->dtype : OT_UNDEFINED, err);
}

ot_status ot_elementwise_infer_truth(ot_node *n, ot_error *err) { return infer_as(n, OT_BOOL, err); }

void ot_elementwise_lower(ot_build *b, int row)
{
    const ot_node *n = b->node;
    ot_fn_attrs a = { 0 };
    if (n->attrs && n->op->attr_size >= sizeof a) a = *(const ot_fn_attrs *)n->attrs; /* most functions have none */
    ot_yield(b, 0, ot_map_emit(b, row, a.p, a.q, n->in, n->n_in, n->out[0]->dtype));
}
