/* topkindex.h - attributes of TopKIndex: where the k largest (or smallest) elements along an axis are, best first,
 * equal ones in order. */
#ifndef OT_TOPKINDEX_H
#define OT_TOPKINDEX_H

#include "ops/op.h"

typedef struct ot_topk_index {
    int64_t axis, k;
    int64_t smallest;
    int64_t last; /* of equal elements the last comes first */
} ot_topk_index;

#endif
