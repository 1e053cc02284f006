/* lion.c - Lion: steps by the sign of an averaged gradient.
 *
 * Source  Chen et al. 2023 */
#include "runtime/optimizers/update.h"

static ot_value *lion(ot_update *x)
{
    ot_value *m = moment(x, OT_STATE_M, 0), *b1 = narrow(x, x->momentum), *one = num(x, 1);
    ot_value *u = ot_map1(&x->b, OT_FN_Sign, 0, 0, add(x, mul(x, b1, m), mul(x, sub(x, one, b1), x->g)));
    double b2 = par(x, "beta2");
    keep(x, m, add(x, scaled(x, m, b2), scaled(x, x->g, 1 - b2)));
    return step_by(x, x->w, x->lr, x->decay == 0 ? u : add(x, u, scaled(x, x->w, x->decay)));
}

static const ot_key keys[] = {
    OT_LR("1e-4"),
    OT_DECAY("0"),
    { "beta1", "0.9", NULL, "weight of the average in the step, against the gradient", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM_BELOW(0, 1) },
    { "beta2", "0.99", NULL, "decay of the running average of gradients", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM_BELOW(0, 1) },
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_lion = { { "lion", "the sign of an average of gradients", keys }, lion, "beta1", NULL };
