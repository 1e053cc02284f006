/* adadelta.c - Adadelta: steps scaled by the RMS of earlier steps.
 *
 * Source  Zeiler 2012 */
#include "runtime/optimizers/update.h"

static ot_value *adadelta(ot_update *x)
{
    ot_value *g = l2(x), *rho = wide(x, par(x, "rho")), *eps = num(x, par(x, "eps"));
    ot_value *v = ot_update_average(x, OT_STATE_V, rho, square(x, g)), *a = moment(x, OT_STATE_DELTA, 0);
    ot_value *d = mul(x, quo(x, root(x, add(x, a, eps)), root(x, add(x, v, eps))), g);
    ot_value *b = narrow(x, rho), *c = narrow(x, sub(x, wide(x, 1), rho));
    keep(x, a, add(x, mul(x, b, a), mul(x, c, square(x, d))));
    return step_by(x, x->w, x->lr, d);
}

static const ot_key keys[] = {
    OT_LR("1"),
    OT_L2("0"),
    { "rho", "0.9", NULL, "decay of the running averages of squared gradients and squared steps", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM(0, 1) },
    { "eps", "1e-6", NULL, "added to both averages before their roots", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_adadelta = {
    { "adadelta", "steps in proportion to the average size of earlier steps", keys }, adadelta, NULL, NULL
};
