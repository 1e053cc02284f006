/* checkpoint.h - the state of a training in a file of its run folder.
 *
 * A checkpoint is an .npz (numpy.load reads it):
 *   run              text: key, NUL, value, NUL ...: version, model, fingerprints, options ("--name"), where it ran
 *   step, epoch ...  counters, scalars; OT_COUNTERS
 *   N/NAME           state N of the plan in row-major order: weights, statistics, moments
 * Each member has a checksum.  It is written at the end of an update, so that no gradient is accumulated. */
#ifndef OT_CHECKPOINT_H
#define OT_CHECKPOINT_H

#include "runtime/train/run/trainer.h"

/* ot_checkpoint_open without its advice.  *none: the error is that the run has no checkpoint that can be used. */
ot_status ot_checkpoint_find(const char *run_dir, const ot_callbacks *cb, ot_checkpoint **out, bool *none,
                             ot_error *err);

/* Writes a checkpoint of t, between two updates, into its run folder; the oldest ones beyond --keep are removed.  Without a
 * run folder it does nothing.  Errors: OT_E_IO, OT_E_NOMEM, OT_E_DEVICE. */
ot_status ot_trainer_checkpoint(ot_trainer *t, ot_error *err);

/* Are the samples kept back for validation those of the run?  Errors: OT_E_USAGE. */
ot_status ot_checkpoint_check_split(const ot_checkpoint *c, const struct ot_trainer *t, ot_error *err);

/* Gives t, opened for the data of the run, the weights and states of the checkpoint and none of its counters: to evaluate
 * them.  Errors: OT_E_MODEL, OT_E_DATA, OT_E_USAGE (another part of the data would be kept back), OT_E_IO. */
ot_status ot_checkpoint_weights(const ot_checkpoint *c, ot_trainer *t, ot_error *err);

/* Whether --checkpoint-every asks for one now. */
bool ot_checkpoint_due(const ot_trainer *t, bool epoch_ends);

#endif
