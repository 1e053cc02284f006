/* types.h - the names of element types in prelude.cuh. */
#ifndef OT_CUDA_TYPES_H
#define OT_CUDA_TYPES_H

#include "ops/op.h"

/* "f32" ..., as in ot_ld_f32; NULL: the prelude does not support it. */
const char *ot_cuda_type(ot_dtype t);

/* The same with the names of small.cuh, for texts that include it. */
const char *ot_cuda_type_any(ot_dtype t);

/* The C type of elements in memory: "ot_u16" for f16; for types of less than a byte that of the byte. */
const char *ot_cuda_stored(ot_dtype t);

/* The C type of its class: "float", "double", "ot_i64", "ot_u64". */
const char *ot_cuda_class(ot_dtype t);

/* Elements of t in 16 bytes, the widest load. */
static inline int ot_lanes(ot_dtype t) { return 128 / ot_dtype_bits(t); }

/* Does the prelude support the type?  *why: the reason if not.
 *
 * ONNX has floats of 8 bits and less, and integers of less than 8, only where elements are moved, padded, cast or
 * quantized: Map, Reduce, View, Copy and CopyDx (the gradient of Pad) support them.  No operator of ONNX sums along an
 * axis, sorts, gathers, resamples, multiplies or normalises such types, and the kernels for these refuse them by this
 * function. */
bool ot_cuda_type_can(ot_dtype t, const char **why);

#endif
