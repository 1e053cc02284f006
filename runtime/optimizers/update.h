/* update.h - the interface for formulas of optimizers over a weight, its gradient and its states.
 *
 * The formulas are written with the builder of graphs; the pass `optimizer` calls one for each weight, and the result
 * is fused into one Map.  Scalars that change with every update (bias corrections, learning rates) are computed in f64
 * from the step's scalars, once, and rounded to the weight's type. */
#ifndef OT_UPDATE_H
#define OT_UPDATE_H

#include "ops/kernels/map.h"
#include "runtime/optimizers/optimizers.h"

/* One update of one weight, while it is built. */
typedef struct ot_update {
    ot_build b;
    const ot_spec *o;
    ot_value *w, *g;    /* the weight (or its f32 master) and its gradient */
    ot_value *file_w;   /* the weight in the graph: its name, its decay */
    ot_value *lr;       /* of this weight, f64 */
    ot_value *t;        /* number of this update, from 1, f64 */
    ot_value *momentum; /* the value of the key that a schedule may change, f64 */
    ot_value *ok;       /* does this update take place?  NULL: always */
    double decay;
    bool moves_momentum; /* whether a schedule changes momentum */
    int vectors;         /* weights so far that an optimizer for matrices left to AdamW's rule */
} ot_update;

/* ---- keys that several have --------------------------------------------------------------------- */

#define OT_LR(dflt)       { "lr", dflt, NULL, "learning rate; --lr is short for it", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) }
#define OT_L2(dflt)       { "weight_decay", dflt, NULL, "L2 penalty: this times the weight is added to its gradient", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) }
#define OT_DECAY(dflt)    { "weight_decay", dflt, NULL, "decoupled decay: every update multiplies the weight by 1 - lr * weight_decay", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) }
#define OT_MOMENTUM(dflt) { "momentum", dflt, NULL, "decay of the running sum of gradients", .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) }
#define OT_BETA1          { "beta1", "0.9", NULL, "decay of the running average of gradients", .kind = OT_KEY_NUMBER, OT_KEY_FROM_BELOW(0, 1) }
#define OT_BETA2(dflt)    { "beta2", dflt, NULL, "decay of the running average of squared gradients", .kind = OT_KEY_NUMBER, OT_KEY_FROM_BELOW(0, 1) }
#define OT_EPS(dflt)      { "eps", dflt, NULL, "added to the denominator", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) }
#define OT_AMSGRAD        { "amsgrad", "false", NULL, "use the maximum of the averages of squares so far", .kind = OT_KEY_FLAG }
#define OT_DECOUPLED      { "decoupled_weight_decay", "false", NULL, "weight_decay acts as in adamw", .kind = OT_KEY_FLAG }

/* ---- vocabulary ----------------------------------------------------------------------------------- */

static inline ot_value *num(ot_update *x, double v) { return ot_scalar(&x->b, x->w->dtype, v); }
static inline ot_value *add(ot_update *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Add, 0, 0, a, c); }
static inline ot_value *sub(ot_update *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Sub, 0, 0, a, c); }
static inline ot_value *mul(ot_update *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Mul, 0, 0, a, c); }
static inline ot_value *quo(ot_update *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Div, 0, 0, a, c); }
static inline ot_value *larger(ot_update *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Max, 0, 0, a, c); }
static inline ot_value *root(ot_update *x, ot_value *a) { return ot_map1(&x->b, OT_FN_Sqrt, 0, 0, a); }
static inline ot_value *square(ot_update *x, ot_value *a) { return ot_map1(&x->b, OT_FN_Square, 0, 0, a); }
static inline ot_value *scaled(ot_update *x, ot_value *a, double k) { return mul(x, a, num(x, k)); }

/* Scalars of the update, in f64. */
static inline ot_value *wide(ot_update *x, double v) { return ot_scalar(&x->b, OT_F64, v); }
static inline ot_value *power(ot_update *x, ot_value *base, ot_value *e)
{
    return ot_map2(&x->b, OT_FN_Pow, 0, 0, base, e);
}
static inline ot_value *narrow(ot_update *x, ot_value *v) { return ot_cast(&x->b, v, x->w->dtype); }
static inline ot_value *correction(ot_update *x, ot_value *beta)
{
    return sub(x, wide(x, 1), power(x, beta, x->t));
} /* 1 - beta^t */

static inline double par(ot_update *x, const char *key) { return ot_spec_num(x->o, key); }

/* A state of the weight's shape that starts at `start`. */
static inline ot_value *moment(ot_update *x, ot_state_kind kind, double start)
{
    return ot_graph_state(x->b.graph, kind, x->file_w, x->w->dtype, &x->w->shape, start);
}

/* Assigns `now` to the state, if the update takes place. */
static inline ot_value *keep(ot_update *x, ot_value *state, ot_value *now)
{
    ot_graph_assign(x->b.graph, state, x->ok ? ot_map3(&x->b, OT_FN_Where, 0, 0, x->ok, now, state) : now);
    return now;
}

static inline ot_value *l2(ot_update *x)
{
    return x->decay == 0 ? x->g : add(x, x->g, scaled(x, x->w, x->decay));
} /* g + decay w */

static inline ot_value *step_by(ot_update *x, ot_value *w, ot_value *rate, ot_value *d)
{
    return sub(x, w, mul(x, narrow(x, rate), d));
}

/* state = beta * state + (1 - beta) * v */
ot_value *ot_update_average(ot_update *x, ot_state_kind kind, ot_value *beta, ot_value *v);
ot_value *ot_update_decayed(ot_update *x);           /* w (1 - lr decay) */
ot_value *ot_update_norm(ot_update *x, ot_value *v); /* the L2 norm of all elements */
ot_value *ot_update_trust(ot_update *x, ot_value *a, ot_value *b,
                          ot_value *whole); /* `whole`, for example a / b, or 1 if a or b is 0 */

#endif
