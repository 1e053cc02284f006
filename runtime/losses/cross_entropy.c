/* cross_entropy.c - the losses of classifiers: cross_entropy over logits, nll over log-probabilities. */
#include "runtime/losses/loss.h"

#include "ops/kernels/crossentropy.h"

/* In an evaluation: the sum of the weights of the labels that count, by which the mean divides. */
static void keep_divisor(ot_loss *x, int axis, ot_value *w)
{
    bool mean = !ot_spec_is(x->how, "reduction", "sum");
    if (!x->of || !mean) return; /* not counted: there are no class numbers */
    x->divisor = x->of;
    if (!w) return;
    x->divisor = ot_loss_sum_all(x, ot_loss_label_weights(x, axis, w));
}

static ot_value *over_classes(ot_loss *x)
{
    if (!x->t) {
        ot_loss_fail(x, OT_E_DATA, "the data has no target");
        return NULL;
    }
    int axis = ot_loss_axis(x);
    if (axis < 0) return NULL;
    ot_value *w = ot_loss_class_weights(x, x->z->shape.dim[axis]);
    ot_loss_accuracy(x, axis);
    keep_divisor(x, axis, w);
    ot_loss_probabilities_accuracy(x, axis);
    return ot_loss_cross_entropy(x, axis, w,
                                 ot_spec_is(x->how, "reduction", "sum") ? OT_REDUCTION_SUM : OT_REDUCTION_MEAN);
}

static const ot_key cross_entropy_keys[] = {
    OT_LOSS_KEYS,
    OT_CLASS_KEYS,
    { "label_smoothing", "0", NULL, "part of each target that is spread evenly over all classes", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM(0, 1) },
    OT_KEYS_END,
};
static const ot_key nll_keys[] = { OT_LOSS_KEYS, OT_CLASS_KEYS, OT_KEYS_END };

const ot_loss_kind ot_loss_kind_cross_entropy = {
    .entry = { "cross_entropy",
               "cross-entropy over classes, from scores; the target contains class numbers or probabilities",
               cross_entropy_keys },
    .build = over_classes,
    .takes = OT_TAKES_CLASSES,
    .undoes = OT_TAIL_BIT(SOFTMAX),
    .unlike = OT_TAIL_BIT(SIGMOID),
    .acts_on = "logits, one for each class",
};

const ot_loss_kind ot_loss_kind_nll = {
    .entry = { "nll", "negative log-likelihood of classes, from log-probabilities (LogSoftmax)", nll_keys },
    .build = over_classes,
    .takes = OT_TAKES_CLASSES,
    .undoes = OT_TAIL_BIT(LOG_SOFTMAX),
    .unlike = OT_TAIL_BIT(SOFTMAX) | OT_TAIL_BIT(SIGMOID),
    .acts_on = "log-probabilities",
    .logs = true,
};
