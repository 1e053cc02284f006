/* sgd.c - stochastic gradient descent, with momentum. */
#include "runtime/optimizers/update.h"

static ot_value *sgd(ot_update *x)
{
    ot_value *g = l2(x);
    if (par(x, "momentum") == 0 && !x->moves_momentum) return step_by(x, x->w, x->lr, g);
    double damp = par(x, "dampening");
    ot_value *mu = narrow(x, x->momentum), *b = moment(x, OT_STATE_MOMENTUM, 0), *scale = num(x, 1 - damp);
    if (damp != 0) { /* the first update uses g unscaled */
        ot_value *first = ot_map2(&x->b, OT_FN_Equal, 0, 0, x->t, wide(x, 1));
        scale = narrow(x, ot_map3(&x->b, OT_FN_Where, 0, 0, first, wide(x, 1), wide(x, 1 - damp)));
    }
    ot_value *now = keep(x, b, add(x, mul(x, mu, b), damp == 0 ? g : mul(x, scale, g)));
    return step_by(x, x->w, x->lr, ot_spec_flag(x->o, "nesterov") ? add(x, g, mul(x, mu, now)) : now);
}

static const char *refuses(const ot_spec *o)
{
    bool plain = ot_spec_num(o, "momentum") <= 0 || ot_spec_num(o, "dampening") != 0;
    return plain && ot_spec_flag(o, "nesterov") ? "nesterov needs a momentum and no dampening" : NULL;
}

static const ot_key keys[] = {
    OT_LR("1e-2"),
    OT_L2("0"),
    OT_MOMENTUM("0"),
    { "dampening", "0", NULL, "part of each gradient that does not enter the momentum", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    { "nesterov", "false", NULL, "Nesterov momentum", .kind = OT_KEY_FLAG },
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_sgd = {
    { "sgd", "gradient descent; momentum and Nesterov's form on request", keys }, sgd, "momentum", refuses
};
