/* nadam.c - Adam with Nesterov's momentum.
 *
 * Source  Dozat 2016 */
#include "runtime/optimizers/update.h"

/* mu_t = beta1 (1 - 0.5 0.96^(t decay)); its running product is a scalar state. */
static ot_value *nadam(ot_update *x)
{
    bool apart = ot_spec_flag(x->o, "decoupled_weight_decay");
    ot_value *g = apart ? x->g : l2(x), *w = apart ? ot_update_decayed(x) : x->w, *beta2 = wide(x, par(x, "beta2"));
    ot_value *decay = wide(x, par(x, "momentum_decay")), *half = wide(x, 0.5), *base = wide(x, 0.96), *one = wide(x, 1);
    ot_value *next = add(x, x->t, one);
    ot_value *mu = mul(x, x->momentum, sub(x, one, mul(x, half, power(x, base, mul(x, x->t, decay)))));
    ot_value *mu1 = mul(x, x->momentum, sub(x, one, mul(x, half, power(x, base, mul(x, next, decay)))));
    ot_value *s = ot_graph_state(x->b.graph, OT_STATE_MU, x->file_w, OT_F64, &OT_SCALAR, 1);
    ot_value *product = keep(x, s, mul(x, s, mu));
    ot_value *m = ot_update_average(x, OT_STATE_M, x->momentum, g),
             *v = ot_update_average(x, OT_STATE_V, beta2, square(x, g));
    ot_value *c2 = narrow(x, ot_map1(&x->b, OT_FN_Rsqrt, 0, 0, correction(x, beta2)));
    ot_value *d = add(x, mul(x, root(x, v), c2), num(x, par(x, "eps")));
    ot_value *of_g = quo(x, mul(x, x->lr, sub(x, one, mu)), sub(x, one, product));
    ot_value *of_m = quo(x, mul(x, x->lr, mu1), sub(x, one, mul(x, product, mu1)));
    w = sub(x, w, mul(x, narrow(x, of_g), quo(x, g, d)));
    return sub(x, w, mul(x, narrow(x, of_m), quo(x, m, d)));
}

static const ot_key keys[] = {
    OT_LR("2e-3"),
    OT_L2("0"),
    OT_BETA1,
    OT_BETA2("0.999"),
    OT_EPS("1e-8"),
    { "momentum_decay", "4e-3", NULL, "rate at which the momentum approaches beta1", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    OT_DECOUPLED,
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_nadam = { { "nadam", "adam with Nesterov's momentum", keys }, nadam, "beta1", NULL };
