/* best.h - which epoch of a training is the best, and when it ends for want of a better one. */
#ifndef OT_BEST_H
#define OT_BEST_H

#include "runtime/base/base.h"

/* What is watched are the evaluations on validation samples; without them the training loss, its mean over the epoch. */
typedef struct ot_best {
    int64_t stale;         /* epochs in a row without a gain */
    double loss, accuracy; /* of the evaluation, else of training, at the best epoch; NaN: none */
    void **state;          /* --select best: the states of the lead plan at the best epoch; NULL: not kept yet */
    bool used;             /* they are the trainer's now */
    double began;          /* the run, by the clock */
} ot_best;

struct ot_trainer;

/* "val accuracy", "val loss", "training loss": what is watched, by the last evaluation. */
const char *ot_best_watched(const struct ot_trainer *t);

/* The name of that metric in an evaluation ("accuracy"); NULL: the training loss is watched. */
const char *ot_best_monitor(const struct ot_trainer *t);

/* Whether epochs are compared: where they are evaluated, or an option asks for the best of the training loss.  Where they
 * are not, no epoch's end waits for the updates in flight. */
bool ot_best_looks(const struct ot_trainer *t);

/* Whether the epoch that has just been evaluated is better than all before it.  mean: as below. */
bool ot_best_is(const struct ot_trainer *t, double mean);

/* An epoch is over, and evaluated where there is a set: its weights are kept if it is the best.  mean: of its training
 * loss; NaN: every update was skipped.  A file that cannot be written is told, and the run fails at its end. */
ot_status ot_best_epoch(struct ot_trainer *t, double mean, ot_error *err);

/* Why the training ends before its last update: "early stop", "time limit"; NULL: it does not. */
const char *ot_best_ends(const struct ot_trainer *t);

/* --select best: makes room for the states, which a resumed run fills; and gives the trainer those of the best epoch. */
ot_status ot_best_room(struct ot_trainer *t, ot_error *err);
ot_status ot_best_use(struct ot_trainer *t, ot_error *err);

/* Which epoch the weights are of that the trainer has at the end of the run, a line for the user. */
void ot_best_say(const struct ot_trainer *t);

#endif
