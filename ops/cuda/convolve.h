/* convolve.h - what the kernels of convolutions share: steps of their tensors, widths of indices, tables. */
#ifndef OT_CUDA_CONVOLVE_H
#define OT_CUDA_CONVOLVE_H

#include "ops/kernel.h"
#include "ops/kernels/convolve.h"

/* Steps in elements from sample to sample (of w: from filter to filter), from channel to channel, and from position to position:
 * spatial axes are one. */
typedef struct ot_conv_steps {
    int64_t n, c, s;
} ot_conv_steps;

static inline ot_conv_steps ot_conv_steps_of(const ot_value *v)
{
    int64_t stride[OT_MAX_RANK];
    ot_value_strides(v, stride);
    return (ot_conv_steps){ stride[0], stride[1], stride[v->shape.rank - 1] };
}

enum { OT_CONV_NARROW = 1 << 28 }; /* limit for 32-bit indices, including those beyond the edge */

static inline bool ot_conv_large(int64_t v) { return v >= OT_CONV_NARROW || v <= -OT_CONV_NARROW; }

/* Do indices of the window's positions need 64 bits? */
static inline bool ot_conv_window_large(const ot_conv_sizes *s)
{
    bool large = false;
    for (int j = 0; j < OT_WINDOW_AXES; j++)
        large |= ot_conv_large(s->w.kernel[j] * s->w.dilation[j]) || ot_conv_large(s->w.pad_lo[j]) ||
                 ot_conv_large(s->out[j] * s->w.stride[j]);
    return large;
}

/* Number i of a table becomes v. */
static inline void ot_conv_put(void *table, int64_t i, int64_t v, bool wide)
{
    if (wide) ((int64_t *)table)[i] = v;
    else ((int32_t *)table)[i] = (int32_t)v;
}

#endif
