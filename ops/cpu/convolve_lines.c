/* convolve_lines.c - dw of convolutions with few weights, or few channels of x or y: for each line of y and each element of the window a
 * product, which sums over the pixels of the line (row_tiles.inc).
 *
 * Threads   lines. Each sums its part of dw, added in order: the same bits for a number of threads
 * Memory    a part of dw for each thread */
#include "ops/cpu/convolve_weights.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cpu/row_tiles.h"
#include "ops/kernels/box.h"

typedef struct dw_state {
    const ot_rows_tiles *tiles;
    ot_lines_job job; /* without addresses */
    int64_t lines, taps;
    int x_arg, w_arg, b_arg, y_arg, threads;
    size_t sums; /* in the workspace: of each thread, of dw and then of db */
} dw_state;

/* Vectors of 16 channels are filled, or nearly so. */
static bool is_wide(const ot_value *v) { return v->layout == OT_CHANNELS_LAST && v->shape.dim[1] >= 16; }

/* oneDNN fills up channels to 16, and its gradient of few of them takes 10 ms for 10 million operations.  With sums that stay in the L2
 * cache of a core it is as fast at best: of 64 to 64 channels, 1x1 in 56x56, it reached 60 GFLOP/s beside 87 here, along one axis 49
 * beside 97; of larger ones it is faster. */
static bool pays(const ot_conv_call *c)
{
    enum { FEW = 16, FEW_PIXELS = 8, SUMS = 32 << 10, MOST = 256 << 10 /* of each thread */ };
    const ot_window *w = &c->attrs->window;
    int64_t C = c->x->shape.dim[1], M = c->y->shape.dim[1], taps = 1;
    if (c->kind != OT_CONV_DW || w->nd > 2 || c->attrs->group != 1 || c->w->layout != OT_PLAIN) return false;
    if (!is_wide(c->x) && !is_wide(c->y)) return false;
    for (int j = 0; j < w->nd; j++) taps *= w->kernel[j];
    return c->y->shape.dim[1 + w->nd] >= FEW_PIXELS && M * C * taps <= (M < FEW ? MOST : SUMS);
}

static const ot_lines_of *wide_of(const dw_state *s) { return s->job.x_wide ? &s->job.x : &s->job.dy; }
static const ot_lines_of *narrow_of(const dw_state *s) { return s->job.x_wide ? &s->job.dy : &s->job.x; }
static int64_t width_of(const dw_state *s) { return ot_floats_up(wide_of(s)->channels); }
static int64_t weights_of(const dw_state *s) { return s->taps * narrow_of(s)->channels * width_of(s); }
static int64_t sums_of(const dw_state *s) { return ot_floats_up(weights_of(s) + s->job.dy.channels); }

static ot_lines_of lines_of(const ot_value *v, const int64_t size[2])
{
    int64_t channels = v->shape.dim[1], pixels = size[0] * size[1];
    bool last = v->layout == OT_CHANNELS_LAST;
    return (ot_lines_of){ .channels = channels,
                          .channel = last ? 1 : pixels,
                          .pixel = last ? channels : 1,
                          .line = size[1] * (last ? channels : 1),
                          .sample = pixels * channels };
}

/* Lines of one row each; of a 1x1 convolution a whole picture, if there are enough of them. */
static void cut(dw_state *s, int64_t N, int threads)
{
    ot_lines_job *j = &s->job;
    bool same = s->taps == 1; /* each pixel of y reads that of x at its place */
    for (int i = 0; i < 2; i++) same = same && !j->p.pad[i] && j->p.stride[i] == 1 && j->p.in[i] == j->p.out[i];
    if (same && N >= threads) {
        j->p.in[1] = j->p.out[1] = j->p.out[0] * j->p.out[1];
        j->p.in[0] = j->p.out[0] = 1;
    }
    s->lines = N * j->p.out[0];
    s->threads = s->lines < threads ? (int)s->lines : threads;
}

static ot_status prepare(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, void **state)
{
    dw_state *s = calloc(1, sizeof *s);
    *state = s;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    ot_lines_job *j = &s->job;
    s->tiles = ot_rows_tiles_of(set);
    s->x_arg = c->x_arg, s->w_arg = c->w_arg, s->b_arg = c->b_arg, s->y_arg = c->y_arg;
    ot_conv_plane_of(c->attrs, &c->x->shape, &c->y->shape, &j->p);
    s->taps = j->p.kernel[0] * j->p.kernel[1];
    j->x = lines_of(c->x, j->p.in), j->dy = lines_of(c->y, j->p.out);
    j->x_wide = is_wide(c->x) && (!is_wide(c->y) || j->x.channels >= j->dy.channels);
    cut(s, c->x->shape.dim[0], p->threads);
    s->sums = ot_work_floats(&p->work, s->threads * sums_of(s));
    return OT_OK;
}

/* Channel m of dw, and of db. */
static void add_up(const dw_state *s, const float *sums, int64_t m, float *dw, float *db)
{
    const ot_lines_job *j = &s->job;
    int64_t C = j->x.channels, wide = wide_of(s)->channels, whole = wide / 16 * 16, width = width_of(s);
    for (int64_t t = 0; t < s->taps; t++)
        for (int64_t c = 0; c < C; c++) {
            int64_t row = j->x_wide ? m : c, column = j->x_wide ? c : m;
            const float *from = sums + (t * narrow_of(s)->channels + row) * width +
                                (column < whole ? column : whole + 16 - wide + column);
            float sum = 0;
            for (int i = 0; i < s->threads; i++) sum += from[i * sums_of(s)];
            dw[(m * C + c) * s->taps + t] = sum;
        }
    if (!db) return;
    db[m] = 0;
    for (int i = 0; i < s->threads; i++) db[m] += sums[i * sums_of(s) + weights_of(s) + m];
}

static void run(const void *state, const ot_call *c)
{
    const dw_state *s = state;
    ot_lines_job j = s->job;
    j.x.p = ot_arg_address(c, s->x_arg), j.dy.p = ot_arg_address(c, s->y_arg);
    float *dw = ot_arg_address(c, s->w_arg), *db = ot_arg_address(c, s->b_arg);
    float *sums = (float *)(void *)((char *)c->work + s->sums);
    int threads = s->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int t = 0; t < threads; t++) {
            int64_t from, to;
            float *own = sums + t * sums_of(s);
            ot_part(s->lines, t, threads, &from, &to);
            memset(own, 0, (size_t)sums_of(s) * sizeof *own);
            s->tiles->line_weights(&j, from, to, own, db ? own + weights_of(s) : NULL);
        }
#pragma omp for schedule(static)
        for (int64_t m = 0; m < j.dy.channels; m++) add_up(s, sums, m, dw, db);
    }
}

const ot_dw_kernel ot_dw_lines = { .name = "lines", .pays = pays, .prepare = prepare, .run = run };
