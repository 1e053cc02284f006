/* dot_packed.c - matrix products of f32 that pack both operands (dot_tiles.inc).
 *
 * A block of a, of some rows for each thread, and one of b are packed by all threads, then multiplied by them: each has
 * its own rows, or where those are few its own columns.
 * Numerics  the sums are cut by K alone: the same bits with any number of threads
 * Source    the order of loops of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008 */
#include "ops/cpu/dot_packed.h"

#include <stdlib.h>

#include "ops/cpu/dot_tiles.h"
#include "ops/cpu/vector.h"
#include "ops/kernels/box.h"

enum {
    MOST_K = 256,       /* of a block: a strip of b is in the L1 cache, at 16 columns */
    MOST_ROWS = 120,    /* of a block and thread: its panels of a stay in the L2 cache */
    MOST_COLUMNS = 2048 /* of a block: b in the last cache */
};

struct ot_dot_packed {
    const ot_dot_tiles *tiles;
    ot_dot_job job;
    int a_arg, b_arg, add_arg, y_arg, threads;
    int64_t step_m, step_n, step_k; /* of blocks */
    size_t pack_a, pack_b;          /* offsets in the workspace */
};

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

/* Equal parts of n, each a multiple of `by` and at most `most`. */
static int64_t even(int64_t n, int64_t most, int64_t by)
{
    int64_t parts = (n + most - 1) / most;
    return up((n + parts - 1) / parts, by);
}

/* With AVX2: rows a multiple of 4 KiB apart share one set of a first-level cache: oneDNN's products then lose up to half of their speed.
 * At exactly 2 KiB, a width of 512 that is common, as well (512x512x512: 67 to 81 of 140 GFLOP/s).  With other strides they are a tenth
 * faster than these. */
static bool shares_sets(const int64_t stride[2])
{
    enum { FLOATS = 1024 };
    int64_t far = stride[0] > stride[1] ? stride[0] : stride[1];
    return far % FLOATS == 0 || far == FLOATS / 2;
}

/* With AVX-512, where oneDNN 2.6 reads rows of b in place: of 160 GFLOP/s it has 75 at 3072 and 5120 columns (sums of 1024 products; these
 * 165), 120 at 2560, 150 at 3840, and up to 2304 as many as these within a tenth or so.  At multiples of 2048 it
 * is up to a fifth faster. */
static bool has_wide_rows(const ot_dot_call *c)
{
    enum { WIDE = 2560, SETS = 2048 };
    int64_t N = c->y_dim[1];
    return c->b_stride[1] == 1 && N >= WIDE && N % SETS != 0;
}

bool ot_dot_packed_pays(const ot_dot_call *c, int threads)
{
    enum { FEWEST_ROWS = 96, FEWEST = 64, TILES = 16 /* of each thread */, TILE = 6 * 16 };
    int64_t M = c->y_dim[0], N = c->y_dim[1], K = c->a_dim[1];
    if (c->rank != 2 || c->bf16 || (c->bias_arg != OT_ARG_NONE && c->add_arg != OT_ARG_NONE)) return false;
    if (M < FEWEST_ROWS || N < FEWEST || K < FEWEST || M * N < (int64_t)threads * TILES * TILE) return false;
    if (ot_instruction_set() == OT_CPU_AVX512) return has_wide_rows(c);
    return shares_sets(c->a_stride) || shares_sets(c->b_stride);
}

ot_status ot_dot_packed_new(const ot_node *n, const ot_dot_call *c, int set, ot_prep *p, ot_dot_packed **out)
{
    static const ot_dot_tiles *const tiles[] = { &ot_dot_tiles_base, &ot_dot_tiles_avx2, &ot_dot_tiles_avx512 };
    ot_dot_packed *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    s->tiles = tiles[set];
    s->threads = p->threads;
    s->a_arg = c->a_arg, s->b_arg = c->b_arg, s->y_arg = c->y_arg;
    s->add_arg = c->bias_arg == OT_ARG_NONE ? c->add_arg : c->bias_arg;
    s->job = (ot_dot_job){ .M = c->y_dim[0],
                           .N = c->y_dim[1],
                           .K = c->a_dim[1],
                           .a_row = c->a_stride[0],
                           .a_column = c->a_stride[1],
                           .b_row = c->b_stride[0],
                           .b_column = c->b_stride[1],
                           .add_row = c->bias_arg == OT_ARG_NONE ? c->y_dim[1] : 0 };
    s->step_m = even(s->job.M, (int64_t)MOST_ROWS * s->threads, s->tiles->down);
    s->step_n = even(s->job.N, MOST_COLUMNS, s->tiles->across);
    s->step_k = even(s->job.K, MOST_K, 1);
    s->pack_a = ot_work_floats(&p->work, s->step_m * s->step_k);
    s->pack_b = ot_work_floats(&p->work, s->step_n * s->step_k);
    return OT_OK;
}

/* A thread's share of a block: panels, or strips where those divide better. */
typedef struct share {
    int64_t panel, panel_end, strip, strip_end;
} share;

/* How much more than an equal share the largest one is. */
static double excess(int64_t n, int threads) { return (double)up(n, threads) / (double)n; }

static share share_of(const ot_dot_packed *s, int64_t panels, int64_t strips, int thread)
{
    share r = { 0, panels, 0, strips };
    if (excess(panels, s->threads) <= excess(strips, s->threads))
        ot_part(panels, thread, s->threads, &r.panel, &r.panel_end);
    else ot_part(strips, thread, s->threads, &r.strip, &r.strip_end);
    return r;
}

static void pack(const ot_dot_packed *s, const ot_dot_job *j, const ot_dot_block *at, bool new_b, int64_t panels,
                 int64_t strips, int thread)
{
    int64_t from, to;
    ot_part(panels, thread, s->threads, &from, &to);
    if (from < to) s->tiles->pack_a(j, at, from, to);
    ot_part(strips, thread, s->threads, &from, &to);
    if (new_b && from < to) s->tiles->pack_b(j, at, from, to);
}

/* b is packed once for all rows. */
static void block(const ot_dot_packed *s, const ot_dot_job *j, const ot_dot_block *at)
{
    int64_t panels = up(at->m_end - at->m, s->tiles->down) / s->tiles->down,
            strips = up(at->n_end - at->n, s->tiles->across) / s->tiles->across;
    int threads = s->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int t = 0; t < threads; t++) pack(s, j, at, at->m == 0, panels, strips, t);
#pragma omp for schedule(static)
        for (int t = 0; t < threads; t++) {
            share r = share_of(s, panels, strips, t);
            s->tiles->multiply(j, at, r.panel, r.panel_end, r.strip, r.strip_end);
        }
    }
}

static int64_t end_of(int64_t from, int64_t step, int64_t all) { return from + step < all ? from + step : all; }

void ot_dot_packed_run(const ot_dot_packed *s, const ot_call *c)
{
    ot_dot_job j = s->job;
    j.a = ot_arg_address(c, s->a_arg);
    j.b = ot_arg_address(c, s->b_arg);
    j.add = ot_arg_address(c, s->add_arg);
    j.y = ot_arg_address(c, s->y_arg);
    j.pack_a = (float *)(void *)((char *)c->work + s->pack_a);
    j.pack_b = (float *)(void *)((char *)c->work + s->pack_b);
    for (int64_t n = 0; n < j.N; n += s->step_n)
        for (int64_t k = 0; k < j.K; k += s->step_k)
            for (int64_t m = 0; m < j.M; m += s->step_m)
                block(s, &j,
                      &(ot_dot_block){ m, end_of(m, s->step_m, j.M), n, end_of(n, s->step_n, j.N), k,
                                       end_of(k, s->step_k, j.K) });
}
