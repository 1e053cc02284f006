/* tile.c - chooses the tiles of a matrix product.
 *
 * Shapes  A short list of tiles, each reduced to the size of a smaller product (20 filters make 20 columns, not 32),
 *         each with the best number of blocks that share its terms.  They are ordered by a model of the time in cycles
 *         of a multiprocessor, an estimate that the tuner may correct through p->variant; the list is therefore short,
 *         and its entries differ.
 * Numerics the choice depends on the product and on the number of multiprocessors, never on the grid. */
#include "ops/cuda/tile.h"

#include "ops/cuda/types.h"

enum {
    MENU = 16,
    OFFERED = 6,          /* variants */
    SHARED_BYTES = 40960, /* of two steps; the other data of a kernel fits into 48 KiB with them */
    BLOCK_THREADS = 256,  /* most groups of threads that share a smaller tile */
    LATENCY = 500,        /* cycles of memory latency, the minimum for a step */
    START = 1500,
    SECOND_PASS = 3000,
};

/* 8x8 sums per thread take two 16-byte reads of shared memory per operand for 64 products: large tiles for
 * large products.  4x4 for those that would not fill 132 multiprocessors, narrow ones for few channels. */
static const struct {
    int bm, bn, tm, tn;
} menu[] = {
    { 128, 128, 8, 8 }, { 128, 64, 8, 4 }, { 64, 128, 4, 8 }, { 64, 64, 4, 4 }, { 128, 32, 4, 4 }, { 32, 64, 4, 4 },
    { 64, 32, 4, 4 },   { 32, 32, 4, 4 },  { 16, 64, 4, 4 },  { 64, 16, 4, 4 }, { 16, 16, 4, 4 },
};

/* Floats of up to 32 bits add in f32, integers modulo the size of their type. */
const char *ot_tile_sum_type(ot_dtype t)
{
    if (t == OT_F64) return "double";
    if (ot_is_float(t)) return "float";
    return ot_dtype_bits(t) == 64 || t == OT_BOOL ? "ot_u64" : "ot_u32";
}

int ot_tile_sum_bytes(ot_dtype t) { return t == OT_BOOL || ot_dtype_bits(t) == 64 ? 8 : 4; }

int ot_tile_threads(const ot_tile *t) { return t->bm / t->tm * (t->bn / t->tn) * t->groups; }

int64_t ot_tile_share(const ot_tile *t, int64_t steps) { return ot_ceil_div(steps, t->splits); }

static int cut(int side, int piece, int64_t extent)
{
    int64_t need = ot_ceil_div(extent, piece) * piece;
    return need < side ? (int)(need > piece ? need : piece) : side;
}

static int64_t shared_bytes(const ot_tile *t, int sum_bytes)
{
    return (int64_t)2 * t->bk * (t->bm + t->bn + 8) * sum_bytes;
}

/* Steps of about 16 terms (8 for each group), equalised so that the last is not nearly empty. */
static bool set_steps(ot_tile *t, const ot_tile_job *j)
{
    int sum = ot_tile_sum_bytes(j->type), align = j->align > t->groups ? j->align : t->groups;
    if (align % t->groups || align % j->align) align = t->groups * j->align;
    t->bk = t->groups * 8 > 16 ? t->groups * 8 : 16;
    if (t->bk > 64) t->bk = 64;
    while (t->bk > 4 && shared_bytes(t, sum) > SHARED_BYTES) t->bk /= 2;
    int64_t steps = ot_ceil_div(j->terms > 0 ? j->terms : 1, t->bk);
    t->bk = (int)(ot_ceil_div(ot_ceil_div(j->terms > 0 ? j->terms : 1, steps), align) * align);
    return shared_bytes(t, sum) <= SHARED_BYTES;
}

/* Cycles: of products, loads and the sum over groups on the busiest multiprocessor, or of latency if too few steps
 * are in flight to hide it; and of the second pass. */
static double cycles(const ot_tile *t, const ot_tile_job *j, int units)
{
    double rate = 128 * (t->tm * t->tn >= 64 ? 0.85 : t->tm * t->tn >= 32 ? 0.75 : 0.6);
    int threads = ot_tile_threads(t), most = 1024 / threads > 0 ? 1024 / threads : 1;
    int64_t tiles = ot_ceil_div(j->rows, t->bm) * ot_ceil_div(j->cols, t->bn) * j->batch;
    int64_t per_unit = ot_ceil_div(tiles * t->splits, units), together = per_unit < most ? per_unit : most;
    double steps = (double)ot_tile_share(t, ot_ceil_div(j->terms, t->bk)), busy = (double)(together * threads) / 256;
    double bytes = ot_dtype_bits(j->type) / 8.0;
    double element = 8.0 / 128 + bytes / 32; /* to load one: its instructions, and 32 bytes from L2 per cycle */
    double step = (double)t->bk * ((double)t->bm * t->bn / rate + (t->bm + t->bn) * element);
    double join = t->groups > 1 ? (double)t->bm * t->bn * t->groups / 16 : 0;
    double work = (double)per_unit * (steps * step + join) / (busy < 1 ? busy : 1);
    double wait = (double)ot_ceil_div(per_unit, together) * steps * LATENCY;
    double sums = (double)j->rows * (double)j->cols * (double)j->batch * t->splits * ot_tile_sum_bytes(j->type) * 2;
    return START + (work > wait ? work : wait) + (t->splits > 1 ? SECOND_PASS + sums / (units * 16.0) : 0);
}

static double best_splits(ot_tile *t, const ot_tile_job *j, int units)
{
    int64_t tiles = ot_ceil_div(j->rows, t->bm) * ot_ceil_div(j->cols, t->bn) * j->batch,
            steps = ot_ceil_div(j->terms, t->bk);
    ot_tile try = *t;
    t->splits = 1;
    double best = cycles(t, j, units);
    for (int s = 2; s <= 256 && s <= steps && tiles * s <= 4 * units; s *= 2) {
        try.splits = s;
        try.splits = (int)ot_ceil_div(steps, ot_tile_share(&try, steps)); /* no block without a step */
        double time = cycles(&try, j, units);
        if (time < best) best = time, *t = try;
    }
    return best;
}

static bool same(const ot_tile *a, const ot_tile *b)
{
    return a->bm == b->bm && a->bn == b->bn && a->tm == b->tm && a->tn == b->tn;
}

ot_tile ot_tile_choose(const ot_tile_job *j, ot_prep *p)
{
    ot_tile list[MENU];
    double time[MENU];
    int n = 0, units = ot_gpu_units(p->device);
    for (int i = 0; i < OT_LEN(menu); i++) {
        ot_tile t = { .tm = menu[i].tm, .tn = menu[i].tn, .groups = 1, .splits = 1 };
        if (ot_tile_sum_bytes(j->type) == 8 && t.tm * t.tn > 16) continue; /* too many registers */
        t.bm = cut(menu[i].bm, t.tm, j->rows);
        t.bn = cut(menu[i].bn, t.tn, j->cols);
        int bytes =
            t.bm * t.bn * ot_tile_sum_bytes(j->type); /* of a group's sums, which all but one put into shared memory */
        while (t.groups < 16 && ot_tile_threads(&t) * 2 <= BLOCK_THREADS && (2 * t.groups - 1) * bytes <= SHARED_BYTES)
            t.groups *= 2;
        bool known = false;
        for (int k = 0; k < n; k++) known |= same(&list[k], &t);
        if (known || !set_steps(&t, j)) continue;
        double cost = best_splits(&t, j, units);
        int at = n++;
        for (; at > 0 && time[at - 1] > cost; at--) list[at] = list[at - 1], time[at] = time[at - 1];
        list[at] = t;
        time[at] = cost;
    }
    p->variants = n < OFFERED ? n : OFFERED;
    return list[p->variant < p->variants ? p->variant : 0];
}

void ot_tile_define(ot_text *text, const char *name, int64_t value)
{
    ot_text_add(text, "#define %s %lld\n", name, (long long)value);
}

static const char *stored(ot_dtype t)
{
    switch (t) {
    case OT_F64: return "double";
    case OT_F32: return "float";
    case OT_I8: return "signed char";
    case OT_I16: return "short";
    case OT_I32: return "int";
    case OT_I64: return "ot_i64";
    case OT_U32: return "ot_u32";
    case OT_U64: return "ot_u64";
    default: return ot_dtype_bits(t) == 8 ? "unsigned char" : "ot_u16";
    }
}

void ot_tile_text(ot_text *text, const ot_tile *t, ot_dtype type, bool wide)
{
    ot_text_add(text, "#define T %s\n#define CLS %s\n#define STORED %s\n#define ACC %s\n#define IDX %s\n",
                ot_cuda_type(type), ot_cuda_class(type), stored(type), ot_tile_sum_type(type), wide ? "ot_i64" : "int");
    ot_tile_define(text, "VEC", ot_lanes(type));
    ot_tile_define(text, "BM", t->bm);
    ot_tile_define(text, "BN", t->bn);
    ot_tile_define(text, "BK", t->bk);
    ot_tile_define(text, "TM", t->tm);
    ot_tile_define(text, "TN", t->tn);
    ot_tile_define(text, "GROUPS", t->groups);
    ot_tile_define(text, "THREADS", ot_tile_threads(t));
}
