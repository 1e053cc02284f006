/* model.h - a loaded model, as the parts of runtime/train see it. */
#ifndef OT_MODEL_H
#define OT_MODEL_H

#include "importer/import.h"

struct ot_model {
    ot_imported *file;
    ot_arena *arena;
    const char *const *outputs; /* names of the graph's outputs, NULL-ended */
    int64_t rss_before;         /* resident bytes of the process before it was loaded */
    int64_t bytes;              /* that the file, as it was read, holds */
};

/* Whether n tensors of a caller can be read: names, data, element types, shapes.  Errors: OT_E_USAGE. */
ot_status ot_tensors_given(const ot_tensor *t, int n, ot_error *err);

int64_t ot_rss(void);      /* resident bytes of the process now; 0: unknown */
int64_t ot_rss_peak(void); /* the most there were */
double ot_seconds(void); /* of a clock that only goes forward */

#endif
