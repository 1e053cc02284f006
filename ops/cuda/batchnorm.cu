/* batchnorm.cu - statistics of channels, the normalisation, and the gradient.
 *
 * A channel has N P elements, j = 0 .. N P - 1.  A block processes `chunk` of them, for CT packs of channels if
 * channels are innermost (LAST) and for one channel otherwise; its other threads (SLICES) process elements in turn.
 *
 *   STAGE   0 sums of chunks   1 the chunks' sums of 8 channels, added in f64: statistics and factors   2 y or dx
 *           3 all of it: the chunk is the whole channel
 *   GRADIENT, LAST, X_LAST DY_LAST (layouts; LAST is the result's), T, ACC, TS, LANES, INDEX, CT, THREADS
 *
 * Numerics  deviations: BATCH elements at a time, squared after their mean is known, then joined with those before
 *           (Chan, Golub, LeVeque: Updating formulae for computing sample variances, 1979) */
#include "packs.cuh"
#include "batchnorm.cuh"

#define BATCH 8
#define SLICES (THREADS / CT)
#define AT(last, j, c) ((last) ? (ot_i64)(j) * a.C + (c) : ((ot_i64)((INDEX)(j) / (INDEX)a.P) * a.C + (c)) * a.P + (INDEX)(j) % (INDEX)a.P)
#define STEP (LAST ? 1 : LANES) /* elements of a channel that a thread loads at once */
#if LANES > 1
#define GET(p, i, v) OT_LDP(T, p, i, v)
#define SET(p, i, v) OT_STP(T, p, i, v)
#else
#define GET(p, i, v) ((v)[0] = (ACC)OT_LD(T, p, i))
#define SET(p, i, v) OT_ST(T, p, i, (v)[0])
#endif

/* Adds v[0 .. n) over the threads that share this thread's channels; all of them get the sums.  In a fixed order. */
OT_DEVICE void slice_sum(ACC *v, int n, ACC *shared)
{
    for (int m = CT; m < 32; m *= 2)
        for (int e = 0; e < n; e++) v[e] += OT_SHUFFLE_XOR(v[e], m);
    if (OT_THREAD % 32 < CT)
        for (int e = 0; e < n; e++) shared[(OT_THREAD / 32 * CT + OT_THREAD % 32) * n + e] = v[e];
    OT_SYNC();
    for (int e = 0; e < n; e++) {
        v[e] = 0;
        for (int w = 0; w < THREADS / 32; w++) v[e] += shared[(w * CT + OT_THREAD % CT) * n + e];
    }
    OT_SYNC();
}

/* y = (x - mean) f + bias;  dx = f dy + slope (x - mean) + shift. */
#if GRADIENT
#define RESULT(f0, f1, f2, mean, x, g) ((f0) * (g) + ((f1) * ((x) - (mean)) + (f2)))
#else
#define RESULT(f0, f1, f2, mean, x, g) (((x) - (f1)) * (f0) + (f2))
#endif

#if STAGE == 0 || STAGE == 3

/* The channels and elements of this thread: j = from, from + SLICES STEP, ... < end. */
typedef struct part { ot_i64 from, end, c, chunk; int live; } part;

OT_DEVICE part part_of(const ot_batch_norm_args *a)
{
    part p;
    p.chunk = OT_BLOCK % a->chunks;
    p.c = LAST ? (OT_BLOCK / a->chunks * CT + OT_THREAD % CT) * LANES : OT_BLOCK / a->chunks;
    p.live = p.c < a->C;
    p.from = p.chunk * a->chunk + OT_THREAD / CT * STEP;
    p.end = (p.chunk + 1) * a->chunk < a->rows ? (p.chunk + 1) * a->chunk : a->rows;
    if (!p.live) p.end = p.from;
    return p;
}

#if !GRADIENT

/* Mean and squared deviations of a thread's elements, per lane. */
OT_DEVICE ACC moments(const ot_batch_norm_args *arg, const part *p, ACC *mean, ACC *dev)
{
    ot_batch_norm_args a = *arg;
    ACC had = 0, v[BATCH][LANES];
    for (int e = 0; e < LANES; e++) mean[e] = dev[e] = 0;
    for (ot_i64 j = p->from; j < p->end; j += BATCH * SLICES * STEP) {
        ACC m = 0;
        OT_UNROLL
        for (int b = 0; b < BATCH; b++) {
            ot_i64 at = j + b * SLICES * STEP;
            for (int e = 0; e < LANES; e++) v[b][e] = 0;
            if (at >= p->end) continue;
            GET(a.x, AT(X_LAST, at, p->c), v[b]);
            m += 1;
        }
        ACC share = m / (had + m), cross = had * share;
        for (int e = 0; e < LANES; e++) {
            ACC sum = 0, sq = 0;
            OT_UNROLL
            for (int b = 0; b < BATCH; b++) sum += v[b][e];
            sum /= m;
            OT_UNROLL
            for (int b = 0; b < BATCH; b++) sq += b < m ? (v[b][e] - sum) * (v[b][e] - sum) : (ACC)0;
            ACC delta = sum - mean[e];
            mean[e] += delta * share;
            dev[e] += sq + delta * delta * cross;
        }
        had += m;
    }
    return had;
}

/* Mean and squared deviations of the block's elements, in all its threads; not LAST: [0]. */
OT_DEVICE void block_sums(const ot_batch_norm_args *a, const part *p, ACC *mean, ACC *dev, ACC *shared)
{
    ACC sum[LANES + 1];
    ACC had = moments(a, p, mean, dev);
    /* The block's mean, then every thread's deviations from it. */
    for (int e = 0; e < LANES; e++) sum[e] = had * mean[e];
    sum[LANES] = had;
    if (!LAST)
        for (int e = 1; e < LANES; e++) sum[0] += sum[e];
    slice_sum(sum, LANES + 1, shared);
    ACC count = LAST ? sum[LANES] : sum[LANES] * LANES;
    for (int e = 0; e < LANES; e++) {
        ACC all = count > 0 ? sum[LAST ? e : 0] / count : (ACC)0;
        dev[e] += had * (mean[e] - all) * (mean[e] - all);
        mean[e] = all;
    }
    if (!LAST)
        for (int e = 1; e < LANES; e++) dev[0] += dev[e];
    slice_sum(dev, LANES, shared);
}

#else

/* Sums of dy and dy (x - mean), likewise. */
OT_DEVICE void block_sums(const ot_batch_norm_args *arg, const part *p, ACC *sum, ACC *dot, ACC *shared)
{
    ot_batch_norm_args a = *arg;
    ACC mean[LANES], v[LANES], g[LANES];
    for (int e = 0; e < LANES; e++) {
        sum[e] = dot[e] = 0;
        mean[e] = p->live ? (ACC)OT_LD(TS, a.mean_in, LAST ? p->c + e : p->c) : (ACC)0;
    }
    OT_UNROLL_4
    for (ot_i64 j = p->from; j < p->end; j += SLICES * STEP) {
        GET(a.x, AT(X_LAST, j, p->c), v);
        GET(a.dy, AT(DY_LAST, j, p->c), g);
        for (int e = 0; e < LANES; e++) {
            sum[e] += g[e];
            dot[e] += g[e] * (v[e] - mean[e]);
        }
    }
    if (!LAST)
        for (int e = 1; e < LANES; e++) sum[0] += sum[e], dot[0] += dot[e];
    slice_sum(sum, LANES, shared);
    slice_sum(dot, LANES, shared);
}

#endif
#endif

#if STAGE == 1 || STAGE == 3

/* Statistics or gradients of channel c (put: store them), and the factors of RESULT. */
OT_DEVICE void finish(const ot_batch_norm_args *a, ot_i64 c, double first, double second, int put, ACC *f)
{
    double scale = (double)OT_LD(TS, a->scale, c), m = (double)a->rows;
#if GRADIENT
    /* dx = scale inv (dy - sum / m - (x - mean) inv^2 dot / m) */
    double inv = (double)OT_LD(TS, a->inv_in, c);
    if (put && a->dscale) OT_ST(TS, a->dscale, c, second * inv);
    if (put && a->dbias) OT_ST(TS, a->dbias, c, first);
    f[0] = (ACC)(scale * inv);
    f[1] = (ACC)(-scale * inv * inv * inv * second / m);
    f[2] = (ACC)(-scale * inv * first / m);
#else
    double var = second / m, inv = 1 / sqrt(var + a->epsilon);
    if (put && a->mean) OT_ST(TS, a->mean, c, first);
    if (put && a->var) OT_ST(TS, a->var, c, var);
    if (put && a->inv) OT_ST(TS, a->inv, c, inv);
    f[0] = (ACC)(scale * inv);
    f[1] = (ACC)first;
    f[2] = (ACC)OT_LD(TS, a->bias, c);
#endif
}

#endif

#if STAGE == 0

OT_KERNEL(batch_norm_sums, ot_batch_norm_args, THREADS)
{
    OT_SHARED(ACC, shared, THREADS / 32 * CT * (LANES + 1));
    part p = part_of(&a);
    ACC  first[LANES], second[LANES];
    block_sums(&a, &p, first, second, shared);
    if (OT_THREAD / CT != 0 || !p.live) return; /* the first slice writes */
    for (int e = 0; e < (LAST ? LANES : 1); e++) {
        ((ACC *)a.sums)[p.chunk * 2 * a.C + p.c + e] = first[e];
        ((ACC *)a.sums)[(p.chunk * 2 + 1) * a.C + p.c + e] = second[e];
    }
}

#elif STAGE == 1

/* CT is 8 here: eight channels, the other threads share the chunks. */
OT_DEVICE double all_chunks(double v, double *shared)
{
    shared[OT_THREAD] = v;
    OT_SYNC();
    v = 0;
    for (int s = 0; s < SLICES; s++) v += shared[s * CT + OT_THREAD % CT];
    OT_SYNC();
    return v;
}

OT_KERNEL(batch_norm_finish, ot_batch_norm_args, THREADS)
{
    OT_SHARED(double, shared, THREADS);
    ot_i64     c = OT_BLOCK * CT + OT_THREAD % CT;
    const ACC *sums = (const ACC *)a.sums;
    double     first = 0, second = 0, m = (double)a.rows;
    for (int k = OT_THREAD / CT; k < a.chunks && c < a.C; k += SLICES) {
        double n = GRADIENT ? 1 : (double)((k + 1) * a.chunk < a.rows ? a.chunk : a.rows - k * a.chunk);
        first += n * (double)sums[(ot_i64)k * 2 * a.C + c];
    }
    first = all_chunks(first, shared);
    if (!GRADIENT) first /= m;
    for (int k = OT_THREAD / CT; k < a.chunks && c < a.C; k += SLICES) {
        double n = (double)((k + 1) * a.chunk < a.rows ? a.chunk : a.rows - k * a.chunk);
        double away = (double)sums[(ot_i64)k * 2 * a.C + c] - first;
        second += (double)sums[((ot_i64)k * 2 + 1) * a.C + c] + (GRADIENT ? 0 : n * away * away);
    }
    second = all_chunks(second, shared);
    if (OT_THREAD >= CT || c >= a.C) return;
    ACC f[3];
    finish(&a, c, first, second, 1, f);
    for (int k = 0; k < 3; k++) ((ACC *)a.factors)[k * a.C + c] = f[k];
}

#elif STAGE == 2

OT_KERNEL(batch_norm_apply, ot_batch_norm_args, THREADS)
{
    const ACC *f = (const ACC *)a.factors;
    INDEX      C = (INDEX)(LAST ? a.C / LANES : a.C), P = (INDEX)(LAST ? a.P : a.P / LANES);
    OT_GRID_LOOP(at, a.rows * a.C / LANES) {
        INDEX k = (INDEX)at;
        INDEX c = LAST ? k % C * LANES : k / P % C;
        INDEX j = LAST ? k / C : k / P / C * (INDEX)a.P + k % P * LANES;
        ACC   v[LANES], g[LANES];
        GET(a.x, AT(X_LAST, j, c), v);
        if (GRADIENT) GET(a.dy, AT(DY_LAST, j, c), g);
        for (int e = 0; e < LANES; e++) {
            ot_i64 d = LAST ? c + e : c;
            v[e] = RESULT(f[d], f[a.C + d], f[2 * a.C + d], (ACC)OT_LD(TS, a.mean_in, d), v[e], g[e]);
        }
        SET(a.y, AT(LAST, j, c), v);
    }
}

#else

OT_KERNEL(batch_norm_whole, ot_batch_norm_args, THREADS)
{
    OT_SHARED(ACC, shared, THREADS / 32 * CT * (LANES + 1));
    part p = part_of(&a);
    ACC  first[LANES], second[LANES], mean[LANES], f[LANES][3], v[LANES];
#if GRADIENT
    ACC  g[LANES];
#endif
    block_sums(&a, &p, first, second, shared);
    ot_i64 c = p.live ? p.c : 0; /* all threads take the same branch */
    for (int e = 0; e < (LAST ? LANES : 1); e++) {
        finish(&a, c + e, first[e], second[e], p.live && OT_THREAD / CT == 0, f[e]);
        mean[e] = GRADIENT ? (ACC)OT_LD(TS, a.mean_in, c + e) : (ACC)0;
    }
    OT_UNROLL_4
    for (ot_i64 j = a.y ? p.from : p.end; j < p.end; j += SLICES * STEP) {
        GET(a.x, AT(X_LAST, j, c), v);
#if GRADIENT
        GET(a.dy, AT(DY_LAST, j, c), g);
#endif
        for (int e = 0; e < LANES; e++) {
            int k = LAST ? e : 0;
            v[e] = RESULT(f[k][0], f[k][1], f[k][2], mean[k], v[e], g[e]);
        }
        SET(a.y, AT(LAST, j, c), v);
    }
}

#endif
