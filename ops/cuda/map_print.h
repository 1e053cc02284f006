/* map_print.h - a Map as text for the GPU. */
#ifndef OT_CUDA_MAP_PRINT_H
#define OT_CUDA_MAP_PRINT_H

#include "ops/cuda/map_plan.h"

/* What stands before map.cu, with map_vector(); where it is reduced before reduce.cu, with map_values(). */
void gpu_map_text(const gpu_map *m, ot_text *t);

/* A Map behind another kernel, whose result is its operand i where bit i of `between` is set; all operands and the only result are
 * alike in type and position, and no instruction needs the position:
 *     OT_DEVICE CLASS map_after(const void *const *x, ot_i64 i, CLASS v)
 * element i of the result, from v and the other operands x, in order. */
void gpu_map_after_text(const gpu_map *m, uint32_t between, ot_text *t);

#endif
