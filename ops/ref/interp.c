/* interp.c - Interp, element by element in f64. */
#include "ops/interp.h"

#include "ops/kernel.h"

static ot_status interp_run(const ot_call *c)
{
    const ot_interp *a = c->node->attrs;
    ot_dtype         t = c->node->in[0]->dtype;
    int64_t          outer, n, inner;
    ot_interp_rows(c->node->in[0], a->axis, &outer, &n, &inner);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < a->size; i++)
            for (int64_t r = 0; r < inner; r++) {
                double y = a->add ? a->add[i] : 0;
                for (int64_t k = a->start[i]; k < a->start[i + 1]; k++)
                    y += a->weight[k] * ot_get_f64(c->in[0], t, (o * n + a->from[k]) * inner + r);
                ot_set_f64(c->out[0], t, (o * a->size + i) * inner + r, y);
            }
    return OT_OK;
}

const ot_kernel ot_ref_Interp = { .name = "ref", .run = interp_run, .any_layout = true };
