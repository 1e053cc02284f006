/* move.h - functions that operators for moving, indexing and reducing share. */
#ifndef OT_MOVE_H
#define OT_MOVE_H

#include "ops/op.h"

/* The axes in input i, as a set of bits and in `list` (may be NULL) in the order given; no axes if it is missing.
 * Fails on an axis out of range or repeated. */
ot_status ot_axes_input(const ot_node *n, int i, int rank, int64_t *set, ot_ints *list, ot_error *err);

/* The constant list of input i as a shape.  Fails on negative sizes and more than OT_MAX_RANK. */
ot_status ot_shape_input(const ot_node *n, int i, ot_shape *out, ot_error *err);

/* If input i is constant: checks that its elements first, first + step, ... are in lo .. hi. */
ot_status ot_index_check(const ot_node *n, int i, int64_t first, int64_t step, int64_t lo, int64_t hi, ot_error *err);

/* v, fed integers of rank 1, checked at run time to be in 0 .. most; constants are already checked. */
ot_value *ot_counts(ot_build *b, ot_value *v, int64_t most);

/* Zeroed memory for the elements of a constant of the plan; the graph's.  NULL: the graph has failed. */
void *ot_const_alloc(ot_build *b, const ot_shape *s, ot_dtype t);

/* A constant of rank 0 with one element's bytes. */
ot_value *ot_scalar_bytes(ot_build *b, ot_dtype t, const void *bytes);

/* Reduces x over a set of axes (bits); kind is an ot_reduce_kind. */
ot_value *ot_reduce_axes(ot_build *b, ot_value *x, int64_t kind, int64_t axes, bool keepdims);

/* x as (outer, n, inner): n elements along an axis, `inner` elements apart. */
typedef struct ot_along {
    int64_t outer, n, inner;
} ot_along;
ot_along ot_along_axis(const ot_shape *x, int64_t axis);

#endif
