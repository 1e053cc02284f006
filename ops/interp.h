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

/* x in memory order as (outer, n, inner) around an axis, for either layout. */
void ot_interp_rows(const ot_value *x, int64_t axis, int64_t *outer, int64_t *n, int64_t *inner);

#endif
