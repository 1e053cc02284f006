/* scatter.h - attributes of FlatIndex and Scatter: indexing with computed indices.
 *
 * FlatIndex  converts indices of ONNX's two kinds to rows of a flat tensor, and checks them:
 *         ALONG  index has the rank of x; the row of coordinate k is that of k with k[axis] = index[k]
 *                in x, seen as elements.
 *         TUPLES the last axis of index holds coordinates of the axes batch, batch + 1, ... of x; the row
 *                is that of x seen as (leading axes, the rest).  The first `batch` axes are batch axes.
 * Scatter    y = x; y[place[i]] = y[place[i]] op update[i] for rows i in order.  x: (n, r)  place: (m)
 *         update: (m, r) */
#ifndef OT_SCATTER_H
#define OT_SCATTER_H

#include "ops/op.h"

enum { OT_FLAT_ALONG, OT_FLAT_TUPLES };

typedef struct ot_flat_index {
    int64_t kind;
    int64_t axis;        /* ALONG */
    int64_t batch;       /* TUPLES */
    int64_t no_negative; /* else negative indices count from the end */
    ot_shape x;
} ot_flat_index;

enum { OT_SCATTER_NONE, OT_SCATTER_ADD, OT_SCATTER_MUL, OT_SCATTER_MIN, OT_SCATTER_MAX };

typedef struct ot_scatter {
    int64_t op;
} ot_scatter;

/* ONNX's names of OT_SCATTER_*, for attributes of type OT_ENUM. */
extern const char *const ot_scatter_reductions[];

/* Input 1 of the node, indices of the given kind, as rows of the flat tensor. */
ot_value *ot_flat_indices(ot_build *b, const ot_flat_index *a);

/* x as (n, r), and as (n). */
ot_value *ot_as_matrix(ot_build *b, ot_value *x, int64_t n, int64_t r);
ot_value *ot_as_list(ot_build *b, ot_value *x, int64_t n);

#endif
