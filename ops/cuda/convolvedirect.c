/* convolvedirect.c - Convolve, ConvolveDx and ConvolveDw of groups with one or a few channels: depthwise convolutions.
 *
 * A tile would be mostly empty for these; each thread computes outputs of its own instead (convolvedirect.cu), with the
 * window as constants of the text.  Other convolutions are refused and use tiles.
 *
 * Numerics as Dot.  dw is summed in parts by blocks, and the parts in order.
 * Memory   a workspace for the parts of dw and db. */
#include <stdlib.h>

#include "ops/cuda/convolve.h"
#include "ops/cuda/convolvedirect.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/tile.h"
#include "ops/cuda/types.h"

enum {
    THREADS = 256,
    FEW = 4,     /* products of channels of x and y per group */
    TAPS = 49,   /* a thread unrolls all, and accumulates as many sums for dw */
    STRETCH = 24 /* elements of x that a thread keeps for its outputs */
};

typedef enum kind { FORWARD, DX, DW } kind;

typedef struct plan {
    ot_gpu_fn *f, *parts; /* parts: the second pass; NULL: none */
    ot_direct_args a;
    int64_t blocks;
} plan;

/* x, w, y of the node; w may be missing for DW. */
static const ot_value *x_of(const ot_node *n, kind k)
{
    return k == FORWARD ? n->in[0] : k == DX ? n->out[0] : n->in[1];
}
static const ot_value *w_of(const ot_node *n, kind k) { return k == DW ? n->out[0] : n->in[1]; }
static const ot_value *y_of(const ot_node *n, kind k) { return k == FORWARD ? n->out[0] : n->in[0]; }

static bool can(const ot_node *n, kind k, const char **why)
{
    const ot_value *x = x_of(n, k), *y = y_of(n, k);
    ot_conv_sizes s;
    ot_conv_sizes_of(n->attrs, &x->shape, &y->shape, &s);
    if (!ot_cuda_type_can(x->dtype, why)) return false;
    if (!w_of(n, k)) return ot_refuse(why, "dw is not needed");
    if (s.G < 2 || s.C * s.M > FEW) return ot_refuse(why, "not depthwise");
    int64_t taps = s.w.kernel[0] * s.w.kernel[1] * s.w.kernel[2];
    if (s.C * taps > TAPS) return ot_refuse(why, "a large window");
    if (!ot_numel(&x->shape) || !ot_numel(&y->shape)) return ot_refuse(why, "an empty tensor");
    for (int j = 0; j < 3; j++)
        if (s.w.dilation[j] > OT_CONV_NARROW || s.w.stride[j] > OT_CONV_NARROW || s.w.pad_lo[j] > OT_CONV_NARROW)
            return ot_refuse(why, "a huge window");
    return true;
}

static bool forward_can(const ot_node *n, const char **why) { return can(n, FORWARD, why); }
static bool dx_can(const ot_node *n, const char **why) { return can(n, DX, why); }
static bool dw_can(const ot_node *n, const char **why) { return can(n, DW, why); }

static bool wide(const ot_node *n, kind k, const ot_conv_sizes *s)
{
    bool is = ot_numel(&x_of(n, k)->shape) >= OT_CONV_NARROW || ot_numel(&y_of(n, k)->shape) >= OT_CONV_NARROW;
    for (int j = 0; j < 3; j++)
        is |= (s->w.kernel[j] + 8) * s->w.dilation[j] >= OT_CONV_NARROW ||
              (s->out[j] + 8) * s->w.stride[j] >= OT_CONV_NARROW;
    return is;
}

/* Outputs of one thread along the last axis: 4, so that weights and x are loaded once for several; fewer if the
 * range of x for them is long. */
static int outputs(const ot_conv_sizes *s)
{
    int64_t reach = (s->w.kernel[2] - 1) * s->w.dilation[2] + 1;
    return reach + 3 * s->w.stride[2] <= STRETCH ? 4 : 1;
}

static void define_axes(ot_text *text, const char *letter, const int64_t v[3])
{
    for (int j = 0; j < 3; j++) ot_text_add(text, "#define %s%d %lld\n", letter, j, (long long)v[j]);
}

static ot_status compile(const ot_node *n, kind k, const ot_conv_sizes *s, int px, plan *p, ot_prep *prep)
{
    static const char *const entry[] = { "direct_forward", "direct_dx", "direct_dw" };
    ot_dtype type = x_of(n, k)->dtype;
    ot_text text = { 0 };
    bool is_wide = wide(n, k, s);
    ot_text_add(&text, "#define T %s\n#define CLS %s\n#define ACC %s\n", ot_cuda_type(type), ot_cuda_class(type),
                ot_tile_sum_type(type));
    ot_text_add(&text, "#define IDX %s\n#define UIDX %s\n", is_wide ? "ot_i64" : "int", is_wide ? "ot_u64" : "ot_u32");
    define_axes(&text, "K", s->w.kernel);
    define_axes(&text, "S", s->w.stride);
    define_axes(&text, "D", s->w.dilation);
    define_axes(&text, "P", s->w.pad_lo);
    ot_tile_define(&text, "C", s->C);
    ot_tile_define(&text, "M", s->M);
    ot_tile_define(&text, "PX", px);
    ot_tile_define(&text, "LAST_X", p->a.xc == 1);
    ot_tile_define(&text, "LAST_Y", p->a.yc == 1);
    ot_status e = ot_gpu_compile(prep->device, "convolvedirect.cu", text.text, entry[k], &p->f, prep->err);
    if (e == OT_OK && p->a.splits > 1)
        e = ot_gpu_compile(prep->device, "convolvedirect.cu", text.text, "direct_parts", &p->parts, prep->err);
    ot_text_free(&text);
    return e;
}

/* Number of parts of dw: enough blocks to fill the device a few times, each with several iterations of its threads. */
static void split(const ot_conv_sizes *s, plan *p, ot_prep *prep, ot_dtype type)
{
    ot_direct_args *a = &p->a;
    int64_t lines = a->yc == 1 ? 32 : 1, lanes = THREADS / lines, positions = s->N * s->out[0] * s->out[1] * s->out[2];
    int64_t blocks = ot_ceil_div(s->G * s->M, lines), most = ot_ceil_div(positions, lanes * 4),
            want = ot_ceil_div(4 * ot_gpu_units(prep->device), blocks);
    int64_t parts = want < most ? want : most;
    a->share = ot_ceil_div(positions, parts);
    a->splits = (int)ot_ceil_div(positions, a->share);
    p->blocks = blocks * a->splits;
    a->items = s->G * s->M * (s->C * s->w.kernel[0] * s->w.kernel[1] * s->w.kernel[2] + 1);
    if (a->splits > 1) prep->work = (size_t)(a->items * a->splits) * (size_t)ot_tile_sum_bytes(type);
}

static ot_status prepare(const ot_node *n, ot_prep *prep, kind k)
{
    const ot_value *x = x_of(n, k), *y = y_of(n, k);
    ot_conv_sizes s;
    plan *p = calloc(1, sizeof *p);
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: no memory for a plan of a convolution", n->name);
    ot_conv_sizes_of(n->attrs, &x->shape, &y->shape, &s);
    ot_direct_args *a = &p->a;
    a->N = s.N;
    a->G = s.G;
    a->splits = 1;
    for (int j = 0; j < 3; j++) a->in[j] = s.in[j], a->out[j] = s.out[j];
    ot_conv_steps sx = ot_conv_steps_of(x), sy = ot_conv_steps_of(y), sw = ot_conv_steps_of(w_of(n, k));
    a->xn = sx.n, a->xc = sx.c, a->xs = sx.s;
    a->yn = sy.n, a->yc = sy.c, a->ys = sy.s;
    a->wm = sw.n, a->wc = sw.c, a->wf = sw.s;
    int px = k == DW ? 1 : outputs(&s);
    const int64_t *to = k == DX ? s.in : s.out;
    a->items = s.N * s.G * (k == DX ? s.C : s.M) * to[0] * to[1] * ot_ceil_div(to[2], px);
    if (k == DW) split(&s, p, prep, x->dtype); /* sets items as well */
    else p->blocks = ot_gpu_blocks(prep->device, a->items, THREADS);
    ot_status e = compile(n, k, &s, px, p, prep);
    prep->state = e == OT_OK ? p : NULL;
    if (e != OT_OK) free(p);
    return e;
}

static ot_status forward_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, FORWARD); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, DX); }
static ot_status dw_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, DW); }

static ot_status run(const ot_call *c)
{
    const plan *p = c->state;
    ot_direct_args a = p->a;
    a.from = c->in[0];
    a.with = c->in[1];
    a.bias = c->node->n_in > 2 ? c->in[2] : NULL;
    a.to = c->out[0];
    a.db = c->node->n_out > 1 ? c->out[1] : NULL;
    a.work = p->parts ? c->work : NULL;
    OT_TRY(ot_gpu_launch(c->device, p->f, p->blocks, THREADS, 0, &a, c->err));
    if (!p->parts) return OT_OK;
    return ot_gpu_launch(c->device, p->parts, ot_gpu_blocks(c->device, a.items, THREADS), THREADS, 0, &a, c->err);
}

const ot_kernel ot_direct_Convolve = { .name = "cuda-direct",
                                       .can = forward_can,
                                       .prepare = forward_prepare,
                                       .run = run,
                                       .release = free,
                                       .any_layout = true,
                                       .wants = ot_cuda_conv_wants };
const ot_kernel ot_direct_ConvolveDx = { .name = "cuda-direct",
                                         .can = dx_can,
                                         .prepare = dx_prepare,
                                         .run = run,
                                         .release = free,
                                         .any_layout = true,
                                         .wants = ot_cuda_conv_wants };
const ot_kernel ot_direct_ConvolveDw = { .name = "cuda-direct",
                                         .can = dw_can,
                                         .prepare = dw_prepare,
                                         .run = run,
                                         .release = free,
                                         .any_layout = true,
                                         .wants = ot_cuda_conv_wants };
