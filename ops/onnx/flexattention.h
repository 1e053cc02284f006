/* flexattention.h - attributes of FlexAttention. */
#ifndef OT_FLEXATTENTION_H
#define OT_FLEXATTENTION_H

#include "ops/op.h"

typedef struct ot_flex_attrs {
    double scale;                   /* 0: 1 / sqrt(channels) */
    int64_t softmax_precision;      /* element type; 0: float32, of float64 that */
    ot_graph *score_mod, *prob_mod; /* one input, one output of the same shape; NULL: none */
} ot_flex_attrs;

#endif
