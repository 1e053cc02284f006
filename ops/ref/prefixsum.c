/* prefixsum.c - PrefixSum, line after line; floats in f64, integers modulo 2^64. */
#include "ops/kernel.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/prefixsum.h"

static ot_status prefix_sum_run(const ot_call *c)
{
    const ot_prefix_sum *a = c->node->attrs;
    const ot_value *x = c->node->in[0];
    ot_dtype t = x->dtype;
    ot_along r = ot_along_axis(&x->shape, a->axis);
    for (int64_t l = 0; l < r.outer * r.inner; l++) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t i = 0; i < r.n; i++) {
            int64_t k = a->reverse ? r.n - 1 - i : i;
            int64_t at = (l / r.inner * r.n + k) * r.inner + l % r.inner;
            double before = sum;
            uint64_t whole_before = whole;
            if (ot_is_float(t)) sum += ot_get_f64(c->in[0], t, at);
            else whole += (uint64_t)ot_get_i64(c->in[0], t, at);
            if (ot_is_float(t)) ot_set_f64(c->out[0], t, at, a->exclusive ? before : sum);
            else ot_set_i64(c->out[0], t, at, (int64_t)(a->exclusive ? whole_before : whole));
        }
    }
    return OT_OK;
}

const ot_kernel ot_ref_PrefixSum = { .name = "ref", .run = prefix_sum_run, .inplace = 1 };
