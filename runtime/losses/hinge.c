/* hinge.c - a margin between the score of the correct class and those of the others. */
#include "runtime/losses/loss.h"

/* MultiMarginLoss: (1/C) sum over j != y of max(0, margin - z[y] + z[j])^p, then the mean over samples whose label counts. */
static ot_value *hinge(ot_loss *x)
{
    if (!x->t) {
        ot_loss_fail(x, OT_E_DATA, "the data has no target");
        return NULL;
    }
    int axis = ot_loss_axis(x);
    if (axis < 0) return NULL;
    const ot_shape *s = &x->z->shape;
    if (s->dim[axis] < 2) {
        ot_loss_fail(x, OT_E_DATA,
                     "hinge compares the scores of several classes, but this output has one "
                     "score per sample; use bce_with_logits with targets 0 and 1");
        return NULL;
    }
    ot_loss_accuracy(x, axis);
    ot_value *is = ot_loss_is_class(x, axis);
    ot_value *zy = ot_loss_sum_axis(x, where(x, is, x->z, num(x, 0)), axis, true);
    ot_value *m = row(x, OT_FN_Relu, add(x, sub(x, num(x, ot_spec_num(x->how, "margin")), zy), x->z));
    if (ot_spec_num(x->how, "p") == 2) m = row(x, OT_FN_Square, m);
    m = where(x, is, num(x, 0), m);
    m = mul(x, m, num(x, 1.0 / (double)s->dim[axis]));
    ot_value *counts = ot_loss_counts(x, axis);
    if (counts) return ot_loss_weighted(x, where(x, counts, m, num(x, 0)), ot_loss_label_weights(x, axis, NULL));
    return ot_loss_reduce(x, m, (double)(ot_numel(s) / s->dim[axis]));
}

static const ot_key keys[] = {
    OT_LOSS_KEYS,
    OT_LOSS_MARGIN("1", "least amount by which the score of the target class must exceed every other score"),
    { "p", "1", NULL, "exponent of what is missing to the margin", .kind = OT_KEY_WHOLE, OT_KEY_FROM(1, 2) },
    OT_LABEL_KEYS,
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_hinge = {
    .entry = { "hinge", "multi-class margin loss; the target contains class numbers", keys },
    .build = hinge,
    .takes = OT_TAKES_NUMBERS,
};
