/* losses.h - the registry of losses: names, keys, the target of each, and the function that builds it (loss.h). */
#ifndef OT_LOSSES_H
#define OT_LOSSES_H

#include "runtime/base/registry.h"
#include "runtime/graph/graph.h"
#include "runtime/losses/list.h"

/* class_weights, pos_weight: the labels of the training set decide; the parameter keeps this text and gets its list
 * (train/feed/balance.c). */
#define OT_LOSS_AUTO "auto"

/* The targets of losses. */
typedef enum ot_takes {
    OT_TAKES_VALUES,    /* numbers in the shape of the output */
    OT_TAKES_CLASSES,   /* class numbers: that shape without the class axis; or a probability per class: that shape */
    OT_TAKES_NUMBERS,   /* class numbers only */
    OT_TAKES_EITHER,    /* class numbers, or values in the shape of the output */
    OT_TAKES_VECTORS,   /* a number per vector along the last axis of the output */
    OT_TAKES_SEQUENCES, /* class numbers, any number per sample */
    OT_TAKES_NOTHING
} ot_takes;

struct ot_loss;

typedef struct ot_loss_kind {
    ot_entry entry;
    ot_value *(*build)(struct ot_loss *x); /* the scalar; NULL: error recorded */
    ot_takes takes;                        /* as a target */
    unsigned undoes;                       /* OT_TAIL_BIT of the tails that it is combined with */
    unsigned unlike;                       /* and of those that contradict it */
    const char *acts_on;                   /* the expected output, if the name of the loss does not say it */
    bool classes_last;                     /* the class axis is the last, whatever the target's shape */
    bool logs;                             /* it expects logarithms: refused if the output is probabilities */
    bool bounded;      /* it is defined for outputs from 0 to 1 alone: refused for a linear layer's */
    bool shares;       /* a target of values is from 0 to 1 */
    bool distribution; /* a target has a probability for each class */
    bool distance;     /* it is of differences alone: output and target may be in any unit */
} ot_loss_kind;

extern const ot_registry ot_losses;

extern const ot_registry ot_teachers; /* teacher.c: one entry, whose name represents a file */

#define OT_DECLARE(name) extern const ot_loss_kind ot_loss_kind_##name;
OT_LOSSES(OT_DECLARE)
#undef OT_DECLARE

const ot_loss_kind *ot_loss_find(const char *name); /* NULL: no such loss */

/* The axis of the classes of an output of so many axes where nothing says it: the last of three (sequences), else 1 as in PyTorch. */
int ot_loss_default_axis(int rank);

bool ot_loss_left_out(const ot_spec *loss); /* weight=0: the output has no loss */

/* Whether loss i of a list reads the target of an earlier one that trains the same output. */
bool ot_loss_joins(const ot_spec *list, int i);

/* Several losses: those that name no output get the model's only one; one may not be on an output twice, and those on an output have the
 * ignore_index of the one that it is given for.  a: for their parameters.  Errors: OT_E_USAGE, OT_E_NOMEM. */
ot_status ot_losses_settle(ot_spec *list, int n, const char *const *outputs, ot_arena *a, ot_error *err);

#endif
