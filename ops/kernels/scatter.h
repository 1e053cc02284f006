/* scatter.h - attributes of FlatIndex, Scatter, TopKIndex and PrefixSum: indexing by data.
 *
 * FlatIndex  turns indices of one of ONNX's two kinds into rows of a flat tensor, and checks them:
 *         ALONG  index has the rank of x; the row of coordinate k is that of k with k[axis] = index[k]
 *                in x, seen as elements.
 *         TUPLES the last axis of index holds coordinates of the axes batch, batch + 1, ... of x; the row
 *                is that of x seen as (leading axes, the rest).  The first `batch` axes go along.
 * Scatter     y = x; y[place[i]] = y[place[i]] op update[i] for rows i in order.  x: (n, r)  place: (m)
 *         update: (m, r)
 * TopKIndex     the places of the k largest (or smallest) along an axis, best first, equal ones in order.
 * PrefixSum  sums of the elements up to this one along an axis. */
#ifndef OT_SCATTER_H
#define OT_SCATTER_H

#include "ops/op.h"

enum { OT_FLAT_ALONG, OT_FLAT_TUPLES };

typedef struct ot_flat_index {
    int64_t  kind;
    int64_t  axis;   /* ALONG */
    int64_t  batch;  /* TUPLES */
    int64_t  no_negative; /* else they count from the end */
    ot_shape x;
} ot_flat_index;

enum { OT_SCATTER_NONE, OT_SCATTER_ADD, OT_SCATTER_MUL, OT_SCATTER_MIN, OT_SCATTER_MAX };

typedef struct ot_scatter { int64_t op; } ot_scatter;

typedef struct ot_topk_index {
    int64_t axis, k;
    int64_t smallest;
    int64_t last;    /* of equal elements the last comes first */
} ot_topk_index;

typedef struct ot_prefix_sum {
    int64_t axis;
    int64_t exclusive; /* without this element */
    int64_t reverse;   /* from the end */
} ot_prefix_sum;

/* x as (outer, n, inner) around an axis. */
typedef struct ot_rows { int64_t outer, n, inner; } ot_rows;
ot_rows ot_rows_around(const ot_shape *x, int64_t axis);

#endif
