/* softmax.h - attributes of SoftmaxAxis (x) -> y and SoftmaxAxisDx (dy, y) -> dx. */
#ifndef OT_SOFTMAX_H
#define OT_SOFTMAX_H

#include "ops/op.h"

typedef struct ot_softmax_axis {
    int64_t axis; /* 0 .. rank-1 */
    int64_t log;  /* log-softmax */
} ot_softmax_axis;

#endif
