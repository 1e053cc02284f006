/* types.c - the names that prelude.cuh has for element types. */
#include "ops/cuda/types.h"

const char *ot_cuda_type(ot_dtype t)
{
    switch (t) {
    case OT_F64: return "f64";
    case OT_F32: return "f32";
    case OT_F16: return "f16";
    case OT_BF16: return "bf16";
    case OT_I8: return "i8";
    case OT_I16: return "i16";
    case OT_I32: return "i32";
    case OT_I64: return "i64";
    case OT_U8: return "u8";
    case OT_U16: return "u16";
    case OT_U32: return "u32";
    case OT_U64: return "u64";
    case OT_BOOL: return "b8";
    default: return NULL;
    }
}

const char *ot_cuda_class(ot_dtype t)
{
    if (t == OT_F64) return "double";
    if (ot_is_float(t)) return "float";
    return t == OT_U64 ? "ot_u64" : "ot_i64";
}

bool ot_cuda_type_can(ot_dtype t, const char **why)
{
    if (ot_cuda_type(t)) return true;
    *why = "elements of this type are not computed on the GPU";
    return false;
}
