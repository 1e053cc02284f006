/* order.h - indices sorted by the place that they name, equal ones in order: so that those of one place can be
 * worked off side by side, always in the same way. */
#ifndef OT_CUDA_ORDER_H
#define OT_CUDA_ORDER_H

#include "ops/kernel.h"
#include "runtime/backends/cuda/gpu.h"

typedef struct ot_order {
    ot_gpu_fn *rank, *count, *spread; /* rank for few indices, the others for many */
    const char *key;                  /* type of sorted places and of positions: "ot_u32" or "ot_u64" */
    int64_t m, n, size;               /* indices, places; bytes of a key */
    int64_t tile, blocks;
    int passes;
    size_t work; /* bytes of workspace, a multiple of 64 */
} ot_order;

/* m indices of type t that name n places; negative: -n to -1 are places too. */
ot_status ot_order_prepare(ot_order *o, ot_device *d, ot_dtype t, int64_t n, int64_t m, bool negative, ot_error *err);

/* Gives the work.  *key: the places in order, n for an index out of range, which is reported; *position: which
 * index each is.  Both lie in the workspace. */
ot_status ot_order_run(const ot_order *o, const ot_call *c, const void *index, void *work, const void **key,
                       const void **position);

#endif
