/* attention.c - FusedAttention and its gradient by kernels of our own, for every mask, type and position of operands.
 *
 * Memory    FusedAttentionDx: a number per token of q
 * Numerics  f32 (f64 for f64); sums in the order of the tiles, whatever the grid */
#include "ops/kernels/attention.h"

#include <stdlib.h>

#include "ops/cuda/attention.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"

/* SHARED: what a block can request on every device from sm_75 on, which has the least. */
enum { THREADS = 128, SHARED = 64 << 10 };

typedef struct tile {
    int rows, columns;
} tile;

typedef struct attention_state {
    ot_gpu_fn *forward, *delta, *dq, *dkv;
    tile t;
    size_t shared; /* bytes of a block's tiles */
} attention_state;

static int64_t tile_bytes(const ot_attention_sizes *s, tile t, ot_dtype type, bool gradient)
{
    int64_t rows = gradient ? s->D + s->E + 2 : s->D + 1;
    return (t.rows * rows + t.columns * (s->D + s->E + 2) + t.rows * (t.columns + 1)) * (type == OT_F64 ? 8 : 4);
}

/* Rows are multiples of 16, columns of 8 (attention.cu): the most that leave room for several blocks, and for wide heads the
 * least. */
static tile tile_of(const ot_attention_sizes *s, ot_dtype t, bool gradient)
{
    int64_t most = s->D > s->E ? s->D : s->E;
    tile best = t == OT_F64 ? (most <= 64 ? (tile){ 16, 16 } : (tile){ 16, 8 })
                : gradient  ? (most <= 64 ? (tile){ 32, 32 } : (tile){ 16, 16 })
                            : (most <= 64 ? (tile){ 64, 32 } : (tile){ 32, 16 });
    return tile_bytes(s, best, t, gradient) <= SHARED ? best : (tile){ 16, 8 };
}

static int64_t shared_bytes(const ot_attention_sizes *s, ot_dtype type, bool gradient)
{
    return tile_bytes(s, tile_of(s, type, gradient), type, gradient);
}

static bool attention_can(const ot_node *n, const char **why)
{
    ot_attention_sizes s;
    ot_dtype t = n->in[ot_attention_q(n)]->dtype;
    ot_attention_sizes_of(n, &s);
    if (!ot_cuda_type_can(t, why)) return false;
    /* The gradient needs more shared memory than the forward pass: a device without enough for it is refused both. */
    if (shared_bytes(&s, t, true) > SHARED) return ot_refuse(why, "heads have more channels than fit in shared memory");
    return true;
}

static void describe(const ot_node *n, const ot_attention_sizes *s, tile t, bool gradient, ot_text *text)
{
    const ot_attention *a = n->attrs;
    ot_dtype type = n->in[gradient]->dtype;
    const ot_value *mask = ot_attention_mask(n);
    ot_text_add(text, "#define T %s\n#define CLS %s\n#define ACC %s\n#define SIZE %d\n", ot_cuda_type(type),
                ot_cuda_class(type), ot_cuda_class(type), ot_dtype_bits(type) / 8);
    ot_text_add(text, "#define D %lld\n#define E %lld\n#define BR %d\n#define BC %d\n#define CAUSAL %d\n",
                (long long)s->D, (long long)s->E, t.rows, t.columns, a->causal != 0);
    ot_text_add(text, "#define ZERO_ROWS %d\n#define MASK %d\n#define MT %s\n#define FORWARD %d\n", a->zero_rows != 0,
                !mask                    ? 0
                : mask->dtype == OT_BOOL ? 1
                                         : 2,
                mask ? ot_cuda_type(mask->dtype) : "b8", !gradient);
}

static ot_status prepare(const ot_node *n, ot_prep *p, bool gradient)
{
    ot_attention_sizes s;
    ot_attention_sizes_of(n, &s);
    attention_state *st = calloc(1, sizeof *st);
    ot_text text = { 0 };
    ot_status r = OT_OK;
    if (!st) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    st->t = tile_of(&s, n->in[gradient]->dtype, gradient);
    describe(n, &s, st->t, gradient, &text);
    const struct {
        const char *entry;
        ot_gpu_fn **f;
        bool gradient;
    } wanted[] = {
        { "attend", &st->forward, false },
        { "attention_delta", &st->delta, true },
        { "attention_dq", &st->dq, true },
        { "attention_dkv", &st->dkv, true },
    };
    for (int i = 0; i < OT_LEN(wanted) && r == OT_OK; i++)
        if (wanted[i].gradient == gradient)
            r = ot_gpu_compile(p->device, "attention.cu", text.text, wanted[i].entry, wanted[i].f, p->err);
    ot_text_free(&text);
    st->shared = (size_t)shared_bytes(&s, n->in[gradient]->dtype, gradient);
    ot_gpu_fn *const tiled[] = { st->forward, st->dq, st->dkv };
    for (int i = 0; i < OT_LEN(tiled) && r == OT_OK; i++)
        if (tiled[i]) r = ot_gpu_allow_shared(p->device, tiled[i], st->shared, p->err);
    if (r != OT_OK) free(st);
    else p->state = st;
    if (gradient) p->work = (size_t)(s.B * s.H * s.T) * 8;
    return r;
}

static ot_status attention_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, false); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, true); }

static ot_attention_operand operand(const ot_node *n, const void *at, ot_attention_lie l)
{
    int bytes = ot_dtype_bits(n->in[ot_attention_q(n)]->dtype) / 8;
    return (ot_attention_operand){ .at = at ? (char *)(uintptr_t)at + l.src * bytes : NULL,
                                   .batch = l.stride[0],
                                   .head = l.stride[1],
                                   .token = l.stride[2],
                                   .channel = l.stride[3],
                                   .share = l.heads };
}

static ot_attention_operand input(const ot_call *c, int i)
{
    return operand(c->node, c->in[i], ot_attention_in(c->node, i));
}

static ot_attention_operand output(const ot_call *c, int i)
{
    int to = ot_attention_to(c->node, i);
    return to >= 0 ? operand(c->node, c->out[to], ot_attention_out(c->node, i)) : (ot_attention_operand){ .at = NULL };
}

static ot_attention_args args_of(const ot_call *c, const ot_attention_sizes *s)
{
    const ot_node *n = c->node;
    const ot_attention *at = n->attrs;
    const ot_value *mask = ot_attention_mask(n);
    int first = ot_attention_q(n);
    ot_attention_args a = { .q = input(c, first),
                            .k = input(c, first + 1),
                            .v = input(c, first + 2),
                            .T = s->T,
                            .S = s->S,
                            .heads = s->H,
                            .scale = at->scale,
                            .hidden = at->hidden,
                            .rows = s->B * s->H * s->T };
    if (mask) {
        int64_t stride[4];
        a.mask = c->in[n->n_in - 1];
        ot_attention_mask_strides(&mask->shape, stride);
        for (int i = 0; i < 4; i++) a.mask_stride[i] = stride[i];
    }
    return a;
}

static ot_status attention_run(const ot_call *c)
{
    const attention_state *st = c->state;
    ot_attention_sizes s;
    ot_attention_sizes_of(c->node, &s);
    ot_attention_args a = args_of(c, &s);
    a.y = output(c, 0);
    a.top = c->node->n_out > 1 ? c->out[1] : NULL;
    a.sum = c->node->n_out > 2 ? c->out[2] : NULL;
    return ot_gpu_launch(c->device, st->forward, s.B * s.H * ot_ceil_div(s.T, st->t.rows), THREADS, st->shared, &a,
                         c->err);
}

static ot_status dx_run(const ot_call *c)
{
    const attention_state *st = c->state;
    ot_attention_sizes s;
    ot_attention_sizes_of(c->node, &s);
    ot_attention_args a = args_of(c, &s);
    a.dy = input(c, 0);
    a.y = input(c, 4);
    a.top = (void *)(uintptr_t)c->in[5];
    a.sum = (void *)(uintptr_t)c->in[6];
    a.delta = c->work;
    a.dq = output(c, 0), a.dk = output(c, 1), a.dv = output(c, 2);
    OT_TRY(ot_gpu_launch(c->device, st->delta, ot_gpu_blocks(c->device, a.rows, 16), THREADS, 0, &a, c->err));
    if (a.dq.at)
        OT_TRY(ot_gpu_launch(c->device, st->dq, s.B * s.H * ot_ceil_div(s.T, st->t.rows), THREADS, st->shared, &a,
                             c->err));
    if (!a.dk.at && !a.dv.at) return OT_OK;
    return ot_gpu_launch(c->device, st->dkv, s.B * s.H * ot_ceil_div(s.S, st->t.rows), THREADS, st->shared, &a, c->err);
}

const ot_kernel ot_cuda_FusedAttention = {
    .name = "cuda", .can = attention_can, .prepare = attention_prepare, .run = attention_run, .release = free
};
const ot_kernel ot_cuda_FusedAttentionDx = {
    .name = "cuda", .can = attention_can, .prepare = dx_prepare, .run = dx_run, .release = free
};
