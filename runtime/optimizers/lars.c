/* lars.c - LARS: momentum with a learning rate per layer that depends on the norms of its weights and gradients, for
 * large batches.
 *
 * Source  You et al. 2017 */
#include "runtime/optimizers/update.h"

static ot_value *lars(ot_update *x)
{
    ot_value *nw = ot_update_norm(x, x->w), *ng = ot_update_norm(x, x->g), *b = moment(x, OT_STATE_MOMENTUM, 0);
    ot_value *below = add(x, add(x, ng, scaled(x, nw, x->decay)), num(x, par(x, "eps")));
    double eta = par(x, ot_spec_find(x->o, "eta") ? "eta" : "trust_coefficient");
    ot_value *q = ot_update_trust(x, nw, ng, quo(x, scaled(x, nw, eta), below));
    ot_value *now = keep(x, b, add(x, mul(x, narrow(x, x->momentum), b), mul(x, q, l2(x))));
    return step_by(x, x->w, x->lr, now);
}

static const ot_key keys[] = {
    OT_LR("1"),
    OT_L2("0"),
    OT_MOMENTUM("0.9"),
    { "trust_coefficient", "1e-3", NULL, "factor on the weight's size over the gradient's", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    { "eta", NULL, "trust_coefficient", "another name of trust_coefficient", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    OT_EPS("1e-8"),
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_lars = {
    { "lars", "momentum with rates by the size of each weight tensor, for large batches", keys }, lars, "momentum", NULL
};
