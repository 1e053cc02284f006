/* take.h - attributes of Take and TakeDx.
 *
 * Take     y[o.., i.., r..] = x[o.., index[i..], r..]        o: axes before `axis`, r: those after it
 * TakeDx  dx = zeros of `shape`; dx[o.., index[i..], r..] += dy[o.., i.., r..]
 * An index from -n to n-1 selects one of n positions along the axis, negative ones from the end. */
#ifndef OT_TAKE_H
#define OT_TAKE_H

#include "ops/op.h"

typedef struct ot_take {
    int64_t axis;
} ot_take;

typedef struct ot_take_dx {
    int64_t axis;
    ot_shape shape; /* of the result */
} ot_take_dx;

#endif
