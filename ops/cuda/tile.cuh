/* tile.cuh - the sum over k of x[row][k] w[k][column] for one tile of a matrix, for Dot and the convolutions.
 *
 * The prefix (tile.c) gives types and sizes: T CLS STORED ACC IDX, BM BN BK of the block, TM TN of a thread, GROUPS,
 * THREADS, VEC elements in 16 bytes; and A_VEC, B_VEC, elements per load of either operand. The including file supplies
 * the elements by three functions:
 *
 *     tile_ahead   prepares shared memory for the loads of the step that begins at term k
 *     tile_fetch   loads that step's elements into registers, unconverted
 *     tile_place   writes them to shared memory as ACC, by term: BM of a, BN of b
 *
 * While a step is multiplied the next one is being loaded into registers.  Lines of shared memory are read as quads of
 * 16 bytes, and are one quad longer than the tile so that writes by term avoid bank conflicts. GROUPS groups of threads
 * each sum a part of a step's terms; their sums are added in order at the end. Elements outside of the operands are
 * zero. */

typedef struct tile_quad { ACC v[4]; } OT_ALIGN(16) tile_quad;
typedef struct tile_chunk { STORED v[VEC]; } OT_ALIGN(16) tile_chunk;

enum {
    A_LINE = BM / 4 + 1, B_LINE = BN / 4 + 1, /* quads */
    STEP = BK * (A_LINE + B_LINE),
    JOIN = (GROUPS - 1) * BM * BN / 4,        /* quads, for the groups' sums at the end */
    TILE_QUADS = 2 * STEP > JOIN ? 2 * STEP : JOIN,
    ROW_GROUPS = BM / TM, COL_GROUPS = BN / TN,
};

/* Loads of VECTOR elements with which all threads together load SIDE x BK elements; the last may be partial. */
#define TILE_LOADS(side, vector) (((side) * BK / (vector) + THREADS - 1) / THREADS)

typedef struct tile_regs {
    STORED a[TILE_LOADS(BM, A_VEC) * A_VEC], b[TILE_LOADS(BN, B_VEC) * B_VEC];
} tile_regs;

struct tile_job;
OT_DEVICE void tile_ahead(const struct tile_job *job, IDX k, int slot); /* slot: 0 and 1 alternately */
OT_DEVICE void tile_fetch(const struct tile_job *job, IDX k, int slot, tile_regs *regs);
OT_DEVICE void tile_place(const struct tile_job *job, IDX k, const tile_regs *regs, ACC *a, ACC *b);

OT_DEVICE ACC tile_value(STORED v) { return (ACC)OT_LD(T, &v, 0); }

OT_DEVICE void tile_load(STORED *to, const STORED *p, IDX at, int vector)
{
    if (vector > 1) {
        tile_chunk c = *(const tile_chunk *)(const void *)(p + at);
        OT_UNROLL
        for (int e = 0; e < VEC; e++) to[e] = c.v[e];
    } else {
        to[0] = p[at];
    }
}

OT_DEVICE void tile_zero(STORED *to, int vector)
{
    OT_UNROLL
    for (int e = 0; e < vector; e++) to[e] = 0;
}

/* ---- where a thread's sums lie ------------------------------------------------- */

/* A thread's rows are quads of neighbours, ROW_GROUPS quads apart, so that a warp accesses whole lines; the same for
 * columns. */
OT_DEVICE int tile_row(int i)
{
    int t = OT_THREAD % (ROW_GROUPS * COL_GROUPS), r = ROWS_FAST ? t % ROW_GROUPS : t / COL_GROUPS;
    return (i / 4 * ROW_GROUPS + r) * 4 + i % 4;
}

OT_DEVICE int tile_col(int i)
{
    int t = OT_THREAD % (ROW_GROUPS * COL_GROUPS), c = ROWS_FAST ? t / ROW_GROUPS : t % COL_GROUPS;
    return (i / 4 * COL_GROUPS + c) * 4 + i % 4;
}

/* Only the first group has the sums. */
OT_DEVICE int tile_has_sums(void) { return OT_THREAD < ROW_GROUPS * COL_GROUPS; }

/* ---- the sum ------------------------------------------------------------------- */

OT_DEVICE void tile_multiply(const tile_quad *step, ACC sum[TM][TN])
{
    const tile_quad *a = step + tile_row(0) / 4, *b = step + BK * A_LINE + tile_col(0) / 4;
    int              k = OT_THREAD / (ROW_GROUPS * COL_GROUPS) * (BK / GROUPS);
    a += k * A_LINE;
    b += k * B_LINE;
    OT_UNROLL
    for (int i = 0; i < BK / GROUPS; i++) {
        tile_quad x[TM / 4], w[TN / 4];
        OT_UNROLL
        for (int r = 0; r < TM / 4; r++) x[r] = a[i * A_LINE + r * ROW_GROUPS];
        OT_UNROLL
        for (int c = 0; c < TN / 4; c++) w[c] = b[i * B_LINE + c * COL_GROUPS];
        OT_UNROLL
        for (int r = 0; r < TM; r++) {
            OT_UNROLL
            for (int c = 0; c < TN; c++) sum[r][c] += x[r / 4].v[r % 4] * w[c / 4].v[c % 4];
        }
    }
}

/* Adds the groups' sums to those of the first, in order. */
OT_DEVICE void tile_join(ACC *shared, ACC sum[TM][TN])
{
    enum { MEMBERS = ROW_GROUPS * COL_GROUPS };
    int member = OT_THREAD % MEMBERS, group = OT_THREAD / MEMBERS;
    if (group > 0) {
        OT_UNROLL
        for (int i = 0; i < TM * TN; i++) shared[((group - 1) * TM * TN + i) * MEMBERS + member] = sum[i / TN][i % TN];
    }
    OT_SYNC();
    for (int g = 1; g < GROUPS && group == 0; g++) {
        OT_UNROLL
        for (int i = 0; i < TM * TN; i++) sum[i / TN][i % TN] += shared[((g - 1) * TM * TN + i) * MEMBERS + member];
    }
}

/* Terms [first, end) of the tile that job describes; shared: TILE_QUADS.  All threads of the block take part. */
OT_DEVICE void tile_run(const struct tile_job *job, IDX first, IDX end, tile_quad *shared, ACC sum[TM][TN])
{
    tile_regs regs;
    int       slot = 0;
    OT_UNROLL
    for (int r = 0; r < TM; r++) {
        OT_UNROLL
        for (int c = 0; c < TN; c++) sum[r][c] = 0;
    }
    tile_ahead(job, first, 0);
    OT_SYNC();
    if (first < end) {
        tile_fetch(job, first, 0, &regs);
        tile_ahead(job, first + BK, 1);
        tile_place(job, first, &regs, (ACC *)shared, (ACC *)(shared + BK * A_LINE));
    }
    OT_SYNC();
    for (IDX k = first; k < end; k += BK, slot ^= 1) {
        tile_quad *now = shared + slot * STEP, *next = shared + (slot ^ 1) * STEP;
        int        more = k + BK < end;
        if (more) tile_fetch(job, k + BK, slot ^ 1, &regs);
        tile_ahead(job, k + 2 * BK, slot);
        tile_multiply(now, sum);
        if (more) tile_place(job, k + BK, &regs, (ACC *)next, (ACC *)(next + BK * A_LINE));
        OT_SYNC();
    }
    if (GROUPS > 1) tile_join((ACC *)shared, sum);
}

/* ---- what comes out ------------------------------------------------------------ */

typedef struct tile_out { STORED v[4]; } OT_ALIGN(sizeof(STORED) * 4 > 16 ? 16 : sizeof(STORED) * 4) tile_out;

/* Four neighbours at once; at is a multiple of 4. */
OT_DEVICE void tile_store_quad(void *y, IDX at, const ACC v[4])
{
    tile_out o;
    OT_UNROLL
    for (int e = 0; e < 4; e++) OT_ST(T, o.v, e, (CLS)v[e]);
    *(tile_out *)(void *)((STORED *)y + at) = o;
}
