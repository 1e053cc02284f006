/* pairlosses.c - part of the pass `loss`: losses over vectors and their distances, and likelihoods with a spread of their own.
 *
 * Shapes  vectors lie along the last axis; a loss over several outputs names the others by keys.
 * Source  PyTorch's CosineEmbeddingLoss, TripletMarginLoss, PoissonNLLLoss, GaussianNLLLoss; contrastive: Hadsell et al. 2006 */
#include <math.h>
#include <string.h>

#include "runtime/passes/loss.h"

static bool vectors(ot_loss *x)
{
    return x->z->shape.rank > 0 || ot_loss_fail(x, OT_E_MODEL, "it compares vectors, and this output is a number") == OT_OK;
}

/* A number per vector of z; 1 along its last axis. */
static ot_value *per_vector(ot_loss *x)
{
    ot_shape s = x->z->shape;
    if (!x->t) return ot_loss_fail(x, OT_E_DATA, "the data has no target"), NULL;
    s.dim[s.rank - 1] = 1;
    if (ot_numel(&x->t->shape) != ot_numel(&s)) return ot_loss_fail(x, OT_E_DATA, "the target has one number for each vector of the output"), NULL;
    return ot_cast(&x->b, ot_view(&x->b, x->t, &s), x->z->dtype);
}

static ot_value *sum_last(ot_loss *x, ot_value *v) { return ot_loss_sum_axis(x, v, x->z->shape.rank - 1, true); }

/* ||a - c + eps||_p, as PyTorch's pairwise_distance. */
static ot_value *distance(ot_loss *x, ot_value *a, ot_value *c)
{
    double    p = ot_spec_num(x->how, "p", 2);
    ot_value *d = add(x, sub(x, a, c), num(x, ot_spec_num(x->how, "eps", 1e-6)));
    return p == 1 ? sum_last(x, row(x, OT_FN_Abs, d)) : row(x, OT_FN_Sqrt, sum_last(x, row(x, OT_FN_Square, d)));
}

static ot_value *above(ot_loss *x, ot_value *v) { return row(x, OT_FN_Relu, v); }

static ot_value *cosine_of(ot_loss *x, ot_value *a, ot_value *c)
{
    ot_value *na = add(x, sum_last(x, row(x, OT_FN_Square, a)), num(x, 1e-12)), *nc = add(x, sum_last(x, row(x, OT_FN_Square, c)), num(x, 1e-12));
    return quo(x, sum_last(x, mul(x, a, c)), row(x, OT_FN_Sqrt, mul(x, na, nc)));
}

/* With other=OUTPUT, whose target is 1 (alike) or -1 for each sample; else 1 - cos to a target of the output's shape. */
ot_value *ot_loss_cosine(ot_loss *x)
{
    if (!vectors(x)) return NULL;
    if (!ot_spec_find(x->how, "other")) return ot_loss_reduce(x, sub(x, num(x, 1), cosine_of(x, x->z, ot_loss_target(x))), 0);
    ot_value *c = cosine_of(x, x->z, ot_loss_other(x, "other")), *t = per_vector(x);
    ot_value *apart = above(x, sub(x, c, num(x, ot_spec_num(x->how, "margin", 0))));
    return ot_loss_reduce(x, where(x, row2(x, OT_FN_Greater, t, num(x, 0)), sub(x, num(x, 1), c), apart), 0);
}

/* Target 1 (alike) or 0: t d^2 + (1 - t) max(0, margin - d)^2 */
ot_value *ot_loss_contrastive(ot_loss *x)
{
    if (!vectors(x)) return NULL;
    ot_value *d = distance(x, x->z, ot_loss_other(x, "other")), *t = per_vector(x);
    ot_value *near = row(x, OT_FN_Square, d), *far = row(x, OT_FN_Square, above(x, sub(x, num(x, ot_spec_num(x->how, "margin", 1)), d)));
    return ot_loss_reduce(x, where(x, row2(x, OT_FN_Greater, t, num(x, 0)), near, far), 0);
}

/* max(0, d(z, positive) - d(z, negative) + margin) */
ot_value *ot_loss_triplet(ot_loss *x)
{
    if (!vectors(x)) return NULL;
    ot_value *p = ot_loss_other(x, "positive"), *n = ot_loss_other(x, "negative");
    ot_value *near = distance(x, x->z, p), *far = distance(x, x->z, n);
    if (ot_spec_flag(x->how, "swap", false)) far = row2(x, OT_FN_Min, far, distance(x, p, n));
    return ot_loss_reduce(x, above(x, add(x, sub(x, near, far), num(x, ot_spec_num(x->how, "margin", 1)))), 0);
}

/* exp z - t z, or z - t log(z + eps); full: with Stirling's t log t - t + log(2 pi t) / 2 where t > 1 */
ot_value *ot_loss_poisson_nll(ot_loss *x)
{
    static const double two_pi = 6.283185307179586;
    ot_value *t = ot_loss_target(x), *l;
    if (ot_spec_flag(x->how, "log_input", true)) l = sub(x, row(x, OT_FN_Exp, x->z), mul(x, t, x->z));
    else l = sub(x, x->z, mul(x, t, row(x, OT_FN_Log, add(x, x->z, num(x, ot_spec_num(x->how, "eps", 1e-8))))));
    if (!ot_spec_flag(x->how, "full", false)) return ot_loss_reduce(x, l, 0);
    ot_value *many = row2(x, OT_FN_Greater, t, num(x, 1)), *u = where(x, many, t, num(x, 1));
    ot_value *stirling = add(x, sub(x, mul(x, u, row(x, OT_FN_Log, u)), u), mul(x, num(x, 0.5), row(x, OT_FN_Log, mul(x, num(x, two_pi), u))));
    return ot_loss_reduce(x, add(x, l, where(x, many, stirling, num(x, 0))), 0);
}

/* (log v + (z - t)^2 / v) / 2 with v = the output that `var` names, eps at least; full: with log(2 pi) / 2 */
ot_value *ot_loss_gaussian_nll(ot_loss *x)
{
    static const double half_log_two_pi = 0.9189385332046727;
    ot_value *v = row2(x, OT_FN_Max, ot_loss_other(x, "var"), num(x, ot_spec_num(x->how, "eps", 1e-6)));
    ot_value *l = add(x, row(x, OT_FN_Log, v), quo(x, row(x, OT_FN_Square, sub(x, x->z, ot_loss_target(x))), v));
    l = mul(x, num(x, 0.5), l);
    if (ot_spec_flag(x->how, "full", false)) l = add(x, l, num(x, half_log_two_pi));
    return ot_loss_reduce(x, l, 0);
}
