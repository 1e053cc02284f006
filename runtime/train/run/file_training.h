/* file_training.h - the training that a file brings along (TrainingInfoProto). */
#ifndef OT_FILE_TRAINING_H
#define OT_FILE_TRAINING_H

#include "runtime/train/run/trainer.h"

/* m with the graph of its training algorithm; shares m's file, which must outlive it. */
ot_status ot_model_own(const ot_model *m, ot_arena *a, ot_model *out, ot_error *err);

/* What the file's training algorithm takes and changes, or why it cannot be followed; m's file has one.  NULL: no memory. */
const char *ot_own_text(const ot_model *m, ot_arena *a);

/* Adds who says how t trains to its findings. */
void ot_trainer_say_own(ot_trainer *t);

/* --training-info: the training that the options describe becomes the file's own, and trains; t's data is adapted.
 * Errors: OT_E_USAGE, OT_E_MODEL: it cannot be written. */
ot_status ot_trainer_describe(ot_trainer *t, ot_error *err);

/* t's model is that from here on, where it has one and the options leave it to it.  Errors: OT_E_MODEL: it cannot be followed;
 * OT_E_USAGE: an option would change it. */
ot_status ot_trainer_choose_own(ot_trainer *t, ot_error *err);

#endif
