/* dot.h - Dot on the CPU, alone or as a part of a Fused node; products of other operators. */
#ifndef OT_CPU_DOT_H
#define OT_CPU_DOT_H

#include "ops/cpu/dot_packed.h"
#include "ops/cpu/onednn.h"

/* A matrix product by oneDNN, or by dot_packed.c where that pays. */
typedef struct ot_dot_plan {
    ot_script *script; /* NULL: packed */
    ot_dot_packed *packed;
} ot_dot_plan;

/* The workspace is added to p->work, and p->how is set.  ot_dot_plan_free releases *out also after an error. */
ot_status ot_dot_plan_new(const ot_node *n, const ot_dot_call *d, ot_prep *p, ot_dot_plan *out);
ot_status ot_dot_plan_run(const ot_dot_plan *s, const ot_call *c);
void ot_dot_plan_free(ot_dot_plan *s);

/* The arguments of the node that are the operands of Dot (OT_ARG_NONE: none); add: a tensor like y that is added to the
 * result. */
typedef struct ot_dot_operands {
    int a, b, bias, add, y;
} ot_dot_operands;

/* Is it a product that may be computed row by row, so that any Map of its result may follow? */
bool ot_cpu_dot_takes(const ot_node *n, const ot_node *map, const char **why);

/* Will ot_cpu_dot_prepare compute n, and the Map behind it, row by row? */
bool ot_cpu_dot_by_rows(const ot_node *n, const ot_node *map, const ot_prep *p);

/* n: the Dot.  map: NULL, or the Map of its result, which is computed at y.  The state is p->state. */
ot_status ot_cpu_dot_prepare(const ot_node *n, const ot_node *map, const ot_dot_operands *at, ot_prep *p);

/* map_in: the operands of the Map; unused without one. */
ot_status ot_cpu_dot_run(const ot_call *c, const void *const *map_in);
void ot_cpu_dot_release(void *state);

#endif
