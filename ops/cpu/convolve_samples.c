/* convolve_samples.c - Convolve, ConvolveDx, ConvolveDw with one sample in each vector lane, for few channels.
 *
 * oneDNN's vectors hold channels: with one input channel or 50 output channels lanes are empty.  Here every product uses whole
 * vectors if the batch does, whatever channels, widths, windows and layouts are.  dx adds, tap by tap,
 * what a window gives to the pixels that it reads.
 * Threads   strips (convolve_tiles.h).  Each sums its part of dw, added in order: the same bits for a number of threads
 * Numerics  padding is multiplied, as 0: an infinite weight or gradient there gives NaN */
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/convolve_rows.h"
#include "ops/cpu/convolve_tiles.h"
#include "ops/cpu/vector.h"
#include "ops/cpu/winograd.h"
#include "ops/kernel.h"
#include "ops/kernels/box.h"
#include "ops/kernels/convolve.h"

/* Of x and y of a strip, which stay in the L2 cache; a vector has up to 64 bytes. */
enum { STRIP_VECTORS = 12288 };

/* With 2 MiB of L2 cache (GFLOP/s of two cores, oneDNN beside it):
 * sums of dw that a thread can keep there: 3x3 of 48 x 96 163 (150), of 128 x 256 141 (215), of 512 x 512 76 (167);
 * vectors of a row of y and the rows of x that it reads: 9,000 252 (200), 20,000 196 (249), 26,600 134 (249). */
enum { L2_SUMS = 192 << 10, L2_ROW = 16 << 10 };

typedef struct samples_state {
    const ot_strip_tiles *tiles;
    ot_strip_job job; /* without addresses */
    int64_t count;    /* strips of all samples */
    int threads;
    int64_t wm, wc, wk;           /* strides of w by channel of y, of x, and in the window */
    size_t weights, sums, thread; /* workspace: floats of packed weights; of each thread: of sums, all */
    int32_t *tables;
} samples_state;

static const ot_strip_tiles *best_tiles(void)
{
    static const ot_strip_tiles *const tiles[] = { &ot_strip_tiles_base, &ot_strip_tiles_avx2, &ot_strip_tiles_avx512 };
    return tiles[ot_instruction_set()];
}

/* ---- what it can ------------------------------------------------------------------- */

typedef struct convolution {
    const ot_value *x, *w, *y; /* or their gradients */
    bool dx, dw;
    ot_conv_plane p;
} convolution;

static void convolution_of(const ot_node *n, convolution *c)
{
    c->dx = n->op == &ot_op_ConvolveDx, c->dw = n->op == &ot_op_ConvolveDw;
    c->x = c->dx ? n->out[0] : c->dw ? n->in[1] : n->in[0];
    c->w = c->dw ? n->out[0] : n->in[1];
    c->y = c->dx || c->dw ? n->in[0] : n->out[0];
    ot_conv_plane_of(n->attrs, &c->x->shape, &c->y->shape, &c->p);
}

static bool values_fit(const ot_node *n, const char **why)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (!ot_f32_can(v, why)) return false;
        if (v && (ot_numel(&v->shape) <= 0 || ot_numel(&v->shape) >= INT32_MAX))
            return ot_refuse(why, "an empty or huge tensor");
    }
    return true;
}

static bool can(const ot_node *n, const char **why)
{
    const ot_convolve *a = n->attrs;
    if (a->group != 1 || a->window.nd > 2) return ot_refuse(why, "groups, or three axes");
    if (!n->out[0]) return ot_refuse(why, "dw is not needed");
    return values_fit(n, why);
}

/* ---- strips ------------------------------------------------------------------------ */

static int64_t reach(const convolution *c, int j) { return (c->p.kernel[j] - 1) * c->p.dilation[j]; }

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rounded up, of any sign. */
static int64_t divide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

static int64_t skipped_rows(const convolution *c, const ot_strip_job *j)
{
    return c->p.pad[0] - j->behind * c->p.stride[0];
}

/* What strips of `rows` rows of y need; dx: of x, a multiple of the stride. */
static void lay_strips(const convolution *c, int64_t rows, ot_strip_job *j)
{
    int64_t span = (c->p.out[1] - 1) * c->p.stride[1] + reach(c, 1) + 1, used = c->p.pad[1] + c->p.in[1], high;
    j->x_width = most(span, used);
    if (c->dx) {
        j->x_rows = rows;
        j->behind = divide_up(c->p.pad[0] - reach(c, 0), c->p.stride[0]);
        j->rows = (rows - 1 + c->p.pad[0]) / c->p.stride[0] - j->behind + 1;
        high = most((j->rows - 1) * c->p.stride[0] + reach(c, 0) + 1, skipped_rows(c, j) + rows);
    } else {
        j->rows = rows;
        high = j->x_rows = (rows - 1) * c->p.stride[0] + reach(c, 0) + 1;
    }
    j->strips = ((c->dx ? c->p.in[0] : c->p.out[0]) + rows - 1) / rows;
    j->x.plane = high * j->x_width | 1; /* planes of 2^n bytes would share lines of the cache */
    j->y.plane = j->rows * c->p.out[1] | 1;
    j->x.vectors = j->C * j->x.plane;
    j->y.vectors = j->M * j->y.plane;
    j->padded = c->p.pad[0] || used < j->x_width || c->p.pad[1] ||
                (c->p.out[0] - 1) * c->p.stride[0] + reach(c, 0) >= c->p.in[0];
}

/* The largest strips that fit; a number that threads divide. */
static void choose_strips(const convolution *c, ot_strip_job *j, int64_t blocks, int threads)
{
    int64_t total = c->dx ? c->p.in[0] : c->p.out[0], step = c->dx ? c->p.stride[0] : 1;
    for (int64_t strips = blocks % threads ? threads : 1;; strips++) {
        int64_t rows = ((total + strips - 1) / strips + step - 1) / step * step;
        lay_strips(c, rows, j);
        if (rows == step || j->x.vectors + j->y.vectors <= STRIP_VECTORS) return;
    }
}

static void lay_side(const ot_value *v, const int64_t size[2], ot_strip_side *s)
{
    bool last = v->layout == OT_CHANNELS_LAST;
    int64_t channels = v->shape.dim[1];
    s->sample = channels * size[0] * size[1];
    s->runs = last ? 1 : channels;
    s->run = size[0] * size[1];
    s->row = size[1] * (last ? channels : 1);
}

static void fill_side(const ot_value *v, int64_t rows, int64_t columns, int64_t width, int64_t pad, int64_t plane,
                      int32_t *at)
{
    int64_t channels = v->layout == OT_CHANNELS_LAST ? v->shape.dim[1] : 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t q = 0; q < columns; q++)
            for (int64_t ch = 0; ch < channels; ch++) *at++ = (int32_t)(ch * plane + r * width + pad + q);
}

static ot_status fill_tables(const convolution *c, samples_state *st, ot_prep *p)
{
    ot_strip_job *j = &st->job;
    int64_t width = j->x_width, pixels = j->rows * j->width;
    int64_t sizes[] = { j->x_rows * j->x.row, j->rows * j->y.row, pixels, pixels, j->M, j->taps }, all = 0;
    int32_t *t[OT_LEN(sizes)];
    for (int i = 0; i < OT_LEN(sizes); i++) all += sizes[i];
    t[0] = st->tables = malloc((size_t)all * sizeof *st->tables);
    if (!st->tables) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare a convolution");
    for (int i = 1; i < OT_LEN(sizes); i++) t[i] = t[i - 1] + sizes[i - 1];
    j->x.at = t[0], j->y.at = t[1], j->pixel = t[2], j->dense = t[3], j->channel = t[4], j->tap = t[5];
    fill_side(c->x, j->x_rows, c->p.in[1], width, c->p.pad[1] + (c->dx ? skipped_rows(c, j) * width : 0), j->x.plane,
              t[0]);
    fill_side(c->y, j->rows, c->p.out[1], c->p.out[1], 0, j->y.plane, t[1]);
    for (int64_t i = 0; i < pixels; i++) {
        t[2][i] = (int32_t)(i / j->width * c->p.stride[0] * width + i % j->width * c->p.stride[1]);
        t[3][i] = (int32_t)i;
    }
    for (int64_t m = 0; m < j->M; m++) t[4][m] = (int32_t)(m * j->y.plane);
    for (int64_t ch = 0, k = 0; ch < j->C; ch++)
        for (int64_t a = 0; a < c->p.kernel[0]; a++)
            for (int64_t b = 0; b < c->p.kernel[1]; b++, k++)
                t[5][k] = (int32_t)(ch * j->x.plane + a * c->p.dilation[0] * width + b * c->p.dilation[1]);
    return OT_OK;
}

static void release(void *state)
{
    samples_state *st = state;
    if (st) free(st->tables);
    free(st);
}

static size_t lines(int64_t floats) { return (size_t)((floats + 15) / 16 * 16); }

/* Workspace: packed weights, then for each thread sums of dw and strips. */
static void lay_work(const convolution *c, samples_state *st, ot_prep *p)
{
    ot_strip_job *j = &st->job;
    st->weights = c->dw ? 0 : lines(j->M * j->taps);
    st->sums = c->dw ? lines(j->M * j->taps + j->M) : 0;
    st->thread = st->sums + lines((j->x.vectors + j->y.vectors) * st->tiles->lanes);
    p->work = (st->weights + (size_t)st->threads * st->thread) * sizeof(float);
}

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    samples_state *st = calloc(1, sizeof *st);
    convolution c;
    int64_t stride[OT_MAX_RANK];
    if (!st) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    convolution_of(n, &c);
    ot_strip_job *j = &st->job;
    st->tiles = best_tiles();
    ot_value_strides(c.w, stride);
    st->wm = stride[0], st->wc = stride[1], st->wk = c.w->layout == OT_CHANNELS_LAST ? c.w->shape.dim[1] : 1;
    *j = (ot_strip_job){ .N = c.x->shape.dim[0],
                         .C = c.x->shape.dim[1],
                         .M = c.y->shape.dim[1],
                         .in = c.p.in[0],
                         .out = c.p.out[0],
                         .width = c.p.out[1],
                         .stride = c.p.stride[0],
                         .pad = c.p.pad[0],
                         .window = c.p.kernel[0] * c.p.kernel[1] };
    j->taps = j->C * j->window;
    int64_t blocks = (j->N + st->tiles->lanes - 1) / st->tiles->lanes;
    choose_strips(&c, j, blocks, p->threads);
    st->count = blocks * j->strips;
    st->threads = st->count < p->threads ? (int)st->count : p->threads;
    lay_side(c.x, c.p.in, &j->x);
    lay_side(c.y, c.p.out, &j->y);
    lay_work(&c, st, p);
    p->state = st;
    ot_status e = fill_tables(&c, st, p);
    if (e != OT_OK) release(st), p->state = NULL;
    return e;
}

/* ---- running ----------------------------------------------------------------------- */

static float *workspace(const ot_call *c, int thread)
{
    const samples_state *st = c->state;
    return (float *)c->work + st->weights + (size_t)thread * st->thread;
}

static float *bytes(const void *p) { return (float *)(uintptr_t)p; }

/* The weights of a tile of channels of y, by taps. */
static void pack_convolve(const samples_state *st, const float *w, int64_t q, float *packed)
{
    const ot_strip_job *j = &st->job;
    int64_t tiles = ot_tile_count(j->M, st->tiles->channels);
    int64_t m0 = ot_tile_start(j->M, tiles, q), m1 = ot_tile_start(j->M, tiles, q + 1);
    float *to = packed + m0 * j->taps;
    for (int64_t ch = 0; ch < j->C; ch++)
        for (int64_t k = 0; k < j->window; k++)
            for (int64_t m = m0; m < m1; m++) *to++ = w[m * st->wm + ch * st->wc + k * st->wk];
}

/* The weights of a tap, by tiles of channels of x. */
static void pack_spread(const samples_state *st, const float *w, int64_t k, float *packed)
{
    const ot_strip_job *j = &st->job;
    int64_t tiles = ot_tile_count(j->C, st->tiles->channels);
    float *to = packed + k * j->C * j->M;
    for (int64_t q = 0; q < tiles; q++)
        for (int64_t m = 0; m < j->M; m++)
            for (int64_t ch = ot_tile_start(j->C, tiles, q); ch < ot_tile_start(j->C, tiles, q + 1); ch++)
                *to++ = w[m * st->wm + ch * st->wc + k * st->wk];
}

static ot_status run(const ot_call *c)
{
    const samples_state *st = c->state;
    ot_strip_job j = st->job;
    bool dx = c->node->op == &ot_op_ConvolveDx;
    const float *w = c->in[1], *b = !dx && c->node->n_in > 2 ? c->in[2] : NULL;
    float *packed = c->work;
    int threads = st->threads;
    int64_t pieces = dx ? j.window : ot_tile_count(j.M, st->tiles->channels);
    (dx ? &j.y : &j.x)->p = bytes(c->in[0]);
    (dx ? &j.x : &j.y)->p = c->out[0];
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pieces; i++) (dx ? pack_spread : pack_convolve)(st, w, i, packed);
#pragma omp for schedule(static)
        for (int t = 0; t < threads; t++) {
            int64_t from, to;
            ot_part(st->count, t, threads, &from, &to);
            for (int64_t i = from; i < to; i++)
                if (dx) st->tiles->spread(&j, i, packed, workspace(c, t));
                else st->tiles->convolve(&j, i, packed, b, workspace(c, t));
        }
    }
    return OT_OK;
}

/* dw of a tile of channels from the sums of all threads. */
static void gather_tile(const ot_call *c, int64_t q, float *dw)
{
    const samples_state *st = c->state;
    const ot_strip_job *j = &st->job;
    int64_t tiles = ot_tile_count(j->M, st->tiles->channels), ts = ot_tile_count(j->taps, st->tiles->across);
    int64_t m0 = ot_tile_start(j->M, tiles, q), m1 = ot_tile_start(j->M, tiles, q + 1), at = m0 * j->taps;
    for (int64_t t = 0; t < ts; t++) {
        int64_t t0 = ot_tile_start(j->taps, ts, t), t1 = ot_tile_start(j->taps, ts, t + 1);
        for (int64_t m = m0; m < m1; m++)
            for (int64_t k = t0; k < t1; k++, at++) {
                float all = workspace(c, 0)[at];
                for (int i = 1; i < st->threads; i++) all += workspace(c, i)[at];
                dw[m * st->wm + k / j->window * st->wc + k % j->window * st->wk] = all;
            }
    }
}

static ot_status dw_run(const ot_call *c)
{
    const samples_state *st = c->state;
    ot_strip_job j = st->job;
    float *dw = c->out[0], *db = c->node->n_out > 1 ? c->out[1] : NULL;
    int threads = st->threads;
    int64_t tiles = ot_tile_count(j.M, st->tiles->channels);
    j.x.p = bytes(c->in[1]);
    j.y.p = bytes(c->in[0]);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int t = 0; t < threads; t++) {
            int64_t from, to;
            float *sums = workspace(c, t);
            memset(sums, 0, st->sums * sizeof *sums);
            ot_part(st->count, t, threads, &from, &to);
            for (int64_t i = from; i < to; i++) st->tiles->weights(&j, i, sums, db != NULL, sums + st->sums);
        }
#pragma omp for schedule(static)
        for (int64_t q = 0; q < tiles; q++) gather_tile(c, q, dw);
    }
    for (int64_t m = 0; m < j.M && db; m++) {
        db[m] = 0;
        for (int t = 0; t < threads; t++) db[m] += workspace(c, t)[j.M * j.taps + m];
    }
    return OT_OK;
}

/* ---- when it pays ------------------------------------------------------------------- */

/* The share of lanes that n elements use. */
static double filled(int64_t n, int lanes) { return (double)n / (double)((n + lanes - 1) / lanes * lanes); }

/* How many times as long as at full speed dw by lines takes (convolve_lines.c): eight sums at once hide the time of an addition. */
static double by_lines(int64_t C, int64_t M)
{
    double sums = (double)(M < 6 ? M : 6) * (double)(C < 64 ? ot_ceil_div(C, 16) : 4);
    return sums < 8 ? 8 / sums : 1;
}

static bool exceeds_l2(const convolution *c)
{
    ot_strip_job j = { .C = c->x->shape.dim[1], .M = c->y->shape.dim[1] };
    if (c->dw) return j.C * j.M * c->p.kernel[0] * c->p.kernel[1] > L2_SUMS;
    lay_strips(c, c->dx ? c->p.stride[0] : 1, &j);
    return j.x.vectors + j.y.vectors > L2_ROW;
}

/* Nanoseconds for an element of the result (dw: of dy) here and in oneDNN, with one thread of a machine with AVX-512: the
 * products at the speed of whole vectors, those that are used; turning x and y; and what oneDNN loses with up to four
 * channels of x.  Both scale alike with other machines.  Chosen by shape only: the same plan everywhere. */
static bool yields(const ot_node *n, const char **why)
{
    const ot_strip_tiles *tiles = best_tiles();
    convolution c;
    *why = "vectors of channels are faster: channels fill them, or the batch does not fill these";
    if (tiles == &ot_strip_tiles_base) return true;
    convolution_of(n, &c);
    ot_conv_kind kind = c.dx ? OT_CONV_DX : c.dw ? OT_CONV_DW : OT_CONV_FORWARD;
    ot_conv_call call = { .kind = kind, .attrs = n->attrs, .x = c.x, .w = c.w, .y = c.y };
    if (ot_winograd_pays(&call) || ot_rows_windows_pay(&call) || ot_rows_pixels_pay(&call)) {
        *why = "Winograd's algorithm, or one product for each element of the window, is faster";
        return true;
    }
    int64_t C = c.x->shape.dim[1], M = c.y->shape.dim[1];
    if (exceeds_l2(&c)) {
        *why = "what a thread works on exceeds the L2 cache";
        return true;
    }
    double x = (double)ot_numel(&c.x->shape), y = (double)ot_numel(&c.y->shape);
    double ops = 2 * (double)(C * c.p.kernel[0] * c.p.kernel[1]) * y, used = filled(c.x->shape.dim[0], tiles->lanes);
    double turn = 0.2 * (x + y), own, other;
    bool far = C <= 4 && c.p.stride[0] >= 4 && c.p.stride[1] >= 4; /* windows that hardly overlap, as AlexNet's first */
    if (c.dx) own = ops / 150 * (1 + 4 / (double)M), other = ops / 185 / filled(C, tiles->lanes) + 0.1 * x;
    else if (c.dw && C >= 16) own = ops / 160, other = ops / 150 * by_lines(C, M);
    else if (c.dw) own = ops / 160, other = ops / 165 / filled(M, tiles->lanes) + (C <= 4 && M > 16 ? 0.5 * y : 0);
    else own = ops / 190, other = ops / (far ? 150 : 185) / filled(M, tiles->lanes) + 0.1 * y;
    return own / used + turn > other;
}

#define KERNEL(run_it)                                                                                            \
    {                                                                                                             \
        .name = "cpu-samples", .can = can, .yields = yields, .prepare = prepare, .run = run_it, .release = release,       \
        .any_layout = true                                                                                        \
    }

const ot_kernel ot_samples_Convolve = KERNEL(run);
const ot_kernel ot_samples_ConvolveDx = KERNEL(run);
const ot_kernel ot_samples_ConvolveDw = KERNEL(dw_run);
