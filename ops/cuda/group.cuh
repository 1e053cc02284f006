/* group.cuh - samples of n elements, each computed by a group of threads, which share sums and maxima.
 *
 * group.c chooses the geometry and writes these #defines before the text:
 *   T, ACC     type of the elements; float or double, in which is computed
 *   THREADS    of a block;  GROUP of them compute one sample
 *   BOUNDS     for OT_KERNEL: THREADS, or that and 1: registers matter more than concurrent blocks
 *   COLUMNS    0: a sample is a row, contiguous; the group's threads are neighbours: lanes of a warp, or the block
 *              1: elements of a sample are `step` apart and neighbouring samples neighbours in memory; so are the
 *              threads
 *   LANES      elements that a thread loads at once: 1, or those of 16 bytes
 *   SHIFTED    1: rows do not begin at multiples of 16 bytes; a row's first and last 16 bytes are partly its
 *              neighbours'
 *   PACKS      how often a thread loads LANES elements; all are kept in registers, so that memory is read once.
 *              0: a row is too long for that and is read again by each pass over it
 *   INDEX      type of a position in a sample
 *
 * Every thread of a block executes the same loop over samples, and so reaches every barrier; one without a sample of
 * its own (`live` 0) reads no elements. */
#ifndef OT_GROUP_CUH
#define OT_GROUP_CUH

#include "packs.cuh"

#define SAMPLES (THREADS / GROUP) /* of a block at a time */
#define OT_INF ot_bits_f32(0x7f800000u)
#define OT_GROUP_SHARED (COLUMNS ? THREADS : 32)

typedef struct ot_line {
    ot_i64 start;  /* of the sample's first element */
    INDEX  first;  /* this thread's first element, -LANES < first */
    INDEX  n;      /* elements; 0: no sample */
    ot_i64 sample;
    int    live, member;
} ot_line;

OT_DEVICE ot_line line_of(ot_i64 block_first, ot_i64 samples, ot_i64 n, ot_i64 step)
{
    ot_line l;
    l.member = COLUMNS ? OT_THREAD / SAMPLES : OT_THREAD % GROUP;
    l.sample = block_first + (COLUMNS ? OT_THREAD % SAMPLES : OT_THREAD / GROUP);
    l.live = l.sample < samples;
    l.n = l.live ? (INDEX)n : 0;
    l.start = COLUMNS ? l.sample / step * n * step + l.sample % step : l.sample * n;
    l.first = l.member * LANES - (SHIFTED ? (INDEX)(l.start % LANES) : 0);
    return l;
}

#define OT_EACH_BLOCK_OF_SAMPLES(first, samples) \
    for (ot_i64 first = OT_BLOCK * SAMPLES; first < (samples); first += OT_BLOCKS * SAMPLES)

/* ---- elements ------------------------------------------------------------------ */

#if LANES > 1
typedef ot_pack ot_kept;
#else
typedef ACC ot_kept;
#endif

/* Elements i .. i + LANES of the sample, unconverted. */
OT_DEVICE ot_kept grab(const void *p, const ot_line *l, INDEX i, ot_i64 step)
{
#if LANES > 1
    ot_pack none = { { 0, 0, 0, 0 } };
    return i < l->n ? OT_GRAB(T, p, l->start + i) : none;
#else
    return i < l->n ? (ACC)OT_LD(T, p, l->start + (COLUMNS ? i * step : i)) : (ACC)0;
#endif
}

/* ... as numbers; elements outside of the sample are `fill`. */
OT_DEVICE void open(ot_kept q, const ot_line *l, INDEX i, ACC fill, ACC *v)
{
#if LANES > 1
    OT_UNPACK(T, q, v);
    if (i < 0 || i + LANES > l->n)
        for (int e = 0; e < LANES; e++)
            if (i + e < 0 || i + e >= l->n) v[e] = fill;
#else
    v[0] = i < l->n ? q : fill;
#endif
}

OT_DEVICE void put(void *p, const ot_line *l, INDEX i, ot_i64 step, const ACC *v)
{
#if LANES > 1
    if (i >= 0 && i + LANES <= l->n) {
        OT_STP(T, p, l->start + i, v);
        return;
    }
    for (int e = 0; e < LANES; e++)
        if (i + e >= 0 && i + e < l->n) OT_ST(T, p, l->start + i + e, v[e]);
#else
    if (i < l->n) OT_ST(T, p, l->start + (COLUMNS ? i * step : i), v[0]);
#endif
}

/* OT_KEEP reads a thread's share of p; OT_EACH_PACK iterates over it, with i the index of the first element, and
 * OT_OPEN converts it to numbers. */
#if PACKS
#define OT_KEEP(q, p, l, step)  \
    ot_kept q[PACKS];           \
    OT_UNROLL for (int k_ = 0; k_ < PACKS; k_++) q[k_] = grab(p, l, (l)->first + k_ * GROUP * LANES, step)
#define OT_EACH_PACK(l, i) \
    OT_UNROLL for (INDEX k_ = 0, i = (l)->first; k_ < PACKS; k_++, i += GROUP * LANES)
#define OT_OPEN(q, p, l, i, step, fill, v) open(q[k_], l, i, fill, v)
#else
#define OT_KEEP(q, p, l, step) (void)0
#define OT_EACH_PACK(l, i) OT_UNROLL_4 for (INDEX i = (l)->first; i < (l)->n; i += GROUP * LANES)
#define OT_OPEN(q, p, l, i, step, fill, v) open(grab(p, l, i, step), l, i, fill, v)
#endif

/* ---- what the group agrees on ------------------------------------------------------ */

/* In an order that depends only on the geometry; every thread of the block calls it. */
#if GROUP == 1
#define OT_GROUP_REDUCE(name, x, y, both) \
    OT_DEVICE ACC name(ACC x, ACC *shared) { (void)shared; return x; }
#elif COLUMNS
#define OT_GROUP_REDUCE(name, x, y, both)                          \
    OT_DEVICE ACC name(ACC mine, ACC *shared)                      \
    {                                                              \
        shared[OT_THREAD] = mine;                                  \
        OT_SYNC();                                                 \
        ACC x = shared[OT_THREAD % SAMPLES];                       \
        for (int m = 1; m < GROUP; m++) {                          \
            ACC y = shared[m * SAMPLES + OT_THREAD % SAMPLES];     \
            x = both;                                              \
        }                                                          \
        OT_SYNC();                                                 \
        return x;                                                  \
    }
#elif GROUP <= 32
#define OT_GROUP_REDUCE(name, x, y, both)         \
    OT_DEVICE ACC name(ACC x, ACC *shared)        \
    {                                             \
        (void)shared;                             \
        for (int m = GROUP / 2; m > 0; m /= 2) {  \
            ACC y = OT_SHUFFLE_XOR(x, m);         \
            x = both;                             \
        }                                         \
        return x;                                 \
    }
#else
#define OT_GROUP_REDUCE(name, x, y, both)                      \
    OT_DEVICE ACC name(ACC x, ACC *shared)                     \
    {                                                          \
        for (int m = 16; m > 0; m /= 2) {                      \
            ACC y = OT_SHUFFLE_XOR(x, m);                      \
            x = both;                                          \
        }                                                      \
        if (OT_THREAD % 32 == 0) shared[OT_THREAD / 32] = x;   \
        OT_SYNC();                                             \
        x = shared[0];                                         \
        for (int w = 1; w < THREADS / 32; w++) {               \
            ACC y = shared[w];                                 \
            x = both;                                          \
        }                                                      \
        OT_SYNC();                                             \
        return x;                                              \
    }
#endif
OT_GROUP_REDUCE(group_sum, x, y, x + y)
OT_GROUP_REDUCE(group_max, x, y, y > x ? y : x)

/* ---- softmax ------------------------------------------------------------------------- */

/* Adds LANES numbers to a running maximum and the sum of exp(number - maximum).  The maximum begins at LOWEST, the
 * least finite number: minus infinities then add nothing, and infinity gives NaN. */
OT_DEVICE void softmax_more(const ACC *v, ACC *max, ACC *sum)
{
    ACC most = v[0];
    for (int e = 1; e < LANES; e++) most = v[e] > most ? v[e] : most;
    if (most > *max) {
        *sum *= exp(*max - most);
        *max = most;
    }
    for (int e = 0; e < LANES; e++) *sum += exp(v[e] - *max);
}

/* Of the group, from those of its threads. */
OT_DEVICE void softmax_join(ACC *max, ACC *sum, ACC *shared)
{
    ACC all = group_max(*max, shared);
    *sum = group_sum(*sum * exp(*max - all), shared);
    *max = all;
}

#endif
