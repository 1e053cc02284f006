/* order.h - sorts indices by the row that they address, equal ones in order: updates of one row are then adjacent,
 * always in the same order. */
#ifndef OT_CUDA_ORDER_H
#define OT_CUDA_ORDER_H

#include "ops/kernel.h"
#include "runtime/backends/cuda/gpu.h"

typedef struct ot_order {
    ot_gpu_fn *rank, *count, *spread; /* rank for few indices, the others for many */
    const char *key;                  /* type of sorted rows and of positions: "ot_u32" or "ot_u64" */
    int64_t m, n, size;               /* indices, rows; bytes of a key */
    int64_t tile, blocks;
    int passes;
    size_t work; /* bytes of workspace, a multiple of 64 */
} ot_order;

/* m indices of type t into n rows; negative: -n to -1 are valid too. */
ot_status ot_order_prepare(ot_order *o, ot_device *d, ot_dtype t, int64_t n, int64_t m, bool negative, ot_error *err);

/* Submits the sort.  *key: the rows in order, n for an index out of range, which is reported; *position: the index
 * that each belongs to.  Both are in the workspace. */
ot_status ot_order_run(const ot_order *o, const ot_call *c, const void *index, void *work, const void **key,
                       const void **position);

#endif
