/* tune.h - finds the kernel and variant measured as the fastest for a node on the device.
 *
 *     ot_tune_open -> ot_tune_choose for every node -> ot_tune_close */
#ifndef OT_TUNE_H
#define OT_TUNE_H

#include "ops/kernel.h"
#include "runtime/passes/passes.h"

typedef struct ot_tune ot_tune;

typedef struct ot_choice {
    const ot_kernel *kernel; /* NULL: no measurement; the order of the candidates decides */
    int variant;
    double seconds; /* measured */
} ot_choice;

/* *out: NULL if there is nothing to read and nothing to measure. */
ot_status ot_tune_open(ot_plan *p, const ot_config *c, ot_tune **out);

/* The known choice for n.  If there is none and the plan is to be tuned, every variant of every candidate is
 * measured, and the fastest is stored on disk before this returns. */
ot_status ot_tune_choose(ot_tune *t, const ot_node *n, ot_choice *out);

/* Adds a note to the plan on what was done.  NULL is allowed. */
void ot_tune_close(ot_tune *t);

/* ---- of schedule.c ------------------------------------------------------------- */

/* The context in which kernels of this plan are prepared. */
ot_prep ot_schedule_prep(const ot_plan *p, const ot_config *c, int variant);

/* Can k run n with the layouts of its values?  *why: the reason if not. */
bool ot_schedule_can(const ot_kernel *k, const ot_node *n, const char **why);

/* ---- of settle.c --------------------------------------------------------------- */

/* Bytes that predictions compute from weights while planning, at most; as many again for weights that fold_scale.c scales. */
#define OT_SETTLED_MOST ((int64_t)256 << 20)

/* Computes the step s of n now if it depends on weights only, and drops it.  The errors are the kernel's, OT_E_NOMEM too. */
ot_status ot_settle(ot_plan *p, const ot_config *c, ot_step *s, ot_node *n);

#endif
