/* interp.h - attributes of Interp: an axis resampled by a table.
 *
 * y[o, i, r] = add[i] + sum of weight[t] * x[o, from[t], r] for t in [start[i], start[i+1])
 * x: (o.., n, r..)  y: (o.., size, r..).  The gradient is an Interp with the table transposed. */
#ifndef OT_INTERP_H
#define OT_INTERP_H

#include "ops/op.h"

typedef struct ot_interp {
    int64_t        axis, size;
    const int64_t *start;  /* size + 1; graph memory, as the others */
    const int64_t *from;
    const double  *weight;
    const double  *add;    /* size; NULL: zeros */
} ot_interp;

#endif
