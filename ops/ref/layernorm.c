/* layernorm.c - LayerNorm and its gradient, the plain loops.  Numerics: f64 throughout. */
#include "ops/kernels/layernorm.h"

#include <math.h>

#include "ops/kernel.h"
#include "ops/ref/element.h"

typedef struct norm_rows {
    int64_t n, D;
    ot_dtype stat, par;
    bool center;
    double epsilon;
} norm_rows; /* par: of scale and bias */

static norm_rows rows_of(const ot_value *x, const ot_value *scale, const ot_layer_norm *a)
{
    norm_rows r = { .n = 1,
                    .D = 1,
                    .stat = x->dtype == OT_F64 ? OT_F64 : OT_F32,
                    .par = scale ? scale->dtype : x->dtype,
                    .center = a->center,
                    .epsilon = a->epsilon };
    for (int d = 0; d < x->shape.rank; d++) *(d < a->axis ? &r.n : &r.D) *= x->shape.dim[d];
    return r;
}

OT_INLINE void norm(ot_dtype t, const norm_rows *r, const ot_call *c)
{
    const void *x = c->in[0], *scale = c->node->n_in > 1 ? c->in[1] : NULL, *bias = c->node->n_in > 2 ? c->in[2] : NULL;
    for (int64_t i = 0; i < r->n; i++) {
        double mean = 0, var = 0;
        for (int64_t d = 0; d < r->D && r->center; d++) mean += ot_load(x, t, i * r->D + d);
        mean /= (double)r->D;
        if (!r->center) mean = 0;
        for (int64_t d = 0; d < r->D; d++) {
            double e = ot_load(x, t, i * r->D + d) - mean;
            var += e * e;
        }
        double inv = 1 / sqrt(var / (double)r->D + r->epsilon);
        for (int64_t d = 0; d < r->D; d++) {
            double e = (ot_load(x, t, i * r->D + d) - mean) * inv;
            ot_store(c->out[0], t, i * r->D + d,
                     e * (scale ? ot_load(scale, r->par, d) : 1) + (bias ? ot_load(bias, r->par, d) : 0));
        }
        if (c->out[1]) ot_store(c->out[1], r->stat, i, mean);
        if (c->out[2]) ot_store(c->out[2], r->stat, i, inv);
    }
}

OT_INLINE double normalised(ot_dtype t, const norm_rows *r, const ot_call *c, int64_t i, int64_t d)
{
    return (ot_load(c->in[1], t, i * r->D + d) - ot_load(c->in[2], r->stat, i)) * ot_load(c->in[3], r->stat, i);
}

OT_INLINE void norm_grad(ot_dtype t, const norm_rows *r, const ot_call *c)
{
    const void *dy = c->in[0], *scale = c->node->n_in > 4 ? c->in[4] : NULL;
    for (int64_t i = 0; i < r->n && c->out[0]; i++) {
        double g = 0, gx = 0;
        for (int64_t d = 0; d < r->D; d++) {
            double e = ot_load(dy, t, i * r->D + d) * (scale ? ot_load(scale, r->par, d) : 1);
            g += e;
            gx += e * normalised(t, r, c, i, d);
        }
        g = r->center ? g / (double)r->D : 0;
        gx /= (double)r->D;
        for (int64_t d = 0; d < r->D; d++) {
            double e = ot_load(dy, t, i * r->D + d) * (scale ? ot_load(scale, r->par, d) : 1);
            ot_store(c->out[0], t, i * r->D + d,
                     ot_load(c->in[3], r->stat, i) * (e - g - normalised(t, r, c, i, d) * gx));
        }
    }
    for (int64_t d = 0; d < r->D; d++) {
        double dscale = 0, dbias = 0;
        for (int64_t i = 0; i < r->n; i++) {
            double e = ot_load(dy, t, i * r->D + d);
            dbias += e;
            dscale += e * normalised(t, r, c, i, d);
        }
        if (c->out[1]) ot_store(c->out[1], r->par, d, dscale);
        if (c->out[2]) ot_store(c->out[2], r->par, d, dbias);
    }
}

static ot_status norm_run(const ot_call *c)
{
    norm_rows r = rows_of(c->node->in[0], c->node->n_in > 1 ? c->node->in[1] : NULL, c->node->attrs);
    OT_BY_TYPE(c->node->in[0]->dtype, norm, &r, c);
    return OT_OK;
}

static ot_status dx_run(const ot_call *c)
{
    norm_rows r = rows_of(c->node->in[1], c->node->n_in > 4 ? c->node->in[4] : NULL, c->node->attrs);
    OT_BY_TYPE(c->node->in[1]->dtype, norm_grad, &r, c);
    return OT_OK;
}

const ot_kernel ot_ref_LayerNorm = { .name = "ref", .run = norm_run };
const ot_kernel ot_ref_LayerNormDx = { .name = "ref", .run = dx_run };
