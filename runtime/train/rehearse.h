/* rehearse.h - a plan for a model without its data: shapes where the file leaves them open, and a
 * loss that fits. */
#ifndef OT_REHEARSE_H
#define OT_REHEARSE_H

#include "runtime/train/session.h"

typedef struct ot_rehearsal {
    ot_plan *plan; /* owned; free with ot_plan_free */
    int64_t batch;
    const char *assumed; /* lines: what was assumed */
} ot_rehearsal;

/* Plans `want` as the options say with inputs of the file's sizes: an open batch is --batch-size
 * (or 2), other open sizes are tried from 32.  A loss left out is mse on the first float output.
 *   d  what it shall run on; NULL: the CPU; outlives the plan
 * Errors: those of the plan. */
ot_status ot_rehearse(const ot_model *m, const ot_settings *s, ot_want want, ot_device *d, ot_arena *a,
                      ot_rehearsal *out, ot_error *err);

/* The graph as it runs (on the CPU), for the shapes of its outputs. */
ot_status ot_rehearse_run(const ot_model *m, const ot_settings *s, ot_arena *a, ot_rehearsal *out,
                          ot_error *err);

/* Inputs of the sizes that ot_rehearse would take: *n feeds, of the arena. */
ot_status ot_rehearse_inputs(const ot_model *m, const ot_settings *s, int64_t batch, ot_arena *a, ot_feed **feeds, int *n,
                             ot_error *err);

#endif
