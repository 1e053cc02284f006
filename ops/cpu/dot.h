/* dot.h - Dot on the CPU, alone or as a part of a Fused node. */
#ifndef OT_CPU_DOT_H
#define OT_CPU_DOT_H

#include "ops/kernel.h"

/* The arguments of the node that are the operands of Dot (OT_ARG_NONE: none); add: a tensor like y that is added to the
 * result. */
typedef struct ot_dot_operands {
    int a, b, bias, add, y;
} ot_dot_operands;

/* Is it a product of few rows with settled weights, which any Map of its result may follow? */
bool ot_cpu_dot_takes(const ot_node *n, const ot_node *map, const char **why);

/* n: the Dot.  map: NULL, or the Map of its result, which is computed at y.  The state is p->state. */
ot_status ot_cpu_dot_prepare(const ot_node *n, const ot_node *map, const ot_dot_operands *at, ot_prep *p);

/* map_in: the operands of the Map; unused without one. */
ot_status ot_cpu_dot_run(const ot_call *c, const void *const *map_in);
void ot_cpu_dot_release(void *state);

#endif
