/* if.c - If: one of two subgraphs.
 *
 * Spec    ai.onnx If 1, 11, 13, 16, 19, 21.
 * Shapes  cond: one bool   outputs: those of the branches
 * Grad    of the branch that is taken; zero for the other
 *
 * The passes expand it (passes/control.c) after its own shape rule: if the condition is known while planning, the
 * branch replaces the node, else both branches run and Where selects. */
#include "ops/onnx/control.h"

static const ot_attr attrs[] = {
    { "else_branch", OT_GRAPH, offsetof(ot_if, else_branch), OT_REQUIRED, NULL },
    { "then_branch", OT_GRAPH, offsetof(ot_if, then_branch), OT_REQUIRED, NULL },
    { 0 },
};

/* Known before the branches are inferred: the types of their outputs, if the file declares them. */
static ot_status infer(ot_node *n, ot_error *err)
{
    const ot_if *a = n->attrs;
    const ot_graph *yes = a->then_branch, *no = a->else_branch;
    char s[128];
    if (!yes || !no) return ot_node_fail(n, err, "it needs then_branch and else_branch");
    if (ot_numel(&n->in[0]->shape) != 1)
        return ot_node_fail(n, err, "the condition is %s; expected one value", ot_shape_text(&n->in[0]->shape, s));
    if (yes->n_outputs != n->n_out || no->n_outputs != n->n_out)
        return ot_node_fail(n, err, "its branches have %d and %d outputs, but the node has %d", yes->n_outputs,
                            no->n_outputs, n->n_out);
    for (int i = 0; i < n->n_out; i++) {
        ot_dtype t = ot_declared(yes->outputs[i]), e = ot_declared(no->outputs[i]);
        if (t != e && t != OT_UNDEFINED && e != OT_UNDEFINED)
            return ot_node_fail(n, err, "its branches have different types for output %d: %s and %s", i,
                                ot_dtype_name(t), ot_dtype_name(e));
    }
    return OT_OK;
}

const ot_op ot_op_If = {
    .name = "If",
    .types = { "b" },
    .since = 11,
    .in = { 1, 1 },
    .out = { 1, OT_VARIADIC },
    .flags = OT_SPELLED,
    .nondiff = 1,
    .attrs = attrs,
    .attr_size = sizeof(ot_if),
    .infer = infer,
};
