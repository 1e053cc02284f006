/* adam.c - Adam, and AdamW with decoupled weight decay.
 *
 * Source  Kingma & Ba 2015; Loshchilov & Hutter 2019; Reddi et al. 2018 (amsgrad) */
#include "runtime/optimizers/update.h"

/* m^ / (sqrt(v^) + eps) with learning rate lr / (1 - beta1^t), over the gradient g. */
static ot_value *step_of(ot_update *x, ot_value *w, ot_value *g, ot_value *rate)
{
    ot_value *beta2 = wide(x, par(x, "beta2"));
    ot_value *m = ot_update_average(x, OT_STATE_M, x->momentum, g),
             *v = ot_update_average(x, OT_STATE_V, beta2, square(x, g));
    if (ot_spec_flag(x->o, "amsgrad")) {
        ot_value *top = moment(x, OT_STATE_V_MAX, 0);
        v = keep(x, top, larger(x, top, v));
    }
    ot_value *c2 = narrow(x, ot_map1(&x->b, OT_FN_Rsqrt, 0, 0, correction(x, beta2)));
    ot_value *d = add(x, mul(x, root(x, v), c2), num(x, par(x, "eps")));
    return sub(x, w, mul(x, narrow(x, quo(x, rate, correction(x, x->momentum))), quo(x, m, d)));
}

static ot_value *adam(ot_update *x) { return step_of(x, x->w, l2(x), x->lr); }
static ot_value *adamw(ot_update *x) { return step_of(x, ot_update_decayed(x), x->g, x->lr); }

static const ot_key adam_keys[] = { OT_LR("1e-3"),  OT_L2("0"), OT_BETA1,   OT_BETA2("0.999"),
                                    OT_EPS("1e-8"), OT_AMSGRAD, OT_KEYS_END };
static const ot_key adamw_keys[] = { OT_LR("1e-3"),  OT_DECAY("1e-2"), OT_BETA1,   OT_BETA2("0.999"),
                                     OT_EPS("1e-8"), OT_AMSGRAD,       OT_KEYS_END };

const ot_optimizer ot_optimizer_adam = {
    { "adam", "rates adapted by averages of the gradient and of its square", adam_keys }, adam, "beta1", NULL
};
const ot_optimizer ot_optimizer_adamw = {
    { "adamw", "adam with decoupled weight decay", adamw_keys }, adamw, "beta1", NULL
};
