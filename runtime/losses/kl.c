/* kl.c - the Kullback-Leibler divergence of the output from a target of probabilities. */
#include "runtime/losses/loss.h"

/* KLDivLoss with reduction='batchmean'. */
static ot_value *kl(ot_loss *x)
{
    ot_value *t = ot_loss_target(x);
    double n = x->z->shape.rank ? (double)x->z->shape.dim[0] : 1;
    x->exponential = !ot_spec_flag(x->how, "log_target");
    if (!x->exponential) return ot_loss_reduce(x, mul(x, row(x, OT_FN_Exp, t), sub(x, t, x->z)), n);
    return ot_loss_reduce(x, row2(x, OT_FN_KlTerm, x->z, t), n);
}

static const ot_key keys[] = {
    OT_LOSS_KEYS,
    { "log_target", "false", NULL, "the target contains log-probabilities", .kind = OT_KEY_FLAG },
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_kl = {
    .entry = { "kl", "Kullback-Leibler divergence of log-probabilities from a target of probabilities", keys },
    .build = kl,
    .takes = OT_TAKES_VALUES,
    .unlike = OT_TAIL_BIT(SOFTMAX) | OT_TAIL_BIT(SIGMOID),
    .acts_on = "log-probabilities",
    .logs = true,
    .distribution = true,
};
