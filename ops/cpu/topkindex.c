/* topkindex.c - TopKIndex with k = 1 (ArgMax, ArgMin, accuracy) for f32.
 *
 * Elements become integers in the same order, NaN above all and -0 equal to 0, in reverse where the smallest is wanted.  A line
 * is read once: the largest of each piece is compared with the largest so far, and the piece that has it is searched
 * again.  Where the axis is not the last, vectors are along the elements after it. */
#include "ops/kernels/move.h"
#include "ops/kernels/topkindex.h"

#include <string.h>

#include "ops/cpu/vector.h"
#include "ops/kernel.h"

enum { PIECE = 512, COLUMNS = 64, ALONE = 8192 };

OT_ALWAYS int32_t key(float x, int32_t turned)
{
    int32_t i;
    float v = x + 0.0f;
    memcpy(&i, &v, sizeof i);
    i ^= i >> 31 & INT32_MAX;
    return (v != v ? INT32_MAX : i) ^ turned;
}

OT_ALWAYS int32_t best_of(const float *x, int64_t n, int32_t turned)
{
    int32_t best = INT32_MIN;
#pragma omp simd reduction(max : best)
    for (int64_t i = 0; i < n; i++) {
        int32_t k = key(x[i], turned);
        best = k > best ? k : best;
    }
    return best;
}

OT_WIDE static int64_t line(const float *x, int64_t n, int32_t turned, bool last)
{
    int32_t best = 0;
    int64_t from = -1, at = -1;
    for (int64_t i = 0; i < n; i += PIECE) {
        int32_t k = best_of(x + i, n - i < PIECE ? n - i : PIECE, turned);
        if (from < 0 || k > best || (last && k == best)) best = k, from = i;
    }
    for (int64_t i = from; i < n && i < from + PIECE && (at < 0 || last); i++)
        if (key(x[i], turned) == best) at = i;
    return at;
}

/* m lines of n elements each, `stride` apart. */
OT_WIDE static void lines(const float *x, int64_t n, int64_t stride, int64_t m, int32_t turned, int32_t last,
                          int64_t *y)
{
    int32_t best[COLUMNS], at[COLUMNS];
    for (int64_t c = 0; c < m; c++) best[c] = key(x[c], turned), at[c] = 0;
    for (int64_t i = 1; i < n; i++) {
        const float *v = x + i * stride;
#pragma omp simd
        for (int64_t c = 0; c < m; c++) {
            int32_t k = key(v[c], turned), take = (k > best[c]) | (last & (k == best[c]));
            best[c] = take ? k : best[c];
            at[c] = take ? (int32_t)i : at[c];
        }
    }
    for (int64_t c = 0; c < m; c++) y[c] = at[c];
}

static bool can(const ot_node *n, const char **why)
{
    const ot_topk_index *a = n->attrs;
    if (!ot_f32_can(n->in[0], why)) return false;
    if (a->k != 1) return ot_refuse(why, "several indices");
    return n->in[0]->shape.dim[a->axis] < INT32_MAX || ot_refuse(why, "a huge axis");
}

static ot_status run(const ot_call *c)
{
    const ot_topk_index *a = c->node->attrs;
    ot_along v = ot_along_axis(&c->node->in[0]->shape, a->axis);
    const float *x = c->in[0];
    int64_t *y = c->out[0], parts = (v.inner + COLUMNS - 1) / COLUMNS;
    int32_t turned = a->smallest ? -1 : 0, last = a->last != 0;
    int threads = v.outer * v.n * v.inner < ALONE ? 1 : c->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t b = 0; b < v.outer * parts; b++) {
        int64_t k = b % parts * COLUMNS, at = b / parts * v.n * v.inner + k, to = b / parts * v.inner + k;
        if (v.inner == 1) y[to] = line(x + at, v.n, turned, last);
        else lines(x + at, v.n, v.inner, v.inner - k < COLUMNS ? v.inner - k : COLUMNS, turned, last, y + to);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_TopKIndex = { .name = "cpu", .can = can, .run = run };
