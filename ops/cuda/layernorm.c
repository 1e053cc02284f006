/* layernorm.c - LayerNorm and its gradient: a group of threads per row, column sums in two stages.
 *
 * Chunks of rows depend on the shape only.  A block of the gradient processes a chunk's rows and, if the sums fit in
 * its registers, accumulates dscale and dbias too: x and dy are read once.  For longer rows these have a launch of
 * their own.
 *
 * Memory    workspace of the gradient: two sums per chunk and column
 * Numerics  f32 (f64 for f64); deviations are squared after the mean is known; the chunks' sums are added in f64 */
#include "ops/kernels/layernorm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/group.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layernorm.cuh"
#include "ops/cuda/types.h"
#include "ops/kernels/fused.h"

enum { COLUMN_THREADS = 256, FOLD_THREADS = 1024, ACROSS = 32 };

typedef struct norm_state {
    ot_gpu_fn *rows, *columns, *fold;
    ot_group g;
    int64_t chunk; /* rows */
} norm_state;

/* The node's values by name. */
typedef struct norm_node {
    const ot_layer_norm *a;
    const ot_value *x, *scale, *bias;
    ot_dtype ts; /* of scale, bias and their gradients */
    int64_t rows, D;
} norm_node;

static norm_node node_of(const ot_node *n, bool gradient)
{
    norm_node r = { .a = n->attrs, .x = n->in[gradient], .rows = 1, .D = 1 };
    int s = gradient ? 4 : 1;
    r.scale = ot_node_in(n, s);
    r.bias = gradient ? NULL : ot_node_in(n, 2);
    r.ts = r.scale ? r.scale->dtype : r.bias ? r.bias->dtype : r.x->dtype;
    for (int o = 1; o < n->n_out && gradient; o++)
        if (n->out[o]) r.ts = n->out[o]->dtype;
    for (int d = 0; d < r.x->shape.rank; d++) *(d < r.a->axis ? &r.rows : &r.D) *= r.x->shape.dim[d];
    return r;
}

static bool can(const ot_node *n, bool gradient, const char **why)
{
    norm_node r = node_of(n, gradient);
    if (!ot_is_float(r.x->dtype)) return ot_refuse(why, "only floats");
    if (r.scale && r.bias && r.scale->dtype != r.bias->dtype)
        return ot_refuse(why, "scale and bias have different types");
    return ot_cuda_type_can(r.x->dtype, why) && ot_cuda_type_can(r.ts, why);
}

static bool norm_can(const ot_node *n, const char **why) { return can(n, false, why); }
static bool dx_can(const ot_node *n, const char **why) { return can(n, true, why); }

/* Rows begin at multiples of 16 bytes or are loaded element by element: a thread keeps its columns. */
static ot_group unshifted(const norm_node *r, int arrays)
{
    ot_group g = ot_group_rows(r->D, r->x->dtype, arrays);
    return g.shifted ? ot_group_single(r->D, r->x->dtype, arrays) : g;
}

static ot_status compile(const norm_node *r, const norm_state *s, const char *defines, const char *entry, ot_gpu_fn **f,
                         ot_prep *p)
{
    int lanes = ot_lanes(r->ts);
    bool alike = (r->ts == OT_F64) == (r->x->dtype == OT_F64);
    ot_text text = { 0 };
    ot_group_text(&s->g, r->x->dtype, &text);
    ot_text_add(&text,
                "#define TS %s\n#define SCALE_LANES %d\n#define SCALE %d\n#define BIAS %d\n#define CENTER %d\n%s",
                ot_cuda_type(r->ts), alike && lanes <= s->g.lanes ? lanes : 1, r->scale != NULL, r->bias != NULL,
                r->a->center != 0, defines);
    ot_status st = ot_gpu_compile(p->device, "layernorm.cu", text.text, entry, f, p->err);
    ot_text_free(&text);
    return st;
}

static ot_status norm_prepare(const ot_node *n, ot_prep *p)
{
    norm_node r = node_of(n, false);
    norm_state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    s->g = unshifted(&r, 1);
    ot_status st = compile(&r, s, "#define STAGE 0\n", "layer_norm", &s->rows, p);
    if (st == OT_OK) p->state = s;
    else free(s);
    return st;
}

/* ---- gradient ------------------------------------------------------------------ */

static int64_t chunks_of(const norm_node *r, const norm_state *s) { return (r->rows + s->chunk - 1) / s->chunk; }

/* Enough chunks to fill a device of 132 multiprocessors once, with the registers that sums need.  More are slower: on an H100
 * most of the time of 8192 rows of 768 was spent on adding the sums of 1024 chunks. */
static void cut(const norm_node *r, norm_state *s)
{
    enum { SMALL_BLOCKS = 384, BLOCKS = 128, LEAST_ROWS = 8 };
    int64_t samples = ot_group_samples(&s->g), most = s->g.threads < 256 ? SMALL_BLOCKS : BLOCKS;
    s->chunk = (r->rows + most - 1) / most;
    if (s->chunk < LEAST_ROWS) s->chunk = LEAST_ROWS;
    s->chunk = (s->chunk + samples - 1) / samples * samples;
}

/* add: a tensor like dx is added to it. */
static ot_status prepare_dx(const ot_node *n, bool add, ot_prep *p)
{
    enum { REGISTERS = 96 }; /* of the 128 of a thread, for rows and sums: rows of 1024 elements of 16 bits */
    static const char *const bounds =
        "#undef BOUNDS\n#define BOUNDS THREADS, (THREADS < 384 ? 384 / THREADS : 1)\n"; /* at most 168 of 228: none spilled */
    norm_node r = node_of(n, true);
    norm_state *s = calloc(1, sizeof *s);
    char defines[192];
    ot_status st = OT_OK;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    bool dx = n->out[0] != NULL, columns = (n->n_out > 1 && n->out[1]) || (n->n_out > 2 && n->out[2]);
    s->g = unshifted(&r, 2);
    cut(&r, s);
    int word = r.x->dtype == OT_F64 ? 2 : 1;
    bool fits = s->g.packs && s->g.packs * (2 * s->g.lanes * word + (s->g.lanes > 1 ? 8 : 2 * word)) <= REGISTERS;
    snprintf(defines, sizeof defines, "#define STAGE 1\n#define DX %d\n#define ADD %d\n#define COLUMN_SUMS %d\n%s", dx,
             add, columns && fits, word == 1 ? bounds : "");
    if (dx || (columns && fits)) st = compile(&r, s, defines, "row_norm_dx", &s->rows, p);
    const char *stage = "#define STAGE %d\n#undef THREADS\n#define THREADS %d\n";
    snprintf(defines, sizeof defines, stage, 2, COLUMN_THREADS);
    if (st == OT_OK && columns && !fits) st = compile(&r, s, defines, "row_norm_columns", &s->columns, p);
    snprintf(defines, sizeof defines, stage, 3, FOLD_THREADS);
    if (st == OT_OK && columns) st = compile(&r, s, defines, "row_norm_fold", &s->fold, p);
    if (st != OT_OK) {
        free(s);
        return st;
    }
    p->state = s;
    if (columns)
        p->work = (size_t)(chunks_of(&r, s) * 2 * r.D) * (r.x->dtype == OT_F64 ? sizeof(double) : sizeof(float));
    return OT_OK;
}

static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare_dx(n, false, p); }

static ot_status norm_run(const ot_call *c)
{
    const norm_state *s = c->state;
    const ot_node *n = c->node;
    norm_node r = node_of(n, false);
    ot_layer_norm_args a = { .x = c->in[0],
                             .scale = r.scale ? c->in[1] : NULL,
                             .bias = r.bias ? c->in[2] : NULL,
                             .y = c->out[0],
                             .mean = c->out[1],
                             .inv = c->out[2],
                             .rows = r.rows,
                             .n = r.D,
                             .epsilon = r.a->epsilon };
    return ot_gpu_launch(c->device, s->rows, ot_gpu_blocks(c->device, r.rows, ot_group_samples(&s->g)), s->g.threads, 0,
                         &a, c->err);
}

static ot_status run_dx(const ot_call *c, const void *add)
{
    const norm_state *s = c->state;
    norm_node r = node_of(c->node, true);
    int64_t chunks = chunks_of(&r, s), tiles = (r.D + ACROSS - 1) / ACROSS;
    ot_layer_norm_args a = { .x = c->in[1],
                             .dy = c->in[0],
                             .add = add,
                             .scale = r.scale ? c->in[4] : NULL,
                             .y = c->out[0],
                             .mean = (void *)(uintptr_t)c->in[2],
                             .inv = (void *)(uintptr_t)c->in[3],
                             .sums = c->work,
                             .rows = r.rows,
                             .n = r.D,
                             .chunk = s->chunk };
    ot_layer_norm_fold_args f = {
        .sums = c->work, .dscale = c->out[1], .dbias = c->out[2], .chunks = chunks, .n = r.D
    };
    if (s->rows) OT_TRY(ot_gpu_launch(c->device, s->rows, chunks, s->g.threads, 0, &a, c->err));
    if (s->columns) OT_TRY(ot_gpu_launch(c->device, s->columns, chunks * tiles, COLUMN_THREADS, 0, &a, c->err));
    return s->fold ? ot_gpu_launch(c->device, s->fold, tiles, FOLD_THREADS, 0, &f, c->err) : OT_OK;
}

static ot_status dx_run(const ot_call *c) { return run_dx(c, NULL); }

/* ---- with a residual after the gradient ------------------------------------------------ */

/* The operand of the Map that is added. */
static bool residual_of(const ot_node *n, int *at)
{
    ot_chain c;
    if (!ot_fused_behind(n) || !ot_chain_of(ot_fused_behind(n)->node, ot_fused_between(n), &c)) return false;
    *at = c.n == 1 && c.step[0].row == OT_FN_Add ? c.step[0].other : -1;
    return *at >= 0;
}

static bool fused_can(const ot_node *n, const char **why)
{
    const ot_fused_part *op = ot_fused_op(n), *map = ot_fused_behind(n);
    int at;
    *why = "LayerNormDx adds a tensor like dx, and nothing else";
    if (strcmp(op->node->op->name, "LayerNormDx") != 0 || !residual_of(n, &at) || op->out[0] >= 0) return false;
    const ot_value *x = op->node->in[1], *add = map->node->in[at], *y = map->node->out[0];
    if (add->dtype != x->dtype || y->dtype != x->dtype || ot_numel(&add->shape) != ot_numel(&x->shape)) return false;
    return dx_can(op->node, why);
}

static ot_status fused_prepare(const ot_node *n, ot_prep *p) { return prepare_dx(ot_fused_op(n)->node, true, p); }

static ot_status fused_run(const ot_call *c)
{
    ot_fused_call call;
    int at = 0;
    ot_fused_call_of(c, &call);
    residual_of(c->node, &at);
    return run_dx(&call.call, c->in[ot_fused_behind(c->node)->in[at]]);
}

const ot_kernel ot_rows_Fused = {
    .name = "cuda", .can = fused_can, .prepare = fused_prepare, .run = fused_run, .release = free
};
const ot_kernel ot_cuda_LayerNorm = {
    .name = "cuda", .can = norm_can, .prepare = norm_prepare, .run = norm_run, .release = free
};
const ot_kernel ot_cuda_LayerNormDx = {
    .name = "cuda", .can = dx_can, .prepare = dx_prepare, .run = dx_run, .release = free
};
