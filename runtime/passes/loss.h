/* loss.h - what the files of the pass `loss` share: loss.c decides which loss acts on what, losses.c and its neighbours hold
 * the formulas, tails.c knows how a graph ends. */
#ifndef OT_LOSS_H
#define OT_LOSS_H

#include "ops/kernels/map.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/tails.h"

/* One loss that is being built. */
typedef struct ot_loss {
    ot_plan         *p;
    const ot_config *c;
    ot_build         b;
    const ot_spec  *how;    /* its name and parameters */
    const ot_feed   *feed;   /* of the target; NULL: there is none */
    ot_value        *out;    /* the graph's output */
    ot_value        *z;      /* what the formula acts on, its batch axis first */
    ot_value        *t;      /* the target, or NULL */
    ot_tail          tail;   /* that out ends in; its axis is one of z */
    bool             joined; /* z is the output without it */
    int              axis;   /* of z, of the classes; -1: not asked yet */
    ot_value        *right, *of; /* in an evaluation: how many answers are right, of how many; NULL: there are none */
    const char      *hint;   /* what else a chosen loss could be, or why none was chosen; NULL */
} ot_loss;

typedef struct ot_loss_row {
    const char *name;
    ot_value *(*build)(ot_loss *x); /* the scalar; NULL: recorded */
    unsigned    undoes;             /* bits of ot_tail_kind: the tails that it is joined with */
    unsigned    unlike;             /* and those that say that the output is not what it takes */
    const char *takes;              /* what it takes, where that may be unlike */
    bool        classes_last;       /* the class axis is the last, whatever the target */
    bool        logs;               /* refused on what it is unlike: logarithms, where the output holds the numbers themselves */
} ot_loss_row;

const ot_loss_row *ot_loss_find(const char *name); /* NULL: no such formula */

/* The class axis of z: as given, else what target and graph say.  -1: recorded failure. */
int ot_loss_axis(ot_loss *x);

ot_status ot_loss_fail(ot_loss *x, ot_status s, const char *what);

/* ---- short forms --------------------------------------------------------------- */

static inline ot_value *num(ot_loss *x, double v) { return ot_scalar(&x->b, x->z->dtype, v); }
static inline ot_value *row(ot_loss *x, int r, ot_value *a) { return ot_map1(&x->b, r, 0, 0, a); }
static inline ot_value *row2(ot_loss *x, int r, ot_value *a, ot_value *c) { return ot_map2(&x->b, r, 0, 0, a, c); }
static inline ot_value *add(ot_loss *x, ot_value *a, ot_value *c) { return row2(x, OT_FN_Add, a, c); }
static inline ot_value *sub(ot_loss *x, ot_value *a, ot_value *c) { return row2(x, OT_FN_Sub, a, c); }
static inline ot_value *mul(ot_loss *x, ot_value *a, ot_value *c) { return row2(x, OT_FN_Mul, a, c); }
static inline ot_value *quo(ot_loss *x, ot_value *a, ot_value *c) { return row2(x, OT_FN_Div, a, c); }
static inline ot_value *where(ot_loss *x, ot_value *is, ot_value *a, ot_value *c) { return ot_map3(&x->b, OT_FN_Where, 0, 0, is, a, c); }

/* Mean or sum (reduction) over all elements; `count` other than 0 divides instead of the number of elements. */
ot_value *ot_loss_reduce(ot_loss *x, ot_value *v, double count);
ot_value *ot_loss_sum_all(ot_loss *x, ot_value *v);
ot_value *ot_loss_sum_axis(ot_loss *x, ot_value *v, int axis, bool keepdims);

/* The target as floats of z's shape. */
ot_value *ot_loss_target(ot_loss *x);

/* Class numbers as i64 of z's shape with 1 along the axis; and truth values of z's shape: where the class is the target's. */
ot_value *ot_loss_labels(ot_loss *x, int axis);
ot_value *ot_loss_is_class(ot_loss *x, int axis);

/* The class number that counts nowhere; false: there is none. */
bool ot_loss_ignored(const ot_loss *x, int64_t *label);

ot_value *ot_loss_class_weights(ot_loss *x, int64_t classes); /* (C); NULL: none are given, or recorded */
ot_value *ot_loss_cross_entropy(ot_loss *x, int axis, ot_value *weights, int64_t reduction);

/* z's shape without an axis. */
ot_shape ot_loss_without(const ot_shape *s, int axis);

/* In an evaluation: counts what is right, by the largest along `axis`, and by the side of a threshold. */
void ot_loss_accuracy(ot_loss *x, int axis);
void ot_loss_binary_accuracy(ot_loss *x, ot_value *t, double threshold);

/* A value of the output's shape with the axis of the batch in front, where the data says that it is another. */
ot_value *ot_loss_batch_first(ot_loss *x, ot_value *v);

/* The output of the graph that a parameter names, in z's type and order of axes; NULL: recorded. */
ot_value *ot_loss_other(ot_loss *x, const char *key);

/* An array that comes beside the targets; NULL: the data has none of that name. */
ot_value *ot_loss_array(ot_loss *x, const char *name);

/* ---- formulas of other files ------------------------------------------------------ */

ot_value *ot_loss_ctc(ot_loss *x);         /* ctc.c */
ot_value *ot_loss_hinge(ot_loss *x);       /* classlosses.c */
ot_value *ot_loss_focal(ot_loss *x);
ot_value *ot_loss_dice(ot_loss *x);
ot_value *ot_loss_cosine(ot_loss *x);      /* pairlosses.c */
ot_value *ot_loss_triplet(ot_loss *x);
ot_value *ot_loss_contrastive(ot_loss *x);
ot_value *ot_loss_poisson_nll(ot_loss *x);
ot_value *ot_loss_gaussian_nll(ot_loss *x);

#endif
