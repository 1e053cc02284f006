/* layernorm.h - the gradient of LayerNorm on the CPU, for Fused. */
#ifndef OT_CPU_LAYERNORM_H
#define OT_CPU_LAYERNORM_H

#include "ops/kernel.h"

/* As of a LayerNormDx; `add`, like dx (NULL: none), is added to dx. */
ot_status ot_cpu_layer_norm_dx(const ot_call *c, const float *add);

#endif
