/* detail.h - an evaluation class by class, and its samples with the highest loss. */
#ifndef OT_DETAIL_H
#define OT_DETAIL_H

#include "runtime/train/run/trainer.h"

/* Before the first batch of an evaluation: e->detail, where the first output with a target has classes, zeros and ones, or
 * values; for the run folder alone.  On a device, where reading outputs waits for each batch, only with --metrics all.
 * Errors: OT_E_NOMEM. */
ot_status ot_detail_open(ot_trainer *t, ot_scored *e, ot_error *err);

/* A batch that was submitted: its samples are those of t->index. */
ot_status ot_detail_batch(ot_trainer *t, ot_scored *e, int slot, ot_error *err);

/* evaluation.json in the run folder, of the last evaluation, unless it has been written already: names of classes, the
 * confusion matrix [true][predicted], and the worst samples with a small picture where the input is one.  Nothing may be in flight.  Errors: OT_E_IO, OT_E_NOMEM. */
ot_status ot_detail_write(ot_trainer *t, ot_error *err);

void ot_detail_close(ot_scored *e);

#endif
