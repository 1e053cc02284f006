/* topkindex.c - TopKIndex: one pass if k is 1; else sorted chunks, merged.
 *
 * Memory  lines longer than a chunk keep the k best of every run, twice, in the workspace. */
#include <stdlib.h>

#include "ops/cuda/topkindex.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/topkindex.h"

enum { BLOCK = 256 };

typedef struct plan {
    ot_gpu_fn *best, *chunks, *merge;
    ot_along x;
    int64_t runs; /* of each line */
    int tx, threads;
    size_t keys, places; /* bytes of all runs */
} plan;

static bool arg_can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->in[0]->dtype, why); }

static int power_from(int64_t n, int most)
{
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

static void type_text(ot_text *t, const ot_node *n, bool wide)
{
    const ot_topk_index *a = n->attrs;
    ot_dtype x = n->in[0]->dtype;
    ot_text_add(t,
                "#define T %s\n#define CLS %s\n#define KEY %s\n#define REAL %d\n#define BITS %s\n#define SIGNED %d\n",
                ot_cuda_type(x), ot_cuda_class(x), ot_dtype_bits(x) == 64 ? "ot_u64" : "ot_u32", ot_is_float(x),
                x == OT_F64 ? "ot_f64_bits" : "ot_f32_bits", ot_is_signed(x));
    ot_text_add(t, "#define PLACE %s\n#define SMALLEST %d\n#define LAST %d\n", wide ? "ot_i64" : "int",
                a->smallest != 0, a->last != 0);
}

static ot_status prepare_best(plan *p, const ot_text *types, ot_prep *prep)
{
    /* Adjacent threads read adjacent elements: along the line, or, if it has a stride, across lines. */
    int ty = power_from(p->x.n, p->x.inner == 1 ? BLOCK : BLOCK / 32);
    ot_text prefix = { 0 };
    p->tx = BLOCK / ty;
    ot_text_add(&prefix, "%s#define TX %d\n#define TY %d\n#define ALONG %d\n", types->text ? types->text : "", p->tx,
                ty, p->x.inner == 1);
    ot_status s = ot_gpu_compile(prep->device, "topkindex.cu", prefix.text, "best", &p->best, prep->err);
    ot_text_free(&prefix);
    return s;
}

static ot_status prepare_runs(plan *p, const ot_text *types, int64_t k, bool wide, bool long_key, ot_prep *prep)
{
    int chunk = power_from(p->x.n, OT_ARG_CHUNK);
    int64_t lines = p->x.outer * p->x.inner, most = 0; /* elements that the runs of a line take */
    ot_text prefix = { 0 };
    p->runs = (p->x.n + OT_ARG_CHUNK - 1) / OT_ARG_CHUNK;
    for (int64_t r = p->runs, span = OT_ARG_CHUNK; r > 1; r = (r + 1) / 2, span *= 2) {
        int64_t here = r * (k < span ? k : span);
        most = here > most ? here : most;
    }
    p->threads = chunk / 2 < 32 ? 32 : chunk / 2 > 512 ? 512 : chunk / 2;
    if (chunk < 2) chunk = 2;
    ot_text_add(&prefix, "%s#define CHUNK %d\n#define THREADS %d\n", types->text ? types->text : "", chunk, p->threads);
    ot_status s = ot_gpu_compile(prep->device, "topkindex.cu", prefix.text, "chunks", &p->chunks, prep->err);
    if (s == OT_OK && p->runs > 1) {
        p->keys = (size_t)(lines * most) * (long_key ? 8 : 4);
        p->places = (size_t)(lines * most) * (wide ? 8 : 4);
        p->keys = (p->keys + 63) / 64 * 64;
        p->places = (p->places + 63) / 64 * 64;
        prep->work = 2 * (p->keys + p->places);
        s = ot_gpu_compile(prep->device, "topkindex.cu", prefix.text, "merge", &p->merge, prep->err);
    }
    ot_text_free(&prefix);
    return s;
}

static ot_status arg_prepare(const ot_node *n, ot_prep *prep)
{
    const ot_topk_index *a = n->attrs;
    ot_text types = { 0 };
    plan *p = calloc(1, sizeof *p);
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: TopKIndex: no memory", n->name);
    p->x = ot_along_axis(&n->in[0]->shape, a->axis);
    bool wide = p->x.n >= INT32_MAX;
    type_text(&types, n, wide);
    ot_status s = a->k == 1 ? prepare_best(p, &types, prep)
                            : prepare_runs(p, &types, a->k, wide, ot_dtype_bits(n->in[0]->dtype) == 64, prep);
    ot_text_free(&types);
    if (s != OT_OK) {
        free(p);
        return s;
    }
    prep->state = p;
    return OT_OK;
}

static ot_status arg_run(const ot_call *c)
{
    const plan *p = c->state;
    char *work = c->work;
    ot_topk_index_args a = { .x = c->in[0],
                             .y = c->out[0],
                             .lines = p->x.outer * p->x.inner,
                             .n = p->x.n,
                             .inner = p->x.inner,
                             .k = ((const ot_topk_index *)c->node->attrs)->k,
                             .runs = p->runs,
                             .span = OT_ARG_CHUNK };
    if (!a.k || !a.lines) return OT_OK;
    if (p->best)
        return ot_gpu_launch(c->device, p->best, ot_gpu_blocks(c->device, a.lines, p->tx), BLOCK, 0, &a, c->err);
    if (p->runs > 1) {
        a.to_key = work;
        a.to_place = work + p->keys;
    }
    OT_TRY(
        ot_gpu_launch(c->device, p->chunks, ot_gpu_blocks(c->device, a.lines * a.runs, 1), p->threads, 0, &a, c->err));
    for (int side = 1; a.runs > 1; side = !side, a.runs = (a.runs + 1) / 2, a.span *= 2) {
        char *to = work + (side ? p->keys + p->places : 0);
        a.key = a.to_key;
        a.place = a.to_place;
        a.to_key = a.runs > 2 ? to : NULL;
        a.to_place = a.runs > 2 ? to + p->keys : NULL;
        int64_t elements = a.lines * a.runs * (a.k < a.span ? a.k : a.span);
        OT_TRY(ot_gpu_launch(c->device, p->merge, ot_gpu_blocks(c->device, elements, p->threads), p->threads, 0, &a,
                             c->err));
    }
    return OT_OK;
}

const ot_kernel ot_cuda_TopKIndex = {
    .name = "cuda", .can = arg_can, .prepare = arg_prepare, .run = arg_run, .release = free
};
