/* convolve_rows.c - 1x1, strided and depthwise convolutions: parts, threads and weights (row_tiles.h).
 *
 * Threads   pixels, or rows. Each computes a block of them, and then the Map that follows, while the block is in the cache
 * Memory    weights are packed: once where they do not change while the plan lives, else in every run.  Pixels of x whose rows in a
 *           product would share sets of the L1 cache are copied block by block
 * Products  of a block's pixels add some channels after the other, so that many pixels of them stay in the L2 cache: each block reads
 *           all weights */
#include "ops/cpu/convolve_rows.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/cpu/row_tiles.h"
#include "ops/cpu/vector.h"
#include "ops/cpu/winograd.h"
#include "ops/cpu/winograd_tiles.h"
#include "ops/kernels/box.h"

typedef enum form { PRODUCT, WINDOWS, PIXELS, DEPTHWISE } form;

struct ot_row_conv {
    const ot_rows_tiles *tiles;
    ot_rows_job job; /* without addresses */
    form form;
    int x_arg, w_arg, b_arg, y_arg;
    int64_t step_m, step_c; /* floats of w to the next output channel, to the next input channel; unused by depthwise */
    int threads;
    int64_t units; /* parts of y: pixels (PRODUCT), samples (PIXELS), else rows */
    int64_t block; /* units computed before the Map that follows */
    int64_t width; /* floats of y in a unit */
    int64_t some;  /* channels of x that are added before the next ones */
    bool mapped;   /* a Map follows: a block of y stays in the L2 cache, too */
    float *packed; /* NULL: packed in every run, in the workspace */
    int64_t
        copied; /* pixels of x that a block reads and that are copied first (ot_floats_share_sets); 0: read in place */
    size_t weights, buffers; /* where they are in the workspace; depthwise: zeros */
};

/* Bytes of a block's part of x and y, which stays in the L2 cache, and what it has at least. */
enum { BLOCK_BYTES = 128 << 10, FEW_PIXELS = 24, FEW_OF_WINDOWS = 96, FEW_SAMPLES = 12 };

/* Of samples: every block reads all weights. */
enum { SAMPLES_BYTES = 512 << 10, SOME_SAMPLES = 48 };

/* Channels last; with one channel or one pixel both layouts are the same. */
static bool is_last(const ot_value *v)
{
    return v->layout == OT_CHANNELS_LAST || v->shape.dim[1] == 1 ||
           ot_numel(&v->shape) == v->shape.dim[0] * v->shape.dim[1];
}

bool ot_conv_is_product(const ot_conv_call *c)
{
    const ot_window *w = &c->attrs->window;
    for (int j = 0; j < w->nd; j++)
        if (w->kernel[j] != 1 || w->stride[j] != 1 || w->pad_lo[j] || c->y->shape.dim[2 + j] != c->x->shape.dim[2 + j])
            return false;
    return c->attrs->group == 1 && is_last(c->x) && is_last(c->y);
}

static bool is_depthwise(const ot_conv_call *c)
{
    return c->attrs->window.nd <= 2 && c->attrs->group == c->x->shape.dim[1] && c->attrs->group == c->y->shape.dim[1];
}

bool ot_rows_can(const ot_conv_call *c)
{
    return c->kind == OT_CONV_FORWARD && is_last(c->x) && is_last(c->y) && c->w->layout == OT_PLAIN &&
           (ot_conv_is_product(c) || is_depthwise(c) || ot_rows_windows_pay(c) || ot_rows_pixels_pay(c));
}

/* Winograd's algorithm has 36 products for each tile of 4x4 pixels, or of 2x2 with windows of 5x5 (winograd.c): more than twice as
 * many as there are pixels in the windows of a 2x2 picture. */
bool ot_rows_pixels_pay(const ot_conv_call *c)
{
    enum { FEWEST = 64 };
    const ot_window *w = &c->attrs->window;
    int64_t all = 1, in = 1, tiles = 1;
    if (c->kind == OT_CONV_DX || w->nd > 2 || c->attrs->group != 1 || c->w->layout != OT_PLAIN) return false;
    if (c->kind == OT_CONV_FORWARD && (!is_last(c->x) || !is_last(c->y))) return false;
    if (c->x->shape.dim[1] < FEWEST || c->y->shape.dim[1] < FEWEST || c->x->shape.dim[0] < FEW_SAMPLES) return false;
    for (int j = 0; j < w->nd; j++) {
        int64_t y = c->y->shape.dim[2 + j], side = ot_winograd_side(w->kernel[j] > 3 ? 5 : 3);
        if (w->stride[j] != 1) return false;
        all *= w->kernel[j] * y;
        in *= ot_conv_inside(c, j);
        tiles *= (y + side - 1) / side;
    }
    return 2 * in <= all && 2 * in <= OT_WINOGRAD_POINTS * tiles;
}

/* oneDNN's kernels for AVX2 reach half of the machine's products where a window moves by several pixels (3x3 by 2: 50 to 80 of 130
 * GFLOP/s; these 110 to 130).  With AVX-512 this was not measured. */
bool ot_rows_windows_pay(const ot_conv_call *c)
{
    enum { FEWEST = 64 };
    const ot_window *w = &c->attrs->window;
    if (c->kind != OT_CONV_FORWARD || w->nd > 2 || c->attrs->group != 1 || ot_instruction_set() != OT_CPU_AVX2)
        return false;
    for (int j = 0; j < w->nd; j++)
        if (w->stride[j] < 2 || w->kernel[j] < 2) return false;
    return c->x->shape.dim[1] >= FEWEST && c->y->shape.dim[1] >= FEWEST;
}

/* ---- weights -------------------------------------------------------------------------- */

static int64_t taps_of(const ot_row_conv *s)
{
    return s->form == PRODUCT ? 1 : s->job.p.kernel[0] * s->job.p.kernel[1];
}

static int64_t packed_floats(const ot_row_conv *s)
{
    const ot_rows_job *j = &s->job;
    return s->form == DEPTHWISE ? taps_of(s) * j->C : taps_of(s) * j->C * ot_floats_up(j->M);
}

enum { PIECE = 64, MOST_COLUMNS = 64 };

/* Rows i to i + n of a panel, counted by channels, then by elements of the window, as w has them; column k of them goes to
 * to[k] on. */
static void gather(const ot_row_conv *s, const float *w, int64_t i, int64_t n, float *to)
{
    int64_t taps = taps_of(s), r = i / taps, t = i % taps;
    for (int64_t q = 0; q < n; q++, to += MOST_COLUMNS) {
        *to = w[r * s->step_c + t];
        if (++t == taps) t = 0, r++;
    }
}

/* Channels c to c_end of all panels.  A piece is turned in a buffer: rows of a panel are whole lines of the caches, and a multiple of
 * a page apart. */
static void pack_product(const ot_row_conv *s, const float *w, int64_t c, int64_t c_end, float *to)
{
    const ot_rows_job *j = &s->job;
    int64_t taps = taps_of(s);
    float piece[PIECE * MOST_COLUMNS];
    for (int64_t m = 0; m < j->M; m += s->tiles->columns) {
        int64_t left = j->M - m, columns = left < s->tiles->columns ? left : s->tiles->columns,
                width = ot_floats_up(columns);
        float *panel = to + m * taps * j->C;
        memset(piece, 0, sizeof piece);
        for (int64_t i = c * taps; i < c_end * taps; i += PIECE) {
            int64_t n = c_end * taps - i < PIECE ? c_end * taps - i : PIECE;
            for (int64_t k = 0; k < columns; k++) gather(s, w + (m + k) * s->step_m, i, n, piece + k);
            for (int64_t q = 0; q < n; q++) {
                int64_t row = (i + q) % taps * j->C + (i + q) / taps;
                memcpy(panel + row * width, piece + q * MOST_COLUMNS, (size_t)width * sizeof *piece);
            }
        }
    }
}

/* The same of a window of one element whose output channels are in order: rows of memory are read piece by piece, and those that are
 * written stay in the L1 cache. */
static void pack_plain(const ot_row_conv *s, const float *w, int64_t c, int64_t c_end, float *to)
{
    const ot_rows_job *j = &s->job;
    int64_t wide = s->tiles->columns, together = 4 * wide;
    for (int64_t m = 0; m < j->M; m += together)
        for (int64_t i = c; i < c_end; i++)
            for (int64_t p = m; p < j->M && p < m + together; p += wide) {
                int64_t columns = j->M - p < wide ? j->M - p : wide, width = ot_floats_up(columns);
                float *row = to + p * j->C + i * width;
                memcpy(row, w + i * s->step_c + p, (size_t)columns * sizeof *row);
                if (columns < width) memset(row + columns, 0, (size_t)(width - columns) * sizeof *row);
            }
}

static void pack_depthwise(const ot_row_conv *s, const float *w, int64_t c, int64_t c_end, float *to)
{
    const ot_rows_job *j = &s->job;
    int64_t taps = j->p.kernel[0] * j->p.kernel[1];
    for (int64_t t = 0; t < taps; t++)
        for (int64_t i = c; i < c_end; i++) to[t * j->C + i] = w[i * taps + t];
}

static void pack(const ot_row_conv *s, const float *w, float *to)
{
    int threads = packed_floats(s) < 1 << 14 ? 1 : s->threads;
    bool is_plain = s->form == PRODUCT && s->step_m == 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        int64_t from, end;
        ot_part(s->job.C, t, threads, &from, &end);
        (s->form == DEPTHWISE ? pack_depthwise : is_plain ? pack_plain : pack_product)(s, w, from, end, to);
    }
}

/* ---- plan ------------------------------------------------------------------------------ */

static int64_t clamp(int64_t n, int64_t low, int64_t high) { return n < low ? low : n > high ? high : n; }

/* Half of the L2 cache of a core, for a block of a product.  Rows of 768 and 3072 columns: 34 of them reached 179, 65 of them 221 of some 280
 * GFLOP/s, with two cores of 2 MiB each. */
static int64_t l2_share(void)
{
    enum { MOST = 1 << 20 };
    long size = -1;
#ifdef _SC_LEVEL2_CACHE_SIZE
    size = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return clamp(size / 2, BLOCK_BYTES, MOST);
}

/* Units of windows and of depthwise convolutions are rows of y. */
static void divide(ot_row_conv *s, int threads)
{
    ot_rows_job *j = &s->job;
    if (s->form == PIXELS) {
        int64_t each = (int64_t)sizeof(float) * (j->p.in[0] * j->p.in[1] * j->C + s->width);
        s->threads = (int)clamp(s->units / FEW_SAMPLES, 1, threads);
        s->block = clamp(SAMPLES_BYTES / each, SOME_SAMPLES, s->units);
        return;
    }
    int64_t Q = j->p.out[1], reads = Q * j->p.stride[0] * j->p.stride[1] * j->C,
            each = (int64_t)sizeof(float) * (s->form == DEPTHWISE ? 2 * s->width
                                             : s->form == WINDOWS ? reads + s->width
                                                                  : s->some + (s->mapped ? j->M : 0)),
            few = s->form == DEPTHWISE ? 1
                  : s->form == WINDOWS ? (FEW_OF_WINDOWS + Q - 1) / Q
                                       : FEW_PIXELS;
    s->threads = (int)clamp(s->units / few, 1, threads);
    int64_t bytes = s->form == PRODUCT ? l2_share() : BLOCK_BYTES;
    s->block = clamp(bytes / (each + 1), few, (s->units + s->threads - 1) / s->threads);
}

/* Floats of the last columns of a block of y, which are computed beside it. */
static int64_t last_columns(const ot_row_conv *s)
{
    const ot_rows_job *j = &s->job;
    int64_t each = s->form == WINDOWS ? j->p.out[1] : s->form == PIXELS ? j->p.out[0] * j->p.out[1] : 1;
    return s->form == DEPTHWISE ? 0 : 16 * s->block * each;
}

/* Floats of a thread's work: they, and the copied pixels. */
static int64_t buffer_of(const ot_row_conv *s) { return last_columns(s) + s->copied * ot_floats_apart(s->some); }

/* Lines of x, counted through all samples, that a row of y reads. */
static void lines_of(const ot_rows_job *j, int64_t row, int64_t *from, int64_t *to)
{
    int64_t sample = row / j->p.out[0] * j->p.in[0], first = row % j->p.out[0] * j->p.stride[0] - j->p.pad[0],
            past = first + (j->p.kernel[0] - 1) * j->p.dilation[0] + 1;
    *from = sample + clamp(first, 0, j->p.in[0]);
    *to = sample + clamp(past, 0, j->p.in[0]);
}

/* Pixels of x from the first to the last that a block of units reads. */
static void pixels_of(const ot_row_conv *s, int64_t from, int64_t to, int64_t *pixel, int64_t *pixel_end)
{
    const ot_rows_job *j = &s->job;
    int64_t unit = s->form == PRODUCT ? 1 : s->form == PIXELS ? j->p.in[0] * j->p.in[1] : j->p.in[1], ignored;
    *pixel = from, *pixel_end = to;
    if (s->form == WINDOWS) {
        lines_of(j, from, pixel, &ignored);
        lines_of(j, to - 1, &ignored, pixel_end);
    }
    *pixel *= unit, *pixel_end *= unit;
}

/* The block of a thread's units from `from` on. */
static int64_t end_of(const ot_row_conv *s, int64_t from, int64_t end)
{
    return end - from < s->block ? end : from + s->block;
}

/* Copies pay where columns of y are many for the rows of x that are copied. */
static void plan_copies(ot_row_conv *s)
{
    enum { FEWEST = 64 };
    const ot_rows_job *j = &s->job;
    int64_t step = s->form == PRODUCT   ? j->step
                   : s->form == WINDOWS ? j->step * j->p.stride[1]
                                        : j->step * j->p.in[0] * j->p.in[1];
    if (s->form == DEPTHWISE || j->M < FEWEST || !ot_floats_share_sets(step)) return;
    for (int t = 0; t < s->threads; t++) {
        int64_t from, end, pixel, pixel_end;
        for (ot_part(s->units, t, s->threads, &from, &end); from < end; from += s->block) {
            pixels_of(s, from, end_of(s, from, end), &pixel, &pixel_end);
            if (s->copied < pixel_end - pixel) s->copied = pixel_end - pixel;
        }
    }
}

static void plan(ot_row_conv *s, int threads)
{
    enum { SOME = 1024 };
    s->job.step = s->job.C;
    s->some = s->form == PRODUCT && s->job.C > SOME ? SOME : s->job.C;
    divide(s, threads);

    plan_copies(s);
}

static ot_status pack_once(ot_row_conv *s, const float *w, ot_prep *p)
{
    size_t bytes = ((size_t)packed_floats(s) * sizeof(float) + 63) / 64 * 64;
    s->packed = aligned_alloc(64, bytes);
    if (!s->packed) return ot_fail(p->err, OT_E_NOMEM, "no memory to pack weights");
    pack(s, w, s->packed);
    p->held += bytes;
    return OT_OK;
}

ot_status ot_rows_new(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, ot_row_conv **out)
{
    ot_row_conv *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    s->tiles = ot_rows_tiles_of(set);
    s->x_arg = c->x_arg, s->w_arg = c->w_arg, s->b_arg = c->b_arg, s->y_arg = c->y_arg;
    s->form = ot_conv_is_product(c) ? PRODUCT : ot_rows_pixels_pay(c) ? PIXELS : is_depthwise(c) ? DEPTHWISE : WINDOWS;
    s->job.C = s->step_m = c->x->shape.dim[1], s->job.M = c->y->shape.dim[1];
    s->step_c = 1;
    s->mapped = c->mapped;
    ot_conv_plane_of(c->attrs, &c->x->shape, &c->y->shape, &s->job.p);
    if (s->form == WINDOWS || s->form == PIXELS) s->step_c = taps_of(s), s->step_m = s->step_c * s->job.C;
    int64_t N = c->y->shape.dim[0], rows = s->form == PIXELS ? 1 : s->job.p.out[0];
    s->units = s->form == PRODUCT ? ot_numel(&c->y->shape) / s->job.M : N * rows;
    s->width = s->form == PRODUCT ? s->job.M : s->job.p.out[0] / rows * s->job.p.out[1] * s->job.M;
    plan(s, p->threads);
    const float *w = p->settled ? ot_settled_bytes(n->graph, c->w) : NULL;
    if (w) OT_TRY(pack_once(s, w, p));
    s->weights = ot_work_floats(&p->work, w ? 0 : packed_floats(s));
    s->buffers = ot_work_floats(&p->work, s->form == DEPTHWISE ? s->job.C : s->threads * buffer_of(s));
    return OT_OK;
}

ot_status ot_rows_product(const ot_node *n, const ot_rows_dot *d, int set, ot_prep *p, ot_row_conv **out)
{
    ot_row_conv *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    s->tiles = ot_rows_tiles_of(set);
    s->x_arg = d->x_arg, s->b_arg = d->bias_arg, s->y_arg = d->y_arg;
    s->w_arg = d->b_arg;
    s->job.C = d->K, s->job.M = s->width = d->N;
    s->mapped = d->mapped;
    s->step_m = d->turned ? d->K : 1;
    s->step_c = d->turned ? 1 : d->N;
    s->units = d->rows;
    plan(s, p->threads);
    if (d->b) OT_TRY(pack_once(s, d->b, p));
    s->weights = ot_work_floats(&p->work, d->b ? 0 : packed_floats(s));
    s->buffers = ot_work_floats(&p->work, s->threads * buffer_of(s));
    return OT_OK;
}

void ot_rows_free(ot_row_conv *s)
{
    if (s) free(s->packed);
    free(s);
}

/* ---- running --------------------------------------------------------------------------- */

/* The job of a block, of some of its channels from c on.  to: where pixels of x are copied. */
static ot_rows_job job_of(const ot_row_conv *s, const ot_rows_job *j, int64_t c, int64_t from, int64_t end, float *to)
{
    ot_rows_job own = *j;
    int64_t pixel, pixel_end;
    own.c = c;
    own.c_end = j->C - c < s->some ? j->C : c + s->some;
    own.x += c;
    if (!s->copied) return own;
    own.step = ot_floats_apart(s->some);
    pixels_of(s, from, end, &pixel, &pixel_end);
    for (int64_t i = 0; i < pixel_end - pixel; i++)
        memcpy(to + i * own.step, j->x + (pixel + i) * j->C + c, (size_t)(own.c_end - c) * sizeof *to);
    own.x = to;
    own.first = pixel;
    return own;
}

static void blocks(const ot_row_conv *s, const ot_rows_job *j, const ot_call *map, int thread, float *work)
{
    int64_t from, end;
    ot_part(s->units, thread, s->threads, &from, &end);
    for (; from < end; from += s->block) {
        int64_t to = end_of(s, from, end);
        if (s->form == DEPTHWISE) s->tiles->depthwise(j, from, to);
        for (int64_t c = 0; c < j->C && s->form != DEPTHWISE; c += s->some) {
            ot_rows_job own = job_of(s, j, c, from, to, work + last_columns(s));
            (s->form == WINDOWS  ? s->tiles->windows
             : s->form == PIXELS ? s->tiles->pixels
                                 : s->tiles->product)(&own, from, to, work);
        }
        if (map) cpu_map_range(map, thread, from * s->width, to * s->width);
    }
}

ot_status ot_rows_run(const ot_row_conv *s, const ot_call *c, const ot_call *map)
{
    ot_rows_job j = s->job;
    float *weights = (float *)(void *)((char *)c->work + s->weights),
          *work = (float *)(void *)((char *)c->work + s->buffers);
    int threads = s->threads;
    j.x = ot_arg_address(c, s->x_arg);
    j.y = ot_arg_address(c, s->y_arg);
    j.bias = ot_arg_address(c, s->b_arg);
    if (!s->packed) pack(s, ot_arg_address(c, s->w_arg), weights);
    j.packed = s->packed ? s->packed : weights;
    j.zeros = work;
    if (s->form == DEPTHWISE) memset(work, 0, (size_t)j.C * sizeof *work);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int t = 0; t < threads; t++) blocks(s, &j, map, t, work + t * buffer_of(s));
    return OT_OK;
}
