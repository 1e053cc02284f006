/* flexattention.c - FlexAttention: softmax(body(scale Q.K^T)) V, with a body for the scores and one for the
 * probabilities.
 *
 * Spec    ai.onnx.preview FlexAttention 1.
 * Shapes  Q: (B, Hq, T, D)   K: (B, Hk, S, D)   V: (B, Hk, S, E)   Y: (B, Hq, T, E)   scores: (B, Hq, T, S)
 * Grad    of its expansion: without bodies an Attention, else products and a Softmax around the bodies (passes/flex.c);
 *         so of Q, K, V and of values that the bodies read */
#include "ops/onnx/flexattention.h"

static const ot_attr rows[] = {
    { "scale", OT_FLOAT, offsetof(ot_flex_attrs, scale), 0, NULL },
    { "softmax_precision", OT_INT, offsetof(ot_flex_attrs, softmax_precision), 0, NULL },
    { "score_mod", OT_GRAPH, offsetof(ot_flex_attrs, score_mod), 0, NULL },
    { "prob_mod", OT_GRAPH, offsetof(ot_flex_attrs, prob_mod), 0, NULL },
    { 0 },
};

static ot_status flex_infer(ot_node *n, ot_error *err)
{
    const ot_flex_attrs *a = n->attrs;
    const ot_shape *q = &n->in[0]->shape, *k = &n->in[1]->shape, *v = &n->in[2]->shape;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || k->dim[0] != q->dim[0] || v->dim[0] != q->dim[0] ||
        k->dim[3] != q->dim[3] || v->dim[1] != k->dim[1] || v->dim[2] != k->dim[2] || k->dim[1] < 1 ||
        q->dim[1] % k->dim[1])
        return ot_node_fail(n, err, "Q, K and V do not match; expected (B, heads, tokens, channels) for each");
    if (a->softmax_precision &&
        (a->softmax_precision < 0 || a->softmax_precision > OT_BF16 || !(OT_SET_FLOAT >> a->softmax_precision & 1)))
        return ot_node_fail(n, err, "softmax_precision is type %lld; expected a floating-point type",
                            (long long)a->softmax_precision);
    for (int i = 0; i < 2; i++) {
        const ot_graph *body = i ? a->prob_mod : a->score_mod;
        if (body && (body->n_inputs != 1 || body->n_outputs != 1))
            return ot_node_fail(n, err, "%s has %d inputs and %d outputs; expected one of each",
                                i ? "prob_mod" : "score_mod", body->n_inputs, body->n_outputs);
    }
    return ot_set(n->out[0], n->in[0]->dtype,
                  &(ot_shape){ .rank = 4, .dim = { q->dim[0], q->dim[1], q->dim[2], v->dim[3] } });
}

const ot_op ot_op_FlexAttention = {
    .name = "FlexAttention",
    .domain = "ai.onnx.preview",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 1,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .flags = OT_SPELLED,
    .attrs = rows,
    .attr_size = sizeof(ot_flex_attrs),
    .infer = flex_infer,
};
