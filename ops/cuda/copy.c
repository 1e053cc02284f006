/* copy.c - Copy: copies boxes of words in one launch, exchanged axes by tiles.
 *
 * Both sides are memory, not logical tensors (ops/kernels/copy.h).  prepare merges axes, chooses the widest words (up
 * to 16 bytes) that divide every run, and splits the elements that no piece writes into boxes of `fill`, so that each
 * element is written once.  A piece whose dense axes differ on both sides is a transposition with a launch of its own.
 *
 * Memory  tensors begin at multiples of 16 bytes: the memory plan places them at multiples of 64. */
#include "ops/kernels/copy.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernels/box.h"
#include "ops/cuda/copy.cuh"
#include "ops/cuda/kernels.h"

enum {
    THREADS = 256,
    TRANSPOSED = 8, /* most pieces that get a launch of tiles each; if there are more, all are copied as boxes */
    HOLES = 64,     /* most boxes of `fill`; beyond that, everything is filled first */
    NARROW = 1 << 30
};

typedef enum { BOXES, TILES, PACKED } kind;

typedef struct launch {
    kind kind;
    ot_gpu_fn *f;
    int64_t units, first; /* first input */
    int64_t at;           /* of its boxes in the table; -1: they are launch arguments */
    union {
        ot_copy_args copy;
        ot_transpose_args tiles;
        ot_packed_args packed;
    } a;
} launch;

typedef struct plan {
    int n;
    void *table; /* ot_copy_box or ot_packed_box */
    launch *launch;
} plan;

/* One box to move; in: -1: fill. */
typedef struct item {
    ot_box b;
    int64_t in;
} item;

/* State of prepare. */
typedef struct work {
    const ot_node *node;
    ot_prep *prep;
    plan *plan;
    item *item;
    int64_t n, table; /* items; boxes in the table */
    int bytes;        /* of an element */
} work;

static void copy_release(void *state)
{
    plan *p = state;
    if (!p) return;
    free(p->table);
    free(p->launch);
    free(p);
}

static ot_status no_memory(const ot_node *n, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: Copy: no memory for %lld pieces", n->name,
                   (long long)((const ot_copy *)n->attrs)->n);
}

/* ---- what no piece writes -------------------------------------------------------- */

typedef struct hole {
    int64_t at[OT_MAX_RANK], extent[OT_MAX_RANK];
} hole;

/* Removes piece p from hole h: the rest becomes boxes at the end of the list.  false: too many. */
static bool cut(hole *list, int *n, int h, const ot_piece *p, int rank)
{
    hole *b = &list[h];
    for (int d = 0; d < rank; d++) {
        int64_t end = b->at[d] + b->extent[d], from = p->dst[d], to = p->dst[d] + p->extent[d];
        if (from >= end || to <= b->at[d]) return true; /* disjoint */
    }
    for (int d = 0; d < rank; d++) {
        int64_t end = b->at[d] + b->extent[d], to = p->dst[d] + p->extent[d];
        if (*n + 2 > HOLES) return false;
        if (p->dst[d] > b->at[d]) {
            list[*n] = *b;
            list[(*n)++].extent[d] = p->dst[d] - b->at[d];
            b->extent[d] -= p->dst[d] - b->at[d];
            b->at[d] = p->dst[d];
        }
        if (to < end) {
            list[*n] = *b;
            list[*n].at[d] = to;
            list[(*n)++].extent[d] = end - to;
            b->extent[d] = to - b->at[d];
        }
    }
    b->extent[0] = 0; /* the part that the piece writes */
    return true;
}

/* The boxes between the pieces; -1: too many. */
static int find_holes(const ot_copy *a, hole *list)
{
    int n = 1;
    list[0] = (hole){ .at = { 0 } };
    memcpy(list[0].extent, a->shape.dim, sizeof list[0].extent);
    for (int64_t i = 0; i < a->n; i++)
        for (int h = 0, end = n; h < end; h++) {
            bool empty = false;
            for (int d = 0; d < a->shape.rank; d++) empty |= list[h].extent[d] == 0 || a->piece[i].extent[d] == 0;
            if (empty) continue;
            if (!cut(list, &n, h, &a->piece[i], a->shape.rank)) return -1;
        }
    return n;
}

static void add_hole(work *w, const hole *h, const int64_t *ys, int rank)
{
    ot_box b = { .rank = rank };
    for (int d = 0; d < rank; d++) {
        b.extent[d] = h->extent[d];
        b.t[d] = ys[d];
        b.to += h->at[d] * ys[d];
    }
    ot_box_simplify(&b);
    if (b.count) w->item[w->n++] = (item){ b, -1 };
}

/* ---- words ------------------------------------------------------------------------- */

/* The widest word, in elements, that divides all runs of the box. */
static int64_t word_of(const item *x, int bytes)
{
    const ot_box *b = &x->b;
    int last = b->rank - 1;
    if (b->t[last] != 1 || (x->in >= 0 && b->f[last] != 1)) return 1;
    uint64_t all = (uint64_t)b->to | (uint64_t)b->from | (uint64_t)b->extent[last];
    for (int d = 0; d < last; d++) all |= (uint64_t)b->t[d] | (uint64_t)b->f[d];
    int64_t w = 1;
    while (w * 2 * bytes <= 16 && all % (uint64_t)(w * 2) == 0) w *= 2;
    return w;
}

/* The box in words of w elements. */
static void widen(ot_box *b, int64_t w)
{
    if (w == 1) return;
    b->to /= w;
    b->from /= w;
    b->extent[b->rank - 1] /= w;
    for (int d = 0; d < b->rank - 1; d++) {
        b->t[d] /= w;
        b->f[d] /= w;
    }
    ot_box_simplify(b);
}

static const char *word_name(int64_t bytes)
{
    return bytes == 1   ? "unsigned char"
           : bytes == 2 ? "ot_u16"
           : bytes == 4 ? "ot_u32"
           : bytes == 8 ? "ot_u64"
                        : "ot_u128";
}

/* Do offsets in the box need 64 bits? */
static bool wide(const ot_box *b)
{
    int64_t t = b->to, f = b->from;
    for (int d = 0; d < b->rank; d++) {
        t += (b->extent[d] - 1) * llabs(b->t[d]);
        f += (b->extent[d] - 1) * llabs(b->f[d]);
    }
    return t >= NARROW || f >= NARROW || b->count >= NARROW;
}

static ot_status compile(const work *w, const char *file, const char *entry, ot_gpu_fn **f, ot_text *prefix)
{
    ot_status s = ot_gpu_compile(w->prep->device, file, prefix->text, entry, f, w->prep->err);
    ot_text_free(prefix);
    return s;
}

static ot_copy_axis axis_of(int64_t n, int64_t t, int64_t f) { return (ot_copy_axis){ ot_divider_of(n), t, f }; }

/* ---- transpositions ------------------------------------------------------------------ */

/* The axis along which x is dense while y is along the last one; -1: none for which tiles are useful. */
static int rows_of(const ot_box *b)
{
    int last = b->rank - 1;
    if (b->t[last] != 1 || b->f[last] == 0 || llabs(b->f[last]) == 1 || b->extent[last] < 4 ||
        b->extent[last] >= NARROW)
        return -1;
    for (int d = 0; d < last; d++)
        if (b->f[d] == 1 && b->extent[d] >= 4 && b->extent[d] < NARROW) return d;
    return -1;
}

static ot_status add_tiles(work *w, const ot_box *b, int64_t in, int bytes)
{
    int row = rows_of(b), last = b->rank - 1, side = bytes <= 2 ? 64 : 32, area = side * side;
    int rows = b->extent[row] <= 8 ? 8 : b->extent[last] <= 8 ? area / 8 : side, columns = area / rows;
    int pitch = rows + (bytes < 4 ? 4 / bytes : columns == 8 ? 4 : 1);
    int64_t down = (b->extent[row] + rows - 1) / rows, across = (b->extent[last] + columns - 1) / columns;
    launch *l = &w->plan->launch[w->plan->n++];
    *l = (launch){ .kind = TILES, .first = in, .at = -1 };
    l->a.tiles = (ot_transpose_args){ .to = b->to,
                                      .from = b->from,
                                      .t = b->t[row],
                                      .f = b->f[last],
                                      .rows = (int)b->extent[row],
                                      .columns = (int)b->extent[last],
                                      .down = ot_divider_of(down),
                                      .across = ot_divider_of(across),
                                      .tiles = b->count / (b->extent[row] * b->extent[last]) * down * across };
    for (int d = 0; d < last; d++)
        if (d != row) l->a.tiles.outer[l->a.tiles.n++] = axis_of(b->extent[d], b->t[d], b->f[d]);
    l->units = l->a.tiles.tiles;
    ot_text prefix = { 0 };
    ot_text_add(&prefix, "#define WORD %s\n#define WIDE %d\n#define ROWS %d\n#define COLUMNS %d\n#define PITCH %d\n",
                word_name(bytes), l->units >= NARROW, rows, columns, pitch);
    return compile(w, "transpose.cu", "transpose", &l->f, &prefix);
}

/* Moves the transpositions to a list of their own, if they are few. */
static ot_status take_transpositions(work *w)
{
    int64_t n = 0, kept = 0;
    for (int pass = 0; pass < 2; pass++) {
        kept = 0;
        for (int64_t i = 0; i < w->n; i++) {
            item x = w->item[i];
            int64_t e = word_of(&x, w->bytes);
            widen(&x.b, e);
            if (x.in < 0 || rows_of(&x.b) < 0) {
                if (pass) w->item[kept++] = w->item[i];
            } else if (!pass) {
                n++;
            } else {
                OT_TRY(add_tiles(w, &x.b, x.in, (int)e * w->bytes));
            }
        }
        if (n == 0 || n > TRANSPOSED) return OT_OK;
    }
    w->n = kept;
    return OT_OK;
}

/* ---- boxes ----------------------------------------------------------------------------- */

/* Box x in the kernel's form; its innermost axis comes last. */
static ot_copy_box box_of(const item *x, int64_t first, int64_t unit)
{
    ot_copy_box b = {
        .unit = unit, .count = x->b.count, .to = x->b.to, .from = x->b.from, .in = x->in < 0 ? -1 : (int)(x->in - first)
    };
    int skip = OT_COPY_AXES - x->b.rank;
    for (int d = 0; d < skip; d++) b.axis[d] = axis_of(1, 0, 0);
    for (int d = 0; d < x->b.rank; d++) b.axis[skip + d] = axis_of(x->b.extent[d], x->b.t[d], x->b.f[d]);
    return b;
}

/* One launch for n items, whose inputs are within OT_COPY_INPUTS of each other. */
static ot_status add_boxes(work *w, item *x, int64_t n)
{
    const ot_copy *c = w->node->attrs;
    launch *l = &w->plan->launch[w->plan->n++];
    int64_t e = 16, words = 0, first = -1;
    int rank = 1, far = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t here = word_of(&x[i], w->bytes);
        e = here < e ? here : e;
        if (first < 0) first = x[i].in;
    }
    if (first < 0) first = 0; /* nothing but fill */
    for (int64_t i = 0; i < n; i++) {
        widen(&x[i].b, e);
        words += x[i].b.count;
        far |= wide(&x[i].b);
        rank = x[i].b.rank > rank ? x[i].b.rank : rank;
    }
    int each = words >= (int64_t)ot_gpu_units(w->prep->device) * THREADS * 16 ? 4 : 1;
    *l = (launch){ .kind = BOXES, .first = first, .at = n > OT_COPY_FEW ? w->table : -1 };
    l->a.copy.n = (int)n;
    for (int i = 0; i < 16; i += w->bytes) ot_set_f64(l->a.copy.fill, w->node->out[0]->dtype, i / w->bytes, c->fill);
    ot_copy_box *box = n > OT_COPY_FEW ? (ot_copy_box *)w->plan->table + w->table : l->a.copy.box;
    for (int64_t i = 0; i < n; i++) {
        box[i] = box_of(&x[i], first, l->units);
        l->units += (x[i].b.count + THREADS * each - 1) / (THREADS * each);
    }
    if (n > OT_COPY_FEW) w->table += n;
    l->a.copy.units = l->units;
    ot_text prefix = { 0 };
    ot_text_add(&prefix, "#define WORD %s\n#define WIDE %d\n#define RANK %d\n#define EACH %d\n#define MANY %d\n",
                word_name(e * w->bytes), far, rank, each, n > OT_COPY_FEW);
    return compile(w, "copy.cu", "copy", &l->f, &prefix);
}

static int by_input(const void *p, const void *q)
{
    const item *a = p, *b = q;
    return a->in != b->in ? (a->in > b->in) - (a->in < b->in) : (a->b.to > b->b.to) - (a->b.to < b->b.to);
}

static ot_status plan_boxes(work *w)
{
    const ot_copy *a = w->node->attrs;
    int64_t ys[OT_MAX_RANK], written = 0, total = ot_numel(&a->shape);
    hole holes[HOLES];
    ot_strides(&a->shape, ys);
    for (int64_t i = 0; i < a->n; i++) {
        const ot_piece *p = &a->piece[i];
        ot_box b = { .rank = a->shape.rank, .from = p->src };
        for (int d = 0; d < b.rank; d++) {
            b.extent[d] = p->extent[d];
            b.t[d] = ys[d];
            b.f[d] = p->stride[d];
            b.to += p->dst[d] * ys[d];
        }
        ot_box_simplify(&b);
        written += b.count;
        if (b.count) w->item[w->n++] = (item){ b, p->in };
    }
    int n = written == total ? 0 : find_holes(a, holes);
    for (int i = 0; i < n; i++) add_hole(w, &holes[i], ys, a->shape.rank);
    if (n < 0) {
        item all = { { .rank = 1, .count = total, .extent = { total }, .t = { 1 } }, -1 };
        OT_TRY(add_boxes(w, &all, 1));
    }
    OT_TRY(take_transpositions(w));
    qsort(w->item, (size_t)w->n, sizeof *w->item, by_input);
    for (int64_t i = 0, j; i < w->n; i = j) {
        int64_t first = -1;
        for (j = i; j < w->n && (first < 0 || w->item[j].in < first + OT_COPY_INPUTS); j++)
            if (first < 0) first = w->item[j].in;
        OT_TRY(add_boxes(w, w->item + i, j - i));
    }
    return OT_OK;
}

/* ---- less than a byte -------------------------------------------------------------------- */

static ot_status plan_packed(work *w)
{
    const ot_copy *a = w->node->attrs;
    int bits = ot_dtype_bits(w->node->out[0]->dtype), groups = (w->node->n_in + OT_COPY_INPUTS - 1) / OT_COPY_INPUTS;
    unsigned char fill = 0;
    ot_packed_box *b = w->plan->table;
    ot_set_f64(&fill, w->node->out[0]->dtype, 0, a->fill);
    for (int64_t i = 0; i < a->n; i++, b++) {
        *b = (ot_packed_box){ .in = (int)a->piece[i].in, .from = a->piece[i].src };
        for (int d = 0; d < OT_COPY_AXES; d++) {
            bool used = d < a->shape.rank;
            b->dst[d] = used ? a->piece[i].dst[d] : 0;
            b->extent[d] = used ? a->piece[i].extent[d] : 1;
            b->f[d] = used ? a->piece[i].stride[d] : 0;
        }
    }
    for (int g = 0; g < groups; g++) {
        launch *l = &w->plan->launch[w->plan->n++];
        int64_t total = ot_numel(&a->shape);
        *l = (launch){ .kind = PACKED,
                       .first = (int64_t)g * OT_COPY_INPUTS,
                       .units = (total * bits + 8 * THREADS - 1) / (8 * THREADS) };
        l->a.packed = (ot_packed_args){ .n = a->n,
                                        .elements = total,
                                        .first = g * OT_COPY_INPUTS,
                                        .bits = bits,
                                        .fill = g ? -1 : fill & ((1 << bits) - 1) };
        for (int d = 0; d < OT_COPY_AXES; d++) l->a.packed.shape[d] = d < a->shape.rank ? a->shape.dim[d] : 1;
        ot_text prefix = { 0 };
        ot_text_add(&prefix, "#define WIDE 1\n");
        OT_TRY(compile(w, "packed.cu", "packed", &l->f, &prefix));
    }
    w->table = a->n;
    return OT_OK;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static ot_status copy_prepare(const ot_node *n, ot_prep *prep)
{
    const ot_copy *a = n->attrs;
    int bits = ot_dtype_bits(n->out[0]->dtype);
    size_t most = (size_t)a->n + HOLES, size = bits < 8 ? sizeof(ot_packed_box) : sizeof(ot_copy_box);
    work w = { .node = n, .prep = prep, .bytes = bits / 8, .plan = calloc(1, sizeof *w.plan) };
    ot_status s = OT_OK;
    if (ot_numel(&a->shape) == 0) {
        free(w.plan);
        return OT_OK;
    }
    w.item = calloc(most, sizeof *w.item);
    if (w.plan) {
        w.plan->table = calloc(most, size);
        w.plan->launch = calloc((size_t)n->n_in / OT_COPY_INPUTS + TRANSPOSED + 3, sizeof *w.plan->launch);
    }
    if (!w.plan || !w.item || !w.plan->table || !w.plan->launch) s = no_memory(n, prep->err);
    else s = bits < 8 ? plan_packed(&w) : plan_boxes(&w);
    free(w.item);
    if (s != OT_OK) {
        copy_release(w.plan);
        return s;
    }
    prep->state = w.plan;
    prep->table = w.table ? w.plan->table : NULL;
    prep->table_bytes = (size_t)w.table * size;
    return OT_OK;
}

static ot_status run_launch(const ot_call *c, const launch *l)
{
    int64_t blocks = ot_gpu_blocks(c->device, l->units, 1);
    int inputs = c->node->n_in - (int)l->first < OT_COPY_INPUTS ? c->node->n_in - (int)l->first : OT_COPY_INPUTS;
    if (l->kind == TILES) {
        ot_transpose_args a = l->a.tiles;
        a.x = c->in[l->first];
        a.y = c->out[0];
        return ot_gpu_launch(c->device, l->f, blocks, THREADS, 0, &a, c->err);
    }
    if (l->kind == PACKED) {
        ot_packed_args a = l->a.packed;
        memcpy(a.in, c->in + l->first, (size_t)inputs * sizeof *a.in);
        a.table = c->table;
        a.y = c->out[0];
        return ot_gpu_launch(c->device, l->f, blocks, THREADS, 0, &a, c->err);
    }
    ot_copy_args a = l->a.copy;
    memcpy(a.in, c->in + l->first, (size_t)inputs * sizeof *a.in);
    if (l->at >= 0) a.table = (const ot_copy_box *)c->table + l->at;
    a.y = c->out[0];
    return ot_gpu_launch(c->device, l->f, blocks, THREADS, 0, &a, c->err);
}

static ot_status copy_run(const ot_call *c)
{
    const plan *p = c->state;
    for (int i = 0; p && i < p->n; i++) OT_TRY(run_launch(c, &p->launch[i]));
    return OT_OK;
}

const ot_kernel ot_cuda_Copy = { .name = "cuda", .prepare = copy_prepare, .run = copy_run, .release = copy_release };
