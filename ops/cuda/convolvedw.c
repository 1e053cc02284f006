/* convolvedw.c - ConvolveDw by tiles of our own: every case of the reference.
 *
 * Shapes   The product of tile.cuh: rows are filters, columns pairs of a tap and a channel of x, terms positions of y.
 *          db is an additional column, whose x is 1: dy is read once for both.  Terms are many and tiles few, so blocks
 *          nearly always share the terms of a tile.
 * Numerics as Dot.  Parts of the terms are added in order: the same inputs give the same bits.
 * Memory   a workspace for the sums of parts. */
#include <stdlib.h>

#include "ops/cuda/convolve.h"
#include "ops/cuda/convolvedw.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/tile.h"
#include "ops/cuda/types.h"

typedef struct plan {
    ot_gpu_fn *f, *parts; /* parts: the second pass; NULL: none */
    ot_convolvedw_args a;
    int64_t blocks, weight_at;
    int threads;
    void *table;
} plan;

static void plan_free(void *state)
{
    plan *s = state;
    if (s) free(s->table);
    free(s);
}

static bool can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->in[0]->dtype, why); }

static bool wide(const ot_node *n, const ot_conv_sizes *s)
{
    return ot_conv_large(ot_numel(&n->in[0]->shape)) || ot_conv_large(ot_numel(&n->in[1]->shape)) ||
           (n->out[0] && ot_conv_large(ot_numel(&n->out[0]->shape))) || ot_conv_window_large(s);
}

/* Columns in the memory order of x: channel by channel if x is plain, tap by tap if its channels are last. */
static ot_status make_table(const ot_node *n, const ot_conv_sizes *s, bool last, bool wide, plan *p, ot_prep *prep)
{
    size_t number = wide ? 8 : 4;
    const int64_t *kernel = s->w.kernel;
    ot_conv_steps x = ot_conv_steps_of(n->in[1]), w = n->out[0] ? ot_conv_steps_of(n->out[0]) : (ot_conv_steps){ 0 };
    int64_t taps = kernel[0] * kernel[1] * kernel[2];
    p->weight_at = p->a.taps * 4 * (int64_t)number;
    prep->table_bytes = (size_t)p->a.taps * 5 * number + 8;
    prep->table = p->table = calloc(1, prep->table_bytes);
    if (!p->table) return ot_fail(prep->err, OT_E_NOMEM, "%s: no memory for the table of a convolution", n->name);
    for (int64_t i = 0; i < p->a.taps; i++) {
        int64_t c = last ? i % s->C : i / taps, k = last ? i / s->C : i % taps, at = 0;
        int64_t digit[3] = { k / kernel[2] / kernel[1], k / kernel[2] % kernel[1], k % kernel[2] };
        for (int j = 0; j < 3; j++) {
            digit[j] *= s->w.dilation[j];
            at = at * s->in[j] + digit[j];
            ot_conv_put(p->table, i * 4 + 1 + j, digit[j], wide);
        }
        ot_conv_put(p->table, i * 4, at * x.s + c * x.c, wide);
        ot_conv_put((char *)p->table + p->weight_at, i, c * w.c + k * w.s, wide);
    }
    return OT_OK;
}

static ot_convolvedw_args args_of(const ot_node *n, const ot_conv_sizes *s)
{
    ot_conv_steps x = ot_conv_steps_of(n->in[1]), y = ot_conv_steps_of(n->in[0]);
    ot_convolvedw_args a = { .G = s->G,
                             .M = s->M,
                             .pixels = s->N * s->out[0] * s->out[1] * s->out[2],
                             .xn = x.n,
                             .xg = s->C * x.c,
                             .xs = x.s,
                             .yn = y.n,
                             .yc = y.c,
                             .ys = y.s };
    a.taps = n->out[0] ? s->C * s->w.kernel[0] * s->w.kernel[1] * s->w.kernel[2] : 0;
    a.columns = a.taps + (n->n_out > 1 && n->out[1]);
    a.wm = n->out[0] ? ot_conv_steps_of(n->out[0]).n : 0;
    for (int j = 0; j < 3; j++) {
        a.in[j] = s->in[j];
        a.out[j] = s->out[j];
        a.stride[j] = s->w.stride[j];
        a.pad[j] = s->w.pad_lo[j];
    }
    return a;
}

/* 1.0 as an element of type t. */
static const char *one_of(ot_dtype t) { return t == OT_F16 ? "0x3c00" : t == OT_BF16 ? "0x3f80" : "1"; }

static ot_status compile(const ot_node *n, const ot_conv_sizes *s, plan *p, ot_prep *prep)
{
    ot_convolvedw_args *a = &p->a;
    ot_dtype type = n->in[0]->dtype;
    int most = ot_lanes(type);
    int64_t positions = s->out[0] * s->out[1] * s->out[2], inputs = s->in[0] * s->in[1] * s->in[2];
    bool dy_last = a->yc == 1 && a->M > 1, x_last = ot_conv_steps_of(n->in[1]).c == 1 && s->C > 1;
    bool dy_wide = dy_last ? a->M % most == 0 && (positions == 1 || a->ys % most == 0) && a->yn % most == 0
                           : a->ys == 1 && positions % most == 0;
    bool x_wide = x_last && s->C % most == 0 && (inputs == 1 || a->xs % most == 0) && a->xn % most == 0;
    ot_tile_job j = { .rows = a->M,
                      .cols = a->columns,
                      .terms = a->pixels,
                      .batch = a->G,
                      .type = type,
                      .align = dy_wide && !dy_last ? most : 1 };
    ot_tile t = ot_tile_choose(&j, prep);
    bool is_wide = wide(n, s);
    ot_text text = { 0 };
    ot_tile_text(&text, &t, type, is_wide);
    ot_text_add(&text, "#define UIDX %s\n#define ONE %s\n", is_wide ? "ot_u64" : "ot_u32", one_of(type));
    ot_tile_define(&text, "DY_ALONG_K", !dy_last);
    ot_tile_define(&text, "X_ALONG_K", !x_last);
    ot_tile_define(&text, "A_VEC", dy_wide && (!dy_last || t.bm % most == 0) ? most : 1);
    ot_tile_define(&text, "B_VEC", x_wide && t.bn % most == 0 ? most : 1);
    ot_status e = ot_gpu_compile(prep->device, "convolvedw.cu", text.text, "convolvedw", &p->f, prep->err);
    if (e == OT_OK && t.splits > 1)
        e = ot_gpu_compile(prep->device, "convolvedw.cu", text.text, "convolvedw_parts", &p->parts, prep->err);
    ot_text_free(&text);
    a->splits = t.splits;
    a->share = ot_tile_share(&t, (a->pixels + t.bk - 1) / t.bk);
    p->threads = ot_tile_threads(&t);
    p->blocks = (a->M + t.bm - 1) / t.bm * ((a->columns + t.bn - 1) / t.bn) * a->G * t.splits;
    if (t.splits > 1) prep->work = (size_t)(a->G * a->M * a->columns) * (size_t)(t.splits * ot_tile_sum_bytes(type));
    return e == OT_OK ? make_table(n, s, x_last, is_wide, p, prep) : e;
}

static ot_status prepare(const ot_node *n, ot_prep *prep)
{
    ot_conv_sizes s;
    plan *p = calloc(1, sizeof *p);
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: no memory for a plan of a convolution", n->name);
    ot_conv_sizes_of(n->attrs, &n->in[1]->shape, &n->in[0]->shape, &s);
    p->a = args_of(n, &s);
    prep->state = p;
    ot_status e = p->a.M * p->a.columns == 0 ? OT_OK : compile(n, &s, p, prep);
    if (e == OT_OK) return OT_OK;
    plan_free(p);
    prep->state = NULL;
    prep->table = NULL;
    prep->table_bytes = 0;
    return e;
}

static ot_status run(const ot_call *c)
{
    const plan *p = c->state;
    ot_convolvedw_args a = p->a;
    if (!p->f) return OT_OK; /* dw and db are empty */
    a.dy = c->in[0];
    a.x = c->in[1];
    a.dw = c->out[0];
    a.db = c->node->n_out > 1 ? c->out[1] : NULL;
    a.tap = c->table;
    a.weight = (const char *)c->table + p->weight_at;
    a.work = p->parts ? c->work : NULL;
    OT_TRY(ot_gpu_launch(c->device, p->f, p->blocks, p->threads, 0, &a, c->err));
    if (!p->parts) return OT_OK;
    return ot_gpu_launch(c->device, p->parts, ot_gpu_blocks(c->device, a.G * a.M * a.columns, 256), 256, 0, &a, c->err);
}

const ot_kernel ot_cuda_ConvolveDw = { .name = "cuda",
                                       .can = can,
                                       .prepare = prepare,
                                       .run = run,
                                       .release = plan_free,
                                       .any_layout = true,
                                       .wants = ot_cuda_conv_wants };
