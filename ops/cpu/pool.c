/* pool.c - PoolMax, PoolAvg and their gradients for f32, in either layout.
 *
 * Channels last: the channels of one pixel are the vector; a block of channels of one output pixel is
 * worked on in registers and small local arrays.  Otherwise plane by plane.  Every element of a result is
 * written by one thread, in an order that depends on the shape only. */
#include "ops/pool.h"

#include <string.h>

#include "ops/cpu/vector.h"
#include "ops/kernel.h"

enum { BLOCK = 128 }; /* channels at a time */

typedef struct ot_slide {
    int64_t   N, C, in[3], out[3], I, O;
    ot_window w;
    bool      include_pad;
    int64_t   xc, xp, yc, yp; /* strides of channels and pixels in x and y; samples are C*I and C*O apart */
} ot_slide;

static bool last(const ot_value *v) { return v->layout == OT_CHANNELS_LAST; }

static void slide_of(const ot_node *n, const ot_value *x, const ot_value *y, ot_slide *s)
{
    const ot_pool *a = n->attrs;
    *s = (ot_slide){ .N = x->shape.dim[0], .C = x->shape.dim[1], .include_pad = a->include_pad != 0 };
    ot_spatial_3d(&x->shape, s->in);
    ot_spatial_3d(&y->shape, s->out);
    ot_window_3d(&a->window, &s->w);
    s->I = s->in[0] * s->in[1] * s->in[2];
    s->O = s->out[0] * s->out[1] * s->out[2];
    s->xc = last(x) ? 1 : s->I;
    s->xp = last(x) ? s->C : 1;
    s->yc = last(y) ? 1 : s->O;
    s->yp = last(y) ? s->C : 1;
}

/* The window of one output pixel: its first element inside x, and which elements are inside, per axis. */
typedef struct ot_reach { int64_t first[3], from[3], to[3]; } ot_reach;

static void reach(const ot_slide *s, int64_t o, ot_reach *r)
{
    for (int j = 2; j >= 0; j--) {
        int64_t d = s->w.dilation[j], at = (o % s->out[j]) * s->w.stride[j] - s->w.pad_lo[j];
        int64_t from = at < 0 ? (-at + d - 1) / d : 0, to = s->in[j] > at ? (s->in[j] - at + d - 1) / d : 0;
        r->first[j] = at;
        r->from[j] = from;
        r->to[j] = to < s->w.kernel[j] ? to : s->w.kernel[j];
        o /= s->out[j];
    }
}

/* Runs the statement after it for every window element f at pixel i of x. */
#define FOR_REACH(s, r, f, i)                                                                       \
    for (int64_t k0 = (r)->from[0]; k0 < (r)->to[0]; k0++)                                           \
        for (int64_t k1 = (r)->from[1]; k1 < (r)->to[1]; k1++)                                       \
            for (int64_t k2 = (r)->from[2], f, i; k2 < (r)->to[2] &&                                 \
                 ((f = (k0 * (s)->w.kernel[1] + k1) * (s)->w.kernel[2] + k2),                        \
                  (i = (((r)->first[0] + k0 * (s)->w.dilation[0]) * (s)->in[1] +                     \
                        (r)->first[1] + k1 * (s)->w.dilation[1]) * (s)->in[2] +                      \
                       (r)->first[2] + k2 * (s)->w.dilation[2]), true); k2++)

/* Elements that an average divides by: inside x, or with include_pad up to the end of the padding. */
static float share(const ot_slide *s, const ot_reach *r)
{
    int64_t n = 1;
    for (int j = 0; j < 3; j++) {
        int64_t k = r->to[j] > r->from[j] ? r->to[j] - r->from[j] : 0;
        if (s->include_pad) {
            int64_t room = s->in[j] + s->w.pad_hi[j] - r->first[j], d = s->w.dilation[j];
            k = room <= 0 ? 0 : (room + d - 1) / d;
            if (k > s->w.kernel[j]) k = s->w.kernel[j];
        }
        n *= k;
    }
    return n ? 1.0f / (float)n : 0;
}

/* ---- maximum ----------------------------------------------------------------- */

/* One step: where v beats the best so far (or is the first NaN), it and f take its place. */
OT_WIDE static void beat(float *restrict best, int32_t *restrict where, const float *restrict v, int32_t f, int64_t n)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        int take = (v[c] > best[c]) | ((v[c] != v[c]) & (best[c] == best[c]));
        best[c] = take ? v[c] : best[c];
        where[c] = take ? f : where[c];
    }
}

static void narrow(uint8_t *restrict to, const int32_t *restrict from, int64_t n)
{
    for (int64_t c = 0; c < n; c++) to[c] = (uint8_t)from[c];
}

static void max_pixel_last(const ot_slide *s, const float *x, float *y, void *where, bool small, int64_t n, int64_t o)
{
    ot_reach r;
    reach(s, o, &r);
    for (int64_t c0 = 0; c0 < s->C; c0 += BLOCK) {
        float   best[BLOCK];
        int32_t from[BLOCK];
        int64_t m = s->C - c0 < BLOCK ? s->C - c0 : BLOCK, at = (n * s->O + o) * s->C + c0;
        bool    any = false;
        FOR_REACH(s, &r, f, i) {
            const float *v = x + (n * s->I + i) * s->C + c0;
            if (any) {
                beat(best, from, v, (int32_t)f, m);
                continue;
            }
            any = true;
            memcpy(best, v, (size_t)m * sizeof *v);
            for (int64_t c = 0; c < m; c++) from[c] = (int32_t)f;
        }
        for (int64_t c = 0; c < m && !any; c++) best[c] = -INFINITY, from[c] = -1;
        memcpy(y + at, best, (size_t)m * sizeof *y);
        if (small) narrow((uint8_t *)where + at, from, m);
        else memcpy((int32_t *)where + at, from, (size_t)m * sizeof *from);
    }
}

static void max_plane(const ot_slide *s, const float *x, float *y, void *where, bool small, int64_t n, int64_t c)
{
    const float *px = x + n * s->C * s->I + c * s->xc;
    for (int64_t o = 0; o < s->O; o++) {
        ot_reach r;
        float    best = -INFINITY;
        int32_t  from = -1;
        reach(s, o, &r);
        FOR_REACH(s, &r, f, i) {
            float v = px[i * s->xp];
            if (from < 0 || v > best || (v != v && best == best)) best = v, from = (int32_t)f;
        }
        int64_t at = n * s->C * s->O + c * s->yc + o * s->yp;
        y[at] = best;
        if (small) ((uint8_t *)where)[at] = (uint8_t)from;
        else ((int32_t *)where)[at] = from;
    }
}

static bool max_can(const ot_node *n, const char **why)
{
    if (n->in[0]->dtype != OT_F32) return *why = "only float32", false;
    if (n->n_out > 2 && n->out[2]) return *why = "no flat indices", false;
    if (!n->out[0] || !n->out[1] || n->out[0]->layout != n->out[1]->layout) return *why = "outputs of two layouts", false;
    return true;
}

static ot_status max_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const float   *x = c->in[0];
    float         *y = c->out[0];
    ot_slide       s;
    bool           small = n->out[1]->dtype == OT_U8;
    slide_of(n, n->in[0], n->out[0], &s);
    int64_t cost = s.N * s.C * s.O;
    int     threads = cost < 16384 ? 1 : c->threads;
    if (s.xc == 1 && s.yc == 1 && s.C > 1) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t p = 0; p < s.N * s.O; p++) max_pixel_last(&s, x, y, c->out[1], small, p / s.O, p % s.O);
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t p = 0; p < s.N * s.C; p++) max_plane(&s, x, y, c->out[1], small, p / s.C, p % s.C);
    return OT_OK;
}

OT_WIDE static void give(float *restrict dx, const float *restrict dy, const uint8_t *restrict where, uint8_t f, int64_t n)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++) dx[c] += where[c] == f ? dy[c] : 0.0f;
}

static void zero(const ot_slide *s, float *dx, int64_t n, int64_t c0, int64_t m)
{
    float *p = dx + n * s->C * s->I + c0 * s->xc;
    if (m == s->C) memset(p, 0, (size_t)(s->C * s->I) * sizeof *p);
    else
        for (int64_t i = 0; i < s->I; i++)
            for (int64_t c = 0; c < m; c++) p[i * s->xp + c * s->xc] = 0;
}

/* One sample, channels c0 .. c0+m: threads share neither. */
static void max_dx_last(const ot_slide *s, const float *dy, const uint8_t *where, float *dx, int64_t n, int64_t c0, int64_t m)
{
    zero(s, dx, n, c0, m);
    for (int64_t o = 0; o < s->O; o++) {
        ot_reach r;
        int64_t  at = (n * s->O + o) * s->C + c0;
        reach(s, o, &r);
        FOR_REACH(s, &r, f, i) give(dx + (n * s->I + i) * s->C + c0, dy + at, where + at, (uint8_t)f, m);
    }
}

static void max_dx_plane(const ot_slide *s, const float *dy, const void *where, bool small, float *dx, int64_t n, int64_t c)
{
    float *to = dx + n * s->C * s->I + c * s->xc;
    for (int64_t i = 0; i < s->I; i++) to[i * s->xp] = 0;
    for (int64_t o = 0; o < s->O; o++) {
        int64_t  at = n * s->C * s->O + c * s->yc + o * s->yp;
        int64_t  f = small ? ((const uint8_t *)where)[at] : ((const int32_t *)where)[at];
        ot_reach r;
        if (f < 0 || (small && f == 255)) continue;
        reach(s, o, &r);
        int64_t k[3] = { f / (s->w.kernel[1] * s->w.kernel[2]), f / s->w.kernel[2] % s->w.kernel[1], f % s->w.kernel[2] }, i = 0;
        for (int j = 0; j < 3; j++) i = i * s->in[j] + r.first[j] + k[j] * s->w.dilation[j];
        to[i * s->xp] += dy[at];
    }
}

static bool dx_can(const ot_node *n, const char **why)
{
    if (n->in[0]->dtype != OT_F32) return *why = "only float32", false;
    if (n->n_in > 1 && n->in[0]->layout != n->in[1]->layout) return *why = "inputs of two layouts", false;
    return true;
}

/* Channels are split where there are too few samples for the threads. */
static int64_t channel_block(const ot_slide *s) { return s->N >= 16 || s->C < 32 ? s->C : 16; }

static ot_status max_dx_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const float   *dy = c->in[0];
    float         *dx = c->out[0];
    ot_slide       s;
    bool           small = n->in[1]->dtype == OT_U8;
    slide_of(n, n->out[0], n->in[0], &s);
    int threads = s.N * s.C * s.I < 16384 ? 1 : c->threads;
    if (s.xc == 1 && s.yc == 1 && small && s.C > 1) {
        int64_t m = channel_block(&s), blocks = (s.C + m - 1) / m;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t b = 0; b < s.N * blocks; b++) {
            int64_t c0 = b % blocks * m;
            max_dx_last(&s, dy, c->in[1], dx, b / blocks, c0, s.C - c0 < m ? s.C - c0 : m);
        }
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t p = 0; p < s.N * s.C; p++) max_dx_plane(&s, dy, c->in[1], small, dx, p / s.C, p % s.C);
    return OT_OK;
}

/* ---- average ------------------------------------------------------------------ */

OT_WIDE static void add(float *restrict y, const float *restrict x, float f, int64_t n)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++) y[c] += f * x[c];
}

static void avg_pixel_last(const ot_slide *s, const float *x, float *y, int64_t n, int64_t o)
{
    ot_reach r;
    reach(s, o, &r);
    float f1 = share(s, &r), *to = y + (n * s->O + o) * s->C;
    for (int64_t c0 = 0; c0 < s->C; c0 += BLOCK) {
        float   sum[BLOCK] = { 0 };
        int64_t m = s->C - c0 < BLOCK ? s->C - c0 : BLOCK;
        FOR_REACH(s, &r, f, i) {
            (void)f;
            add(sum, x + (n * s->I + i) * s->C + c0, 1, m);
        }
        for (int64_t c = 0; c < m; c++) to[c0 + c] = sum[c] * f1;
    }
}

static void avg_plane(const ot_slide *s, const float *x, float *y, int64_t n, int64_t c)
{
    const float *px = x + n * s->C * s->I + c * s->xc;
    for (int64_t o = 0; o < s->O; o++) {
        ot_reach r;
        float    sum = 0;
        reach(s, o, &r);
        FOR_REACH(s, &r, f, i) {
            (void)f;
            sum += px[i * s->xp];
        }
        y[n * s->C * s->O + c * s->yc + o * s->yp] = sum * share(s, &r);
    }
}

static bool avg_can(const ot_node *n, const char **why)
{
    return n->in[0]->dtype == OT_F32 || (*why = "only float32", false);
}

static ot_status avg_run(const ot_call *c)
{
    const ot_node *n = c->node;
    ot_slide       s;
    slide_of(n, n->in[0], n->out[0], &s);
    int threads = s.N * s.C * s.O < 16384 ? 1 : c->threads;
    if (s.xc == 1 && s.yc == 1 && s.C > 1) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t p = 0; p < s.N * s.O; p++) avg_pixel_last(&s, c->in[0], c->out[0], p / s.O, p % s.O);
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t p = 0; p < s.N * s.C; p++) avg_plane(&s, c->in[0], c->out[0], p / s.C, p % s.C);
    return OT_OK;
}

static void avg_dx_block(const ot_slide *s, const float *dy, float *dx, int64_t n, int64_t c0, int64_t m)
{
    bool vector = s->xc == 1 && s->yc == 1;
    zero(s, dx, n, c0, m);
    for (int64_t o = 0; o < s->O; o++) {
        ot_reach     r;
        const float *from = dy + n * s->C * s->O + c0 * s->yc + o * s->yp;
        float       *to = dx + n * s->C * s->I + c0 * s->xc;
        reach(s, o, &r);
        float part = share(s, &r);
        FOR_REACH(s, &r, f, i) {
            (void)f;
            if (vector) add(to + i * s->xp, from, part, m);
            else
                for (int64_t c = 0; c < m; c++) to[i * s->xp + c * s->xc] += part * from[c * s->yc];
        }
    }
}

static ot_status avg_dx_run(const ot_call *c)
{
    const ot_node *n = c->node;
    ot_slide       s;
    slide_of(n, n->out[0], n->in[0], &s);
    bool    vector = s.xc == 1 && s.yc == 1;
    int64_t m = vector ? channel_block(&s) : 1, blocks = m ? (s.C + m - 1) / m : 0;
    int     threads = s.N * s.C * s.I < 16384 ? 1 : c->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t b = 0; b < s.N * blocks; b++) {
        int64_t c0 = b % blocks * m;
        avg_dx_block(&s, c->in[0], c->out[0], b / blocks, c0, s.C - c0 < m ? s.C - c0 : m);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_PoolMax = { .name = "cpu", .can = max_can, .run = max_run, .any_layout = true };
const ot_kernel ot_cpu_PoolMaxDx = { .name = "cpu", .can = dx_can, .run = max_dx_run, .any_layout = true };
const ot_kernel ot_cpu_PoolAvg = { .name = "cpu", .can = avg_can, .run = avg_run, .any_layout = true };
const ot_kernel ot_cpu_PoolAvgDx = { .name = "cpu", .can = dx_can, .run = avg_dx_run, .any_layout = true };
