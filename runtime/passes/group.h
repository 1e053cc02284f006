/* group.h - part of the schedule pass: steps that run as one piece of work. */
#ifndef OT_GROUP_H
#define OT_GROUP_H

#include "runtime/passes/passes.h"

/* Brings together, and marks in ot_step.group, what kernels join (ot_grouped). */
ot_status ot_group_steps(ot_plan *p);

#endif
