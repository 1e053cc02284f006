/* softmax.h - attributes of SoftmaxAxis (x) -> y and SoftmaxAxisDx (dy, y) -> dx. */
#ifndef OT_SOFTMAX_H
#define OT_SOFTMAX_H

#include "ops/op.h"

typedef struct ot_softmax_rows {
    int64_t axis; /* 0 .. rank-1 */
    int64_t log;  /* log-softmax */
} ot_softmax_rows;

/* A tensor as (before, along the axis, after). */
typedef struct ot_rows_view { int64_t before, n, after; } ot_rows_view;
ot_rows_view ot_rows_of(const ot_shape *s, int64_t axis);

#endif
