/* convolve.c - Convolve and ConvolveDx by tiles of our own: every case of the reference.
 *
 * Shapes   The product of tile.cuh: rows are positions of y, columns its channels per group, terms pairs of a tap and a
 *          channel of x.  A table gives the position of each term in x and in w, so that one kernel serves any window,
 *          dilation and layout; it is copied to the device once.
 *          For ConvolveDx (y = dx, x = dy) positions are sorted
 *          into phases by their residue modulo the stride: those of one phase have the same taps, and no products with
 *          zero are computed.
 * Numerics as Dot.  Parts of the terms are added in order.
 * Memory   a workspace for the sums of parts, if positions are few and terms many (tile.c). */
#include <stdlib.h>

#include "ops/cuda/convolve.h"
#include "ops/cuda/convolve.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/tile.h"
#include "ops/cuda/types.h"

/* Convolve, or ConvolveDx with its names exchanged: y is summed from x. */
typedef struct gather {
    const ot_value *x, *w, *y;
    bool back;               /* ConvolveDx */
    ot_conv_sizes s;         /* as in the node */
    int64_t C, M;            /* channels of x and y per group */
    const int64_t *in, *out; /* spatial extents of x and y */
    ot_conv_steps sx, sy;    /* of x and y */
    int64_t wg, wm, wc, wf;  /* steps of w by group, channel of y, channel of x, tap */
    bool wide;
    bool along; /* threads are along the channels of x */
} gather;

/* One term: a channel of x at a tap. */
typedef struct term {
    int64_t x, at[3], w;
} term;

typedef struct plan {
    ot_gpu_fn *f, *parts; /* parts: the second pass; NULL: none */
    ot_convolve_args a;   /* addresses within the table are offsets until it runs */
    int64_t blocks;
    int threads;
    ot_tile tile;
    void *table;
    int64_t phases, terms; /* in the table */
    int64_t tap_at, weight_at, term_at;
} plan;

static void plan_free(void *state)
{
    plan *s = state;
    if (s) free(s->table);
    free(s);
}

static bool can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->in[0]->dtype, why); }

static gather gather_of(const ot_node *n, bool back)
{
    gather g = { .x = n->in[0], .w = n->in[1], .y = n->out[0], .back = back };
    ot_conv_sizes_of(n->attrs, g.back ? &g.y->shape : &g.x->shape, g.back ? &g.x->shape : &g.y->shape, &g.s);
    g.C = g.back ? g.s.M : g.s.C;
    g.M = g.back ? g.s.C : g.s.M;
    ot_conv_steps w = ot_conv_steps_of(g.w);
    g.sx = ot_conv_steps_of(g.x);
    g.sy = ot_conv_steps_of(g.y);
    g.wf = w.s;
    g.wg = w.n * g.s.M;
    g.wm = g.back ? w.c : w.n;
    g.wc = g.back ? w.n : w.c;
    g.wide = ot_conv_large(ot_numel(&g.x->shape)) || ot_conv_large(ot_numel(&g.y->shape)) ||
             ot_conv_large(ot_numel(&g.w->shape)) || ot_conv_window_large(&g.s);
    g.along = g.sx.c == 1 && g.C > 1;
    return g;
}

/* ---- phases ---------------------------------------------------------------------- */

/* Axis j of the phase whose first position of y is `first`. */
static void phase_axis(const gather *g, ot_conv_phase *f, int j, int64_t first)
{
    const ot_window *w = &g->s.w;
    f->first[j] = first;
    f->extent[j] = g->back ? (g->out[j] - first + w->stride[j] - 1) / w->stride[j] : g->out[j];
    f->origin[j] = g->back ? (first + w->pad_lo[j]) / w->stride[j] : -w->pad_lo[j];
}

/* Coordinate of window element k relative to a position's; false: positions of this phase do not use it. */
static bool tap_axis(const gather *g, const ot_conv_phase *f, int j, int64_t k, int64_t *at)
{
    const ot_window *w = &g->s.w;
    int64_t reach = k * w->dilation[j], rest = (f->first[j] + w->pad_lo[j]) % w->stride[j];
    *at = g->back ? -(reach / w->stride[j]) : reach;
    return !g->back || reach % w->stride[j] == rest;
}

/* Terms of the phase in the order of summation, padded to steps; NULL `list` only counts.  If x has channels last,
 * neighbours are channels: all of them at a tap if windows are small, else as many as one load reads, so that a
 * step's weights, which are stored tap by tap, are neighbours as well. */
static int64_t phase_terms(const gather *g, const ot_conv_phase *f, int vector, term *list)
{
    const int64_t *kernel = g->s.w.kernel;
    int64_t taps = kernel[0] * kernel[1] * kernel[2], n = 0;
    int64_t run = !g->along ? 1 : taps <= 9 || vector == 1 ? g->C : vector;
    for (int64_t c0 = 0; c0 < g->C; c0 += run)
        for (int64_t k = 0; k < taps; k++) {
            int64_t digit[3] = { k / kernel[2] / kernel[1], k / kernel[2] % kernel[1], k % kernel[2] };
            term t = { .w = k * g->wf };
            bool meets = true;
            for (int j = 0; j < 3 && meets; j++) {
                meets = tap_axis(g, f, j, digit[j], &t.at[j]);
                t.x = t.x * g->in[j] + t.at[j];
            }
            if (!meets) continue;
            for (int64_t c = c0; c < c0 + run && c < g->C; c++, n++)
                if (list)
                    list[n] = (term){ .x = t.x * g->sx.s + c * g->sx.c,
                                      .at = { t.at[0], t.at[1], t.at[2] },
                                      .w = t.w + c * g->wc };
        }
    return n;
}

/* ---- the table --------------------------------------------------------------------- */

typedef struct weight {
    int64_t at;
    int64_t term;
} weight;

static int by_offset(const void *a, const void *b)
{
    const weight *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->term > y->term) - (x->term < y->term);
}

/* Writes terms [0, n) of a phase to the table from entry `first` on, n padded to steps; sorted: space for a step. */
static void put_terms(const gather *g, plan *s, int64_t first, const term *list, int64_t n, weight *sorted)
{
    char *table = s->table;
    int bk = s->tile.bk;
    const int64_t far = g->wide ? (int64_t)1 << 61 : 1 << 29;
    for (int64_t step = 0; step * bk < n; step++) {
        for (int e = 0; e < bk; e++) {
            int64_t k = step * bk + e;
            term t = k < n ? list[k] : (term){ .at = { far, far, far }, .w = INT64_MAX };
            ot_conv_put(table + s->tap_at, (first + k) * 4, t.x, g->wide);
            for (int j = 0; j < 3; j++) ot_conv_put(table + s->tap_at, (first + k) * 4 + 1 + j, t.at[j], g->wide);
            sorted[e] = (weight){ t.w, e };
        }
        qsort(sorted, (size_t)bk, sizeof *sorted, by_offset);
        for (int e = 0; e < bk; e++) {
            int64_t k = first + step * bk + e;
            ot_conv_put(table + s->weight_at, k, sorted[e].at == INT64_MAX ? -1 : sorted[e].at, g->wide);
            ot_conv_put(table + s->term_at, k, sorted[e].term, g->wide);
        }
    }
}

/* Phases along axis j: the residues of the stride that occur. */
static int64_t phases_along(const gather *g, int j)
{
    if (!g->back) return 1;
    return g->s.w.stride[j] < g->out[j] ? g->s.w.stride[j] : g->out[j];
}

/* Counts phases, terms and blocks; fills the table if there is one. */
static void walk_phases(const gather *g, plan *s, int vector, term *list, weight *sorted)
{
    int64_t n[3] = { phases_along(g, 0), phases_along(g, 1), phases_along(g, 2) };
    s->phases = s->terms = s->blocks = 0;
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
        ot_conv_phase f = { .block = s->blocks, .tap = s->terms };
        phase_axis(g, &f, 0, i / n[2] / n[1]);
        phase_axis(g, &f, 1, i / n[2] % n[1]);
        phase_axis(g, &f, 2, i % n[2]);
        int64_t terms = phase_terms(g, &f, vector, s->table ? list : NULL);
        f.pixels = g->s.N * f.extent[0] * f.extent[1] * f.extent[2];
        f.steps = ot_ceil_div(terms, s->tile.bk);
        if (s->table) {
            put_terms(g, s, s->terms, list, terms, sorted);
            ((ot_conv_phase *)s->table)[s->phases] = f;
        }
        s->phases++;
        s->terms += f.steps * s->tile.bk;
        s->blocks += ot_ceil_div(f.pixels, s->tile.bm) * ot_ceil_div(g->M, s->tile.bn) * g->s.G * s->tile.splits;
    }
}

static ot_status make_table(const ot_node *n, ot_prep *p, const gather *g, plan *s, int vector)
{
    size_t number = g->wide ? 8 : 4;
    int64_t taps = g->s.w.kernel[0] * g->s.w.kernel[1] * g->s.w.kernel[2];
    walk_phases(g, s, vector, NULL, NULL);
    s->tap_at = (s->phases * (int64_t)sizeof(ot_conv_phase) + 63) / 64 * 64;
    s->weight_at = s->tap_at + s->terms * 4 * (int64_t)number;
    s->term_at = s->weight_at + s->terms * (int64_t)number;
    p->table_bytes = (size_t)s->term_at + (size_t)s->terms * number;
    s->table = malloc(p->table_bytes);
    term *list = malloc((size_t)(taps * g->C + 1) * sizeof *list);
    weight *sorted = malloc((size_t)s->tile.bk * sizeof *sorted);
    bool ok = s->table && list && sorted;
    if (ok) walk_phases(g, s, vector, list, sorted);
    free(list);
    free(sorted);
    p->table = s->table;
    return ok ? OT_OK : ot_fail(p->err, OT_E_NOMEM, "%s: no memory for the table of a convolution", n->name);
}

/* ---- preparing --------------------------------------------------------------------- */

static ot_tile choose(const gather *g, ot_prep *p, int vector)
{
    int64_t phases = phases_along(g, 0) * phases_along(g, 1) * phases_along(g, 2), pixels = g->s.N, taps = 1;
    for (int j = 0; j < 3; j++) pixels *= g->out[j], taps *= g->s.w.kernel[j];
    ot_tile_job j = { .rows = ot_ceil_div(pixels, phases),
                      .cols = g->M,
                      .terms = ot_ceil_div(taps, phases) * g->C,
                      .batch = phases * g->s.G,
                      .type = g->y->dtype,
                      .align = vector };
    return ot_tile_choose(&j, p);
}

static ot_status compile(const gather *g, ot_prep *p, plan *s, int vector)
{
    ot_text text = { 0 };
    bool last = g->sy.c == 1 && g->M > 1; /* y's channels are neighbours */
    int64_t pixels = g->out[0] * g->out[1] * g->out[2];
    ot_tile_text(&text, &s->tile, g->y->dtype, g->wide);
    ot_text_add(&text, "#define UIDX %s\n", g->wide ? "ot_u64" : "ot_u32");
    ot_tile_define(&text, "A_VEC", vector);
    ot_tile_define(&text, "B_VEC", 1);
    ot_tile_define(&text, "X_ALONG_K", g->along);
    ot_tile_define(&text, "W_ALONG_K", g->wm != 1);
    ot_tile_define(&text, "ROWS_FAST", !last);
    ot_tile_define(&text, "Y_QUADS", last ? g->M % 4 == 0 : pixels % 4 == 0 && s->phases == 1 && g->sy.s == 1);
    ot_status e = ot_gpu_compile(p->device, "convolve.cu", text.text, "convolve", &s->f, p->err);
    if (e == OT_OK && s->tile.splits > 1)
        e = ot_gpu_compile(p->device, "convolve.cu", text.text, "convolve_parts", &s->parts, p->err);
    ot_text_free(&text);
    return e;
}

static ot_convolve_args args_of(const gather *g, const plan *s)
{
    ot_convolve_args a = { .phases = (int)s->phases,
                           .splits = s->tile.splits,
                           .G = g->s.G,
                           .C = g->M,
                           .elements = ot_numel(&g->y->shape),
                           .xn = g->sx.n,
                           .xg = g->C * g->sx.c,
                           .xs = g->sx.s,
                           .yn = g->sy.n,
                           .yc = g->sy.c,
                           .ys = g->sy.s,
                           .wg = g->wg,
                           .wc = g->wm };
    for (int j = 0; j < 3; j++) {
        a.in[j] = g->in[j];
        a.out[j] = g->out[j];
        a.x_step[j] = g->back ? 1 : g->s.w.stride[j];
        a.y_step[j] = g->back ? g->s.w.stride[j] : 1;
    }
    return a;
}

static ot_status prepare(const ot_node *n, ot_prep *p, bool back)
{
    gather g = gather_of(n, back);
    if (ot_numel(&g.y->shape) == 0) return OT_OK;
    g.in = g.back ? g.s.out : g.s.in;
    g.out = g.back ? g.s.in : g.s.out;
    plan *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory for a plan of a convolution", n->name);
    int most = ot_lanes(g.y->dtype);
    bool positions = g.in[0] * g.in[1] * g.in[2] > 1;
    int vector = g.along && g.C % most == 0 && (!positions || g.sx.s % most == 0) && g.sx.n % most == 0 ? most : 1;
    s->tile = choose(&g, p, vector);
    ot_status e = make_table(n, p, &g, s, vector);
    if (e == OT_OK) e = compile(&g, p, s, vector);
    s->a = args_of(&g, s);
    s->threads = ot_tile_threads(&s->tile);
    if (s->tile.splits > 1) p->work = (size_t)s->a.elements * (size_t)(s->tile.splits * ot_tile_sum_bytes(g.y->dtype));
    p->state = s;
    if (e == OT_OK) return OT_OK;
    plan_free(s);
    p->state = NULL;
    p->table = NULL;
    p->table_bytes = 0;
    return e;
}

static ot_status forward_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, false); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, true); }

static ot_status run(const ot_call *c)
{
    const plan *s = c->state;
    if (!s) return OT_OK; /* y is empty */
    ot_convolve_args a = s->a;
    const char *table = c->table;
    a.x = c->in[0];
    a.w = c->in[1];
    a.bias = c->node->n_in > 2 ? c->in[2] : NULL;
    a.y = c->out[0];
    a.work = s->parts ? c->work : NULL;
    a.phase = table;
    a.tap = table + s->tap_at;
    a.weight = table + s->weight_at;
    a.term = table + s->term_at;
    OT_TRY(ot_gpu_launch(c->device, s->f, s->blocks, s->threads, 0, &a, c->err));
    if (!s->parts) return OT_OK;
    return ot_gpu_launch(c->device, s->parts, ot_gpu_blocks(c->device, a.elements, 256), 256, 0, &a, c->err);
}

const ot_kernel ot_cuda_Convolve = { .name = "cuda",
                                     .can = can,
                                     .prepare = forward_prepare,
                                     .run = run,
                                     .release = plan_free,
                                     .any_layout = true,
                                     .wants = ot_cuda_conv_wants };
const ot_kernel ot_cuda_ConvolveDx = { .name = "cuda",
                                       .can = can,
                                       .prepare = dx_prepare,
                                       .run = run,
                                       .release = plan_free,
                                       .any_layout = true,
                                       .wants = ot_cuda_conv_wants };
