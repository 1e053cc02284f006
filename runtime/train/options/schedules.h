/* schedules.h - the learning rate of every update. */
#ifndef OT_SCHEDULES_H
#define OT_SCHEDULES_H

#include "runtime/base/registry.h"

extern const ot_registry ot_schedules;

typedef struct ot_schedule {
    const ot_spec *spec;
    const struct ot_schedule_kind *kind;
    double base;     /* rate the schedule scales */
    double momentum; /* of the optimizer (beta1 for the Adam family) */
    int64_t total;   /* updates of the whole run; what T_max and its like default to */
    int64_t per;     /* updates per count: 1, or those of an epoch */
    double warmup, warmup_factor;
    /* plateau */
    double rate, best;
    int64_t bad, cooldown;
} ot_schedule;

/* t is borrowed, and was checked by ot_spec_parse.
 *   base      the optimizer's rate
 *   momentum  its momentum or beta1; NaN: it has none
 *   total     updates of the run; 0: unknown
 *   epoch     updates of an epoch
 * Errors: OT_E_USAGE (cycle_momentum of an optimizer without momentum; a count that is neither given nor known). */
ot_status ot_schedule_init(ot_schedule *s, const ot_spec *t, double base, double momentum, int64_t total, int64_t epoch,
                           ot_error *err);

/* Rate and momentum of update k, from 0. */
void ot_schedule_at(const ot_schedule *s, int64_t k, double *rate, double *momentum);

/* plateau: what update (or evaluation) k came to.  Others ignore it. */
void ot_schedule_feedback(ot_schedule *s, int64_t k, double loss);

/* The schedule moves the momentum too. */
bool ot_schedule_moves_momentum(const ot_schedule *s);

#endif
