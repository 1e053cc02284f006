/* convolve.h - Convolve of the CPU with a Map behind it, for Fused. */
#ifndef OT_CPU_CONVOLVE_H
#define OT_CPU_CONVOLVE_H

#include "ops/kernel.h"

/* Is the Map computed part by part, while y is in the cache?  It reads y and gives one result like it. */
bool ot_cpu_convolve_takes(const ot_node *n, const ot_node *map, const char **why);

/* map: NULL, or the Map behind n.  *p as in ot_kernel's prepare. */
ot_status ot_cpu_convolve_prepare(const ot_node *n, const ot_node *map, ot_prep *p);

/* call: as of a Convolve, whose y is the result of the Map.  map_in: the Map's inputs, y itself among them; NULL without one. */
ot_status ot_cpu_convolve_run(const ot_call *call, const void *const *map_in);
void ot_cpu_convolve_release(void *state);

#endif
