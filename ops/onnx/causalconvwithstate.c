/* causalconvwithstate.c - CausalConvWithState: a depthwise convolution over time over past elements only.
 *
 * Spec    ai.onnx CausalConvWithState 27.
 * Shapes  x: (B, C, L)  w: (C, 1, k)  b: (C)  state: (B, C, k-1)  y: (B, C, L)
 * Grad    of every input */
#include "ops/kernels/convolve.h"
#include "ops/kernels/copy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"

#include <stddef.h>

typedef struct causal_attrs {
    int64_t activation;
} causal_attrs;

static const char *const activations[] = { "none", "silu", "swish", NULL };

static const ot_attr causal_rows[] = {
    { "activation", OT_ENUM, offsetof(causal_attrs, activation), 0, activations },
    { 0 },
};

static ot_status causal_infer(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *w = &n->in[1]->shape;
    const ot_value *bias = ot_node_in(n, 2), *past = ot_node_in(n, 3);
    if (x->rank != 3 || w->rank != 3 || w->dim[0] != x->dim[1] || w->dim[1] != 1 || w->dim[2] < 1)
        return ot_node_fail(n, err, "x must be (batch, channels, length) and the weight (channels, 1, size)");
    ot_shape state = { .rank = 3, .dim = { x->dim[0], x->dim[1], w->dim[2] - 1 } };
    if (past && !ot_shape_eq(&past->shape, &state))
        return ot_node_fail(n, err, "past_state must be (batch, channels, size - 1)");
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != x->dim[1]))
        return ot_node_fail(n, err, "the bias must have one value per channel");
    ot_like(n->out[0], n->in[0]);
    return n->n_out > 1 ? ot_set(n->out[1], n->in[0]->dtype, &state) : OT_OK;
}

static void causal_lower(ot_build *b)
{
    static const int64_t zero[OT_MAX_RANK], one[OT_MAX_RANK] = { 1, 1, 1 };
    const ot_node *n = b->node;
    ot_value *x = n->in[0], *past = ot_node_in(n, 3);
    int64_t more = n->in[1]->shape.dim[2] - 1, at[OT_MAX_RANK] = { 0, 0, x->shape.dim[2] };
    ot_shape whole = x->shape, state = x->shape;
    ot_piece *p = ot_pieces(b, 2), *last = ot_pieces(b, 1);
    if (!p || !last) return;
    whole.dim[2] += more;
    state.dim[2] = more;
    ot_piece_box(&p[0], &x->shape, zero, one, x->shape.dim);
    p[0].dst[2] = more;
    ot_piece_box(&p[1], &state, zero, one, state.dim);
    p[1].in = 1;
    ot_value *long_x = ot_copy_emit(b, &whole, 0, p, past ? 2 : 1, (ot_value *[]){ x, past }, past ? 2 : 1);
    ot_convolve c = { .window = { .nd = 1, .kernel = { more + 1 }, .stride = { 1 }, .dilation = { 1 } },
                      .group = x->shape.dim[1] };
    ot_value *y =
        ot_emit(b, &ot_op_Convolve, &c, (ot_value *[]){ long_x, n->in[1], ot_node_in(n, 2) }, ot_node_in(n, 2) ? 3 : 2);
    if (((const causal_attrs *)n->attrs)->activation) y = ot_map1(b, OT_FN_Swish, 1, 0, y);
    ot_yield(b, 0, y);
    if (n->n_out < 2 || !n->out[1]) return;
    ot_piece_box(last, &whole, at, one, state.dim);
    ot_yield(b, 1, ot_copy_emit(b, &state, 0, last, 1, &long_x, 1));
}

const ot_op ot_op_CausalConvWithState = {
    .name = "CausalConvWithState",
    .types = { "TTTT", .T = OT_SET_FLOAT },
    .slots = "-WB-",
    .since = 27,
    .in = { 2, 4 },
    .out = { 1, 2 },
    .attrs = causal_rows,
    .attr_size = sizeof(causal_attrs),
    .infer = causal_infer,
    .lower = causal_lower,
};
