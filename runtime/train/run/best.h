/* best.h - the best epoch of a training, and early stopping. */
#ifndef OT_BEST_H
#define OT_BEST_H

#include "runtime/base/base.h"

/* Epochs are compared by their evaluations on validation samples; without these by the mean training loss. */
typedef struct ot_best {
    int64_t stale;         /* consecutive epochs without an improvement (of --min-delta) */
    double counted;        /* the metric's value at the last improvement; NaN: none */
    double loss, accuracy; /* of the evaluation, else of training, at the best epoch; NaN: none */
    void **state;          /* --select best: the states of the lead plan at the best epoch; NULL: none yet */
    bool used;             /* the trainer has these states now */
    double began;          /* when the run began, by the clock */
} ot_best;

struct ot_trainer;

/* "val accuracy", "val loss", "training loss": by what epochs are compared, from the last evaluation. */
const char *ot_best_watched(const struct ot_trainer *t);

/* The name of that metric in an evaluation ("accuracy"); NULL: the training loss. */
const char *ot_best_monitor(const struct ot_trainer *t);

/* Whether epochs are compared: they are evaluated, or an option needs the best training loss.  If not, the end of an epoch
 * does not wait for the updates in flight. */
bool ot_best_looks(const struct ot_trainer *t);

/* Whether the epoch that has just been evaluated is better than all before it.  mean: as below. */
bool ot_best_is(const struct ot_trainer *t, double mean);

/* Call it after an epoch and its evaluation: keeps the weights if it is the best epoch.  mean: of its training
 * loss; NaN: every update was skipped.  A file that cannot be written is reported, and the run fails at its end. */
ot_status ot_best_epoch(struct ot_trainer *t, double mean, ot_error *err);

/* Why the training ends before its last update: "early stop", "time limit"; NULL: it does not. */
const char *ot_best_ends(const struct ot_trainer *t);

/* --select best: allocates memory for the states, which a resumed run fills; sets the trainer's states to those of the best
 * epoch. */
ot_status ot_best_room(struct ot_trainer *t, ot_error *err);
ot_status ot_best_use(struct ot_trainer *t, ot_error *err);

/* Prints from which epoch the weights at the end of the run are. */
void ot_best_say(const struct ot_trainer *t);

#endif
