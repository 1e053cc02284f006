/* loop.c - Loop and Scan: a subgraph over and over.
 *
 * Spec    ai.onnx Loop 1, 11, 13, 16, 19, 21; Scan 9, 11, 16, 19, 21.
 * Shapes  carried values keep what the body gives them; scan outputs get an axis of the iterations
 * Grad    through every iteration
 *
 * The passes spell the iterations out while they infer shapes (passes/control.c): their number must be
 * known by then. */
#include "ops/control.h"

static const ot_attr loop_attrs[] = {
    { "body", OT_GRAPH, offsetof(ot_loop_attrs, body), 0, NULL },
    { 0 },
};

static const ot_attr scan_attrs[] = {
    { "body", OT_GRAPH, offsetof(ot_scan_attrs, body), 0, NULL },
    { "num_scan_inputs", OT_INT, offsetof(ot_scan_attrs, num_scan_inputs), 0, NULL },
    { "batched", OT_INT, offsetof(ot_scan_attrs, batched), 0, NULL },
    { "scan_input_axes", OT_INTS, offsetof(ot_scan_attrs, scan_input_axes), 0, NULL },
    { "scan_input_directions", OT_INTS, offsetof(ot_scan_attrs, scan_input_directions), 0, NULL },
    { "scan_output_axes", OT_INTS, offsetof(ot_scan_attrs, scan_output_axes), 0, NULL },
    { "scan_output_directions", OT_INTS, offsetof(ot_scan_attrs, scan_output_directions), 0, NULL },
    { 0 },
};

static ot_status infer(ot_node *n, ot_error *err)
{
    return ot_node_fail(n, err, "it was not spelled out before its shapes were asked for");
}

const ot_op ot_op_Loop = {
    .name = "Loop", .types = { "ib*" }, .since = 11, .in = { 2, OT_MANY }, .out = { 1, OT_MANY }, .nondiff = 3,
    .attrs = loop_attrs, .attr_size = sizeof(ot_loop_attrs), .infer = infer,
};

const ot_op ot_op_Scan = {
    .name = "Scan", .types = { "*" }, .since = 11, .in = { 1, OT_MANY }, .out = { 1, OT_MANY },
    .attrs = scan_attrs, .attr_size = sizeof(ot_scan_attrs), .infer = infer,
};
