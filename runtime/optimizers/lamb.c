/* lamb.c - LAMB: Adam with a learning rate per layer that depends on the norm of its weights, for large batches.
 *
 * Source  You et al. 2019 */
#include "runtime/optimizers/update.h"

static ot_value *lamb(ot_update *x)
{
    ot_value *beta2 = wide(x, par(x, "beta2"));
    ot_value *m = ot_update_average(x, OT_STATE_M, x->momentum, x->g),
             *v = ot_update_average(x, OT_STATE_V, beta2, square(x, x->g));
    ot_value *c1 = narrow(x, quo(x, wide(x, 1), correction(x, x->momentum)));
    ot_value *c2 = narrow(x, ot_map1(&x->b, OT_FN_Rsqrt, 0, 0, correction(x, beta2)));
    ot_value *u = quo(x, mul(x, m, c1), add(x, mul(x, root(x, v), c2), num(x, par(x, "eps"))));
    if (x->decay != 0) u = add(x, u, scaled(x, x->w, x->decay));
    ot_value *nw = ot_update_norm(x, x->w), *nu = ot_update_norm(x, u);
    return step_by(x, x->w, x->lr, mul(x, ot_update_trust(x, nw, nu, quo(x, nw, nu)), u));
}

static const ot_key keys[] = {
    OT_LR("1e-3"),
    { "weight_decay", "0", NULL, "this times the weight is added to the step, before its size is measured",
      .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    OT_BETA1,
    OT_BETA2("0.999"),
    OT_EPS("1e-6"),
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_lamb = {
    { "lamb", "adam with rates by the size of each weight tensor, for large batches", keys }, lamb, "beta1", NULL
};
