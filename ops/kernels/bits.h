/* bits.h - attributes of Bits: reinterprets elements as another type of the same width. */
#ifndef OT_BITS_H
#define OT_BITS_H

#include "ops/op.h"

typedef struct ot_bits {
    int64_t to;
} ot_bits; /* an ot_dtype */

ot_status ot_bits_infer(ot_node *n, ot_error *err);

#endif
