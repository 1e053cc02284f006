/* optimizer.c - accumulation, norm, clipping, one update per weight.
 *
 * An optimizer is a few lines of arithmetic over w, g and its state, written with the builder and
 * fused to one Map per weight.  Scalars that change from update to update (bias corrections, rates)
 * are computed in f64 from the knobs, once, and rounded to the weight's type.
 *
 * Where an update may be skipped (fp16, --on-nonfinite skip) the graph decides: everything the update assigns is
 * selected between what is new and what was, and the updates that took place are counted in a state.
 *
 * Source  PyTorch's documentation of each optimizer; LAMB and LARS: You et al. 2019 and 2017; Muon:
 *         Jordan 2024. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/kernels/dot.h"
#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/lossscale.h"

typedef struct opt {
    ot_plan         *p;
    ot_build         b;
    const ot_spec  *o;
    ot_value        *w, *g;  /* the weight (or its f32 master) and its gradient */
    ot_value        *file_w; /* the weight as the graph knows it: names, decay */
    ot_value        *lr;     /* of this weight, f64 */
    ot_value        *t;      /* number of this update, f64 */
    ot_value        *ok;     /* does this update take place?  NULL: it does */
    ot_value        *unscale; /* gradients times this, f32; NULL: as they are */
    double           decay;
    bool             schedules_momentum;
} opt;

/* ---- vocabulary -------------------------------------------------------------- */

static ot_value *num(opt *x, double v) { return ot_scalar(&x->b, x->w->dtype, v); }
static ot_value *add(opt *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Add, 0, 0, a, c); }
static ot_value *sub(opt *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Sub, 0, 0, a, c); }
static ot_value *mul(opt *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Mul, 0, 0, a, c); }
static ot_value *quo(opt *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Div, 0, 0, a, c); }
static ot_value *larger(opt *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_FN_Max, 0, 0, a, c); }
static ot_value *root(opt *x, ot_value *a) { return ot_map1(&x->b, OT_FN_Sqrt, 0, 0, a); }
static ot_value *square(opt *x, ot_value *a) { return ot_map1(&x->b, OT_FN_Square, 0, 0, a); }
static ot_value *scaled(opt *x, ot_value *a, double k) { return mul(x, a, num(x, k)); }

/* Scalars of the update, in f64. */
static ot_value *wide(opt *x, double v) { return ot_scalar(&x->b, OT_F64, v); }
static ot_value *power(opt *x, ot_value *base, ot_value *e) { return ot_map2(&x->b, OT_FN_Pow, 0, 0, base, e); }
static ot_value *narrow(opt *x, ot_value *v) { return ot_cast(&x->b, v, x->w->dtype); }
static ot_value *t(opt *x) { return x->t; }
static ot_value *correction(opt *x, ot_value *beta) { return sub(x, wide(x, 1), power(x, beta, t(x))); } /* 1 - beta^t */

static double par(opt *x, const char *key, double dflt) { return ot_spec_num(x->o, key, dflt); }

/* beta1 or momentum: a knob, since a schedule may move it. */
static ot_value *moving(opt *x) { return x->p->knobs.momentum; }

/* A state of the weight's shape that starts at `start`. */
static ot_value *moment(opt *x, ot_state_kind kind, double start)
{
    return ot_graph_state(x->p->graph, kind, x->file_w, x->w->dtype, &x->w->shape, start);
}

static ot_value *keep(opt *x, ot_value *state, ot_value *now)
{
    ot_graph_assign(x->p->graph, state, x->ok ? ot_map3(&x->b, OT_FN_Where, 0, 0, x->ok, now, state) : now);
    return now;
}

/* state = beta * state + (1 - beta) * v */
static ot_value *average(opt *x, ot_state_kind kind, ot_value *beta, ot_value *v)
{
    ot_value *s = moment(x, kind, 0), *b = narrow(x, beta), *c = narrow(x, sub(x, wide(x, 1), beta));
    return keep(x, s, add(x, mul(x, b, s), mul(x, c, v)));
}

static ot_value *l2(opt *x) { return x->decay == 0 ? x->g : add(x, x->g, scaled(x, x->w, x->decay)); } /* g + decay w */

static ot_value *decayed(opt *x) /* w (1 - lr decay) */
{
    if (x->decay == 0) return x->w;
    return mul(x, x->w, narrow(x, sub(x, wide(x, 1), mul(x, x->lr, wide(x, x->decay)))));
}

static ot_value *step_by(opt *x, ot_value *w, ot_value *rate, ot_value *d) { return sub(x, w, mul(x, narrow(x, rate), d)); }

static ot_value *norm(opt *x, ot_value *v)
{
    int64_t axes[OT_MAX_RANK];
    if (!v) return NULL;
    for (int d = 0; d < v->shape.rank; d++) axes[d] = d;
    return root(x, ot_sum(&x->b, square(x, v), axes, v->shape.rank, false));
}

/* ---- optimizers: each returns the new weight ----------------------------------- */

static ot_value *sgd(opt *x)
{
    ot_value *g = l2(x);
    if (par(x, "momentum", 0) == 0 && !x->schedules_momentum) return step_by(x, x->w, x->lr, g);
    double    damp = par(x, "dampening", 0);
    ot_value *mu = narrow(x, moving(x)), *b = moment(x, OT_STATE_MOMENTUM, 0), *scale = num(x, 1 - damp);
    if (damp != 0) { /* the first update takes g whole */
        ot_value *first = ot_map2(&x->b, OT_FN_Equal, 0, 0, t(x), wide(x, 1));
        scale = narrow(x, ot_map3(&x->b, OT_FN_Where, 0, 0, first, wide(x, 1), wide(x, 1 - damp)));
    }
    ot_value *now = keep(x, b, add(x, mul(x, mu, b), damp == 0 ? g : mul(x, scale, g)));
    return step_by(x, x->w, x->lr, ot_spec_flag(x->o, "nesterov", false) ? add(x, g, mul(x, mu, now)) : now);
}

/* m^ / (sqrt(v^) + eps) with its rate lr / (1 - beta1^t), over the gradient g. */
static ot_value *adam_step(opt *x, ot_value *w, ot_value *g, ot_value *rate)
{
    ot_value *beta2 = wide(x, par(x, "beta2", 0.999));
    ot_value *m = average(x, OT_STATE_M, moving(x), g), *v = average(x, OT_STATE_V, beta2, square(x, g));
    if (ot_spec_flag(x->o, "amsgrad", false)) {
        ot_value *top = moment(x, OT_STATE_V_MAX, 0);
        v = keep(x, top, larger(x, top, v));
    }
    ot_value *c2 = narrow(x, ot_map1(&x->b, OT_FN_Rsqrt, 0, 0, correction(x, beta2)));
    ot_value *d = add(x, mul(x, root(x, v), c2), num(x, par(x, "eps", 1e-8)));
    return sub(x, w, mul(x, narrow(x, quo(x, rate, correction(x, moving(x)))), quo(x, m, d)));
}

static ot_value *adam(opt *x) { return adam_step(x, x->w, l2(x), x->lr); }
static ot_value *adamw(opt *x) { return adam_step(x, decayed(x), x->g, x->lr); }

static ot_value *adagrad(opt *x)
{
    ot_value *g = l2(x), *s = moment(x, OT_STATE_SUM, par(x, "initial_accumulator_value", 0));
    ot_value *now = keep(x, s, add(x, s, square(x, g)));
    ot_value *age = add(x, wide(x, 1), mul(x, sub(x, t(x), wide(x, 1)), wide(x, par(x, "lr_decay", 0))));
    return step_by(x, x->w, quo(x, x->lr, age), quo(x, g, add(x, root(x, now), num(x, par(x, "eps", 1e-10)))));
}

static ot_value *rmsprop(opt *x)
{
    ot_value *g = l2(x), *alpha = wide(x, par(x, "alpha", 0.99));
    ot_value *v = average(x, OT_STATE_V, alpha, square(x, g));
    if (ot_spec_flag(x->o, "centered", false)) v = sub(x, v, square(x, average(x, OT_STATE_MEAN, alpha, g)));
    ot_value *d = quo(x, g, add(x, root(x, v), num(x, par(x, "eps", 1e-8))));
    if (par(x, "momentum", 0) != 0 || x->schedules_momentum) {
        ot_value *b = moment(x, OT_STATE_MOMENTUM, 0);
        d = keep(x, b, add(x, mul(x, narrow(x, moving(x)), b), d));
    }
    return step_by(x, x->w, x->lr, d);
}

static ot_value *adadelta(opt *x)
{
    ot_value *g = l2(x), *rho = wide(x, par(x, "rho", 0.9)), *eps = num(x, par(x, "eps", 1e-6));
    ot_value *v = average(x, OT_STATE_V, rho, square(x, g)), *a = moment(x, OT_STATE_DELTA, 0);
    ot_value *d = mul(x, quo(x, root(x, add(x, a, eps)), root(x, add(x, v, eps))), g);
    ot_value *b = narrow(x, rho), *c = narrow(x, sub(x, wide(x, 1), rho));
    keep(x, a, add(x, mul(x, b, a), mul(x, c, square(x, d))));
    return step_by(x, x->w, x->lr, d);
}

static ot_value *adamax(opt *x)
{
    ot_value *g = l2(x), *m = average(x, OT_STATE_M, moving(x), g), *u = moment(x, OT_STATE_U, 0);
    ot_value *size = add(x, ot_map1(&x->b, OT_FN_Abs, 0, 0, g), num(x, par(x, "eps", 1e-8)));
    ot_value *now = keep(x, u, larger(x, scaled(x, u, par(x, "beta2", 0.999)), size));
    return step_by(x, x->w, quo(x, x->lr, correction(x, moving(x))), quo(x, m, now));
}

/* mu_t = beta1 (1 - 0.5 0.96^(t decay)); its running product is a scalar state. */
static ot_value *nadam(opt *x)
{
    bool      apart = ot_spec_flag(x->o, "decoupled_weight_decay", false);
    ot_value *g = apart ? x->g : l2(x), *w = apart ? decayed(x) : x->w, *beta2 = wide(x, par(x, "beta2", 0.999));
    ot_value *decay = wide(x, par(x, "momentum_decay", 4e-3)), *half = wide(x, 0.5), *base = wide(x, 0.96), *one = wide(x, 1);
    ot_value *next = add(x, t(x), one);
    ot_value *mu = mul(x, moving(x), sub(x, one, mul(x, half, power(x, base, mul(x, t(x), decay)))));
    ot_value *mu1 = mul(x, moving(x), sub(x, one, mul(x, half, power(x, base, mul(x, next, decay)))));
    ot_value *s = ot_graph_state(x->p->graph, OT_STATE_MU, x->file_w, OT_F64, &OT_SCALAR, 1);
    ot_value *product = keep(x, s, mul(x, s, mu));
    ot_value *m = average(x, OT_STATE_M, moving(x), g), *v = average(x, OT_STATE_V, beta2, square(x, g));
    ot_value *c2 = narrow(x, ot_map1(&x->b, OT_FN_Rsqrt, 0, 0, correction(x, beta2)));
    ot_value *d = add(x, mul(x, root(x, v), c2), num(x, par(x, "eps", 1e-8)));
    ot_value *of_g = quo(x, mul(x, x->lr, sub(x, one, mu)), sub(x, one, product));
    ot_value *of_m = quo(x, mul(x, x->lr, mu1), sub(x, one, mul(x, product, mu1)));
    w = sub(x, w, mul(x, narrow(x, of_g), quo(x, g, d)));
    return sub(x, w, mul(x, narrow(x, of_m), quo(x, m, d)));
}

/* While the variance of the adaptive rate is not tractable (r <= 5), momentum alone. */
static ot_value *radam(opt *x)
{
    bool      apart = ot_spec_flag(x->o, "decoupled_weight_decay", false);
    double    b2 = par(x, "beta2", 0.999), top = 2 / (1 - b2) - 1;
    ot_value *g = apart ? x->g : l2(x), *w = apart ? decayed(x) : x->w, *beta2 = wide(x, b2);
    ot_value *m = average(x, OT_STATE_M, moving(x), g), *v = average(x, OT_STATE_V, beta2, square(x, g));
    ot_value *c2 = correction(x, beta2), *two = wide(x, 2), *four = wide(x, 4);
    ot_value *r = sub(x, wide(x, top), quo(x, mul(x, mul(x, two, t(x)), power(x, beta2, t(x))), c2));
    ot_value *tractable = ot_map2(&x->b, OT_FN_Greater, 0, 0, r, wide(x, 5));
    ot_value *safe = ot_map3(&x->b, OT_FN_Where, 0, 0, tractable, r, wide(x, 6));
    ot_value *rect = quo(x, mul(x, mul(x, sub(x, safe, four), sub(x, safe, two)), wide(x, top)),
                         mul(x, wide(x, (top - 4) * (top - 2)), safe));
    ot_value *rate = quo(x, x->lr, correction(x, moving(x)));
    ot_value *adapt = mul(x, rate, mul(x, root(x, rect), root(x, c2)));
    ot_value *full = quo(x, m, add(x, root(x, v), num(x, par(x, "eps", 1e-8))));
    ot_value *d = ot_map3(&x->b, OT_FN_Where, 0, 0, tractable, mul(x, narrow(x, adapt), full), mul(x, narrow(x, rate), m));
    return sub(x, w, d);
}

static ot_value *lion(opt *x)
{
    ot_value *m = moment(x, OT_STATE_M, 0), *b1 = narrow(x, moving(x)), *one = num(x, 1);
    ot_value *u = ot_map1(&x->b, OT_FN_Sign, 0, 0, add(x, mul(x, b1, m), mul(x, sub(x, one, b1), x->g)));
    double    b2 = par(x, "beta2", 0.99);
    keep(x, m, add(x, scaled(x, m, b2), scaled(x, x->g, 1 - b2)));
    return step_by(x, x->w, x->lr, x->decay == 0 ? u : add(x, u, scaled(x, x->w, x->decay)));
}

/* `whole`, a / b say, or 1 where a or b is 0. */
static ot_value *trust(opt *x, ot_value *a, ot_value *b, ot_value *whole)
{
    ot_value *zero = num(x, 0);
    ot_value *both = ot_map2(&x->b, OT_FN_And, 0, 0, ot_map2(&x->b, OT_FN_Greater, 0, 0, a, zero), ot_map2(&x->b, OT_FN_Greater, 0, 0, b, zero));
    return ot_map3(&x->b, OT_FN_Where, 0, 0, both, whole, num(x, 1));
}

static ot_value *lamb(opt *x)
{
    ot_value *beta2 = wide(x, par(x, "beta2", 0.999));
    ot_value *m = average(x, OT_STATE_M, moving(x), x->g), *v = average(x, OT_STATE_V, beta2, square(x, x->g));
    ot_value *c1 = narrow(x, quo(x, wide(x, 1), correction(x, moving(x))));
    ot_value *c2 = narrow(x, ot_map1(&x->b, OT_FN_Rsqrt, 0, 0, correction(x, beta2)));
    ot_value *u = quo(x, mul(x, m, c1), add(x, mul(x, root(x, v), c2), num(x, par(x, "eps", 1e-6))));
    if (x->decay != 0) u = add(x, u, scaled(x, x->w, x->decay));
    ot_value *nw = norm(x, x->w), *nu = norm(x, u);
    return step_by(x, x->w, x->lr, mul(x, trust(x, nw, nu, quo(x, nw, nu)), u));
}

static ot_value *lars(opt *x)
{
    ot_value *nw = norm(x, x->w), *ng = norm(x, x->g), *b = moment(x, OT_STATE_MOMENTUM, 0);
    ot_value *below = add(x, add(x, ng, scaled(x, nw, x->decay)), num(x, par(x, "eps", 1e-8)));
    ot_value *q = trust(x, nw, ng, quo(x, scaled(x, nw, par(x, "eta", par(x, "trust_coefficient", 1e-3))), below));
    ot_value *now = keep(x, b, add(x, mul(x, narrow(x, moving(x)), b), mul(x, q, l2(x))));
    return step_by(x, x->w, x->lr, now);
}

/* What v is the same as in another float type; NULL: it is no cast. */
static ot_value *cast_from(const ot_value *v)
{
    const ot_node *n = v->producer;
    if (!n || n->op != &ot_op_Map) return NULL;
    const ot_program *m = n->attrs;
    bool copies = m->n_in == 1 && m->n_out == 1 && m->n_inst == 1 && m->inst[0].row == OT_FN_Copy;
    return copies && ot_is_float(n->in[0]->dtype) ? n->in[0] : NULL;
}

/* Is the weight stored (out, in)?  A product with its transpose says so. */
static bool stored_out_in(const ot_graph *g, const ot_value *w)
{
    for (const ot_node *n = g->first; n; n = n->next)
        if (n->op == &ot_op_Dot && n->phase == OT_PHASE_BATCH && (n->in[1] == w || cast_from(n->in[1]) == w))
            return ((const ot_dot *)n->attrs)->tb;
    return true;
}

/* Orthogonalises the averaged gradient by five Newton-Schulz steps on its wide form. */
static ot_value *muon(opt *x)
{
    const ot_shape *s = &x->w->shape;
    if (s->rank < 2) {
        ot_fail(x->p->graph->err, OT_E_USAGE, "--optimizer muon trains matrices; '%s' has rank %d: --freeze it or choose another optimizer", x->file_w->name, s->rank);
        return NULL;
    }
    ot_shape  flat = { .rank = 2, .dim = { s->dim[0], ot_numel(s) / (s->dim[0] ? s->dim[0] : 1) } };
    bool      tall = flat.dim[0] > flat.dim[1], out_in = s->rank > 2 || stored_out_in(x->p->graph, x->w);
    ot_value *mu = narrow(x, moving(x)), *rest = narrow(x, sub(x, wide(x, 1), moving(x))), *b = moment(x, OT_STATE_MOMENTUM, 0);
    ot_value *m = keep(x, b, add(x, mul(x, mu, b), mul(x, rest, x->g)));
    ot_value *y = ot_spec_flag(x->o, "nesterov", true) ? add(x, mul(x, rest, x->g), mul(x, mu, m)) : m;
    y = ot_view(&x->b, y, &flat);
    if (tall) y = ot_transpose(&x->b, y, (int[]){ 1, 0 });
    y = quo(x, y, larger(x, norm(x, y), num(x, 1e-7)));
    for (int i = 0; i < (int)par(x, "ns_steps", 5); i++) {
        ot_value *a = ot_matmul(&x->b, y, false, y, true);
        ot_value *c = add(x, scaled(x, a, -4.775), scaled(x, ot_matmul(&x->b, a, false, a, false), 2.0315));
        y = add(x, scaled(x, y, 3.4445), ot_matmul(&x->b, c, false, y, false));
    }
    if (tall) y = ot_transpose(&x->b, y, (int[]){ 1, 0 });
    double out = (double)flat.dim[!out_in], in = (double)flat.dim[out_in];
    double ratio = in > 0 && out > in ? sqrt(out / in) : 1;
    return step_by(x, decayed(x), mul(x, x->lr, wide(x, ratio)), ot_view(&x->b, y, s));
}

/* ---- the table ------------------------------------------------------------------ */

typedef struct opt_row {
    const char *name;
    ot_value *(*build)(opt *x);
    double      lr, decay, momentum; /* defaults; momentum: of the knob (beta1 where there is one) */
    const char *moves;               /* the parameter behind the momentum knob */
    const char *keys;
} opt_row;

#define ADAM " beta1 beta2 eps "
static const opt_row optimizers[] = {
    { "sgd", sgd, 1e-2, 0, 0, "momentum", " momentum dampening nesterov " },
    { "adam", adam, 1e-3, 0, 0.9, "beta1", ADAM "amsgrad " },
    { "adamw", adamw, 1e-3, 1e-2, 0.9, "beta1", ADAM "amsgrad " },
    { "adagrad", adagrad, 1e-2, 0, 0, "", " lr_decay initial_accumulator_value eps " },
    { "adadelta", adadelta, 1, 0, 0, "", " rho eps " },
    { "rmsprop", rmsprop, 1e-2, 0, 0, "momentum", " alpha eps centered momentum " },
    { "adamax", adamax, 2e-3, 0, 0.9, "beta1", ADAM },
    { "nadam", nadam, 2e-3, 0, 0.9, "beta1", ADAM "momentum_decay decoupled_weight_decay " },
    { "radam", radam, 1e-3, 0, 0.9, "beta1", ADAM "decoupled_weight_decay " },
    { "lion", lion, 1e-4, 0, 0.9, "beta1", " beta1 beta2 " },
    { "lamb", lamb, 1e-3, 0, 0.9, "beta1", ADAM },
    { "lars", lars, 1, 0, 0.9, "momentum", " momentum eta trust_coefficient eps " },
    { "muon", muon, 1e-3, 0.1, 0.95, "momentum", " momentum nesterov ns_steps " },
};

static const opt_row *find(const char *name)
{
    for (int i = 0; i < OT_LEN(optimizers); i++)
        if (!strcmp(optimizers[i].name, name)) return &optimizers[i];
    return NULL;
}

bool ot_optimizer_defaults(const ot_spec *o, double *lr, double *momentum)
{
    const opt_row *r = find(o->name);
    if (!r) return false;
    *lr = ot_spec_num(o, "lr", r->lr);
    *momentum = *r->moves ? ot_spec_num(o, r->moves, r->momentum) : 0;
    return true;
}

static ot_status check_keys(ot_graph *g, const ot_spec *o, const opt_row *r)
{
    char key[128];
    if (!r)
        return ot_fail(g->err, OT_E_USAGE, "--optimizer %s is not known; known are sgd adam adamw adagrad adadelta rmsprop adamax nadam radam lamb lars lion muon", o->name);
    for (int k = 0; k < o->n; k++) {
        snprintf(key, sizeof key, " %s ", o->param[k].key);
        if (!strstr(r->keys, key) && !strstr(" lr weight_decay ", key))
            return ot_fail(g->err, OT_E_USAGE, "--optimizer %s has no parameter '%s'; it has: lr weight_decay%s", o->name, o->param[k].key, r->keys);
    }
    return OT_OK;
}

/* ---- the pass ------------------------------------------------------------------- */

/* Is it one of "norms", "biases", or does a glob match? */
static bool no_decay(const ot_config *c, const ot_value *w)
{
    const char *op = w->slot_op ? w->slot_op->name : "";
    bool        is_norm = strstr(op, "Normalization") != NULL;
    bool        is_bias = (w->slot_input == 2 && (!strcmp(op, "Conv") || !strcmp(op, "ConvTranspose") || !strcmp(op, "Gemm"))) ||
                   (w->shape.rank == 1 && !strcmp(op, "Add")) || (is_norm && w->slot_input == 2);
    for (int i = 0; i < c->n_no_decay; i++) {
        const char *k = c->no_decay[i];
        if ((!strcmp(k, "norms") && is_norm) || (!strcmp(k, "biases") && is_bias) || ot_pattern_rank(k, w->name) >= 0) return true;
    }
    return false;
}

/* By the most specific pattern; of equally specific ones the last. */
static double lr_scale(const ot_config *c, const ot_value *w)
{
    double s = 1;
    int    best = 0;
    for (int i = 0; i < c->n_lr_scale; i++) {
        int rank = ot_pattern_rank(c->lr_scale[i], w->name);
        if (rank >= best) best = rank, s = c->lr_scale_by[i];
    }
    return s;
}

static ot_value *knob(ot_graph *g, const char *name)
{
    ot_value *v = ot_graph_value(g, name, OT_INPUT, OT_F64, &OT_SCALAR);
    ot_graph_input(g, v);
    return v;
}

/* Gradients of several batches add up in a state; the update phase reads their mean. */
static void accumulate(ot_plan *p, opt *x, int times)
{
    for (int i = 0; i < p->n_weights; i++) {
        ot_value *w = p->weights[i];
        x->w = x->file_w = w;
        ot_value *sum = moment(x, OT_STATE_ACCUMULATED, 0);
        w->grad = keep(x, sum, add(x, sum, scaled(x, ot_cast(&x->b, w->grad, w->dtype), 1.0 / times)));
    }
}

static void forget(ot_plan *p, opt *x)
{
    ot_graph *g = p->graph;
    for (int i = 0, n = g->n_assigns; i < n; i++) {
        ot_value *s = g->assigns[i].state;
        if (s->kind != OT_STATE_ACCUMULATED) continue;
        ot_graph_assign(g, s, ot_expand(&x->b, ot_scalar(&x->b, s->dtype, 0), &s->shape));
    }
}

/* A gradient that was only cast is read as it was before: the update casts it by itself. */
static ot_value *uncast(ot_value *g)
{
    ot_value *narrow = cast_from(g);
    return narrow && (narrow->dtype == OT_F16 || narrow->dtype == OT_BF16) && g->dtype == OT_F32 ? narrow : g;
}

/* The L2 norm over all gradients, in f32 (f64 for f64 weights). */
static ot_value *global_norm(ot_plan *p, opt *x)
{
    ot_value *sum = NULL;
    for (int i = 0; i < p->n_weights; i++) {
        ot_value *g = p->weights[i]->grad;
        if (!g) return NULL;
        ot_reduce a = { .kind = OT_REDUCE_SUMSQ, .axes = ((int64_t)1 << g->shape.rank) - 1, .wide = 1 };
        ot_value *s = ot_emit(&x->b, &ot_op_Reduce, &a, OT_IN(g));
        s = ot_cast(&x->b, s, OT_F64);
        sum = sum ? add(x, sum, s) : s;
    }
    return root(x, sum);
}

static ot_value *clipped(opt *x, const ot_config *c, ot_value *g, ot_value *factor)
{
    if (c->clip_norm > 0) g = mul(x, g, ot_cast(&x->b, factor, g->dtype));
    if (c->clip_value > 0)
        g = ot_map3(&x->b, OT_FN_Clip, 0, 0, g, ot_scalar(&x->b, g->dtype, -c->clip_value), ot_scalar(&x->b, g->dtype, c->clip_value));
    return g;
}

/* A weight stored in half precision is trained through an f32 master. */
static ot_value *master(opt *x)
{
    ot_value *w = x->file_w;
    if (w->dtype == OT_F32 || w->dtype == OT_F64) return w;
    ot_graph *g = x->p->graph;
    int64_t   n = ot_numel(&w->shape);
    float    *data = ot_graph_alloc(g, (size_t)n * sizeof *data);
    for (int64_t i = 0; data && i < n; i++) data[i] = (float)ot_get_f64(w->data, w->dtype, i);
    ot_value *m = data ? ot_graph_state(g, OT_STATE_MASTER, w, OT_F32, &w->shape, 0) : NULL;
    if (m) m->data = data;
    return m;
}

static void update(opt *x, const ot_config *c, const opt_row *r, ot_value *w, ot_value *factor)
{
    double scale = lr_scale(c, w);
    x->file_w = w;
    x->w = master(x);
    if (!x->w) return;
    x->g = ot_cast(&x->b, w->grad, x->w->dtype);
    if (x->unscale) x->g = mul(x, x->g, narrow(x, x->unscale));
    x->g = clipped(x, c, x->g, factor);
    x->decay = no_decay(c, w) ? 0 : par(x, "weight_decay", r->decay);
    x->lr = scale == 1 ? x->p->knobs.lr : mul(x, x->p->knobs.lr, wide(x, scale));
    ot_value *now = r->build(x);
    if (!now) return;
    if (x->w != w) keep(x, x->w, now);
    keep(x, w, ot_cast(&x->b, now, w->dtype));
}

/* The loss of the batches of this update, summed where they are several. */
static ot_value *losses(ot_plan *p, opt *x, const ot_config *c)
{
    ot_value *sum = c->accumulate > 1 ? ot_graph_state(p->graph, OT_STATE_ACCUMULATED, NULL, p->loss->dtype, &OT_SCALAR, 0) : NULL;
    return sum ? keep(x, sum, add(x, sum, p->loss)) : p->loss;
}

static ot_value *is_finite(opt *x, ot_value *v)
{
    ot_value *size = ot_map1(&x->b, OT_FN_Abs, 0, 0, ot_cast(&x->b, v, OT_F64));
    return ot_map2(&x->b, OT_FN_LessOrEqual, 0, 0, size, wide(x, DBL_MAX));
}

/* Norm, scale and the decision; afterwards x->ok says whether the update takes place, and x->t its number. */
static void decide(ot_plan *p, opt *x, const ot_config *c, ot_value *loss)
{
    ot_graph *g = p->graph;
    x->t = p->knobs.t;
    p->grad_norm = global_norm(p, x);
    if (p->loss_scale) {
        ot_value *scale = ot_cast(&x->b, p->loss_scale, OT_F64);
        p->grad_norm = quo(x, p->grad_norm, scale);
        x->unscale = ot_cast(&x->b, quo(x, wide(x, 1), scale), OT_F32);
    }
    ot_plan_keep(p, p->grad_norm);
    if (p->knobs.t || !p->grad_norm) return;
    ot_value *ok = is_finite(x, p->grad_norm);
    if (c->skip_nonfinite) ok = ot_map2(&x->b, OT_FN_And, 0, 0, ok, is_finite(x, loss));
    if (p->loss_scale) ot_loss_scale_update(p, &x->b, ok);
    ot_value *updates = ot_graph_state(g, OT_STATE_UPDATES, NULL, OT_F64, &OT_SCALAR, 0);
    x->ok = ok;
    x->t = keep(x, updates, add(x, updates, wide(x, 1)));
    ot_value *scalars[] = { x->t, x->ok, x->unscale }; /* computed once, not again by every update */
    for (int i = 0; i < OT_LEN(scalars); i++)
        if (scalars[i]) ot_plan_keep(p, scalars[i]);
}

/* The file's algorithm has its updates; how large its gradients are is told all the same. */
static ot_status own_norm(ot_plan *p)
{
    opt x = { .p = p, .b = { .graph = p->graph } };
    p->grad_norm = p->n_weights ? global_norm(p, &x) : NULL;
    if (p->grad_norm) ot_plan_keep(p, p->grad_norm);
    return p->graph->err->status;
}

ot_status ot_pass_optimizer(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    p->knobs.seed = g->seed;
    p->knobs.counter = g->counter;
    if (c->want != OT_WANT_TRAIN) return OT_OK;
    if (p->own) return own_norm(p);
    const opt_row *r = find(c->optimizer.name);
    OT_TRY(check_keys(g, &c->optimizer, r));
    p->knobs.lr = knob(g, "onnxtrain.lr");
    p->knobs.momentum = knob(g, "onnxtrain.momentum");
    if (!p->loss_scale && !c->skip_nonfinite) p->knobs.t = knob(g, "onnxtrain.t");
    opt x = { .p = p, .b = { .graph = g }, .o = &c->optimizer, .schedules_momentum = c->schedules_momentum };
    for (int i = 0; i < p->n_weights; i++) p->weights[i]->grad = uncast(p->weights[i]->grad);
    if (c->accumulate > 1) accumulate(p, &x, c->accumulate);
    ot_value *loss = c->skip_nonfinite ? losses(p, &x, c) : NULL;
    g->phase = OT_PHASE_UPDATE;
    decide(p, &x, c, loss);
    ot_value *factor = NULL;
    if (c->clip_norm > 0 && p->grad_norm) {
        ot_value *ratio = quo(&x, wide(&x, c->clip_norm), add(&x, p->grad_norm, wide(&x, 1e-6)));
        factor = ot_map2(&x.b, OT_FN_Min, 0, 0, ratio, wide(&x, 1));
    }
    for (int i = 0; i < p->n_weights && g->err->status == OT_OK; i++) update(&x, c, r, p->weights[i], factor);
    forget(p, &x);
    ot_status s = g->err->status == OT_OK && !p->described ? ot_lower(g) : g->err->status;
    g->phase = OT_PHASE_BATCH;
    return s;
}
