/* scatter.c - FlatIndex and Scatter, one after the other. */
#include "ops/kernels/scatter.h"

#include <math.h>
#include <string.h>

#include "ops/kernel.h"

/* Index i of the node's index tensor as a place along an axis of n. */
static ot_status wrapped(const ot_call *c, int64_t i, int64_t n, int64_t *out)
{
    int64_t least = ((const ot_flat_index *)c->node->attrs)->no_negative ? 0 : -n;
    int64_t v = c->node->in[0]->dtype == OT_I32 ? ((const int32_t *)c->in[0])[i] : ((const int64_t *)c->in[0])[i];
    if (v < least || v >= n)
        return ot_fail(c->err, OT_E_DATA, "%s: index %lld at place %lld; expected %lld to %lld", c->node->name,
                       (long long)v, (long long)i, (long long)least, (long long)(n - 1));
    *out = v < 0 ? v + n : v;
    return OT_OK;
}

static ot_status places_run(const ot_call *c)
{
    const ot_flat_index *a = c->node->attrs;
    const ot_shape *s = &c->node->in[0]->shape, *y = &c->node->out[0]->shape;
    ot_shape rows = a->x; /* whose strides count */
    int64_t xs[OT_MAX_RANK], k[OT_MAX_RANK] = { 0 }, total = ot_numel(y), v;
    int64_t *out = c->out[0];
    int q = a->kind == OT_FLAT_TUPLES ? (int)s->dim[s->rank - 1] : 1;
    if (a->kind == OT_FLAT_TUPLES) rows.rank = (int)a->batch + q;
    ot_strides(&rows, xs);
    for (int64_t i = 0; i < total; i++) {
        int64_t at = 0;
        if (a->kind == OT_FLAT_ALONG) {
            OT_TRY(wrapped(c, i, a->x.dim[a->axis], &v));
            at = v * xs[a->axis];
            for (int d = 0; d < y->rank; d++) at += d == a->axis ? 0 : k[d] * xs[d];
        } else {
            for (int d = 0; d < a->batch; d++) at += k[d] * xs[d];
            for (int j = 0; j < q; j++) {
                OT_TRY(wrapped(c, i * q + j, a->x.dim[a->batch + j], &v));
                at += v * xs[a->batch + j];
            }
        }
        out[i] = at;
        for (int d = y->rank - 1; d >= 0 && ++k[d] == y->dim[d]; d--) k[d] = 0;
    }
    return OT_OK;
}

const ot_kernel ot_ref_FlatIndex = { .name = "ref", .run = places_run };

/* ---- Scatter ------------------------------------------------------------------- */

static double join_real(int64_t op, double a, double b)
{
    switch (op) {
    case OT_SCATTER_ADD: return a + b;
    case OT_SCATTER_MUL: return a * b;
    case OT_SCATTER_MIN: return b < a || isnan(b) ? b : a;
    case OT_SCATTER_MAX: return b > a || isnan(b) ? b : a;
    default: return b;
    }
}

static int64_t join_int(int64_t op, int64_t a, int64_t b, bool sign)
{
    bool less = sign ? b < a : (uint64_t)b < (uint64_t)a;
    switch (op) {
    case OT_SCATTER_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case OT_SCATTER_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case OT_SCATTER_MIN: return less ? b : a;
    case OT_SCATTER_MAX: return less ? a : b;
    default: return b;
    }
}

static ot_status put_run(const ot_call *c)
{
    int64_t op = ((const ot_scatter *)c->node->attrs)->op;
    const ot_value *x = c->node->in[0];
    ot_dtype t = x->dtype;
    int64_t n = x->shape.dim[0], r = x->shape.dim[1], m = c->node->in[1]->shape.dim[0];
    const int64_t *place = c->in[1];
    size_t all = ot_bytes(&x->shape, t);
    if (all && c->out[0] != c->in[0]) memcpy(c->out[0], c->in[0], all);
    for (int64_t i = 0; i < m; i++) {
        if (place[i] < 0 || place[i] >= n)
            return ot_fail(c->err, OT_E_DATA, "%s: row %lld is out of range of %lld", c->node->name,
                           (long long)place[i], (long long)n);
        for (int64_t j = 0; j < r; j++) {
            int64_t to = place[i] * r + j, from = i * r + j;
            if (ot_is_float(t)) {
                double a = ot_get_f64(c->out[0], t, to), b = ot_get_f64(c->in[2], t, from);
                ot_set_f64(c->out[0], t, to, join_real(op, a, b));
            } else {
                int64_t a = ot_get_i64(c->out[0], t, to), b = ot_get_i64(c->in[2], t, from);
                ot_set_i64(c->out[0], t, to, join_int(op, a, b, ot_is_signed(t)));
            }
        }
    }
    return OT_OK;
}

const ot_kernel ot_ref_Scatter = { .name = "ref", .run = put_run, .inplace = 1 };
