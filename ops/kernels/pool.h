/* pool.h - attributes of the pooling kernels.
 *
 * PoolMax   (x) -> y, where[, indices]   where: the row-major index of y within its window, the first one on ties;
 *                                        OT_POOL_NONE(dtype) if the window is only padding.  uint8 for windows of up to
 *                                        255 elements, else int32. indices: int64, ONNX's: flat position in x.
 * PoolMaxDx (dy, where) -> dx            shape `like`
 * PoolAvg   (x) -> y
 * PoolAvgDx (dy) -> dx                   shape `like` */
#ifndef OT_POOL_H
#define OT_POOL_H

#include "ops/kernels/window.h"

typedef struct ot_pool {
    ot_window window;
    int64_t out[OT_WINDOW_AXES]; /* spatial sizes of y, with ceil_mode applied */
    int64_t include_pad;         /* averages count padding as zeros (never elements beyond the padding) */
    int64_t column_major;        /* order of the spatial axes in PoolMax's indices */
    ot_shape like;
} ot_pool;

/* Elements of a window. */
int64_t ot_pool_window(const ot_window *w);

#endif
