/* adagrad.c - Adagrad: learning rates that decrease with the sum of squared gradients.
 *
 * Source  Duchi et al. 2011 */
#include "runtime/optimizers/update.h"

static ot_value *adagrad(ot_update *x)
{
    ot_value *g = l2(x), *s = moment(x, OT_STATE_SUM, par(x, "initial_accumulator_value"));
    ot_value *now = keep(x, s, add(x, s, square(x, g)));
    ot_value *age = add(x, wide(x, 1), mul(x, sub(x, x->t, wide(x, 1)), wide(x, par(x, "lr_decay"))));
    return step_by(x, x->w, quo(x, x->lr, age), quo(x, g, add(x, root(x, now), num(x, par(x, "eps")))));
}

static const ot_key keys[] = {
    OT_LR("1e-2"),
    OT_L2("0"),
    { "lr_decay", "0", NULL, "the rate is divided by 1 + lr_decay (update - 1)", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    { "initial_accumulator_value", "0", NULL, "initial value of the sum of squares", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    OT_EPS("1e-10"),
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_adagrad = {
    { "adagrad", "rates that fall with the sum of squared gradients", keys }, adagrad, NULL, NULL
};
