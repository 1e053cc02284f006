/* sequence.h - attributes of operators on sequences and optionals, for passes/sequence.c. */
#ifndef OT_SEQUENCE_H
#define OT_SEQUENCE_H

#include <stddef.h>

#include "ops/op.h"

/* For all operators on sequences; each has rows for the fields that it uses. */
typedef struct ot_sequence_attrs {
    int64_t axis, keepdims, new_axis, dtype;
    ot_graph *body;
} ot_sequence_attrs;

/* Is v a sequence whose elements, the inputs of its producer, are known?  Likewise an optional, with one input or none. */
bool ot_is_list(const ot_value *v);
bool ot_is_optional(const ot_value *v);

#endif
