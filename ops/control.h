/* control.h - attributes of control flow. */
#ifndef OT_CONTROL_H
#define OT_CONTROL_H

#include "ops/op.h"

typedef struct ot_if { ot_graph *then_branch, *else_branch; } ot_if;

#endif
