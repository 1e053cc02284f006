/* map_plan.h - the GPU's plan of a Map: merged axes, how each operand is read, the text. */
#ifndef OT_CUDA_MAP_PLAN_H
#define OT_CUDA_MAP_PLAN_H

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
    GPU_MAP_NONE,   /* an output that is not needed; the position if it is not needed */
    GPU_MAP_SCALAR, /* one element for all */
    GPU_MAP_DENSE,  /* V neighbours, at the position of the result */
    GPU_MAP_VECTOR, /* V neighbours elsewhere; this and the following use strides */
    GPU_MAP_ROW,    /* one for all V */
    GPU_MAP_STEPS,  /* V in steps of one stride */
    GPU_MAP_EACH    /* V anywhere */
} gpu_map_kind;

typedef struct gpu_map {
    const ot_program *p;
    int n_in, n_out, rank; /* rank: merged axes */
    int64_t n, dim[OT_MAX_RANK];
    bool gone[OT_MAX_RANK]; /* axes that a following Reduce reduces together */
    bool reduced;           /* there is a Reduce: results are not stored */
    bool few; /* ... of few elements by columns: one at a time, so that the texts of all such calls are alike */
    int64_t stride[GPU_MAP_OPERANDS][OT_MAX_RANK];
    ot_dtype dtype[GPU_MAP_OPERANDS];
    gpu_map_kind kind[GPU_MAP_OPERANDS];
    int strided[GPU_MAP_OPERANDS]; /* number among the strided operands */
    int n_strided;
    int vector;                            /* V */
    bool inner;                            /* V neighbours never cross an innermost merged axis */
    bool wide;                             /* positions need 64 bits */
    bool indexed;                          /* coordinates are needed */
    bool uniform[OT_MAP_IN + OT_MAP_INST]; /* registers with one value for all elements */
    ot_shape shape;
} gpu_map;

/* The indices of a gpu_map's operands: inputs, outputs, then the position. */
static inline int gpu_map_position(const gpu_map *m) { return m->n_in + m->n_out; }

/* A Reduce of the only output of a Map, which is not stored: the reduced axes, and the steps of the result along the
 * others. */
typedef struct gpu_reduced {
    int64_t gone, y[OT_MAX_RANK];
} gpu_reduced;

/* r: NULL; else the output only determines the order of axes, and its steps become those of the result. */
void gpu_map_plan(const ot_node *n, const gpu_reduced *r, gpu_map *m);

/* Do both have the same text, and differ only in addresses and length? */
bool gpu_map_alike(const gpu_map *a, const gpu_map *b);

/* The divider of an axis as map.cuh's ot_divider, and one call as its ot_map_call; return the number of words. */
int gpu_map_divider(int64_t n, uint64_t *w);
int gpu_map_words(const gpu_map *m, const ot_call *c, uint64_t *w);

#endif
