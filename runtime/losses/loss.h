/* loss.h - the interface for formulas of losses over an output and its target.
 *
 * The formulas are written with the builder of graphs; the pass `loss` decides which loss acts on which output, and
 * calls its formula.
 * Source  PyTorch's formulas, defaults and names of keys; what it does not have says where it is from. */
#ifndef OT_LOSS_H
#define OT_LOSS_H

#include "ops/kernels/map.h"
#include "runtime/base/findings.h"
#include "runtime/losses/losses.h"
#include "runtime/losses/tails.h"

/* One loss while it is built. */
typedef struct ot_loss {
    ot_build b;
    const ot_loss_kind *kind;
    const ot_spec *how; /* its name and parameters */
    ot_value *out;      /* the graph's output */
    ot_value *z;        /* the formula's input, its batch axis first */
    ot_value *t;        /* the target, or NULL */
    ot_tail tail;       /* of out; its axis is one of z */
    bool joined;        /* z is the output without it */
    int axis;           /* of z, the axis of classes; -1: not determined yet */
    int batch_axis;     /* of out */
    bool ignores;       /* some of the target's class numbers are OT_IGNORED */
    bool blank;         /* perhaps all of a batch are ignored, and then a mean over them is 0 */
    bool adds_up[2]; /* the target's values are not negative, and sum to 1 over the first axis of a sample (the last) */
    int64_t micro;   /* number of batches of the file's own size in this batch; 0: it has the file's size */
    bool eval;       /* correct answers are counted: */
    ot_value *right, *of; /* their number, and the number of answers; NULL: none */
    int64_t classes;      /* that its class_weights or pos_weight are for; 0: it has none */
    bool exponential;     /* the output is the logarithm of the prediction */
    bool by_class;        /* the target has a probability for each class */
    ot_value *divisor; /* what the mean over this batch divides by: by that it counts in the mean over a set; NULL: by
                           * the number of answers or samples */
    ot_findings *findings;
    ot_value *(*array)(void *user,
                       const char *name); /* an array besides the targets; NULL: the data has none of that name */
    void *user;
} ot_loss;

#define OT_TAIL_BIT(kind) (1u << OT_TAIL_##kind)

/* ---- keys ------------------------------------------------------------------------ */

/* Every loss has these. */
#define OT_LOSS_KEYS                                                                                                           \
    { "weight", "1", NULL, "factor on this loss; with 0 the output is not trained", .kind = OT_KEY_NUMBER, OT_KEY_ANY },        \
    { "reduction", "mean", NULL, "how the losses of a batch are combined", .kind = OT_KEY_WORD, .words = "mean sum" },                \
    { "tail", "auto", NULL, "activation at the end of the graph that the loss is computed together with; none: the output as it is", .kind = OT_KEY_WORD,      \
      .words = "auto none softmax logsoftmax sigmoid" }

#define OT_CLASS_AXIS                                                                                                          \
    { "class_axis", NULL, "the axis that fits the target: 1 or the last", "axis of the output along which the classes lie",         \
      .kind = OT_KEY_WHOLE, OT_KEY_FROM(-OT_MAX_RANK, OT_MAX_RANK - 1) }
#define OT_LABEL_KEYS                                                                                                          \
    OT_CLASS_AXIS,                                                                                                             \
    { "ignore_index", NULL, "-100 where the target has it", "class number that is ignored", .kind = OT_KEY_WHOLE,                  \
      OT_KEY_FROM(-OT_KEY_EXACT, OT_KEY_EXACT) }
#define OT_CLASS_KEYS                                                                                                          \
    OT_LABEL_KEYS,                                                                                                             \
    { "class_weights", NULL, "1 for each",                                                                                     \
      "factor on the loss of each class; auto: samples / (classes * samples of the class), of the training set",                \
      .kind = OT_KEY_NUMBER, .count = OT_KEY_LIST, .also = OT_LOSS_AUTO, OT_KEY_AT_LEAST(0) }
#define OT_LOSS_EPS(dflt, meaning) { "eps", dflt, NULL, meaning, .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) }
#define OT_LOSS_MARGIN(dflt, meaning) { "margin", dflt, NULL, meaning, .kind = OT_KEY_NUMBER, OT_KEY_ANY }

extern const ot_key ot_loss_keys[]; /* keys of a loss without others */

/* ---- for formulas ------------------------------------------------------------------ */

/* The class axis of z: as given, else determined from target and graph.  -1: error recorded. */
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
static inline ot_value *where(ot_loss *x, ot_value *is, ot_value *a, ot_value *c)
{
    return ot_map3(&x->b, OT_FN_Where, 0, 0, is, a, c);
}

/* Mean or sum (reduction) over all elements; if `count` is not 0, it replaces the number of elements. */
ot_value *ot_loss_reduce(ot_loss *x, ot_value *v, double count);
ot_value *ot_loss_sum_all(ot_loss *x, ot_value *v);
ot_value *ot_loss_sum_axis(ot_loss *x, ot_value *v, int axis, bool keepdims);

/* The target as floats of z's shape. */
ot_value *ot_loss_target(ot_loss *x);

/* Class numbers as i64 in z's shape with 1 along the axis; and a bool in z's shape: is it the class of the target? */
ot_value *ot_loss_labels(ot_loss *x, int axis);
ot_value *ot_loss_is_class(ot_loss *x, int axis);

/* The class number that is ignored; false: there is none. */
bool ot_loss_ignored(const ot_loss *x, int64_t *label);

/* A bool in the shape of ot_loss_labels: the label is not ignored; NULL: there is none that is. */
ot_value *ot_loss_counts(ot_loss *x, int axis);

/* The weight of each label in the mean, in the shape of ot_loss_labels: w of its class (w NULL: 1), 0 where it is ignored. */
ot_value *ot_loss_label_weights(ot_loss *x, int axis, ot_value *w);

/* The sum of v over all labels divided by the sum of their weights `each`, or the sum alone (reduction). */
ot_value *ot_loss_weighted(ot_loss *x, ot_value *v, ot_value *each);

/* Without class numbers ignore_index means nothing: an error if it is given. */
bool ot_loss_no_labels(ot_loss *x);

ot_value *ot_loss_class_weights(ot_loss *x, int64_t classes); /* (C); NULL: not given, or error recorded */
ot_value *ot_loss_by_class(
    ot_loss *x, const ot_param *w,
    int64_t classes); /* (C): the list of w, 1 after the last class that w=auto counted; NULL: error recorded */
bool ot_loss_found(ot_loss *x, const ot_param *w); /* w is not auto, or has its numbers; else error recorded */
ot_value *ot_loss_cross_entropy(ot_loss *x, int axis, ot_value *weights, int64_t reduction);

/* In an evaluation: counts correct answers, by the largest element along `axis` (of equal ones the first), and by a
 * threshold. */
void ot_loss_accuracy(ot_loss *x, int axis);
/* The same for a target of probabilities, whose class is the most probable one; samples of zeros do not count. */
void ot_loss_probabilities_accuracy(ot_loss *x, int axis);
void ot_loss_binary_accuracy(ot_loss *x, ot_value *t, double threshold);

/* A value in the output's shape with the batch axis first, if the data have it elsewhere. */
ot_value *ot_loss_batch_first(ot_loss *x, ot_value *v);

/* The output of the graph that a parameter names, in z's type and order of axes; NULL: error recorded. */
ot_value *ot_loss_other(ot_loss *x, const char *key);

/* The loss `own` of x and the distance of its output from a teacher's, weighed as `how` (of ot_teachers) says. */
ot_value *ot_loss_taught(ot_loss *x, ot_value *own, const ot_spec *how, ot_value *teacher);

/* The target consists of class numbers, not of a value per element. */
bool ot_loss_has_classes(const ot_loss *x);

#endif
