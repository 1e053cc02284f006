/* pool.c - PoolMax, PoolAvg and their gradients for f32, in either layout.
 *
 * Channels last: the channels of one pixel are the vector; the taps of a window (its elements inside x) are processed
 * four at a time.  Otherwise, and for windows of more than TAPS elements, plane by plane.  Every element of a result is
 * written by one thread, in an order that depends on the shape only. */
#include "ops/kernels/pool.h"

#include <string.h>

#include "ops/cpu/vector.h"
#include "ops/kernel.h"

enum { TAPS = 255 };

typedef struct ot_slide {
    int64_t N, C, in[3], out[3], I, O;
    ot_window w;
    bool include_pad, tiled; /* tiled: the windows cover x, each element once */
    int64_t xc, xp, yc, yp;  /* strides of channels and pixels in x and y; samples are C*I and C*O apart */
} ot_slide;

static bool last(const ot_value *v) { return v->layout == OT_CHANNELS_LAST; }

static void slide_of(const ot_node *n, const ot_value *x, const ot_value *y, ot_slide *s)
{
    const ot_pool *a = n->attrs;
    *s = (ot_slide){ .N = x->shape.dim[0], .C = x->shape.dim[1], .include_pad = a->include_pad != 0, .tiled = true };
    ot_spatial_3d(&x->shape, s->in);
    ot_spatial_3d(&y->shape, s->out);
    ot_window_3d(&a->window, &s->w);
    s->I = s->in[0] * s->in[1] * s->in[2];
    s->O = s->out[0] * s->out[1] * s->out[2];
    for (int j = 0; j < 3; j++)
        s->tiled &= s->w.stride[j] == s->w.kernel[j] && s->w.dilation[j] == 1 && s->w.pad_lo[j] == 0 &&
                    s->out[j] * s->w.stride[j] == s->in[j];
    s->xc = last(x) ? 1 : s->I;
    s->xp = last(x) ? s->C : 1;
    s->yc = last(y) ? 1 : s->O;
    s->yp = last(y) ? s->C : 1;
}

/* Along one axis: the position in x of the window's first element, and the elements inside x. */
typedef struct pool_span {
    int64_t first, from, to;
} pool_span;

OT_ALWAYS pool_span span_of(const ot_slide *s, int j, int64_t q)
{
    int64_t d = s->w.dilation[j], k = s->w.kernel[j];
    pool_span r = { q * s->w.stride[j] - s->w.pad_lo[j], 0, k };
    if (r.first < 0) r.from = (-r.first + d - 1) / d;
    if (r.first + (k - 1) * d >= s->in[j]) r.to = s->in[j] > r.first ? (s->in[j] - r.first + d - 1) / d : 0;
    return r;
}

/* The divisor of an average: the number of elements inside x, or with include_pad up to the end of the padding. */
OT_ALWAYS int64_t counted(const ot_slide *s, int j, pool_span r)
{
    if (!s->include_pad) return r.to > r.from ? r.to - r.from : 0;
    int64_t room = s->in[j] + s->w.pad_hi[j] - r.first, d = s->w.dilation[j];
    int64_t k = room <= 0 ? 0 : (room + d - 1) / d;
    return k < s->w.kernel[j] ? k : s->w.kernel[j];
}

OT_ALWAYS float share(const ot_slide *s, const pool_span r[3])
{
    int64_t n = counted(s, 0, r[0]) * counted(s, 1, r[1]) * counted(s, 2, r[2]);
    return n ? 1.0f / (float)n : 0;
}

/* Runs the statement after it for every element f of the window that is inside x, at pixel i. */
#define FOR_SPANS(s, r, f, i)                                                                      \
    for (int64_t k0 = (r)[0].from; k0 < (r)[0].to; k0++)                                            \
        for (int64_t k1 = (r)[1].from; k1 < (r)[1].to; k1++)                                        \
            for (int64_t k2 = (r)[2].from,                                                          \
                         f = (k0 * (s)->w.kernel[1] + k1) * (s)->w.kernel[2] + k2,                  \
                         i = (((r)[0].first + k0 * (s)->w.dilation[0]) * (s)->in[1] + (r)[1].first + \
                              k1 * (s)->w.dilation[1]) * (s)->in[2] + (r)[2].first + k2 * (s)->w.dilation[2]; \
                 k2 < (r)[2].to; k2++, f++, i += (s)->w.dilation[2])

/* The taps of one window: offsets in floats from the sample's first. */
typedef struct ot_taps {
    int n;
    int32_t f[TAPS];
    int64_t at[TAPS];
} ot_taps;

OT_ALWAYS void taps_of(const ot_slide *s, const pool_span r[3], ot_taps *t)
{
    t->n = 0;
    FOR_SPANS(s, r, f, i)
    {
        t->f[t->n] = (int32_t)f;
        t->at[t->n++] = i * s->C;
    }
}

static bool by_channels(const ot_slide *s)
{
    return s->xc == 1 && s->yc == 1 && s->C > 1 && s->w.kernel[0] * s->w.kernel[1] * s->w.kernel[2] <= TAPS;
}

/* ---- maximum ----------------------------------------------------------------- */

enum { LANES = 8, BLOCK = 1024 };
typedef uint8_t small_marks __attribute__((vector_size(LANES)));

OT_ALWAYS void narrow(uint8_t *restrict to, const int32_t *restrict from, int64_t n)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++) to[c] = (uint8_t)from[c];
}

/* n <= BLOCK channels of one output pixel.  A value replaces the best so far if it is greater, or the first NaN.
 * The last lanes overlap those before: a maximum may be computed twice. */
OT_ALWAYS void max_pixel(const ot_taps *t, const float *x, float *y, uint8_t *where, int64_t n)
{
    int32_t from[BLOCK];
    for (int64_t c0 = 0; c0 < n && n >= LANES; c0 += LANES) {
        int64_t c = c0 + LANES <= n ? c0 : n - LANES;
        ot_f8 best, v;
        ot_i8 f = (ot_i8){ 0 } + t->f[0];
        memcpy(&best, x + t->at[0] + c, sizeof best);
        for (int e = 1; e < t->n; e++) {
            memcpy(&v, x + t->at[e] + c, sizeof v);
            ot_i8 take = ~(v <= best) & (best == best);
            best = (ot_f8)(((ot_i8)v & take) | ((ot_i8)best & ~take));
            f = (((ot_i8){ 0 } + t->f[e]) & take) | (f & ~take);
        }
        memcpy(y + c, &best, sizeof best);
        memcpy(from + c, &f, sizeof f);
    }
    for (int64_t c = 0; c < n && n < LANES; c++) {
        float best = x[t->at[0] + c];
        from[c] = t->f[0];
        for (int e = 1; e < t->n; e++) {
            float v = x[t->at[e] + c];
            if (v > best || (v != v && best == best)) best = v, from[c] = t->f[e];
        }
        y[c] = best;
    }
    narrow(where, from, n);
}

/* One row of output pixels of one sample.  Windows with all their elements have the taps of the one before, moved. */
OT_WIDE static void max_row(const ot_slide *s, const float *x, float *y, uint8_t *where, int64_t q0, int64_t q1)
{
    ot_taps t;
    pool_span r[3] = { span_of(s, 0, q0), span_of(s, 1, q1) };
    bool whole = false;
    const float *at = x;
    for (int64_t q2 = 0; q2 < s->out[2]; q2++, y += s->C, where += s->C) {
        bool before = whole;
        r[2] = span_of(s, 2, q2);
        whole = r[2].from == 0 && r[2].to == s->w.kernel[2];
        at = before && whole ? at + s->w.stride[2] * s->C : x;
        if (at == x) taps_of(s, r, &t);
        for (int64_t c = 0; c < s->C && t.n == 0; c++) y[c] = -INFINITY, where[c] = 255;
        for (int64_t c = 0; c < s->C && t.n > 0; c += BLOCK)
            max_pixel(&t, at + c, y + c, where + c, s->C - c < BLOCK ? s->C - c : BLOCK);
    }
}

static void max_plane(const ot_slide *s, const float *x, float *y, void *where, bool small, int64_t n, int64_t c)
{
    const float *px = x + n * s->C * s->I + c * s->xc;
    int64_t at = n * s->C * s->O + c * s->yc;
    pool_span r[3];
    for (int64_t q0 = 0; q0 < s->out[0]; q0++)
        for (int64_t q1 = 0; q1 < s->out[1]; q1++) {
            r[0] = span_of(s, 0, q0);
            r[1] = span_of(s, 1, q1);
            for (int64_t q2 = 0; q2 < s->out[2]; q2++, at += s->yp) {
                float best = -INFINITY;
                int32_t from = -1;
                r[2] = span_of(s, 2, q2);
                FOR_SPANS(s, r, f, i)
                {
                    float v = px[i * s->xp];
                    if (from < 0 || v > best || (v != v && best == best)) best = v, from = (int32_t)f;
                }
                y[at] = best;
                if (small) ((uint8_t *)where)[at] = (uint8_t)from;
                else ((int32_t *)where)[at] = from;
            }
        }
}

static bool max_can(const ot_node *n, const char **why)
{
    if (!ot_f32_can(n->in[0], why)) return false;
    if (n->n_out > 2 && n->out[2]) return ot_refuse(why, "no flat indices");
    if (!n->out[0] || !n->out[1] || n->out[0]->layout != n->out[1]->layout)
        return ot_refuse(why, "outputs with two layouts");
    return true;
}

static ot_status max_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const float *x = c->in[0];
    float *y = c->out[0];
    ot_slide s;
    bool small = n->out[1]->dtype == OT_U8;
    slide_of(n, n->in[0], n->out[0], &s);
    int threads = s.N * s.C * s.O < 16384 ? 1 : c->threads;
    if (by_channels(&s)) {
        int64_t rows = s.out[0] * s.out[1], row = s.out[2] * s.C;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t p = 0; p < s.N * rows; p++)
            max_row(&s, x + p / rows * s.I * s.C, y + p * row, (uint8_t *)c->out[1] + p * row, p % rows / s.out[1],
                    p % s.out[1]);
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t p = 0; p < s.N * s.C; p++) max_plane(&s, x, y, c->out[1], small, p / s.C, p % s.C);
    return OT_OK;
}

/* dy of n channels at the tap that it belongs to: stored if windows tile x, added otherwise. */
OT_ALWAYS void max_give(const float *restrict dy, const int32_t *restrict from, float *restrict to, int32_t k,
                        bool tiled, int64_t n)
{
    if (tiled) {
        for (int64_t c = 0; c < n; c++) to[c] = from[c] == k ? dy[c] : 0.0f;
    } else {
#pragma omp simd
        for (int64_t c = 0; c < n; c++) to[c] += from[c] == k ? dy[c] : 0.0f;
    }
}

/* n channels of one output pixel, LANES or more, of windows that tile x: each tap gets dy, or 0. */
OT_ALWAYS void max_share(const ot_taps *t, const float *dy, const uint8_t *where, float *dx, int64_t n)
{
    for (int64_t c0 = 0; c0 < n; c0 += LANES) {
        int64_t c = c0 + LANES <= n ? c0 : n - LANES; /* the overlap: written twice with the same value */
        ot_f8 g;
        small_marks f;
        memcpy(&g, dy + c, sizeof g);
        memcpy(&f, where + c, sizeof f);
        ot_i8 from = __builtin_convertvector(f, ot_i8);
        for (int e = 0; e < t->n; e++) {
            ot_i8 to = (ot_i8)g & (from == t->f[e]);
            memcpy(dx + t->at[e] + c, &to, sizeof to);
        }
    }
}

/* The same for a row of pixels. */
OT_WIDE static void max_dx_tiles(const ot_slide *s, const float *dy, const uint8_t *where, float *dx, int64_t q0,
                                 int64_t q1, int64_t n)
{
    ot_taps t;
    pool_span r[3] = { span_of(s, 0, q0), span_of(s, 1, q1), span_of(s, 2, 0) };
    taps_of(s, r, &t);
    for (int64_t q2 = 0; q2 < s->out[2]; q2++, dy += s->C, where += s->C, dx += s->w.stride[2] * s->C)
        max_share(&t, dy, where, dx, n);
}

OT_WIDE static void max_dx_row(const ot_slide *s, const float *dy, const uint8_t *where, float *dx, int64_t q0,
                               int64_t q1, int64_t n)
{
    int32_t from[BLOCK];
    pool_span r[3] = { span_of(s, 0, q0), span_of(s, 1, q1) };
    for (int64_t q2 = 0; q2 < s->out[2]; q2++, dy += s->C, where += s->C) {
        r[2] = span_of(s, 2, q2);
        for (int64_t c0 = 0; c0 < n; c0 += BLOCK) {
            int64_t m = n - c0 < BLOCK ? n - c0 : BLOCK;
#pragma omp simd
            for (int64_t c = 0; c < m; c++) from[c] = where[c0 + c];
            FOR_SPANS(s, r, f, i)
            {
                float *to = dx + i * s->C + c0;
                if (s->tiled) max_give(dy + c0, from, to, (int32_t)f, true, m);
                else max_give(dy + c0, from, to, (int32_t)f, false, m);
            }
        }
    }
}

/* Channels c0 .. c0+m of one sample: threads share neither. */
static void zero(const ot_slide *s, float *dx, int64_t m)
{
    if (m == s->C) memset(dx, 0, (size_t)(s->C * s->I) * sizeof *dx);
    else
        for (int64_t i = 0; i < s->I; i++)
            for (int64_t c = 0; c < m; c++) dx[i * s->xp + c * s->xc] = 0;
}

static void max_dx_plane(const ot_slide *s, const float *dy, const void *where, bool small, float *dx, int64_t n,
                         int64_t c)
{
    float *to = dx + n * s->C * s->I + c * s->xc;
    int64_t at = n * s->C * s->O + c * s->yc, K1 = s->w.kernel[1], K2 = s->w.kernel[2];
    for (int64_t i = 0; i < s->I; i++) to[i * s->xp] = 0;
    for (int64_t q0 = 0; q0 < s->out[0]; q0++)
        for (int64_t q1 = 0; q1 < s->out[1]; q1++)
            for (int64_t q2 = 0; q2 < s->out[2]; q2++, at += s->yp) {
                int64_t f = small ? ((const uint8_t *)where)[at] : ((const int32_t *)where)[at];
                if (f < 0 || (small && f == 255)) continue;
                int64_t i0 = q0 * s->w.stride[0] - s->w.pad_lo[0] + f / (K1 * K2) * s->w.dilation[0];
                int64_t i1 = q1 * s->w.stride[1] - s->w.pad_lo[1] + f / K2 % K1 * s->w.dilation[1];
                int64_t i2 = q2 * s->w.stride[2] - s->w.pad_lo[2] + f % K2 * s->w.dilation[2];
                to[((i0 * s->in[1] + i1) * s->in[2] + i2) * s->xp] += dy[at];
            }
}

static bool f32_can(const ot_node *n, const char **why) { return ot_f32_can(n->in[0], why); }

/* dy is plain if a Flatten follows the pool; it is first converted to `where`'s layout, in workspace. */
static ot_status max_dx_prepare(const ot_node *n, ot_prep *p)
{
    if (n->in[0]->layout != n->in[1]->layout) p->work = ot_bytes(&n->in[0]->shape, OT_F32);
    return OT_OK;
}

/* Converts one sample of C channels and O pixels from one layout to the other. */
static void turn(const float *restrict from, float *restrict to, int64_t C, int64_t O, bool to_last)
{
    for (int64_t o = 0; o < O; o++)
        for (int64_t c = 0; c < C; c++) to[to_last ? o * C + c : c * O + o] = from[to_last ? c * O + o : o * C + c];
}

/* Channels are split if there are too few samples for the threads. */
static int64_t channel_block(const ot_slide *s) { return s->N >= 16 || s->C < 32 ? s->C : 16; }

static ot_status max_dx_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const float *dy = c->in[0];
    float *dx = c->out[0];
    ot_slide s;
    bool small = n->in[1]->dtype == OT_U8;
    slide_of(n, n->out[0], n->in[1], &s);
    int threads = s.N * s.C * s.I < 16384 ? 1 : c->threads;
    if (c->work) {
        float *turned = c->work;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t k = 0; k < s.N; k++) turn(dy + k * s.C * s.O, turned + k * s.C * s.O, s.C, s.O, last(n->in[1]));
        dy = turned;
    }
    if (by_channels(&s)) {
        int64_t m = channel_block(&s), blocks = (s.C + m - 1) / m, row = s.out[2] * s.C;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t b = 0; b < s.N * blocks; b++) {
            int64_t k = b / blocks, c0 = b % blocks * m, w = s.C - c0 < m ? s.C - c0 : m;
            float *to = dx + k * s.C * s.I + c0;
            if (!s.tiled) zero(&s, to, w);
            for (int64_t q = 0; q < s.out[0] * s.out[1]; q++) {
                int64_t at = k * s.C * s.O + q * row + c0;
                (s.tiled && w >= LANES ? max_dx_tiles : max_dx_row)(&s, dy + at, (const uint8_t *)c->in[1] + at, to,
                                                                    q / s.out[1], q % s.out[1], w);
            }
        }
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t p = 0; p < s.N * s.C; p++) max_dx_plane(&s, dy, c->in[1], small, dx, p / s.C, p % s.C);
    return OT_OK;
}

/* ---- average ------------------------------------------------------------------ */

OT_WIDE static void avg_row(const ot_slide *s, const float *restrict x, float *restrict y, int64_t q0, int64_t q1)
{
    pool_span r[3] = { span_of(s, 0, q0), span_of(s, 1, q1) };
    for (int64_t q2 = 0; q2 < s->out[2]; q2++, y += s->C) {
        r[2] = span_of(s, 2, q2);
        float part = share(s, r);
        for (int64_t c = 0; c < s->C; c++) y[c] = 0;
        FOR_SPANS(s, r, f, i)
        {
            const float *v = x + i * s->C;
            (void)f;
#pragma omp simd
            for (int64_t c = 0; c < s->C; c++) y[c] += v[c];
        }
#pragma omp simd
        for (int64_t c = 0; c < s->C; c++) y[c] *= part;
    }
}

static void avg_plane(const ot_slide *s, const float *x, float *y, int64_t n, int64_t c)
{
    const float *px = x + n * s->C * s->I + c * s->xc;
    int64_t at = n * s->C * s->O + c * s->yc;
    pool_span r[3];
    for (int64_t q0 = 0; q0 < s->out[0]; q0++)
        for (int64_t q1 = 0; q1 < s->out[1]; q1++) {
            r[0] = span_of(s, 0, q0);
            r[1] = span_of(s, 1, q1);
            for (int64_t q2 = 0; q2 < s->out[2]; q2++, at += s->yp) {
                float sum = 0;
                r[2] = span_of(s, 2, q2);
                FOR_SPANS(s, r, f, i)
                {
                    (void)f;
                    sum += px[i * s->xp];
                }
                y[at] = sum * share(s, r);
            }
        }
}

static ot_status avg_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const float *x = c->in[0];
    float *y = c->out[0];
    ot_slide s;
    slide_of(n, n->in[0], n->out[0], &s);
    int threads = s.N * s.C * s.O < 16384 ? 1 : c->threads;
    if (s.xc == 1 && s.yc == 1 && s.C > 1) {
        int64_t rows = s.out[0] * s.out[1];
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t p = 0; p < s.N * rows; p++)
            avg_row(&s, x + p / rows * s.I * s.C, y + p * s.out[2] * s.C, p % rows / s.out[1], p % s.out[1]);
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t p = 0; p < s.N * s.C; p++) avg_plane(&s, x, y, p / s.C, p % s.C);
    return OT_OK;
}

OT_WIDE static void avg_dx_row(const ot_slide *s, const float *restrict dy, float *restrict dx, int64_t q0, int64_t q1,
                               int64_t n)
{
    pool_span r[3] = { span_of(s, 0, q0), span_of(s, 1, q1) };
    for (int64_t q2 = 0; q2 < s->out[2]; q2++, dy += s->yp) {
        r[2] = span_of(s, 2, q2);
        float part = share(s, r);
        FOR_SPANS(s, r, f, i)
        {
            float *to = dx + i * s->xp;
            (void)f;
            if (s->xc == 1 && s->yc == 1) {
#pragma omp simd
                for (int64_t c = 0; c < n; c++) to[c] += part * dy[c];
            } else {
                for (int64_t c = 0; c < n; c++) to[c * s->xc] += part * dy[c * s->yc];
            }
        }
    }
}

static ot_status avg_dx_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const float *dy = c->in[0];
    float *dx = c->out[0];
    ot_slide s;
    slide_of(n, n->out[0], n->in[0], &s);
    bool vector = s.xc == 1 && s.yc == 1;
    int64_t m = vector ? channel_block(&s) : 1, blocks = m ? (s.C + m - 1) / m : 0;
    int threads = s.N * s.C * s.I < 16384 ? 1 : c->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t b = 0; b < s.N * blocks; b++) {
        int64_t k = b / blocks, c0 = b % blocks * m, w = s.C - c0 < m ? s.C - c0 : m;
        float *to = dx + k * s.C * s.I + c0 * s.xc;
        zero(&s, to, w);
        for (int64_t q = 0; q < s.out[0] * s.out[1]; q++)
            avg_dx_row(&s, dy + k * s.C * s.O + c0 * s.yc + q * s.out[2] * s.yp, to, q / s.out[1], q % s.out[1], w);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_PoolMax = { .name = "cpu", .can = max_can, .run = max_run, .any_layout = true };
const ot_kernel ot_cpu_PoolMaxDx = {
    .name = "cpu", .can = f32_can, .prepare = max_dx_prepare, .run = max_dx_run, .any_layout = true
};
const ot_kernel ot_cpu_PoolAvg = { .name = "cpu", .can = f32_can, .run = avg_run, .any_layout = true };
const ot_kernel ot_cpu_PoolAvgDx = { .name = "cpu", .can = f32_can, .run = avg_dx_run, .any_layout = true };
