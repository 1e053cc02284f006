/* layernorm.h - attributes of LayerNorm and LayerNormDx: LayerNormalization and its relatives.
 *
 * LayerNorm   (x[, scale, bias]) -> y, mean, invstd    axes `axis` .. of x are one row of D elements
 *           y = (x - mean) invstd scale + bias; scale and bias: D elements, of one float type;
 *           mean, invstd: one per row, f32 (f64 for f64).  `center` off: mean is 0 and invstd that of the squares (RMS).
 * LayerNormDx (dy, x, mean, invstd[, scale]) -> dx, dscale, dbias
 *           dscale, dbias: (D), of scale's type (x's without one) */
#ifndef OT_LAYERNORM_H
#define OT_LAYERNORM_H

#include "ops/op.h"

typedef struct ot_layer_norm {
    int64_t axis, center;
    double epsilon;
} ot_layer_norm;

/* Has v one value per element of a row of x (x's trailing axes from `axis` on), however many leading ones of 1? */
bool ot_layer_norm_covers(const ot_value *v, const ot_shape *x, int64_t axis);

#endif
