/* copy.c - Copy by runs: memcpy if both sides are dense, tiles if two axes are exchanged.
 *
 * Memory  both sides are memory, not logical tensors: the layout pass has put the strides of channels-last
 *         values into the pieces.  prepare makes a box per piece; threads write disjoint parts. */
#include "ops/kernels/box.h"

#include <stdlib.h>
#include <string.h>

enum { RUN = 16384, TILE = 16, BLOCK = 64, SMALL = 1 << 16 };

typedef struct copy_plan {
    bool covered; /* do the pieces write every element? */
    ot_box box[];
} copy_plan;

/* Bytes are copied whatever the types of the tensors. */
typedef uint8_t may_alias_8 __attribute__((may_alias));
typedef uint16_t may_alias_16 __attribute__((may_alias));
typedef uint32_t may_alias_32 __attribute__((may_alias));
typedef uint64_t may_alias_64 __attribute__((may_alias));

static bool copy_can(const ot_node *n, const char **why)
{
    if (ot_dtype_bits(n->out[0]->dtype) % 8 == 0) return true;
    return ot_refuse(why, "elements of less than a byte");
}

/* ---- prepare --------------------------------------------------------------- */

static ot_status copy_prepare(const ot_node *n, ot_prep *prep)
{
    const ot_copy *a = n->attrs;
    int64_t ys[OT_MAX_RANK], written = 0;
    copy_plan *plan = malloc(sizeof *plan + (size_t)a->n * sizeof(ot_box));
    if (!plan) return ot_fail(prep->err, OT_E_NOMEM, "%s: Copy: no memory for %lld pieces", n->name, (long long)a->n);
    ot_strides(&a->shape, ys);
    for (int64_t i = 0; i < a->n; i++) {
        const ot_piece *p = &a->piece[i];
        ot_box *b = &plan->box[i];
        *b = (ot_box){ .rank = a->shape.rank, .from = p->src };
        for (int d = 0; d < b->rank; d++) {
            b->extent[d] = p->extent[d];
            b->t[d] = ys[d];
            b->f[d] = p->stride[d];
            b->to += p->dst[d] * ys[d];
        }
        ot_box_simplify(b);
        written += b->count;
    }
    plan->covered = written == ot_numel(&a->shape);
    prep->state = plan;
    return OT_OK;
}

/* ---- runs ------------------------------------------------------------------ */

#define STRIDED(T)                                                                                 \
    {                                                                                              \
        may_alias_##T       *o = y;                                                                \
        const may_alias_##T *i = x;                                                                \
        for (int64_t k = 0; k < n; k++) o[k * t] = i[k * f];                                       \
        break;                                                                                     \
    }

/* n elements of e bytes; t, f: strides in elements. */
static void run_strided(void *y, int64_t t, const void *x, int64_t f, int64_t n, size_t e)
{
    switch (e) {
    case 1: STRIDED(8)
    case 2: STRIDED(16)
    case 4: STRIDED(32)
    default: STRIDED(64)
    }
}

static void run(void *y, int64_t t, const void *x, int64_t f, int64_t n, size_t e)
{
    if (t == 1 && f == 1 && (size_t)n * e >= 32) memcpy(y, x, (size_t)n * e);
    else run_strided(y, t, x, f, n, e);
}

/* A tile of (rows, n): y dense along n, x dense along the rows. */
#define TILED(T)                                                                                   \
    {                                                                                              \
        may_alias_##T       *o = y;                                                                \
        const may_alias_##T *i = x;                                                                \
        int64_t              r = 0;                                                                \
        for (; r + 4 <= rows; r += 4)                                                              \
            for (int64_t k = 0; k < n; k++) {                                                      \
                o[r * t + k] = i[k * f + r];                                                       \
                o[(r + 1) * t + k] = i[k * f + r + 1];                                             \
                o[(r + 2) * t + k] = i[k * f + r + 2];                                             \
                o[(r + 3) * t + k] = i[k * f + r + 3];                                             \
            }                                                                                      \
        for (; r < rows; r++)                                                                      \
            for (int64_t k = 0; k < n; k++) o[r * t + k] = i[k * f + r];                           \
        break;                                                                                     \
    }

/* 16 x 16 elements of four bytes through a small buffer: both sides are accessed by whole cache lines, whatever
 * their strides. */
typedef uint32_t u4 __attribute__((vector_size(16), aligned(4), may_alias));

static void tile_16(may_alias_32 *y, int64_t t, const may_alias_32 *x, int64_t f)
{
    uint32_t buffer[16][16];
    for (int k = 0; k < 16; k++) memcpy(buffer[k], x + k * f, sizeof buffer[k]);
    for (int r = 0; r < 16; r += 4)
        for (int k = 0; k < 16; k += 4) {
            u4 a = *(const u4 *)&buffer[k][r], b = *(const u4 *)&buffer[k + 1][r];
            u4 c = *(const u4 *)&buffer[k + 2][r], d = *(const u4 *)&buffer[k + 3][r];
            u4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ba = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            u4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), dc = __builtin_shufflevector(c, d, 2, 6, 3, 7);
            *(u4 *)(y + r * t + k) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
            *(u4 *)(y + (r + 1) * t + k) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
            *(u4 *)(y + (r + 2) * t + k) = __builtin_shufflevector(ba, dc, 0, 1, 4, 5);
            *(u4 *)(y + (r + 3) * t + k) = __builtin_shufflevector(ba, dc, 2, 3, 6, 7);
        }
}

static void tile(void *y, int64_t t, const void *x, int64_t f, int64_t rows, int64_t n, size_t e)
{
    if (e == 4 && rows == TILE && n == TILE) {
        tile_16(y, t, x, f);
        return;
    }
    switch (e) {
    case 1: TILED(8)
    case 2: TILED(16)
    case 4: TILED(32)
    default: TILED(64)
    }
}

/* A block of tiles, small enough for the pages of both sides to stay in the TLB. */
static void block(char *y, int64_t t, const char *x, int64_t f, int64_t rows, int64_t n, int64_t e)
{
    for (int64_t r = 0; r < rows; r += TILE)
        for (int64_t k = 0; k < n; k += TILE)
            tile(y + (r * t + k) * e, t, x + (r + k * f) * e, f, rows - r < TILE ? rows - r : TILE,
                 n - k < TILE ? n - k : TILE, (size_t)e);
}

/* ---- boxes ----------------------------------------------------------------- */

/* Part `part` of `parts` of a box whose last axis is walked in runs. */
static void box_runs(const ot_box *b, char *y, const char *x, size_t e, int64_t part, int64_t parts)
{
    int64_t n = b->extent[b->rank - 1], t = b->t[b->rank - 1], f = b->f[b->rank - 1];
    int64_t cuts = (n + RUN - 1) / RUN, lo, hi;
    ot_walk w;
    ot_part(b->count / n * cuts, part, parts, &lo, &hi);
    if (lo == hi) return;
    ot_walk_start(&w, b, 1, lo / cuts);
    for (int64_t i = lo, cut = lo % cuts; i < hi; i++) {
        int64_t k = cut * RUN, m = n - k < RUN ? n - k : RUN;
        run(y + (w.to + k * t) * (int64_t)e, t, x + (w.from + k * f) * (int64_t)e, f, m, e);
        if (++cut == cuts) {
            cut = 0;
            ot_walk_next(&w, b);
        }
    }
}

/* The same where axis `row` is dense in x and the last one in y: tiles over both. */
static void box_tiles(const ot_box *b, int row, char *y, const char *x, size_t e, int64_t part, int64_t parts)
{
    int last = b->rank - 1;
    int64_t rows = b->extent[row], n = b->extent[last], t = b->t[row], f = b->f[last];
    int64_t down = (rows + BLOCK - 1) / BLOCK, across = (n + BLOCK - 1) / BLOCK, lo, hi;
    ot_box o = *b; /* the axes outside the tiles */
    ot_walk w;
    o.rank = 0;
    for (int d = 0; d < last; d++) {
        if (d == row) continue;
        o.extent[o.rank] = b->extent[d];
        o.t[o.rank] = b->t[d];
        o.f[o.rank++] = b->f[d];
    }
    int64_t each = down * across;
    ot_part(b->count / (rows * n) * each, part, parts, &lo, &hi);
    if (lo == hi) return;
    ot_walk_start(&w, &o, 0, lo / each);
    for (int64_t i = lo, at = lo % each; i < hi; i++) {
        int64_t r = at / across * BLOCK, k = at % across * BLOCK;
        block(y + (w.to + r * t + k) * (int64_t)e, t, x + (w.from + r + k * f) * (int64_t)e, f,
              rows - r < BLOCK ? rows - r : BLOCK, n - k < BLOCK ? n - k : BLOCK, (int64_t)e);
        if (++at == each) {
            at = 0;
            ot_walk_next(&w, &o);
        }
    }
}

static void box_copy(const ot_box *b, char *y, const char *x, size_t e, int64_t part, int64_t parts)
{
    int last = b->rank - 1, row = -1;
    if (b->t[last] == 1 && b->f[last] != 1 && b->f[last] != 0)
        for (int d = 0; d < last; d++)
            if (b->f[d] == 1 && b->extent[d] >= 4 && b->extent[last] >= 4) row = d;
    if (row >= 0) box_tiles(b, row, y, x, e, part, parts);
    else box_runs(b, y, x, e, part, parts);
}

static ot_status copy_run(const ot_call *c)
{
    const ot_copy *a = c->node->attrs;
    const copy_plan *plan = c->state;
    ot_dtype t = c->node->out[0]->dtype;
    size_t e = (size_t)ot_dtype_bits(t) / 8;
    int64_t total = ot_numel(&a->shape), bytes = total * (int64_t)e;
    int threads = bytes < SMALL ? 1 : c->threads;

    if (!plan->covered && total) {
        uint64_t one = 0;
        ot_set_f64(&one, t, 0, a->fill);
        if (!one) memset(c->out[0], 0, (size_t)bytes);
        else run_strided(c->out[0], 1, &one, 0, total, e);
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++)
        for (int64_t i = 0; i < a->n; i++)
            if (plan->box[i].count) box_copy(&plan->box[i], c->out[0], c->in[a->piece[i].in], e, part, threads);
    return OT_OK;
}

const ot_kernel ot_cpu_Copy = {
    .name = "cpu",
    .can = copy_can,
    .prepare = copy_prepare,
    .run = copy_run,
    .release = free,
};
