/* take.c - Take and TakeDx, row after row.
 *
 * Memory    TakeDx of floats below f64 sums in a workspace of doubles. */
#include "ops/kernels/take.h"

#include <string.h>

#include "ops/kernel.h"

/* Index i as a place along an axis of n; fails when there is none. */
static ot_status place(const ot_call *c, int64_t i, int64_t n, int64_t *out)
{
    int64_t v = ot_get_i64(c->in[1], c->node->in[1]->dtype, i);
    if (v < -n || v >= n)
        return ot_fail(c->err, OT_E_DATA, "%s: index %lld at place %lld; expected %lld to %lld", c->node->name,
                       (long long)v, (long long)i, (long long)-n, (long long)(n - 1));
    *out = v < 0 ? v + n : v;
    return OT_OK;
}

/* x: (outer, n, inner) */
static void split(const ot_shape *x, int64_t axis, int64_t *outer, int64_t *n, int64_t *inner)
{
    *outer = *inner = 1;
    for (int d = 0; d < axis; d++) *outer *= x->dim[d];
    for (int d = (int)axis + 1; d < x->rank; d++) *inner *= x->dim[d];
    *n = x->dim[axis];
}

static ot_status take_run(const ot_call *c)
{
    const ot_take *a = c->node->attrs;
    const ot_value *x = c->node->in[0];
    int64_t outer, n, inner, m = ot_numel(&c->node->in[1]->shape), k;
    size_t size = (size_t)ot_dtype_bits(x->dtype) / 8;
    split(&x->shape, a->axis, &outer, &n, &inner);
    size_t row = (size_t)inner * size;
    for (int64_t i = 0; i < m; i++) {
        OT_TRY(place(c, i, n, &k));
        for (int64_t o = 0; o < outer && row; o++)
            memcpy((char *)c->out[0] + (size_t)(o * m + i) * row, (const char *)c->in[0] + (size_t)(o * n + k) * row,
                   row);
    }
    return OT_OK;
}

static ot_status take_add_prepare(const ot_node *n, ot_prep *p)
{
    const ot_take_dx *a = n->attrs;
    ot_dtype t = n->in[0]->dtype;
    if (ot_is_float(t) && t != OT_F64) p->work = (size_t)ot_numel(&a->shape) * sizeof(double);
    return OT_OK;
}

static ot_status take_add_run(const ot_call *c)
{
    const ot_take_dx *a = c->node->attrs;
    ot_dtype t = c->node->in[0]->dtype;
    int64_t outer, n, inner, m = ot_numel(&c->node->in[1]->shape), k, total = ot_numel(&a->shape);
    double *sum = t == OT_F64 ? c->out[0] : c->work;
    bool real = ot_is_float(t);
    split(&a->shape, a->axis, &outer, &n, &inner);

    for (int64_t j = 0; j < total; j++)
        if (real) sum[j] = 0;
        else ot_set_i64(c->out[0], t, j, 0);
    for (int64_t i = 0; i < m; i++) {
        OT_TRY(place(c, i, n, &k));
        for (int64_t o = 0; o < outer; o++)
            for (int64_t r = 0; r < inner; r++) {
                int64_t from = (o * m + i) * inner + r, to = (o * n + k) * inner + r;
                if (real) sum[to] += ot_get_f64(c->in[0], t, from);
                else
                    ot_set_i64(
                        c->out[0], t, to,
                        (int64_t)((uint64_t)ot_get_i64(c->out[0], t, to) + (uint64_t)ot_get_i64(c->in[0], t, from)));
            }
    }
    for (int64_t j = 0; j < total && real && t != OT_F64; j++) ot_set_f64(c->out[0], t, j, sum[j]);
    return OT_OK;
}

const ot_kernel ot_ref_Take = { .name = "ref", .run = take_run };
const ot_kernel ot_ref_TakeDx = { .name = "ref", .prepare = take_add_prepare, .run = take_add_run };
