/* small.cuh - elements of 8 bits and less other than plain integers (for those see prelude.cuh):
 * f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 f4e2m1 (class float), i4 u4 i2 u2 (class ot_i64).
 *
 * ot_st_<t> stores overflow as the largest number, ot_over_<t> as infinity or NaN.  Types of less than a byte are
 * stored into the byte that contains them, lowest bits first: a byte belongs to one thread.
 *
 * Numerics  one rounding from float, to nearest, ties to even (f8e8m0: up), as runtime/base/dtype.c. */
#ifndef OT_SMALL_CUH
#define OT_SMALL_CUH

/* A float of `m` bits of mantissa: codes of the largest number, of infinity (0: none) and NaN, of the sign bit. */
OT_DEVICE float ot_small_decode(ot_u32 code, int m, int bias, ot_u32 max, ot_u32 inf, ot_u32 nan, ot_u32 sign, int no_minus_zero)
{
    const float not_a_number = ot_bits_f32(0x7fc00000u);
    if (no_minus_zero && code == nan) return not_a_number;
    ot_u32 u = code & (sign - 1);
    float  v;
    if (u > max) {
        v = inf && u == inf ? ot_bits_f32(0x7f800000u) : not_a_number;
    } else {
        ot_u32 e = u >> m, f = u & ((1u << m) - 1);
        v = e ? ot_bits_f32((e + 127 - (ot_u32)bias) << 23 | f << (23 - m))
              : (float)f * ot_bits_f32((ot_u32)(128 - bias - m) << 23);
    }
    return (code & sign) ? -v : v;
}

OT_DEVICE ot_u32 ot_small_encode(float v, int clamp, int m, int bias, ot_u32 max, ot_u32 inf, ot_u32 nan, ot_u32 sign,
                                 int no_minus_zero)
{
    ot_u32 u = ot_f32_bits(v), s = u >> 31 ? sign : 0, a = u & 0x7fffffffu, code;
    int    e = (int)(a >> 23) - 127;
    if (a > 0x7f800000u) return nan == sign ? nan : nan | s;
    ot_u32 over = clamp ? max | s : inf ? inf | s : no_minus_zero ? nan : nan | s;
    if (e > bias + 1) return over;
    if (e >= 1 - bias) /* a carry out of the mantissa increments the exponent */
        code = ((a + (1u << (22 - m)) - 1 + (a >> (23 - m) & 1u)) >> (23 - m)) - ((ot_u32)(127 - bias) << m);
    else
        code = (ot_u32)rint(ot_bits_f32(a) * ot_bits_f32((ot_u32)(126 + bias + m) << 23)); /* in units of the least number */
    if (code > max) return over;
    return code == 0 && no_minus_zero ? 0 : code | s;
}

#define OT_SMALL_FLOAT(t, ...)                                                                                           \
    OT_DEVICE float ot_ld_##t(const void *p, ot_i64 i) { return ot_small_decode(((const unsigned char *)p)[i], __VA_ARGS__); } \
    OT_DEVICE void  ot_st_##t(void *p, ot_i64 i, float v)                                                                \
    {                                                                                                                    \
        ((unsigned char *)p)[i] = (unsigned char)ot_small_encode(v, 1, __VA_ARGS__);                                     \
    }                                                                                                                    \
    OT_DEVICE void ot_over_##t(void *p, ot_i64 i, float v)                                                               \
    {                                                                                                                    \
        ((unsigned char *)p)[i] = (unsigned char)ot_small_encode(v, 0, __VA_ARGS__);                                     \
    }

OT_SMALL_FLOAT(f8e4m3fn, 3, 7, 0x7e, 0, 0x7f, 0x80, 0)
OT_SMALL_FLOAT(f8e4m3fnuz, 3, 8, 0x7f, 0, 0x80, 0x80, 1)
OT_SMALL_FLOAT(f8e5m2, 2, 15, 0x7b, 0x7c, 0x7e, 0x80, 0)
OT_SMALL_FLOAT(f8e5m2fnuz, 2, 16, 0x7f, 0, 0x80, 0x80, 1)

/* A power of two: code k is 2^(k-127), 255 NaN. */
OT_DEVICE float ot_ld_f8e8m0(const void *p, ot_i64 i)
{
    ot_u32 code = ((const unsigned char *)p)[i];
    return ot_bits_f32(code == 255 ? 0x7fc00000u : code ? code << 23 : 0x400000u);
}

OT_DEVICE ot_u32 ot_e8m0_encode(float v, int clamp)
{
    ot_u32 a = ot_f32_bits(v) & 0x7fffffffu, code = (a >> 23) + ((a & 0x7fffffu) != 0);
    if (a >= 0x7f800000u) return 255;
    if (a <= 0x400000u) return 0;
    return code > 254 ? (clamp ? 254 : 255) : code;
}

OT_DEVICE void ot_st_f8e8m0(void *p, ot_i64 i, float v) { ((unsigned char *)p)[i] = (unsigned char)ot_e8m0_encode(v, 1); }
OT_DEVICE void ot_over_f8e8m0(void *p, ot_i64 i, float v) { ((unsigned char *)p)[i] = (unsigned char)ot_e8m0_encode(v, 0); }

/* ---- less than a byte ---------------------------------------------------------------- */

OT_DEVICE ot_u32 ot_bits_get(const void *p, ot_i64 i, int bits)
{
    int per = 8 / bits;
    return (ot_u32)((const unsigned char *)p)[i / per] >> (int)(i % per) * bits & ((1u << bits) - 1);
}

OT_DEVICE void ot_bits_set(void *p, ot_i64 i, int bits, ot_u32 code)
{
    unsigned char *b = (unsigned char *)p + i / (8 / bits);
    int            shift = (int)(i % (8 / bits)) * bits;
    ot_u32         mask = ((1u << bits) - 1) << shift;
    *b = (unsigned char)((*b & ~mask) | (code << shift & mask));
}

OT_DEVICE float ot_ld_f4e2m1(const void *p, ot_i64 i) { return ot_small_decode(ot_bits_get(p, i, 4), 1, 1, 7, 0, 8, 8, 0); }
OT_DEVICE void  ot_st_f4e2m1(void *p, ot_i64 i, float v) { ot_bits_set(p, i, 4, ot_small_encode(v, 1, 1, 1, 7, 0, 8, 8, 0)); }
OT_DEVICE void  ot_over_f4e2m1(void *p, ot_i64 i, float v) { ot_st_f4e2m1(p, i, v); } /* no infinity or NaN */

#define OT_SMALL_INT(t, bits, sign)                                                                                      \
    OT_DEVICE ot_i64 ot_ld_##t(const void *p, ot_i64 i)                                                                  \
    {                                                                                                                    \
        ot_u32 code = ot_bits_get(p, i, bits);                                                                           \
        return (sign) && code >> (bits - 1) ? (ot_i64)code - (1 << bits) : (ot_i64)code;                                  \
    }                                                                                                                    \
    OT_DEVICE void ot_st_##t(void *p, ot_i64 i, ot_i64 v) { ot_bits_set(p, i, bits, (ot_u32)v); }

OT_SMALL_INT(i4, 4, 1)
OT_SMALL_INT(u4, 4, 0)
OT_SMALL_INT(i2, 2, 1)
OT_SMALL_INT(u2, 2, 0)

#endif
