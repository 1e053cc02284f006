/* convolve_samples.c - Convolve, ConvolveDx, ConvolveDw with one sample in each vector lane, for few channels.
 *
 * oneDNN's vectors hold channels: with one input channel or 50 output channels lanes are empty.  Here every product uses whole
 * vectors if the batch does, whatever channels, widths, windows and layouts are.  dx of stride 1 is a convolution of dy with
 * mirrored windows.
 * Threads   strips (convolve_tiles.h).  Each sums its part of dw, added in order: the same bits for a number of threads
 * Numerics  padding is multiplied, as 0: an infinite weight or gradient there gives NaN */
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/convolve_tiles.h"
#include "ops/cpu/vector.h"
#include "ops/kernel.h"
#include "ops/kernels/box.h"
#include "ops/kernels/convolve.h"

enum { STRIP_VECTORS = 12288 }; /* of x and y: they stay in the L2 cache, with lanes of 64 bytes in 768 KiB */

typedef struct samples_state {
    const ot_strip_tiles *tiles;
    ot_strip_job job; /* without addresses */
    int64_t blocks, strips;
    int threads;
    int64_t window;               /* elements of a window in one channel */
    int64_t wm, wc, wk;           /* strides of w by channel of y, of x, and in the window */
    size_t weights, sums, strip;  /* workspace: bytes of packed weights; per thread of sums, of a strip */
    int32_t *tables;
} samples_state;

static const ot_strip_tiles *best_tiles(void)
{
    static const ot_strip_tiles *const tiles[] = { &ot_strip_tiles_base, &ot_strip_tiles_avx2, &ot_strip_tiles_avx512 };
    return tiles[ot_instruction_set()];
}

/* ---- what it can ------------------------------------------------------------------- */

/* The convolution that a node computes: x, y; dx reads dy as x and writes dx as y. */
typedef struct convolution {
    const ot_value *x, *y;
    ot_window w;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
} convolution;

static void plane_of(const ot_shape *s, int64_t to[2])
{
    int64_t all[OT_WINDOW_AXES];
    ot_spatial_3d(s, all);
    to[0] = all[1], to[1] = all[2];
}

static void convolution_of(const ot_node *n, convolution *c)
{
    const ot_convolve *a = n->attrs;
    bool dx = n->op == &ot_op_ConvolveDx;
    c->x = n->op == &ot_op_ConvolveDw ? n->in[1] : n->in[0];
    c->y = n->op == &ot_op_ConvolveDw ? n->in[0] : n->out[0];
    ot_window_3d(&a->window, &c->w);
    plane_of(&c->x->shape, c->in);
    plane_of(&c->y->shape, c->out);
    for (int j = 0; j < 2; j++) {
        c->kernel[j] = c->w.kernel[1 + j], c->stride[j] = c->w.stride[1 + j], c->dilation[j] = c->w.dilation[1 + j];
        c->pad[j] = c->w.pad_lo[1 + j];
        if (dx) c->pad[j] = (c->kernel[j] - 1) * c->dilation[j] - c->pad[j];
    }
}

static bool values_fit(const ot_node *n, const char **why)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (v && v->dtype != OT_F32) return *why = "only float32", false;
        if (v && (ot_numel(&v->shape) <= 0 || ot_numel(&v->shape) >= INT32_MAX)) return *why = "an empty or huge tensor", false;
    }
    return true;
}

static bool can(const ot_node *n, const char **why)
{
    const ot_convolve *a = n->attrs;
    convolution c;
    if (a->group != 1 || a->window.nd > 2) return *why = "groups, or three axes", false;
    if (!n->out[0]) return *why = "dw is not needed", false;
    if (!values_fit(n, why)) return false;
    convolution_of(n, &c);
    for (int j = 0; j < 2 && n->op == &ot_op_ConvolveDx; j++) {
        int64_t span = (c.kernel[j] - 1) * c.dilation[j];
        if (c.stride[j] != 1) return *why = "dx with a stride", false;
        if (c.pad[j] < 0 || c.pad[j] + c.in[j] > c.out[j] + span) return *why = "dx with more padding than window", false;
    }
    return true;
}

/* ---- strips ------------------------------------------------------------------------ */

/* What a strip of `rows` rows needs. */
static void lay_strip(const convolution *c, int64_t rows, ot_strip_job *j)
{
    int64_t span = (c->out[1] - 1) * c->stride[1] + (c->kernel[1] - 1) * c->dilation[1] + 1, used = c->pad[1] + c->in[1];
    int64_t width = span > used ? span : used;
    j->rows = rows;
    j->x_rows = (rows - 1) * c->stride[0] + (c->kernel[0] - 1) * c->dilation[0] + 1;
    j->x.plane = j->x_rows * width;
    j->y.plane = rows * c->out[1];
    j->x.vectors = j->C * j->x.plane;
    j->y.vectors = j->M * j->y.plane;
    j->padded = c->pad[0] || c->pad[1] || (c->out[0] - 1) * c->stride[0] - c->pad[0] + (c->kernel[0] - 1) * c->dilation[0] >= c->in[0] || span > used;
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

/* The largest strips that fit, in a number that threads divide. */
static int64_t rows_of(const convolution *c, ot_strip_job *j, int64_t blocks, int threads)
{
    int64_t strips = blocks % threads ? threads : 1;
    for (;; strips++) {
        int64_t rows = (c->out[0] + strips - 1) / strips;
        lay_strip(c, rows > 1 ? rows : 1, j);
        if (rows <= 1 || j->x.vectors + j->y.vectors <= STRIP_VECTORS) return j->rows;
    }
}

static void fill_side(const ot_value *v, int64_t rows, int64_t columns, int64_t width, int64_t pad, int64_t plane, int32_t *at)
{
    int64_t channels = v->layout == OT_CHANNELS_LAST ? v->shape.dim[1] : 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t q = 0; q < columns; q++)
            for (int64_t ch = 0; ch < channels; ch++) *at++ = (int32_t)(ch * plane + r * width + pad + q);
}

static ot_status fill_tables(const convolution *c, samples_state *st, ot_prep *p)
{
    ot_strip_job *j = &st->job;
    int64_t width = j->x.plane / j->x_rows, k = 0;
    int64_t xn = j->x_rows * j->x.row, yn = j->rows * j->y.row, pn = j->rows * j->width;
    int32_t *t = st->tables = malloc((size_t)(xn + yn + pn + j->taps) * sizeof *t);
    if (!t) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare a convolution");
    j->x.at = t, j->y.at = t + xn, j->pixel = t + xn + yn, j->tap = t + xn + yn + pn;
    fill_side(c->x, j->x_rows, c->in[1], width, c->pad[1], j->x.plane, t);
    fill_side(c->y, j->rows, c->out[1], c->out[1], 0, j->y.plane, t + xn);
    t += xn + yn;
    for (int64_t r = 0; r < j->rows; r++)
        for (int64_t q = 0; q < j->width; q++) t[k++] = (int32_t)(r * c->stride[0] * width + q * c->stride[1]);
    for (int64_t ch = 0; ch < j->C; ch++)
        for (int64_t a = 0; a < c->kernel[0]; a++)
            for (int64_t b = 0; b < c->kernel[1]; b++)
                t[k++] = (int32_t)(ch * j->x.plane + a * c->dilation[0] * width + b * c->dilation[1]);
    return OT_OK;
}

static void release(void *state)
{
    samples_state *st = state;
    if (st) free(st->tables);
    free(st);
}

static size_t whole(int64_t vectors, int64_t of) { return (size_t)((vectors + of - 1) / of * of); }

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    samples_state *st = calloc(1, sizeof *st);
    convolution c;
    int64_t stride[OT_MAX_RANK];
    bool dw = n->op == &ot_op_ConvolveDw, dx = n->op == &ot_op_ConvolveDx;
    if (!st) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    convolution_of(n, &c);
    ot_strip_job *j = &st->job;
    st->tiles = best_tiles();
    st->window = c.kernel[0] * c.kernel[1];
    const ot_value *w = dw ? n->out[0] : n->in[1];
    ot_value_strides(w, stride);
    st->wm = stride[dx], st->wc = stride[!dx], st->wk = w->layout == OT_CHANNELS_LAST ? w->shape.dim[1] : 1;
    *j = (ot_strip_job){ .N = c.x->shape.dim[0], .C = c.x->shape.dim[1], .M = c.y->shape.dim[1], .in = c.in[0], .out = c.out[0],
                         .width = c.out[1], .stride = c.stride[0], .pad = c.pad[0] };
    j->taps = j->C * st->window;
    int64_t lanes = st->tiles->lanes;
    st->blocks = (j->N + lanes - 1) / lanes;
    int64_t rows = rows_of(&c, j, st->blocks, p->threads);
    st->strips = (j->out + rows - 1) / rows;
    st->threads = st->blocks * st->strips < p->threads ? (int)(st->blocks * st->strips) : p->threads;
    lay_side(c.x, c.in, &j->x);
    lay_side(c.y, c.out, &j->y);
    size_t vector = (size_t)lanes * sizeof(float);
    st->weights = dw ? 0 : whole(j->M * j->taps, 16) * sizeof(float);
    st->sums = dw ? whole(j->M * j->taps + j->M, lanes) * vector : 0;
    st->strip = (size_t)(j->x.vectors + j->y.vectors) * vector;
    p->work = st->weights + (size_t)st->threads * ((st->sums + st->strip + 63) / 64 * 64);
    p->state = st;
    ot_status e = fill_tables(&c, st, p);
    if (e != OT_OK) release(st), p->state = NULL;
    return e;
}

/* ---- running ----------------------------------------------------------------------- */

static float *workspace(const ot_call *c, int thread)
{
    const samples_state *st = c->state;
    return (float *)(void *)((char *)c->work + st->weights + (size_t)thread * ((st->sums + st->strip + 63) / 64 * 64));
}

static float *bytes(const void *p) { return (float *)(uintptr_t)p; }

/* The weights of a tile of channels, by taps.  dx: channels of w exchanged, windows mirrored. */
static void pack_tile(const samples_state *st, const float *w, bool dx, int64_t q, float *packed)
{
    const ot_strip_job *j = &st->job;
    int64_t tiles = ot_tile_count(j->M, st->tiles->channels), m0 = ot_tile_start(j->M, tiles, q), m1 = ot_tile_start(j->M, tiles, q + 1);
    int64_t K = st->window;
    float *to = packed + m0 * j->taps;
    for (int64_t ch = 0; ch < j->C; ch++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t m = m0; m < m1; m++) *to++ = w[m * st->wm + ch * st->wc + (dx ? K - 1 - k : k) * st->wk];
}

static ot_status run(const ot_call *c)
{
    const samples_state *st = c->state;
    ot_strip_job j = st->job;
    bool dx = c->node->op == &ot_op_ConvolveDx;
    const float *w = c->in[1], *b = !dx && c->node->n_in > 2 ? c->in[2] : NULL;
    float *packed = c->work;
    int threads = st->threads;
    int64_t tiles = ot_tile_count(j.M, st->tiles->channels);
    j.x.p = bytes(c->in[0]);
    j.y.p = c->out[0];
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t q = 0; q < tiles; q++) pack_tile(st, w, dx, q, packed);
#pragma omp for schedule(static)
        for (int t = 0; t < threads; t++) {
            int64_t from, to;
            ot_part(st->blocks * st->strips, t, threads, &from, &to);
            for (int64_t i = from; i < to; i++)
                st->tiles->convolve(&j, i / st->strips * st->tiles->lanes, i % st->strips * j.rows, packed, b, workspace(c, t));
        }
    }
    return OT_OK;
}

/* dw of a tile of channels from the sums of all threads. */
static void gather_tile(const ot_call *c, int64_t q, float *dw)
{
    const samples_state *st = c->state;
    const ot_strip_job *j = &st->job;
    int64_t tiles = ot_tile_count(j->M, st->tiles->channels), m0 = ot_tile_start(j->M, tiles, q), m1 = ot_tile_start(j->M, tiles, q + 1);
    int64_t ts = ot_tile_count(j->taps, st->tiles->across), at = m0 * j->taps;
    for (int64_t t = 0; t < ts; t++) {
        int64_t t0 = ot_tile_start(j->taps, ts, t), t1 = ot_tile_start(j->taps, ts, t + 1);
        for (int64_t m = m0; m < m1; m++)
            for (int64_t k = t0; k < t1; k++, at++) {
                float all = workspace(c, 0)[at];
                for (int i = 1; i < st->threads; i++) all += workspace(c, i)[at];
                dw[m * st->wm + k / st->window * st->wc + k % st->window * st->wk] = all;
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
            memset(sums, 0, st->sums);
            ot_part(st->blocks * st->strips, t, threads, &from, &to);
            for (int64_t i = from; i < to; i++)
                st->tiles->weights(&j, i / st->strips * st->tiles->lanes, i % st->strips * j.rows, sums, db != NULL,
                                   sums + st->sums / sizeof(float));
            st->tiles->add_lanes(sums, (int64_t)(st->sums / sizeof(float)) / st->tiles->lanes);
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

static bool yields(const ot_node *n, const char **why)
{
    (void)n; (void)why;
    return false;
}

const ot_kernel ot_cpu_Convolve = { .name = "cpu", .can = can, .yields = yields, .prepare = prepare, .run = run, .release = release, .any_layout = true };
const ot_kernel ot_cpu_ConvolveDx = { .name = "cpu", .can = can, .yields = yields, .prepare = prepare, .run = run, .release = release, .any_layout = true };
const ot_kernel ot_cpu_ConvolveDw = { .name = "cpu", .can = can, .yields = yields, .prepare = prepare, .run = dw_run, .release = release, .any_layout = true };
