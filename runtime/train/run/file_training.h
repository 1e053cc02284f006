/* file_training.h - training with the algorithm in the file (TrainingInfoProto). */
#ifndef OT_FILE_TRAINING_H
#define OT_FILE_TRAINING_H

#include "runtime/train/run/trainer.h"

/* m with the graph of its training algorithm; shares m's file, which must outlive it.  Errors: OT_E_NOMEM. */
ot_status ot_file_training_model(const ot_model *m, ot_arena *a, ot_model *out, ot_error *err);

/* Describes the inputs and the changed tensors of the training algorithm in m's file (which has one), or why it is not
 * supported.  NULL: no memory. */
const char *ot_file_training_text(const ot_model *m, ot_arena *a);

/* t, whose model has a supported training algorithm in its file, trains with it.  Errors: OT_E_NOMEM. */
ot_status ot_trainer_train_by_file(ot_trainer *t, ot_error *err);

/* Adds a finding: whether the algorithm in the file or the options determine the training. */
void ot_trainer_note_file_training(ot_trainer *t);

/* --training-info: writes the training of the options into the file, and trains with it.  t's data are matched to the model.
 * Errors: OT_E_USAGE, OT_E_MODEL: it cannot be written. */
ot_status ot_trainer_describe(ot_trainer *t, ot_error *err);

/* If the file has a training algorithm and no option replaces it (--loss, --optimizer), t trains with it.
 * Errors: OT_E_MODEL: it is not supported; OT_E_USAGE: an option does not apply to it. */
ot_status ot_trainer_use_file_training(ot_trainer *t, ot_error *err);

#endif
