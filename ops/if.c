/* if.c - If: one of two subgraphs.
 *
 * Spec    ai.onnx If 1, 11, 13, 16, 19, 21.
 * Shapes  cond: one bool   outputs: those of the branches
 * Grad    of the branch that is taken; zero for the other
 *
 * The passes spell it out before its own rule is asked (passes/control.c): with a condition known while
 * planning the branch takes the node's place, else both branches run and Where chooses. */
#include "ops/control.h"

static const ot_attr attrs[] = {
    { "else_branch", OT_GRAPH, offsetof(ot_if, else_branch), 0, NULL },
    { "then_branch", OT_GRAPH, offsetof(ot_if, then_branch), 0, NULL },
    { 0 },
};

static ot_status infer(ot_node *n, ot_error *err)
{
    return ot_node_fail(n, err, "it was not spelled out before its shapes were asked for");
}

const ot_op ot_op_If = {
    .name = "If", .types = { "b" }, .since = 11, .in = { 1, 1 }, .out = { 1, OT_MANY }, .nondiff = 1,
    .attrs = attrs, .attr_size = sizeof(ot_if), .infer = infer,
};
