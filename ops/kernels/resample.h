/* resample.h - attributes of Resample: resamples an axis with a table of weights.
 *
 * y[o, i, r] = add[i] + sum of weight[t] * x[o, from[t], r] for t in [start[i], start[i+1])
 * x: (o.., n, r..)  y: (o.., size, r..).  The gradient is a Resample with the transposed table. */
#ifndef OT_RESAMPLE_H
#define OT_RESAMPLE_H

#include "ops/op.h"

typedef struct ot_resample {
    int64_t axis, size;
    const int64_t *start; /* size + 1; graph memory, like the others */
    const int64_t *from;
    const double *weight;
    const double *add; /* size; NULL: zeros */
} ot_resample;

#endif
