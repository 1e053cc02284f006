/* group.h - the geometry of group.cuh: which threads compute which sample. */
#ifndef OT_CUDA_GROUP_H
#define OT_CUDA_GROUP_H

#include "ops/op.h"
#include "runtime/backends/cuda/gpu.h"

typedef struct ot_group {
    int threads, group, lanes, packs;
    bool columns, shifted;
    bool wide; /* positions need 64 bits */
} ot_group;

/* For rows of n contiguous elements, of which a kernel keeps `arrays` at a time (0: it reads a row only once).
 * Depends on these only. */
ot_group ot_group_rows(int64_t n, ot_dtype t, int arrays);

/* The same, with elements loaded one by one. */
ot_group ot_group_single(int64_t n, ot_dtype t, int arrays);

/* For samples whose n elements are not contiguous. */
ot_group ot_group_columns(int64_t samples, int64_t n, int arrays);

/* Writes the #defines that group.cuh needs; t: T. */
void ot_group_text(const ot_group *g, ot_dtype t, ot_text *text);

int64_t ot_group_samples(const ot_group *g); /* samples of a block at a time */

#endif
