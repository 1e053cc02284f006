/* take.c - Take and TakeDx by rows.
 *
 * Numerics  TakeDx adds in the order of the indices, whatever the threads: these own different rows of dx, or different
 *           columns if the rows are long and few. */
#include "ops/kernels/take.h"

#include <string.h>

#include "ops/kernels/box.h"
#include "ops/kernels/move.h"

enum { SMALL = 1 << 15 };

/* x around the axis, and the number of indices. */
typedef struct rows {
    ot_along x;
    int64_t m;
} rows;

static rows rows_of(const ot_shape *x, int64_t axis, const ot_value *index)
{
    return (rows){ ot_along_axis(x, axis), ot_numel(&index->shape) };
}

static inline int64_t index_at(const ot_call *c, int64_t i)
{
    return c->node->in[1]->dtype == OT_I32 ? ((const int32_t *)c->in[1])[i] : ((const int64_t *)c->in[1])[i];
}

/* Checks all indices before anything is written. */
static ot_status check(const ot_call *c, const rows *r)
{
    for (int64_t i = 0; i < r->m; i++) {
        int64_t v = index_at(c, i);
        if (v < -r->x.n || v >= r->x.n)
            return ot_fail(c->err, OT_E_DATA, "%s: index %lld at position %lld is out of range; expected %lld to %lld",
                           c->node->name, (long long)v, (long long)i, (long long)-r->x.n, (long long)(r->x.n - 1));
    }
    return OT_OK;
}

static ot_status take_run(const ot_call *c)
{
    const ot_value *x = c->node->in[0];
    rows r = rows_of(&x->shape, ((const ot_take *)c->node->attrs)->axis, c->node->in[1]);
    size_t e = (size_t)ot_dtype_bits(x->dtype) / 8, row = (size_t)r.x.inner * e;
    int64_t total = r.x.outer * r.m;
    int threads = total * r.x.inner < SMALL ? 1 : c->threads;
    OT_TRY(check(c, &r));
    if (!total || !row) return OT_OK;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        int64_t lo, hi;
        ot_part(total, part, threads, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            int64_t k = index_at(c, i % r.m);
            if (k < 0) k += r.x.n;
            char *y = (char *)c->out[0] + (size_t)i * row;
            const char *from = (const char *)c->in[0] + (size_t)(i / r.m * r.x.n + k) * row;
            if (row == 4) memcpy(y, from, 4); /* scalars, without a call */
            else memcpy(y, from, row);
        }
    }
    return OT_OK;
}

/* ---- TakeDx --------------------------------------------------------------- */

static bool add_can(const ot_node *n, const char **why) { return ot_f32_can(n->in[0], why); }

/* Rows lo to hi of dx, columns from to to of each. */
static void add_rows(const ot_call *c, const rows *r, int64_t lo, int64_t hi, int64_t from, int64_t to)
{
    float *dx = c->out[0];
    const float *dy = c->in[0];
    for (int64_t o = 0; o < r->x.outer; o++) {
        for (int64_t k = lo; k < hi; k++)
            memset(dx + (o * r->x.n + k) * r->x.inner + from, 0, (size_t)(to - from) * sizeof(float));
        for (int64_t i = 0; i < r->m; i++) {
            int64_t k = index_at(c, i);
            if (k < 0) k += r->x.n;
            if (k < lo || k >= hi) continue;
            float *a = dx + (o * r->x.n + k) * r->x.inner;
            const float *b = dy + (o * r->m + i) * r->x.inner;
#pragma omp simd
            for (int64_t j = from; j < to; j++) a[j] += b[j];
        }
    }
}

static ot_status add_run(const ot_call *c)
{
    const ot_take_dx *a = c->node->attrs;
    rows r = rows_of(&a->shape, a->axis, c->node->in[1]);
    int64_t work = r.x.outer * (r.x.n + r.m) * r.x.inner;
    int threads = work < SMALL ? 1 : c->threads;
    OT_TRY(check(c, &r));
    if (!r.x.outer || !r.x.inner || !r.x.n) return OT_OK;
    bool columns = r.x.inner >= 64 * (int64_t)threads && r.x.n < 16 * (int64_t)threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        int64_t lo, hi;
        ot_part(columns ? r.x.inner : r.x.n, part, threads, &lo, &hi);
        if (columns) add_rows(c, &r, 0, r.x.n, lo, hi);
        else add_rows(c, &r, lo, hi, 0, r.x.inner);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_Take = { .name = "cpu", .run = take_run };
const ot_kernel ot_cpu_TakeDx = { .name = "cpu", .can = add_can, .run = add_run };
