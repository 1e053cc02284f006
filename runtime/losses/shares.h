/* shares.h - values that are shares of 1 by the way they are computed: none is negative, and their sum is 1. */
#ifndef OT_SHARES_H
#define OT_SHARES_H

#include "ops/op.h"

typedef struct ot_mover {
    const ot_op *op;
    int (*follow)(const ot_node *n, int axis); /* the axis of the output that contains that axis of the input, whole and
                                                * in order; -1: none */
} ot_mover;

/* An operator that only moves, converts or clips probabilities; NULL: n is none.  Shapes are known. */
const ot_mover *ot_mover_of(const ot_node *n);

/* Clip's bound i, if it is constant; `none` if it has none; NaN: unknown. */
double ot_clip_bound(const ot_node *n, int i, double none);

/* The axis along which a Softmax sums; -1: several.  Old versions normalise all axes from `axis` on: at most one of them may
 * have several elements. */
int ot_normalised_axis(const ot_node *n);

/* Which of the two inputs of n, a Concat, of one element each along its axis, is the p beside 1 - p, or the z beside -z; -1: neither. */
int ot_pair_of(const ot_node *n, bool negated);

/* The axis along which v has shares of 1; -1: it has none, or it is not known.  Shapes are known. */
int ot_shares_axis(const ot_value *v);

#endif
