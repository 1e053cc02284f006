/* loop.c - Loop and Scan: repeat a subgraph.
 *
 * Spec    ai.onnx Loop 1, 11, 13, 16, 19, 21; Scan 9, 11, 16, 19, 21.
 * Shapes  carried values have the types and shapes of the body's outputs; scan outputs get an axis of the iterations
 * Grad    through every iteration
 *
 * The passes unroll the iterations while they infer shapes (passes/control.c): their number must be known by then. */
#include "ops/onnx/control.h"

static const ot_attr loop_attrs[] = {
    { "body", OT_GRAPH, offsetof(ot_loop_attrs, body), OT_REQUIRED, NULL },
    { 0 },
};

static const ot_attr scan_attrs[] = {
    { "body", OT_GRAPH, offsetof(ot_scan_attrs, body), OT_REQUIRED, NULL },
    { "num_scan_inputs", OT_INT, offsetof(ot_scan_attrs, num_scan_inputs), OT_REQUIRED, NULL },
    { "batched", OT_INT, offsetof(ot_scan_attrs, batched), 0, NULL },
    { "scan_input_axes", OT_INTS, offsetof(ot_scan_attrs, scan_input_axes), 0, NULL },
    { "scan_input_directions", OT_INTS, offsetof(ot_scan_attrs, scan_input_directions), 0, NULL },
    { "scan_output_axes", OT_INTS, offsetof(ot_scan_attrs, scan_output_axes), 0, NULL },
    { "scan_output_directions", OT_INTS, offsetof(ot_scan_attrs, scan_output_directions), 0, NULL },
    { 0 },
};

/* Trip count and condition are one value each, "" if missing; carried values keep their types. */
static ot_status loop_infer(ot_node *n, ot_error *err)
{
    const ot_loop_attrs *a = n->attrs;
    char s[128];
    int carried = n->n_in - 2;
    if (!a->body) return ot_node_fail(n, err, "the required attribute 'body' is missing");
    if (carried < 0)
        return ot_node_fail(n, err, "%d inputs; trip count and condition are required, \"\" if unused", n->n_in);
    for (int i = 0; i < 2; i++)
        if (n->in[i] && ot_numel(&n->in[i]->shape) != 1)
            return ot_node_fail(n, err, "the %s is %s; expected one value", i ? "condition" : "trip count",
                                ot_shape_text(&n->in[i]->shape, s));
    if (n->n_out < carried || a->body->n_inputs != n->n_in || a->body->n_outputs != 1 + n->n_out)
        return ot_node_fail(n, err, "its body has %d inputs and %d outputs, expected %d and %d", a->body->n_inputs,
                            a->body->n_outputs, n->n_in, 1 + n->n_out);
    for (int i = 0; i < carried; i++) {
        if (!n->in[2 + i]) return ot_node_fail(n, err, "input %d is missing", 2 + i);
        ot_dtype first = a->carried ? a->carried[i] : n->in[2 + i]->dtype, next = ot_declared(a->body->outputs[1 + i]);
        if (n->in[2 + i]->dtype != first) next = n->in[2 + i]->dtype;
        if (next != OT_UNDEFINED && next != first)
            return ot_node_fail(n, err, "loop-carried value %d is %s at the start, but the body produces %s", i,
                                ot_dtype_name(first), ot_dtype_name(next));
    }
    return OT_OK;
}

/* An attribute with one value for each of `count` tensors, or empty. */
static ot_status one_each(const ot_node *n, const char *name, ot_ints list, int count, bool direction, ot_error *err)
{
    if (list.n && list.n != count) return ot_node_fail(n, err, "%s has %d values; expected %d", name, list.n, count);
    for (int i = 0; direction && i < list.n; i++)
        if (list.v[i] != 0 && list.v[i] != 1)
            return ot_node_fail(n, err, "%s has value %lld, expected 0 or 1", name, (long long)list.v[i]);
    return OT_OK;
}

static ot_status scan_infer(ot_node *n, ot_error *err)
{
    const ot_scan_attrs *a = n->attrs;
    int front = a->batched != 0, axis;
    int64_t length = 0;
    if (!a->body) return ot_node_fail(n, err, "the required attribute 'body' is missing");
    if (a->num_scan_inputs < 1 || a->num_scan_inputs > n->n_in)
        return ot_node_fail(n, err, "num_scan_inputs is %lld; it has %d inputs", (long long)a->num_scan_inputs,
                            n->n_in);
    int scanned = (int)a->num_scan_inputs, carried = n->n_in - scanned, scans = n->n_out - carried;
    if (scans < 0 || a->body->n_inputs != n->n_in || a->body->n_outputs != n->n_out)
        return ot_node_fail(n, err, "its body has %d inputs and %d outputs, but the node has %d and %d",
                            a->body->n_inputs, a->body->n_outputs, n->n_in, n->n_out);
    OT_TRY(one_each(n, "scan_input_axes", a->scan_input_axes, scanned, false, err));
    OT_TRY(one_each(n, "scan_input_directions", a->scan_input_directions, scanned, true, err));
    OT_TRY(one_each(n, "scan_output_axes", a->scan_output_axes, scans, false, err));
    OT_TRY(one_each(n, "scan_output_directions", a->scan_output_directions, scans, true, err));
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i]) return ot_node_fail(n, err, "input %d is missing", i);
    for (int i = 0; i < carried; i++) {
        ot_dtype next = ot_declared(a->body->outputs[i]);
        if (next != OT_UNDEFINED && next != n->in[i]->dtype)
            return ot_node_fail(n, err, "loop-carried value %d is %s at the start, but the body produces %s", i,
                                ot_dtype_name(n->in[i]->dtype), ot_dtype_name(next));
    }
    for (int i = 0; i < scanned; i++) {
        const ot_shape *x = &n->in[carried + i]->shape;
        int64_t at = i < a->scan_input_axes.n ? a->scan_input_axes.v[i] : 0;
        if (x->rank < 1 + front || !ot_axis(at, x->rank - front, &axis))
            return ot_node_fail(n, err, "scan axis %lld of input %d is out of range for rank %d", (long long)at,
                                carried + i, x->rank);
        if (i && x->dim[front + axis] != length)
            return ot_node_fail(n, err, "it scans %lld elements of input %d, but %lld of input %d", (long long)length,
                                carried, (long long)x->dim[front + axis], carried + i);
        length = x->dim[front + axis];
        if (front && x->dim[0] != n->in[carried]->shape.dim[0])
            return ot_node_fail(n, err,
                                "its inputs have different batch "
                                "sizes");
    }
    return OT_OK;
}

const ot_op ot_op_Loop = {
    .name = "Loop",
    .types = { "ib*" },
    .slots = "-",
    .since = 11,
    .in = { 0, OT_VARIADIC },
    .out = { 1, OT_VARIADIC },
    .flags = OT_LISTS | OT_SPELLED,
    .nondiff = 3,
    .attrs = loop_attrs,
    .attr_size = sizeof(ot_loop_attrs),
    .infer = loop_infer,
};

const ot_op ot_op_Scan = {
    .name = "Scan",
    .types = { "*" },
    .slots = "-",
    .since = 11,
    .in = { 1, OT_VARIADIC },
    .out = { 1, OT_VARIADIC },
    .flags = OT_SPELLED,
    .attrs = scan_attrs,
    .attr_size = sizeof(ot_scan_attrs),
    .infer = scan_infer,
};
