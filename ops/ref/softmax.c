/* softmax.c - SoftmaxAxis and its gradient, the plain loops.  Numerics: f64 throughout. */
#include "ops/kernels/move.h"
#include "ops/kernels/softmax.h"

#include <math.h>

#include "ops/kernel.h"
#include "ops/ref/element.h"

OT_INLINE void rows(ot_dtype t, ot_along v, bool logarithm, const void *x, void *y)
{
    for (int64_t b = 0; b < v.outer; b++)
        for (int64_t a = 0; a < v.inner; a++) {
            int64_t at = b * v.n * v.inner + a;
            double max = -INFINITY, sum = 0;
            for (int64_t i = 0; i < v.n; i++) {
                double e = ot_load(x, t, at + i * v.inner);
                if (e > max) max = e;
            }
            for (int64_t i = 0; i < v.n; i++) sum += exp(ot_load(x, t, at + i * v.inner) - max);
            for (int64_t i = 0; i < v.n; i++) {
                double e = ot_load(x, t, at + i * v.inner) - max;
                ot_store(y, t, at + i * v.inner, logarithm ? e - log(sum) : exp(e) / sum);
            }
        }
}

OT_INLINE void rows_grad(ot_dtype t, ot_along v, bool logarithm, const void *dy, const void *y, void *dx)
{
    for (int64_t b = 0; b < v.outer; b++)
        for (int64_t a = 0; a < v.inner; a++) {
            int64_t at = b * v.n * v.inner + a;
            double sum = 0;
            for (int64_t i = 0; i < v.n; i++) {
                double g = ot_load(dy, t, at + i * v.inner);
                sum += logarithm ? g : g * ot_load(y, t, at + i * v.inner);
            }
            for (int64_t i = 0; i < v.n; i++) {
                double g = ot_load(dy, t, at + i * v.inner), e = ot_load(y, t, at + i * v.inner);
                ot_store(dx, t, at + i * v.inner, logarithm ? g - exp(e) * sum : e * (g - sum));
            }
        }
}

static ot_status rows_run(const ot_call *c)
{
    const ot_softmax_axis *a = c->node->attrs;
    const ot_value *x = c->node->in[0];
    OT_BY_TYPE(x->dtype, rows, ot_along_axis(&x->shape, a->axis), a->log != 0, c->in[0], c->out[0]);
    return OT_OK;
}

static ot_status dx_run(const ot_call *c)
{
    const ot_softmax_axis *a = c->node->attrs;
    const ot_value *y = c->node->in[1];
    OT_BY_TYPE(y->dtype, rows_grad, ot_along_axis(&y->shape, a->axis), a->log != 0, c->in[0], c->in[1], c->out[0]);
    return OT_OK;
}

const ot_kernel ot_ref_SoftmaxAxis = { .name = "ref", .run = rows_run };
const ot_kernel ot_ref_SoftmaxAxisDx = { .name = "ref", .run = dx_run };
