/* map.c - Map: one kernel per program, generated from the formulas of ops/kernels/functions.h.
 *
 * Memory    an output may have the memory of an input of its shape, type and layout: a thread reads its elements of all
 *           inputs before it writes them.
 * Numerics  as in ops/kernels/map.h; each register in its class. */
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/kernels.h"
#include "ops/cuda/map_print.h"

typedef struct map_state {
    gpu_map m;
    ot_gpu_fn *f;
} map_state;

static ot_status map_prepare(const ot_node *n, ot_prep *p)
{
    map_state *s = calloc(1, sizeof *s);
    ot_text text = { 0 };
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory to plan a Map", n->name);
    gpu_map_plan(n, NULL, &s->m);
    gpu_map_text(&s->m, &text);
    ot_status status = text.failed ? ot_fail(p->err, OT_E_NOMEM, "%s: no memory for the text of a Map", n->name)
                                   : ot_gpu_compile(p->device, "map.cu", text.text, "map", &s->f, p->err);
    ot_text_free(&text);
    if (status == OT_OK) p->state = s;
    else free(s);
    return status;
}

/* ot_map_args of map.cuh. */
typedef struct map_args {
    const void *calls, *chunks;
    int64_t n_chunks, vectors;
    uint64_t one[GPU_MAP_WORDS];
} map_args;

static ot_status map_run(const ot_call *c)
{
    const map_state *s = c->state;
    const gpu_map *m = &s->m;
    if (m->n == 0) return OT_OK;
    map_args a = { .n_chunks = (m->n + m->vector * GPU_MAP_THREADS - 1) / (m->vector * GPU_MAP_THREADS),
                   .vectors = GPU_MAP_THREADS };
    gpu_map_words(m, c, a.one);
    return ot_gpu_launch(c->device, s->f, ot_gpu_blocks(c->device, a.n_chunks, 1), GPU_MAP_THREADS, 0, &a, c->err);
}

/* ---- several calls of one text -------------------------------------------------- */

enum { CHUNK = 4 * GPU_MAP_THREADS }; /* vectors per block of one call */

static bool map_joins(const ot_node *a, const ot_node *b)
{
    gpu_map x, y;
    size_t bytes = ot_program_bytes(a->attrs);
    if (bytes != ot_program_bytes(b->attrs) || memcmp(a->attrs, b->attrs, bytes)) return false;
    gpu_map_plan(a, NULL, &x);
    gpu_map_plan(b, NULL, &y);
    return gpu_map_alike(&x, &y);
}

static int64_t chunks_of(const gpu_map *m) { return (m->n + (int64_t)m->vector * CHUNK - 1) / (m->vector * CHUNK); }

static size_t call_words(const gpu_map *m) { return (size_t)(m->n_in + m->n_out + 1); }

/* The calls, then the chunks: pairs of a call and the number of a chunk in it. */
static size_t map_bytes(const ot_node *const *n, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        gpu_map m;
        gpu_map_plan(n[i], NULL, &m);
        bytes += call_words(&m) * 8 + (size_t)chunks_of(&m) * 8;
    }
    return bytes;
}

static void map_fill(const ot_call *const *c, int count, void *table)
{
    uint64_t *w = table;
    for (int i = 0; i < count; i++) w += gpu_map_words(&((const map_state *)c[i]->state)->m, c[i], w);
    uint32_t *pair = (uint32_t *)w;
    for (uint32_t i = 0; i < (uint32_t)count; i++)
        for (uint32_t k = 0, n = (uint32_t)chunks_of(&((const map_state *)c[i]->state)->m); k < n; k++)
            *pair++ = i, *pair++ = k;
}

static ot_status map_run_many(const ot_call *const *c, int count, const void *table)
{
    const map_state *s = c[0]->state;
    map_args a = { .calls = table,
                   .chunks = (const uint64_t *)table + (size_t)count * call_words(&s->m),
                   .vectors = CHUNK };
    for (int i = 0; i < count; i++) a.n_chunks += chunks_of(&((const map_state *)c[i]->state)->m);
    return ot_gpu_launch(c[0]->device, s->f, ot_gpu_blocks(c[0]->device, a.n_chunks, 1), GPU_MAP_THREADS, 0, &a,
                         c[0]->err);
}

static const ot_grouped many = { .joins = map_joins, .bytes = map_bytes, .fill = map_fill, .run = map_run_many };

const ot_kernel ot_cuda_Map = {
    .name = "cuda",
    .prepare = map_prepare,
    .run = map_run,
    .release = free,
    .inplace = (1u << OT_MAP_IN) - 1,
    .many = &many,
    .any_layout = true,
};
