/* places.h - attributes of Places, Put, Arg and Cumulate: indexing by data.
 *
 * Places  turns indices of one of ONNX's two kinds into rows of a flat tensor, and checks them:
 *         ALONG  index has the rank of x; the row of coordinate k is that of k with k[axis] = index[k]
 *                in x, seen as elements.
 *         TUPLES the last axis of index holds coordinates of the axes batch, batch + 1, ... of x; the row
 *                is that of x seen as (leading axes, the rest).  The first `batch` axes go along.
 * Put     y = x; y[place[i]] = y[place[i]] op update[i] for rows i in order.  x: (n, r)  place: (m)
 *         update: (m, r)
 * Arg     the places of the k largest (or smallest) along an axis, best first, equal ones in order.
 * Cumulate  sums of the elements up to this one along an axis. */
#ifndef OT_PLACES_H
#define OT_PLACES_H

#include "ops/op.h"

enum { OT_PLACES_ALONG, OT_PLACES_TUPLES };

typedef struct ot_places {
    int64_t  kind;
    int64_t  axis;   /* ALONG */
    int64_t  batch;  /* TUPLES */
    int64_t  no_negative; /* else they count from the end */
    ot_shape x;
} ot_places;

enum { OT_PUT_NONE, OT_PUT_ADD, OT_PUT_MUL, OT_PUT_MIN, OT_PUT_MAX };

typedef struct ot_put { int64_t op; } ot_put;

typedef struct ot_arg {
    int64_t axis, k;
    int64_t smallest;
    int64_t last;    /* of equal elements the last comes first */
} ot_arg;

typedef struct ot_cumulate {
    int64_t axis;
    int64_t exclusive; /* without this element */
    int64_t reverse;   /* from the end */
} ot_cumulate;

/* x as (outer, n, inner) around an axis. */
typedef struct ot_rows { int64_t outer, n, inner; } ot_rows;
ot_rows ot_rows_around(const ot_shape *x, int64_t axis);

#endif
