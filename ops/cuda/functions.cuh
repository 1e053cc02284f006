/* functions.cuh - the base of the formulas of ops/kernels/functions.h in a text: classes, conversions, integers, random
 * numbers.
 *
 * A text that uses a formula defines T as its class, declares a b c (g y) and the doubles p q, and pastes it.
 * The classes are float, double, ot_i64, ot_u64 (OT_CLASS_*).
 *
 * Numerics  a float becomes an integer by truncation, out of range the nearest bound, NaN 0; ot_odd_* round to the
 *           number whose last bit is 1 where they are not exact, so that a second rounding to fewer bits is
 *           as if it were the only one.
 * Source    Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC11), for Philox. */
#ifndef OT_FUNCTIONS_CUH
#define OT_FUNCTIONS_CUH

#include "functions.h"

#ifndef OT_HOST_TWIN
typedef ot_u64 uint64_t;
#undef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

/* A derivative's column is its formula, or dL/dy itself. */
#define D(reads, formula) formula
#define G g

/* ---- from class to class -------------------------------------------------------- */

#define OT_I64_MIN (-0x7fffffffffffffffll - 1)

OT_DEVICE ot_i64 ot_f64_to_i64(double v)
{
    return v != v ? 0 : v >= 0x1p63 ? 0x7fffffffffffffffll : v < -0x1p63 ? OT_I64_MIN : (ot_i64)v;
}

OT_DEVICE ot_u64 ot_f64_to_u64(double v)
{
    return v >= 0x1p64 ? ~0ull : v >= 0x1p63 ? (ot_u64)v : (ot_u64)ot_f64_to_i64(v);
}

OT_DEVICE ot_i64 ot_f32_to_i64(float v)
{
    return v != v ? 0 : v >= 0x1p63f ? 0x7fffffffffffffffll : v < -0x1p63f ? OT_I64_MIN : (ot_i64)v;
}

OT_DEVICE ot_u64 ot_f32_to_u64(float v)
{
    return v >= 0x1p64f ? ~0ull : v >= 0x1p63f ? (ot_u64)v : (ot_u64)ot_f32_to_i64(v);
}

OT_DEVICE float ot_odd_f64(double v)
{
    float  f = (float)v;
    ot_u32 u = ot_f32_bits(f);
    if (v != v || (double)f == v) return f;
    if (fabs((double)f) > fabs(v)) u--; /* towards zero; from infinity to the largest number */
    return ot_bits_f32(u | 1u);
}

OT_DEVICE float ot_odd_i64(ot_i64 v)
{
    ot_u64 m = v < 0 ? 0 - (ot_u64)v : (ot_u64)v;
    if (m >> 53) m = (m & ~0x7ffull) | ((m & 0x7ffull) ? 0x800ull : 0);
    return ot_odd_f64(v < 0 ? -(double)m : (double)m);
}

OT_DEVICE float ot_odd_u64(ot_u64 v) { return ot_odd_f64((double)v); }

/* ---- integers --------------------------------------------------------------------- */

/* a to the power b, wrapping; a negative exponent leaves what truncation leaves of 1/a^-b. */
OT_DEVICE ot_u64 ot_ipow(ot_u64 x, ot_u64 n, int is_signed)
{
    ot_u64 y = 1;
    if (is_signed && (ot_i64)n < 0) return x == 1 ? 1 : x != ~0ull ? 0 : (n & 1) ? x : 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1) y *= x;
    return y;
}

/* ---- random numbers ----------------------------------------------------------------- */

/* Philox4x32-10 of runtime/base/random.h. */
OT_DEVICE void ot_philox(ot_u64 key, ot_u64 lo, ot_u64 hi, ot_u32 out[4])
{
    ot_u32 x0 = (ot_u32)lo, x1 = (ot_u32)(lo >> 32), x2 = (ot_u32)hi, x3 = (ot_u32)(hi >> 32);
    ot_u32 k0 = (ot_u32)key, k1 = (ot_u32)(key >> 32);
    for (int round = 0; round < 10; round++) {
        ot_u32 h0 = ot_mulhi_u32(0xD2511F53u, x0), l0 = 0xD2511F53u * x0;
        ot_u32 h1 = ot_mulhi_u32(0xCD9E8D57u, x2), l1 = 0xCD9E8D57u * x2;
        x0 = h1 ^ x1 ^ k0;
        x1 = l1;
        x2 = h0 ^ x3 ^ k1;
        x3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
}

OT_DEVICE float ot_uniform(ot_u32 bits) { return (float)(bits >> 8) * 0x1p-24f; }

/* Element k, as ot_map_random of ops/kernels/map.h; and n elements from k on, both multiples of four. */
OT_DEVICE float ot_random(ot_u64 key, ot_u64 counter, ot_u64 stream, ot_u64 k)
{
    ot_u32 r[4];
    ot_philox(key, k / 4, (stream << 40) + counter, r);
    return ot_uniform((k & 2) ? ((k & 1) ? r[3] : r[2]) : ((k & 1) ? r[1] : r[0]));
}

OT_DEVICE void ot_random_row(ot_u64 key, ot_u64 counter, ot_u64 stream, ot_u64 k, int n, float *out)
{
    ot_u32 r[4];
    OT_UNROLL
    for (int j = 0; j < n; j += 4) {
        ot_philox(key, (k + j) / 4, (stream << 40) + counter, r);
        OT_UNROLL
        for (int i = 0; i < 4; i++) out[j + i] = ot_uniform(r[i]);
    }
}

#endif
