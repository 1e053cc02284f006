/* swiglu.c - SwiGLU: Swish(A) * B.
 *
 * Spec    ai.onnx SwiGLU 28.
 * Grad    of A and B */
#include "ops/kernels/map.h"

#include <stddef.h>

typedef struct swiglu_attrs {
    double alpha;
} swiglu_attrs;

static const ot_attr swiglu_rows[] = {
    { "alpha", OT_FLOAT, offsetof(swiglu_attrs, alpha), 1, NULL },
    { 0 },
};

static ot_status swiglu_infer(ot_node *n, ot_error *err)
{
    char a[128], c[128];
    if (!ot_shape_eq(&n->in[0]->shape, &n->in[1]->shape))
        return ot_node_fail(n, err, "A is %s, but B is %s; expected equal shapes", ot_shape_text(&n->in[0]->shape, a),
                            ot_shape_text(&n->in[1]->shape, c));
    return ot_like(n->out[0], n->in[0]);
}

static void swiglu_lower(ot_build *b)
{
    ot_value *gate = ot_map1(b, OT_FN_Swish, ((const swiglu_attrs *)b->node->attrs)->alpha, 0, b->node->in[0]);
    ot_yield(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, gate, b->node->in[1]));
}

const ot_op ot_op_SwiGLU = {
    .name = "SwiGLU",
    .types = { "TT", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 28,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .attrs = swiglu_rows,
    .attr_size = sizeof(swiglu_attrs),
    .infer = swiglu_infer,
    .lower = swiglu_lower,
};
