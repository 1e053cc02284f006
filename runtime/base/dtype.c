/* dtype.c - element types: sizes, and conversion of single elements.
 *
 * Spec      The small floats and their special values as ONNX's Cast describes them.
 * Numerics  Small floats are encoded from f64 in one rounding, to nearest, ties to even (E8M0: up).
 *           A float out of int64_t's range becomes the nearest int64_t, NaN becomes 0; then
 *           integers wrap. */
#include "runtime/base/base.h"

#include <math.h>
#include <string.h>

typedef enum kind { NONE, FLOAT, SIGNED, UNSIGNED, BOOL } kind;

static const struct {
    const char *name;
    int bits;
    kind kind;
} type[] = {
    [OT_UNDEFINED] = { "undefined", 0, NONE },
    [OT_F32] = { "float32", 32, FLOAT },
    [OT_U8] = { "uint8", 8, UNSIGNED },
    [OT_I8] = { "int8", 8, SIGNED },
    [OT_U16] = { "uint16", 16, UNSIGNED },
    [OT_I16] = { "int16", 16, SIGNED },
    [OT_I32] = { "int32", 32, SIGNED },
    [OT_I64] = { "int64", 64, SIGNED },
    [OT_STRING] = { "string", 0, NONE },
    [OT_BOOL] = { "bool", 8, BOOL },
    [OT_F16] = { "float16", 16, FLOAT },
    [OT_F64] = { "float64", 64, FLOAT },
    [OT_U32] = { "uint32", 32, UNSIGNED },
    [OT_U64] = { "uint64", 64, UNSIGNED },
    [14] = { "complex64", 0, NONE },
    [15] = { "complex128", 0, NONE },
    [OT_BF16] = { "bfloat16", 16, FLOAT },
    [OT_F8E4M3FN] = { "float8_e4m3fn", 8, FLOAT },
    [OT_F8E4M3FNUZ] = { "float8_e4m3fnuz", 8, FLOAT },
    [OT_F8E5M2] = { "float8_e5m2", 8, FLOAT },
    [OT_F8E5M2FNUZ] = { "float8_e5m2fnuz", 8, FLOAT },
    [OT_U4] = { "uint4", 4, UNSIGNED },
    [OT_I4] = { "int4", 4, SIGNED },
    [OT_F4E2M1] = { "float4_e2m1fn", 4, FLOAT },
    [OT_F8E8M0] = { "float8_e8m0fnu", 8, FLOAT },
    [OT_U2] = { "uint2", 2, UNSIGNED },
    [OT_I2] = { "int2", 2, SIGNED },
};

static bool is_type(ot_dtype t) { return (int)t >= 0 && (int)t < OT_LEN(type); }

const char *ot_dtype_name(ot_dtype t) { return is_type(t) ? type[t].name : "unknown type"; }
int ot_dtype_bits(ot_dtype t) { return is_type(t) ? type[t].bits : 0; }
bool ot_is_float(ot_dtype t) { return is_type(t) && type[t].kind == FLOAT; }
bool ot_is_int(ot_dtype t) { return is_type(t) && (type[t].kind == SIGNED || type[t].kind == UNSIGNED); }
bool ot_is_signed(ot_dtype t)
{
    return is_type(t) && (type[t].kind == SIGNED || (type[t].kind == FLOAT && t != OT_F8E8M0));
}

/* ---- small floats ---------------------------------------------------------- */

typedef struct small {
    int mantissa, bias; /* bits; exponent of 1.0 */
    uint32_t max;       /* code of the largest finite value */
    uint32_t inf, nan;  /* codes; 0: the type has none */
    uint32_t sign;      /* the sign bit */
    bool no_minus_zero;
} small;

static const small f16 = { 10, 15, 0x7BFF, 0x7C00, 0x7E00, 0x8000, false };
static const small bf16 = { 7, 127, 0x7F7F, 0x7F80, 0x7FC0, 0x8000, false };
static const small e4m3fn = { 3, 7, 0x7E, 0, 0x7F, 0x80, false };
static const small e4m3fnuz = { 3, 8, 0x7F, 0, 0x80, 0x80, true };
static const small e5m2 = { 2, 15, 0x7B, 0x7C, 0x7E, 0x80, false };
static const small e5m2fnuz = { 2, 16, 0x7F, 0, 0x80, 0x80, true };
static const small e2m1 = { 1, 1, 0x7, 0, 0x8, 0x8, false }; /* NaN: minus zero */

static const small *small_of(ot_dtype t)
{
    switch (t) {
    case OT_F16: return &f16;
    case OT_BF16: return &bf16;
    case OT_F8E4M3FN: return &e4m3fn;
    case OT_F8E4M3FNUZ: return &e4m3fnuz;
    case OT_F8E5M2: return &e5m2;
    case OT_F8E5M2FNUZ: return &e5m2fnuz;
    case OT_F4E2M1: return &e2m1;
    default: return NULL;
    }
}

/* A power of two without sign and zero; code 255 is NaN, code k is 2^(k-127). */
static uint32_t e8m0_encode(double v, bool saturate)
{
    if (!isfinite(v)) return 0xFF;
    v = fabs(v);
    if (v <= 0x1p-127) return 0;
    int e;
    double m = frexp(v, &e);         /* v = m 2^e, m in [0.5,1) */
    int code = e - (m == 0.5) + 127; /* up to the next power of two */
    if (code > 0xFE) return saturate ? 0xFE : 0xFF;
    return (uint32_t)code;
}

uint32_t ot_float_encode(double v, ot_dtype t, bool saturate)
{
    if (t == OT_F8E8M0) return e8m0_encode(v, saturate);
    const small *f = small_of(t);
    if (!f) return 0;
    uint32_t sign = signbit(v) ? f->sign : 0;
    if (isnan(v)) return f->nan == f->sign ? f->nan : f->nan | sign;
    /* f16 and bf16 have an infinity and never saturate; f4 has neither infinity nor NaN. */
    bool clamp = t == OT_F4E2M1 || (saturate && t != OT_F16 && t != OT_BF16);
    uint32_t over = clamp ? f->max | sign : f->inf ? f->inf | sign : f->no_minus_zero ? f->nan : f->nan | sign;
    double a = fabs(v);
    if (isinf(a)) return over;
    if (a == 0) return f->no_minus_zero ? 0 : sign;
    int e = ilogb(a), least = 1 - f->bias;
    bool normal = e >= least;
    double r = rint(ldexp(a, f->mantissa - (normal ? e : least))); /* in units of the last place */
    uint32_t code = (uint32_t)r; /* a carry out of the mantissa increments the exponent */
    if (normal) {
        if (e > f->bias + 1) return over; /* far too large: keeps the shift below in range */
        code += ((uint32_t)(e + f->bias) - 1) << f->mantissa;
    }
    if (code > f->max) return over;
    return code == 0 && f->no_minus_zero ? 0 : code | sign;
}

double ot_float_decode(uint32_t code, ot_dtype t)
{
    if (t == OT_F8E8M0) return code == 0xFF ? (double)NAN : ldexp(1, (int)code - 127);
    const small *f = small_of(t);
    if (!f) return 0;
    if (f->no_minus_zero && code == f->nan) return (double)NAN;
    uint32_t a = code & (f->sign - 1);
    double v;
    if (a > f->max) {
        v = f->inf && a == f->inf ? (double)INFINITY : (double)NAN;
    } else {
        uint32_t e = a >> f->mantissa, m = a & ((1u << f->mantissa) - 1);
        if (e) m |= 1u << f->mantissa;
        v = ldexp(m, (int)(e ? e : 1) - f->bias - f->mantissa);
    }
    return code & f->sign ? -v : v;
}

static uint32_t f32_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float f32_of(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

uint16_t ot_f32_to_bf16(float v)
{
    uint32_t u = f32_bits(v);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

float ot_bf16_to_f32(uint16_t v) { return f32_of((uint32_t)v << 16); }

uint16_t ot_f32_to_f16(float v)
{
    uint32_t u = f32_bits(v), sign = u >> 16 & 0x8000;
    u &= 0x7FFFFFFF;
    if (u > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (u >> 13 & 0x3FF));
    if (u >= 0x47800000) return (uint16_t)(sign | 0x7C00); /* 65536 and more */
    if (u < 0x38800000) { /* below 2^-14: adding 0.5 leaves multiples of 2^-24 in the mantissa */
        float r = f32_of(u) + 0.5f;
        return (uint16_t)(sign | (f32_bits(r) - 0x3F000000));
    }
    /* 65520 and more carry into the infinity */
    return (uint16_t)(sign | (u - 0x38000000 + 0xFFF + (u >> 13 & 1)) >> 13);
}

float ot_f16_to_f32(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000) << 16, e = v >> 10 & 0x1F, m = v & 0x3FF;
    if (e == 31) return f32_of(sign | 0x7F800000 | m << 13);
    if (e) return f32_of(sign | ((e + 112) << 23 | m << 13));
    float a = (float)m * 0x1p-24f;
    return sign ? -a : a;
}

/* ---- elements -------------------------------------------------------------- */

static int64_t int_of(double v)
{
    if (isnan(v)) return 0;
    if (v >= 0x1p63) return INT64_MAX;
    if (v < -0x1p63) return INT64_MIN;
    return (int64_t)v;
}

/* The code of element i of a type of at most 16 bits. */
static uint32_t code_get(const void *p, int bits, int64_t i)
{
    const unsigned char *b = p;
    if (bits == 16) {
        uint16_t u;
        memcpy(&u, b + 2 * i, sizeof u);
        return u;
    }
    if (bits == 8) return b[i];
    if (bits == 4) return b[i / 2] >> (i % 2 * 4) & 0xF;
    return b[i / 4] >> (i % 4 * 2) & 0x3;
}

static void code_set(void *p, int bits, int64_t i, uint32_t code)
{
    unsigned char *b = p;
    if (bits == 16) {
        uint16_t u = (uint16_t)code;
        memcpy(b + 2 * i, &u, sizeof u);
    } else if (bits == 8) {
        b[i] = (unsigned char)code;
    } else {
        int64_t per = 8 / bits;
        unsigned shift = (unsigned)(i % per) * (unsigned)bits, mask = ((1u << bits) - 1) << shift;
        b[i / per] = (unsigned char)((b[i / per] & ~mask) | ((code << shift) & mask));
    }
}

#define GET(T)                                                                                     \
    do {                                                                                           \
        T v_;                                                                                      \
        memcpy(&v_, (const char *)p + (size_t)i * sizeof v_, sizeof v_);                           \
        return v_;                                                                                 \
    } while (0)

#define SET(T, value)                                                                              \
    do {                                                                                           \
        T v_ = (T)(value);                                                                         \
        memcpy((char *)p + (size_t)i * sizeof v_, &v_, sizeof v_);                                 \
        return;                                                                                    \
    } while (0)

int64_t ot_get_i64(const void *p, ot_dtype t, int64_t i)
{
    int bits = ot_dtype_bits(t);
    if (ot_is_float(t)) return int_of(ot_get_f64(p, t, i));
    switch (bits) {
    case 64: GET(int64_t); /* uint64 wraps */
    case 32:
        if (t == OT_U32) GET(uint32_t);
        GET(int32_t);
    case 0: return 0;
    default: break;
    }
    int64_t code = code_get(p, bits, i);
    if (t == OT_BOOL) return code != 0;
    return ot_is_signed(t) && code >> (bits - 1) ? code - ((int64_t)1 << bits) : code;
}

double ot_get_f64(const void *p, ot_dtype t, int64_t i)
{
    if (t == OT_F64) GET(double);
    if (t == OT_F32) GET(float);
    if (ot_is_float(t)) return ot_float_decode(code_get(p, ot_dtype_bits(t), i), t);
    int64_t v = ot_get_i64(p, t, i);
    return t == OT_U64 ? (double)(uint64_t)v : (double)v;
}

/* A double that rounds to a small float exactly as v does: bits beyond 53 are kept as a sticky last bit. */
static double odd_f64(int64_t v)
{
    uint64_t a = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (a >> 53) a = (a & ~UINT64_C(0x7FF)) | (a & 0x7FF ? UINT64_C(0x800) : 0);
    return v < 0 ? -(double)a : (double)a;
}

void ot_set_i64(void *p, ot_dtype t, int64_t i, int64_t v)
{
    if (t == OT_F64) SET(double, v);
    if (t == OT_F32) SET(float, v);
    int bits = ot_dtype_bits(t);
    if (bits == 0) return;
    if (ot_is_float(t)) {
        code_set(p, bits, i, ot_float_encode(odd_f64(v), t, true));
        return;
    }
    if (bits == 64) SET(int64_t, v);
    if (bits == 32) SET(uint32_t, (uint64_t)v);
    code_set(p, bits, i, t == OT_BOOL ? v != 0 : (uint32_t)((uint64_t)v & 0xFFFF));
}

void ot_set_f64(void *p, ot_dtype t, int64_t i, double v)
{
    if (t == OT_F64) SET(double, v);
    if (t == OT_F32) SET(float, v);
    int bits = ot_dtype_bits(t);
    if (bits == 0) return;
    if (ot_is_float(t)) {
        code_set(p, bits, i, ot_float_encode(v, t, true));
        return;
    }
    if (t == OT_BOOL) {
        code_set(p, bits, i, v != 0);
        return;
    }
    if (t == OT_U64 && v >= 0x1p63) {
        SET(uint64_t, v >= 0x1p64 ? UINT64_MAX : (uint64_t)v);
    }
    ot_set_i64(p, t, i, int_of(v));
}
