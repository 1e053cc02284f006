/* winograd.h - Winograd convolution, for 3x3 and 5x5 convolutions of stride 1 with many channels. */
#ifndef OT_CPU_WINOGRAD_H
#define OT_CPU_WINOGRAD_H

#include "ops/cpu/map.h"
#include "ops/cpu/onednn.h"

typedef struct ot_winograd ot_winograd;

/* Is this convolution possible, and faster than a direct one? */
bool ot_winograd_pays(const ot_conv_call *c);

/* Products of a channel along one axis of a convolution of stride 1, without those with padding. */
int64_t ot_conv_inside(const ot_conv_call *c, int axis);

/* For an instruction set that this machine has (OT_CPU_*).  The workspace is added to p->work.  free() releases it. */
ot_status ot_winograd_new(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, ot_winograd **out);

/* map: NULL, or a Map of y that follows, part by part (cpu_map_range). */
ot_status ot_winograd_run(const ot_winograd *s, const ot_call *c, const ot_call *map);

#endif
