/* types.h - the names that prelude.cuh has for element types. */
#ifndef OT_CUDA_TYPES_H
#define OT_CUDA_TYPES_H

#include "ops/op.h"

/* "f32" …, as in ot_ld_f32; NULL: the prelude does not know it. */
const char *ot_cuda_type(ot_dtype t);

/* The same with the names of small.cuh, which a text that uses them includes. */
const char *ot_cuda_type_any(ot_dtype t);

/* The C type of what is in memory: "ot_u16" for f16; of types of less than a byte the byte. */
const char *ot_cuda_stored(ot_dtype t);

/* The C type of its class: "float", "double", "ot_i64", "ot_u64". */
const char *ot_cuda_class(ot_dtype t);

/* Does the prelude know the type?  *why says so when not.
 *
 * ONNX has floats of 8 bits and less, and integers of less than 8, only where elements are moved, padded, cast or
 * quantized: Map, Reduce, View, Copy and CopyDx (the gradient of Pad) take them.  What sums along an axis, ranks, looks up,
 * resamples, multiplies or normalises has no operator of such a type behind it, and refuses them by this. */
bool ot_cuda_type_can(ot_dtype t, const char **why);

#endif
