/* arith.h - element-wise arithmetic in rules: short forms of ot_map1, ot_map2 and ot_map3. */
#ifndef OT_ARITH_H
#define OT_ARITH_H

#include "ops/kernels/map.h"

static inline ot_value *ot_plus(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Add, 0, 0, x, y); }
static inline ot_value *ot_minus(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Sub, 0, 0, x, y); }
static inline ot_value *ot_times(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Mul, 0, 0, x, y); }
static inline ot_value *ot_over(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Div, 0, 0, x, y); }
static inline ot_value *ot_where(ot_build *b, ot_value *c, ot_value *x, ot_value *y)
{
    return ot_map3(b, OT_FN_Where, 0, 0, c, x, y);
}

/* One operand is a number, in the type of x. */
static inline ot_value *ot_scalar_like(ot_build *b, const ot_value *x, double v)
{
    return x ? ot_scalar(b, x->dtype, v) : NULL;
}
static inline ot_value *ot_plus_by(ot_build *b, ot_value *x, double v)
{
    return v == 0 ? x : ot_plus(b, x, ot_scalar_like(b, x, v));
}
static inline ot_value *ot_times_by(ot_build *b, ot_value *x, double v)
{
    return v == 1 ? x : ot_times(b, x, ot_scalar_like(b, x, v));
}
static inline ot_value *ot_compare_by(ot_build *b, int row, ot_value *x, double v)
{
    return ot_map2(b, row, 0, 0, x, ot_scalar_like(b, x, v));
}
static inline ot_value *ot_clip_by(ot_build *b, ot_value *x, double lo, double hi)
{
    return ot_map3(b, OT_FN_Clip, 0, 0, x, ot_scalar_like(b, x, lo), ot_scalar_like(b, x, hi));
}

/* Numbers v[0 .. n-1] along axis `axis` of a constant of `rank` axes, the others 1; NULL: 0, 1, 2, ... */
ot_value *ot_line(ot_build *b, ot_dtype t, const double *v, int64_t n, int axis, int rank);

#endif
