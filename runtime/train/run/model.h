/* model.h - a loaded model, as the parts of runtime/train see it. */
#ifndef OT_MODEL_H
#define OT_MODEL_H

#include "importer/import.h"
#include "runtime/data/data.h"
#include "runtime/exec/exec.h"

struct ot_model {
    ot_imported *file;
    ot_arena *arena;
    const char *const *outputs; /* names of the graph's outputs, NULL-ended */
    int64_t rss_before;         /* resident bytes of the process before it was loaded */
    int64_t bytes;              /* that the file, as it was read, holds */
};

/* m with the tensors of these names, which nodes of its graph make, as its only outputs: what leads to others alone is left
 * out.  *out shares m's file and must be dropped before it; a is to outlive it.  Errors: OT_E_USAGE: there is no such tensor. */
ot_status ot_model_cut(const ot_model *m, int n, const char *const *names, ot_arena *a, ot_model *out, ot_error *err);
ot_status ot_model_copy(const ot_model *m, ot_arena *a, ot_model *out, ot_error *err); /* a cut with all outputs */
void ot_model_cut_drop(ot_model *cut);

/* m with inputs that are sequences or optional replaced by what the arrays of d hold: tensors NAME/0, NAME/1 ... or one
 * array NAME cut along its first axis; an optional's NAME itself, or nothing.  *fed: d's arrays with the parts.  *out is m where there are no such inputs;
 * else drop it as above; a is to outlive both.  Errors: OT_E_DATA: arrays are missing, or there is a gap. */
ot_status ot_model_fill(const ot_model *m, const ot_dataset *d, ot_arena *a, ot_model *out, ot_dataset *fed,
                        ot_error *err);

/* A copy of a value that a run has computed, in arena a.  Errors: OT_E_NOMEM, OT_E_DEVICE. */
ot_status ot_tensor_of(ot_arena *a, const char *name, ot_exec *x, const ot_value *v, ot_tensor *out, ot_error *err);

/* Whether n tensors of a caller can be read: names, data, element types, shapes.  Errors: OT_E_USAGE. */
ot_status ot_tensors_given(const ot_tensor *t, int n, ot_error *err);

int64_t ot_rss_peak(void); /* the largest number of resident bytes of the process so far; 0: unknown */
double ot_seconds(void);   /* of a clock that only goes forward */

#endif
