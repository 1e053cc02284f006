/* resample.h - attributes of Resample: an axis resampled by a table.
 *
 * y[o, i, r] = add[i] + sum of weight[t] * x[o, from[t], r] for t in [start[i], start[i+1])
 * x: (o.., n, r..)  y: (o.., size, r..).  The gradient is an Resample with the table transposed. */
#ifndef OT_RESAMPLE_H
#define OT_RESAMPLE_H

#include "ops/op.h"

typedef struct ot_resample {
    int64_t axis, size;
    const int64_t *start; /* size + 1; graph memory, as the others */
    const int64_t *from;
    const double *weight;
    const double *add; /* size; NULL: zeros */
} ot_resample;

#endif
