/* convolvedirect.cu - convolutions of groups with one or a few channels (depthwise), without tiles: each output is a
 * few products, and the time is that of reading x, y and dy once.
 *
 * The prefix has the window as constants, so that loops over taps unroll: K0 K1 K2 of the kernel, S. of strides, D. of
 * dilations, P. of padding; C and M, channels of x and y per group; LAST_X or LAST_Y: the output has its channels
 * last, neighbouring threads are neighbouring channels, else positions. */
#include "convolvedirect.cuh"

enum { TAPS = K0 * K1 * K2, SEGMENT = (PX - 1) * S2 + (K2 - 1) * D2 + 1 };

/* The outputs of one thread: PX positions along the last axis of one sample and channel. */
typedef struct item { IDX n, channel, at[3]; } item;

OT_DEVICE item item_of(IDX i, IDX channels, const ot_i64 extent[3], int last)
{
    item t;
    IDX  runs = ((IDX)extent[2] + PX - 1) / PX;
    if (last) {
        t.channel = i % channels;
        i /= channels;
    }
    t.at[2] = i % runs * PX;
    i /= runs;
    t.at[1] = i % (IDX)extent[1];
    i /= (IDX)extent[1];
    t.at[0] = i % (IDX)extent[0];
    i /= (IDX)extent[0];
    if (!last) {
        t.channel = i % channels;
        i /= channels;
    }
    t.n = i;
    return t;
}

/* ---- y = x w + b ------------------------------------------------------------------ */

/* A range of x along its last axis is used for all taps and the PX outputs. */
OT_DEVICE void add_row(const ot_direct_args *a, IDX x, IDX first, IDX w, ACC sum[PX])
{
    ACC segment[SEGMENT];
    OT_UNROLL
    for (int s = 0; s < SEGMENT; s++) {
        IDX at = first + s;
        segment[s] = (UIDX)at < (UIDX)a->in[2] ? (ACC)OT_LD(T, a->from, x + at * (IDX)a->xs) : (ACC)0;
    }
    OT_UNROLL
    for (int k = 0; k < K2; k++) {
        ACC v = (ACC)OT_LD(T, a->with, w + k * (IDX)a->wf);
        OT_UNROLL
        for (int p = 0; p < PX; p++) sum[p] += segment[p * S2 + k * D2] * v;
    }
}

OT_KERNEL(direct_forward, ot_direct_args, 256)
{
    OT_GRID_LOOP(i, a.items)
    {
        item t = item_of((IDX)i, (IDX)a.G * M, a.out, LAST_Y);
        ACC  sum[PX];
        OT_UNROLL
        for (int p = 0; p < PX; p++) sum[p] = a.bias ? (ACC)OT_LD(T, a.bias, t.channel) : (ACC)0;
        for (int c = 0; c < C; c++) {
            IDX x = t.n * (IDX)a.xn + (t.channel / M * C + c) * (IDX)a.xc, w = t.channel * (IDX)a.wm + c * (IDX)a.wc;
            OT_UNROLL
            for (int k = 0; k < K0 * K1; k++) {
                IDX d = t.at[0] * S0 - P0 + k / K1 * D0, h = t.at[1] * S1 - P1 + k % K1 * D1;
                if ((UIDX)d >= (UIDX)a.in[0] || (UIDX)h >= (UIDX)a.in[1]) continue;
                add_row(&a, x + (d * (IDX)a.in[1] + h) * (IDX)a.in[2] * (IDX)a.xs, t.at[2] * S2 - P2, w + k * K2 * (IDX)a.wf, sum);
            }
        }
        IDX y = t.n * (IDX)a.yn + t.channel * (IDX)a.yc + ((t.at[0] * (IDX)a.out[1] + t.at[1]) * (IDX)a.out[2] + t.at[2]) * (IDX)a.ys;
        OT_UNROLL
        for (int p = 0; p < PX; p++)
            if (t.at[2] + p < (IDX)a.out[2]) OT_ST(T, a.to, y + p * (IDX)a.ys, (CLS)sum[p]);
    }
}

/* ---- dx = dy w --------------------------------------------------------------------- */

/* The position of y whose tap offset `reach` reads `at` of x; -1: none. */
OT_DEVICE IDX meets(IDX at, IDX reach, int stride, ot_i64 extent)
{
    IDX d = at - reach, o = d / stride;
    return d >= 0 && d % stride == 0 && o < (IDX)extent ? o : -1;
}

OT_KERNEL(direct_dx, ot_direct_args, 256)
{
    OT_GRID_LOOP(i, a.items)
    {
        item t = item_of((IDX)i, (IDX)a.G * C, a.in, LAST_X);
        ACC  sum[PX];
        OT_UNROLL
        for (int p = 0; p < PX; p++) sum[p] = 0;
        for (int m = 0; m < M; m++) {
            IDX filter = t.channel / C * M + m, y = t.n * (IDX)a.yn + filter * (IDX)a.yc;
            IDX w = filter * (IDX)a.wm + t.channel % C * (IDX)a.wc;
            OT_UNROLL
            for (int k = 0; k < K0 * K1; k++) {
                IDX d = meets(t.at[0] + P0, k / K1 * D0, S0, a.out[0]), h = meets(t.at[1] + P1, k % K1 * D1, S1, a.out[1]);
                IDX row = y + (d * (IDX)a.out[1] + h) * (IDX)a.out[2] * (IDX)a.ys;
                if (d < 0 || h < 0) continue;
                OT_UNROLL
                for (int l = 0; l < K2; l++) {
                    ACC v = (ACC)OT_LD(T, a.with, w + (k * K2 + l) * (IDX)a.wf);
                    OT_UNROLL
                    for (int p = 0; p < PX; p++) {
                        IDX o = meets(t.at[2] + p + P2, l * D2, S2, a.out[2]);
                        if (o >= 0) sum[p] += (ACC)OT_LD(T, a.from, row + o * (IDX)a.ys) * v;
                    }
                }
            }
        }
        IDX x = t.n * (IDX)a.xn + t.channel * (IDX)a.xc + ((t.at[0] * (IDX)a.in[1] + t.at[1]) * (IDX)a.in[2] + t.at[2]) * (IDX)a.xs;
        OT_UNROLL
        for (int p = 0; p < PX; p++)
            if (t.at[2] + p < (IDX)a.in[2]) OT_ST(T, a.to, x + p * (IDX)a.xs, (CLS)sum[p]);
    }
}

/* ---- dw = dy x, db = dy --------------------------------------------------------------- */

enum { LINES = LAST_Y ? 32 : 1, LANES = 256 / LINES, SUMS = C * TAPS + 1 }; /* filters of a block; threads for each */

OT_DEVICE void put_weight(const ot_direct_args *a, ot_i64 filter, int s, ACC v)
{
    if (s == SUMS - 1) {
        if (a->db) OT_ST(T, a->db, filter, (CLS)v);
    } else if (a->to) {
        OT_ST(T, a->to, filter * a->wm + s / TAPS * a->wc + s % TAPS * a->wf, (CLS)v);
    }
}

/* A block has LINES filters and one part of the positions; a thread keeps the sums of all taps of its filter. */
OT_KERNEL(direct_dw, ot_direct_args, 256)
{
    OT_SHARED(ACC, shared, 256);
    ACC    sum[SUMS];
    int    lane = OT_THREAD / LINES;
    ot_i64 part = OT_BLOCK % a.splits, filter = OT_BLOCK / a.splits * LINES + OT_THREAD % LINES;
    ot_i64 positions = a.N * a.out[0] * a.out[1] * a.out[2], end = (part + 1) * a.share;
    OT_UNROLL
    for (int s = 0; s < SUMS; s++) sum[s] = 0;
    if (end > positions) end = positions;
    for (ot_i64 i = part * a.share + lane; i < end && filter < a.G * M; i += LANES) {
        IDX q = (IDX)i, w = q % (IDX)a.out[2], h = q / (IDX)a.out[2] % (IDX)a.out[1];
        IDX d = q / (IDX)a.out[2] / (IDX)a.out[1] % (IDX)a.out[0], n = q / (IDX)a.out[2] / (IDX)a.out[1] / (IDX)a.out[0];
        IDX flat = (d * (IDX)a.out[1] + h) * (IDX)a.out[2] + w, x = n * (IDX)a.xn + (IDX)(filter / M) * C * (IDX)a.xc;
        ACC dy = (ACC)OT_LD(T, a.from, n * (IDX)a.yn + (IDX)filter * (IDX)a.yc + flat * (IDX)a.ys);
        sum[SUMS - 1] += dy;
        OT_UNROLL
        for (int s = 0; s < C * TAPS; s++) {
            IDX e = d * S0 - P0 + s % TAPS / K2 / K1 * D0, f = h * S1 - P1 + s % TAPS / K2 % K1 * D1, g = w * S2 - P2 + s % K2 * D2;
            if ((UIDX)e < (UIDX)a.in[0] && (UIDX)f < (UIDX)a.in[1] && (UIDX)g < (UIDX)a.in[2])
                sum[s] += dy * (ACC)OT_LD(T, a.with, x + s / TAPS * (IDX)a.xc + ((e * (IDX)a.in[1] + f) * (IDX)a.in[2] + g) * (IDX)a.xs);
        }
    }
    OT_UNROLL
    for (int s = 0; s < SUMS; s++) {
        shared[OT_THREAD] = sum[s];
        OT_SYNC();
        for (int half = LANES / 2; half > 0; half /= 2) {
            if (lane < half) shared[OT_THREAD] += shared[OT_THREAD + half * LINES];
            OT_SYNC();
        }
        if (lane == 0 && filter < a.G * M) {
            if (a.work) ((ACC *)a.work)[(part * a.G * M + filter) * SUMS + s] = shared[OT_THREAD];
            else put_weight(&a, filter, s, shared[OT_THREAD]);
        }
        OT_SYNC();
    }
}

/* The second pass: the parts in order. */
OT_KERNEL(direct_parts, ot_direct_args, 256)
{
    ot_i64 n = a.G * M * SUMS;
    OT_GRID_LOOP(i, n)
    {
        ACC v = 0;
        for (int p = 0; p < a.splits; p++) v += ((const ACC *)a.work)[p * n + i];
        put_weight(&a, i / SUMS, (int)(i % SUMS), v);
    }
}
