/* topkindex.c - TopKIndex: a heap of the k best elements so far, then sorted.
 *
 * Memory  the heap is in the workspace: k indices. */
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/topkindex.h"

#include <math.h>

#include "ops/kernel.h"

/* One line of x along the axis. */
typedef struct line {
    const void *x;
    ot_dtype t;
    int64_t at, step;
    const ot_topk_index *a;
} line;

/* Does element i come before element j? */
static bool before(const line *l, int64_t i, int64_t j)
{
    int64_t p = l->at + i * l->step, q = l->at + j * l->step;
    int c; /* the sign of x[i] - x[j], NaN above all */
    if (ot_is_float(l->t)) {
        double u = ot_get_f64(l->x, l->t, p), v = ot_get_f64(l->x, l->t, q);
        c = isnan(u) || isnan(v) ? isnan(u) - isnan(v) : (u > v) - (u < v);
    } else if (l->t == OT_U64) {
        uint64_t u = (uint64_t)ot_get_i64(l->x, l->t, p), v = (uint64_t)ot_get_i64(l->x, l->t, q);
        c = (u > v) - (u < v);
    } else {
        int64_t u = ot_get_i64(l->x, l->t, p), v = ot_get_i64(l->x, l->t, q);
        c = (u > v) - (u < v);
    }
    if (c) return l->a->smallest ? c < 0 : c > 0;
    return l->a->last ? i > j : i < j;
}

/* Lets h[i] sink; the top is the one that comes last. */
static void sink(const line *l, int64_t *h, int64_t n, int64_t i)
{
    for (;;) {
        int64_t k = i;
        for (int64_t c = 2 * i + 1; c <= 2 * i + 2 && c < n; c++)
            if (before(l, h[k], h[c])) k = c;
        if (k == i) return;
        int64_t v = h[i];
        h[i] = h[k];
        h[k] = v;
        i = k;
    }
}

static void best(const line *l, int64_t n, int64_t *h)
{
    int64_t k = l->a->k;
    for (int64_t i = 0; i < k; i++) h[i] = i;
    for (int64_t i = k / 2; i-- > 0;) sink(l, h, k, i);
    for (int64_t i = k; i < n; i++)
        if (before(l, i, h[0])) {
            h[0] = i;
            sink(l, h, k, 0);
        }
    for (int64_t m = k - 1; m > 0; m--) { /* the last one to the end */
        int64_t v = h[0];
        h[0] = h[m];
        h[m] = v;
        sink(l, h, m, 0);
    }
}

static ot_status arg_prepare(const ot_node *n, ot_prep *p)
{
    p->work = (size_t)((const ot_topk_index *)n->attrs)->k * sizeof(int64_t);
    return OT_OK;
}

static ot_status arg_run(const ot_call *c)
{
    const ot_topk_index *a = c->node->attrs;
    const ot_value *x = c->node->in[0];
    ot_along r = ot_along_axis(&x->shape, a->axis);
    int64_t *h = c->work, *y = c->out[0];
    for (int64_t o = 0; o < r.outer && a->k; o++)
        for (int64_t i = 0; i < r.inner; i++) {
            line l = { c->in[0], x->dtype, o * r.n * r.inner + i, r.inner, a };
            best(&l, r.n, h);
            for (int64_t k = 0; k < a->k; k++) y[(o * a->k + k) * r.inner + i] = h[k];
        }
    return OT_OK;
}

const ot_kernel ot_ref_TopKIndex = { .name = "ref", .prepare = arg_prepare, .run = arg_run };
