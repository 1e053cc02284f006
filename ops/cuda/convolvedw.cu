/* convolvedw.cu - ConvolveDw as a product: rows are filters, columns pairs of a tap and a channel of x, terms the
 * positions of y in all samples.
 *
 * The prefix defines the layouts: DY_ALONG_K (1: dy is plain, threads are along positions), X_ALONG_K (the same for x),
 * UIDX, ONE (1.0 as it is stored).  The offsets of the positions of a step are computed one step ahead, in shared
 * memory. */
#include "convolvedw.cuh"

#define ROWS_FAST 0
#include "tile.cuh"

#define FAR (-((IDX)1 << (sizeof(IDX) * 8 - 2)))

typedef struct OT_ALIGN(4 * sizeof(IDX) > 16 ? 16 : 4 * sizeof(IDX)) place { IDX x, at[3]; } place; /* offset and coordinates in x */

typedef struct tile_job {
    const ot_convolvedw_args *a;
    const STORED             *dy, *x;
    const place              *tap; /* of the tile's columns */
    place                    *pixel;
    IDX                      *y;   /* -1: no such position */
    IDX                       row, col, M, taps, columns;
} tile_job;

OT_DEVICE void tile_ahead(const tile_job *job, IDX k, int slot)
{
    const ot_convolvedw_args *a = job->a;
    for (int e = OT_THREAD; e < BK; e += THREADS) {
        IDX   left = k + e, digit[3], flat = 0;
        place p = { 0, { FAR, FAR, FAR } };
        if (left >= (IDX)a->pixels) {
            job->pixel[slot * BK + e] = p;
            job->y[slot * BK + e] = -1;
            continue;
        }
        OT_UNROLL
        for (int j = 2; j >= 0; j--) {
            digit[j] = left % (IDX)a->out[j];
            left /= (IDX)a->out[j];
        }
        OT_UNROLL
        for (int j = 0; j < 3; j++) {
            p.at[j] = digit[j] * (IDX)a->stride[j] - (IDX)a->pad[j];
            p.x = p.x * (IDX)a->in[j] + p.at[j];
            flat = flat * (IDX)a->out[j] + digit[j];
        }
        p.x = left * (IDX)a->xn + p.x * (IDX)a->xs;
        job->pixel[slot * BK + e] = p;
        job->y[slot * BK + e] = left * (IDX)a->yn + flat * (IDX)a->ys;
    }
}

OT_DEVICE int inside(const ot_convolvedw_args *a, const place *p, const place *t)
{
    return (UIDX)(p->at[0] + t->at[0]) < (UIDX)a->in[0] && (UIDX)(p->at[1] + t->at[1]) < (UIDX)a->in[1] &&
           (UIDX)(p->at[2] + t->at[2]) < (UIDX)a->in[2];
}

OT_DEVICE void tile_fetch(const tile_job *job, IDX k, int slot, tile_regs *regs)
{
    (void)k;
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BM, A_VEC); j++) {
        int s = OT_THREAD + j * THREADS;
        int i = DY_ALONG_K ? s / (BK / A_VEC) : s % (BM / A_VEC) * A_VEC, e = DY_ALONG_K ? s % (BK / A_VEC) * A_VEC : s / (BM / A_VEC);
        tile_zero(regs->a + j * A_VEC, A_VEC);
        if (s >= BM * BK / A_VEC || job->row + i >= job->M) continue;
        IDX y = job->y[slot * BK + e];
        if (y >= 0) tile_load(regs->a + j * A_VEC, job->dy, y + (job->row + i) * (IDX)job->a->yc, A_VEC);
    }
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BN, B_VEC); j++) {
        int s = OT_THREAD + j * THREADS;
        int c = X_ALONG_K ? s / BK : s % (BN / B_VEC) * B_VEC, e = X_ALONG_K ? s % BK : s / (BN / B_VEC);
        tile_zero(regs->b + j * B_VEC, B_VEC);
        if (s >= BN * BK / B_VEC || job->col + c >= job->columns) continue;
        place p = job->pixel[slot * BK + e], t = job->tap[c];
        if (job->col + c == job->taps) regs->b[j * B_VEC] = job->y[slot * BK + e] >= 0 ? ONE : 0;
        else if (inside(job->a, &p, &t)) tile_load(regs->b + j * B_VEC, job->x, p.x + t.x, B_VEC);
    }
}

OT_DEVICE void tile_place(const tile_job *job, IDX k, const tile_regs *regs, ACC *a, ACC *b)
{
    (void)job, (void)k;
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BM, A_VEC); j++) {
        int s = OT_THREAD + j * THREADS;
        int i = DY_ALONG_K ? s / (BK / A_VEC) : s % (BM / A_VEC) * A_VEC, e = DY_ALONG_K ? s % (BK / A_VEC) * A_VEC : s / (BM / A_VEC);
        if (s >= BM * BK / A_VEC) continue;
        OT_UNROLL
        for (int v = 0; v < A_VEC; v++) a[(DY_ALONG_K ? e + v : e) * A_LINE * 4 + (DY_ALONG_K ? i : i + v)] = tile_value(regs->a[j * A_VEC + v]);
    }
    OT_UNROLL
    for (int j = 0; j < TILE_LOADS(BN, B_VEC); j++) {
        int s = OT_THREAD + j * THREADS;
        int c = X_ALONG_K ? s / BK : s % (BN / B_VEC) * B_VEC, e = X_ALONG_K ? s % BK : s / (BN / B_VEC);
        if (s >= BN * BK / B_VEC) continue;
        OT_UNROLL
        for (int v = 0; v < B_VEC; v++) b[e * B_LINE * 4 + c + v] = tile_value(regs->b[j * B_VEC + v]);
    }
}

/* The sum of filter m and a column, of group g. */
OT_DEVICE void put(const ot_convolvedw_args *a, ot_i64 g, ot_i64 m, ot_i64 column, ACC v)
{
    if (column == a->taps) OT_ST(T, a->db, g * a->M + m, (CLS)v);
    else OT_ST(T, a->dw, (g * a->M + m) * a->wm + ((const IDX *)a->weight)[column], (CLS)v);
}

OT_KERNEL(convolvedw, ot_convolvedw_args, THREADS)
{
    OT_SHARED(tile_quad, shared, TILE_QUADS);
    OT_SHARED(place, pixel, 2 * BK);
    OT_SHARED(place, tap, BN);
    OT_SHARED(IDX, y, 2 * BK);
    ACC      sum[TM][TN];
    ot_i64   cols = (a.columns + BN - 1) / BN, rows = (a.M + BM - 1) / BM, left = OT_BLOCK;
    ot_i64   first_col = left % cols * BN, first_row = left / cols % rows * BM, g = left / cols / rows % a.G, part = left / cols / rows / a.G;
    tile_job job = { &a, (const STORED *)a.dy + g * a.M * a.yc, (const STORED *)a.x + g * a.xg, tap, pixel, y,
                     (IDX)first_row, (IDX)first_col, (IDX)a.M, (IDX)a.taps, (IDX)a.columns };
    for (int c = OT_THREAD; c < BN && first_col + c < a.taps; c += THREADS) tap[c] = ((const place *)a.tap)[first_col + c];
    ot_i64 end = (part + 1) * a.share * BK;
    tile_run(&job, (IDX)(part * a.share * BK), (IDX)(end < a.pixels ? end : a.pixels), shared, sum);
    if (!tile_has_sums()) return;
    OT_UNROLL
    for (int r = 0; r < TM; r++) {
        OT_UNROLL
        for (int c = 0; c < TN; c++) {
            ot_i64 m = first_row + tile_row(r), column = first_col + tile_col(c);
            if (m >= a.M || column >= a.columns) continue;
            if (a.work) ((ACC *)a.work)[((part * a.G + g) * a.M + m) * a.columns + column] = sum[r][c];
            else put(&a, g, m, column, sum[r][c]);
        }
    }
}

/* The second pass: the parts in order. */
OT_KERNEL(convolvedw_parts, ot_convolvedw_args, 256)
{
    ot_i64 n = a.G * a.M * a.columns;
    OT_GRID_LOOP(i, n)
    {
        ACC v = 0;
        for (int s = 0; s < a.splits; s++) v += ((const ACC *)a.work)[s * n + i];
        put(&a, i / a.columns / a.M, i / a.columns % a.M, i % a.columns, v);
    }
}
