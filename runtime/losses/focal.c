/* focal.c - focal loss: cross-entropy with less weight on well-classified samples.
 *
 * Source  Lin et al. 2017; torchvision's sigmoid_focal_loss */
#include "runtime/losses/loss.h"

#include "ops/kernels/crossentropy.h"

/* Binary, as in torchvision's sigmoid_focal_loss: the terms of binary cross-entropy, each times (1 - the probability
 * of the correct class)^gamma and alpha or 1 - alpha.  With class numbers, the same with softmax: gamma only, and
 * class_weights; the mean divides by the weights of the labels that count, as that of cross_entropy. */
static ot_value *focal(ot_loss *x)
{
    double gamma = ot_spec_num(x->how, "gamma"), alpha = ot_spec_num(x->how, "alpha");
    if (ot_loss_has_classes(x)) {
        int axis = ot_loss_axis(x);
        if (axis < 0) return NULL;
        if (ot_spec_find(x->how, "alpha")) {
            ot_loss_fail(x, OT_E_USAGE,
                         "alpha weights positive against "
                         "negative; use class_weights for "
                         "classes");
            return NULL;
        }
        ot_loss_accuracy(x, axis);
        ot_value *w = ot_loss_class_weights(x, x->z->shape.dim[axis]),
                 *ce = ot_loss_cross_entropy(x, axis, NULL, OT_REDUCTION_NONE);
        ot_value *wrong = sub(x, num(x, 1), row(x, OT_FN_Exp, row(x, OT_FN_Neg, ce)));
        ot_value *l = mul(x, ot_map1(&x->b, OT_FN_PowP, gamma, 0, wrong),
                          w ? ot_loss_cross_entropy(x, axis, w, OT_REDUCTION_NONE) : ce);
        int64_t ignored;
        if (w || ot_loss_ignored(x, &ignored)) return ot_loss_weighted(x, l, ot_loss_label_weights(x, axis, w));
        return ot_loss_reduce(x, l, 0);
    }
    if (!ot_loss_no_labels(x)) return NULL;
    ot_value *t = ot_loss_target(x), *z = x->z;
    ot_loss_binary_accuracy(x, t, 0);
    ot_value *no = sub(x, num(x, 1), t), *p = row(x, OT_FN_Sigmoid, z),
             *wrong = add(x, mul(x, t, sub(x, num(x, 1), p)), mul(x, no, p));
    ot_value *l = mul(x, row2(x, OT_FN_BceWithLogits, z, t), ot_map1(&x->b, OT_FN_PowP, gamma, 0, wrong));
    if (alpha >= 0) l = mul(x, l, add(x, mul(x, num(x, alpha), t), mul(x, num(x, 1 - alpha), no)));
    return ot_loss_reduce(x, l, 0);
}

static const ot_key keys[] = {
    OT_LOSS_KEYS,
    { "gamma", "2", NULL, "exponent of the probability of the wrong answer", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    { "alpha", "0.25", NULL,
      "weight of the terms whose target is 1; the terms whose target is 0 have weight 1 - alpha; not for class numbers",
      .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) },
    OT_CLASS_KEYS,
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_focal = {
    .entry = { "focal", "cross-entropy with less weight on easy samples; over classes, or binary for each element",
               keys },
    .build = focal,
    .takes = OT_TAKES_EITHER,
    .shares = true,
    .undoes = OT_TAIL_BIT(SOFTMAX) | OT_TAIL_BIT(LOG_SOFTMAX) | OT_TAIL_BIT(SIGMOID),
};
