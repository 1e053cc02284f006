/* gradient.c - Gradient: the derivatives of one tensor with respect to others.
 *
 * passes/autodiff.c replaces the node by the nodes that compute them.  In a file the tensors are named in
 * attributes; here they are inputs (importer/gradient.c), so that no pass removes them.
 *
 * Spec    ai.onnx.preview.training Gradient 1.
 * Shapes  x1 ... xk, y -> dy/dx1 ... dy/dxk, each with the shape of its x; if y has several elements, of their sum. */
#include <stddef.h>

#include "ops/op.h"

typedef struct gradient_attrs {
    ot_strings xs, zs;
    const char *y;
} gradient_attrs;

static const ot_attr rows[] = {
    { "xs", OT_TEXTS, offsetof(gradient_attrs, xs), OT_REQUIRED, NULL },
    { "y", OT_TEXT, offsetof(gradient_attrs, y), OT_REQUIRED, NULL },
    { "zs", OT_TEXTS, offsetof(gradient_attrs, zs), 0, NULL },
    { 0 },
};

static ot_status gradient_infer(ot_node *n, ot_error *err)
{
    int k = n->n_in - 1;
    if (n->n_out > k) return ot_node_fail(n, err, "%d gradients with respect to %d tensors", n->n_out, k);
    for (int i = 0; i <= k; i++)
        if (!n->in[i] || !ot_is_float(n->in[i]->dtype))
            return ot_node_fail(n, err, "'%s' is %s, but gradients need floats", n->in[i] ? n->in[i]->name : "",
                                n->in[i] ? ot_dtype_name(n->in[i]->dtype) : "missing");
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) OT_TRY(ot_like(n->out[i], n->in[i]));
    return OT_OK;
}

const ot_op ot_op_Gradient = {
    .name = "Gradient",
    .domain = "ai.onnx.preview.training",
    .since = 1,
    .types = { "*" },
    .slots = "-",
    .in = { 2, OT_VARIADIC },
    .out = { 1, OT_VARIADIC },
    .flags = OT_RANDOM | OT_SPELLED, /* never folded or merged; autodiff replaces it */
    .attrs = rows,
    .attr_size = sizeof(gradient_attrs),
    .infer = gradient_infer,
};
