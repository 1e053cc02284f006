/* pool.cu - PoolMax, PoolAvg and their gradients: a thread computes LANES channels of one pixel.
 *
 * The gradients iterate over the windows that contain a pixel of dx, so that no two threads write the same element.
 *
 *   STAGE                 0 PoolMax, 1 PoolMaxDx, 2 PoolAvg, 3 PoolAvgDx
 *   T, CLS, ACC           type of the elements, of the maximum and of sums
 *   LANES                 more than 1: channels are innermost in every tensor
 *   X_LAST Y_LAST WHERE_LAST INDICES_LAST   layouts; Y of y or dy, X of x or dx
 *   K0 .. K2, S0 .., D0 ..  window, strides and dilations; WHERE_TYPE u8 or i32; INCLUDE_PAD
 *   RELU                  PoolMax: y is followed by ReLU; PoolMaxDx: dy is preceded by its gradient
 *   INDEX                 type of a position;  BOUNDS for OT_KERNEL: threads of a block, and 1 where registers go
 *                         before blocks that run side by side */
#include "packs.cuh"
#include "pool.cuh"

#define AT(last, n, c, p, P) ((last) ? ((INDEX)(n) * (P) + (p)) * (INDEX)a.C + (c) : ((INDEX)(n) * (INDEX)a.C + (c)) * (P) + (p))

#if LANES > 1
#define GET(p, i, v) OT_LDP(T, p, i, v)
#define SET(p, i, v) OT_STP(T, p, i, v)
#else
#define GET(p, i, v) ((v)[0] = OT_LD(T, p, i))
#define SET(p, i, v) OT_ST(T, p, i, (v)[0])
#endif

/* Pixel `at` of a tensor: n, first channel and place; `last` is how the threads are laid over it. */
typedef struct place { INDEX n, c; int q[3]; INDEX pixel; } place;

OT_DEVICE place place_of(INDEX at, INDEX C, const int *out, int last)
{
    place r;
    INDEX P = (INDEX)out[0] * out[1] * out[2];
    if (last) {
        r.c = at % C;
        at /= C;
        r.pixel = at % P;
        r.n = at / P;
    } else {
        r.pixel = at % P;
        at /= P;
        r.c = at % C;
        r.n = at / C;
    }
    r.c *= LANES;
    r.q[2] = (int)(r.pixel % out[2]);
    r.q[1] = (int)(r.pixel / out[2] % out[1]);
    r.q[0] = (int)(r.pixel / out[2] / out[1]);
    return r;
}

#if STAGE == 0 || STAGE == 2

/* The following statement is executed for every element f of the window of pixel r that is inside x, at pixel i of
 * it. */
#define FOR_WINDOW(r, f, i)                                                                             \
    for (int k0 = 0, i0 = r.q[0] * S0 - a.pad_lo[0]; k0 < K0; k0++, i0 += D0)                           \
        for (int k1 = 0, i1 = r.q[1] * S1 - a.pad_lo[1]; k1 < K1 && i0 >= 0 && i0 < a.in[0]; k1++, i1 += D1) \
            for (int k2 = 0, i2 = r.q[2] * S2 - a.pad_lo[2], f = (k0 * K1 + k1) * K2;                   \
                 k2 < K2 && i1 >= 0 && i1 < a.in[1]; k2++, i2 += D2, f++)                               \
                for (INDEX i = ((INDEX)i0 * a.in[1] + i1) * a.in[2] + i2, once_ = 1; once_ && i2 >= 0 && i2 < a.in[2]; once_ = 0)

#else

/* The windows q of one axis that contain its pixel i: first <= q <= last, and the element they have there; -1:
 * between two. */
OT_DEVICE int first_window(int i, int pad, int k, int s, int d)
{
    int from = i + pad - (k - 1) * d;
    return from <= 0 ? 0 : (from + s - 1) / s;
}

OT_DEVICE int last_window(int i, int pad, int s, int out)
{
    int q = (i + pad) / s;
    return i + pad < 0 ? -1 : q < out ? q : out - 1;
}

OT_DEVICE int element_of(int i, int pad, int q, int s, int d) { return (i + pad - q * s) % d ? -1 : (i + pad - q * s) / d; }

/* … and all three: q0 q1 q2 are the window, k0 k1 k2 its element at the pixel. */
#define FOR_AXIS(r, j, w, k, K, S, D)                                                                     \
    for (int w = first_window(r.q[j], a.pad_lo[j], K, S, D), w##_last = last_window(r.q[j], a.pad_lo[j], S, a.out[j]), k = 0; \
         w <= w##_last; w++)                                                                               \
        if ((k = element_of(r.q[j], a.pad_lo[j], w, S, D)) >= 0)
#define FOR_WINDOWS(r) FOR_AXIS(r, 0, q0, k0, K0, S0, D0) FOR_AXIS(r, 1, q1, k1, K1, S1, D1) FOR_AXIS(r, 2, q2, k2, K2, S2, D2)

#endif

#if STAGE >= 2

/* The number of elements of window q along one axis in an average: those inside x; INCLUDE_PAD: up to the padding's
 * end. */
OT_DEVICE int counted(const ot_pool_args *a, int j, int q, int k, int s, int d)
{
    int first = q * s - a->pad_lo[j], end = INCLUDE_PAD ? a->edge[j] : a->in[j];
    int upto = end > first ? (end - first + d - 1) / d : 0, from = INCLUDE_PAD || first >= 0 ? 0 : (-first + d - 1) / d;
    if (upto > k) upto = k;
    return upto > from ? upto - from : 0;
}

#endif

#if STAGE < 2
OT_DEVICE void where_at(const void *p, INDEX i, int *f)
{
#if LANES > 1 && WHERE_BYTES
    OT_UNROLL
    for (int e = 0; e < LANES; e += 2) {
        ot_u32 both = ((const ot_u16 *)p)[(i + e) / 2];
        f[e] = (int)(both & 255u);
        f[e + 1] = (int)(both >> 8);
    }
#else
    for (int e = 0; e < LANES; e++) f[e] = (int)OT_LD(WHERE_TYPE, p, i + e);
#endif
}

OT_DEVICE void put_where(void *p, INDEX i, const int *f)
{
#if LANES > 1 && WHERE_BYTES
    OT_UNROLL
    for (int e = 0; e < LANES; e += 2) ((ot_u16 *)p)[(i + e) / 2] = (ot_u16)((f[e] & 255) | (f[e + 1] & 255) << 8);
#else
    for (int e = 0; e < LANES; e++) OT_ST(WHERE_TYPE, p, i + e, f[e]);
#endif
}
#endif

#if STAGE == 0

OT_DEVICE INDEX column_major(const int *in, INDEX i)
{
    INDEX i2 = i % in[2], i1 = i / in[2] % in[1], i0 = i / in[2] / in[1];
    return i0 + in[0] * (i1 + in[1] * i2);
}

OT_KERNEL(pool_max, ot_pool_args, BOUNDS)
{
    INDEX OUT = (INDEX)a.out[0] * a.out[1] * a.out[2], IN = (INDEX)a.in[0] * a.in[1] * a.in[2], C = (INDEX)a.C / LANES;
    OT_GRID_LOOP(at, (ot_i64)a.N * C * OUT) {
        place r = place_of((INDEX)at, C, a.out, Y_LAST);
        CLS   best[LANES], v[LANES];
        int   from[LANES];
        INDEX pixel[LANES];
        for (int e = 0; e < LANES; e++) best[e] = LEAST, from[e] = -1, pixel[e] = -1;
        FOR_WINDOW(r, f, i) {
            GET(a.x, AT(X_LAST, r.n, r.c, i, IN), v);
            for (int e = 0; e < LANES; e++)
                if (from[e] < 0 || v[e] > best[e] || (v[e] != v[e] && best[e] == best[e])) best[e] = v[e], from[e] = f, pixel[e] = i;
        }
#if RELU
        for (int e = 0; e < LANES; e++) best[e] = best[e] <= 0 ? (CLS)0 : best[e];
#endif
        if (a.y) SET(a.y, AT(Y_LAST, r.n, r.c, r.pixel, OUT), best);
        if (a.where) put_where(a.where, AT(WHERE_LAST, r.n, r.c, r.pixel, OUT), from);
        for (int e = 0; e < LANES && a.indices; e++) {
            ot_i64 i = a.column_major ? column_major(a.in, pixel[e]) : pixel[e];
            a.indices[AT(INDICES_LAST, r.n, r.c + e, r.pixel, OUT)] = from[e] < 0 ? -1 : ((ot_i64)r.n * a.C + r.c + e) * IN + i;
        }
    }
}

#elif STAGE == 1

OT_KERNEL(pool_max_dx, ot_pool_args, BOUNDS)
{
    INDEX OUT = (INDEX)a.out[0] * a.out[1] * a.out[2], IN = (INDEX)a.in[0] * a.in[1] * a.in[2], C = (INDEX)a.C / LANES;
    OT_GRID_LOOP(at, (ot_i64)a.N * C * IN) {
        place r = place_of((INDEX)at, C, a.in, X_LAST);
        ACC   sum[LANES];
        CLS   v[LANES];
        int   f[LANES];
        for (int e = 0; e < LANES; e++) sum[e] = 0;
        FOR_WINDOWS(r) {
            INDEX q = ((INDEX)q0 * a.out[1] + q1) * a.out[2] + q2;
            GET(a.x, AT(Y_LAST, r.n, r.c, q, OUT), v);
#if RELU
            CLS y[LANES];
            GET(a.relu, AT(Y_LAST, r.n, r.c, q, OUT), y);
            for (int e = 0; e < LANES; e++) v[e] = y[e] <= 0 ? (CLS)0 : v[e];
#endif
            where_at(a.where, AT(WHERE_LAST, r.n, r.c, q, OUT), f);
            for (int e = 0; e < LANES; e++) sum[e] += f[e] == (k0 * K1 + k1) * K2 + k2 ? (ACC)v[e] : (ACC)0;
        }
        for (int e = 0; e < LANES; e++) v[e] = (CLS)sum[e];
        SET(a.y, AT(X_LAST, r.n, r.c, r.pixel, IN), v);
    }
}

#elif STAGE == 2

OT_KERNEL(pool_avg, ot_pool_args, BOUNDS)
{
    INDEX OUT = (INDEX)a.out[0] * a.out[1] * a.out[2], IN = (INDEX)a.in[0] * a.in[1] * a.in[2], C = (INDEX)a.C / LANES;
    OT_GRID_LOOP(at, (ot_i64)a.N * C * OUT) {
        place r = place_of((INDEX)at, C, a.out, Y_LAST);
        ACC   sum[LANES];
        CLS   v[LANES];
        for (int e = 0; e < LANES; e++) sum[e] = 0;
        FOR_WINDOW(r, f, i) {
            (void)f;
            GET(a.x, AT(X_LAST, r.n, r.c, i, IN), v);
            for (int e = 0; e < LANES; e++) sum[e] += (ACC)v[e];
        }
        ACC n = (ACC)counted(&a, 0, r.q[0], K0, S0, D0) * (ACC)counted(&a, 1, r.q[1], K1, S1, D1) * (ACC)counted(&a, 2, r.q[2], K2, S2, D2);
        for (int e = 0; e < LANES; e++) v[e] = n > 0 ? (CLS)(sum[e] / n) : (CLS)0;
        SET(a.y, AT(Y_LAST, r.n, r.c, r.pixel, OUT), v);
    }
}

#else

OT_KERNEL(pool_avg_dx, ot_pool_args, BOUNDS)
{
    INDEX OUT = (INDEX)a.out[0] * a.out[1] * a.out[2], IN = (INDEX)a.in[0] * a.in[1] * a.in[2], C = (INDEX)a.C / LANES;
    OT_GRID_LOOP(at, (ot_i64)a.N * C * IN) {
        place r = place_of((INDEX)at, C, a.in, X_LAST);
        ACC   sum[LANES];
        CLS   v[LANES];
        for (int e = 0; e < LANES; e++) sum[e] = 0;
        FOR_WINDOWS(r) {
            ACC n = (ACC)counted(&a, 0, q0, K0, S0, D0) * (ACC)counted(&a, 1, q1, K1, S1, D1) * (ACC)counted(&a, 2, q2, K2, S2, D2);
            GET(a.x, AT(Y_LAST, r.n, r.c, ((INDEX)q0 * a.out[1] + q1) * a.out[2] + q2, OUT), v);
            for (int e = 0; e < LANES; e++) sum[e] += (ACC)v[e] / n; /* the window contains this pixel: n > 0 */
        }
        for (int e = 0; e < LANES; e++) v[e] = (CLS)sum[e];
        SET(a.y, AT(X_LAST, r.n, r.c, r.pixel, IN), v);
    }
}

#endif
