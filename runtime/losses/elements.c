/* elements.c - losses over the difference between each element and its target. */
#include "runtime/losses/loss.h"

static ot_value *difference(ot_loss *x) { return sub(x, x->z, ot_loss_target(x)); }
static ot_value *of_row(ot_loss *x, int r, double p, ot_value *v)
{
    return ot_loss_reduce(x, ot_map1(&x->b, r, p, 0, v), 0);
}

static ot_value *mse(ot_loss *x) { return of_row(x, OT_FN_Square, 0, difference(x)); }
static ot_value *l1(ot_loss *x) { return of_row(x, OT_FN_Abs, 0, difference(x)); }
static ot_value *huber(ot_loss *x) { return of_row(x, OT_FN_Huber, ot_spec_num(x->how, "delta"), difference(x)); }

static ot_value *smooth_l1(ot_loss *x)
{
    double beta = ot_spec_num(x->how, "beta");
    return beta == 0 ? l1(x) : of_row(x, OT_FN_SmoothL1, beta, difference(x));
}

static const ot_key huber_keys[] = {
    OT_LOSS_KEYS,
    { "delta", "1", NULL, "difference above which the loss is linear", .kind = OT_KEY_NUMBER, OT_KEY_ABOVE(0) },
    OT_KEYS_END,
};
static const ot_key smooth_l1_keys[] = {
    OT_LOSS_KEYS,
    { "beta", "1", NULL, "difference above which the loss is linear", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_mse = {
    .entry = { "mse", "mean squared error", ot_loss_keys },
    .build = mse,
    .takes = OT_TAKES_VALUES,
    .distance = true,
};

const ot_loss_kind ot_loss_kind_l1 = {
    .entry = { "l1", "mean absolute error", ot_loss_keys },
    .build = l1,
    .takes = OT_TAKES_VALUES,
    .distance = true,
};

const ot_loss_kind ot_loss_kind_huber = {
    .entry = { "huber", "squared error for small differences, linear for large ones", huber_keys },
    .build = huber,
    .takes = OT_TAKES_VALUES,
    .distance = true,
};

const ot_loss_kind ot_loss_kind_smooth_l1 = {
    .entry = { "smooth_l1", "huber divided by beta", smooth_l1_keys },
    .build = smooth_l1,
    .takes = OT_TAKES_VALUES,
    .distance = true,
};
