/* classlosses.c - part of the pass `loss`: losses over classes that are no cross-entropy. */
#include <math.h>
#include <string.h>

#include "ops/crossentropy.h"
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
    ot_value *m = row(x, OT_ROW_Relu, add(x, sub(x, num(x, ot_thing_num(x->how, "margin", 1)), zy), x->z));
    if (ot_thing_num(x->how, "p", 1) == 2) m = row(x, OT_ROW_Square, m);
    m = where(x, is, num(x, 0), m);
    return ot_loss_reduce(x, mul(x, m, num(x, 1.0 / (double)s->dim[axis])), (double)(ot_numel(s) / s->dim[axis]));
}
