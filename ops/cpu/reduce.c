/* reduce.c - Reduce of float32 along memory: rows are summed by vectors, columns tile by tile.
 *
 * Memory    workspace: a double per result and chunk, if a result has many terms.
 * Numerics  sums: 16 lanes of float32 over at most 64 terms each, four of them joined, then double.  The
 *           tree depends on shape and layout, not on the threads.  NaN propagates in max and min. */
#include "ops/kernels/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/box.h"

enum { LANES = 16, BLOCK = 1024, CHUNK = 1 << 15, COLUMNS = 512, DEPTH = 64, MANY = 64, SMALL = 1 << 14 };

typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int i4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Geometry: kept axes as a box from x to y, reduced axes as a box over x. */
typedef struct plan {
    int64_t kind;
    bool by_columns;         /* the innermost axis of x is kept */
    ot_box kept, gone;       /* by_columns: kept without the innermost axis */
    int64_t columns, stride; /* by_columns: how many, and their stride in y */
    int64_t terms;           /* along x: elements (rows of columns) per result */
    int64_t chunk, chunks;   /* terms per chunk */
    int64_t tiles;           /* by_columns: tiles of COLUMNS */
} plan;

static bool reduce_can(const ot_node *n, const char **why)
{
    if (((const ot_reduce *)n->attrs)->program) return ot_refuse(why, "it is not fused with a Map");
    return ot_f32_can(n->in[0], why);
}

static double start(int64_t kind)
{
    switch (kind) {
    case OT_REDUCE_PROD: return 1;
    case OT_REDUCE_MAX: return -INFINITY;
    case OT_REDUCE_MIN: return INFINITY;
    default: return 0;
    }
}

static double join(int64_t kind, double a, double b)
{
    switch (kind) {
    case OT_REDUCE_SUM:
    case OT_REDUCE_SUMSQ: return a + b;
    case OT_REDUCE_PROD: return a * b;
    case OT_REDUCE_MAX: return b > a || isnan(b) ? b : a;
    default: return b < a || isnan(b) ? b : a;
    }
}

/* ---- prepare --------------------------------------------------------------- */

static void split_axes(const ot_node *n, plan *p)
{
    const ot_reduce *a = n->attrs;
    const ot_value *x = n->in[0], *y = n->out[0];
    int64_t xs[OT_MAX_RANK], ys[OT_MAX_RANK], least = INT64_MAX;
    int inner = -1;
    ot_value_strides(x, xs);
    ot_value_strides(y, ys);
    for (int d = 0; d < x->shape.rank; d++)
        if (x->shape.dim[d] != 1 && xs[d] < least) {
            least = xs[d];
            inner = d;
        }
    for (int d = 0, e = 0; d < x->shape.rank; d++) {
        bool gone = a->axes >> d & 1;
        ot_box *b = gone ? &p->gone : &p->kept;
        if (d == inner && !gone) {
            p->by_columns = true;
            p->columns = x->shape.dim[d];
            p->stride = ys[e];
        } else {
            b->extent[b->rank] = x->shape.dim[d];
            b->t[b->rank] = xs[d];
            b->f[b->rank++] = gone ? 0 : ys[e];
        }
        e += !gone || a->keepdims;
    }
    ot_box_simplify(&p->gone);
    ot_box_simplify(&p->kept);
}

/* The innermost kept axes are columns as far as they form one axis on both sides. */
static void widen_columns(plan *p)
{
    ot_box *k = &p->kept;
    int last = k->rank - 1;
    if (k->count == 1 || k->t[last] != p->columns || k->f[last] != p->columns * p->stride) return;
    p->columns *= k->extent[last];
    k->count /= k->extent[last];
    k->rank--;
    ot_box_simplify(k);
}

static ot_status reduce_prepare(const ot_node *n, ot_prep *prep)
{
    plan *p = calloc(1, sizeof *p);
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: Reduce: no memory", n->name);
    prep->state = p;
    p->kind = ((const ot_reduce *)n->attrs)->kind;
    split_axes(n, p);
    p->terms = p->chunk = p->gone.count;
    p->chunks = p->tiles = 1;
    if (!ot_numel(&n->in[0]->shape)) return OT_OK;
    if (p->by_columns) {
        widen_columns(p);
        p->tiles = (p->columns + COLUMNS - 1) / COLUMNS;
    }
    int64_t width = p->by_columns ? p->columns < COLUMNS ? p->columns : COLUMNS : 1;
    int64_t least = CHUNK / width > DEPTH ? CHUNK / width : DEPTH;
    if (p->kept.count * p->tiles < MANY && p->terms > 2 * least) {
        p->chunk = p->terms / MANY > least ? (p->terms + MANY - 1) / MANY : least;
        p->chunks = (p->terms + p->chunk - 1) / p->chunk;
        prep->work = (size_t)(p->chunks * p->kept.count * (p->by_columns ? p->columns : 1)) * sizeof(double);
    }
    return OT_OK;
}

/* ---- rows: the reduced axis is innermost ------------------------------------ */

static inline v4 load(const float *x) { return *(const v4 *)x; }

static inline double across(v4 v) { return ((double)v[0] + (double)v[1]) + ((double)v[2] + (double)v[3]); }

static inline v4 term(v4 x, bool square)
{
    v4 xx = x * x;
    return square ? xx : x;
}

/* n neighbours, or their squares. */
static inline double row_sums(const float *x, int64_t n, bool square)
{
    double total = 0;
    while (n >= 4) {
        int64_t m = n < BLOCK ? n / LANES : BLOCK / LANES;
        v4 a = { 0 }, b = a, c = a, d = a;
        for (int64_t i = 0; i < m; i++, x += LANES) {
            v4 p = load(x), q = load(x + 4), r = load(x + 8), s = load(x + 12);
            a += term(p, square);
            b += term(q, square);
            c += term(r, square);
            d += term(s, square);
        }
        n -= m * LANES;
        if (n < LANES)
            for (; n >= 4; n -= 4, x += 4) a += term(load(x), square);
        total += across((a + b) + (c + d));
    }
    for (int64_t i = 0; i < n; i++) total += square ? (double)x[i] * (double)x[i] : (double)x[i];
    return total;
}

static inline v4 better(v4 v, v4 w, bool max)
{
    i4 take = (max ? w > v : w < v) | (w != w);
    return (v4)(((i4)w & take) | ((i4)v & ~take));
}

static inline double row_best(const float *x, int64_t n, bool max)
{
    int64_t kind = max ? OT_REDUCE_MAX : OT_REDUCE_MIN;
    double total = start(kind);
    if (n >= LANES) {
        v4 a = load(x), b = load(x + 4), c = load(x + 8), d = load(x + 12);
        for (x += LANES, n -= LANES; n >= LANES; x += LANES, n -= LANES) {
            a = better(a, load(x), max);
            b = better(b, load(x + 4), max);
            c = better(c, load(x + 8), max);
            d = better(d, load(x + 12), max);
        }
        a = better(better(a, b, max), better(c, d, max), max);
        for (int l = 0; l < 4; l++) total = join(kind, total, (double)a[l]);
    }
    for (int64_t i = 0; i < n; i++) total = join(kind, total, (double)x[i]);
    return total;
}

static double row_of(int64_t kind, const float *x, int64_t n)
{
    double total = 1;
    switch (kind) {
    case OT_REDUCE_SUM: return row_sums(x, n, false);
    case OT_REDUCE_SUMSQ: return row_sums(x, n, true);
    case OT_REDUCE_MAX: return row_best(x, n, true);
    case OT_REDUCE_MIN: return row_best(x, n, false);
    default:
        for (int64_t i = 0; i < n; i++) total *= (double)x[i];
        return total;
    }
}

/* Terms lo to hi of the result at x. */
static double row_terms(const plan *p, const float *x, int64_t lo, int64_t hi)
{
    const ot_box *g = &p->gone;
    int64_t n = g->extent[g->rank - 1], s = g->t[g->rank - 1];
    double total = start(p->kind);
    ot_walk w;
    ot_walk_start(&w, g, 1, lo / n);
    for (int64_t at = lo % n; lo < hi; at = 0, ot_walk_next(&w, g)) {
        int64_t m = n - at < hi - lo ? n - at : hi - lo;
        const float *row = x + w.to + at * s;
        if (s != 1)
            for (int64_t i = 0; i < m; i++) total = join(p->kind, total, row_of(p->kind, row + i * s, 1));
        else total = join(p->kind, total, row_of(p->kind, row, m));
        lo += m;
    }
    return total;
}

/* ---- columns: a kept axis is innermost -------------------------------------- */

/* simd: at -O2 the compiler does not vectorise by itself. */
static void column_row(int64_t kind, float *restrict acc, const float *restrict x, int64_t n)
{
    switch (kind) {
    case OT_REDUCE_SUM:
#pragma omp simd
        for (int64_t j = 0; j < n; j++) acc[j] += x[j];
        break;
    case OT_REDUCE_SUMSQ:
#pragma omp simd
        for (int64_t j = 0; j < n; j++) acc[j] += x[j] * x[j];
        break;
    case OT_REDUCE_PROD:
#pragma omp simd
        for (int64_t j = 0; j < n; j++) acc[j] *= x[j];
        break;
    case OT_REDUCE_MAX:
#pragma omp simd
        for (int64_t j = 0; j < n; j++) acc[j] = ((x[j] > acc[j]) | (x[j] != x[j])) ? x[j] : acc[j];
        break;
    default:
#pragma omp simd
        for (int64_t j = 0; j < n; j++) acc[j] = ((x[j] < acc[j]) | (x[j] != x[j])) ? x[j] : acc[j];
        break;
    }
}

/* Rows lo to hi of n columns at x, into out. */
static void column_terms(const plan *p, const float *x, int64_t n, int64_t lo, int64_t hi, double *out)
{
    ot_walk w;
    for (int64_t j = 0; j < n; j++) out[j] = start(p->kind);
    ot_walk_start(&w, &p->gone, 0, lo);
    while (lo < hi) {
        float acc[COLUMNS];
        int64_t m = hi - lo < DEPTH ? hi - lo : DEPTH;
        for (int64_t j = 0; j < n; j++) acc[j] = (float)start(p->kind);
        for (int64_t i = 0; i < m; i++, ot_walk_next(&w, &p->gone)) column_row(p->kind, acc, x + w.to, n);
        if (p->kind == OT_REDUCE_SUM || p->kind == OT_REDUCE_SUMSQ) {
#pragma omp simd
            for (int64_t j = 0; j < n; j++) out[j] += (double)acc[j];
        } else
            for (int64_t j = 0; j < n; j++) out[j] = join(p->kind, out[j], (double)acc[j]);
        lo += m;
    }
}

/* ---- run ------------------------------------------------------------------- */

/* Task i: chunk, tile of columns and kept axes, the kept axes slowest. */
static void task(const plan *p, int64_t i, const float *x, float *y, double *work)
{
    int64_t chunk = i % p->chunks, tile = i / p->chunks % p->tiles, k = i / p->chunks / p->tiles;
    int64_t lo = chunk * p->chunk, hi = lo + p->chunk < p->terms ? lo + p->chunk : p->terms;
    ot_walk w;
    ot_walk_start(&w, &p->kept, 0, k);
    if (!p->by_columns) {
        double v = row_terms(p, x + w.to, lo, hi);
        if (work) work[k * p->chunks + chunk] = v;
        else y[w.from] = (float)v;
        return;
    }
    int64_t from = tile * COLUMNS, n = p->columns - from < COLUMNS ? p->columns - from : COLUMNS;
    double out[COLUMNS];
    column_terms(p, x + w.to + from, n, lo, hi, out);
    if (work) memcpy(work + (k * p->chunks + chunk) * p->columns + from, out, (size_t)n * sizeof *out);
    else
        for (int64_t j = 0; j < n; j++) y[w.from + (from + j) * p->stride] = (float)out[j];
}

/* Part `part` of the results, each from its own terms. */
static void rows(const plan *p, const float *x, float *y, int64_t part, int64_t parts)
{
    bool one = p->gone.rank == 1 && p->gone.t[0] == 1;
    int64_t lo, hi;
    ot_walk w;
    ot_part(p->kept.count, part, parts, &lo, &hi);
    if (lo < hi) ot_walk_start(&w, &p->kept, 0, lo);
    for (; lo < hi; lo++, ot_walk_next(&w, &p->kept))
        y[w.from] = (float)(one ? row_of(p->kind, x + w.to, p->terms) : row_terms(p, x + w.to, 0, p->terms));
}

static void join_row(int64_t kind, double *v, const double *x, int64_t n)
{
    if (kind == OT_REDUCE_SUM || kind == OT_REDUCE_SUMSQ) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) v[j] += x[j];
    } else
        for (int64_t j = 0; j < n; j++) v[j] = join(kind, v[j], x[j]);
}

static void join_chunks(const plan *p, const double *work, float *y)
{
    int64_t columns = p->by_columns ? p->columns : 1;
    ot_walk w;
    ot_walk_start(&w, &p->kept, 0, 0);
    for (int64_t k = 0; k < p->kept.count; k++, ot_walk_next(&w, &p->kept))
        for (int64_t from = 0; from < columns; from += COLUMNS) {
            int64_t n = columns - from < COLUMNS ? columns - from : COLUMNS;
            double v[COLUMNS];
            for (int64_t j = 0; j < n; j++) v[j] = start(p->kind);
            for (int64_t i = 0; i < p->chunks; i++)
                join_row(p->kind, v, work + (k * p->chunks + i) * columns + from, n);
            for (int64_t j = 0; j < n; j++) y[w.from + (from + j) * (p->by_columns ? p->stride : 1)] = (float)v[j];
        }
}

static ot_status reduce_run(const ot_call *c)
{
    const plan *p = c->state;
    int64_t total = ot_numel(&c->node->in[0]->shape), results = ot_numel(&c->node->out[0]->shape);
    int64_t tasks = p->chunks * p->tiles * p->kept.count;
    int threads = total < SMALL ? 1 : c->threads;
    double *work = p->chunks > 1 ? c->work : NULL;
    if (!total) {
        for (int64_t i = 0; i < results; i++) ((float *)c->out[0])[i] = (float)start(p->kind);
        return OT_OK;
    }
    if (!work && !p->by_columns) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int part = 0; part < threads; part++) rows(p, c->in[0], c->out[0], part, threads);
        return OT_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < tasks; i++) task(p, i, c->in[0], c->out[0], work);
    if (work) join_chunks(p, work, c->out[0]);
    return OT_OK;
}

const ot_kernel ot_cpu_Reduce = {
    .name = "cpu",
    .can = reduce_can,
    .prepare = reduce_prepare,
    .run = reduce_run,
    .release = free,
    .any_layout = true,
};
