/* batchnorm.c - BatchNorm and its gradient, the plain loops.  Numerics: f64 throughout. */
#include "ops/kernels/batchnorm.h"

#include <math.h>

#include "ops/kernel.h"
#include "ops/ref/element.h"

/* x as (N, C, P), P the product of the spatial axes. */
typedef struct ot_channels {
    int64_t N, C, P;
    ot_dtype stat;
    double epsilon;
} ot_channels;

static ot_channels channels_of(const ot_value *x, const ot_value *scale, const ot_batch_norm *a)
{
    ot_channels s = { .N = x->shape.dim[0], .C = x->shape.dim[1], .P = 1, .stat = scale->dtype, .epsilon = a->epsilon };
    for (int d = 2; d < x->shape.rank; d++) s.P *= x->shape.dim[d];
    return s;
}

static void put(void *p, ot_dtype t, int64_t i, double v)
{
    if (p) ot_store(p, t, i, v);
}

OT_INLINE void norm(ot_dtype t, const ot_channels *s, const ot_call *call)
{
    const void *x = call->in[0];
    double m = (double)(s->N * s->P);
    for (int64_t c = 0; c < s->C; c++) {
        double mean = 0, var = 0;
        for (int64_t n = 0; n < s->N; n++)
            for (int64_t p = 0; p < s->P; p++) mean += ot_load(x, t, (n * s->C + c) * s->P + p);
        mean /= m;
        for (int64_t n = 0; n < s->N; n++)
            for (int64_t p = 0; p < s->P; p++) {
                double d = ot_load(x, t, (n * s->C + c) * s->P + p) - mean;
                var += d * d;
            }
        var /= m;
        double inv = 1 / sqrt(var + s->epsilon);
        double scale = ot_load(call->in[1], s->stat, c), bias = ot_load(call->in[2], s->stat, c);
        for (int64_t n = 0; n < s->N && call->out[0]; n++)
            for (int64_t p = 0; p < s->P; p++) {
                int64_t i = (n * s->C + c) * s->P + p;
                ot_store(call->out[0], t, i, (ot_load(x, t, i) - mean) * inv * scale + bias);
            }
        put(call->out[1], s->stat, c, mean);
        put(call->out[2], s->stat, c, var);
        put(call->out[3], s->stat, c, inv);
    }
}

OT_INLINE void norm_grad(ot_dtype t, const ot_channels *s, const ot_call *call)
{
    const void *dy = call->in[0], *x = call->in[1];
    double m = (double)(s->N * s->P);
    for (int64_t c = 0; c < s->C; c++) {
        double scale = ot_load(call->in[2], s->stat, c), mean = ot_load(call->in[3], s->stat, c);
        double inv = ot_load(call->in[4], s->stat, c), dscale = 0, dbias = 0;
        for (int64_t n = 0; n < s->N; n++)
            for (int64_t p = 0; p < s->P; p++) {
                int64_t i = (n * s->C + c) * s->P + p;
                dbias += ot_load(dy, t, i);
                dscale += ot_load(dy, t, i) * (ot_load(x, t, i) - mean) * inv;
            }
        for (int64_t n = 0; n < s->N && call->out[0]; n++)
            for (int64_t p = 0; p < s->P; p++) {
                int64_t i = (n * s->C + c) * s->P + p;
                double xh = (ot_load(x, t, i) - mean) * inv;
                ot_store(call->out[0], t, i, scale * inv * (ot_load(dy, t, i) - dbias / m - xh * dscale / m));
            }
        put(call->out[1], s->stat, c, dscale);
        put(call->out[2], s->stat, c, dbias);
    }
}

static ot_status norm_run(const ot_call *c)
{
    ot_channels s = channels_of(c->node->in[0], c->node->in[1], c->node->attrs);
    OT_BY_TYPE(c->node->in[0]->dtype, norm, &s, c);
    return OT_OK;
}

static ot_status dx_run(const ot_call *c)
{
    ot_channels s = channels_of(c->node->in[1], c->node->in[2], c->node->attrs);
    OT_BY_TYPE(c->node->in[1]->dtype, norm_grad, &s, c);
    return OT_OK;
}

const ot_kernel ot_ref_BatchNorm = { .name = "ref", .run = norm_run };
const ot_kernel ot_ref_BatchNormDx = { .name = "ref", .run = dx_run };
