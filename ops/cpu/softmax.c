/* softmax.c - SoftmaxAxis and its gradient for f32.
 *
 * Rows are contiguous when the axis is the last; else vectors are along the elements after the axis, a few at a time.
 * Numerics: the maximum is subtracted; sums are f32, per lane, of values of one sign. */
#include "ops/kernels/move.h"
#include "ops/kernels/softmax.h"

#include "ops/cpu/vector.h"
#include "ops/kernel.h"

enum { COLUMNS = 64 };

OT_WIDE static void row(const float *restrict x, float *restrict y, int64_t n, bool logarithm)
{
    float max = -INFINITY, sum = 0;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    if (logarithm) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += expf(x[i] - max);
        float lse = logf(sum);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] - max - lse;
        return;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = expf(x[i] - max);
        y[i] = e;
        sum += e;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] /= sum;
}

/* m columns of n elements each, `stride` apart. */
OT_WIDE static void columns(const float *x, float *y, int64_t n, int64_t stride, int64_t m, bool logarithm)
{
    float max[COLUMNS], sum[COLUMNS];
    for (int64_t k = 0; k < m; k++) max[k] = -INFINITY, sum[k] = 0;
    for (int64_t i = 0; i < n; i++) {
        const float *v = x + i * stride;
#pragma omp simd
        for (int64_t k = 0; k < m; k++) max[k] = v[k] > max[k] ? v[k] : max[k];
    }
    for (int64_t i = 0; i < n; i++) {
        const float *v = x + i * stride;
        float *u = y + i * stride;
#pragma omp simd
        for (int64_t k = 0; k < m; k++) {
            float d = v[k] - max[k], e = expf(d);
            u[k] = logarithm ? d : e;
            sum[k] += e;
        }
    }
    for (int64_t k = 0; k < m; k++) sum[k] = logarithm ? logf(sum[k]) : 1 / sum[k];
    for (int64_t i = 0; i < n; i++) {
        float *u = y + i * stride;
#pragma omp simd
        for (int64_t k = 0; k < m; k++) u[k] = logarithm ? u[k] - sum[k] : u[k] * sum[k];
    }
}

OT_WIDE static void row_grad(const float *restrict dy, const float *restrict y, float *restrict dx, int64_t n,
                             bool logarithm)
{
    float sum = 0;
    if (logarithm) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += dy[i];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = dy[i] - expf(y[i]) * sum;
        return;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += dy[i] * y[i];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
}

OT_WIDE static void columns_grad(const float *dy, const float *y, float *dx, int64_t n, int64_t stride, int64_t m,
                                 bool logarithm)
{
    float sum[COLUMNS] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const float *g = dy + i * stride, *v = y + i * stride;
#pragma omp simd
        for (int64_t k = 0; k < m; k++) sum[k] += logarithm ? g[k] : g[k] * v[k];
    }
    for (int64_t i = 0; i < n; i++) {
        const float *g = dy + i * stride, *v = y + i * stride;
        float *d = dx + i * stride;
#pragma omp simd
        for (int64_t k = 0; k < m; k++) {
            float e = expf(v[k]);
            d[k] = logarithm ? g[k] - e * sum[k] : v[k] * (g[k] - sum[k]);
        }
    }
}

static bool can(const ot_node *n, const char **why) { return ot_f32_can(n->out[0], why); }

static ot_status rows_run(const ot_call *c)
{
    const ot_softmax_axis *a = c->node->attrs;
    ot_along v = ot_along_axis(&c->node->in[0]->shape, a->axis);
    const float *x = c->in[0];
    float *y = c->out[0];
    int threads = v.outer * v.n * v.inner < 8192 ? 1 : c->threads;
    int64_t parts = (v.inner + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t b = 0; b < v.outer * parts; b++) {
        int64_t k = b % parts * COLUMNS, at = b / parts * v.n * v.inner + k;
        if (v.inner == 1) row(x + at, y + at, v.n, a->log != 0);
        else columns(x + at, y + at, v.n, v.inner, v.inner - k < COLUMNS ? v.inner - k : COLUMNS, a->log != 0);
    }
    return OT_OK;
}

static ot_status dx_run(const ot_call *c)
{
    const ot_softmax_axis *a = c->node->attrs;
    ot_along v = ot_along_axis(&c->node->in[1]->shape, a->axis);
    const float *dy = c->in[0], *y = c->in[1];
    float *dx = c->out[0];
    int threads = v.outer * v.n * v.inner < 8192 ? 1 : c->threads;
    int64_t parts = (v.inner + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t b = 0; b < v.outer * parts; b++) {
        int64_t k = b % parts * COLUMNS, at = b / parts * v.n * v.inner + k;
        if (v.inner == 1) row_grad(dy + at, y + at, dx + at, v.n, a->log != 0);
        else
            columns_grad(dy + at, y + at, dx + at, v.n, v.inner, v.inner - k < COLUMNS ? v.inner - k : COLUMNS,
                         a->log != 0);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_SoftmaxAxis = { .name = "cpu", .can = can, .run = rows_run };
const ot_kernel ot_cpu_SoftmaxAxisDx = { .name = "cpu", .can = can, .run = dx_run };
