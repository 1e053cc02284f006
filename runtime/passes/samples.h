/* samples.h - where a file with a fixed batch size has its samples. */
#ifndef OT_PASSES_SAMPLES_H
#define OT_PASSES_SAMPLES_H

#include "runtime/graph/graph.h"

/* By output of g, inferred for one batch of `samples`: the axis of the samples; -1: not known.  Inputs with samples, on axis 0, are
 * marked (ot_value.mark).  In g's arena.  Errors: OT_E_NOMEM. */
ot_status ot_find_samples(ot_graph *g, int64_t samples, int **out);

#endif
