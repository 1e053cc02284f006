/* runner.h - runs a model on the arrays of a data set; ot_run and ot_runner of the public header do so on a caller's. */
#ifndef OT_RUNNER_H
#define OT_RUNNER_H

#include "runtime/data/data.h"

/* out: ot_tensors_free. */
ot_status ot_run_arrays(const ot_model *m, const ot_options *o, const ot_dataset *d, const ot_callbacks *cb,
                        ot_tensors *out, ot_error *err);

#endif
