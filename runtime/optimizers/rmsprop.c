/* rmsprop.c - RMSprop: the gradient divided by the root of its average square.
 *
 * Source  Tieleman & Hinton 2012 */
#include "runtime/optimizers/update.h"

static ot_value *rmsprop(ot_update *x)
{
    ot_value *g = l2(x), *alpha = wide(x, par(x, "alpha"));
    ot_value *v = ot_update_average(x, OT_STATE_V, alpha, square(x, g));
    if (ot_spec_flag(x->o, "centered")) v = sub(x, v, square(x, ot_update_average(x, OT_STATE_MEAN, alpha, g)));
    ot_value *d = quo(x, g, add(x, root(x, v), num(x, par(x, "eps"))));
    if (par(x, "momentum") != 0 || x->moves_momentum) {
        ot_value *b = moment(x, OT_STATE_MOMENTUM, 0);
        d = keep(x, b, add(x, mul(x, narrow(x, x->momentum), b), d));
    }
    return step_by(x, x->w, x->lr, d);
}

static const ot_key keys[] = {
    OT_LR("1e-2"),
    OT_L2("0"),
    { "alpha", "0.99", NULL, "decay of the running average of squared gradients", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM(0, 1) },
    OT_EPS("1e-8"),
    { "centered", "false", NULL, "divide by the standard deviation of the gradient instead of its root mean square",
      .kind = OT_KEY_FLAG },
    OT_MOMENTUM("0"),
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_rmsprop = {
    { "rmsprop", "the gradient over the root of its average square", keys }, rmsprop, "momentum", NULL
};
