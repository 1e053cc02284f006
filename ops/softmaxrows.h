/* softmaxrows.h - attributes of SoftmaxRows (x) -> y and SoftmaxRowsDx (dy, y) -> dx. */
#ifndef OT_SOFTMAXROWS_H
#define OT_SOFTMAXROWS_H

#include "ops/op.h"

typedef struct ot_softmax_rows {
    int64_t axis; /* 0 .. rank-1 */
    int64_t log;  /* log-softmax */
} ot_softmax_rows;

/* A tensor as (before, along the axis, after). */
typedef struct ot_rows_view { int64_t before, n, after; } ot_rows_view;
ot_rows_view ot_rows_of(const ot_shape *s, int64_t axis);

#endif
