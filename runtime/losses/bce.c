/* bce.c - binary cross-entropy: independent binary classes, from logits or from probabilities.  Of a class number one class is 1 and
 * all others are 0. */
#include "runtime/losses/loss.h"

/* The targets 0 and 1 of every element, and how many of them an evaluation finds right. */
static ot_value *binary_target(ot_loss *x, double threshold)
{
    int axis = ot_loss_has_classes(x) ? ot_loss_axis(x) : -1;
    if (x->b.graph->err->status) return NULL;
    ot_value *t = axis < 0 ? ot_loss_target(x) : ot_cast(&x->b, ot_loss_is_class(x, axis), x->z->dtype);
    if (axis < 0) ot_loss_binary_accuracy(x, t, threshold);
    else ot_loss_accuracy(x, axis);
    return t;
}

/* pos_weight: a number, or a list as long as the last axis; for class numbers as the axis of classes. */
static ot_value *pos_weight(ot_loss *x)
{
    const ot_param *w = ot_spec_find(x->how, "pos_weight");
    if (!w || !ot_loss_found(x, w)) return NULL;
    if (!w->n) return num(x, w->num);
    if (ot_loss_has_classes(x)) {
        int axis = ot_loss_axis(x);
        ot_shape along = { .rank = x->z->shape.rank };
        for (int d = 0; d < along.rank; d++) along.dim[d] = d == axis ? x->z->shape.dim[d] : 1;
        ot_value *list = axis < 0 ? NULL : ot_loss_by_class(x, w, x->z->shape.dim[axis]);
        return list ? ot_view(&x->b, list, &along) : NULL;
    }
    float *v = ot_graph_alloc(x->b.graph, (size_t)w->n * sizeof *v);
    for (int i = 0; i < w->n && v; i++) v[i] = (float)w->list[i];
    int last = x->z->shape.rank - 1;
    if (w->n != 1 && (last < 0 || x->z->shape.dim[last] != w->n)) {
        ot_loss_fail(x, OT_E_USAGE, "pos_weight does not fit the last axis");
        return NULL;
    }
    ot_value *k =
        v ? ot_graph_const(x->b.graph, "pos_weight", OT_F32, &(ot_shape){ .rank = 1, .dim = { w->n } }, v) : NULL;
    return k ? ot_cast(&x->b, k, x->z->dtype) : NULL;
}

/* -(w y log s(z) + (1-y) log(1-s(z))) = (1-y) z + (1 + (w-1) y) softplus(-z) */
static ot_value *bce_with_logits(ot_loss *x)
{
    ot_value *t = binary_target(x, 0), *w = pos_weight(x);
    if (!w) return ot_loss_reduce(x, row2(x, OT_FN_BceWithLogits, x->z, t), 0);
    ot_value *s = row(x, OT_FN_Softplus, row(x, OT_FN_Neg, x->z));
    ot_value *f = add(x, num(x, 1), mul(x, sub(x, w, num(x, 1)), t));
    return ot_loss_reduce(x, add(x, mul(x, sub(x, num(x, 1), t), x->z), mul(x, f, s)), 0);
}

static ot_value *bce(ot_loss *x)
{
    if (x->joined) return bce_with_logits(x);
    ot_value *t = binary_target(x, 0.5);
    return ot_loss_reduce(x, row2(x, OT_FN_Bce, x->z, t), 0);
}

static const ot_key keys[] = {
    OT_LOSS_KEYS,
    OT_CLASS_AXIS,
    { "pos_weight", NULL, "1",
      "weight of the terms whose target is 1; a list has a weight for each index of the last axis, or for each class number; "
      "auto: zeros / ones of the training set",
      .kind = OT_KEY_NUMBER, .count = OT_KEY_EITHER, .also = OT_LOSS_AUTO, OT_KEY_AT_LEAST(0) },
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_bce = {
    .entry = { "bce", "binary cross-entropy for each element or class, from probabilities (Sigmoid)", keys },
    .build = bce,
    .takes = OT_TAKES_EITHER,
    .undoes = OT_TAIL_BIT(SIGMOID),
    .unlike = OT_TAIL_BIT(LOG_SOFTMAX),
    .acts_on = "probabilities",
    .bounded = true,
    .shares = true,
};

const ot_loss_kind ot_loss_kind_bce_with_logits = {
    .entry = { "bce_with_logits", "binary cross-entropy for each element or class, from scores", keys },
    .build = bce_with_logits,
    .takes = OT_TAKES_EITHER,
    .undoes = OT_TAIL_BIT(SIGMOID),
    .unlike = OT_TAIL_BIT(SOFTMAX) | OT_TAIL_BIT(LOG_SOFTMAX),
    .acts_on = "logits",
    .shares = true,
};
