/* map_print.h - a Map as text for the GPU. */
#ifndef OT_CUDA_MAP_PRINT_H
#define OT_CUDA_MAP_PRINT_H

#include "ops/cuda/map_plan.h"

/* What stands before map.cu, with map_vector(); where it is reduced before reduce.cu, with map_values(). */
void gpu_map_text(const gpu_map *m, ot_text *t);

#endif
