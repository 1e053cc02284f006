/* dot.c - Dot by tiles of our own: every case of the reference; a later candidate than cuBLASLt.  Small products also with the Map
 * behind them: its launch would take about as long as they do.
 *
 * Shapes   Leading axes are merged if both operands have the same steps; if one matrix serves all batches, the batches
 *          become rows of one product.  One row or one column is a matrix times a vector, a kernel of its own.
 * Numerics f32 and 16-bit floats add in f32, f64 in f64, integers modulo their size.
 * Memory   a workspace for the sums of parts, if a product has many terms and few tiles (tile.c). */
#include "ops/kernels/dot.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cuda/dot.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/map_print.h"
#include "ops/cuda/tile.h"
#include "ops/cuda/types.h"
#include "ops/kernels/fused.h"

enum { NARROW = 1 << 30 }; /* limit for 32-bit indices, including a step beyond the end */

/* Multiply-adds below which a product is joined with the Map behind it.  An estimate: those of 16 bits are cuBLASLt's on matrix units
 * well before. */
enum { SMALL_16 = 1 << 20, SMALL = 1 << 25 };

/* A Dot as one loop over products of matrices. */
typedef struct product {
    int64_t M, N, K;
    int64_t lda, ldb;
    bool ta, tb;
    int axes; /* the last one first */
    int64_t dim[OT_DOT_AXES], a_step[OT_DOT_AXES], b_step[OT_DOT_AXES];
} product;

typedef struct plan {
    ot_gpu_fn *f, *parts; /* parts: the second pass; NULL: none */
    int64_t blocks, elements;
    int threads;
    bool vector;
    union {
        ot_dot_args dot;
        ot_dotvector_args line;
    } a;
} plan;

static bool dot_can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->out[0]->dtype, why); }

/* Step of operand s along axis d of y, counted from the last axis; 0 if it is broadcast. */
static int64_t step_of(const ot_shape *s, int d)
{
    int64_t step = 1;
    int axis = s->rank - 1 - d;
    if (axis < 0 || s->dim[axis] == 1) return 0;
    for (int e = axis + 1; e < s->rank; e++) step *= s->dim[e];
    return step;
}

static void add_axis(product *p, int64_t dim, int64_t a_step, int64_t b_step)
{
    int last = p->axes - 1;
    if (dim == 1) return;
    if (last >= 0 && a_step == p->a_step[last] * p->dim[last] && b_step == p->b_step[last] * p->dim[last]) {
        p->dim[last] *= dim;
        return;
    }
    p->dim[p->axes] = dim;
    p->a_step[p->axes] = a_step;
    p->b_step[p->axes++] = b_step;
}

static product product_of(const ot_node *n)
{
    const ot_dot *t = n->attrs;
    const ot_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape, *y = &n->out[0]->shape;
    product p = { .M = y->dim[y->rank - 2],
                  .N = y->dim[y->rank - 1],
                  .lda = a->dim[a->rank - 1],
                  .ldb = b->dim[b->rank - 1],
                  .ta = t->ta != 0,
                  .tb = t->tb != 0 };
    p.K = t->ta ? a->dim[a->rank - 2] : a->dim[a->rank - 1];
    for (int d = 2; d < y->rank; d++) add_axis(&p, y->dim[y->rank - 1 - d], step_of(a, d), step_of(b, d));
    /* One b for all, and rows that continue from batch to batch: one tall product. */
    if (p.axes && p.b_step[0] == 0 && !p.ta && p.a_step[0] == p.M * p.K) {
        p.M *= p.dim[0];
        p.axes--;
        for (int d = 0; d < p.axes; d++)
            p.dim[d] = p.dim[d + 1], p.a_step[d] = p.a_step[d + 1], p.b_step[d] = p.b_step[d + 1];
    }
    return p;
}

static int64_t products(const product *p)
{
    int64_t n = 1;
    for (int d = 0; d < p->axes; d++) n *= p->dim[d];
    return n;
}

static bool wide(const ot_node *n)
{
    return ot_numel(&n->in[0]->shape) >= NARROW || ot_numel(&n->in[1]->shape) >= NARROW ||
           ot_numel(&n->out[0]->shape) >= NARROW;
}

/* Elements of an operand per load: 16 bytes if every line and matrix begins at a multiple of it. */
static int vector_of(const product *p, const int64_t *step, int64_t ld, int side, bool along_k, const ot_tile *t,
                     int most)
{
    bool fits = ld % most == 0 && (along_k ? t->bk : side) % most == 0;
    for (int d = 0; d < p->axes; d++) fits &= step[d] % most == 0;
    return fits ? most : 1;
}

/* ---- by tiles ------------------------------------------------------------------- */

static void print_after(const ot_fused_part *map, ot_text *text)
{
    gpu_map m;
    uint32_t between = 0;
    gpu_map_plan(map->node, NULL, &m);
    for (int i = 0; i < map->node->n_in && i < OT_FUSED_IN; i++)
        between |= (uint32_t)(map->in[i] == OT_FUSED_BETWEEN) << i;
    gpu_map_after_text(&m, between, text);
}

/* fused: the node, if there is a Map behind the Dot n; else NULL. */
static ot_status tiles_prepare(const ot_node *n, const ot_node *fused, ot_prep *p, const product *d, plan *s)
{
    ot_dtype type = n->out[0]->dtype;
    ot_tile_job j = { .rows = d->M, .cols = d->N, .terms = d->K, .batch = products(d), .type = type };
    int most = ot_lanes(type);
    bool loads_a = !d->ta && d->lda % most == 0, loads_b = d->tb && d->ldb % most == 0;
    j.align = loads_a || loads_b ? most : 1;
    ot_tile t = ot_tile_choose(&j, p);
    ot_text text = { 0 };
    if (fused) print_after(ot_fused_behind(fused), &text);
    ot_tile_text(&text, &t, type, wide(n));
    ot_tile_define(&text, "AFTER", fused != NULL);
    ot_tile_define(&text, "A_ALONG_K", !d->ta);
    ot_tile_define(&text, "B_ALONG_K", d->tb);
    ot_tile_define(&text, "A_VEC", vector_of(d, d->a_step, d->lda, t.bm, !d->ta, &t, most));
    ot_tile_define(&text, "B_VEC", vector_of(d, d->b_step, d->ldb, t.bn, d->tb, &t, most));
    ot_tile_define(&text, "Y_QUADS", d->N % 4 == 0);
    ot_status e = ot_gpu_compile(p->device, "dot.cu", text.text, "dot", &s->f, p->err);
    if (e == OT_OK && t.splits > 1) e = ot_gpu_compile(p->device, "dot.cu", text.text, "dot_parts", &s->parts, p->err);
    ot_text_free(&text);
    s->threads = ot_tile_threads(&t);
    s->elements = j.batch * d->M * d->N;
    s->blocks = (d->M + t.bm - 1) / t.bm * ((d->N + t.bn - 1) / t.bn) * j.batch * t.splits;
    s->a.dot = (ot_dot_args){ .M = d->M,
                              .N = d->N,
                              .K = d->K,
                              .lda = d->lda,
                              .ldb = d->ldb,
                              .batch = j.batch,
                              .axes = d->axes,
                              .splits = t.splits,
                              .share = ot_tile_share(&t, (d->K + t.bk - 1) / t.bk) };
    for (int i = 0; i < d->axes; i++) {
        s->a.dot.dim[i] = d->dim[i];
        s->a.dot.a_step[i] = d->a_step[i];
        s->a.dot.b_step[i] = d->b_step[i];
    }
    if (t.splits > 1) p->work = (size_t)(s->elements * t.splits) * (size_t)ot_tile_sum_bytes(type);
    return e;
}

/* a: with what is behind the product. */
static ot_status tiles_run(const ot_call *c, const plan *s, ot_dot_args a)
{
    a.a = c->in[0];
    a.b = c->in[1];
    a.bias = c->node->n_in > 2 ? c->in[2] : NULL;
    a.work = s->parts ? c->work : NULL;
    OT_TRY(ot_gpu_launch(c->device, s->f, s->blocks, s->threads, 0, &a, c->err));
    if (!s->parts) return OT_OK;
    return ot_gpu_launch(c->device, s->parts, ot_gpu_blocks(c->device, s->elements, 256), 256, 0, &a, c->err);
}

/* ---- a matrix times a vector ------------------------------------------------------ */

static ot_status vector_prepare(const ot_node *n, ot_prep *p, const product *d, plan *s)
{
    bool rows = d->N == 1; /* the matrix is a, its rows are the lines */
    ot_dtype type = n->out[0]->dtype;
    ot_text text = { 0 };
    bool dense = rows ? !d->ta : d->tb;
    int64_t ld = rows ? d->lda : d->ldb;
    ot_dotvector_args *a = &s->a.line;
    *a = (ot_dotvector_args){ .lines = rows ? d->M : d->N,
                              .K = d->K,
                              .line = dense ? ld : 1,
                              .k = dense ? 1 : ld,
                              .batch = products(d),
                              .axes = d->axes,
                              .one_bias = rows };
    for (int i = 0; i < d->axes; i++) {
        a->dim[i] = d->dim[i];
        a->matrix_step[i] = rows ? d->a_step[i] : d->b_step[i];
        a->vector_step[i] = rows ? d->b_step[i] : d->a_step[i];
    }
    /* A warp per line; a block where the lines are too few to fill the device with warps. */
    int64_t lines = a->lines * a->batch;
    int lanes = !dense ? 8 : lines < ot_gpu_units(p->device) * 8 && d->K > 256 ? 256 : 32;
    ot_text_add(&text, "#define T %s\n#define CLS %s\n#define ACC %s\n", ot_cuda_type(type), ot_cuda_class(type),
                ot_tile_sum_type(type));
    ot_tile_define(&text, "ALONG_K", dense);
    ot_tile_define(&text, "LANES", lanes);
    ot_status e = ot_gpu_compile(p->device, "dotvector.cu", text.text, "dotvector", &s->f, p->err);
    ot_text_free(&text);
    int64_t blocks = (a->lines + 256 / lanes - 1) / (256 / lanes) * a->batch;
    s->blocks = ot_gpu_blocks(p->device, blocks, 1);
    s->vector = true;
    return e;
}

static ot_status vector_run(const ot_call *c, const plan *s)
{
    ot_dotvector_args a = s->a.line;
    a.matrix = a.one_bias ? c->in[0] : c->in[1];
    a.vector = a.one_bias ? c->in[1] : c->in[0];
    a.bias = c->node->n_in > 2 ? c->in[2] : NULL;
    a.y = c->out[0];
    return ot_gpu_launch(c->device, s->f, s->blocks, 256, 0, &a, c->err);
}

/* ---- the kernel ------------------------------------------------------------------- */

static ot_status prepare(const ot_node *n, const ot_node *fused, ot_prep *p)
{
    if (ot_numel(&n->out[0]->shape) == 0) return OT_OK;
    plan *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory for a plan of Dot", n->name);
    p->state = s;
    product d = product_of(n);
    bool vector = d.M == 1 || d.N == 1;
    ot_status e = vector ? vector_prepare(n, p, &d, s) : tiles_prepare(n, fused, p, &d, s);
    if (e == OT_OK) return OT_OK;
    free(s);
    p->state = NULL;
    return e;
}

static ot_status dot_prepare(const ot_node *n, ot_prep *p) { return prepare(n, NULL, p); }

static ot_status dot_run(const ot_call *c)
{
    const plan *s = c->state;
    if (!s) return OT_OK; /* y is empty */
    if (s->vector) return vector_run(c, s);
    ot_dot_args a = s->a.dot;
    a.y = c->out[0];
    return tiles_run(c, s, a);
}

const ot_kernel ot_cuda_Dot = {
    .name = "cuda", .can = dot_can, .prepare = dot_prepare, .run = dot_run, .release = free
};

/* ---- with a Map behind the product ------------------------------------------------- */

/* Functions of one element of each operand, which lie as y does. */
static bool map_can(const ot_node *map, const ot_value *y)
{
    const ot_program *p = map->attrs;
    if (map->n_out != 1 || map->n_in > 1 + OT_DOT_OPERANDS || !ot_fused_like(map, y, true)) return false;
    for (int i = 0; i < p->n_inst; i++)
        if (p->inst[i].row == OT_FN_Random || p->inst[i].row == OT_FN_Index || p->inst[i].cls > OT_CLASS_F64)
            return false;
    return true;
}

static bool is_small(const product *d, ot_dtype t)
{
    return (double)d->M * (double)d->N * (double)d->K * (double)products(d) <
           (ot_dtype_bits(t) < 32 ? SMALL_16 : SMALL);
}

static bool fused_can(const ot_node *n, const char **why)
{
    const ot_fused *f = n->attrs;
    const ot_fused_part *dot = ot_fused_op(n), *map = ot_fused_behind(n);
    *why = "not a small matrix product with functions of its result after it";
    if (strcmp(dot->node->op->name, "Dot") != 0 || !map || f->mask_out >= 0 || f->masked) return false;
    const ot_value *y = dot->node->out[0];
    if (!ot_is_float(y->dtype) || !ot_numel(&y->shape) || !map_can(map->node, y)) return false;
    product d = product_of(dot->node);
    return d.M > 1 && d.N > 1 && is_small(&d, y->dtype) && dot_can(dot->node, why);
}

static ot_status fused_prepare(const ot_node *n, ot_prep *p) { return prepare(ot_fused_op(n)->node, n, p); }

static ot_status fused_run(const ot_call *c)
{
    const ot_fused_part *dot = ot_fused_op(c->node), *map = ot_fused_behind(c->node);
    const plan *s = c->state;
    ot_dot_args a = s->a.dot;
    ot_fused_call call;
    ot_fused_call_of(c, &call);
    a.y = dot->out[0] < 0 ? NULL : c->out[dot->out[0]];
    a.mapped = c->out[map->out[0]];
    for (int i = 0, k = 0; i < map->node->n_in; i++)
        if (map->in[i] >= 0) a.other[k++] = c->in[map->in[i]];
    return tiles_run(&call.call, s, a);
}

const ot_kernel ot_dot_Fused = {
    .name = "cuda", .can = fused_can, .prepare = fused_prepare, .run = fused_run, .release = free
};
