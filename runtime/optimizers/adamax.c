/* adamax.c - Adamax: Adam with the infinity norm instead of the root of the average square.
 *
 * Source  Kingma & Ba 2015, section 7 */
#include "runtime/optimizers/update.h"

static ot_value *adamax(ot_update *x)
{
    ot_value *g = l2(x), *m = ot_update_average(x, OT_STATE_M, x->momentum, g), *u = moment(x, OT_STATE_U, 0);
    ot_value *size = add(x, ot_map1(&x->b, OT_FN_Abs, 0, 0, g), num(x, par(x, "eps")));
    ot_value *now = keep(x, u, larger(x, scaled(x, u, par(x, "beta2")), size));
    return step_by(x, x->w, quo(x, x->lr, correction(x, x->momentum)), quo(x, m, now));
}

static const ot_key keys[] = {
    OT_LR("2e-3"),
    OT_L2("0"),
    OT_BETA1,
    { "beta2", "0.999", NULL, "decay of the largest gradient", .kind = OT_KEY_NUMBER, OT_KEY_FROM_BELOW(0, 1) },
    { "eps", "1e-8", NULL, "added to the size of the gradient", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_adamax = {
    { "adamax", "adam with the largest gradient in place of the average square", keys }, adamax, "beta1", NULL
};
