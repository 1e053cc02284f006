/* gather.c - makes a batch from an array: selected samples, converted, scaled, channels first.
 *
 * Shapes    src: (N, elements) of any type; index: (n); dst: (n, elements).
 * Numerics  A scaled result is computed in f32 (f64 for an f64 result) as x * mul + add with two
 *           roundings, whatever the instruction set and the number of threads.  Unscaled integers go
 *           to integers and floats directly.
 *
 * A sample is processed in blocks that stay in L1: load to f32, f64 or i64, scale, store.  Bytes to f32, the conversion
 * of images, is one loop. */
#include "runtime/data/data.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE                                                                                       \
    __attribute__((target_clones("avx2", "default"))) /* avx2 alone: no fused multiply-add */
#else
#define WIDE
#endif

enum { BLOCK = 512, PARALLEL = 1 << 17 }; /* elements; below PARALLEL threads cost more than they save */

typedef enum via { VIA_COPY, VIA_BYTES, VIA_F32, VIA_F64, VIA_I64 } via;

typedef struct plan {
    const ot_gather *g;
    via via;
    int from, to;           /* bytes per element */
    int64_t stride;         /* elements from row to row of the source */
    int64_t pixels, planes; /* of a permuted sample: (pixels, planes) becomes (planes, pixels) */
    int64_t pattern;        /* length of mul and add below, if channels alternate fast */
    float mul[BLOCK], add[BLOCK];
} plan;

/* ---- blocks of n elements ---------------------------------------------------- */

WIDE static void bytes_affine(const uint8_t *restrict x, float *restrict y, int64_t n, float mul, float add)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i] * mul + add;
}

WIDE static void bytes_pattern(const uint8_t *restrict x, float *restrict y, int64_t n, const float *restrict mul,
                               const float *restrict add)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i] * mul[i] + add[i];
}

#define EACH(T, expr)                                                                              \
    do {                                                                                           \
        const T *x = src;                                                                          \
        for (int64_t i = 0; i < n; i++) y[i] = (expr);                                             \
    } while (0)

/* Sources are aligned: samples of a type begin at multiples of its size. */
#define LOAD(name, Y)                                                                              \
    static void name(const void *src, ot_dtype t, Y *restrict y, int64_t n)                        \
    {                                                                                              \
        switch (t) {                                                                               \
        case OT_F32: EACH(float, (Y)x[i]); break;                                                  \
        case OT_F64: EACH(double, (Y)x[i]); break;                                                 \
        case OT_F16: EACH(uint16_t, (Y)ot_f16_to_f32(x[i])); break;                                \
        case OT_BF16: EACH(uint16_t, (Y)ot_bf16_to_f32(x[i])); break;                              \
        case OT_U8: case OT_BOOL: EACH(uint8_t, (Y)x[i]); break;                                   \
        case OT_I8: EACH(int8_t, (Y)x[i]); break;                                                  \
        case OT_U16: EACH(uint16_t, (Y)x[i]); break;                                               \
        case OT_I16: EACH(int16_t, (Y)x[i]); break;                                                \
        case OT_U32: EACH(uint32_t, (Y)x[i]); break;                                               \
        case OT_I32: EACH(int32_t, (Y)x[i]); break;                                                \
        case OT_U64: EACH(uint64_t, (Y)x[i]); break;                                               \
        case OT_I64: EACH(int64_t, (Y)x[i]); break;                                                \
        default:                                                                                   \
            for (int64_t i = 0; i < n; i++) y[i] = (Y)ot_get_f64(src, t, i);                       \
        }                                                                                          \
    }
LOAD(load_f32, float)
LOAD(load_f64, double)

static void load_i64(const void *src, ot_dtype t, int64_t *restrict y, int64_t n)
{
    switch (t) {
    case OT_U8:
    case OT_BOOL: EACH(uint8_t, x[i]); break;
    case OT_U16: EACH(uint16_t, x[i]); break;
    case OT_U32: EACH(uint32_t, x[i]); break;
    case OT_I32: EACH(int32_t, x[i]); break;
    case OT_I64: EACH(int64_t, x[i]); break;
    default:
        for (int64_t i = 0; i < n; i++) y[i] = ot_get_i64(src, t, i);
    }
}

/* The whole output array and the index of the block's first element: sub-byte types share bytes. */
static void store_f64(const double *x, void *dst, ot_dtype t, int64_t at, int64_t n)
{
    if (t == OT_F64) memcpy((double *)dst + at, x, (size_t)n * sizeof *x);
    else if (t == OT_F32)
        for (int64_t i = 0; i < n; i++) ((float *)dst)[at + i] = (float)x[i];
    else
        for (int64_t i = 0; i < n; i++) ot_set_f64(dst, t, at + i, x[i]);
}

static void store_f32(const float *x, void *dst, ot_dtype t, int64_t at, int64_t n)
{
    if (t == OT_F32) {
        memcpy((float *)dst + at, x, (size_t)n * sizeof *x);
    } else if (t == OT_F16) {
        for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[at + i] = ot_f32_to_f16(x[i]);
    } else if (t == OT_BF16) {
        for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[at + i] = ot_f32_to_bf16(x[i]);
    } else {
        for (int64_t i = 0; i < n; i++) ot_set_f64(dst, t, at + i, (double)x[i]);
    }
}

static void store_i64(const int64_t *x, void *dst, ot_dtype t, int64_t at, int64_t n)
{
    if (t == OT_I64) memcpy((int64_t *)dst + at, x, (size_t)n * sizeof *x);
    else if (t == OT_I32)
        for (int64_t i = 0; i < n; i++) ((int32_t *)dst)[at + i] = (int32_t)x[i];
    else if (t == OT_F32)
        for (int64_t i = 0; i < n; i++) ((float *)dst)[at + i] = (float)x[i];
    else
        for (int64_t i = 0; i < n; i++) ot_set_i64(dst, t, at + i, x[i]);
}

/* ---- one block --------------------------------------------------------------- */

/* The channel c of result element i, and how many more elements share it. */
static int channel_of(const ot_gather *g, int64_t i, int64_t *same)
{
    if (g->channels == 1) {
        *same = INT64_MAX;
        return 0;
    }
    *same = g->inner - i % g->inner;
    return (int)(i / g->inner % g->channels);
}

/* x * mul + add over n elements beginning at result element i of the sample. */
#define SCALE(name, T)                                                                             \
    static void name(const plan *p, T *x, int64_t i, int64_t n)                                    \
    {                                                                                              \
        for (int64_t k = 0, same; k < n; k += same) {                                              \
            int c = channel_of(p->g, i + k, &same);                                                \
            if (same > n - k) same = n - k;                                                        \
            T mul = (T)p->g->mul[c], add = (T)p->g->add[c];                                        \
            for (int64_t j = k; j < k + same; j++) {                                               \
                T product = x[j] * mul;                                                            \
                x[j] = product + add;                                                              \
            }                                                                                      \
        }                                                                                          \
    }
SCALE(scale_f32, float)
SCALE(scale_f64, double)

/* n contiguous source elements to result elements i... of the sample that begins at `base` in dst. */
static void convert(const plan *p, const void *src, void *dst, int64_t base, int64_t i, int64_t n)
{
    const ot_gather *g = p->g;
    ot_dtype from = g->src->t.dtype, to = g->dtype;
    union {
        float f32[BLOCK];
        double f64[BLOCK];
        int64_t i64[BLOCK];
    } x;
    switch (p->via) {
    case VIA_COPY: memcpy((char *)dst + (base + i) * p->to, src, (size_t)(n * p->to)); break;
    case VIA_BYTES:
        if (p->pattern) {
            bytes_pattern(src, (float *)dst + base + i, n, p->mul + i % p->pattern, p->add + i % p->pattern);
            break;
        }
        for (int64_t k = 0, same; k < n; k += same) {
            int c = channel_of(g, i + k, &same);
            if (same > n - k) same = n - k;
            bytes_affine((const uint8_t *)src + k, (float *)dst + base + i + k, same, g->mul[c], g->add[c]);
        }
        break;
    case VIA_F32:
        load_f32(src, from, x.f32, n);
        if (g->scale) scale_f32(p, x.f32, i, n);
        store_f32(x.f32, dst, to, base + i, n);
        break;
    case VIA_F64:
        load_f64(src, from, x.f64, n);
        if (g->scale) scale_f64(p, x.f64, i, n);
        store_f64(x.f64, dst, to, base + i, n);
        break;
    case VIA_I64:
        load_i64(src, from, x.i64, n);
        store_i64(x.i64, dst, to, base + i, n);
        break;
    }
}

/* ---- one sample -------------------------------------------------------------- */

/* Gathers n elements with a distance of `stride` elements. */
static void collect(const char *src, char *dst, int64_t stride, int size, int64_t n)
{
    if (size == 1)
        for (int64_t i = 0; i < n; i++) dst[i] = src[i * stride];
    else
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * size, src + i * stride * size, (size_t)size);
}

/* The reverse. */
static void spread(const char *src, char *dst, int64_t stride, int size, int64_t n)
{
    if (size == 1)
        for (int64_t i = 0; i < n; i++) dst[i * stride] = src[i];
    else
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * stride * size, src + i * size, (size_t)size);
}

/* Few long planes are written one after the other; of many short ones a block of whole planes at a time. */
static void permuted(const plan *p, const char *src, void *dst, int64_t base)
{
    _Alignas(8) char block[BLOCK * 8];
    int64_t together = p->pattern ? p->pattern / p->pixels : BLOCK / p->pixels;
    if (together > 1) {
        for (int64_t c = 0; c < p->planes; c += together) {
            int64_t n = p->planes - c < together ? p->planes - c : together;
            for (int64_t i = 0; i < p->pixels; i++)
                spread(src + (i * p->planes + c) * p->from, block + i * p->from, p->pixels, p->from, n);
            convert(p, block, dst, base, c * p->pixels, n * p->pixels);
        }
        return;
    }
    for (int64_t c = 0; c < p->planes; c++) {
        for (int64_t i = 0; i < p->pixels; i += BLOCK) {
            int64_t n = p->pixels - i < BLOCK ? p->pixels - i : BLOCK;
            collect(src + (i * p->planes + c) * p->from, block, p->planes, p->from, n);
            convert(p, block, dst, base, c * p->pixels + i, n);
        }
    }
}

static int64_t row_of(const ot_gather *g, int64_t sample)
{
    return g->src->same ? 0 : g->src->row ? g->src->row[sample] : sample;
}

static void one_sample(const plan *p, int64_t from, int64_t to, void *dst)
{
    const ot_gather *g = p->g;
    const char *src = (const char *)g->src->t.data + row_of(g, from) * p->stride * p->from;
    int64_t base = to * g->elements;
    if (p->pixels) {
        permuted(p, src, dst, base);
        return;
    }
    /* Copies and single-channel bytes need no blocks; a repeating pattern is applied within one. */
    bool whole = p->via == VIA_COPY || (p->via == VIA_BYTES && !p->pattern);
    int64_t step = whole ? g->elements : p->pattern ? p->pattern : BLOCK;
    for (int64_t i = 0; i < g->elements; i += step) {
        int64_t n = g->elements - i < step ? g->elements - i : step;
        convert(p, src + i * p->from, dst, base, i, n);
    }
}

/* ---- all --------------------------------------------------------------------- */

static via way_of(const ot_gather *g)
{
    ot_dtype from = g->src->t.dtype, to = g->dtype;
    if (!g->scale && from == to) return VIA_COPY;
    if (g->scale && from == OT_U8 && to == OT_F32) return VIA_BYTES;
    if (g->scale) return to == OT_F64 ? VIA_F64 : VIA_F32;
    if (from == OT_U64 && ot_is_float(to)) return VIA_F64;
    if (!ot_is_float(from)) return VIA_I64;
    return from == OT_F64 || to == OT_F64 || !ot_is_float(to) ? VIA_F64 : VIA_F32;
}

static void plan_make(plan *p, const ot_gather *g)
{
    *p = (plan){ .g = g, .via = way_of(g), .stride = g->src->stride ? g->src->stride : g->elements };
    p->from = g->src->t.dtype == OT_STRING ? (int)sizeof(char *) : ot_dtype_bits(g->src->t.dtype) / 8;
    p->to = g->dtype == OT_STRING ? (int)sizeof(char *) : ot_dtype_bits(g->dtype) / 8;
    if (g->permute[2] > 0) {
        p->pixels = g->permute[0] * g->permute[1];
        p->planes = g->permute[2];
    }
    /* For channels that change every few elements, as in (H,W,C): expands their factors once. */
    int64_t period = g->inner * g->channels;
    if (p->via == VIA_BYTES && g->channels > 1 && g->inner < 16 && period <= BLOCK &&
        (!p->pixels || p->pixels == period)) { /* of a permuted sample the blocks are whole planes */
        p->pattern = BLOCK / period * period;
        for (int64_t i = 0; i < p->pattern; i++) {
            p->mul[i] = g->mul[i / g->inner % g->channels];
            p->add[i] = g->add[i / g->inner % g->channels];
        }
    }
}

void ot_gather_run(const ot_gather *g, const int64_t *index, int64_t n, void *dst, int threads)
{
    if (n <= 0 || g->elements <= 0) return;
    plan p;
    plan_make(&p, g);
    /* Samples of a sub-byte type share bytes at their ends: one thread. */
    bool parallel = threads > 1 && n > 1 && p.to > 0 && n > PARALLEL / g->elements;
#pragma omp parallel for num_threads(threads) schedule(static) if (parallel)
    for (int64_t k = 0; k < n; k++) {
        if (k + 1 < n) {
            const char *next = (const char *)g->src->t.data + row_of(g, index[k + 1]) * p.stride * p.from;
            int64_t bytes = g->elements * p.from < 1024 ? g->elements * p.from : 1024;
            for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i);
        }
        one_sample(&p, index[k], k, dst);
    }
}

/* The first element that is none of least..most and not `except`, of n; n: there is none.  The first loop vectorises. */
#define FIND_OUTSIDE(name, T)                                                                                  \
    static int64_t name(const void *p, int64_t n, int64_t least, int64_t most, int64_t except)                 \
    {                                                                                                          \
        const T *x = p;                                                                                        \
        int64_t i = 0;                                                                                         \
        int any = 0;                                                                                           \
        for (int64_t k = 0; k < n; k++) any |= ((int64_t)x[k] < least) | ((int64_t)x[k] > most);               \
        if (!any) return n;                                                                                    \
        while (i < n && (((int64_t)x[i] >= least && (int64_t)x[i] <= most) || (int64_t)x[i] == except)) i++;   \
        return i;                                                                                              \
    }
FIND_OUTSIDE(outside_u8, uint8_t)
FIND_OUTSIDE(outside_u16, uint16_t)
FIND_OUTSIDE(outside_u32, uint32_t)
FIND_OUTSIDE(outside_i32, int32_t)
FIND_OUTSIDE(outside_i64, int64_t)

static int64_t outside(const ot_array *a, int64_t first, int64_t n, int64_t least, int64_t most, int64_t except)
{
    const char *p = a->t.data;
    switch (a->t.dtype) {
    case OT_U8: return outside_u8(p + first, n, least, most, except);
    case OT_U16: return outside_u16(p + 2 * first, n, least, most, except);
    case OT_U32: return outside_u32(p + 4 * first, n, least, most, except);
    case OT_I32: return outside_i32(p + 4 * first, n, least, most, except);
    case OT_I64: return outside_i64(p + 8 * first, n, least, most, except);
    default: break;
    }
    for (int64_t i = 0; i < n && ot_is_float(a->t.dtype); i++) {
        double v = ot_get_f64(p, a->t.dtype, first + i);
        if ((v < (double)least || v > (double)most) && v != (double)except) return i;
    }
    for (int64_t i = 0; i < n && !ot_is_float(a->t.dtype); i++) {
        int64_t v = ot_get_i64(p, a->t.dtype, first + i);
        if ((v < least || v > most) && v != except) return i;
    }
    return n;
}

bool ot_array_within(const ot_array *a, const int64_t *index, int64_t n, int64_t least, int64_t most, int64_t except,
                     int64_t *at)
{
    int64_t each = 1;
    for (int k = 1; k < a->t.rank; k++) each *= a->t.dim[k];
    for (int64_t i = 0; i < n; i++) {
        int64_t bad = outside(a, ot_array_at(a, index[i] * each), each, least, most, except);
        if (bad == each) continue;
        *at = index[i] * each + bad;
        return false;
    }
    return true;
}
