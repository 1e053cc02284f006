/* quantize.h - attributes of DequantizeLinear, which a pass changes. */
#ifndef OT_QUANTIZE_H
#define OT_QUANTIZE_H

#include "ops/op.h"

typedef struct ot_dequantize {
    int64_t axis, block_size, output_dtype;
    ot_dtype through; /* set by the pass fake_quant: the input is what was quantised, to this type; else OT_UNDEFINED */
    ot_dtype divide;  /* with it: the type that x / scale is computed in */
} ot_dequantize;

typedef struct ot_quantize {
    int64_t axis, block_size, output_dtype, precision, saturate;
} ot_quantize;

#endif
