/* copy.h - attributes of the Copy kernel and of View.
 *
 * Copy fills a dense tensor from boxes of its inputs: for every piece, for every coordinate k in
 * the box 0 <= k[d] < extent[d],
 *     out[dst[d] + k[d] ...] = in[piece.in].flat[src + sum_d k[d] * stride[d]]
 * and `fill` where no piece writes.  Pieces do not overlap in the output.  Strides may be 0 (expand, edge padding) or
 * negative (reflection, reversed slices).  Transpose, Slice, Expand, Pad, Concat, Split, Tile are Copies.  CopyDx is
 * the adjoint: zeros, then every piece's box of dy is added to the elements it was copied from.
 *
 * Kernels see memory on both sides.  Up to the layout pass that is the tensors in row-major order; the pass rewrites
 * pieces and shape for values with other layouts. */
#ifndef OT_COPY_H
#define OT_COPY_H

#include "ops/op.h"

typedef struct ot_piece {
    int64_t in;                  /* index of the input */
    int64_t src;                 /* element offset in it, dense row-major */
    int64_t stride[OT_MAX_RANK]; /* elements of the input per step along each output axis */
    int64_t dst[OT_MAX_RANK];    /* start of the box in the output */
    int64_t extent[OT_MAX_RANK];
} ot_piece;

typedef struct ot_copy {
    ot_shape shape; /* of the output; CopyDx: of the result (the Copy's input) */
    double fill;
    int64_t n;
    const ot_piece *piece; /* arena memory */
} ot_copy;

/* How a piece traverses its input: output axis d follows input axis axis[d] (-1: none) in steps of step[d], and the
 * box starts at coordinate at[] of the input.  false: its strides are not of that form, or two output axes follow
 * one axis of the input. */
bool ot_piece_axes(const ot_piece *p, int rank, const ot_shape *in, int axis[OT_MAX_RANK], int64_t step[OT_MAX_RANK],
                   int64_t at[OT_MAX_RANK]);

/* Emits a Copy of n pieces (graph memory); emits nothing, or a View, if that is equivalent. */
ot_value *ot_copy_emit(ot_build *b, const ot_shape *shape, double fill, const ot_piece *piece, int64_t n,
                       ot_value *const *in, int n_in);

/* n zeroed pieces; NULL and a recorded error: no memory. */
ot_piece *ot_pieces(ot_build *b, int64_t n);

/* The piece that copies box (start, start + extent * step) of x; the box begins at dst = 0. */
void ot_piece_box(ot_piece *p, const ot_shape *x, const int64_t *start, const int64_t *step, const int64_t *extent);

#endif
