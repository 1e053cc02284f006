/* box.h - a box of elements with strides on both sides: the iteration space of Copy and CopyDx kernels. */
#ifndef OT_BOX_H
#define OT_BOX_H

#include "ops/kernels/copy.h"
#include "ops/kernel.h"

/* Element (k0, k1 ...) is at to + sum k*t[] on one side and at from + sum k*f[] on the other; loops are ordered by
 * t. */
typedef struct ot_box {
    int rank;
    int64_t count; /* elements */
    int64_t to, from;
    int64_t extent[OT_MAX_RANK];
    int64_t t[OT_MAX_RANK], f[OT_MAX_RANK];
} ot_box;

/* Drops axes of size 1, orders the rest by |t|, largest first, and merges neighbouring axes that form one axis on both
 * sides.  A box of one element keeps one axis. */
void ot_box_simplify(ot_box *b);

/* Iterates over all axes but the last `inner`: linear index, offsets on both sides. */
typedef struct ot_walk {
    int rank;
    int64_t k[OT_MAX_RANK], to, from;
} ot_walk;

void ot_walk_start(ot_walk *w, const ot_box *b, int inner, int64_t index);
void ot_walk_next(ot_walk *w, const ot_box *b);

/* Part i of n of `count` elements: [*lo, *hi). */
static inline void ot_part(int64_t count, int64_t i, int64_t n, int64_t *lo, int64_t *hi)
{
    int64_t each = count / n, more = count % n;
    *lo = each * i + (i < more ? i : more);
    *hi = *lo + each + (i < more);
}

#endif
