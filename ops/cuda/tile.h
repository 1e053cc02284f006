/* tile.h - chooses the tiles of a matrix product, for Dot and the convolutions. */
#ifndef OT_CUDA_TILE_H
#define OT_CUDA_TILE_H

#include "ops/kernel.h"
#include "runtime/backends/cuda/gpu.h"

/* rows x columns += terms; tile.cuh computes it. */
typedef struct ot_tile {
    int bm, bn, bk; /* of a block: rows, columns, terms per step */
    int tm, tn;     /* of a thread */
    int groups;     /* groups of threads that share the terms of a step */
    int splits;     /* blocks that share the terms of a tile; their sums are added in a second pass */
} ot_tile;

/* A product to be tiled. */
typedef struct ot_tile_job {
    int64_t rows, cols, terms; /* of one product */
    int64_t batch;             /* their number */
    ot_dtype type;
    int align; /* bk is a multiple of this */
} ot_tile_job;

/* The variant that p requests; sets p->variants.  0 is the best one by a model of the device's time. */
ot_tile ot_tile_choose(const ot_tile_job *j, ot_prep *p);

int ot_tile_threads(const ot_tile *t);

/* The number of steps of one of the blocks that share a tile, of `steps` in all. */
int64_t ot_tile_share(const ot_tile *t, int64_t steps);

/* Type of sums, by its name in tile.cuh, and its bytes. */
const char *ot_tile_sum_type(ot_dtype t);
int ot_tile_sum_bytes(ot_dtype t);

/* The #defines that tile.cuh needs.  wide: an index needs 64 bits. */
void ot_tile_text(ot_text *text, const ot_tile *t, ot_dtype type, bool wide);

/* Appends "#define <name> <value>". */
void ot_tile_define(ot_text *text, const char *name, int64_t value);

#endif
