/* recurrent.c - Recurrent: all steps of one direction of LSTM, GRU or RNN.
 *
 * Shapes    recurrent.h
 * Grad      RecurrentDx gives dx, the gradient of the gates before their activation, and from it
 *           dr = sum over steps and samples of da h'^T, one product   db = sums of dx and of da
 *           da: dx; GRU: of n the gradient of q, dx times the gate r */
#include "ops/kernels/recurrent.h"

ot_recurrent_sizes ot_recurrent_sizes_of(const ot_node *n)
{
    bool forward = n->op == &ot_op_Recurrent, inputs = forward && !n->in[OT_REC_X];
    const ot_shape *x = &n->in[!forward ? OT_RECDX_GATES : inputs ? OT_REC_INPUTS : OT_REC_X]->shape;
    int G = ot_cell_gates(((const ot_recurrent *)n->attrs)->cell);
    return (ot_recurrent_sizes){ .T = x->dim[0],
                                 .N = x->dim[1],
                                 .H = inputs ? n->in[OT_REC_R]->shape.dim[1] : x->dim[2] / G,
                                 .G = G,
                                 .I = inputs ? x->dim[2] : 0 };
}

typedef struct shapes {
    ot_shape r, b, state, lens, y, x, inputs, w;
} shapes;

static shapes shapes_of(const ot_node *n)
{
    ot_recurrent_sizes z = ot_recurrent_sizes_of(n);
    return (shapes){ .r = { 2, { z.G * z.H, z.H } },
                     .b = { 1, { 2 * z.G * z.H } },
                     .state = { 2, { z.N, z.H } },
                     .lens = { 1, { z.N } },
                     .y = { 3, { z.T, z.N, z.H } },
                     .x = { 3, { z.T, z.N, z.G * z.H } },
                     .inputs = { 3, { z.T, z.N, z.I } },
                     .w = { 2, { z.G * z.H, z.I } } };
}

static ot_status check(const ot_node *n, const ot_shape *const *want, int count, ot_error *err)
{
    char text[2][128];
    for (int i = 0; i < count; i++) {
        const ot_value *v = ot_node_in(n, i);
        if (v && !ot_shape_eq(&v->shape, want[i]))
            return ot_node_fail(n, err, "input %d is %s; expected %s", i, ot_shape_text(&v->shape, text[0]),
                                ot_shape_text(want[i], text[1]));
    }
    return OT_OK;
}

static ot_status recurrent_infer(ot_node *n, ot_error *err)
{
    const ot_value *x = n->in[OT_REC_X] ? n->in[OT_REC_X] : ot_node_in(n, OT_REC_INPUTS);
    if (!x || (!n->in[OT_REC_X] && !ot_node_in(n, OT_REC_W))) return ot_node_fail(n, err, "x is missing");
    if (x->shape.rank != 3 || n->in[OT_REC_R]->shape.rank != 2)
        return ot_node_fail(n, err, "x must have rank 3, and r rank 2");
    shapes s = shapes_of(n);
    const ot_shape *in[] = { &s.r, &s.x, &s.b, &s.state, &s.state, &s.lens, &s.inputs, &s.w };
    OT_TRY(check(n, in, OT_REC_IN, err));
    const ot_shape *out[] = { &s.y, &s.state, &s.x, &s.y, &s.state };
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) ot_set(n->out[i], x->dtype, out[i]);
    return OT_OK;
}

static ot_status dx_infer(ot_node *n, ot_error *err)
{
    if (n->in[OT_RECDX_GATES]->shape.rank != 3) return ot_node_fail(n, err, "gates must have rank 3");
    shapes s = shapes_of(n);
    const ot_shape *in[] = { &s.r, &s.y, &s.x, &s.y, &s.state, &s.state, &s.lens, &s.y, &s.state, &s.state };
    OT_TRY(check(n, in, OT_RECDX_IN, err));
    bool lstm = ((const ot_recurrent *)n->attrs)->cell == OT_CELL_LSTM;
    const ot_shape *out[] = { &s.x, &s.y, &s.state, &s.b, lstm ? &s.state : &s.x };
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) ot_set(n->out[i], n->in[OT_RECDX_R]->dtype, out[i]);
    return OT_OK;
}

static void recurrent_grad(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_recurrent *a = n->attrs;
    ot_recurrent_sizes z = ot_recurrent_sizes_of(n);
    bool lstm = a->cell == OT_CELL_LSTM;
    ot_value *dy = ot_dout(b, OT_REC_Y), *dh = ot_dout(b, OT_REC_H), *dc = lstm ? ot_dout(b, OT_REC_C) : NULL;
    if (!dy && !dh && !dc) return; /* only RecurrentDx reads gates and cells */
    ot_value *in[OT_RECDX_IN] = { n->in[OT_REC_R],
                                  n->out[OT_REC_Y],
                                  n->out[OT_REC_GATES],
                                  n->n_out > OT_REC_CELLS ? n->out[OT_REC_CELLS] : NULL,
                                  ot_node_in(n, OT_REC_H0),
                                  ot_node_in(n, OT_REC_C0),
                                  ot_node_in(n, OT_REC_LENS),
                                  dy,
                                  dh,
                                  dc };
    ot_node *d = ot_emit_n(b, &ot_op_RecurrentDx, a, in, OT_RECDX_IN, ot_cell_gradients(a->cell));
    if (!d) return;
    ot_value *da = d->out[a->cell == OT_CELL_GRU ? OT_RECDX_DA : OT_RECDX_DX];
    ot_shape rows = { 2, { z.T * z.N, z.G * z.H } }, states = { 2, { z.T * z.N, z.H } };
    if (ot_wants(b, OT_REC_X)) ot_set_din(b, OT_REC_X, d->out[OT_RECDX_DX]);
    if (ot_wants(b, OT_REC_R))
        ot_set_din(b, OT_REC_R,
                   ot_matmul(b, ot_view(b, da, &rows), true, ot_view(b, d->out[OT_RECDX_BEFORE], &states), false));
    if (ot_wants(b, OT_REC_B)) ot_set_din(b, OT_REC_B, d->out[OT_RECDX_DB]);
    if (ot_wants(b, OT_REC_H0)) ot_set_din(b, OT_REC_H0, d->out[OT_RECDX_DH0]);
    if (ot_wants(b, OT_REC_C0)) ot_set_din(b, OT_REC_C0, d->out[OT_RECDX_DC0]);
}

static int64_t inner(const ot_node *n) { return ot_recurrent_sizes_of(n).H; }

/* One product of each step, or two; the element-wise work is small. */
static double flops(const ot_node *n)
{
    ot_recurrent_sizes z = ot_recurrent_sizes_of(n);
    return 2 * (double)(z.T * z.N) * (double)(z.G * z.H) * (double)(z.H + z.I);
}

static void words(FILE *f, const void *attrs)
{
    static const char *const name[] = { "lstm", "gru", "tanh", "relu" };
    const ot_recurrent *a = attrs;
    fprintf(f, " %s%s", name[a->cell], a->reverse ? " reverse" : "");
}

const ot_op ot_op_Recurrent = {
    .name = "Recurrent",
    .types = { "TTTTTxTT", .T = OT_SET_FLOAT },
    .in = { 1, OT_REC_IN },
    .out = { 3, 5 },
    .spare = 1u << OT_REC_H | 1u << OT_REC_GATES | 1u << OT_REC_CELLS | 1u << OT_REC_C,
    .nondiff = 1u << OT_REC_LENS,
    .flags = OT_INTERNAL | OT_PRODUCT,
    .attr_size = sizeof(ot_recurrent),
    .infer = recurrent_infer,
    .grad = recurrent_grad,
    .inner = inner,
    .flops = flops,
    .words = words,
};

const ot_op ot_op_RecurrentDx = {
    .name = "RecurrentDx",
    .types = { "TTTTTTxTTT", .T = OT_SET_FLOAT },
    .in = { 3, OT_RECDX_IN },
    .out = { 4, 5 },
    .spare = 1u << OT_RECDX_BEFORE | 1u << OT_RECDX_DH0 | 1u << OT_RECDX_DB | 1u << OT_RECDX_DC0,
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_recurrent),
    .infer = dx_infer,
    .inner = inner,
    .flops = flops,
    .words = words,
};
