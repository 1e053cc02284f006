/* batchnorm.h - attributes of BatchNormalization and of the kernels BatchNorm and BatchNormDx.
 *
 * BatchNorm   (x, scale, bias) -> y, mean, var, invstd     statistics of the batch, per channel: (C)
 *             var: population variance; invstd = 1/sqrt(var + epsilon)
 * BatchNormDx (dy, x, scale, mean, invstd) -> dx, dscale, dbias
 * Statistics have scale's type. */
#ifndef OT_BATCHNORM_H
#define OT_BATCHNORM_H

#include "ops/op.h"

typedef struct ot_batch_normalization {
    double epsilon, momentum;
    int64_t training_mode; /* set by pass train_mode */
    int64_t unbiased;      /* running variance from the unbiased one, as in PyTorch; set by pass train_mode */
} ot_batch_normalization;

typedef struct ot_batch_norm {
    double epsilon;
} ot_batch_norm;

#endif
