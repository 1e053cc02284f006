/* preview.c - rewrites one update of an optimizer (an operator) into operators of ai.onnx.
 *
 * Spec    ai.onnx.preview.training Adagrad, Adam, Momentum 1.
 * Shapes  R, T: scalars; then k tensors X, their k gradients G, and k of each state; outputs: the k new X, then the
 *         states
 * Grad    that of the operators it becomes */
#include "importer/build.h"

#define IN(...) (ot_value *[]){ __VA_ARGS__ }, (int)(sizeof((ot_value *[]){ __VA_ARGS__ }) / sizeof(ot_value *))

enum { RATE, COUNT, FIRST }; /* inputs */

/* Nothing is made of what could not be made. */
static ot_value *op(ot_form *f, const char *name, ot_value *a, ot_value *b)
{
    if (!a || !b) return NULL;
    return ot_form_before(f, name, IN(a, b));
}

static ot_value *root(ot_form *f, ot_value *x) { return x ? ot_form_before(f, "Sqrt", IN(x)) : NULL; }

static ot_value *like(ot_form *f, ot_value *v, ot_value *x)
{
    return v && x ? ot_form_before(f, "CastLike", IN(v, x)) : NULL;
}

static ot_value *number(ot_form *f, double v, ot_value *x) { return like(f, ot_form_const(f, OT_F64, 0, 1, &v), x); }

/* An attribute as a number of x's type. */
static ot_value *knob(ot_form *f, const char *name, double dflt, ot_value *x)
{
    return number(f, ot_form_float(f, name, dflt), x);
}

static ot_value *times(ot_form *f, ot_value *a, ot_value *b) { return op(f, "Mul", a, b); }

/* a x + b y */
static ot_value *mix(ot_form *f, ot_value *a, ot_value *x, ot_value *b, ot_value *y)
{
    return op(f, "Add", times(f, a, x), times(f, b, y));
}

/* What holds from the first update on; `first` in update 0. */
static ot_value *after_first(ot_form *f, ot_value *then, ot_value *first)
{
    ot_value *some = then && first ? op(f, "Greater", f->in[COUNT],
                                        like(f, ot_form_const(f, OT_I64, 0, 1, &(double){ 0 }), f->in[COUNT]))
                                   : NULL;
    return some ? ot_form_before(f, "Where", IN(some, then, first)) : NULL;
}

/* The gradient and that of the decay. */
static ot_value *decayed(ot_form *f, ot_value *x, ot_value *g)
{
    return op(f, "Add", g, times(f, knob(f, "norm_coefficient", 0, x), x));
}

/* X, G and H of tensor i of k; outputs likewise. */
static ot_status adagrad(ot_form *f, int i, int k)
{
    ot_value *x = f->in[FIRST + i], *h = f->in[FIRST + 2 * k + i], *g = decayed(f, x, f->in[FIRST + k + i]);
    ot_value *rate =
        op(f, "Div", like(f, f->in[RATE], x),
           op(f, "Add", number(f, 1, x), times(f, like(f, f->in[COUNT], x), knob(f, "decay_factor", 0, x))));
    ot_value *sum = op(f, "Add", h, times(f, g, g)), *below = op(f, "Add", root(f, sum), knob(f, "epsilon", 1e-6f, x));
    f->out[i] = op(f, "Sub", x, op(f, "Div", times(f, rate, g), below));
    if (k + i < f->n_out) f->out[k + i] = sum;
    return ot_status_of(f->out[i]);
}

static ot_status adam(ot_form *f, int i, int k)
{
    ot_value *x = f->in[FIRST + i], *v = f->in[FIRST + 2 * k + i], *h = f->in[FIRST + 3 * k + i],
             *g = decayed(f, x, f->in[FIRST + k + i]);
    ot_value *one = number(f, 1, x), *a = knob(f, "alpha", 0.9f, x), *b = knob(f, "beta", 0.999f, x),
             *t = like(f, f->in[COUNT], x);
    ot_value *m = mix(f, a, v, op(f, "Sub", one, a), g), *s = mix(f, b, h, op(f, "Sub", one, b), times(f, g, g));
    ot_value *rate = like(f, f->in[RATE], x), *below = op(f, "Add", root(f, s), knob(f, "epsilon", 1e-6f, x));
    ot_value *grown = op(f, "Div", times(f, rate, root(f, op(f, "Sub", one, op(f, "Pow", b, t)))),
                         op(f, "Sub", one, op(f, "Pow", a, t)));
    ot_value *next = op(f, "Sub", x, op(f, "Div", times(f, after_first(f, grown, rate), m), below));
    f->out[i] = times(f, op(f, "Sub", one, knob(f, "norm_coefficient_post", 0, x)), next);
    if (k + i < f->n_out) f->out[k + i] = m;
    if (2 * k + i < f->n_out) f->out[2 * k + i] = s;
    return ot_status_of(f->out[i]);
}

static ot_status momentum(ot_form *f, int i, int k)
{
    ot_value *x = f->in[FIRST + i], *v = f->in[FIRST + 2 * k + i], *g = decayed(f, x, f->in[FIRST + k + i]);
    ot_value *a = knob(f, "alpha", 0, x), *b = after_first(f, knob(f, "beta", 0, x), number(f, 1, x));
    ot_value *m = mix(f, a, v, b, g), *way = m;
    if (ot_form_says(f, "mode", "nesterov")) way = op(f, "Add", g, times(f, a, m));
    f->out[i] = op(f, "Sub", x, times(f, like(f, f->in[RATE], x), way));
    if (k + i < f->n_out) f->out[k + i] = m;
    return ot_status_of(f->out[i]);
}

static const struct {
    const char *op;
    int states;
    ot_status (*one)(ot_form *f, int i, int k);
} optimizers[] = {
    { "Adagrad", 1, adagrad },
    { "Adam", 2, adam },
    { "Momentum", 1, momentum },
};

const char *ot_preview_training_at(int i) { return i < OT_LEN(optimizers) ? optimizers[i].op : NULL; }

ot_status ot_preview_training(ot_form *f)
{
    if (!strcmp(f->op, "Gradient")) return ot_gradient(f);
    for (int i = 0; i < OT_LEN(optimizers); i++) {
        if (strcmp(optimizers[i].op, f->op) != 0) continue;
        int each = 2 + optimizers[i].states, k = (f->n_in - FIRST) / each;
        bool whole =
            k > 0 && f->n_in == FIRST + k * each && f->n_out <= k * (1 + optimizers[i].states) && f->n_out >= k;
        for (int n = 0; n < f->n_in; n++) whole &= f->in[n] != NULL;
        if (!whole)
            return ot_form_finding(f,
                                   "%d inputs and %d outputs do not fit the operator, or a required input is missing",
                                   f->n_in, f->n_out);
        for (int n = 0; n < k; n++) OT_TRY(optimizers[i].one(f, n, k));
        f->done = true;
        return OT_OK;
    }
    return OT_OK;
}
