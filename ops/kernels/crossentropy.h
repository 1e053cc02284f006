/* crossentropy.h - attributes of CrossEntropy and CrossEntropyDx.
 *
 * CrossEntropy   (x, target[, weight]) -> loss[, logp]
 *                x: logits, or log-probabilities (log_input), classes along `axis`, C of them
 *                target: class numbers (any integer type, x's shape without `axis`), or with
 *                probs floats of x's shape
 *                weight: (C), of any float type
 *                loss: rank 0, or without reduction x's shape without `axis`; f32 where x has 16 bits, else
 *                of x's type; logp: log-softmax of x, of its type
 * CrossEntropyDx (dloss, x, target[, weight]) -> dx[, loss]
 *                loss: that of CrossEntropy; the pass simplify makes one node of both, which reads x once
 *
 * Padded rows (pass pad): x has more elements along its last axis than `classes`; what follows is not read, and 0 in dx.
 * Then classes are the last axis, and there are neither probs nor logp.
 *
 * With p = softmax(x), s = label_smoothing, a sample's loss is
 *     (1-s) w[t] (-log p[t]) + s/C sum_c w[c] (-log p[c]),     probs: t' = (1-s) t + s/C,
 *     - sum_c w[c] t'[c] log p[c];
 * the mean divides by sum w[t] over the samples that are not ignored, with probs by their number.  Targets equal to
 * ignore_index are ignored. */
#ifndef OT_CROSSENTROPY_H
#define OT_CROSSENTROPY_H

#include "ops/op.h"

typedef enum ot_reduction { OT_REDUCTION_NONE, OT_REDUCTION_SUM, OT_REDUCTION_MEAN } ot_reduction;

typedef struct ot_cross_entropy {
    int64_t axis;
    int64_t reduction; /* ot_reduction */
    int64_t has_ignore, ignore_index;
    double label_smoothing;
    int64_t probs, log_input;
    int64_t classes; /* 0: all of x along `axis` */
} ot_cross_entropy;

/* C of a node whose logits are x. */
static inline int64_t ot_classes(const ot_cross_entropy *a, const ot_value *x)
{
    return a->classes ? a->classes : x->shape.dim[a->axis];
}

#endif
