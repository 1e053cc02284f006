/* losses.h - the losses that there are: names, keys, the target each takes, and what builds it (loss.h). */
#ifndef OT_LOSSES_H
#define OT_LOSSES_H

#include "runtime/base/registry.h"
#include "runtime/graph/graph.h"
#include "runtime/losses/list.h"

/* The class number that counts nowhere, unless ignore_index names another: PyTorch's default. */
enum { OT_IGNORED = -100 };

/* What a loss takes as a target. */
typedef enum ot_takes {
    OT_TAKES_VALUES,    /* numbers in the shape of the output */
    OT_TAKES_CLASSES,   /* class numbers: that shape without the class axis; or a share for each class: all of it */
    OT_TAKES_NUMBERS,   /* class numbers only */
    OT_TAKES_EITHER,    /* class numbers, or values in the shape of the output */
    OT_TAKES_VECTORS,   /* a number per vector along the last axis of the output */
    OT_TAKES_SEQUENCES, /* class numbers, any number per sample */
    OT_TAKES_NOTHING
} ot_takes;

struct ot_loss;

typedef struct ot_loss_kind {
    ot_entry entry;
    ot_value *(*build)(struct ot_loss *x); /* the scalar; NULL: recorded */
    ot_takes takes;                        /* as a target */
    unsigned undoes;                       /* OT_TAIL_BIT of the tails that it is joined with */
    unsigned unlike;                       /* and of those that say that the output is not what it acts on */
    const char *acts_on;                   /* what it acts on, where that may be unlike */
    bool classes_last;                     /* the class axis is the last, whatever the target */
    bool logs; /* it acts on logarithms: refused where the output holds the numbers themselves */
} ot_loss_kind;

extern const ot_registry ot_losses;

#define OT_DECLARE(name) extern const ot_loss_kind ot_loss_kind_##name;
OT_LOSSES(OT_DECLARE)
#undef OT_DECLARE

const ot_loss_kind *ot_loss_find(const char *name); /* NULL: no such loss */

#endif
