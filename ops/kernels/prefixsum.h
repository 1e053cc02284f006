/* prefixsum.h - attributes of PrefixSum: cumulative sums along an axis. */
#ifndef OT_PREFIXSUM_H
#define OT_PREFIXSUM_H

#include "ops/op.h"

typedef struct ot_prefix_sum {
    int64_t axis;
    int64_t exclusive; /* excludes the element itself */
    int64_t reverse;   /* from the end */
} ot_prefix_sum;

#endif
