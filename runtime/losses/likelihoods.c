/* likelihoods.c - negative log-likelihood of a target under a distribution whose parameters are the outputs.
 *
 * Source  PyTorch's PoissonNLLLoss and GaussianNLLLoss */
#include "runtime/losses/loss.h"

/* exp z - t z, or z - t log(z + eps); full: with Stirling's t log t - t + log(2 pi t) / 2 where t > 1 */
static ot_value *poisson_nll(ot_loss *x)
{
    static const double two_pi = 6.283185307179586;
    ot_value *t = ot_loss_target(x), *l;
    x->exponential = ot_spec_flag(x->how, "log_input");
    if (x->exponential) l = sub(x, row(x, OT_FN_Exp, x->z), mul(x, t, x->z));
    else l = sub(x, x->z, mul(x, t, row(x, OT_FN_Log, add(x, x->z, num(x, ot_spec_num(x->how, "eps"))))));
    if (!ot_spec_flag(x->how, "full")) return ot_loss_reduce(x, l, 0);
    ot_value *many = row2(x, OT_FN_Greater, t, num(x, 1)), *u = where(x, many, t, num(x, 1));
    ot_value *stirling = add(x, sub(x, mul(x, u, row(x, OT_FN_Log, u)), u),
                             mul(x, num(x, 0.5), row(x, OT_FN_Log, mul(x, num(x, two_pi), u))));
    return ot_loss_reduce(x, add(x, l, where(x, many, stirling, num(x, 0))), 0);
}

/* (log v + (z - t)^2 / v) / 2 with v = the output that `var` names, eps at least; full: with log(2 pi) / 2.  As in PyTorch a variance
 * below eps has the gradient of one that is eps: else it would stay there. */
static ot_value *gaussian_nll(ot_loss *x)
{
    static const double half_log_two_pi = 0.9189385332046727;
    ot_value *var = ot_loss_other(x, "var"), *eps = num(x, ot_spec_num(x->how, "eps"));
    ot_value *below = add(x, eps, sub(x, var, row(x, OT_FN_Detach, var))); /* eps, with the gradient of var */
    ot_value *v = where(x, row2(x, OT_FN_Less, var, eps), below, var);
    ot_value *l = add(x, row(x, OT_FN_Log, v), quo(x, row(x, OT_FN_Square, sub(x, x->z, ot_loss_target(x))), v));
    l = mul(x, num(x, 0.5), l);
    if (ot_spec_flag(x->how, "full")) l = add(x, l, num(x, half_log_two_pi));
    return ot_loss_reduce(x, l, 0);
}

static const ot_key poisson_keys[] = {
    OT_LOSS_KEYS,
    { "log_input", "true", NULL, "the output is the logarithm of the rate", .kind = OT_KEY_FLAG },
    { "full", "false", NULL, "with Stirling's approximation of what depends on the target alone", .kind = OT_KEY_FLAG },
    OT_LOSS_EPS("1e-8", "added to the rate in its logarithm (log_input=false)"),
    OT_KEYS_END,
};
static const ot_key gaussian_keys[] = {
    OT_LOSS_KEYS,
    { "var", NULL, NULL, "output with the variance", .kind = OT_KEY_OUTPUT },
    { "full", "false", NULL, "with the constant log(2 pi) / 2", .kind = OT_KEY_FLAG },
    OT_LOSS_EPS("1e-6", "minimum of the variance"),
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_poisson_nll = {
    .entry = { "poisson_nll", "negative log-likelihood of counts under a Poisson distribution", poisson_keys },
    .build = poisson_nll,
    .takes = OT_TAKES_VALUES,
};

const ot_loss_kind ot_loss_kind_gaussian_nll = {
    .entry = { "gaussian_nll", "negative log-likelihood under a normal distribution whose variance is another output",
               gaussian_keys },
    .build = gaussian_nll,
    .takes = OT_TAKES_VALUES,
};
