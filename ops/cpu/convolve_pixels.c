/* convolve_pixels.c - dw of tiny pictures: a product for each pixel of y and each element of the window that is in the picture; its rows
 * are channels of y, its columns channels of x, and it sums over samples.
 *
 * A 2x2 picture with a window of 3x3 has 16 such products of 36.
 * Threads   blocks of channels of y.  The same bits with any number of threads
 * Memory    copies of x and dy, and a block of dw for each thread */
#include "ops/cpu/convolve_weights.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cpu/convolve_rows.h"
#include "ops/cpu/row_tiles.h"
#include "ops/cpu/vector.h"
#include "ops/kernels/box.h"

enum { BLOCK = 48 }; /* channels of y: eight tiles of a product */

typedef struct dw_state {
    const ot_rows_tiles *tiles;
    ot_pixels_job job;   /* without addresses */
    bool x_last, y_last; /* channels last */
    int x_arg, w_arg, b_arg, y_arg;
    int threads;
    size_t x, dy, sums; /* where they are in the workspace */
} dw_state;

static int64_t pixels_of(const int64_t size[2]) { return size[0] * size[1]; }

static int64_t taps_of(const dw_state *s) { return pixels_of(s->job.p.kernel); }

/* An odd number of lines of the caches: rows are then in different sets of them. */
static int64_t step_of(int64_t M) { return ot_floats_up(M) | 16; }

static int64_t sums_of(const dw_state *s) { return taps_of(s) * BLOCK * s->tiles->columns; }

static ot_status prepare(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, void **state)
{
    dw_state *s = calloc(1, sizeof *s);
    *state = s;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    ot_pixels_job *j = &s->job;
    s->tiles = ot_rows_tiles_of(set);
    s->x_last = c->x->layout == OT_CHANNELS_LAST, s->y_last = c->y->layout == OT_CHANNELS_LAST;
    s->x_arg = c->x_arg, s->w_arg = c->w_arg, s->b_arg = c->b_arg, s->y_arg = c->y_arg;
    j->N = c->x->shape.dim[0], j->C = c->x->shape.dim[1], j->M = c->y->shape.dim[1], j->step = step_of(j->M);
    ot_conv_plane_of(c->attrs, &c->x->shape, &c->y->shape, &j->p);
    int64_t blocks = (j->M + BLOCK - 1) / BLOCK;
    s->threads = blocks < p->threads ? (int)blocks : p->threads;
    s->x = ot_work_floats(&p->work, pixels_of(j->p.in) * j->N * ot_floats_up(j->C));
    s->dy = ot_work_floats(&p->work, pixels_of(j->p.out) * j->N * j->step);
    s->sums = ot_work_floats(&p->work, s->threads * sums_of(s));
    return OT_OK;
}

/* Channels c to c + n of pixel i of a sample with so many pixels and channels. */
static void copy(const float *sample, bool last, int64_t pixels, int64_t channels, int64_t i, int64_t c, int64_t n,
                 float *to)
{
    if (last) memcpy(to, sample + i * channels + c, (size_t)n * sizeof *to);
    else
        for (int64_t k = 0; k < n; k++) to[k] = sample[(c + k) * pixels + i];
}

/* Pixel i of x of all samples, by panels. */
static void copy_x(const dw_state *s, const float *x, int64_t i, float *to)
{
    const ot_pixels_job *j = &s->job;
    int64_t pixels = pixels_of(j->p.in);
    to += i * j->N * ot_floats_up(j->C);
    for (int64_t c = 0; c < j->C; c += s->tiles->columns) {
        int64_t left = j->C - c, n = left < s->tiles->columns ? left : s->tiles->columns, width = ot_floats_up(n);
        for (int64_t k = 0; k < j->N; k++, to += width) {
            copy(x + k * pixels * j->C, s->x_last, pixels, j->C, i, c, n, to);
            memset(to + n, 0, (size_t)(width - n) * sizeof *to);
        }
    }
}

static void copy_dy(const dw_state *s, const float *dy, int64_t i, float *to)
{
    const ot_pixels_job *j = &s->job;
    int64_t pixels = pixels_of(j->p.out);
    for (int64_t k = 0; k < j->N; k++)
        copy(dy + k * pixels * j->M, s->y_last, pixels, j->M, i, 0, j->M, to + (i * j->N + k) * j->step);
}

/* Channels m to m + n of dw, and of db. */
static void block(const dw_state *s, const ot_pixels_job *j, int64_t m, int64_t n, float *sums, float *dw, float *db)
{
    int64_t taps = taps_of(s), columns = s->tiles->columns;
    for (int64_t c0 = 0; c0 < j->C; c0 += columns) {
        int64_t c_end = j->C - c0 < columns ? j->C : c0 + columns;
        s->tiles->weights(j, m, n, c0, sums);
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = c0; c < c_end; c++)
                for (int64_t t = 0; t < taps; t++)
                    dw[((m + i) * j->C + c) * taps + t] = sums[(t * n + i) * columns + c - c0];
    }
    for (int64_t i = m; i < m + n && db; i++) {
        double sum = 0;
        for (int64_t k = 0; k < pixels_of(j->p.out) * j->N; k++) sum += (double)j->dy[k * j->step + i];
        db[i] = (float)sum;
    }
}

static void run(const void *state, const ot_call *c)
{
    const dw_state *s = state;
    ot_pixels_job j = s->job;
    const float *x = ot_arg_address(c, s->x_arg), *dy = ot_arg_address(c, s->y_arg);
    float *dw = ot_arg_address(c, s->w_arg), *db = ot_arg_address(c, s->b_arg);
    float *x_copy = (float *)(void *)((char *)c->work + s->x), *dy_copy = (float *)(void *)((char *)c->work + s->dy),
          *sums = (float *)(void *)((char *)c->work + s->sums);
    int64_t blocks = (j.M + BLOCK - 1) / BLOCK, in = pixels_of(j.p.in), all = in + pixels_of(j.p.out);
    int threads = s->threads;
    j.x = x_copy, j.dy = dy_copy;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < all; i++)
            if (i < in) copy_x(s, x, i, x_copy);
            else copy_dy(s, dy, i - in, dy_copy);
#pragma omp for schedule(static)
        for (int t = 0; t < threads; t++) {
            int64_t from, to;
            ot_part(blocks, t, threads, &from, &to);
            for (int64_t b = from; b < to; b++)
                block(s, &j, b * BLOCK, j.M - b * BLOCK < BLOCK ? j.M - b * BLOCK : BLOCK, sums + t * sums_of(s), dw,
                      db);
        }
    }
}

const ot_dw_kernel ot_dw_pixels = { .name = "pixels", .pays = ot_rows_pixels_pay, .prepare = prepare, .run = run };
