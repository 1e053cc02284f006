/* map.h - a Map as the GPU runs it: joined axes, how each operand is read, the text. */
#ifndef OT_CUDA_MAP_H
#define OT_CUDA_MAP_H

#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "runtime/backends/cuda/gpu.h"

enum {
    GPU_MAP_OPERANDS = OT_MAP_IN + OT_MAP_OUT + 1, /* the last one: the logical position */
    GPU_MAP_THREADS = 256,
    GPU_MAP_WORDS = GPU_MAP_OPERANDS + 1 + 2 * OT_MAX_RANK + GPU_MAP_OPERANDS * OT_MAX_RANK + 2 * OT_MAX_RANK
};

/* How a thread reads (writes) the V neighbouring elements that it computes. */
typedef enum gpu_map_kind {
    GPU_MAP_NONE,   /* an output that nobody asked for; the position where it is not asked for */
    GPU_MAP_SCALAR, /* one element for all */
    GPU_MAP_DENSE,  /* V neighbours, at the same place as the result */
    GPU_MAP_VECTOR, /* V neighbours elsewhere; from here on by strides */
    GPU_MAP_ROW,    /* one for all V */
    GPU_MAP_STEPS,  /* V in steps of one stride */
    GPU_MAP_EACH    /* V anywhere */
} gpu_map_kind;

typedef struct gpu_map {
    const ot_program *p;
    int n_in, n_out, rank; /* rank: joined axes */
    int64_t n, dim[OT_MAX_RANK];
    bool gone[OT_MAX_RANK]; /* axes that a Reduce behind it takes together */
    bool reduced;           /* there is one: results are not stored */
    int64_t stride[GPU_MAP_OPERANDS][OT_MAX_RANK];
    ot_dtype dtype[GPU_MAP_OPERANDS];
    gpu_map_kind kind[GPU_MAP_OPERANDS];
    int strided[GPU_MAP_OPERANDS]; /* number among the strided operands */
    int n_strided;
    int vector;                            /* V */
    bool inner;                            /* V neighbours never cross an innermost joined axis */
    bool wide;                             /* positions need 64 bits */
    bool indexed;                          /* coordinates are asked for */
    bool uniform[OT_MAP_IN + OT_MAP_INST]; /* registers that hold one value for all elements */
    ot_shape shape;
} gpu_map;

/* The places of a gpu_map's operands: inputs, outputs, then the position. */
static inline int gpu_map_position(const gpu_map *m) { return m->n_in + m->n_out; }

/* What a Reduce does with the one output of a Map, a value that is nowhere: its axes that go, and the steps of the
 * result along those that stay. */
typedef struct gpu_reduced {
    int64_t gone, y[OT_MAX_RANK];
} gpu_reduced;

/* map_plan.c.  r: NULL; else the output says only how it would lie, and its steps become those of the result. */
void gpu_map_plan(const ot_node *n, const gpu_reduced *r, gpu_map *m);

/* map_print.c: what stands before map.cu, with map_vector(); where it is reduced before reduce.cu, with map_values(). */
void gpu_map_text(const gpu_map *m, ot_text *t);

/* Have both the same text, and nothing but places and a length that differs? */
bool gpu_map_alike(const gpu_map *a, const gpu_map *b);

/* The divider of an axis as map.cuh's ot_divider, and one call as its ot_map_call; return the number of words. */
int gpu_map_divider(int64_t n, uint64_t *w);
int gpu_map_words(const gpu_map *m, const ot_call *c, uint64_t *w);

#endif
