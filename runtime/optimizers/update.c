/* update.c - terms that several formulas share. */
#include "runtime/optimizers/update.h"

ot_value *ot_update_average(ot_update *x, ot_state_kind kind, ot_value *beta, ot_value *v)
{
    ot_value *s = moment(x, kind, 0), *b = narrow(x, beta), *c = narrow(x, sub(x, wide(x, 1), beta));
    return keep(x, s, add(x, mul(x, b, s), mul(x, c, v)));
}

ot_value *ot_update_decayed(ot_update *x)
{
    if (x->decay == 0) return x->w;
    return mul(x, x->w, narrow(x, sub(x, wide(x, 1), mul(x, x->lr, wide(x, x->decay)))));
}

ot_value *ot_update_norm(ot_update *x, ot_value *v)
{
    int64_t axes[OT_MAX_RANK];
    if (!v) return NULL;
    for (int d = 0; d < v->shape.rank; d++) axes[d] = d;
    return root(x, ot_sum(&x->b, square(x, v), axes, v->shape.rank, false));
}

ot_value *ot_update_trust(ot_update *x, ot_value *a, ot_value *b, ot_value *whole)
{
    ot_value *zero = num(x, 0);
    ot_value *both = ot_map2(&x->b, OT_FN_And, 0, 0, ot_map2(&x->b, OT_FN_Greater, 0, 0, a, zero),
                             ot_map2(&x->b, OT_FN_Greater, 0, 0, b, zero));
    return ot_map3(&x->b, OT_FN_Where, 0, 0, both, whole, num(x, 1));
}
