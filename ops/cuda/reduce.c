/* reduce.c - Reduce: by rows if the innermost axis of x is reduced, by columns if it is kept.
 *
 * Memory    workspace: a sum per result and chunk, if few results have many terms.
 * Numerics  floats of up to 32 bits: runs of 16 in float32, joined in double; products and float64 in double;
 *           integers modulo 2^64.  One rounding to the result.  The tree depends on the shape alone.
 *           An element of a program is rounded as if stored. */
#include "ops/kernels/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/kernels.h"
#include "ops/cuda/map_print.h"
#include "ops/cuda/types.h"

enum {
    THREADS = 256,
    BLOCKS = 1024, /* target number of blocks; a constant: sums are the same on every device */
    RUN = 16, /* steps of a thread of a chunk are a multiple: loads of a whole run are in flight together (reduce.cu) */
    WORDS = 16 + 10 * OT_MAX_RANK + GPU_MAP_WORDS
};

typedef struct axis {
    int64_t n, x, y;
} axis; /* steps in x and y */

typedef struct plan {
    gpu_map m;
    ot_program copy; /* of a Reduce without a program */
    int64_t kind;
    ot_dtype type, y;                          /* of an element, of a result */
    axis kept[OT_MAX_RANK], gone[OT_MAX_RANK]; /* outermost first */
    int n_kept, n_gone;
    bool by_columns;
    int neighbours; /* results that a thread computes together: KV */
    int group, columns, per, joiners;
    int64_t y_step, results, terms, chunk, chunks;
    ot_gpu_fn *reduce, *join;
} plan;

/* ---- plan ------------------------------------------------------------------------ */

/* The preceding Map: the node's program, or x itself. */
static void plan_map(const ot_node *n, plan *p)
{
    const ot_reduce *a = n->attrs;
    ot_value x = *n->in[0], *out[] = { &x };
    ot_node map = *n;
    gpu_reduced r = { .gone = a->axes };
    int64_t own[OT_MAX_RANK];
    ot_reduce_x(n, &x.shape, &p->type);
    for (int i = 0; i < n->n_in; i++) /* in the layout of an input of its size */
        if (ot_shape_eq(&n->in[i]->shape, &x.shape)) {
            x.layout = n->in[i]->layout;
            break;
        }
    x.dtype = p->type;
    p->copy = (ot_program){ .n_in = 1, .n_out = 1, .out_dtype = { (uint8_t)p->type } };
    p->copy.in_class[0] = (uint8_t)ot_class_of(p->type);
    map.attrs = a->program ? a->program : &p->copy;
    map.out = out;
    map.n_out = 1;
    ot_value_strides(n->out[0], own);
    for (int d = 0, e = 0; d < x.shape.rank; d++) {
        bool gone = a->axes >> d & 1;
        r.y[d] = gone ? 0 : own[e];
        e += !gone || a->keepdims;
    }
    gpu_map_plan(&map, &r, &p->m);
}

static void split_axes(plan *p)
{
    const gpu_map *m = &p->m;
    int64_t x = 1;
    int v = m->vector;
    p->by_columns = m->rank && !m->gone[m->rank - 1];
    for (int d = 0; d < m->rank; d++) *(m->gone[d] ? &p->n_gone : &p->n_kept) += 1;
    for (int d = m->rank - 1, k = p->n_kept, g = p->n_gone; d >= 0; d--) {
        axis *to = m->gone[d] ? &p->gone[--g] : &p->kept[--k];
        *to = (axis){ m->dim[d], x, m->stride[m->n_in][d] };
        x *= m->dim[d];
        if (d < m->rank - 1) continue;
        p->y_step = to->y;
        *to = (axis){ (to->n + v - 1) / v, to->x * v, to->y * v };
    }
}

static int64_t product(const axis *a, int n)
{
    int64_t all = 1;
    for (int d = 0; d < n; d++) all *= a[d].n;
    return all;
}

/* The power of two that is not less than n, of at most `most`. */
static int power(int64_t n, int most)
{
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

/* A whole tensor, one element after the other: such calls can be grouped. */
static bool is_whole(const plan *p) { return p->n_kept == 0 && p->n_gone == 1 && p->m.n_strided == 0 && p->per == 1; }

static void plan_work(plan *p)
{
    int64_t steps = product(p->kept, p->n_kept);
    int bits = ot_dtype_bits(p->type);
    p->neighbours = p->by_columns ? p->m.vector : 1;
    p->results = steps * p->neighbours;
    p->terms = product(p->gone, p->n_gone);
    p->per = bits < 8 ? 8 / bits : 1;
    p->chunks = 1;
    if (bits < 8) {
        p->by_columns = false;
        p->group = 1;
    } else if (p->by_columns) {
        p->columns = p->m.few ? 32 : power(steps, 32);
        int64_t tiles = (steps + p->columns - 1) / p->columns, most = p->terms / (THREADS / p->columns * RUN);
        p->chunks = BLOCKS / (tiles ? tiles : 1);
        if (p->chunks > most) p->chunks = most;
        if (p->m.few) p->chunks = 1;
    } else {
        int64_t most = p->terms / (THREADS * RUN);
        p->group = p->terms >= 2 * THREADS || is_whole(p) ? THREADS : power(p->terms / 2, 32);
        p->chunks = BLOCKS / (p->results ? p->results : 1);
        if (p->chunks > most) p->chunks = most;
    }
    if (p->chunks < 1) p->chunks = 1;
    int64_t run = RUN * (p->by_columns ? THREADS / p->columns : THREADS);
    p->chunk = (p->terms + p->chunks - 1) / p->chunks;
    if (p->chunks > 1) p->chunk = (p->chunk + run - 1) / run * run;
    if (p->chunk) p->chunks = (p->terms + p->chunk - 1) / p->chunk;
    p->joiners = is_whole(p) || (p->chunks > 8 && p->results < 4096) ? 32 : 1;
}

/* ---- text --------------------------------------------------------------------------- */

static bool in_words(const plan *p) { return !ot_is_float(p->type); }

static bool adds(const plan *p)
{
    return p->kind == OT_REDUCE_SUM || p->kind == OT_REDUCE_SUMSQ || p->kind == OT_REDUCE_PROD;
}

/* The type of a sum; lane: of a few terms. */
static const char *sum_type(const plan *p, bool lane)
{
    if (!adds(p)) return ot_cuda_class(p->type);
    if (in_words(p)) return "ot_u64";
    return lane && p->kind != OT_REDUCE_PROD ? ot_cuda_class(p->type) : "double";
}

static const char *start(const plan *p, char text[32])
{
    int bits = ot_dtype_bits(p->type);
    bool sign = ot_is_signed(p->type), max = p->kind == OT_REDUCE_MAX;
    if (adds(p)) return p->kind == OT_REDUCE_PROD ? "1" : "0";
    if (ot_is_float(p->type)) return max ? "-INFINITY" : "INFINITY";
    if (p->type == OT_BOOL) return max ? "0" : "1";
    uint64_t top = UINT64_MAX >> (64 - bits + (sign ? 1 : 0));
    if (max) snprintf(text, 32, sign ? "(-%lldll - 1)" : "0", (long long)top);
    else snprintf(text, 32, "%lluull", (unsigned long long)top);
    return text;
}

/* From a sum to the class of the result, rounding once. */
static const char *result_of(const plan *p)
{
    if (!adds(p)) return "(v)";
    if (in_words(p)) return p->type == OT_U64 ? "(v)" : "(ot_i64)(v)";
    return p->y == OT_F64 ? "(v)" : p->y == OT_F32 ? "(float)(v)" : "ot_odd_f64(v)";
}

static void print(const plan *p, ot_text *t)
{
    char number[32];
    gpu_map_text(&p->m, t);
    ot_text_add(t, "#define T %s\n#define CLS %s\n#define ACC %s\n#define LANE %s\n", ot_cuda_type_any(p->y),
                ot_cuda_class(p->type), sum_type(p, false), sum_type(p, true));
    ot_text_add(t, "#define TERM(v) %s\n", p->kind == OT_REDUCE_SUMSQ ? "(LANE)(v) * (LANE)(v)" : "(LANE)(v)");
    ot_text_add(t, "#define JOIN(x, y) %s\n",
                p->kind == OT_REDUCE_PROD  ? "(x) * (y)"
                : p->kind == OT_REDUCE_MAX ? "((y) > (x) || (y) != (y) ? (y) : (x))"
                : p->kind == OT_REDUCE_MIN ? "((y) < (x) || (y) != (y) ? (y) : (x))"
                                           : "(x) + (y)");
    ot_text_add(t, "#define START %s\n#define STORE(v) %s\n", start(p, number), result_of(p));
    ot_text_add(
        t,
        "#define WHOLE %d\n#define KEPT %d\n#define GONE %d\n#define KV %d\n#define GROUP %d\n#define COLUMNS %d\n#define PER %d\n#define JOINERS %d\n#define UNROLL %d\n",
        is_whole(p), p->n_kept, p->n_gone, p->neighbours, p->group, p->columns, p->per, p->joiners,
        p->m.p->n_inst * p->m.vector > 64 ? 1 : 4);
    ot_text_add(t, "#include \"reduce.cuh\"\n");
}

/* ---- prepare ------------------------------------------------------------------------- */

static void plan_node(const ot_node *n, plan *p)
{
    *p = (plan){ .kind = ((const ot_reduce *)n->attrs)->kind, .y = n->out[0]->dtype };
    plan_map(n, p);
    split_axes(p);
    plan_work(p);
}

static ot_status reduce_prepare(const ot_node *n, ot_prep *prep)
{
    plan *p = malloc(sizeof *p);
    ot_text t = { 0 };
    ot_status s = OT_OK;
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: no memory to plan a Reduce", n->name);
    plan_node(n, p);
    print(p, &t);
    if (t.failed) s = ot_fail(prep->err, OT_E_NOMEM, "%s: no memory for the text of a Reduce", n->name);
    if (s == OT_OK) s = ot_gpu_compile(prep->device, "reduce.cu", t.text, "reduce", &p->reduce, prep->err);
    if (s == OT_OK && (p->chunks > 1 || is_whole(p)))
        s = ot_gpu_compile(prep->device, "reduce_join.cu", t.text, "reduce_join", &p->join, prep->err);
    if (p->chunks > 1)
        prep->work = (size_t)(p->chunks * p->results) * (!adds(p) && !strcmp(sum_type(p, false), "float") ? 4u : 8u);
    ot_text_free(&t);
    if (s == OT_OK) prep->state = p;
    else free(p);
    return s;
}

/* ---- run ------------------------------------------------------------------------------- */

static int put_axes(const axis *a, int n, uint64_t *w)
{
    int k = 0;
    for (int d = 0; d <= n; d++) { /* an additional one, unused */
        k += gpu_map_divider(d < n ? a[d].n : 1, w + k);
        w[k++] = d < n ? (uint64_t)a[d].x : 0;
        w[k++] = d < n ? (uint64_t)a[d].y : 0;
    }
    return k;
}

/* ot_reduce_call of reduce.cuh; returns the number of words. */
static int put_call(const plan *p, const ot_call *c, uint64_t *w)
{
    int k = 0;
    w[k++] = (uintptr_t)c->out[0];
    w[k++] = (uintptr_t)c->work;
    w[k++] = (uint64_t)p->results;
    w[k++] = (uint64_t)p->terms;
    w[k++] = (uint64_t)p->chunk;
    w[k++] = (uint64_t)p->chunks;
    w[k++] = (uint64_t)p->y_step;
    k += put_axes(p->kept, p->n_kept, w + k);
    k += put_axes(p->gone, p->n_gone, w + k);
    return k + gpu_map_words(&p->m, c, w + k);
}

/* ot_reduce_args of reduce.cuh. */
typedef struct args {
    const void *calls, *chunks;
    int64_t units;
    uint64_t one[WORDS];
} args;

static ot_status reduce_run(const ot_call *c)
{
    const plan *p = c->state;
    args a = { .calls = NULL };
    int64_t steps = p->results / p->neighbours, blocks;
    if (!p->results) return OT_OK;
    put_call(p, c, a.one);
    if (p->by_columns) {
        a.units = blocks = (steps + p->columns - 1) / p->columns * p->chunks;
    } else {
        a.units = (p->results + p->per - 1) / p->per * p->chunks;
        blocks = (a.units + THREADS / p->group - 1) / (THREADS / p->group);
    }
    OT_TRY(ot_gpu_launch(c->device, p->reduce, ot_gpu_blocks(c->device, blocks, 1), THREADS, 0, &a, c->err));
    if (p->chunks == 1) return OT_OK;
    a.units = p->results;
    return ot_gpu_launch(c->device, p->join, ot_gpu_blocks(c->device, a.units, THREADS / p->joiners), THREADS, 0, &a,
                         c->err);
}

/* ---- several calls: of whole tensors, or of few columns ------------------------------ */

/* The rows of a matrix of few elements, added: the gradient of a bias. */
static bool is_few(const plan *p) { return p->m.few && p->by_columns && p->n_kept == 1 && p->n_gone == 1; }

static bool reduce_joins(const ot_node *a, const ot_node *b)
{
    plan x, y;
    plan_node(a, &x);
    plan_node(b, &y);
    if (!(is_whole(&x) && is_whole(&y)) && !(is_few(&x) && is_few(&y))) return false;
    return x.kind == y.kind && x.y == y.y && gpu_map_alike(&x.m, &y.m);
}

/* Blocks' units of a call: its chunks, or its tiles of columns. */
static int64_t units_of(const plan *p)
{
    return p->by_columns ? (p->results + p->columns - 1) / p->columns : p->chunks;
}

static size_t call_words(const plan *p)
{
    uint64_t w[WORDS];
    const void *in[OT_MAP_IN] = { NULL };
    void *out[1] = { NULL };
    const ot_call c = { .in = in, .out = out };
    return (size_t)put_call(p, &c, w);
}

/* The calls, then the units: pairs of a call and the number of a chunk or tile in it. */
static size_t reduce_bytes(const ot_node *const *n, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        plan p;
        plan_node(n[i], &p);
        bytes += call_words(&p) * 8 + (size_t)units_of(&p) * 8;
    }
    return bytes;
}

static void reduce_fill(const ot_call *const *c, int count, void *table)
{
    uint64_t *w = table;
    for (int i = 0; i < count; i++) w += put_call(c[i]->state, c[i], w);
    uint32_t *pair = (uint32_t *)w;
    for (uint32_t i = 0; i < (uint32_t)count; i++)
        for (uint32_t k = 0; k < (uint32_t)units_of(c[i]->state); k++) *pair++ = i, *pair++ = k;
}

static ot_status reduce_run_many(const ot_call *const *c, int count, const void *table)
{
    const plan *p = c[0]->state;
    args a = { .calls = table, .chunks = (const uint64_t *)table + (size_t)count * call_words(p) };
    bool chunks = false;
    for (int i = 0; i < count; i++) {
        const plan *q = c[i]->state;
        a.units += units_of(q);
        chunks = chunks || q->chunks > 1;
    }
    OT_TRY(ot_gpu_launch(c[0]->device, p->reduce, ot_gpu_blocks(c[0]->device, a.units, 1), THREADS, 0, &a, c[0]->err));
    if (!chunks) return OT_OK;
    a.units = count;
    return ot_gpu_launch(c[0]->device, p->join, ot_gpu_blocks(c[0]->device, a.units, THREADS / p->joiners), THREADS, 0,
                         &a, c[0]->err);
}

static const ot_grouped many = {
    .joins = reduce_joins, .bytes = reduce_bytes, .fill = reduce_fill, .run = reduce_run_many
};

const ot_kernel ot_cuda_Reduce = {
    .name = "cuda",
    .prepare = reduce_prepare,
    .run = reduce_run,
    .release = free,
    .many = &many,
    .any_layout = true,
};
