/* vectors.c - losses over vectors and their distances.
 *
 * Shapes  vectors are along the last axis; a loss over several outputs names the others by keys.
 * Source  PyTorch's CosineEmbeddingLoss, TripletMarginLoss; contrastive: Hadsell et al. 2006 */
#include "runtime/losses/loss.h"

static bool vectors(ot_loss *x)
{
    return x->z->shape.rank > 0 || ot_loss_fail(x, OT_E_MODEL,
                                                "it compares vectors, but this output is one number "
                                                "per sample") == OT_OK;
}

/* A number per vector of z; the last axis is 1. */
static ot_value *per_vector(ot_loss *x)
{
    ot_shape s = x->z->shape;
    if (!x->t) {
        ot_loss_fail(x, OT_E_DATA, "the data has no target");
        return NULL;
    }
    s.dim[s.rank - 1] = 1;
    if (ot_numel(&x->t->shape) != ot_numel(&s)) {
        ot_loss_fail(x, OT_E_DATA,
                     "the target must have one number for "
                     "each vector of the output");
        return NULL;
    }
    return ot_cast(&x->b, ot_view(&x->b, x->t, &s), x->z->dtype);
}

static ot_value *sum_last(ot_loss *x, ot_value *v) { return ot_loss_sum_axis(x, v, x->z->shape.rank - 1, true); }

/* ||a - c + eps||_p, as PyTorch's pairwise_distance. */
static ot_value *distance(ot_loss *x, ot_value *a, ot_value *c)
{
    double p = ot_spec_num(x->how, "p");
    ot_value *d = add(x, sub(x, a, c), num(x, ot_spec_num(x->how, "eps")));
    return p == 1 ? sum_last(x, row(x, OT_FN_Abs, d)) : row(x, OT_FN_Sqrt, sum_last(x, row(x, OT_FN_Square, d)));
}

static ot_value *above(ot_loss *x, ot_value *v) { return row(x, OT_FN_Relu, v); }

static ot_value *cosine_of(ot_loss *x, ot_value *a, ot_value *c)
{
    ot_value *na = add(x, sum_last(x, row(x, OT_FN_Square, a)), num(x, 1e-12)),
             *nc = add(x, sum_last(x, row(x, OT_FN_Square, c)), num(x, 1e-12));
    return quo(x, sum_last(x, mul(x, a, c)), row(x, OT_FN_Sqrt, mul(x, na, nc)));
}

/* With other=OUTPUT, whose target is 1 (similar) or -1 per sample; else 1 - cos with a target of the output's shape. */
static ot_value *cosine(ot_loss *x)
{
    if (!vectors(x)) return NULL;
    if (!ot_spec_find(x->how, "other"))
        return ot_loss_reduce(x, sub(x, num(x, 1), cosine_of(x, x->z, ot_loss_target(x))), 0);
    ot_value *c = cosine_of(x, x->z, ot_loss_other(x, "other")), *t = per_vector(x);
    ot_value *apart = above(x, sub(x, c, num(x, ot_spec_num(x->how, "margin"))));
    return ot_loss_reduce(x, where(x, row2(x, OT_FN_Greater, t, num(x, 0)), sub(x, num(x, 1), c), apart), 0);
}

/* Target 1 (similar) or 0: t d^2 + (1 - t) max(0, margin - d)^2 */
static ot_value *contrastive(ot_loss *x)
{
    if (!vectors(x)) return NULL;
    ot_value *d = distance(x, x->z, ot_loss_other(x, "other")), *t = per_vector(x);
    ot_value *near = row(x, OT_FN_Square, d),
             *far = row(x, OT_FN_Square, above(x, sub(x, num(x, ot_spec_num(x->how, "margin")), d)));
    return ot_loss_reduce(x, where(x, row2(x, OT_FN_Greater, t, num(x, 0)), near, far), 0);
}

/* max(0, d(z, positive) - d(z, negative) + margin) */
static ot_value *triplet(ot_loss *x)
{
    if (!vectors(x)) return NULL;
    ot_value *p = ot_loss_other(x, "positive"), *n = ot_loss_other(x, "negative");
    ot_value *near = distance(x, x->z, p), *far = distance(x, x->z, n);
    if (ot_spec_flag(x->how, "swap")) far = row2(x, OT_FN_Min, far, distance(x, p, n));
    return ot_loss_reduce(x, above(x, add(x, sub(x, near, far), num(x, ot_spec_num(x->how, "margin")))), 0);
}

#define DISTANCE_KEYS                                                                                       \
    { "p", "2", NULL, "the norm of the distance: 1 or 2", .kind = OT_KEY_WHOLE, OT_KEY_FROM(1, 2) },                    \
    OT_LOSS_EPS("1e-6", "added to each difference")

static const ot_key cosine_keys[] = {
    OT_LOSS_KEYS,
    { "other", NULL, "the target", "output to compare with; the target is then 1 (alike) or -1 for each vector",
      .kind = OT_KEY_OUTPUT },
    OT_LOSS_MARGIN("0", "cosine up to which unlike vectors have no loss"),
    OT_KEYS_END,
};
static const ot_key triplet_keys[] = {
    OT_LOSS_KEYS,
    { "positive", NULL, NULL, "output of the positive example", .kind = OT_KEY_OUTPUT },
    { "negative", NULL, NULL, "output of the negative example", .kind = OT_KEY_OUTPUT },
    OT_LOSS_MARGIN("1", "required difference of the two distances"),
    DISTANCE_KEYS,
    { "swap", "false", NULL, "use the distance of positive and negative where it is smaller (distance swap)",
      .kind = OT_KEY_FLAG },
    OT_KEYS_END,
};
static const ot_key contrastive_keys[] = {
    OT_LOSS_KEYS,
    { "other", NULL, NULL, "output to compare with", .kind = OT_KEY_OUTPUT },
    OT_LOSS_MARGIN("1", "distance from which on unlike vectors have no loss"),
    DISTANCE_KEYS,
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_cosine = {
    .entry = { "cosine", "1 - the cosine of vectors and their targets, or of two outputs", cosine_keys },
    .build = cosine,
    .takes = OT_TAKES_VALUES,
};

const ot_loss_kind ot_loss_kind_triplet = {
    .entry = { "triplet",
               "distances of an output to a positive and a negative example, which are outputs too; no target",
               triplet_keys },
    .build = triplet,
    .takes = OT_TAKES_NOTHING,
};

const ot_loss_kind ot_loss_kind_contrastive = {
    .entry = { "contrastive",
               "contrastive loss over the distance of two outputs; the target is 1 (alike) or 0 for each vector",
               contrastive_keys },
    .build = contrastive,
    .takes = OT_TAKES_VECTORS,
};
