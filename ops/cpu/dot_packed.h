/* dot_packed.h - matrix products of f32 that pack both operands: as fast with any strides. */
#ifndef OT_DOT_PACKED_H
#define OT_DOT_PACKED_H

#include "ops/cpu/onednn.h"

typedef struct ot_dot_packed ot_dot_packed;

/* Is it worth packing?  c: without batches (rank 2). */
bool ot_dot_packed_pays(const ot_dot_call *c, int threads);

/* set: OT_CPU_BASE ...; the workspace is added to p->work.  free() releases *out.  Errors: OT_E_NOMEM. */
ot_status ot_dot_packed_new(const ot_node *n, const ot_dot_call *c, int set, ot_prep *p, ot_dot_packed **out);
void ot_dot_packed_run(const ot_dot_packed *s, const ot_call *c);

#endif
