/* types.c - the names of element types in prelude.cuh. */
#include "ops/cuda/types.h"

#include "ops/kernel.h"

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

const char *ot_cuda_type_any(ot_dtype t)
{
    switch (t) {
    case OT_F8E4M3FN: return "f8e4m3fn";
    case OT_F8E4M3FNUZ: return "f8e4m3fnuz";
    case OT_F8E5M2: return "f8e5m2";
    case OT_F8E5M2FNUZ: return "f8e5m2fnuz";
    case OT_F8E8M0: return "f8e8m0";
    case OT_F4E2M1: return "f4e2m1";
    case OT_I4: return "i4";
    case OT_U4: return "u4";
    case OT_I2: return "i2";
    case OT_U2: return "u2";
    default: return ot_cuda_type(t);
    }
}

const char *ot_cuda_stored(ot_dtype t)
{
    switch (t) {
    case OT_F64: return "double";
    case OT_F32: return "float";
    case OT_I16: return "short";
    case OT_I32: return "int";
    case OT_I64: return "ot_i64";
    case OT_I8: return "signed char";
    case OT_F16:
    case OT_BF16:
    case OT_U16: return "ot_u16";
    case OT_U32: return "ot_u32";
    case OT_U64: return "ot_u64";
    default: return "unsigned char";
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
    return ot_refuse(why, "elements of this type are not computed on the GPU");
}
