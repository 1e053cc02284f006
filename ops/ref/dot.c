/* dot.c - Dot, the plain loop.
 *
 * Numerics  floats add in f64, integers in 64 bits with wrap-around. */
#include "ops/kernels/dot.h"
#include "ops/kernel.h"
#include "ops/ref/element.h"

typedef struct ot_matrix {
    const void *p;
    int64_t at, row, col;
} ot_matrix; /* element strides */

typedef struct ot_product {
    ot_matrix a, b;
    const void *bias;
    void *y;
    int64_t y_at, M, K, N;
} ot_product;

OT_INLINE void product(ot_dtype t, const ot_product *d)
{
    for (int64_t m = 0; m < d->M; m++)
        for (int64_t n = 0; n < d->N; n++) {
            double s = 0;
            for (int64_t k = 0; k < d->K; k++)
                s += ot_load(d->a.p, t, d->a.at + m * d->a.row + k * d->a.col) *
                     ot_load(d->b.p, t, d->b.at + k * d->b.row + n * d->b.col);
            if (d->bias) s += ot_load(d->bias, t, n);
            ot_store(d->y, t, d->y_at + m * d->N + n, s);
        }
}

static void product_ints(ot_dtype t, const ot_product *d)
{
    for (int64_t m = 0; m < d->M; m++)
        for (int64_t n = 0; n < d->N; n++) {
            uint64_t s = 0; /* unsigned: wrap-around is defined */
            for (int64_t k = 0; k < d->K; k++)
                s += (uint64_t)ot_get_i64(d->a.p, t, d->a.at + m * d->a.row + k * d->a.col) *
                     (uint64_t)ot_get_i64(d->b.p, t, d->b.at + k * d->b.row + n * d->b.col);
            if (d->bias) s += (uint64_t)ot_get_i64(d->bias, t, n);
            ot_set_i64(d->y, t, d->y_at + m * d->N + n, (int64_t)s);
        }
}

/* Offset of batch `index` of y in an operand whose leading axes broadcast to y's. */
static int64_t batch_at(const ot_shape *operand, const ot_shape *y, int64_t index)
{
    int64_t at = 0, step = operand->dim[operand->rank - 1] * operand->dim[operand->rank - 2];
    for (int d = y->rank - 3, e = operand->rank - 3; d >= 0; d--, e--) {
        int64_t i = index % y->dim[d];
        index /= y->dim[d];
        if (e < 0) continue;
        if (operand->dim[e] > 1) at += i * step;
        step *= operand->dim[e];
    }
    return at;
}

static ot_status dot_run(const ot_call *c)
{
    const ot_dot *t = c->node->attrs;
    const ot_shape *a = &c->node->in[0]->shape, *b = &c->node->in[1]->shape, *y = &c->node->out[0]->shape;
    int64_t a1 = a->dim[a->rank - 1], b1 = b->dim[b->rank - 1];
    ot_dtype type = c->node->out[0]->dtype;
    ot_product p = { .bias = c->node->n_in > 2 ? c->in[2] : NULL,
                     .y = c->out[0],
                     .M = y->dim[y->rank - 2],
                     .N = y->dim[y->rank - 1],
                     .K = t->ta ? a->dim[a->rank - 2] : a1 };
    p.a = (ot_matrix){ c->in[0], 0, t->ta ? 1 : a1, t->ta ? a1 : 1 };
    p.b = (ot_matrix){ c->in[1], 0, t->tb ? 1 : b1, t->tb ? b1 : 1 };
    if (p.M == 0 || p.N == 0) return OT_OK;
    for (int64_t i = 0, n = ot_numel(y) / (p.M * p.N); i < n; i++) {
        p.a.at = batch_at(a, y, i);
        p.b.at = batch_at(b, y, i);
        p.y_at = i * p.M * p.N;
        if (ot_is_float(type)) OT_BY_TYPE(type, product, &p);
        else product_ints(type, &p);
    }
    return OT_OK;
}

const ot_kernel ot_ref_Dot = { .name = "ref", .run = dot_run };
