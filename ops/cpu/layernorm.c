/* layernorm.c - LayerNorm and its gradient for f32.
 *
 * A row at a time; column sums (dscale, dbias) over blocks of rows that depend on the shape only.
 *
 * Memory    workspace of the gradient: two f64 rows per block
 * Numerics  sums along a row in f32 lanes of at most RUN values, then f64; down the columns CHUNK rows in f32,
 *           then f64 */
#include "ops/cpu/layernorm.h"

#include <string.h>

#include "ops/cpu/vector.h"
#include "ops/kernel.h"
#include "ops/kernels/layernorm.h"

enum { RUN = 4096, CHUNK = 32, BLOCKS = 32 };

typedef struct norm_rows {
    int64_t n, D, per_block, blocks;
    bool center;
    float epsilon;
} norm_rows;

static norm_rows rows_of(const ot_value *x, const ot_layer_norm *a)
{
    norm_rows r = { .n = 1, .D = 1, .center = a->center != 0, .epsilon = (float)a->epsilon };
    for (int d = 0; d < x->shape.rank; d++) *(d < a->axis ? &r.n : &r.D) *= x->shape.dim[d];
    r.per_block = (r.n + BLOCKS - 1) / BLOCKS;
    r.per_block = (r.per_block + CHUNK - 1) / CHUNK * CHUNK;
    r.blocks = r.per_block ? (r.n + r.per_block - 1) / r.per_block : 0;
    return r;
}

OT_WIDE static double row_sum(const float *x, int64_t n)
{
    double all = 0;
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t end = at + RUN < n ? at + RUN : n;
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = at; i < end; i++) s += x[i];
        all += (double)s;
    }
    return all;
}

OT_WIDE static double row_squares(const float *x, float mean, int64_t n)
{
    double all = 0;
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t end = at + RUN < n ? at + RUN : n;
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = at; i < end; i++) s += (x[i] - mean) * (x[i] - mean);
        all += (double)s;
    }
    return all;
}

OT_WIDE static void row_scale(const float *restrict x, float *restrict y, const float *restrict scale,
                              const float *restrict bias, float mean, float inv, int64_t n)
{
    if (scale && bias) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * inv * scale[i] + bias[i];
    } else if (scale) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * inv * scale[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * inv;
    }
}

static bool can(const ot_node *n, const char **why)
{
    for (int i = 0; i < n->n_in; i++)
        if (!ot_f32_can(n->in[i], why)) return false;
    const ot_value *x = n->in[n->op == &ot_op_LayerNorm ? 0 : 1];
    if (n->out[0] == NULL) return ot_refuse(why, "no result needed");
    if (ot_numel(&x->shape) == 0) return ot_refuse(why, "an empty tensor");
    return true;
}

static ot_status norm_run(const ot_call *c)
{
    const ot_node *n = c->node;
    norm_rows r = rows_of(n->in[0], n->attrs);
    const float *x = c->in[0], *scale = n->n_in > 1 ? c->in[1] : NULL, *bias = n->n_in > 2 ? c->in[2] : NULL;
    float *y = c->out[0], *means = c->out[1], *invs = c->out[2];
    int threads = r.n * r.D < 16384 ? 1 : c->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < r.n; i++) {
        float mean = r.center ? (float)(row_sum(x + i * r.D, r.D) / (double)r.D) : 0;
        float inv = (float)(1 / sqrt(row_squares(x + i * r.D, mean, r.D) / (double)r.D + (double)r.epsilon));
        row_scale(x + i * r.D, y + i * r.D, scale, bias, mean, inv, r.D);
        if (means) means[i] = mean;
        if (invs) invs[i] = inv;
    }
    return OT_OK;
}

/* Sums over the row of g = dy scale and of g (x - mean). */
OT_WIDE static void grad_sums(const float *dy, const float *x, const float *scale, float mean, int64_t n, double *sum,
                              double *dot)
{
    *sum = *dot = 0;
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t end = at + RUN < n ? at + RUN : n;
        float s = 0, d = 0;
        if (scale) {
#pragma omp simd reduction(+ : s, d)
            for (int64_t i = at; i < end; i++) {
                float g = dy[i] * scale[i];
                s += g;
                d += g * (x[i] - mean);
            }
        } else {
#pragma omp simd reduction(+ : s, d)
            for (int64_t i = at; i < end; i++) {
                s += dy[i];
                d += dy[i] * (x[i] - mean);
            }
        }
        *sum += (double)s;
        *dot += (double)d;
    }
}

OT_WIDE static void grad_row(const float *dy, const float *x, const float *scale, float *dx, float mean, float k0,
                             float k1, float k2, int64_t n)
{
    if (scale) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = k0 * dy[i] * scale[i] + (k1 * (x[i] - mean) + k2);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = k0 * dy[i] + (k1 * (x[i] - mean) + k2);
    }
}

OT_WIDE static void column_sums(const float *dy, const float *x, const float *mean, const float *inv, int64_t rows,
                                int64_t D, int64_t n, double *restrict dscale, double *restrict dbias)
{
    enum { LANES = 256 };
    for (int64_t at = 0; at < n; at += LANES) {
        int64_t m = n - at < LANES ? n - at : LANES;
        float s[LANES] = { 0 }, b[LANES] = { 0 };
        for (int64_t i = 0; i < rows; i++) {
            const float *g = dy + i * D + at, *v = x + i * D + at;
            float mu = mean[i], r = inv[i];
#pragma omp simd
            for (int64_t d = 0; d < m; d++) {
                b[d] += g[d];
                s[d] += g[d] * ((v[d] - mu) * r);
            }
        }
#pragma omp simd
        for (int64_t d = 0; d < m; d++) {
            dbias[at + d] += (double)b[d];
            dscale[at + d] += (double)s[d];
        }
    }
}

static ot_status dx_prepare(const ot_node *n, ot_prep *p)
{
    norm_rows r = rows_of(n->in[1], n->attrs);
    p->work = (size_t)(r.blocks * 2 * r.D) * sizeof(double);
    return OT_OK;
}

OT_WIDE static void add_row(float *dx, const float *add, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dx[i] += add[i];
}

static void block_grad(const norm_rows *r, const ot_call *c, const float *add, int64_t block, double *dscale,
                       double *dbias)
{
    const ot_node *n = c->node;
    const float *dy = c->in[0], *x = c->in[1], *mean = c->in[2], *inv = c->in[3],
                *scale = n->n_in > 4 ? c->in[4] : NULL;
    float *dx = c->out[0];
    int64_t first = block * r->per_block, end = first + r->per_block < r->n ? first + r->per_block : r->n;
    bool columns = c->out[1] || c->out[2];
    if (columns) memset(dscale, 0, (size_t)(2 * r->D) * sizeof(double));
    for (int64_t i = first; i < end; i += CHUNK) {
        int64_t m = end - i < CHUNK ? end - i : CHUNK;
        for (int64_t k = i; k < i + m; k++) {
            double sum, dot, D = (double)r->D, v = (double)inv[k];
            grad_sums(dy + k * r->D, x + k * r->D, scale, mean[k], r->D, &sum, &dot);
            grad_row(dy + k * r->D, x + k * r->D, scale, dx + k * r->D, mean[k], inv[k], (float)(-v * v * v * dot / D),
                     r->center ? (float)(-v * sum / D) : 0, r->D);
            if (add) add_row(dx + k * r->D, add + k * r->D, r->D);
        }
        if (columns) column_sums(dy + i * r->D, x + i * r->D, mean + i, inv + i, m, r->D, r->D, dscale, dbias);
    }
}

ot_status ot_cpu_layer_norm_dx(const ot_call *c, const float *add)
{
    norm_rows r = rows_of(c->node->in[1], c->node->attrs);
    double *work = c->work;
    float *dscale = c->out[1], *dbias = c->out[2];
    int threads = r.n * r.D < 16384 ? 1 : c->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t b = 0; b < r.blocks; b++) block_grad(&r, c, add, b, work + b * 2 * r.D, work + (b * 2 + 1) * r.D);
#pragma omp for schedule(static)
        for (int64_t d = 0; d < r.D; d++) {
            double s = 0, t = 0;
            for (int64_t b = 0; b < r.blocks && (dscale || dbias); b++) {
                s += work[b * 2 * r.D + d];
                t += work[(b * 2 + 1) * r.D + d];
            }
            if (dscale) dscale[d] = (float)s;
            if (dbias) dbias[d] = (float)t;
        }
    }
    return OT_OK;
}

static ot_status dx_run(const ot_call *c) { return ot_cpu_layer_norm_dx(c, NULL); }

const ot_kernel ot_cpu_LayerNorm = { .name = "cpu", .can = can, .run = norm_run };
const ot_kernel ot_cpu_LayerNormDx = { .name = "cpu", .can = can, .prepare = dx_prepare, .run = dx_run };
