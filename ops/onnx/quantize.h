/* quantize.h - attributes of DequantizeLinear, which pass fake_quant changes. */
#ifndef OT_QUANTIZE_H
#define OT_QUANTIZE_H

#include "ops/op.h"

typedef struct ot_dequantize {
    int64_t axis, block_size, output_dtype;
    ot_dtype through; /* set by pass fake_quant: the type that the input is rounded to; else OT_UNDEFINED */
    ot_dtype divide;  /* with it: the type in which x / scale is computed */
} ot_dequantize;

/* Clip, which has no attributes in ONNX. */
typedef struct ot_clip {
    bool through; /* set by pass fake_quant: the elements are rounded ones, and the gradient is 1 at the bounds too */
} ot_clip;

typedef struct ot_quantize {
    int64_t axis, block_size, output_dtype, precision, saturate;
} ot_quantize;

#endif
