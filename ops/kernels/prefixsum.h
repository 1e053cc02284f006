/* prefixsum.h - attributes of PrefixSum: sums of the elements up to this one along an axis. */
#ifndef OT_PREFIXSUM_H
#define OT_PREFIXSUM_H

#include "ops/op.h"

typedef struct ot_prefix_sum {
    int64_t axis;
    int64_t exclusive; /* without this element */
    int64_t reverse;   /* from the end */
} ot_prefix_sum;

#endif
