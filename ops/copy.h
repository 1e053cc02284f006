/* copy.h - attributes of the Copy kernel and of View.
 *
 * Copy fills a dense tensor from boxes of its inputs: for every piece, for every coordinate k in
 * the box 0 <= k[d] < extent[d],
 *     out[dst[d] + k[d] ...] = in[piece.in].flat[src + sum_d k[d] * stride[d]]
 * and `fill` where no piece writes.  Pieces do not overlap in the output.  Strides may be 0
 * (expand, edge padding) or negative (reflection, reversed slices).  Transpose, Slice, Expand, Pad,
 * Concat, Split, Tile are Copies.  CopyAdd is the map backwards: zeros, then every piece's box of dy
 * added to where it came from. */
#ifndef OT_COPY_H
#define OT_COPY_H

#include "ops/op.h"

typedef struct ot_piece {
    int64_t in;                      /* which input */
    int64_t src;                     /* element offset in it, dense row-major */
    int64_t stride[OT_MAX_RANK];     /* elements of the input per step along each output axis */
    int64_t dst[OT_MAX_RANK];        /* start of the box in the output */
    int64_t extent[OT_MAX_RANK];
} ot_piece;

typedef struct ot_copy {
    ot_shape        shape;           /* of the output; CopyAdd: of the result (the Copy's input) */
    double          fill;
    int64_t         n;
    const ot_piece *piece;           /* arena memory */
} ot_copy;

typedef struct ot_view_attrs { ot_shape shape; } ot_view_attrs; /* View: same elements in order, other shape; free */

#endif
