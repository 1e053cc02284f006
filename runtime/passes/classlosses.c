/* classlosses.c - part of the pass `loss`: losses over classes that are no cross-entropy. */
#include <math.h>
#include <string.h>

#include "ops/kernels/crossentropy.h"
#include "ops/kernels/softmax.h"
#include "runtime/passes/loss.h"

/* MultiMarginLoss: (1/C) sum over j != y of max(0, margin - z[y] + z[j])^p, then the mean over samples. */
ot_value *ot_loss_hinge(ot_loss *x)
{
    if (!x->t) return ot_loss_fail(x, OT_E_DATA, "the data has no target"), NULL;
    int axis = ot_loss_axis(x);
    if (axis < 0) return NULL;
    const ot_shape *s = &x->z->shape;
    if (s->dim[axis] < 2)
        return ot_loss_fail(x, OT_E_DATA, "hinge compares the scores of several classes, and this output has one score per sample; "
                            "bce_with_logits takes targets of 0 and 1 for it"), NULL;
    ot_loss_accuracy(x, axis);
    ot_value *is = ot_loss_is_class(x, axis);
    ot_value *zy = ot_loss_sum_axis(x, where(x, is, x->z, num(x, 0)), axis, true);
    ot_value *m = row(x, OT_FN_Relu, add(x, sub(x, num(x, ot_spec_num(x->how, "margin", 1)), zy), x->z));
    if (ot_spec_num(x->how, "p", 1) == 2) m = row(x, OT_FN_Square, m);
    m = where(x, is, num(x, 0), m);
    return ot_loss_reduce(x, mul(x, m, num(x, 1.0 / (double)s->dim[axis])), (double)(ot_numel(s) / s->dim[axis]));
}

/* Class numbers, and not a value for every element. */
static bool has_classes(const ot_loss *x) { return x->t && ot_is_int(x->t->dtype) && ot_numel(&x->t->shape) < ot_numel(&x->z->shape); }

/* Of yes and no, as torchvision's sigmoid_focal_loss: the terms of binary cross-entropy, each times (1 - the probability of
 * the right answer)^gamma and alpha or 1 - alpha.  With class numbers the same with softmax: gamma alone, and class_weights. */
ot_value *ot_loss_focal(ot_loss *x)
{
    double gamma = ot_spec_num(x->how, "gamma", 2), alpha = ot_spec_num(x->how, "alpha", 0.25);
    if (has_classes(x)) {
        int axis = ot_loss_axis(x);
        if (axis < 0) return NULL;
        if (ot_spec_find(x->how, "alpha")) return ot_loss_fail(x, OT_E_USAGE, "alpha weighs yes against no; class_weights weighs classes"), NULL;
        ot_loss_accuracy(x, axis);
        ot_value *w = ot_loss_class_weights(x, x->z->shape.dim[axis]), *ce = ot_loss_cross_entropy(x, axis, NULL, OT_REDUCTION_NONE);
        ot_value *wrong = sub(x, num(x, 1), row(x, OT_FN_Exp, row(x, OT_FN_Neg, ce)));
        ot_value *l = mul(x, ot_map1(&x->b, OT_FN_PowP, gamma, 0, wrong), w ? ot_loss_cross_entropy(x, axis, w, OT_REDUCTION_NONE) : ce);
        return ot_loss_reduce(x, l, 0);
    }
    ot_value *t = ot_loss_target(x), *z = x->z;
    ot_loss_binary_accuracy(x, t, 0);
    ot_value *no = sub(x, num(x, 1), t), *p = row(x, OT_FN_Sigmoid, z), *wrong = add(x, mul(x, t, sub(x, num(x, 1), p)), mul(x, no, p));
    ot_value *l = mul(x, row2(x, OT_FN_BceWithLogits, z, t), ot_map1(&x->b, OT_FN_PowP, gamma, 0, wrong));
    if (alpha >= 0) l = mul(x, l, add(x, mul(x, num(x, alpha), t), mul(x, num(x, 1 - alpha), no)));
    return ot_loss_reduce(x, l, 0);
}

/* 1 - (2 sum p t + smooth) / (sum p + sum t + smooth) for each class that occurs, over the batch and all places, then their
 * mean over all classes.  p: softmax of scores where the target has class numbers, else their sigmoid; an output that ends
 * in one is taken as it is. */
ot_value *ot_loss_dice(ot_loss *x)
{
    bool      classes = has_classes(x);
    int       rank = x->z->shape.rank, axis = classes ? ot_loss_axis(x) : rank > 1 ? 1 : -1, n = 0;
    int64_t   axes[OT_MAX_RANK];
    ot_value *t, *p = x->z;
    if (classes && axis < 0) return NULL;
    if (classes) ot_loss_accuracy(x, axis);
    t = classes ? ot_cast(&x->b, ot_loss_is_class(x, axis), x->z->dtype) : ot_loss_target(x);
    if (x->tail.kind == OT_TAIL_NONE && classes) p = ot_emit(&x->b, &ot_op_SoftmaxAxis, &(ot_softmax_axis){ .axis = axis }, OT_IN(p));
    else if (x->tail.kind == OT_TAIL_NONE) p = row(x, OT_FN_Sigmoid, p);
    else if (x->tail.kind == OT_TAIL_LOG_SOFTMAX) p = row(x, OT_FN_Exp, p);
    if (!classes) ot_loss_binary_accuracy(x, t, x->tail.kind == OT_TAIL_NONE ? 0 : 0.5);
    for (int d = 0; d < rank; d++)
        if (d != axis) axes[n++] = d;
    double    smooth = ot_spec_num(x->how, "smooth", 0);
    ot_value *both = ot_sum(&x->b, mul(x, p, t), axes, n, false), *there = ot_sum(&x->b, t, axes, n, false), *all = ot_sum(&x->b, add(x, p, t), axes, n, false);
    ot_value *score = quo(x, add(x, mul(x, num(x, 2), both), num(x, smooth)),
                          row2(x, OT_FN_Max, add(x, all, num(x, smooth)), num(x, ot_spec_num(x->how, "eps", 1e-7))));
    return ot_loss_reduce(x, where(x, row2(x, OT_FN_Greater, there, num(x, 0)), sub(x, num(x, 1), score), num(x, 0)), 0);
}
