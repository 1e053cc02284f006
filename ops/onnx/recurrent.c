/* recurrent.c - LSTM, GRU and RNN.
 *
 * Spec    ai.onnx LSTM 7, 14, 22; GRU 7, 14, 22; RNN 7, 14, 22.
 * Shapes  x: (T, N, I)  w: (D, G H, I)  r: (D, G H, H)  b: (D, 2 G H)  lens: (N)  h0, c0: (D, N, H)
 *         p: (D, 3 H)  y: (T, D, N, H)  y_h, y_c: (D, N, H)       D directions, G gates
 *         layout 1: x (N, T, I)  h0, c0, y_h, y_c (N, D, H)  y (N, T, D, H)
 *         Gates: i o f c (LSTM), z r h (GRU).
 * Grad    of the operators they are lowered to.
 *
 * One product for the inputs of all steps, then a product with the state per step: in a Recurrent for each direction if the
 * device has that kernel and it has all that the node asks for, else unrolled, since the number of steps is known.  After
 * the end of a sample its state is kept and its output is 0; the reverse direction reads the padding first, keeps the
 * initial state, and so starts at each sample's end. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "ops/kernels/copy.h"
#include "ops/kernels/dot.h"
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/kernels/recurrent.h"
#include "ops/onnx/batching.h"

enum { FORWARD, REVERSE, BIDIRECTIONAL };
enum { X, W, R, B, LENS, H0, C0, P };

typedef struct recurrent_attrs {
    ot_floats alpha, beta;
    ot_strings activations;
    double clip;
    int64_t direction, hidden_size, input_forget, layout, linear_before_reset;
} recurrent_attrs;

static const char *const directions[] = { "forward", "reverse", "bidirectional", NULL };

#define AT(field) offsetof(recurrent_attrs, field)
#define SHARED_ROWS                                                        \
    { "activation_alpha", OT_FLOATS, AT(alpha),       0, NULL },           \
    { "activation_beta",  OT_FLOATS, AT(beta),        0, NULL },           \
    { "activations",      OT_TEXTS,  AT(activations), 0, NULL },           \
    { "clip",             OT_FLOAT,  AT(clip),        0, NULL },           \
    { "direction",        OT_ENUM,   AT(direction),   FORWARD, directions }, \
    { "hidden_size",      OT_INT,    AT(hidden_size), 0, NULL },           \
    { "layout",           OT_INT,    AT(layout),      0, NULL }

static const ot_attr rnn_rows[] = { SHARED_ROWS, { 0 } };
static const ot_attr gru_rows[] = {
    SHARED_ROWS,
    { "linear_before_reset", OT_INT, AT(linear_before_reset), 0, NULL },
    { 0 },
};
static const ot_attr lstm_rows[] = {
    SHARED_ROWS,
    { "input_forget", OT_INT, AT(input_forget), 0, NULL },
    { 0 },
};
#undef AT

static bool given(const ot_node *n, int i) { return i < n->n_in && n->in[i]; }

/* ---- activations ----------------------------------------------------------- */

typedef struct activation {
    const char *name;
    int row;
    int takes;          /* how many of alpha and beta it uses */
    double alpha, beta; /* defaults, replaced by the file's */
} activation;

enum { AFFINE = -1, SCALED_TANH = -2 }; /* more than one row */

static const activation known[] = {
    { "Affine", AFFINE, 2, 1, 0 },
    { "Elu", OT_FN_Elu, 1, 1, 0 },
    { "HardSigmoid", OT_FN_HardSigmoid, 2, 0.2, 0.5 },
    { "Relu", OT_FN_Relu, 0, 0, 0 },
    { "LeakyRelu", OT_FN_LeakyRelu, 1, 0.01, 0 },
    { "Sigmoid", OT_FN_Sigmoid, 0, 0, 0 },
    { "ScaledTanh", SCALED_TANH, 2, 1, 1 },
    { "Softplus", OT_FN_Softplus, 0, 0, 0 },
    { "ThresholdedRelu", OT_FN_ThresholdedRelu, 1, 1, 0 },
    { "Softsign", OT_FN_Softsign, 0, 0, 0 },
    { "Tanh", OT_FN_Tanh, 0, 0, 0 },
};

static const activation *find_activation(const char *name)
{
    for (int i = 0; i < OT_LEN(known); i++)
        if (!strcasecmp(known[i].name, name)) return &known[i];
    return NULL;
}

/* The `per` activations of every direction.  alpha and beta are consumed in order by those that use them. */
static ot_status find_activations(const ot_node *n, const char *const *usual, int per, activation out[6], ot_error *err)
{
    const recurrent_attrs *a = n->attrs;
    int all = per * (a->direction == BIDIRECTIONAL ? 2 : 1), alpha = 0, beta = 0;
    if (a->activations.n && a->activations.n != all)
        return ot_node_fail(n, err, "%d activations; expected %d", a->activations.n, all);
    for (int i = 0; i < all; i++) {
        const char *name = a->activations.n ? a->activations.v[i] : usual[i % per];
        const activation *f = find_activation(name);
        if (!f) return ot_node_fail(n, err, "unknown activation '%s'", name);
        out[i] = *f;
        if (f->takes > 0 && alpha < a->alpha.n) out[i].alpha = (double)a->alpha.v[alpha++];
        if (f->takes > 1 && beta < a->beta.n) out[i].beta = (double)a->beta.v[beta++];
    }
    return OT_OK;
}

static ot_value *times(ot_build *b, ot_value *x, double by)
{
    return by == 1 || !x ? x : ot_map2(b, OT_FN_Mul, 0, 0, x, ot_scalar(b, x->dtype, by));
}

static ot_value *activate(ot_build *b, const activation *f, double clip, ot_value *x)
{
    if (!x) return NULL;
    if (clip > 0) x = ot_map3(b, OT_FN_Clip, 0, 0, x, ot_scalar(b, x->dtype, -clip), ot_scalar(b, x->dtype, clip));
    if (f->row == SCALED_TANH) return times(b, ot_map1(b, OT_FN_Tanh, 0, 0, times(b, x, f->beta)), f->alpha);
    if (f->row != AFFINE) return ot_map1(b, f->row, f->alpha, f->beta, x);
    x = times(b, x, f->alpha);
    return f->beta == 0 || !x ? x : ot_map2(b, OT_FN_Add, 0, 0, x, ot_scalar(b, x->dtype, f->beta));
}

/* ---- shapes ---------------------------------------------------------------- */

typedef struct sizes {
    int64_t T, N, I, H, D;
    int gates;
} sizes;

static const char *const usual_lstm[] = { "Sigmoid", "Tanh", "Tanh" };
static const char *const usual_gru[] = { "Sigmoid", "Tanh" };
static const char *const usual_rnn[] = { "Tanh" };

static ot_status expect(const ot_node *n, int i, const ot_shape *s, ot_error *err)
{
    static const char *const name[] = { "X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P" };
    char text[2][128];
    if (!given(n, i)) return OT_OK;
    const ot_value *v = n->in[i];
    if (!ot_shape_eq(&v->shape, s))
        return ot_node_fail(n, err, "%s is %s; expected %s", name[i], ot_shape_text(&v->shape, text[0]),
                            ot_shape_text(s, text[1]));
    return OT_OK;
}

static ot_status find_sizes(const ot_node *n, int gates, sizes *z, ot_error *err)
{
    const recurrent_attrs *a = n->attrs;
    for (int i = X; i <= R; i++) {
        if (!given(n, i)) return ot_node_fail(n, err, "input %d is missing", i);
        if (n->in[i]->shape.rank != 3)
            return ot_node_fail(n, err, "input %d has rank %d; expected 3", i, n->in[i]->shape.rank);
    }
    const ot_shape *x = &n->in[X]->shape;
    if (a->layout != 0 && a->layout != 1)
        return ot_node_fail(n, err, "layout is %lld; expected 0 or 1", (long long)a->layout);
    *z = (sizes){ .T = x->dim[a->layout ? 1 : 0],
                  .N = x->dim[a->layout ? 0 : 1],
                  .I = x->dim[2],
                  .H = n->in[R]->shape.dim[2],
                  .D = a->direction == BIDIRECTIONAL ? 2 : 1,
                  .gates = gates };
    if (a->hidden_size && a->hidden_size != z->H)
        return ot_node_fail(n, err, "hidden_size is %lld; R has %lld", (long long)a->hidden_size, (long long)z->H);
    if (z->H > INT32_MAX) return ot_node_fail(n, err, "invalid hidden size %lld", (long long)z->H);
    return OT_OK;
}

static ot_shape state_shape(const ot_node *n, const sizes *z)
{
    bool batch_first = ((const recurrent_attrs *)n->attrs)->layout;
    return (ot_shape){ .rank = 3, .dim = { batch_first ? z->N : z->D, batch_first ? z->D : z->N, z->H } };
}

static ot_status infer(ot_node *n, int gates, const char *const *usual, int per, ot_error *err)
{
    activation f[6];
    sizes z;
    OT_TRY(find_sizes(n, gates, &z, err));
    OT_TRY(find_activations(n, usual, per, f, err));
    int64_t gh = z.gates * z.H;
    ot_shape state = state_shape(n, &z);
    OT_TRY(expect(n, W, &(ot_shape){ .rank = 3, .dim = { z.D, gh, z.I } }, err));
    OT_TRY(expect(n, R, &(ot_shape){ .rank = 3, .dim = { z.D, gh, z.H } }, err));
    OT_TRY(expect(n, B, &(ot_shape){ .rank = 2, .dim = { z.D, 2 * gh } }, err));
    OT_TRY(expect(n, LENS, &(ot_shape){ .rank = 1, .dim = { z.N } }, err));
    if (given(n, LENS)) OT_TRY(ot_index_check(n, LENS, 0, 1, 0, z.T, err));
    OT_TRY(expect(n, H0, &state, err));
    OT_TRY(expect(n, C0, &state, err));
    OT_TRY(expect(n, P, &(ot_shape){ .rank = 2, .dim = { z.D, 3 * z.H } }, err));
    ot_shape y = { .rank = 4, .dim = { z.T, z.D, z.N, z.H } };
    if (((const recurrent_attrs *)n->attrs)->layout) y = (ot_shape){ .rank = 4, .dim = { z.N, z.T, z.D, z.H } };
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) OT_TRY(ot_set(n->out[i], n->in[X]->dtype, i ? &state : &y));
    return OT_OK;
}

/* ---- pieces ---------------------------------------------------------------- */

/* `size` elements of x along an axis from start on. */
static ot_value *part(ot_build *b, ot_value *x, int axis, int64_t start, int64_t size)
{
    static const int64_t one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    int64_t from[OT_MAX_RANK] = { 0 };
    ot_piece *p = ot_pieces(b, 1);
    if (!p || !x) return NULL;
    ot_shape s = x->shape;
    from[axis] = start;
    s.dim[axis] = size;
    ot_piece_box(p, &x->shape, from, one, s.dim);
    return ot_copy_emit(b, &s, 0, p, 1, &x, 1);
}

/* Slice d of axis 0 or 1 of x, without that axis; NULL for NULL. */
static ot_value *slice(ot_build *b, ot_value *x, int axis, int64_t d)
{
    ot_value *v = part(b, x, axis, d, 1);
    if (!v) return NULL;
    ot_shape s = { .rank = v->shape.rank - 1 };
    for (int i = 0; i < s.rank; i++) s.dim[i] = v->shape.dim[i < axis ? i : i + 1];
    return ot_view(b, v, &s);
}

/* The n slices of x along axis 0.  Splits by halves: with separate slices each gradient would be as large as x, n
 * times x to add up instead of log n. */
static void unstack(ot_build *b, ot_value *x, int64_t n, ot_value **out)
{
    if (n == 0 || !x) return;
    if (n == 1) {
        ot_shape s = { .rank = 2, .dim = { x->shape.dim[1], x->shape.dim[2] } };
        out[0] = ot_view(b, x, &s);
        return;
    }
    unstack(b, part(b, x, 0, 0, n / 2), n / 2, out);
    unstack(b, part(b, x, 0, n / 2, n - n / 2), n - n / 2, out + n / 2);
}

/* Places values (N, H) into a tensor of zeros: number k at coordinates k0 of axis a0, k1 of axis a1. */
static ot_value *stack(ot_build *b, const ot_shape *s, ot_value *const *v, int64_t n0, int a0, int64_t n1, int a1,
                       int batch)
{
    int64_t n = n0 * n1, H = s->dim[s->rank - 1];
    ot_piece *p = ot_pieces(b, n);
    if (!p) return NULL;
    if (n == 0) return ot_expand(b, ot_scalar(b, b->node->in[X]->dtype, 0), s);
    for (int64_t k = 0; k < n; k++) {
        for (int d = 0; d < s->rank; d++) p[k].extent[d] = 1;
        p[k].in = k;
        p[k].dst[a1] = k % n1;
        if (n0 > 1) p[k].dst[a0] = k / n1;
        p[k].extent[batch] = s->dim[batch];
        p[k].stride[batch] = H;
        p[k].extent[s->rank - 1] = H;
        p[k].stride[s->rank - 1] = 1;
    }
    return ot_copy_emit(b, s, 0, p, n, v, (int)n);
}

/* ---- one direction ---------------------------------------------------------- */

typedef struct state {
    ot_value *h, *c;
} state; /* (N, H) each; c: LSTM only */

typedef struct direction {
    const recurrent_attrs *a;
    sizes z;
    const activation *f;
    ot_value *r, *r_bias; /* (G H, H); GRU with linear_before_reset: (3 H), zeros and Rb of h */
    ot_value *r_zr, *r_h; /* GRU: the rows of z and r, those of h */
    ot_value *p[3];       /* LSTM: peepholes (H) of i, o, f; NULL: none */
    ot_value *one;
    ot_value *lens; /* (N), within 0..T; NULL: every sample has T steps */
} direction;

typedef state step_fn(ot_build *b, const direction *d, ot_value *x, state s);

static ot_value *add(ot_build *b, ot_value *x, ot_value *y)
{
    return x && y ? ot_map2(b, OT_FN_Add, 0, 0, x, y) : NULL;
}
static ot_value *mul(ot_build *b, ot_value *x, ot_value *y)
{
    return x && y ? ot_map2(b, OT_FN_Mul, 0, 0, x, y) : NULL;
}

static ot_value *gate(ot_build *b, const direction *d, ot_value *x, int64_t k)
{
    return part(b, x, 1, k * d->z.H, d->z.H);
}

static ot_value *act(ot_build *b, const direction *d, int f, ot_value *x)
{
    return activate(b, &d->f[f], d->a->clip, x);
}

/* A gate of LSTM with its peephole for c. */
static ot_value *peep(ot_build *b, const direction *d, ot_value *x, int64_t k, ot_value *c)
{
    ot_value *v = gate(b, d, x, k);
    if (d->p[k]) v = add(b, v, mul(b, d->p[k], c));
    return act(b, d, 0, v);
}

static state lstm_step(ot_build *b, const direction *d, ot_value *x, state s)
{
    ot_value *a = add(b, x, ot_matmul(b, s.h, false, d->r, true));
    ot_value *i = peep(b, d, a, 0, s.c);
    ot_value *f = d->a->input_forget ? ot_map2(b, OT_FN_Sub, 0, 0, d->one, i) : peep(b, d, a, 2, s.c);
    ot_value *g = act(b, d, 1, gate(b, d, a, 3));
    ot_value *c = add(b, mul(b, f, s.c), mul(b, i, g));
    ot_value *o = peep(b, d, a, 1, c);
    return (state){ mul(b, o, activate(b, &d->f[2], 0, c)), c };
}

static state gru_step(ot_build *b, const direction *d, ot_value *x, state s)
{
    int64_t H = d->z.H;
    ot_value *xzr = part(b, x, 1, 0, 2 * H), *xh = gate(b, d, x, 2), *zr, *z, *r, *h;
    if (d->a->linear_before_reset) {
        ot_value *a = d->r_bias ? ot_emit(b, &ot_op_Dot, &(ot_dot){ 0, 1 }, OT_IN(s.h, d->r, d->r_bias))
                                : ot_matmul(b, s.h, false, d->r, true);
        zr = act(b, d, 0, add(b, xzr, part(b, a, 1, 0, 2 * H)));
        z = gate(b, d, zr, 0);
        r = gate(b, d, zr, 1);
        h = add(b, xh, mul(b, r, gate(b, d, a, 2)));
    } else {
        zr = act(b, d, 0, add(b, xzr, ot_matmul(b, s.h, false, d->r_zr, true)));
        z = gate(b, d, zr, 0);
        r = gate(b, d, zr, 1);
        h = add(b, xh, ot_matmul(b, mul(b, r, s.h), false, d->r_h, true));
    }
    h = act(b, d, 1, h);
    ot_value *keep = mul(b, z, s.h), *take = mul(b, ot_map2(b, OT_FN_Sub, 0, 0, d->one, z), h);
    return (state){ add(b, take, keep), NULL };
}

static state rnn_step(ot_build *b, const direction *d, ot_value *x, state s)
{
    return (state){ act(b, d, 0, add(b, x, ot_matmul(b, s.h, false, d->r, true))), NULL };
}

/* The bias added to the product of the inputs: Wb + Rb, without Rb of h if that is reset. (G H) */
static ot_value *input_bias(ot_build *b, direction *d, ot_value *bias, bool reset)
{
    int64_t gh = d->z.gates * d->z.H, H = d->z.H;
    ot_value *wb = part(b, bias, 0, 0, gh), *rb = part(b, bias, 0, gh, gh);
    if (!reset || !rb) return add(b, wb, rb);
    ot_piece *p = ot_pieces(b, 2);
    if (!p) return NULL;
    ot_shape s = { .rank = 1, .dim = { gh } };
    p[0] = (ot_piece){ .stride = { 1 }, .extent = { 2 * H } };
    p[1] = (ot_piece){ .src = 2 * H, .stride = { 1 }, .dst = { 2 * H }, .extent = { H } };
    d->r_bias = ot_copy_emit(b, &s, 0, &p[1], 1, &rb, 1);
    return add(b, wb, ot_copy_emit(b, &s, 0, &p[0], 1, &rb, 1));
}

/* The part of the gates that depends on the inputs: (T, N, G H).  bias: NULL, or added. */
static ot_value *project(ot_build *b, const direction *d, ot_value *x, int64_t k, ot_value *bias)
{
    const ot_node *n = b->node;
    const sizes *z = &d->z;
    ot_shape flat = { .rank = 2, .dim = { z->T * z->N, z->I } },
             rows = { .rank = 3, .dim = { z->T, z->N, z->gates * z->H } };
    ot_value *in[] = { ot_view(b, x, &flat), slice(b, n->in[W], 0, k), bias };
    ot_value *a = ot_emit(b, &ot_op_Dot, &(ot_dot){ 0, 1 }, in, bias ? 3 : 2);
    return ot_view(b, a, &rows);
}

/* Direction k's part of a state; NULL: it is not given. */
static ot_value *start(ot_build *b, const direction *d, int i, int64_t k)
{
    return given(b->node, i) ? slice(b, b->node->in[i], d->a->layout ? 1 : 0, k) : NULL;
}

static ot_value *start_or_zeros(ot_build *b, const direction *d, int i, int64_t k)
{
    if (given(b->node, i)) return start(b, d, i, k);
    return ot_expand(b, ot_scalar(b, b->node->in[X]->dtype, 0), &(ot_shape){ .rank = 2, .dim = { d->z.N, d->z.H } });
}

/* Are there more than t steps in every sample, whatever the data? */
static bool all_longer(const ot_value *lens, int64_t t)
{
    bool all = ot_is_const(lens);
    for (int64_t i = 0; all && i < lens->shape.dim[0]; i++) all = ot_get_i64(lens->data, lens->dtype, i) > t;
    return all;
}

/* A mask of the samples with a step t: (N, 1); NULL: all. */
static ot_value *alive(ot_build *b, const direction *d, int64_t t)
{
    if (!d->lens || ot_broken(b) || all_longer(b->node->in[LENS], t)) return NULL;
    ot_value *lens = ot_view(b, d->lens, &(ot_shape){ .rank = 2, .dim = { d->z.N, 1 } });
    return ot_map2(b, OT_FN_Greater, 0, 0, lens, ot_scalar(b, d->lens->dtype, (double)t));
}

/* The steps of direction k as nodes; y[t * D + k] is the output of step t, (N, H).  Returns the last state. */
static state unroll(ot_build *b, direction *d, ot_value *x, int64_t k, step_fn *step, ot_value **y)
{
    const sizes *z = &d->z;
    bool lstm = z->gates == 4, back = d->a->direction == REVERSE || k == 1;
    ot_value **xt = ot_graph_alloc(b->graph, ((size_t)z->T + 1) * sizeof *xt), *bias = NULL;
    if (!xt) return (state){ NULL, NULL };
    if (given(b->node, B))
        bias = input_bias(b, d, slice(b, b->node->in[B], 0, k), z->gates == 3 && d->a->linear_before_reset);
    unstack(b, project(b, d, x, k, bias), z->T, xt);
    state s = { start_or_zeros(b, d, H0, k), lstm ? start_or_zeros(b, d, C0, k) : NULL };
    if (z->gates == 3 && !d->a->linear_before_reset) {
        d->r_zr = part(b, d->r, 0, 0, 2 * z->H);
        d->r_h = part(b, d->r, 0, 2 * z->H, z->H);
    }
    for (int64_t j = 0; j < z->T && !ot_broken(b); j++) {
        int64_t t = back ? z->T - 1 - j : j;
        ot_value *mask = alive(b, d, t);
        state now = step(b, d, xt[t], s);
        y[t * z->D + k] = now.h;
        if (mask) {
            y[t * z->D + k] = ot_map3(b, OT_FN_Where, 0, 0, mask, now.h, ot_scalar(b, b->node->in[X]->dtype, 0));
            now.h = ot_map3(b, OT_FN_Where, 0, 0, mask, now.h, s.h);
            if (lstm) now.c = ot_map3(b, OT_FN_Where, 0, 0, mask, now.c, s.c);
        }
        s = now;
    }
    return s;
}

/* ---- directions as one kernel each --------------------------------------------- */

/* The cell that the kernel knows, for the `per` activations f of a direction; -1: there is none. */
static int cell_of(const ot_node *n, int gates, const char *const *usual, int per, const activation *f)
{
    const recurrent_attrs *a = n->attrs;
    if (a->clip > 0 || a->input_forget || given(n, P) || (gates == 3 && !a->linear_before_reset)) return -1;
    if (gates == 1 && f[0].row == OT_FN_Relu) return OT_CELL_RELU;
    for (int i = 0; i < per; i++)
        if (strcmp(f[i].name, usual[i]) != 0) return -1;
    return gates == 4 ? OT_CELL_LSTM : gates == 3 ? OT_CELL_GRU : OT_CELL_TANH;
}

/* Direction k; *y is (T, N, H). */
static state recur(ot_build *b, const direction *d, ot_value *x, int64_t k, int cell, ot_value **y)
{
    ot_recurrent a = { .cell = cell, .reverse = d->a->direction == REVERSE || k == 1 };
    bool lstm = cell == OT_CELL_LSTM, ends = d->lens && !all_longer(b->node->in[LENS], d->z.T - 1);
    ot_value *in[OT_REC_IN] = { [OT_REC_R] = d->r,
                                [OT_REC_X] = project(b, d, x, k, NULL),
                                [OT_REC_B] = given(b->node, B) ? slice(b, b->node->in[B], 0, k) : NULL,
                                [OT_REC_H0] = start(b, d, H0, k),
                                [OT_REC_C0] = lstm ? start(b, d, C0, k) : NULL,
                                [OT_REC_LENS] = ends ? d->lens : NULL };
    ot_node *n = ot_emit_n(b, &ot_op_Recurrent, &a, in, OT_REC_IN, ot_cell_outputs(cell));
    *y = n ? n->out[OT_REC_Y] : NULL;
    return (state){ n ? n->out[OT_REC_H] : NULL, n && lstm ? n->out[OT_REC_C] : NULL };
}

/* Places the outputs of D directions, (T, N, H) each, into one. */
static ot_value *join(ot_build *b, const ot_shape *s, ot_value *const *y, const sizes *z, bool batch_first)
{
    ot_piece *p = ot_pieces(b, z->D);
    for (int64_t k = 0; p && k < z->D; k++) {
        int T = batch_first ? 1 : 0, D = batch_first ? 2 : 1, N = batch_first ? 0 : 2;
        p[k].in = k;
        p[k].dst[D] = k;
        p[k].extent[T] = z->T, p[k].stride[T] = z->N * z->H;
        p[k].extent[N] = z->N, p[k].stride[N] = z->H;
        p[k].extent[3] = z->H, p[k].stride[3] = 1;
        p[k].extent[D] = 1;
    }
    return p ? ot_copy_emit(b, s, 0, p, z->D, y, (int)z->D) : NULL;
}

/* ---- the node -------------------------------------------------------------------- */

static void lower(ot_build *b, int gates, const char *const *usual, int per, step_fn *step)
{
    const ot_node *n = b->node;
    const recurrent_attrs *a = n->attrs;
    activation f[6];
    sizes z;
    ot_value *h[2], *c[2], *x = n->in[X];
    if (find_sizes(n, gates, &z, b->graph->err) != OT_OK) return;
    if (find_activations(n, usual, per, f, b->graph->err) != OT_OK) return;
    ot_value **y = ot_graph_alloc(b->graph, ((size_t)z.T * 2 + 2) * sizeof *y);
    if (!y) return;
    if (a->layout) x = ot_transpose(b, x, (int[]){ 1, 0, 2 });
    ot_value *lens = given(n, LENS) ? ot_counts(b, n->in[LENS], z.T) : NULL;
    int cell[2] = { -1, -1 };
    for (int64_t k = 0; k < z.D; k++) cell[k] = cell_of(n, gates, usual, per, f + k * per);
    bool kernel = ot_has_kernel(b, &ot_op_Recurrent) && cell[0] >= 0 && cell[z.D - 1] >= 0;
    for (int64_t k = 0; k < z.D; k++) {
        direction d = { .a = a,
                        .z = z,
                        .f = f + k * per,
                        .r = slice(b, n->in[R], 0, k),
                        .lens = lens,
                        .one = ot_scalar(b, n->in[X]->dtype, 1) };
        ot_value *p = given(n, P) ? slice(b, n->in[P], 0, k) : NULL;
        for (int g = 0; g < 3 && p; g++) d.p[g] = part(b, p, 0, g * z.H, z.H);
        state s = kernel ? recur(b, &d, x, k, cell[k], &y[k]) : unroll(b, &d, x, k, step, y);
        h[k] = s.h;
        c[k] = s.c;
    }
    if (ot_broken(b)) return;
    ot_shape one = state_shape(n, &z);
    if (n->out[0] && kernel) ot_yield(b, 0, join(b, &n->out[0]->shape, y, &z, a->layout));
    if (n->out[0] && !kernel)
        ot_yield(b, 0,
                 stack(b, &n->out[0]->shape, y, z.T, a->layout ? 1 : 0, z.D, a->layout ? 2 : 1, a->layout ? 0 : 2));
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i]) ot_yield(b, i, stack(b, &one, i == 1 ? h : c, 1, 0, z.D, a->layout ? 1 : 0, a->layout ? 0 : 1));
}

static ot_status lstm_infer(ot_node *n, ot_error *err) { return infer(n, 4, usual_lstm, 3, err); }
static ot_status gru_infer(ot_node *n, ot_error *err) { return infer(n, 3, usual_gru, 2, err); }
static ot_status rnn_infer(ot_node *n, ot_error *err) { return infer(n, 1, usual_rnn, 1, err); }

static void lstm_lower(ot_build *b) { lower(b, 4, usual_lstm, 3, lstm_step); }
static void gru_lower(ot_build *b) { lower(b, 3, usual_gru, 2, gru_step); }
static void rnn_lower(ot_build *b) { lower(b, 1, usual_rnn, 1, rnn_step); }

static bool recurrent_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    static const int with_state[] = { -1, -1, -1, -1, 0, 1, 1, -1 }; /* X W R B lens h0 c0 P */
    int batch = ot_attr_get(n, "layout", 0) ? 0 : 1;
    for (int i = 1; i < n->n_in; i++) {
        if (!ot_batch_given(n, i)) continue;
        if (with_state[i] < 0 && ot_batch_has(n, i)) return false;
        if (with_state[i] >= 0 && !(r->in[i] = ot_batch_spread(b, n->in[i], with_state[i] ? batch : 0))) return false;
    }
    if (!(r->in[0] = ot_batch_spread(b, n->in[0], batch))) return false;
    ot_batch_on(r, n, batch);
    if (batch) r->mark[0] = ot_on_axis(2);
    return true;
}

const ot_op ot_op_LSTM = {
    .name = "LSTM",
    .types = { "TTTTxT", .T = OT_SET_FLOAT },
    .slots = "-WWB-hhW",
    .since = 22,
    .in = { 3, 8 },
    .out = { 0, 3 },
    .nondiff = 1u << LENS,
    .attrs = lstm_rows,
    .attr_size = sizeof(recurrent_attrs),
    .infer = lstm_infer,
    .lower = lstm_lower,
    .batch = recurrent_batch,
};

const ot_op ot_op_GRU = {
    .name = "GRU",
    .types = { "TTTTxT", .T = OT_SET_FLOAT },
    .slots = "-WWB-h",
    .since = 22,
    .in = { 3, 6 },
    .out = { 0, 2 },
    .nondiff = 1u << LENS,
    .attrs = gru_rows,
    .attr_size = sizeof(recurrent_attrs),
    .infer = gru_infer,
    .lower = gru_lower,
    .batch = recurrent_batch,
};

const ot_op ot_op_RNN = {
    .name = "RNN",
    .types = { "TTTTxT", .T = OT_SET_FLOAT },
    .slots = "-WWB-h",
    .since = 22,
    .in = { 3, 6 },
    .out = { 0, 2 },
    .nondiff = 1u << LENS,
    .attrs = rnn_rows,
    .attr_size = sizeof(recurrent_attrs),
    .infer = rnn_infer,
    .lower = rnn_lower,
    .batch = recurrent_batch,
};
