/* winograd.c - Winograd convolution F(4x4, 3x3) and F(2x2, 5x5) and their gradients: parts, threads and workspace.
 *
 * w is transformed once per run; then every thread transforms x, multiplies and transforms back, block by block of
 * tiles.  The gradient of x is a convolution too, or the transposed algorithm, if that has fewer tiles.  The gradient of w transforms x and dy and adds products to
 * transformed weights, which are transformed back at the end.
 *
 * Memory    transformed weights, four times w or one and a half, and one block per thread
 * Threads   tiles; if there are few, or a set of transformed weights of each thread would be large, columns of w: x is
 *           then transformed by several threads.  The same bits with the same number of threads */
#include "ops/cpu/winograd.h"

#include <stdlib.h>

#include "ops/cpu/winograd_tiles.h"
#include "ops/kernels/box.h"

struct ot_winograd {
    const ot_winograd_tiles *tiles;
    ot_winograd_job job; /* without addresses */
    ot_conv_kind kind;
    int x_arg, w_arg, b_arg, y_arg;
    int threads;
    int64_t parts, m_parts; /* of tiles, of columns */
    int64_t band; /* whole rows of tiles that are computed together, and then the Map that follows; 0: no rows */
    int64_t work; /* floats per part */
    size_t u, db, blocks; /* where they are in the workspace */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int window_of(const ot_conv_call *c) { return (int)c->attrs->window.kernel[0]; }

static int64_t tiles_along(int64_t pixels, int window)
{
    int side = ot_winograd_side(window);
    return (pixels + side - 1) / side;
}

static int64_t tiles_of(const ot_value *v, int window)
{
    return tiles_along(v->shape.dim[2], window) * tiles_along(v->shape.dim[3], window);
}

/* dx by the transposed algorithm: without padding y is smaller than x. */
static bool spreads(const ot_conv_call *c)
{
    return c->kind == OT_CONV_DX && tiles_of(c->y, window_of(c)) < tiles_of(c->x, window_of(c));
}

int64_t ot_conv_inside(const ot_conv_call *c, int axis)
{
    const ot_window *w = &c->attrs->window;
    int64_t x = c->x->shape.dim[2 + axis], y = c->y->shape.dim[2 + axis], sum = 0;
    for (int64_t k = 0; k < w->kernel[axis]; k++) {
        int64_t left = w->pad_lo[axis] - k * w->dilation[axis], from = left > 0 ? left : 0, to = least(y, x + left);
        sum += to > from ? to - from : 0;
    }
    return sum;
}

/* A model of both times, in products of a pair of channels, by measurements of pictures of 2x2 to 56x56 pixels.  Here,
 * the transform of w is worth as much as WEIGHT tiles.  oneDNN's direct convolution needs rows of NARROW pixels to be
 * efficient, and its gradient of x is faster and leaves padding out. */
static bool faster(const ot_conv_call *c)
{
    enum { WEIGHT = 32, NARROW = 6 };
    const ot_value *x = c->x, *y = c->y;
    int W = window_of(c);
    int64_t N = x->shape.dim[0], tiles = N * tiles_of(c->kind == OT_CONV_DX && !spreads(c) ? x : y, W);
    int64_t winograd = OT_WINOGRAD_POINTS * (tiles + WEIGHT), wide = y->shape.dim[3];
    if (c->kind == OT_CONV_DX) return 4 * N * ot_conv_inside(c, 0) * ot_conv_inside(c, 1) >= 5 * winograd;
    return 2 * W * W * N * y->shape.dim[2] * (wide < NARROW ? NARROW : wide) >= 3 * winograd;
}

bool ot_winograd_pays(const ot_conv_call *c)
{
    enum { LEAST_CHANNELS = 16 };
    const ot_window *w = &c->attrs->window;
    const ot_value *x = c->x, *y = c->y;
    if (w->nd != 2 || c->attrs->group != 1 || x->shape.dim[1] < LEAST_CHANNELS || y->shape.dim[1] < LEAST_CHANNELS)
        return false;
    if (x->layout != OT_CHANNELS_LAST || y->layout != OT_CHANNELS_LAST || c->w->layout != OT_PLAIN) return false;
    for (int j = 0; j < 2; j++)
        if (w->kernel[j] != w->kernel[0] || (w->kernel[j] != 3 && w->kernel[j] != 5) || w->stride[j] != 1 ||
            w->dilation[j] != 1)
            return false;
    return faster(c);
}

static ot_winograd_picture picture(const ot_value *v)
{
    return (ot_winograd_picture){ .high = v->shape.dim[2], .wide = v->shape.dim[3], .C = v->shape.dim[1] };
}

static void describe(const ot_conv_call *c, ot_winograd_job *j)
{
    const ot_window *w = &c->attrs->window;
    bool dx = c->kind == OT_CONV_DX, spread = spreads(c), turned = dx && !spread;
    int W = window_of(c);
    int64_t C = c->x->shape.dim[1];
    *j = (ot_winograd_job){ .window = W,
                            .N = c->x->shape.dim[0],
                            .x = picture(dx ? c->y : c->x),
                            .y = picture(dx ? c->x : c->y),
                            .top = turned ? W - 1 - w->pad_lo[0] : w->pad_lo[0],
                            .left = turned ? W - 1 - w->pad_lo[1] : w->pad_lo[1],
                            .step_c = dx ? W * W * C : W * W,
                            .step_m = dx ? W * W : W * W * C,
                            .turned = turned,
                            .spread = spread,
                            .sets = 1 };
    j->down = tiles_along((spread ? j->x : j->y).high, W);
    j->across = tiles_along((spread ? j->x : j->y).wide, W);
}

static int64_t column_groups(const ot_winograd_job *j)
{
    return (j->y.C + OT_WINOGRAD_COLUMNS - 1) / OT_WINOGRAD_COLUMNS;
}

/* Large transformed weights, in bytes: for dw, where each part of the tiles has its own; else they are read by all. */
enum { LARGE_SET = 4 << 20, LARGE_SHARED = 16 << 20, FEW_TILES = 16 };

/* Tiles of a block.  Every block reads all of u, and its own transformed x and y should stay in the L2 cache: that is
 * possible with few channels; with many, products are long, and u is read from outside of that cache. */
static int64_t block_of(ot_conv_kind kind, int64_t C)
{
    int64_t most = kind == OT_CONV_DW ? 48 : C / 2;
    return most < 36 ? 36 : least(most, 132);
}

static bool small(const ot_winograd_job *j)
{
    return j->N * j->down * j->across * OT_WINOGRAD_POINTS * j->x.C * j->y.C < 1 << 21;
}

/* Whole rows of tiles whose number is near `most` and a multiple of the products' 6 rows, or a little more than one. */
static int64_t band_of(int64_t most, int64_t across, int64_t rows)
{
    int64_t best = 1;
    double best_filled = 0;
    for (int64_t b = 1; b <= rows && (b == 1 || 3 * b * across <= 4 * most); b++) {
        int64_t tiles = b * across;
        double filled = (double)tiles / (double)((tiles + 5) / 6 * 6);
        if (filled >= best_filled) best = b, best_filled = filled;
    }
    return best;
}

static void divide(ot_winograd *s, bool mapped)
{
    ot_winograd_job *j = &s->job;
    int64_t tiles = j->N * j->down * j->across,
            bytes = OT_WINOGRAD_POINTS * ot_winograd_u_step(j) * (int64_t)sizeof(float);
    bool dw = s->kind == OT_CONV_DW,
         by_columns = bytes > (dw ? LARGE_SET : LARGE_SHARED) || (!dw && tiles / s->threads < FEW_TILES);
    s->m_parts = by_columns ? least(column_groups(j), s->threads) : 1;
    s->parts = least(s->threads / s->m_parts, j->spread ? j->N : tiles);
    if (dw) j->sets = s->parts;
    int64_t each = (tiles + s->parts - 1) / s->parts, most = block_of(s->kind, j->x.C),
            blocks = (each + most - 1) / most;
    j->block = (each + blocks - 1) / blocks;
    if (!mapped || s->m_parts > 1 || j->spread) return;
    s->band = band_of(most, j->across, (j->N * j->down + s->threads - 1) / s->threads);
    j->block = s->band > 1 ? s->band * j->across : least(most, j->across);
}

ot_status ot_winograd_new(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, ot_winograd **out)
{
    static const ot_winograd_tiles *const sets[] = { &ot_winograd_tiles_base, &ot_winograd_tiles_avx2,
                                                     &ot_winograd_tiles_avx512 };
    ot_winograd *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    s->tiles = sets[set];
    s->kind = c->kind;
    s->x_arg = c->x_arg, s->w_arg = c->w_arg, s->b_arg = c->b_arg, s->y_arg = c->y_arg;
    describe(c, &s->job);
    s->threads = small(&s->job) ? 1 : p->threads;
    divide(s, c->mapped);
    ot_winograd_job *j = &s->job;
    int64_t columns = (column_groups(j) + s->m_parts - 1) / s->m_parts * OT_WINOGRAD_COLUMNS;
    s->work = ot_winograd_work(j, least(columns, j->y.C));
    s->u = ot_work_part(&p->work, (size_t)(j->sets * OT_WINOGRAD_POINTS * ot_winograd_u_step(j)) * sizeof(float));
    s->db = ot_work_part(&p->work, c->b_arg == OT_ARG_NONE ? 0 : (size_t)(j->sets * j->y.C) * sizeof(double));
    s->blocks = ot_work_part(&p->work, (size_t)(s->parts * s->m_parts * s->work) * sizeof(float));
    return OT_OK;
}

/* Rows of the transformed weights are divided among threads. */
static void weights(const ot_winograd *s, const ot_winograd_job *j,
                    void (*f)(const ot_winograd_job *j, int64_t c, int64_t c_end))
{
    int threads = s->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int k = 0; k < threads; k++) {
        int64_t from, to;
        ot_part(j->x.C, k, threads, &from, &to);
        f(j, from, to);
    }
}

/* The rows of tiles `from` to `to` of all pictures, and the Map of their pixels. */
static void bands(const ot_winograd *s, const ot_winograd_job *j, int thread, float *work, const ot_call *map)
{
    int64_t from, end;
    ot_part(j->N * j->down, thread, s->parts, &from, &end);
    for (; from < end; from += s->band) {
        int64_t rows[] = { from, least(from + s->band, end) }, at[2];
        ot_winograd_part part = { .from = rows[0] * j->across, .to = rows[1] * j->across, .m_end = j->y.C };
        s->tiles->forward(j, &part, work);
        for (int i = 0; i < 2; i++)
            at[i] =
                (rows[i] / j->down * j->y.high + rows[i] % j->down * ot_winograd_side(j->window)) * j->y.wide * j->y.C;
        cpu_map_range(map, thread, at[0], at[1]);
    }
}

/* Neighbouring tiles of dx overlap: they are one thread's. */
static void tiles_of_part(const ot_winograd_job *j, int64_t k, int64_t parts, ot_winograd_part *at)
{
    int64_t each = j->down * j->across, unit = j->spread ? each : 1;
    ot_part(j->N * each / unit, k, parts, &at->from, &at->to);
    at->from *= unit, at->to *= unit;
}

static void tiles(const ot_winograd *s, const ot_winograd_job *j, float *work, const ot_call *map)
{
    int units = (int)(s->parts * s->m_parts);
#pragma omp parallel for num_threads(units) schedule(static) if (units > 1)
    for (int k = 0; k < units; k++) {
        ot_winograd_part at = { .set = k / s->m_parts };
        if (map && s->band) {
            bands(s, j, k, work + k * s->work, map);
            continue;
        }
        tiles_of_part(j, at.set, s->parts, &at);
        ot_part(column_groups(j), k % s->m_parts, s->m_parts, &at.m, &at.m_end);
        at.m *= OT_WINOGRAD_COLUMNS;
        at.m_end = least(at.m_end * OT_WINOGRAD_COLUMNS, j->y.C);
        (s->kind == OT_CONV_DW ? s->tiles->gradient : s->tiles->forward)(j, &at, work + k * s->work);
    }
}

ot_status ot_winograd_run(const ot_winograd *s, const ot_call *c, const ot_call *map)
{
    ot_winograd_job j = s->job;
    char *work = c->work;
    float *bias = ot_arg_address(c, s->b_arg);
    bool dx = s->kind == OT_CONV_DX, dw = s->kind == OT_CONV_DW;
    j.x.p = ot_arg_address(c, dx ? s->y_arg : s->x_arg);
    j.y.p = ot_arg_address(c, dx ? s->x_arg : s->y_arg);
    j.w = ot_arg_address(c, s->w_arg);
    j.u = (float *)(void *)(work + s->u);
    if (dw) j.db = bias ? (double *)(void *)(work + s->db) : NULL;
    else j.bias = bias;
    if (!dw) weights(s, &j, s->tiles->transform);
    tiles(s, &j, (float *)(void *)(work + s->blocks), map);
    if (map && !s->band) cpu_map_all(map);
    if (!dw) return OT_OK;
    weights(s, &j, s->tiles->inverse);
    for (int64_t m = 0; bias && m < j.y.C; m++) {
        double sum = 0;
        for (int64_t set = 0; set < j.sets; set++) sum += j.db[set * j.y.C + m];
        bias[m] = (float)sum;
    }
    return OT_OK;
}
