/* radam.c - RAdam: Adam with a rectified adaptive learning rate.
 *
 * Source  Liu et al. 2020 */
#include "runtime/optimizers/update.h"

/* While the variance of the adaptive rate is intractable (r <= 5), only momentum is used. */
static ot_value *radam(ot_update *x)
{
    bool apart = ot_spec_flag(x->o, "decoupled_weight_decay");
    double b2 = par(x, "beta2"), top = 2 / (1 - b2) - 1;
    ot_value *g = apart ? x->g : l2(x), *w = apart ? ot_update_decayed(x) : x->w, *beta2 = wide(x, b2);
    ot_value *m = ot_update_average(x, OT_STATE_M, x->momentum, g),
             *v = ot_update_average(x, OT_STATE_V, beta2, square(x, g));
    ot_value *c2 = correction(x, beta2), *two = wide(x, 2), *four = wide(x, 4);
    ot_value *r = sub(x, wide(x, top), quo(x, mul(x, mul(x, two, x->t), power(x, beta2, x->t)), c2));
    ot_value *tractable = ot_map2(&x->b, OT_FN_Greater, 0, 0, r, wide(x, 5));
    ot_value *safe = ot_map3(&x->b, OT_FN_Where, 0, 0, tractable, r, wide(x, 6));
    ot_value *rect = quo(x, mul(x, mul(x, sub(x, safe, four), sub(x, safe, two)), wide(x, top)),
                         mul(x, wide(x, (top - 4) * (top - 2)), safe));
    ot_value *rate = quo(x, x->lr, correction(x, x->momentum));
    ot_value *adapt = mul(x, rate, mul(x, root(x, rect), root(x, c2)));
    ot_value *full = quo(x, m, add(x, root(x, v), num(x, par(x, "eps"))));
    ot_value *d =
        ot_map3(&x->b, OT_FN_Where, 0, 0, tractable, mul(x, narrow(x, adapt), full), mul(x, narrow(x, rate), m));
    return sub(x, w, d);
}

static const ot_key keys[] = { OT_LR("1e-3"),  OT_L2("0"),   OT_BETA1,   OT_BETA2("0.999"),
                               OT_EPS("1e-8"), OT_DECOUPLED, OT_KEYS_END };

const ot_optimizer ot_optimizer_radam = {
    { "radam", "adam with a rectified rate: momentum alone in the first updates", keys }, radam, "beta1", NULL
};
