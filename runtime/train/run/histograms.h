/* histograms.h - weights and gradients as TensorBoard's histograms. */
#ifndef OT_HISTOGRAMS_H
#define OT_HISTOGRAMS_H

#include "runtime/train/run/trainer.h"

/* --tensorboard-histograms: whether some are due after update u of the epoch, the last that was given. */
bool ot_histograms_due(const ot_trainer *t, int64_t u);

/* Waits for that update; writes "weights/NAME" after it, and "gradients/NAME" of its last batch, before clipping.
 * Errors: OT_E_NOMEM, those of the training. */
ot_status ot_histograms_write(ot_trainer *t, int64_t u, ot_error *err);

#endif
