/* group.c - assigns samples to groups of threads. */
#include "ops/cuda/group.h"

#include "ops/cuda/types.h"

/* KEEP: most registers for packs of 16 bytes; a thread of a block of MOST_THREADS has 128 registers. */
enum { WARP_PACKS = 8, FEW_THREADS = 256, MOST_THREADS = 512, KEEP = 80 };

static int power_of_two(int64_t n) /* The power of two that is n or the next above. */
{
    int p = 1;
    while (p < n) p *= 2;
    return p;
}

/* Sets the lanes of g. */
static ot_group rows_by(ot_group g, int64_t n, ot_dtype t, int arrays)
{
    int held = arrays > 0 ? arrays : 1;
    int64_t packs = n % g.lanes ? (n + 2 * g.lanes - 2) / g.lanes : n / g.lanes;
    int most =
        t == OT_F64 || !arrays ? 0 : KEEP / (g.lanes > 1 ? 4 : 2) / arrays; /* f64: exp needs the registers itself */
    g.shifted = n % g.lanes != 0;
    if (packs <= 32 * WARP_PACKS / held) {
        g.group = power_of_two(packs);
        if (g.group > 32) g.group = 32;
        g.threads = 128;
        g.packs = (int)((packs + g.group - 1) / g.group);
        if (g.packs < 1) g.packs = 1;
        return g;
    }
    g.threads = packs <= FEW_THREADS * WARP_PACKS / held ? FEW_THREADS : MOST_THREADS;
    g.group = g.threads;
    g.packs = packs <= (int64_t)most * g.threads ? (int)((packs + g.threads - 1) / g.threads) : 0;
    return g;
}

ot_group ot_group_rows(int64_t n, ot_dtype t, int arrays)
{
    int lanes = ot_lanes(t);
    ot_group g = { .lanes = lanes, .wide = n > INT32_MAX / 2 };
    if (n % lanes && n < 4 * lanes) g.lanes = 1; /* 16 bytes would mostly belong to neighbours */
    return rows_by(g, n, t, arrays);
}

ot_group ot_group_single(int64_t n, ot_dtype t, int arrays)
{
    return rows_by((ot_group){ .lanes = 1, .wide = n > INT32_MAX / 2 }, n, t, arrays);
}

ot_group ot_group_columns(int64_t samples, int64_t n, int arrays)
{
    enum { PLENTY = 1 << 17, SOME = 1 << 13, KEEP_COLUMN = 32 };
    ot_group g = { .threads = 256, .lanes = 1, .columns = true, .wide = n > INT32_MAX / 2 };
    g.group = samples >= PLENTY || n <= 16 ? 1 : samples >= SOME ? 8 : 32;
    if (g.group == 1) g.threads = 128;
    g.packs = arrays && n <= (int64_t)g.group * KEEP_COLUMN / arrays ? (int)((n + g.group - 1) / g.group) : 0;
    return g;
}

void ot_group_text(const ot_group *g, ot_dtype t, ot_text *text)
{
    bool f64 = t == OT_F64;
    ot_text_add(text, "#define T %s\n#define ACC %s\n#define LOWEST %s\n", ot_cuda_type(t), f64 ? "double" : "float",
                f64 ? "-1.7976931348623157e308" : "-3.40282347e38f");
    ot_text_add(text, "#define THREADS %d\n#define BOUNDS %s\n#define GROUP %d\n", g->threads,
                f64 || g->group > 32 ? "THREADS, 1" : "THREADS", g->group);
    ot_text_add(text, "#define COLUMNS %d\n#define LANES %d\n", g->columns, g->lanes);
    ot_text_add(text, "#define SHIFTED %d\n#define PACKS %d\n#define INDEX %s\n", g->shifted, g->packs,
                g->wide ? "ot_i64" : "int");
}

int64_t ot_group_samples(const ot_group *g) { return g->threads / g->group; }
