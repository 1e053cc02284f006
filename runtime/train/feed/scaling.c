/* scaling.c - the scaling of image bytes without an option: from the model's metadata, or from its graph. */
#include <math.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/train/feed/declared.h"
#include "runtime/train/feed/match.h"

/* What the nodes after an input compute: x * mul + add, by channel. */
typedef struct affine {
    int n, steps; /* channels, operators */
    double mul[OT_MAX_CHANNELS], add[OT_MAX_CHANNELS];
} affine;

/* A constant of one element, or of one for each channel. */
static bool constant(const ot_value *v, affine *y, double c[OT_MAX_CHANNELS])
{
    if (!v || !v->data || v->producer || !ot_shape_known(&v->shape) || !ot_is_float(v->dtype)) return false;
    int64_t n = ot_numel(&v->shape);
    if (n < 1 || n > OT_MAX_CHANNELS || (n > 1 && y->n > 1 && n != y->n)) return false;
    for (int i = y->n; i < n; i++) y->mul[i] = y->mul[0], y->add[i] = y->add[0];
    if (n > y->n) y->n = (int)n;
    for (int i = 0; i < y->n; i++) {
        c[i] = ot_get_f64(v->data, v->dtype, n > 1 ? i : 0);
        if (!isfinite(c[i])) return false;
    }
    return true;
}

static bool subtract_and_divide(const ot_node *n, affine *y)
{
    double scale[OT_MAX_CHANNELS], bias[OT_MAX_CHANNELS], mean[OT_MAX_CHANNELS], variance[OT_MAX_CHANNELS];
    if (n->n_in < 5 || !constant(n->in[1], y, scale) || !constant(n->in[2], y, bias) || !constant(n->in[3], y, mean) ||
        !constant(n->in[4], y, variance))
        return false;
    for (int i = 0; i < y->n; i++) {
        if (!(variance[i] > 0)) return false;
        y->mul[i] /= sqrt(variance[i]); /* what it does before its scale and bias */
        y->add[i] = (y->add[i] - mean[i]) / sqrt(variance[i]);
    }
    return true;
}

/* Adds the computation of node n on v.  false: it is not a scaling by constants. */
static bool apply(const ot_node *n, const ot_value *v, affine *y)
{
    double c[OT_MAX_CHANNELS];
    if (n->op == &ot_op_BatchNormalization) return n->in[0] == v && subtract_and_divide(n, y);
    bool first = n->n_in == 2 && n->in[0] == v, second = n->n_in == 2 && n->in[1] == v;
    bool sub = n->op == &ot_op_Sub, add = n->op == &ot_op_Add, mul = n->op == &ot_op_Mul, div = n->op == &ot_op_Div;
    if (first == second || !(sub || add || mul || div) || (second && (sub || div))) return false;
    if (!constant(n->in[first], y, c)) return false;
    for (int i = 0; i < y->n; i++) {
        double factor = mul ? c[i] : div ? 1 / c[i] : 1;
        y->mul[i] *= factor;
        y->add[i] = y->add[i] * factor + (add ? c[i] : sub ? -c[i] : 0);
        if (!isfinite(y->mul[i]) || !isfinite(y->add[i]) || y->mul[i] == 0) return false;
    }
    return true;
}

/* The only node that reads v; NULL: none, or several. */
static const ot_node *reader(const ot_graph *g, const ot_value *v)
{
    const ot_node *only = NULL;
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] != v) continue;
            if (only && only != n) return NULL;
            only = n;
        }
    return only;
}

static affine scaling_of(const ot_graph *g, const char *input)
{
    affine y = { .n = 1, .mul = { 1 } };
    const ot_value *v = NULL;
    for (int i = 0; i < g->n_inputs && !v; i++)
        if (!strcmp(g->inputs[i]->name, input)) v = g->inputs[i];
    for (const ot_node *n; v && (n = reader(g, v)); v = n->out[0]) {
        affine next = y;
        bool passes = n->op == &ot_op_Cast || n->op == &ot_op_Transpose || n->op == &ot_op_Identity;
        if (n->n_out < 1 || (!passes && !apply(n, v, &next))) break;
        y = next;
        y.steps += !passes;
    }
    return y;
}

bool ot_scaling_default(const ot_adapt_env *e, const char *input, int64_t c, ot_normalize *out)
{
    enum { UNIT = 2 }; /* mean and deviation of numbers from 0 to 1 are below it, those of bytes above */
    if (ot_declared_range(e, input, out)) return true;
    affine y = scaling_of(e->graph, input);
    bool bytes = false;
    for (int i = 0; i < y.n && y.steps; i++) bytes |= fabs(y.add[i] / y.mul[i]) > UNIT || fabs(1 / y.mul[i]) > UNIT;
    if (!bytes) return ot_declared_scaling(e, input, c, out);
    *out = (ot_normalize){ .kind = OT_NORMALIZE_NONE };
    ot_adapt_note(e,
                  "input '%s': the model itself normalizes pixels of 0..255, by (x - %.4g) / %.4g; they are not scaled "
                  "before (change with --normalize)",
                  input, 0 - y.add[0] / y.mul[0], 1 / y.mul[0]);
    return true;
}
