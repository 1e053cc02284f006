/* tune.h - which kernel, and which of its ways, was the fastest for a node when it was timed on the device.
 *
 *     ot_tune_open -> ot_tune_choose for every node -> ot_tune_close */
#ifndef OT_TUNE_H
#define OT_TUNE_H

#include "ops/kernel.h"
#include "runtime/passes/passes.h"

typedef struct ot_tune ot_tune;

typedef struct ot_choice {
    const ot_kernel *kernel; /* NULL: nothing is known; the order of the candidates decides */
    int variant;
    double seconds; /* that it took */
} ot_choice;

/* *out: NULL where there is nothing to consult and nothing to time. */
ot_status ot_tune_open(ot_plan *p, const ot_config *c, ot_tune **out);

/* The choice for n as it is known; where it is not and the plan is to be tuned, every way of every candidate is
 * timed, and the fastest is kept on disk before this returns. */
ot_status ot_tune_choose(ot_tune *t, const ot_node *n, ot_choice *out);

/* Notes in the plan what was done.  NULL is fine. */
void ot_tune_close(ot_tune *t);

/* ---- of schedule.c ------------------------------------------------------------- */

/* What a kernel is prepared with for this plan. */
ot_prep ot_schedule_prep(const ot_plan *p, const ot_config *c, int variant);

/* Can k run n as its values lie?  *why says why not. */
bool ot_schedule_can(const ot_kernel *k, const ot_node *n, const char **why);

#endif
