/* scatter.c - Scatter of float32 rows.
 *
 * Numerics  rows are combined in the order of the indices, whatever the threads: each owns a range of
 *           the rows of y. */
#include "ops/kernels/scatter.h"

#include <math.h>
#include <string.h>

#include "ops/kernels/box.h"

enum { SMALL = 1 << 15 };

static bool put_can(const ot_node *n, const char **why) { return ot_f32_can(n->in[0], why); }

static void join_row(int64_t op, float *restrict y, const float *restrict u, int64_t r)
{
    switch (op) {
    case OT_SCATTER_ADD:
#pragma omp simd
        for (int64_t j = 0; j < r; j++) y[j] += u[j];
        break;
    case OT_SCATTER_MUL:
#pragma omp simd
        for (int64_t j = 0; j < r; j++) y[j] *= u[j];
        break;
    case OT_SCATTER_MIN:
        for (int64_t j = 0; j < r; j++) y[j] = u[j] < y[j] || isnan(u[j]) ? u[j] : y[j];
        break;
    case OT_SCATTER_MAX:
        for (int64_t j = 0; j < r; j++) y[j] = u[j] > y[j] || isnan(u[j]) ? u[j] : y[j];
        break;
    default: memcpy(y, u, (size_t)r * sizeof *y); break;
    }
}

static ot_status put_run(const ot_call *c)
{
    int64_t op = ((const ot_scatter *)c->node->attrs)->op;
    const ot_value *x = c->node->in[0];
    int64_t n = x->shape.dim[0], r = x->shape.dim[1], m = c->node->in[1]->shape.dim[0];
    const int64_t *place = c->in[1];
    const float *u = c->in[2];
    float *y = c->out[0];
    int threads = (n + m) * r < SMALL ? 1 : c->threads;
    for (int64_t i = 0; i < m; i++)
        if (place[i] < 0 || place[i] >= n)
            return ot_fail(c->err, OT_E_DATA, "%s: row %lld is out of range of %lld", c->node->name,
                           (long long)place[i], (long long)n);
    if (!n || !r) return OT_OK;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        int64_t lo, hi;
        ot_part(n, part, threads, &lo, &hi);
        if (c->out[0] != c->in[0] && hi > lo)
            memcpy(y + lo * r, (const float *)c->in[0] + lo * r, (size_t)((hi - lo) * r) * sizeof *y);
        for (int64_t i = 0; i < m; i++)
            if (place[i] >= lo && place[i] < hi) join_row(op, y + place[i] * r, u + i * r, r);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_Scatter = { .name = "cpu", .can = put_can, .run = put_run, .inplace = 1 };
