/* convolve.cu - Convolve and ConvolveDx as products of matrices that are not stored: rows are positions of y, columns
 * its channels, terms the pairs of a tap and a channel of x.
 *
 * The prefix defines the layouts: X_ALONG_K (1: x has its channels last, threads are along terms; 0: along positions),
 * W_ALONG_K, ROWS_FAST (y is plain), Y_QUADS (four neighbours of a tile's quad are adjacent in y), UIDX. A tap outside
 * of x reads zero: coordinates are compared as unsigned numbers, and padding of a tile or a step has coordinates far
 * outside. */
#include "convolve.cuh"
#include "tile.cuh"

#define FAR (-((IDX)1 << (sizeof(IDX) * 8 - 2)))

typedef struct OT_ALIGN(4 * sizeof(IDX) > 16 ? 16 : 4 * sizeof(IDX)) place { IDX x, at[3]; } place; /* offset and coordinates in x */

typedef struct tile_job {
    const STORED *x, *w;
    const place  *tap, *row;
    const IDX    *weight, *term;
    IDX           col, C, wc, in[3];
} tile_job;

OT_DEVICE void tile_ahead(const tile_job *job, IDX k, int slot)
{
    (void)job, (void)k, (void)slot;
}

OT_DEVICE int inside(const tile_job *job, const place *r, const place *t)
{
    return (UIDX)(r->at[0] + t->at[0]) < (UIDX)job->in[0] && (UIDX)(r->at[1] + t->at[1]) < (UIDX)job->in[1] &&
           (UIDX)(r->at[2] + t->at[2]) < (UIDX)job->in[2];
}

OT_DEVICE void tile_fetch(const tile_job *job, IDX k, int slot, tile_regs *regs)
{
    (void)slot;
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BM, A_VEC); j++) {
        int s = OT_THREAD + j * THREADS;
        int i = X_ALONG_K ? s / (BK / A_VEC) : s % BM, e = X_ALONG_K ? s % (BK / A_VEC) * A_VEC : s / BM;
        tile_zero(regs->a + j * A_VEC, A_VEC);
        if (s >= BM * BK / A_VEC) continue;
        place t = job->tap[k + e], r = job->row[i];
        if (inside(job, &r, &t)) tile_load(regs->a + j * A_VEC, job->x, r.x + t.x, A_VEC);
    }
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BN, 1); j++) {
        int s = OT_THREAD + j * THREADS;
        int c = W_ALONG_K ? s / BK : s % BN, e = W_ALONG_K ? s % BK : s / BN;
        regs->b[j] = 0;
        if (s >= BN * BK || job->col + c >= job->C) continue;
        IDX at = job->weight[k + e];
        if (at >= 0) regs->b[j] = job->w[(job->col + c) * job->wc + at];
    }
}

OT_DEVICE void tile_place(const tile_job *job, IDX k, const tile_regs *regs, ACC *a, ACC *b)
{
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BM, A_VEC); j++) {
        int s = OT_THREAD + j * THREADS;
        int i = X_ALONG_K ? s / (BK / A_VEC) : s % BM, e = X_ALONG_K ? s % (BK / A_VEC) * A_VEC : s / BM;
        if (s >= BM * BK / A_VEC) continue;
        OT_UNROLL
        for (int v = 0; v < A_VEC; v++) a[(e + v) * A_LINE * 4 + i] = tile_value(regs->a[j * A_VEC + v]);
    }
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BN, 1); j++) {
        int s = OT_THREAD + j * THREADS;
        int c = W_ALONG_K ? s / BK : s % BN, e = W_ALONG_K ? s % BK : s / BN;
        if (s < BN * BK) b[job->term[k + e] * B_LINE * 4 + c] = tile_value(regs->b[j]);
    }
}

/* The offset of position p of the phase in x, and in y as *at; far outside and -1 beyond the last one. */
OT_DEVICE place row_of(const ot_convolve_args *a, const ot_conv_phase *f, ot_i64 p, IDX *at)
{
    place r = { 0, { FAR, FAR, FAR } };
    IDX   left = (IDX)p, y = 0, x = 0, digit[3];
    *at = -1;
    if (p >= f->pixels) return r;
    OT_UNROLL
    for (int j = 2; j >= 0; j--) {
        digit[j] = left % (IDX)f->extent[j];
        left /= (IDX)f->extent[j];
    }
    OT_UNROLL
    for (int j = 0; j < 3; j++) {
        r.at[j] = (IDX)f->origin[j] + digit[j] * (IDX)a->x_step[j];
        x = x * (IDX)a->in[j] + r.at[j];
        y = y * (IDX)a->out[j] + (IDX)f->first[j] + digit[j] * (IDX)a->y_step[j];
    }
    r.x = left * (IDX)a->xn + x * (IDX)a->xs;
    *at = left * (IDX)a->yn + y * (IDX)a->ys;
    return r;
}

/* The sums of one quad: positions if y is plain, else channels. */
OT_DEVICE void put(const ot_convolve_args *a, int part, ot_i64 group, const IDX *at, IDX col, ACC v[4])
{
    IDX channel = (IDX)group * (IDX)a->C + col, y[4];
    OT_UNROLL
    for (int e = 0; e < 4; e++) {
        int in = ROWS_FAST ? at[e] >= 0 : col + e < (IDX)a->C;
        y[e] = !in ? -1 : ROWS_FAST ? at[e] + channel * (IDX)a->yc : at[0] + (channel + e) * (IDX)a->yc;
    }
    if (a->work) {
        ACC *to = (ACC *)a->work + part * a->elements;
        OT_UNROLL
        for (int e = 0; e < 4; e++)
            if (y[e] >= 0) to[y[e]] = v[e];
        return;
    }
    OT_UNROLL
    for (int e = 0; e < 4; e++)
        if (a->bias && y[e] >= 0) v[e] += (ACC)OT_LD(T, a->bias, ROWS_FAST ? channel : channel + e);
    if (Y_QUADS) {
        if (y[0] >= 0) tile_store_quad(a->y, y[0], v);
        return;
    }
    OT_UNROLL
    for (int e = 0; e < 4; e++)
        if (y[e] >= 0) OT_ST(T, a->y, y[e], (CLS)v[e]);
}

OT_DEVICE void put_all(const ot_convolve_args *a, int part, ot_i64 group, const IDX *at, IDX col, ACC sum[TM][TN])
{
    OT_UNROLL
    for (int r = 0; r < TM; r += ROWS_FAST ? 4 : 1) {
        OT_UNROLL
        for (int c = 0; c < TN; c += ROWS_FAST ? 1 : 4) {
            ACC v[4];
            OT_UNROLL
            for (int e = 0; e < 4; e++) v[e] = ROWS_FAST ? sum[r + e * ROWS_FAST][c] : sum[r][c + e * !ROWS_FAST];
            if (at[tile_row(r)] >= 0 && col + tile_col(c) < (IDX)a->C) put(a, part, group, at + tile_row(r), col + tile_col(c), v);
        }
    }
}

OT_KERNEL(convolve, ot_convolve_args, THREADS)
{
    OT_SHARED(tile_quad, shared, TILE_QUADS);
    OT_SHARED(place, row, BM);
    OT_SHARED(IDX, at, BM);
    ACC                  sum[TM][TN];
    const ot_conv_phase *f = (const ot_conv_phase *)a.phase;
    int                  last = a.phases - 1;
    for (int lo = 0; lo < last;) { /* the phase of this block */
        int middle = (lo + last + 1) / 2;
        if (f[middle].block <= OT_BLOCK) lo = middle;
        else last = middle - 1;
    }
    f += last;
    ot_i64   left = OT_BLOCK - f->block, cols = (a.C + BN - 1) / BN, rows = (f->pixels + BM - 1) / BM;
    int      part = (int)(left % a.splits);
    ot_i64   col = left / a.splits % cols * BN, first_row = left / a.splits / cols % rows * BM, group = left / a.splits / cols / rows;
    tile_job job = { (const STORED *)a.x + group * a.xg, (const STORED *)a.w + group * a.wg, (const place *)a.tap + f->tap, row,
                     (const IDX *)a.weight + f->tap, (const IDX *)a.term + f->tap, (IDX)col, (IDX)a.C, (IDX)a.wc,
                     { (IDX)a.in[0], (IDX)a.in[1], (IDX)a.in[2] } };
    for (int i = OT_THREAD; i < BM; i += THREADS) row[i] = row_of(&a, f, first_row + i, &at[i]);
    tile_run(&job, (IDX)(f->steps * part / a.splits * BK), (IDX)(f->steps * (part + 1) / a.splits * BK), shared, sum);
    if (tile_has_sums()) put_all(&a, part, group, at, (IDX)col, sum);
}

/* The second pass: the parts in order, and the bias. */
OT_KERNEL(convolve_parts, ot_convolve_args, 256)
{
    OT_GRID_LOOP(i, a.elements)
    {
        ACC v = 0;
        for (int s = 0; s < a.splits; s++) v += ((const ACC *)a.work)[s * a.elements + i];
        if (a.bias) v += (ACC)OT_LD(T, a.bias, i / a.yc % (a.G * a.C));
        OT_ST(T, a.y, i, (CLS)v);
    }
}
