/* topkindex.h - attributes of TopKIndex: the indices of the k largest (or smallest) elements along an axis, sorted,
 * equal ones in order. */
#ifndef OT_TOPKINDEX_H
#define OT_TOPKINDEX_H

#include "ops/op.h"

typedef struct ot_topk_index {
    int64_t axis, k;
    int64_t smallest;
    int64_t last; /* the last of equal elements comes first */
} ot_topk_index;

#endif
