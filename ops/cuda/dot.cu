/* dot.cu - matrix products by tiles: a block per tile, batch and part of the terms.
 *
 * The prefix defines the layouts: A_ALONG_K (1: neighbours in memory are neighbours in k, 0: in m), B_ALONG_K,
 * Y_QUADS (N is a multiple of 4), AFTER (1: map_after() is a Map behind the product).  Tiles of one row of tiles are consecutive, so that a's lines are in L2. */
#include "dot.cuh"

#define ROWS_FAST 0
#include "tile.cuh"

typedef struct tile_job {
    const STORED *a, *b;
    IDX           row, col, M, N, K, lda, ldb;
} tile_job;

OT_DEVICE void tile_ahead(const tile_job *job, IDX k, int slot)
{
    (void)job, (void)k, (void)slot;
}

/* One operand: `side` lines from `line` on, of `lines`; BK terms from k on, of K. */
OT_DEVICE void fetch(const STORED *p, IDX line, IDX lines, IDX k, IDX K, IDX ld, int side, int along_k, int vector, STORED *regs)
{
    OT_UNROLL
    for (int j = 0; j < (side * BK / vector + THREADS - 1) / THREADS; j++) {
        int s = OT_THREAD + j * THREADS;
        IDX i = line + (along_k ? s / (BK / vector) : s % (side / vector) * vector);
        IDX t = k + (along_k ? s % (BK / vector) * vector : s / (side / vector));
        if (s < side * BK / vector && i < lines && t < K) tile_load(regs + j * vector, p, along_k ? i * ld + t : t * ld + i, vector);
        else tile_zero(regs + j * vector, vector);
    }
}

OT_DEVICE void place(const STORED *regs, ACC *to, int line_quads, int side, int along_k, int vector)
{
    OT_UNROLL
    for (int j = 0; j < (side * BK / vector + THREADS - 1) / THREADS; j++) {
        int s = OT_THREAD + j * THREADS;
        int i = along_k ? s / (BK / vector) : s % (side / vector) * vector;
        int t = along_k ? s % (BK / vector) * vector : s / (side / vector);
        if (s >= side * BK / vector) continue;
        OT_UNROLL
        for (int e = 0; e < vector; e++)
            to[(along_k ? t + e : t) * line_quads * 4 + (along_k ? i : i + e)] = tile_value(regs[j * vector + e]);
    }
}

OT_DEVICE void tile_fetch(const tile_job *job, IDX k, int slot, tile_regs *regs)
{
    (void)slot;
    fetch(job->a, job->row, job->M, k, job->K, job->lda, BM, A_ALONG_K, A_VEC, regs->a);
    fetch(job->b, job->col, job->N, k, job->K, job->ldb, BN, B_ALONG_K, B_VEC, regs->b);
}

OT_DEVICE void tile_place(const tile_job *job, IDX k, const tile_regs *regs, ACC *a, ACC *b)
{
    (void)job, (void)k;
    place(regs->a, a, A_LINE, BM, A_ALONG_K, A_VEC);
    place(regs->b, b, B_LINE, BN, B_ALONG_K, B_VEC);
}

OT_DEVICE void store(void *y, IDX at, int n, const ACC v[4])
{
    if (Y_QUADS) tile_store_quad(y, at, v);
    else
        for (int e = 0; e < n; e++) OT_ST(T, y, at + e, (CLS)v[e]);
}

/* Four sums of one row, from column col on, to y or, unconverted, to the workspace. */
OT_DEVICE void put(const ot_dot_args *a, ot_i64 product, int part, IDX row, IDX col, ACC v[4])
{
    IDX at = (IDX)product * (IDX)a->M * (IDX)a->N + row * (IDX)a->N + col;
    int n = (IDX)a->N - col < 4 ? (int)((IDX)a->N - col) : 4;
    if (a->work) {
        ACC *to = (ACC *)a->work + (ot_i64)part * a->batch * a->M * a->N + at;
        for (int e = 0; e < n; e++) to[e] = v[e];
        return;
    }
    if (a->bias)
        for (int e = 0; e < n; e++) v[e] += (ACC)OT_LD(T, a->bias, col + e);
#if AFTER
    if (a->y) store(a->y, at, n, v);
    for (int e = 0; e < n; e++) v[e] = (ACC)map_after(a->other, at + e, (CLS)v[e]);
    store(a->mapped, at, n, v);
#else
    store(a->y, at, n, v);
#endif
}

OT_KERNEL(dot, ot_dot_args, THREADS)
{
    OT_SHARED(tile_quad, shared, TILE_QUADS);
    ACC      sum[TM][TN];
    ot_i64   rows = (a.M + BM - 1) / BM, cols = (a.N + BN - 1) / BN, left = OT_BLOCK;
    int      part = (int)(left % a.splits);
    tile_job job = { (const STORED *)a.a, (const STORED *)a.b, 0, 0, (IDX)a.M, (IDX)a.N, (IDX)a.K, (IDX)a.lda, (IDX)a.ldb };
    left /= a.splits;
    job.col = (IDX)(left % cols * BN);
    left /= cols;
    job.row = (IDX)(left % rows * BM);
    ot_i64 product = left / rows;
    left = product;
    for (int d = 0; d < a.axes; d++) {
        ot_i64 i = left % a.dim[d];
        left /= a.dim[d];
        job.a += i * a.a_step[d];
        job.b += i * a.b_step[d];
    }
    IDX first = (IDX)(part * a.share * BK), end = (IDX)((part + 1) * a.share * BK);
    tile_run(&job, first, end < job.K ? end : job.K, shared, sum);
    if (!tile_has_sums()) return;
    OT_UNROLL
    for (int r = 0; r < TM; r++) {
        IDX row = job.row + tile_row(r);
        OT_UNROLL
        for (int c = 0; c < TN; c += 4) {
            IDX col = job.col + tile_col(c);
            if (row < job.M && col < job.N) put(&a, product, part, row, col, &sum[r][c]);
        }
    }
}

/* The second pass: the parts in order, and the bias. */
OT_KERNEL(dot_parts, ot_dot_args, 256)
{
    ot_i64 n = a.batch * a.M * a.N;
    OT_GRID_LOOP(i, n)
    {
        ACC v = 0;
        for (int s = 0; s < a.splits; s++) v += ((const ACC *)a.work)[s * n + i];
        if (a.bias) v += (ACC)OT_LD(T, a.bias, i % a.N);
#if AFTER
        if (a.y) OT_ST(T, a.y, i, (CLS)v);
        OT_ST(T, a.mapped, i, map_after(a.other, i, (CLS)v));
#else
        OT_ST(T, a.y, i, (CLS)v);
#endif
    }
}
