/* copydx.c - CopyDx by runs.
 *
 * Memory    half-precision results are summed in a workspace of floats.
 * Numerics  each element sums its terms in the order of the pieces, and within a piece in an order that does not depend
 *           on the threads: these split an axis along which their targets are disjoint; if there is none, one thread
 *           computes the piece. */
#include "ops/kernels/box.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 1 << 15 };

static bool add_can(const ot_node *n, const char **why) { return ot_f32_can(n->in[0], why); }

static ot_status add_prepare(const ot_node *n, ot_prep *prep)
{
    const ot_copy *a = n->attrs;
    int64_t ds[OT_MAX_RANK];
    ot_box *box = malloc((size_t)(a->n ? a->n : 1) * sizeof *box);
    if (!box) return ot_fail(prep->err, OT_E_NOMEM, "%s: CopyDx: no memory for %lld pieces", n->name, (long long)a->n);
    ot_strides(&n->in[0]->shape, ds);
    for (int64_t i = 0; i < a->n; i++) {
        const ot_piece *p = &a->piece[i];
        ot_box *b = &box[i];
        *b = (ot_box){ .rank = n->in[0]->shape.rank, .to = p->src };
        for (int d = 0; d < b->rank; d++) {
            b->extent[d] = p->extent[d];
            b->t[d] = p->stride[d];
            b->f[d] = ds[d];
            b->from += p->dst[d] * ds[d];
        }
        ot_box_simplify(b);
    }
    prep->state = box;
    return OT_OK;
}

/* Part `part` of `parts` of axis 0. */
static void box_add(const ot_box *whole, float *y, const float *x, int64_t part, int64_t parts)
{
    ot_box b = *whole;
    ot_walk w;
    int64_t lo, hi;
    ot_part(b.extent[0], part, parts, &lo, &hi);
    if (lo == hi) return;
    b.to += lo * b.t[0];
    b.from += lo * b.f[0];
    b.extent[0] = hi - lo;

    int64_t n = b.extent[b.rank - 1], t = b.t[b.rank - 1], f = b.f[b.rank - 1], outer = 1;
    for (int d = 0; d < b.rank - 1; d++) outer *= b.extent[d];
    ot_walk_start(&w, &b, 1, 0);
    for (int64_t o = 0; o < outer; o++, ot_walk_next(&w, &b)) {
        float *to = y + w.to;
        const float *from = x + w.from;
        if (t == 0) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += (double)from[k * f];
            *to += (float)sum;
        } else if (t == 1 && f == 1) {
#pragma omp simd
            for (int64_t k = 0; k < n; k++) to[k] += from[k];
        } else {
            for (int64_t k = 0; k < n; k++) to[k * t] += from[k * f];
        }
    }
}

/* Are the targets of different coordinates along axis 0, the one with the longest stride, disjoint? */
static bool apart(const ot_box *b)
{
    int64_t reach = 0;
    for (int d = 1; d < b->rank; d++) reach += (b->extent[d] - 1) * llabs(b->t[d]);
    return llabs(b->t[0]) > reach;
}

static ot_status add_run(const ot_call *c)
{
    const ot_copy *a = c->node->attrs;
    const ot_box *box = c->state;
    int64_t total = ot_numel(&a->shape);
    if (!total) return OT_OK;
    memset(c->out[0], 0, (size_t)total * sizeof(float));
    for (int64_t i = 0; i < a->n; i++) {
        const ot_box *b = &box[i];
        int threads = b->count >= SMALL && apart(b) ? c->threads : 1;
        if (!b->count) continue;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int part = 0; part < threads; part++) box_add(b, c->out[0], c->in[0], part, threads);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_CopyDx = {
    .name = "cpu",
    .can = add_can,
    .prepare = add_prepare,
    .run = add_run,
    .release = free,
};
