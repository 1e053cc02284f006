/* attention.c - FusedAttention and FusedAttentionDx by cuDNN: the operations between q, k, v and y as one graph, whose
 * engines do not store the scores.
 *
 * Forward   top and sum are written by the graph.  cuDNN returns either these two or their log-sum-exp; other
 *           intermediate results must not be requested, or it omits these silently.
 * Backward  reads the log-sum-exp, which attention_lse computes from top and sum.
 * Bits      dq could be summed in an f32 tensor of its own; the engines then use atomics, without declaring it in their
 *           notes.  Without that tensor they store ds, B H T S of 16 bits, and results do not depend on an order.
 * Masks     are added, from a copy limited to LEAST: exp of a difference is 0 well before that, and in cuDNN's products
 *           with log2 e rows hidden by -1e9 would overflow.  Such a row gets the softmax of its scores, as it should if
 *           one number is added to all of them.
 * Numerics  products of 16 bits, sums in f32; p and ds are rounded to 16 bits between products */
#include <stdlib.h>

#include "ops/kernels/attention.h"
#include "ops/cuda/cudnn/cudnn.h"
#include "ops/cuda/cudnn/cudnn_attention.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"

#define LEAST (-1e4)

/* Channels side by side, everything else at multiples of 16 bytes, no element at two places. */
static bool is_regular(ot_attention_lie l, const int64_t extent[4], ot_dtype t)
{
    int64_t step = 128 / ot_dtype_bits(t);
    bool good = l.heads == 1 && l.src % step == 0 && (l.stride[3] == 1 || extent[3] == 1);
    for (int d = 0; d < 3; d++) good = good && (extent[d] == 1 || (l.stride[d] > 0 && l.stride[d] % step == 0));
    return good;
}

static bool takes_positions(const ot_node *n)
{
    ot_attention_sizes z;
    ot_attention_sizes_of(n, &z);
    const int64_t q[4] = { z.B, z.H, z.T, z.D }, k[4] = { z.B, z.H, z.S, z.D }, v[4] = { z.B, z.H, z.S, z.E },
                  y[4] = { z.B, z.H, z.T, z.E };
    const int64_t *forward[] = { q, k, v }, *backward[] = { y, q, k, v, y };
    bool good = true;
    int dx = ot_attention_q(n);
    ot_dtype t = n->in[dx]->dtype;
    if (!((const ot_attention *)n->attrs)->at) return true;
    for (int i = 0; i < (dx ? 5 : 3); i++)
        good = good && is_regular(ot_attention_in(n, i), dx ? backward[i] : forward[i], t);
    for (int i = 0; i < (dx ? 3 : 1); i++)
        if (ot_attention_to(n, i) >= 0) good = good && is_regular(ot_attention_out(n, i), dx ? forward[i] : y, t);
    return good;
}

static bool can(const ot_node *n, const char **why)
{
    const ot_attention *a = n->attrs;
    const ot_value *q = n->in[ot_attention_q(n)], *mask = ot_attention_mask(n);
    cudnnDataType_t t;
    ot_attention_sizes s;
    ot_attention_sizes_of(n, &s);
    if (!ot_cudnn_type(q->dtype, &t) || q->dtype == OT_F64)
        return ot_refuse(why, "cuDNN supports attention in f32, f16 and bf16 only");
    if (n->in[0]->dtype != q->dtype) return ot_refuse(why, "q and dy have different types");
    if (!ot_attention_q(n) && !n->out[0]) return ot_refuse(why, "the result is not needed");
    if (s.B * s.H * s.T * s.S * s.D * s.E == 0) return ot_refuse(why, "an empty tensor");
    if (a->zero_rows) return ot_refuse(why, "rows that see no key are zeros");
    if (a->causal && a->hidden > LEAST) return ot_refuse(why, "the mask uses a number that is not large enough");
    if (!takes_positions(n)) return ot_refuse(why, "operands with positions that cuDNN cannot address");
    if (!mask) return true;
    if (a->causal) return ot_refuse(why, "a mask together with a causal mask");
    if (mask->dtype == OT_BOOL) return ot_refuse(why, "cuDNN supports no boolean masks");
    if (ot_numel(&mask->shape) > s.B * s.T * s.S)
        return ot_refuse(why, "a mask for each head, whose copy would be large");
    return true;
}

/* ---- graphs --------------------------------------------------------------------------------- */

typedef struct writer {
    ot_cudnn *g;
    const ot_node *n;
    const ot_value *q; /* for its rank */
    const ot_attention *a;
    ot_attention_sizes s;
    cudnnDataType_t type;
    size_t own;  /* bytes of workspace so far */
    size_t bias; /* offset of the mask's copy in it */
} writer;

static const cudnnDataType_t F32 = CUDNN_DATA_FLOAT;
static const ot_cudnn_at nowhere = { OT_CUDNN_VIRTUAL, 0 };

static ot_cudnn_at work(writer *w, size_t bytes)
{
    ot_cudnn_at at = { OT_CUDNN_WORK, (int64_t)w->own };
    w->own += (bytes + 255) / 256 * 256;
    return at;
}

/* Output o, or, if it is not needed, workspace. */
static ot_cudnn_at out(writer *w, int o, int64_t numel, ot_dtype t)
{
    if (o < w->n->n_out && w->n->out[o]) return (ot_cudnn_at){ OT_CUDNN_OUT, o };
    return work(w, (size_t)(numel * ot_dtype_bits(t) / 8));
}

/* An operand: (B, H, tokens, channels), or turned (B, H, channels, tokens), where l says.  Axes of one element have no stride:
 * cuDNN wants one that is not 0. */
static ot_cudnn_desc operand(writer *w, int64_t tokens, int64_t channels, bool turned, ot_attention_lie l,
                             ot_cudnn_at at)
{
    int64_t dim[4] = { w->s.B, w->s.H, tokens, channels }, stride[4];
    for (int d = 0; d < 4; d++) stride[d] = dim[d] == 1 ? tokens * channels * w->s.H * w->s.B : l.stride[d];
    if (turned) {
        int64_t was = stride[2];
        stride[2] = stride[3], stride[3] = was;
        dim[2] = channels, dim[3] = tokens;
    }
    return ot_cudnn_strided(w->g, 4, dim, stride, w->type, at);
}

static ot_cudnn_desc input(writer *w, int i, int64_t tokens, int64_t channels, bool turned)
{
    return operand(w, tokens, channels, turned, ot_attention_in(w->n, i), (ot_cudnn_at){ OT_CUDNN_IN, i });
}

/* (B, H, rows, columns); turned: in memory it is (B, H, columns, rows). */
static ot_cudnn_desc matrix(writer *w, int64_t rows, int64_t columns, bool turned, cudnnDataType_t t, ot_cudnn_at at)
{
    int64_t dim[4] = { w->s.B, w->s.H, rows, columns };
    int64_t stride[4] = { w->s.H * rows * columns, rows * columns, turned ? 1 : columns, turned ? rows : 1 };
    return ot_cudnn_strided(w->g, 4, dim, stride, t, at);
}

/* Result i, or, if it is not needed, workspace. */
static ot_cudnn_desc result(writer *w, int i, int64_t tokens, int64_t channels)
{
    if (ot_attention_to(w->n, i) >= 0)
        return operand(w, tokens, channels, false, ot_attention_out(w->n, i), (ot_cudnn_at){ OT_CUDNN_OUT, i });
    int64_t bytes = w->s.B * w->s.H * tokens * channels * ot_dtype_bits(w->q->dtype) / 8;
    return matrix(w, tokens, channels, false, w->type, work(w, (size_t)bytes));
}

static ot_cudnn_desc scores(writer *w, cudnnDataType_t t) { return matrix(w, w->s.T, w->s.S, false, t, nowhere); }
static ot_cudnn_desc per_token(writer *w, ot_cudnn_at at) { return matrix(w, w->s.T, 1, false, F32, at); }
static ot_cudnn_desc number(writer *w, double v) { return ot_cudnn_number(w->g, w->q, (float)v); }

static ot_cudnn_desc mask(writer *w)
{
    const ot_shape *m = &ot_attention_mask(w->n)->shape;
    int64_t dim[4], stride[4], step = 1;
    for (int d = 3; d >= 0; d--) {
        int at = d - (4 - m->rank);
        dim[d] = at < 0 ? 1 : m->dim[at];
        stride[d] = step;
        step *= dim[d];
    }
    return ot_cudnn_strided(w->g, 4, dim, stride, F32, (ot_cudnn_at){ OT_CUDNN_WORK, (int64_t)w->bias });
}

typedef struct operands {
    ot_cudnn_desc x, b, t, y;
} operands;

/* An element-wise operation, returns y; axis below 0: none. */
static ot_cudnn_desc pointwise(writer *w, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int64_t axis,
                               operands o)
{
    return ot_cudnn_pointwise(w->g, mode, precision, axis, (const ot_cudnn_desc[]){ o.x, o.b, o.t }, o.y);
}

/* A function of scores, with a result of type t. */
static ot_cudnn_desc map(writer *w, cudnnPointwiseMode_t mode, ot_cudnn_desc x, ot_cudnn_desc b, cudnnDataType_t t)
{
    return pointwise(w, mode, F32, -1, (operands){ x, b, NULL, scores(w, t) });
}

static ot_cudnn_desc product(writer *w, ot_cudnn_desc a, ot_cudnn_desc b, ot_cudnn_desc c)
{
    ot_cudnn_desc how = ot_cudnn_make(w->g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    ot_cudnn_set(w->g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &F32);
    ot_cudnn_finish(w->g, how);
    ot_cudnn_desc op = ot_cudnn_make(w->g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    ot_cudnn_add(w->g, op);
    return c;
}

static ot_cudnn_desc reduce(writer *w, cudnnReduceTensorOp_t by, ot_cudnn_desc x, ot_cudnn_desc y)
{
    ot_cudnn_desc how = ot_cudnn_make(w->g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    ot_cudnn_set(w->g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
    ot_cudnn_set(w->g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &F32);
    ot_cudnn_finish(w->g, how);
    ot_cudnn_desc op = ot_cudnn_make(w->g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    ot_cudnn_add(w->g, op);
    return y;
}

/* The same memory with the shape of y. */
static ot_cudnn_desc turn(writer *w, ot_cudnn_desc x, ot_cudnn_desc y)
{
    ot_cudnn_desc op = ot_cudnn_make(w->g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    ot_cudnn_link(w->g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    ot_cudnn_add(w->g, op);
    return y;
}

/* The row (axis 2) or column (3) of a score. */
static ot_cudnn_desc place(writer *w, ot_cudnn_desc s, int64_t axis)
{
    return pointwise(w, CUDNN_POINTWISE_GEN_INDEX, F32, axis, (operands){ s, NULL, NULL, scores(w, CUDNN_DATA_INT32) });
}

/* scale q.k^T, masked; k is read transposed. */
static ot_cudnn_desc scaled_scores(writer *w, ot_cudnn_desc q, ot_cudnn_desc k, ot_cudnn_desc scale)
{
    ot_cudnn_desc s = product(w, q, k, scores(w, F32));
    s = map(w, CUDNN_POINTWISE_MUL, s, scale, F32);
    if (ot_attention_mask(w->n)) s = map(w, CUDNN_POINTWISE_ADD, s, mask(w), F32);
    if (!w->a->causal) return s;
    ot_cudnn_desc row = place(w, s, 2), column = place(w, s, 3);
    ot_cudnn_desc open = pointwise(w, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1,
                                   (operands){ row, column, NULL, scores(w, CUDNN_DATA_BOOLEAN) });
    return pointwise(w, CUDNN_POINTWISE_BINARY_SELECT, F32, -1,
                     (operands){ s, number(w, w->a->hidden), open, scores(w, F32) });
}

static void write_forward(writer *w)
{
    const ot_attention_sizes *z = &w->s;
    int64_t rows = z->B * z->H * z->T;
    ot_cudnn_desc q = input(w, 0, z->T, z->D, false), k = input(w, 1, z->S, z->D, true),
                  v = input(w, 2, z->S, z->E, false);
    ot_cudnn_desc s = scaled_scores(w, q, k, number(w, w->a->scale));
    ot_cudnn_desc top = reduce(w, CUDNN_REDUCE_TENSOR_MAX, s, per_token(w, out(w, 1, rows, OT_F32)));
    ot_cudnn_desc e = map(w, CUDNN_POINTWISE_EXP, map(w, CUDNN_POINTWISE_SUB, s, top, F32), NULL, F32);
    ot_cudnn_desc sum = reduce(w, CUDNN_REDUCE_TENSOR_ADD, e, per_token(w, out(w, 2, rows, OT_F32)));
    ot_cudnn_desc p = map(w, CUDNN_POINTWISE_DIV, e, sum, w->type);
    product(w, p, v, result(w, 0, z->T, z->E));
}

/* delta: sum of dy y per token. */
static ot_cudnn_desc write_delta(writer *w, ot_cudnn_desc dy, ot_cudnn_desc y)
{
    const ot_attention_sizes *z = &w->s;
    ot_cudnn_desc both = pointwise(w, CUDNN_POINTWISE_MUL, F32, -1,
                                   (operands){ dy, y, NULL, matrix(w, z->T, z->E, false, F32, nowhere) });
    ot_cudnn_desc sum = reduce(w, CUDNN_REDUCE_TENSOR_ADD, both, per_token(w, nowhere));
    ot_cudnn_at at = work(w, (size_t)(z->B * z->H * z->T) * sizeof(float));
    return pointwise(w, CUDNN_POINTWISE_MUL, F32, -1, (operands){ sum, number(w, 1), NULL, per_token(w, at) });
}

/* p = exp(score - lse), ds = p (dp - delta) scale. */
static void write_backward(writer *w, ot_cudnn_at lse)
{
    const ot_attention_sizes *z = &w->s;
    ot_cudnn_desc dy = input(w, 0, z->T, z->E, false), q = input(w, 1, z->T, z->D, false),
                  k = input(w, 2, z->S, z->D, true), v = input(w, 3, z->S, z->E, true),
                  y = input(w, 4, z->T, z->E, false);
    ot_cudnn_desc dq = result(w, 0, z->T, z->D), dk = result(w, 1, z->S, z->D), dv = result(w, 2, z->S, z->E);
    ot_cudnn_desc delta = write_delta(w, dy, y), scale = number(w, w->a->scale);
    ot_cudnn_desc s = map(w, CUDNN_POINTWISE_SUB, scaled_scores(w, q, k, scale), per_token(w, lse), F32);
    ot_cudnn_desc p = map(w, CUDNN_POINTWISE_EXP, s, NULL, F32);
    product(w, turn(w, p, matrix(w, z->S, z->T, true, w->type, nowhere)), dy, dv);
    ot_cudnn_desc dp = product(w, dy, v, scores(w, F32));
    dp = map(w, CUDNN_POINTWISE_MUL, map(w, CUDNN_POINTWISE_SUB, dp, delta, F32), p, F32);
    ot_cudnn_desc ds = map(w, CUDNN_POINTWISE_MUL, dp, scale, w->type);
    product(w, turn(w, ds, matrix(w, z->S, z->T, true, w->type, nowhere)), q, dk);
    product(w, ds, turn(w, k, operand(w, z->S, z->D, false, ot_attention_in(w->n, 2), nowhere)), dq);
}

/* ---- kernels --------------------------------------------------------------------------------- */

typedef struct state {
    ot_cudnn *g;
    ot_gpu_fn *make_bias, *make_lse; /* NULL: no mask; the forward pass */
    size_t bias, lse;                /* offsets in the workspace */
} state;

static void release(void *p)
{
    state *s = p;
    ot_cudnn_free(s->g);
    free(s);
}

/* Our own kernels before the plan. */
static ot_status compile(const ot_node *n, state *s, ot_prep *p)
{
    const ot_value *m = ot_attention_mask(n);
    ot_text prefix = { 0 };
    ot_status e = OT_OK;
    ot_dtype t = m ? m->dtype : OT_F32;
    ot_text_add(&prefix, "#define MT %s\n#define CLS %s\n#define LEAST %g\n", ot_cuda_type(t), ot_cuda_class(t), LEAST);
    if (m) e = ot_gpu_compile(p->device, "cudnn_attention.cu", prefix.text, "attention_bias", &s->make_bias, p->err);
    if (e == OT_OK && ot_attention_q(n))
        e = ot_gpu_compile(p->device, "cudnn_attention.cu", prefix.text, "attention_lse", &s->make_lse, p->err);
    ot_text_free(&prefix);
    return e;
}

static ot_status plan(const ot_node *n, state *s, ot_prep *p)
{
    const ot_value *m = ot_attention_mask(n);
    writer w = { .g = ot_cudnn_new(n, p), .n = n, .q = n->in[ot_attention_q(n)], .a = n->attrs };
    if (!w.g) return p->refused ? OT_OK : OT_E_NOMEM;
    ot_attention_sizes_of(n, &w.s);
    ot_cudnn_type(w.q->dtype, &w.type);
    if (m) w.bias = s->bias = (size_t)work(&w, (size_t)ot_numel(&m->shape) * sizeof(float)).i;
    if (ot_attention_q(n)) {
        ot_cudnn_at lse = work(&w, (size_t)(w.s.B * w.s.H * w.s.T) * sizeof(float));
        s->lse = (size_t)lse.i;
        write_backward(&w, lse);
    } else {
        write_forward(&w);
    }
    ot_status e = ot_cudnn_plan(w.g, w.own, p); /* frees it unless it makes a plan */
    if (e == OT_OK && !p->refused) s->g = w.g;
    return e;
}

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    ot_status e = plan(n, s, p);
    if (e == OT_OK && s->g) e = compile(n, s, p);
    p->state = e == OT_OK && s->g ? s : NULL;
    if (!p->state) release(s);
    return e;
}

static int64_t start(const ot_node *n, ot_attention_lie l)
{
    return l.src * (ot_dtype_bits(n->in[ot_attention_q(n)]->dtype) / 8);
}

static ot_status run(const ot_call *c)
{
    const ot_node *n = c->node;
    const state *s = c->state;
    const ot_value *m = ot_attention_mask(n);
    const void *in[8];
    void *out[3];
    char *own = c->work;
    ot_call moved = *c; /* addresses of the first elements */
    ot_attention_beside_args a = { .bias = (float *)(own + s->bias), .lse = (float *)(own + s->lse) };
    if (s->make_bias) {
        a.mask = c->in[n->n_in - 1];
        a.n = ot_numel(&m->shape);
        OT_TRY(ot_gpu_launch(c->device, s->make_bias, ot_gpu_blocks(c->device, a.n, 256), 256, 0, &a, c->err));
    }
    if (s->make_lse) {
        a.top = c->in[5];
        a.sum = c->in[6];
        a.n = ot_numel(&n->in[5]->shape);
        OT_TRY(ot_gpu_launch(c->device, s->make_lse, ot_gpu_blocks(c->device, a.n, 256), 256, 0, &a, c->err));
    }
    for (int i = 0; i < n->n_in; i++) in[i] = c->in[i];
    for (int i = 0; i < n->n_out; i++) out[i] = c->out[i];
    for (int i = 0; i < (ot_attention_q(n) ? 5 : 3); i++)
        in[i] = (const char *)c->in[i] + start(n, ot_attention_in(n, i));
    for (int i = 0; i < (ot_attention_q(n) ? 3 : 1); i++) {
        int to = ot_attention_to(n, i);
        if (to >= 0) out[i] = (char *)c->out[to] + start(n, ot_attention_out(n, i));
    }
    moved.in = in;
    moved.out = out;
    return ot_cudnn_execute(s->g, &moved);
}

const ot_kernel ot_cudnn_FusedAttention = {
    .name = "cudnn", .can = can, .may_refuse = true, .prepare = prepare, .run = run, .release = release
};
const ot_kernel ot_cudnn_FusedAttentionDx = {
    .name = "cudnn", .can = can, .may_refuse = true, .prepare = prepare, .run = run, .release = release
};
