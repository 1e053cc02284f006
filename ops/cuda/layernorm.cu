/* layernorm.cu - normalises rows, and the gradients; rows are assigned to threads by group.cuh, unshifted.
 *
 * STAGE 0 forward.  1 gradient: a block processes `chunk` rows one after the other (a group each); with COLUMN_SUMS a
 * thread also accumulates dscale and dbias of its columns.  2: only these sums, for longer rows.  3: the chunks' sums
 * added in f64.
 *
 *   TS, SCALE_LANES       type of scale and bias, and how many of them are read at once
 *   SCALE BIAS CENTER DX  which operands exist and which results are needed
 *   ADD                   dx gets a.add added */
#include "layernorm.cuh"

#if STAGE < 2
#include "group.cuh"

/* Elements i .. i + LANES of scale or bias; nothing beyond n. */
OT_DEVICE void parameters(const void *p, INDEX i, INDEX n, ACC *v)
{
    if (i >= n) {
        for (int e = 0; e < LANES; e++) v[e] = 0;
        return;
    }
#if SCALE_LANES > 1
    for (int e = 0; e < LANES; e += SCALE_LANES) OT_LDP(TS, p, i + e, v + e);
#else
    for (int e = 0; e < LANES; e++) v[e] = (ACC)OT_LD(TS, p, i + e);
#endif
}
#endif

#if STAGE == 0

OT_KERNEL(layer_norm, ot_layer_norm_args, BOUNDS)
{
    OT_SHARED(ACC, shared, OT_GROUP_SHARED);
    OT_EACH_BLOCK_OF_SAMPLES(first, a.rows) {
        ot_line l = line_of(first, a.rows, a.n, 1);
        ACC     mean = 0, dev = 0, v[LANES], w[LANES], b[LANES];
        OT_KEEP(x, a.x, &l, 1);
        if (CENTER) {
            OT_EACH_PACK(&l, i) {
                OT_OPEN(x, a.x, &l, i, 1, 0, v);
                for (int e = 0; e < LANES; e++) mean += v[e];
            }
            mean = group_sum(mean, shared) / (ACC)a.n;
        }
        OT_EACH_PACK(&l, i) {
            OT_OPEN(x, a.x, &l, i, 1, mean, v);
            for (int e = 0; e < LANES; e++) dev += (v[e] - mean) * (v[e] - mean);
        }
        dev = group_sum(dev, shared) / (ACC)a.n;
        ACC inv = 1 / sqrt(dev + (ACC)a.epsilon);
        OT_EACH_PACK(&l, i) {
            OT_OPEN(x, a.x, &l, i, 1, mean, v);
            if (SCALE) parameters(a.scale, i, l.n, w);
            if (BIAS) parameters(a.bias, i, l.n, b);
            for (int e = 0; e < LANES; e++) v[e] = (v[e] - mean) * inv * (SCALE ? w[e] : (ACC)1) + (BIAS ? b[e] : (ACC)0);
            put(a.y, &l, i, 1, v);
        }
        if (!l.live || l.member != 0) continue;
        if (a.mean) ((ACC *)a.mean)[l.sample] = mean;
        if (a.inv) ((ACC *)a.inv)[l.sample] = inv;
    }
}

#elif STAGE == 1

/* This thread's part of dscale and dbias. */
typedef struct column_sums { ACC scale[COLUMN_SUMS ? PACKS * LANES : 1], bias[COLUMN_SUMS ? PACKS * LANES : 1]; } column_sums;

/* The sums of the block's groups, added in order, are written by the first group. */
OT_DEVICE void add_groups(const ot_layer_norm_args *a, const ACC *mine, int member, int which, ACC *shared)
{
    ACC *out = (ACC *)a->sums + (OT_BLOCK * 2 + which) * a->n;
    OT_UNROLL
    for (int k = 0; k < PACKS; k++) {
        if (SAMPLES == 1) {
            OT_UNROLL
            for (int e = 0; e < LANES; e++) {
                ot_i64 d = (ot_i64)(member + k * GROUP) * LANES + e;
                if (d < a->n) out[d] = mine[k * LANES + e];
            }
            continue;
        }
        OT_UNROLL
        for (int e = 0; e < LANES; e++) shared[e * THREADS + OT_THREAD] = mine[k * LANES + e];
        OT_SYNC();
        for (int j = OT_THREAD; j < GROUP * LANES; j += THREADS) {
            ACC    sum = 0;
            ot_i64 d = (ot_i64)(j % GROUP + k * GROUP) * LANES + j / GROUP;
            for (int g = 0; g < SAMPLES; g++) sum += shared[j / GROUP * THREADS + g * GROUP + j % GROUP];
            if (d < a->n) out[d] = sum;
        }
        OT_SYNC();
    }
}

/* dx of one row; sum, dot: of g = dy scale, and of g xh. */
OT_DEVICE void row_dx(const ot_layer_norm_args *a, const ot_line *l, column_sums *c, ACC *shared)
{
    ACC mean = 0, inv = 0, sum = 0, dot = 0, v[LANES], g[LANES], w[LANES];
    if (l->live) {
        mean = ((const ACC *)a->mean)[l->sample];
        inv = ((const ACC *)a->inv)[l->sample];
    }
    OT_KEEP(x, a->x, l, 1);
    OT_KEEP(dy, a->dy, l, 1);
    int at = 0;
    (void)at;
    OT_EACH_PACK(l, i) {
        OT_OPEN(x, a->x, l, i, 1, mean, v);
        OT_OPEN(dy, a->dy, l, i, 1, 0, g);
        if (SCALE) parameters(a->scale, i, l->n, w);
        for (int e = 0; e < LANES; e++) {
            ACC xh = (v[e] - mean) * inv;
#if COLUMN_SUMS
            c->scale[at + e] += g[e] * xh;
            c->bias[at + e] += g[e];
#endif
            if (SCALE) g[e] *= w[e];
            sum += g[e];
            dot += g[e] * xh;
        }
        at += LANES;
    }
    if (!DX) return;
    sum = CENTER ? group_sum(sum, shared) / (ACC)a->n : (ACC)0;
    dot = group_sum(dot, shared) / (ACC)a->n;
    OT_EACH_PACK(l, i) {
        OT_OPEN(x, a->x, l, i, 1, mean, v);
        OT_OPEN(dy, a->dy, l, i, 1, 0, g);
        if (SCALE) parameters(a->scale, i, l->n, w);
        for (int e = 0; e < LANES; e++)
            g[e] = inv * ((SCALE ? g[e] * w[e] : g[e]) - sum - (v[e] - mean) * inv * dot);
#if ADD
        open(grab(a->add, l, i, 1), l, i, 0, w);
        for (int e = 0; e < LANES; e++) g[e] += w[e];
#endif
        put(a->y, l, i, 1, g);
    }
}

OT_KERNEL(row_norm_dx, ot_layer_norm_args, BOUNDS)
{
    OT_SHARED(ACC, shared, COLUMN_SUMS && SAMPLES > 1 ? LANES * THREADS : THREADS);
    column_sums c;
    ot_i64 from = OT_BLOCK * a.chunk, end = from + a.chunk < a.rows ? from + a.chunk : a.rows;
#if COLUMN_SUMS
    OT_UNROLL
    for (int k = 0; k < PACKS * LANES; k++) c.scale[k] = c.bias[k] = 0;
#endif
    for (ot_i64 first = from; first < end; first += SAMPLES) {
        ot_line l = line_of(first, end, a.n, 1);
        row_dx(&a, &l, &c, shared);
    }
#if COLUMN_SUMS
    add_groups(&a, c.scale, OT_THREAD % GROUP, 0, shared);
    add_groups(&a, c.bias, OT_THREAD % GROUP, 1, shared);
#endif
}

#else

/* Neighbouring threads have neighbouring columns; ACROSS of them are adjacent, the others share the rows. */
#define ACROSS 32
#define DOWN (THREADS / ACROSS)

/* The sum of v over the threads of a column, in the first of them. */
OT_DEVICE double down_sum(double v, double *shared)
{
    shared[OT_THREAD] = v;
    OT_SYNC();
    v = 0;
    for (int r = 0; r < DOWN; r++) v += shared[r * ACROSS + OT_THREAD % ACROSS];
    OT_SYNC();
    return v;
}

#if STAGE == 2

/* Block b computes columns b / chunks * ACROSS .. of the rows of chunk b % chunks. */
OT_KERNEL(row_norm_columns, ot_layer_norm_args, THREADS)
{
    OT_SHARED(double, shared, THREADS);
    ot_i64 chunks = (a.rows + a.chunk - 1) / a.chunk, chunk = OT_BLOCK % chunks;
    ot_i64 d = OT_BLOCK / chunks * ACROSS + OT_THREAD % ACROSS;
    ot_i64 end = (chunk + 1) * a.chunk < a.rows ? (chunk + 1) * a.chunk : a.rows;
    ACC    dscale = 0, dbias = 0;
    for (ot_i64 r = chunk * a.chunk + OT_THREAD / ACROSS; r < end && d < a.n; r += DOWN) {
        ACC g = (ACC)OT_LD(T, a.dy, r * a.n + d), v = (ACC)OT_LD(T, a.x, r * a.n + d);
        dbias += g;
        dscale += g * ((v - ((const ACC *)a.mean)[r]) * ((const ACC *)a.inv)[r]);
    }
    ACC s = (ACC)down_sum(dscale, shared), b = (ACC)down_sum(dbias, shared);
    if (OT_THREAD >= ACROSS || d >= a.n) return;
    ((ACC *)a.sums)[chunk * 2 * a.n + d] = s;
    ((ACC *)a.sums)[(chunk * 2 + 1) * a.n + d] = b;
}

#else

OT_KERNEL(row_norm_fold, ot_layer_norm_fold_args, THREADS)
{
    OT_SHARED(double, shared, THREADS);
    ot_i64 d = OT_BLOCK * ACROSS + OT_THREAD % ACROSS;
    double s = 0, b = 0;
    OT_UNROLL_4
    for (ot_i64 k = OT_THREAD / ACROSS; k < a.chunks && d < a.n; k += DOWN) {
        s += (double)((const ACC *)a.sums)[k * 2 * a.n + d];
        b += (double)((const ACC *)a.sums)[(k * 2 + 1) * a.n + d];
    }
    s = down_sum(s, shared);
    b = down_sum(b, shared);
    if (OT_THREAD >= ACROSS || d >= a.n) return;
    if (a.dscale) OT_ST(TS, a.dscale, d, s);
    if (a.dbias) OT_ST(TS, a.dbias, d, b);
}

#endif
#endif
