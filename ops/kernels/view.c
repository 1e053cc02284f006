/* view.c - View: the same elements in the same order with another shape.
 *
 * Grad    dx = View(dy) with the shape of x
 * Memory  the memory pass gives y the memory of x; if it cannot, the kernel copies. */
#include "ops/kernels/view.h"

static ot_status view_infer(ot_node *n, ot_error *err)
{
    const ot_view_attrs *a = n->attrs;
    const ot_value *x = n->in[0];
    if (!ot_shape_known(&a->shape) || !ot_shape_fits(&a->shape, x->dtype) ||
        ot_numel(&a->shape) != ot_numel(&x->shape)) {
        char from[128], to[128];
        return ot_node_fail(n, err, "%s does not have the number of elements of %s", ot_shape_text(&a->shape, to),
                            ot_shape_text(&x->shape, from));
    }
    return ot_set(n->out[0], x->dtype, &a->shape);
}

static void view_grad(ot_build *b) { ot_set_din(b, 0, ot_view(b, ot_dout(b, 0), &b->node->in[0]->shape)); }

/* ---- short forms ---------------------------------------------------------------- */

ot_value *ot_view(ot_build *b, ot_value *x, const ot_shape *s)
{
    if (ot_broken(b)) return NULL;
    return ot_shape_eq(&x->shape, s) ? x : ot_emit(b, &ot_op_View, &(ot_view_attrs){ *s }, OT_IN(x));
}

const ot_op ot_op_View = {
    .name = "View",
    .types = { "t" },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL | OT_ALIAS | OT_MOVES,
    .attr_size = sizeof(ot_view_attrs),
    .infer = view_infer,
    .grad = view_grad,
    .half = OT_HALF_FOLLOWS,
};
