/* resample.c - Resample, element by element in f64. */
#include "ops/kernels/resample.h"

#include "ops/kernel.h"

static ot_status interp_run(const ot_call *c)
{
    const ot_resample *a = c->node->attrs;
    const ot_value *x = c->node->in[0], *y = c->node->out[0];
    int64_t xs[OT_MAX_RANK], ys[OT_MAX_RANK], k[OT_MAX_RANK] = { 0 }, total = ot_numel(&y->shape);
    ot_value_strides(x, xs);
    ot_value_strides(y, ys);
    for (int64_t e = 0; e < total; e++) {
        int64_t i = k[a->axis], from = 0, to = 0;
        double v = a->add ? a->add[i] : 0;
        for (int d = 0; d < y->shape.rank; d++) {
            from += d == a->axis ? 0 : k[d] * xs[d];
            to += k[d] * ys[d];
        }
        for (int64_t t = a->start[i]; t < a->start[i + 1]; t++)
            v += a->weight[t] * ot_get_f64(c->in[0], x->dtype, from + a->from[t] * xs[a->axis]);
        ot_set_f64(c->out[0], y->dtype, to, v);
        for (int d = y->shape.rank - 1; d >= 0 && ++k[d] == y->shape.dim[d]; d--) k[d] = 0;
    }
    return OT_OK;
}

const ot_kernel ot_ref_Resample = { .name = "ref", .run = interp_run, .any_layout = true };
