/* group.h - part of the schedule pass: steps that run as one launch. */
#ifndef OT_GROUP_H
#define OT_GROUP_H

#include "runtime/passes/passes.h"

/* Groups steps that kernels can run together (ot_grouped), and sets ot_step.group. */
ot_status ot_group_steps(ot_plan *p);

#endif
