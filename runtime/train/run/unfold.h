/* unfold.h - --unfold-bn: convolutions train with a BatchNormalization of their own, which the file does not get. */
#ifndef OT_TRAIN_UNFOLD_H
#define OT_TRAIN_UNFOLD_H

#include "exporter/export.h"
#include "runtime/train/run/trainer.h"

/* t->m becomes a copy of the model with a BatchNormalization behind the convolutions that took one in (passes/unfold.h).
 * measure: statistics of batches of t->train, with which evaluation answers as the file does; else 0 and 1.
 * Does nothing without the option, or where it is done.  Errors: OT_E_USAGE: the model has no such convolution. */
ot_status ot_trainer_unfold(ot_trainer *t, bool measure, ot_error *err);

/* In the list of what changes in the file (room for ot_trainer_unfolded more): the norms go into weights and biases. */
ot_status ot_trainer_fold(ot_trainer *t, ot_arena *a, ot_export_tensor *list, int *n, ot_error *err);
int ot_trainer_unfolded(const ot_trainer *t); /* tensors */

#endif
