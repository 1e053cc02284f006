/* map.c - Map: one kernel per program, made from the formulas of ops/rows.h.
 *
 * Memory    an output may lie where an input of its shape, type and layout lies: a thread has read its elements of
 *           all inputs before it writes them.
 * Numerics  as ops/map.h says; each register in its class. */
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/divide.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/map.h"

typedef struct map_state { gpu_map m; ot_gpu_fn *f; } map_state;

static ot_status map_prepare(const ot_node *n, ot_prep *p)
{
    map_state *s = calloc(1, sizeof *s);
    ot_text    text = { 0 };
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

int gpu_map_divider(int64_t n, uint64_t *w)
{
    ot_divider d = ot_divider_of(n);
    w[0] = (uint64_t)d.n;
    w[1] = d.mul | (uint64_t)d.shift << 32;
    return 2;
}

int gpu_map_words(const gpu_map *m, const ot_call *c, uint64_t *w)
{
    int     k = 0;
    int64_t logical[OT_MAX_RANK];
    for (int i = 0; i < m->n_in; i++) w[k++] = (uintptr_t)c->in[i];
    for (int i = 0; i < m->n_out; i++) w[k++] = m->reduced ? 0 : (uintptr_t)c->out[i];
    w[k++] = (uint64_t)m->n;
    for (int d = 0; d < m->rank && m->n_strided; d++) k += gpu_map_divider(m->dim[d], w + k);
    for (int i = 0; i <= gpu_map_position(m); i++)
        for (int d = 0; d < m->rank && m->strided[i] >= 0; d++) w[k++] = (uint64_t)m->stride[i][d];
    ot_strides(&m->shape, logical);
    for (int d = 0; d < m->shape.rank && m->indexed; d++) {
        w[k++] = (uint64_t)logical[d];
        w[k++] = (uint64_t)m->shape.dim[d];
    }
    return k;
}

/* ot_map_args of map.cuh. */
typedef struct map_args {
    const void *calls, *chunks;
    int64_t     n_chunks, vectors;
    uint64_t    one[GPU_MAP_WORDS];
} map_args;

static ot_status map_run(const ot_call *c)
{
    const map_state *s = c->state;
    const gpu_map   *m = &s->m;
    if (m->n == 0) return OT_OK;
    map_args a = { .n_chunks = (m->n + m->vector * GPU_MAP_THREADS - 1) / (m->vector * GPU_MAP_THREADS), .vectors = GPU_MAP_THREADS };
    gpu_map_words(m, c, a.one);
    return ot_gpu_launch(c->device, s->f, ot_gpu_blocks(c->device, a.n_chunks, 1), GPU_MAP_THREADS, 0, &a, c->err);
}

const ot_kernel ot_cuda_Map = {
    .name = "cuda",
    .prepare = map_prepare,
    .run = map_run,
    .release = free,
    .inplace = (1u << OT_MAP_IN) - 1,
    .any_layout = true,
};
