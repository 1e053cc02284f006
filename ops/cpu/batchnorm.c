/* batchnorm.c - BatchNorm and its gradient for f32, in either layout; with a residual and ReLU behind it, and their gradient
 * before its own, chunk by chunk while that is in the cache (batchnorm.h).
 *
 * Channels last, x is a matrix of N*P rows (P: pixels) of C channels; the rows are cut into blocks by shape
 * alone, a block into chunks that stay in cache.  With plain layout every channel is a set of N runs of P elements.
 *
 * Memory    workspace: two f64 per channel and block; inputs with another layout than the result, converted
 * Numerics  a chunk's mean and squared deviations are f32 over at most CHUNK values, merged in f64
 *           (Chan, Golub, LeVeque: Updating formulae for computing sample variances, 1979) */
#include "ops/cpu/batchnorm.h"

#include "ops/cpu/vector.h"
#include "ops/kernels/batchnorm.h"
#include "ops/kernel.h"

enum { CHUNK = 32, BLOCKS = 64, LANES = 512 };

typedef struct ot_norm {
    int64_t N, C, P, rows, per_block, blocks; /* channels last: rows = N*P */
    double epsilon;
} ot_norm;

static int64_t pixels(const ot_value *x)
{
    int64_t p = 1;
    for (int d = 2; d < x->shape.rank; d++) p *= x->shape.dim[d];
    return p;
}

/* Are channels contiguous: channels last, or one pixel? */
static bool is_last(const ot_value *x) { return x->shape.rank == 2 || x->layout == OT_CHANNELS_LAST || pixels(x) == 1; }
static bool is_plain(const ot_value *x) { return x->layout == OT_PLAIN || x->shape.rank == 2 || x->shape.dim[1] == 1; }

static ot_norm norm_of(const ot_value *x, const ot_batch_norm *a)
{
    ot_norm s = { .N = x->shape.dim[0], .C = x->shape.dim[1], .P = pixels(x), .epsilon = a->epsilon };
    s.rows = s.N * s.P;
    s.per_block = (s.rows + BLOCKS - 1) / BLOCKS;
    s.per_block = (s.per_block + CHUNK - 1) / CHUNK * CHUNK;
    s.blocks = s.per_block ? (s.rows + s.per_block - 1) / s.per_block : 0;
    return s;
}

/* ---- statistics -------------------------------------------------------------------- */

/* Mean and squared deviations of m <= CHUNK rows, channels c0 .. c0+n of them, n <= LANES. */
OT_WIDE static void chunk_moments(const float *x, int64_t C, int64_t m, int64_t n, float *restrict mean,
                                  float *restrict dev)
{
    float r = 1 / (float)m;
    for (int64_t c = 0; c < n; c++) mean[c] = dev[c] = 0;
    for (int64_t i = 0; i < m; i++) {
        const float *v = x + i * C;
#pragma omp simd
        for (int64_t c = 0; c < n; c++) mean[c] += v[c];
    }
    for (int64_t c = 0; c < n; c++) mean[c] *= r;
    for (int64_t i = 0; i < m; i++) {
        const float *v = x + i * C;
#pragma omp simd
        for (int64_t c = 0; c < n; c++) dev[c] += (v[c] - mean[c]) * (v[c] - mean[c]);
    }
}

/* Merges (mean, dev) of `had` values and of m more. */
OT_WIDE static void merge(double *restrict mean, double *restrict dev, int64_t had, const float *restrict m1,
                          const float *restrict d1, int64_t m, int64_t n)
{
    double part = (double)m / (double)(had + m), cross = (double)had * part;
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        double delta = (double)m1[c] - mean[c];
        mean[c] += delta * part;
        dev[c] += (double)d1[c] + delta * delta * cross;
    }
}

static void block_moments(const ot_norm *s, const float *x, int64_t block, double *mean, double *dev)
{
    int64_t first = block * s->per_block, end = first + s->per_block < s->rows ? first + s->per_block : s->rows;
    float m1[LANES], d1[LANES];
    for (int64_t c = 0; c < s->C; c++) mean[c] = dev[c] = 0;
    for (int64_t i = first; i < end; i += CHUNK) {
        int64_t m = end - i < CHUNK ? end - i : CHUNK;
        for (int64_t c = 0; c < s->C; c += LANES) {
            int64_t n = s->C - c < LANES ? s->C - c : LANES;
            chunk_moments(x + i * s->C + c, s->C, m, n, m1, d1);
            merge(mean + c, dev + c, i - first, m1, d1, m, n);
        }
    }
}

/* Moments of one channel of a plain x. */
OT_WIDE static void run_moments(const float *x, int64_t m, float *mean, float *dev)
{
    float sum = 0, sq = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < m; i++) sum += x[i];
    sum /= (float)m;
#pragma omp simd reduction(+ : sq)
    for (int64_t i = 0; i < m; i++) sq += (x[i] - sum) * (x[i] - sum);
    *mean = sum;
    *dev = sq;
}

static void plane_moments(const ot_norm *s, const float *x, int64_t c, double *mean, double *dev)
{
    enum { RUN = 1024 };
    int64_t had = 0;
    *mean = *dev = 0;
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t p = 0; p < s->P; p += RUN) {
            int64_t m = s->P - p < RUN ? s->P - p : RUN;
            float m1, d1;
            run_moments(x + (n * s->C + c) * s->P + p, m, &m1, &d1);
            merge(mean, dev, had, &m1, &d1, m, 1);
            had += m;
        }
}

/* ---- forward -------------------------------------------------------------------------- */

OT_WIDE static void scale_rows(const float *restrict x, float *restrict y, const float *restrict f,
                               const float *restrict g, int64_t rows, int64_t C)
{
    for (int64_t i = 0; i < rows; i++) {
        const float *v = x + i * C;
        float *u = y + i * C;
#pragma omp simd
        for (int64_t c = 0; c < C; c++) u[c] = v[c] * f[c] + g[c];
    }
}

OT_WIDE static void scale_run(const float *restrict x, float *restrict y, float f, float g, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * f + g;
}

/* Writes the statistics of channel c, and computes the factor and shift that make y. */
static void finish(const ot_norm *s, const ot_call *call, int64_t c, double mean, double dev, float *f, float *g)
{
    double var = dev / (double)s->rows, inv = 1 / sqrt(var + s->epsilon);
    double scale = ((const float *)call->in[1])[c], bias = ((const float *)call->in[2])[c];
    float *out[3] = { call->out[1], call->out[2], call->out[3] };
    if (out[0]) out[0][c] = (float)mean;
    if (out[1]) out[1][c] = (float)var;
    if (out[2]) out[2][c] = (float)inv;
    f[c] = (float)(scale * inv);
    g[c] = (float)(bias - mean * scale * inv);
}

static bool can(const ot_node *n, const char **why)
{
    for (int i = 0; i < n->n_in; i++)
        if (!ot_f32_can(n->in[i], why)) return false;
    if (n->out[0] == NULL) return ot_refuse(why, "no result needed");
    if (ot_numel(&n->in[0]->shape) == 0) return ot_refuse(why, "an empty tensor");
    return true;
}

/* The layout of the result determines the loops; an input with another layout is first converted in workspace. */
static bool use_rows(const ot_node *n) { return is_last(n->out[0]); }
static bool must_turn(const ot_node *n, const ot_value *v) { return use_rows(n) ? !is_last(v) : !is_plain(v); }

static size_t own_work(const ot_norm *s)
{
    size_t bytes = (size_t)(s->blocks * 2 + 1) * (size_t)s->C * sizeof(double) + 4 * (size_t)s->C * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

/* Two f64 rows per block, four f32 rows, then converted inputs. */
static ot_status prepare(const ot_node *n, ot_prep *p)
{
    const ot_value *x = n->in[0];
    ot_norm s = norm_of(x, n->attrs);
    p->work = own_work(&s);
    for (int i = 0; i < (n->op == &ot_op_BatchNorm ? 1 : 2); i++)
        if (must_turn(n, n->in[i])) p->work += (ot_bytes(&x->shape, OT_F32) + 63) / 64 * 64;
    return OT_OK;
}

/* Input i in the layout of the result; *work moves past the space used. */
static const float *turned(const ot_call *c, const ot_norm *s, int i, char **work)
{
    const float *from = c->in[i];
    if (!must_turn(c->node, c->node->in[i])) return from;
    float *to = (float *)*work;
    bool rows = use_rows(c->node);
    *work += (ot_bytes(&c->node->in[i]->shape, OT_F32) + 63) / 64 * 64;
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t p = 0; p < s->P; p++)
            for (int64_t k = 0; k < s->C; k++) {
                int64_t last = (n * s->P + p) * s->C + k, plain = (n * s->C + k) * s->P + p;
                to[rows ? last : plain] = from[rows ? plain : last];
            }
    return to;
}

/* Merges the moments of all blocks, in order, into those of the first. */
static void join(const ot_norm *s, double *work, int64_t c, double *mean, double *dev)
{
    int64_t had = 0;
    double m = 0, d = 0;
    for (int64_t b = 0; b < s->blocks; b++) {
        int64_t n = b == s->blocks - 1 ? s->rows - b * s->per_block : s->per_block;
        double m1 = work[b * 2 * s->C + c], d1 = work[(b * 2 + 1) * s->C + c], delta = m1 - m;
        m += delta * (double)n / (double)(had + n);
        d += d1 + delta * delta * (double)had * (double)n / (double)(had + n);
        had += n;
    }
    *mean = m;
    *dev = d;
}

/* y += z, then ReLU: where they are wanted, over n elements from `at` on.  NaN stays. */
OT_ALWAYS float relu(float x, float top) { return x <= 0 ? 0 : x >= top ? top : x; }

OT_WIDE static void finish_run(const ot_norm_behind *b, float *y, int64_t at, int64_t n)
{
    float *u = y + at, top = b->top;
    const float *z = b->z ? b->z + at : NULL;
    if (z && b->relu)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) u[i] = relu(u[i] + z[i], top);
    else if (z)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) u[i] += z[i];
    else if (b->relu)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) u[i] = relu(u[i], top);
}

ot_status ot_cpu_norm(const ot_call *call, const ot_norm_behind *behind)
{
    const ot_node *n = call->node;
    ot_norm s = norm_of(n->in[0], n->attrs);
    char *more = (char *)call->work + own_work(&s);
    const float *x = turned(call, &s, 0, &more);
    float *y = call->out[0];
    double *work = call->work;
    float *f = (float *)(work + (s.blocks * 2 + 1) * s.C), *g = f + s.C;
    int threads = s.rows * s.C < 16384 ? 1 : call->threads;
    if (use_rows(n)) {
#pragma omp parallel num_threads(threads) if (threads > 1)
        {
#pragma omp for schedule(static)
            for (int64_t b = 0; b < s.blocks; b++)
                block_moments(&s, x, b, work + b * 2 * s.C, work + (b * 2 + 1) * s.C);
#pragma omp for schedule(static)
            for (int64_t c = 0; c < s.C; c++) {
                double mean, dev;
                join(&s, work, c, &mean, &dev);
                finish(&s, call, c, mean, dev, f, g);
            }
#pragma omp for schedule(static)
            for (int64_t i = 0; i < s.rows; i += CHUNK) {
                int64_t m = s.rows - i < CHUNK ? s.rows - i : CHUNK;
                scale_rows(x + i * s.C, y + i * s.C, f, g, m, s.C);
                finish_run(behind, y, i * s.C, m * s.C);
            }
        }
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t c = 0; c < s.C; c++) {
        double mean, dev;
        plane_moments(&s, x, c, &mean, &dev);
        finish(&s, call, c, mean, dev, f, g);
        for (int64_t k = 0; k < s.N; k++) {
            int64_t at = (k * s.C + c) * s.P;
            scale_run(x + at, y + at, f[c], g[c], s.P);
            finish_run(behind, y, at, s.P);
        }
    }
    return OT_OK;
}

static ot_status norm_run(const ot_call *call) { return ot_cpu_norm(call, &(ot_norm_behind){ .relu = false }); }

/* ---- gradient -------------------------------------------------------------------------- */

/* Sums of dy and of dy (x - mean) over m rows. */
OT_WIDE static void chunk_sums(const float *dy, const float *x, int64_t C, int64_t m, int64_t n,
                               const float *restrict mean, double *restrict sum, double *restrict dot)
{
    float s[LANES] = { 0 }, d[LANES] = { 0 };
    for (int64_t i = 0; i < m; i++) {
        const float *v = x + i * C, *g = dy + i * C;
#pragma omp simd
        for (int64_t c = 0; c < n; c++) {
            s[c] += g[c];
            d[c] += g[c] * (v[c] - mean[c]);
        }
    }
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        sum[c] += (double)s[c];
        dot[c] += (double)d[c];
    }
}

/* The gradient that reaches the norm, n elements from `at` on: dy, or dy + dz, where 0 < y < top. */
OT_WIDE static void mask_run(const ot_norm_before *b, const float *dy, int64_t at, int64_t n)
{
    const float *g = dy + at, *y = b->y + at, *z = b->dz ? b->dz + at : NULL;
    float *u = b->to + at, top = b->top;
    if (z)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) u[i] = y[i] <= 0 ? 0 : y[i] >= top ? 0 : g[i] + z[i];
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++) u[i] = y[i] <= 0 ? 0 : y[i] >= top ? 0 : g[i];
}

static void block_sums(const ot_norm *s, const ot_norm_before *before, const float *dy, const float *x,
                       const float *mean, int64_t block, double *sum, double *dot)
{
    int64_t first = block * s->per_block, end = first + s->per_block < s->rows ? first + s->per_block : s->rows;
    for (int64_t c = 0; c < s->C; c++) sum[c] = dot[c] = 0;
    for (int64_t i = first; i < end; i += CHUNK) {
        int64_t m = end - i < CHUNK ? end - i : CHUNK;
        if (before) mask_run(before, dy, i * s->C, m * s->C);
        const float *g = before ? before->to : dy;
        for (int64_t c = 0; c < s->C; c += LANES)
            chunk_sums(g + i * s->C + c, x + i * s->C + c, s->C, m, s->C - c < LANES ? s->C - c : LANES, mean + c,
                       sum + c, dot + c);
    }
}

OT_WIDE static void run_sums(const float *dy, const float *x, int64_t m, float mean, double *sum, double *dot)
{
    enum { RUN = 1024 };
    for (int64_t at = 0; at < m; at += RUN) {
        int64_t end = at + RUN < m ? at + RUN : m;
        float s = 0, d = 0;
#pragma omp simd reduction(+ : s, d)
        for (int64_t i = at; i < end; i++) {
            s += dy[i];
            d += dy[i] * (x[i] - mean);
        }
        *sum += (double)s;
        *dot += (double)d;
    }
}

/* dx = k0 dy + k1 x + k2 per channel. */
OT_WIDE static void grad_rows(const float *dy, const float *x, float *dx, const float *restrict k0,
                              const float *restrict k1, const float *restrict k2, int64_t rows, int64_t C)
{
    for (int64_t i = 0; i < rows; i++) {
        const float *g = dy + i * C, *v = x + i * C;
        float *u = dx + i * C;
#pragma omp simd
        for (int64_t c = 0; c < C; c++) u[c] = k0[c] * g[c] + (k1[c] * v[c] + k2[c]);
    }
}

OT_WIDE static void grad_run(const float *dy, const float *x, float *dx, float k0, float k1, float k2, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dx[i] = k0 * dy[i] + (k1 * x[i] + k2);
}

/* dx = scale inv (dy - sum/m - (x - mean) inv^2 dot/m), as factors of dy, x and 1. */
static void finish_grad(const ot_norm *s, const ot_call *call, int64_t c, double sum, double dot, float *k)
{
    double scale = ((const float *)call->in[2])[c], mean = ((const float *)call->in[3])[c],
           inv = ((const float *)call->in[4])[c];
    double m = (double)s->rows, slope = -scale * inv * inv * inv * dot / m;
    float *dscale = call->out[1], *dbias = call->out[2];
    if (dscale) dscale[c] = (float)(dot * inv);
    if (dbias) dbias[c] = (float)sum;
    k[c] = (float)(scale * inv);
    k[s->C + c] = (float)slope;
    k[2 * s->C + c] = (float)(-scale * inv * sum / m - slope * mean);
}

ot_status ot_cpu_norm_dx(const ot_call *call, const ot_norm_before *before)
{
    const ot_node *n = call->node;
    ot_norm s = norm_of(n->in[0], n->attrs);
    char *more = (char *)call->work + own_work(&s);
    const float *dy = turned(call, &s, 0, &more), *x = turned(call, &s, 1, &more), *mean = call->in[3];
    const float *g = before ? before->to : dy;
    float *dx = call->out[0];
    double *work = call->work;
    float *k = (float *)(work + (s.blocks * 2 + 1) * s.C);
    int threads = s.rows * s.C < 16384 ? 1 : call->threads;
    if (use_rows(n)) {
#pragma omp parallel num_threads(threads) if (threads > 1)
        {
#pragma omp for schedule(static)
            for (int64_t b = 0; b < s.blocks; b++)
                block_sums(&s, before, dy, x, mean, b, work + b * 2 * s.C, work + (b * 2 + 1) * s.C);
#pragma omp for schedule(static)
            for (int64_t c = 0; c < s.C; c++) {
                double sum = 0, dot = 0;
                for (int64_t b = 0; b < s.blocks; b++) {
                    sum += work[b * 2 * s.C + c];
                    dot += work[(b * 2 + 1) * s.C + c];
                }
                finish_grad(&s, call, c, sum, dot, k);
            }
#pragma omp for schedule(static)
            for (int64_t i = 0; i < s.rows; i += CHUNK)
                grad_rows(g + i * s.C, x + i * s.C, dx + i * s.C, k, k + s.C, k + 2 * s.C,
                          s.rows - i < CHUNK ? s.rows - i : CHUNK, s.C);
        }
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t c = 0; c < s.C; c++) {
        double sum = 0, dot = 0;
        for (int64_t i = 0; i < s.N; i++) {
            int64_t at = (i * s.C + c) * s.P;
            if (before) mask_run(before, dy, at, s.P);
            run_sums(g + at, x + at, s.P, mean[c], &sum, &dot);
        }
        finish_grad(&s, call, c, sum, dot, k);
        for (int64_t i = 0; i < s.N; i++) {
            int64_t at = (i * s.C + c) * s.P;
            grad_run(g + at, x + at, dx + at, k[c], k[s.C + c], k[2 * s.C + c], s.P);
        }
    }
    return OT_OK;
}

static ot_status dx_run(const ot_call *call) { return ot_cpu_norm_dx(call, NULL); }

const ot_kernel ot_cpu_BatchNorm = {
    .name = "cpu", .can = can, .prepare = prepare, .run = norm_run, .any_layout = true
};
const ot_kernel ot_cpu_BatchNormDx = {
    .name = "cpu", .can = can, .prepare = prepare, .run = dx_run, .any_layout = true
};
