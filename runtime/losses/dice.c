/* dice.c - Dice loss: the overlap of regions, per class.
 *
 * Source  Milletari et al. 2016 */
#include "runtime/losses/loss.h"

#include "ops/kernels/softmax.h"

/* 1 - (2 sum p t + smooth) / (sum p + sum t + smooth) for each class that occurs, summed over the batch and all
 * positions whose label counts; then the mean over all classes.  p: softmax of the logits if the target has class numbers, else their
 * sigmoid; an output that ends in either is used unchanged. */
static ot_value *dice(ot_loss *x)
{
    bool classes = ot_loss_has_classes(x);
    int rank = x->z->shape.rank, axis = classes ? ot_loss_axis(x) : rank > 1 ? 1 : -1, n = 0;
    int64_t axes[OT_MAX_RANK];
    ot_value *t, *p = x->z;
    if (classes && axis < 0) return NULL;
    if (!classes && !ot_loss_no_labels(x)) return NULL;
    if (classes) ot_loss_accuracy(x, axis);
    t = classes ? ot_cast(&x->b, ot_loss_is_class(x, axis), x->z->dtype) : ot_loss_target(x);
    if (x->tail.kind == OT_TAIL_NONE && classes)
        p = ot_emit(&x->b, &ot_op_SoftmaxAxis, &(ot_softmax_axis){ .axis = axis }, OT_IN(p));
    else if (x->tail.kind == OT_TAIL_NONE) p = row(x, OT_FN_Sigmoid, p);
    else if (x->tail.kind == OT_TAIL_LOG_SOFTMAX) p = row(x, OT_FN_Exp, p);
    ot_value *counts = classes ? ot_loss_counts(x, axis) : NULL;
    if (counts) p = where(x, counts, p, num(x, 0)), t = where(x, counts, t, num(x, 0));
    if (!classes) ot_loss_binary_accuracy(x, t, x->tail.kind == OT_TAIL_NONE ? 0 : 0.5);
    for (int d = 0; d < rank; d++)
        if (d != axis) axes[n++] = d;
    double smooth = ot_spec_num(x->how, "smooth");
    ot_value *both = ot_sum(&x->b, mul(x, p, t), axes, n, false), *there = ot_sum(&x->b, t, axes, n, false),
             *all = ot_sum(&x->b, add(x, p, t), axes, n, false);
    ot_value *score = quo(x, add(x, mul(x, num(x, 2), both), num(x, smooth)),
                          row2(x, OT_FN_Max, add(x, all, num(x, smooth)), num(x, ot_spec_num(x->how, "eps"))));
    return ot_loss_reduce(x, where(x, row2(x, OT_FN_Greater, there, num(x, 0)), sub(x, num(x, 1), score), num(x, 0)),
                          0);
}

static const ot_key keys[] = {
    OT_LOSS_KEYS,
    { "smooth", "0", NULL, "added to numerator and denominator", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    OT_LOSS_EPS("1e-7", "minimum of the denominator"),
    OT_LABEL_KEYS,
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_dice = {
    .entry = { "dice", "1 - the overlap with the target (Dice coefficient), for segmentation", keys },
    .build = dice,
    .takes = OT_TAKES_EITHER,
    .shares = true,
};
