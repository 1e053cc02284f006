/* batchnorm.h - BatchNorm and BatchNormDx of the CPU with element-wise functions beside them, for Fused. */
#ifndef OT_CPU_BATCHNORM_H
#define OT_CPU_BATCHNORM_H

#include "ops/kernel.h"

/* Behind the norm: y + z (NULL: y), then ReLU, or ReLU6 with top 6.  z has the layout of y. */
typedef struct ot_norm_behind {
    const float *z;
    bool relu;
    float top; /* NaN: none */
} ot_norm_behind;

/* Before the gradient: dy + dz (NULL: dy) where 0 < y < top, else 0; written to `to`, which may be dx.  All have the layout
 * of dx. */
typedef struct ot_norm_before {
    const float *dz, *y;
    float *to;
    float top; /* NaN: none */
} ot_norm_before;

/* call: as of a BatchNorm, whose y is the result of the functions; as of a BatchNormDx; before NULL: dy as it is. */
ot_status ot_cpu_norm(const ot_call *call, const ot_norm_behind *behind);
ot_status ot_cpu_norm_dx(const ot_call *call, const ot_norm_before *before);

#endif
