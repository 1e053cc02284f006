/* channelsum.h - sums of (N, C, ...) over all but C, for kernels that use a library for the rest. */
#ifndef OT_CUDA_CHANNELSUM_H
#define OT_CUDA_CHANNELSUM_H

#include "ops/kernel.h"
#include "runtime/backends/cuda/gpu.h"

typedef struct ot_channel_sum {
    const ot_value *x;
    ot_gpu_fn *parts, *total;
    int64_t S;   /* number of parts summed in parallel */
    size_t work; /* bytes of workspace */
} ot_channel_sum;

/* For x of floats in any layout; the sums have x's type. */
ot_status ot_channel_sum_prepare(const ot_value *x, ot_channel_sum *out, ot_prep *p);
ot_status ot_channel_sum_run(const ot_channel_sum *s, const void *x, void *y, void *work, const ot_call *c);

#endif
