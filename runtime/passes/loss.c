/* loss.c - target inputs, the loss, and in evaluation its metrics.
 *
 * A loss named by the user acts on an output; where the graph ends in the operator that the loss
 * undoes (Softmax under cross_entropy, LogSoftmax under nll, Sigmoid under bce) the two are joined
 * and act on the value before it, which is the same function computed without cancellation.  A loss
 * left out is chosen from target and tail (DESIGN 6).
 *
 * Source  the formulas are PyTorch's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/crossentropy.h"
#include "ops/map.h"
#include "ops/reduce.h"
#include "runtime/passes/passes.h"

typedef struct ctx {
    ot_plan         *p;
    const ot_config *c;
    ot_build         b;
    const ot_thing  *loss;
    ot_value        *out, *z, *t; /* the graph's output; what the loss acts on; the target or NULL */
    bool             joined;
    int              axis;        /* of the classes, where the tail says it; else -1 */
    const char      *hint;        /* what else a chosen loss could be, or why none was chosen; NULL */
} ctx;

static ot_value *num(ctx *x, double v) { return ot_scalar(&x->b, x->z->dtype, v); }
static ot_value *add(ctx *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_ROW_Add, 0, 0, a, c); }
static ot_value *sub(ctx *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_ROW_Sub, 0, 0, a, c); }
static ot_value *mul(ctx *x, ot_value *a, ot_value *c) { return ot_map2(&x->b, OT_ROW_Mul, 0, 0, a, c); }

static ot_value *sum_all(ctx *x, ot_value *v)
{
    int64_t axes[OT_MAX_RANK];
    if (!v) return NULL;
    for (int d = 0; d < v->shape.rank; d++) axes[d] = d;
    return ot_sum(&x->b, v, axes, v->shape.rank, false);
}

/* Mean or sum over all elements; `count` other than 0 divides instead of the number of elements. */
static ot_value *reduce(ctx *x, ot_value *v, double count)
{
    if (!v) return NULL;
    bool sum = !strcmp(ot_thing_text(x->loss, "reduction", "mean"), "sum");
    if (count == 0) count = (double)ot_numel(&v->shape);
    ot_value *s = sum_all(x, v);
    return sum ? s : mul(x, s, num(x, count ? 1 / count : NAN));
}

/* ---- targets ---------------------------------------------------------------- */

static ot_status fail(ctx *x, ot_status s, const char *what)
{
    return ot_fail(x->p->graph->err, s, "loss %s on output '%s': %s", x->loss->name, x->out->name, what);
}

/* The target as floats of z's shape. */
static ot_value *like_output(ctx *x)
{
    char a[128], c[128];
    if (!x->t) return fail(x, OT_E_DATA, "the data has no target"), NULL;
    if (ot_numel(&x->t->shape) != ot_numel(&x->z->shape)) {
        ot_fail(x->p->graph->err, OT_E_DATA, "loss %s: the target is %s, output '%s' is %s; both need the same number of elements", x->loss->name,
                ot_shape_text(&x->t->shape, a), x->out->name, ot_shape_text(&x->z->shape, c));
        return NULL;
    }
    return ot_cast(&x->b, ot_view(&x->b, x->t, &x->z->shape), x->z->dtype);
}

static ot_shape without(const ot_shape *s, int axis)
{
    ot_shape r = { .rank = 0 };
    for (int d = 0; d < s->rank; d++)
        if (d != axis) r.dim[r.rank++] = s->dim[d];
    return r;
}

static bool fits_axis(const ot_shape *t, const ot_shape *z, int axis)
{
    ot_shape r = without(z, axis), u = without(t, t->rank == z->rank && t->dim[axis] == 1 ? axis : -1);
    return ot_shape_eq(&u, &r);
}

/* The class axis: as given, else 1, else the last where only that fits.  -1: recorded failure. */
static int class_axis(ctx *x)
{
    const ot_shape *z = &x->z->shape, *t = &x->t->shape;
    int             axis = -1;
    char            a[128], c[128];
    if (ot_thing_find(x->loss, "class_axis")) {
        if (!ot_axis((int64_t)ot_thing_num(x->loss, "class_axis", 1), z->rank, &axis)) fail(x, OT_E_USAGE, "class_axis is out of range");
        return axis;
    }
    if (x->axis >= 0) return x->axis;
    if (ot_is_float(x->t->dtype)) return z->rank > 1 ? 1 : 0;
    if (z->rank > 1 && ot_numel(t) == ot_numel(z)) return 1;
    for (int k = 0; k < 2 && z->rank; k++) {
        axis = k || z->rank == 1 ? z->rank - 1 : 1;
        if (fits_axis(t, z, axis)) return axis;
    }
    ot_fail(x->p->graph->err, OT_E_DATA, "loss %s: class numbers of shape %s do not fit output '%s' of shape %s along any class axis",
            x->loss->name, ot_shape_text(t, a), x->out->name, ot_shape_text(z, c));
    return -1;
}

/* ---- losses over classes ----------------------------------------------------- */

static ot_value *class_weights(ctx *x, int64_t classes)
{
    const ot_param *w = ot_thing_find(x->loss, "class_weights");
    if (!w) return NULL;
    if (w->n != classes) {
        ot_fail(x->p->graph->err, OT_E_USAGE, "loss %s: class_weights has %d numbers, output '%s' has %lld classes", x->loss->name, w->n,
                x->out->name, (long long)classes);
        return NULL;
    }
    float *v = ot_graph_alloc(x->p->graph, (size_t)w->n * sizeof *v);
    for (int i = 0; i < w->n && v; i++) v[i] = (float)w->list[i];
    ot_value *k = v ? ot_graph_const(x->p->graph, "class_weights", OT_F32, &(ot_shape){ .rank = 1, .dim = { w->n } }, v) : NULL;
    return k ? ot_cast(&x->b, k, x->z->dtype) : NULL;
}

/* Which classes the samples' largest outputs are: counts those that match the target. */
static void accuracy(ctx *x, int axis, ot_value *t)
{
    ot_plan        *p = x->p;
    const ot_shape *s = &x->z->shape;
    if (x->c->want != OT_WANT_EVAL || p->correct || !t || !ot_is_int(t->dtype)) return;
    int64_t *iota = ot_graph_alloc(p->graph, (size_t)s->dim[axis] * sizeof *iota), one = axis;
    if (!iota) return;
    for (int64_t i = 0; i < s->dim[axis]; i++) iota[i] = i;
    ot_shape along = { .rank = s->rank }, kept = *s;
    for (int d = 0; d < s->rank; d++) along.dim[d] = d == axis ? s->dim[d] : 1;
    kept.dim[axis] = 1;
    ot_value *classes = ot_graph_const(p->graph, "classes", OT_I64, &along, iota);
    ot_value *label = ot_cast(&x->b, ot_view(&x->b, t, &kept), OT_I64);
    ot_value *is = ot_map2(&x->b, OT_ROW_Equal, 0, 0, classes, label);
    ot_value *top = ot_emit(&x->b, &ot_op_Reduce, &(ot_reduce){ .kind = OT_REDUCE_MAX, .axes = (int64_t)1 << axis, .keepdims = 1 }, OT_IN(x->z));
    ot_value *mine = ot_map2(&x->b, OT_ROW_Equal, 0, 0, x->z, top);
    ot_value *hit = ot_map2(&x->b, OT_ROW_And, 0, 0, is, mine);
    ot_value *right = ot_sum(&x->b, ot_cast(&x->b, hit, OT_F32), &one, 1, false);
    ot_value *counts = ot_cast(&x->b, ot_map2(&x->b, OT_ROW_GreaterOrEqual, 0, 0, label, ot_scalar(&x->b, OT_I64, 0)), OT_F32);
    const ot_param *ignore = ot_thing_find(x->loss, "ignore_index");
    if (ignore) {
        ot_value *no = ot_scalar(&x->b, OT_I64, ignore->num);
        counts = ot_cast(&x->b, ot_map2(&x->b, OT_ROW_NotEqual, 0, 0, label, no), OT_F32);
    }
    right = ot_map2(&x->b, OT_ROW_Mul, 0, 0, right, ot_view(&x->b, counts, right ? &right->shape : NULL));
    p->counted_of = x->out->name;
    p->correct = sum_all(x, right);
    p->counted = sum_all(x, counts);
    ot_plan_keep(p, p->correct);
    ot_plan_keep(p, p->counted);
}

static ot_value *over_classes(ctx *x, bool log_input)
{
    if (!x->t) return fail(x, OT_E_DATA, "the data has no target"), NULL;
    int axis = class_axis(x);
    if (axis < 0) return NULL;
    const ot_shape  *z = &x->z->shape;
    bool             one_hot = z->dim[axis] > 1 && ot_numel(&x->t->shape) == ot_numel(z), probs = one_hot || ot_is_float(x->t->dtype);
    const ot_param  *ignore = ot_thing_find(x->loss, "ignore_index");
    ot_cross_entropy a = { .axis = axis, .probs = probs, .log_input = log_input,
                           .label_smoothing = ot_thing_num(x->loss, "label_smoothing", 0),
                           .reduction = strcmp(ot_thing_text(x->loss, "reduction", "mean"), "sum") ? OT_REDUCTION_MEAN : OT_REDUCTION_SUM,
                           .has_ignore = ignore && !isnan(ignore->num), .ignore_index = ignore && !isnan(ignore->num) ? (int64_t)ignore->num : 0 };
    ot_shape  flat = without(z, axis);
    ot_value *t = probs ? like_output(x) : ot_view(&x->b, x->t, &flat);
    ot_value *w = class_weights(x, z->dim[axis]);
    accuracy(x, axis, t);
    return w ? ot_emit(&x->b, &ot_op_CrossEntropy, &a, OT_IN(x->z, t, w)) : ot_emit(&x->b, &ot_op_CrossEntropy, &a, OT_IN(x->z, t));
}

static ot_value *cross_entropy(ctx *x) { return over_classes(x, false); }
static ot_value *nll(ctx *x) { return over_classes(x, !x->joined); }

/* (1/C) sum over j != y of max(0, margin - z[y] + z[j]), then the mean over samples. */
static ot_value *hinge(ctx *x)
{
    if (!x->t) return fail(x, OT_E_DATA, "the data has no target"), NULL;
    int axis = class_axis(x);
    if (axis < 0) return NULL;
    const ot_shape *s = &x->z->shape;
    if (s->dim[axis] < 2)
        return fail(x, OT_E_DATA, "hinge compares the scores of several classes, and this output has one score per sample; "
                    "bce_with_logits takes targets of 0 and 1 for it"), NULL;
    int64_t *iota = ot_graph_alloc(x->p->graph, (size_t)s->dim[axis] * sizeof *iota), one = axis;
    if (!iota) return NULL;
    for (int64_t i = 0; i < s->dim[axis]; i++) iota[i] = i;
    ot_shape along = { .rank = s->rank }, kept = *s;
    for (int d = 0; d < s->rank; d++) along.dim[d] = d == axis ? s->dim[d] : 1;
    kept.dim[axis] = 1;
    accuracy(x, axis, x->t);
    ot_value *classes = ot_graph_const(x->p->graph, "classes", OT_I64, &along, iota);
    ot_value *is = ot_map2(&x->b, OT_ROW_Equal, 0, 0, classes, ot_cast(&x->b, ot_view(&x->b, x->t, &kept), OT_I64));
    ot_value *zy = ot_sum(&x->b, ot_map3(&x->b, OT_ROW_Where, 0, 0, is, x->z, num(x, 0)), &one, 1, true);
    ot_value *m = ot_map1(&x->b, OT_ROW_Relu, 0, 0, add(x, sub(x, num(x, ot_thing_num(x->loss, "margin", 1)), zy), x->z));
    m = ot_map3(&x->b, OT_ROW_Where, 0, 0, is, num(x, 0), m);
    return reduce(x, mul(x, m, num(x, 1.0 / (double)s->dim[axis])), (double)ot_numel(&kept));
}

/* ---- losses over elements ---------------------------------------------------- */

static ot_value *difference(ctx *x) { return sub(x, x->z, like_output(x)); }
static ot_value *row(ctx *x, int r, double p, ot_value *v) { return reduce(x, ot_map1(&x->b, r, p, 0, v), 0); }

static ot_value *mse(ctx *x) { return row(x, OT_ROW_Square, 0, difference(x)); }
static ot_value *l1(ctx *x) { return row(x, OT_ROW_Abs, 0, difference(x)); }
static ot_value *huber(ctx *x) { return row(x, OT_ROW_Huber, ot_thing_num(x->loss, "delta", 1), difference(x)); }

static ot_value *smooth_l1(ctx *x)
{
    double beta = ot_thing_num(x->loss, "beta", 1);
    return beta == 0 ? l1(x) : row(x, OT_ROW_SmoothL1, beta, difference(x));
}

static ot_value *kl(ctx *x)
{
    ot_value *t = like_output(x);
    double    n = x->z->shape.rank ? (double)x->z->shape.dim[0] : 1;
    return reduce(x, ot_map2(&x->b, OT_ROW_KlTerm, 0, 0, x->z, t), n);
}

/* pos_weight: a number, or a list as long as the last axis. */
static ot_value *pos_weight(ctx *x)
{
    const ot_param *w = ot_thing_find(x->loss, "pos_weight");
    if (!w) return NULL;
    if (!w->n) return num(x, w->num);
    float *v = ot_graph_alloc(x->p->graph, (size_t)w->n * sizeof *v);
    for (int i = 0; i < w->n && v; i++) v[i] = (float)w->list[i];
    int last = x->z->shape.rank - 1;
    if (w->n != 1 && (last < 0 || x->z->shape.dim[last] != w->n)) return fail(x, OT_E_USAGE, "pos_weight does not fit the last axis"), NULL;
    ot_value *k = v ? ot_graph_const(x->p->graph, "pos_weight", OT_F32, &(ot_shape){ .rank = 1, .dim = { w->n } }, v) : NULL;
    return k ? ot_cast(&x->b, k, x->z->dtype) : NULL;
}

static void binary_accuracy(ctx *x, ot_value *t, double threshold)
{
    ot_plan *p = x->p;
    if (x->c->want != OT_WANT_EVAL || p->correct || !t) return;
    ot_value *yes = ot_map2(&x->b, OT_ROW_Greater, 0, 0, x->z, num(x, threshold));
    ot_value *is = ot_map2(&x->b, OT_ROW_Greater, 0, 0, t, num(x, 0.5));
    p->counted_of = x->out->name;
    p->correct = sum_all(x, ot_cast(&x->b, ot_map2(&x->b, OT_ROW_Equal, 0, 0, yes, is), OT_F32));
    p->counted = ot_scalar(&x->b, OT_F32, (double)ot_numel(&x->z->shape));
    ot_plan_keep(p, p->correct);
    ot_plan_keep(p, p->counted);
}

/* -(w y log s(z) + (1-y) log(1-s(z))) = (1-y) z + (1 + (w-1) y) softplus(-z) */
static ot_value *bce_with_logits(ctx *x)
{
    ot_value *t = like_output(x), *w = pos_weight(x);
    binary_accuracy(x, t, 0);
    if (!w) return reduce(x, ot_map2(&x->b, OT_ROW_BceWithLogits, 0, 0, x->z, t), 0);
    ot_value *s = ot_map1(&x->b, OT_ROW_Softplus, 0, 0, ot_map1(&x->b, OT_ROW_Neg, 0, 0, x->z));
    ot_value *f = add(x, num(x, 1), mul(x, sub(x, w, num(x, 1)), t));
    return reduce(x, add(x, mul(x, sub(x, num(x, 1), t), x->z), mul(x, f, s)), 0);
}

static ot_value *bce(ctx *x)
{
    if (x->joined) return bce_with_logits(x);
    ot_value *t = like_output(x);
    binary_accuracy(x, t, 0.5);
    return reduce(x, ot_map2(&x->b, OT_ROW_Bce, 0, 0, x->z, t), 0);
}

static ot_value *output(ctx *x)
{
    char a[128];
    if (x->p->micro && ot_numel(&x->z->shape) == x->p->micro) return reduce(x, x->z, 0); /* one of each of the file's batches */
    if (ot_numel(&x->z->shape) != 1) {
        ot_fail(x->p->graph->err, OT_E_USAGE, "loss output: output '%s' has shape %s; an output that is the loss has one element", x->out->name, ot_shape_text(&x->z->shape, a));
        return NULL;
    }
    return ot_view(&x->b, x->z, &OT_SCALAR);
}

/* ---- the table ---------------------------------------------------------------- */

typedef struct loss_row {
    const char *name;
    ot_value *(*build)(ctx *x);
    const char *tail[2]; /* operators it undoes */
} loss_row;

static const loss_row losses[] = {
    { "cross_entropy", cross_entropy, { "Softmax", NULL } },
    { "nll", nll, { "LogSoftmax", NULL } },
    { "bce", bce, { "Sigmoid", NULL } },
    { "bce_with_logits", bce_with_logits, { "Sigmoid", NULL } },
    { "mse", mse, { NULL } },
    { "l1", l1, { NULL } },
    { "smooth_l1", smooth_l1, { NULL } },
    { "huber", huber, { NULL } },
    { "kl", kl, { NULL } },
    { "hinge", hinge, { NULL } },
    { "output", output, { NULL } },
};

static const loss_row *find_loss(ot_graph *g, const ot_thing *t)
{
    for (int i = 0; i < OT_LEN(losses); i++)
        if (!strcmp(losses[i].name, t->name)) return &losses[i];
    ot_fail(g->err, OT_E_INTERNAL, "loss '%s' has no formula", t->name);
    return NULL;
}

/* ---- tails --------------------------------------------------------------------- */

/* The node that makes v, behind Identity. */
static const ot_node *maker(const ot_value *v)
{
    const ot_node *n = v->producer;
    while (n && !strcmp(n->op->name, "Identity") && n->in[0]->producer) n = n->in[0]->producer;
    return n;
}

static bool is(const ot_node *n, const char *op) { return n && !strcmp(n->op->name, op); }

static int64_t attr_int(const ot_node *n, const char *name, int64_t dflt)
{
    for (const ot_attr *a = n->op->attrs; a && a->name; a++)
        if (!strcmp(a->name, name)) memcpy(&dflt, (const char *)n->attrs + a->offset, sizeof dflt);
    return dflt;
}

/* Does the tail normalise along the class axis and nothing else? */
static bool along_classes(ctx *x, const ot_node *n)
{
    const ot_shape *z = &x->out->shape;
    int             axis, classes = x->t ? class_axis(x) : -1;
    if (!ot_axis(attr_int(n, "axis", -1), z->rank, &axis) || axis != classes) return false;
    int64_t after = 1;
    for (int d = axis + 1; d < z->rank; d++) after *= z->dim[d];
    return !attr_int(n, "flatten", 0) || after == 1;
}

/* The value before the tail that `row` undoes; NULL: there is none, or tail=none. */
static ot_value *before_tail(ctx *x, const loss_row *r)
{
    const ot_node *n = maker(x->out);
    if (!strcmp(ot_thing_text(x->loss, "tail", "auto"), "none") || !n || !r->tail[0]) return NULL;
    if (!strcmp(r->name, "nll") && is(n, "Log") && is(maker(n->in[0]), "Softmax")) n = maker(n->in[0]);
    else if (!is(n, r->tail[0])) return NULL;
    return !strcmp(r->tail[0], "Sigmoid") || along_classes(x, n) ? n->in[0] : NULL;
}

/* ---- choosing ------------------------------------------------------------------- */

static bool is_target(const ot_plan *p, const ot_value *v)
{
    for (int i = 0; i < p->n_targets; i++)
        if (p->targets[i] == v) return true;
    return false;
}

/* The feed with the target of an output, which people name after it; -1: none. */
static int find_target(const ot_plan *p, const ot_config *c, const char *output)
{
    int plain = -1;
    for (int i = 0; i < c->n_feeds; i++) {
        const char *n = c->feeds[i].name;
        if (p->fed[i] && !is_target(p, p->fed[i])) continue; /* an input of the model reads it */
        if (!strncmp(n, "target_", 7) && !strcmp(n + 7, output)) return i;
        if (!strcmp(n, "target")) plain = i;
    }
    return plain;
}

static bool is_log_softmax(const ot_node *n) { return is(n, "LogSoftmax") || (is(n, "Log") && is(maker(n->in[0]), "Softmax")); }

/* The axis that a Softmax or LogSoftmax at the end normalises; -1: there is none. */
static int tail_axis(const ot_value *z)
{
    const ot_node *n = maker(z);
    int            axis;
    if (is(n, "Log")) n = maker(n->in[0]);
    return (is(n, "Softmax") || is(n, "LogSoftmax")) && ot_axis(attr_int(n, "axis", -1), z->shape.rank, &axis) ? axis : -1;
}

/* For a target of as many elements as the output: values, or shares of the classes, such as one-hot. */
static const char *choose_by_values(ctx *x, const ot_feed *f)
{
    const ot_node *n = maker(x->out);
    int            axis = tail_axis(x->out), last = x->out->shape.rank - 1;
    bool           shares = (axis == 1 && f->adds_up[0]) || (axis > 0 && axis == last && f->adds_up[1]);
    if (f->binary && is(n, "Sigmoid")) return "bce";
    if (shares) return x->axis = axis, is_log_softmax(n) ? "nll" : "cross_entropy";
    if (f->binary && is_log_softmax(n)) {
        x->hint = "it holds log-probabilities (LogSoftmax), and the 0 and 1 of a sample's target do not sum to 1. Several classes at once "
                  "need an output of scores (--loss bce_with_logits) or of Sigmoid (bce)";
        return NULL;
    }
    bool one_hot = f->adds_up[0] && last > 0 && x->out->shape.dim[1] > 1;
    if (ot_is_float(x->t->dtype)) {
        x->hint = one_hot && f->binary ? "; --loss cross_entropy takes the one-hot targets as classes" : NULL;
        return "mse";
    }
    if (one_hot) return "cross_entropy";
    if (!f->binary && !is(n, "Sigmoid") && ot_numel(&x->out->shape) == x->out->shape.dim[0]) return "mse"; /* no classes: there is one value */
    x->hint = f->binary ? "its target holds 0 and 1 in the shape of the output, which does not end in a Sigmoid: --loss bce_with_logits takes "
                          "the output as scores of yes and no, mse as values"
                        : "its target holds integers in the shape of the output: --loss mse takes them as values; class numbers would have that "
                          "shape without the class axis";
    return NULL;
}

static const char *choose(ctx *x)
{
    const ot_value *t = x->t, *z = x->out;
    const ot_node  *n = maker(z);
    if (!t) return ot_numel(&z->shape) == 1 || ot_numel(&z->shape) == x->p->micro ? "output" : NULL;
    if (ot_numel(&t->shape) == ot_numel(&z->shape)) return choose_by_values(x, &x->c->feeds[find_target(x->p, x->c, z->name)]);
    if (!ot_is_int(t->dtype)) return NULL;
    if (!is(n, "Sigmoid")) return is_log_softmax(n) ? "nll" : "cross_entropy";
    x->hint = "it ends in a Sigmoid, one probability for each class by itself, and its target holds class numbers. --loss bce takes a target "
              "of 0 and 1 in the shape of the output; class numbers need an output of scores or of Softmax (cross_entropy)";
    return NULL;
}

static ot_value *target_value(ot_plan *p, const ot_config *c, const char *output)
{
    int k = find_target(p, c, output);
    if (k < 0) return NULL;
    if (p->fed[k]) return p->fed[k]; /* another loss has the same */
    const ot_feed *f = &c->feeds[k];
    ot_value *v = ot_graph_value(p->graph, f->name, OT_INPUT, f->dtype, &f->shape);
    if (!v) return NULL;
    ot_value **list = ot_graph_alloc(p->graph, (size_t)(p->n_targets + 1) * sizeof *list);
    if (!list) return NULL;
    if (p->n_targets) memcpy(list, p->targets, (size_t)p->n_targets * sizeof *list);
    list[p->n_targets++] = v;
    p->targets = list;
    ot_graph_input(p->graph, v);
    p->fed[k] = v;
    return v;
}

static ot_value *find_output(ot_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!name || !strcmp(g->outputs[i]->name, name)) return g->outputs[i];
    ot_fail(g->err, OT_E_USAGE, "--loss %s=...: the model has no output of that name", name ? name : "");
    return NULL;
}

/* tail=softmax and its like say how the graph ends: it must. */
static bool tail_is_there(ctx *x, const loss_row *r)
{
    const char *said = ot_thing_text(x->loss, "tail", "auto");
    if (x->joined || !strcmp(said, "auto") || !strcmp(said, "none")) return true;
    ot_fail(x->p->graph->err, OT_E_USAGE, "loss %s: tail=%s: output '%s' does not end in %s along the class axis", r->name, said, x->out->name,
            r->tail[0] ? r->tail[0] : "an operator that this loss can be joined with");
    return false;
}

/* Class numbers and other integers have no gradient; the tensor they were made from may. */
static void no_float(ctx *x)
{
    const ot_node  *n = maker(x->out);
    const ot_value *before = n && n->n_in ? n->in[0] : NULL;
    if (before && ot_is_float(before->dtype))
        ot_fail(x->p->graph->err, OT_E_MODEL,
                "output '%s' is %s, made by %s: a loss needs floats. Make '%s', the tensor before it, an output of the model, and name it "
                "in --loss '%s=%s'", x->out->name, ot_dtype_name(x->out->dtype), n->op->name, before->name, before->name, x->loss->name);
    else if (x->z)
        ot_fail(x->p->graph->err, OT_E_MODEL, "output '%s' is %s: a loss needs floats; name another output in --loss OUTPUT=%s",
                x->out->name, ot_dtype_name(x->out->dtype), x->loss->name);
}

static void say_loss(const ctx *x, const loss_row *r, bool given)
{
    char how[160] = "";
    if (!given) snprintf(how, sizeof how, " (chosen; --loss names another%s)", x->hint ? x->hint : "");
    if (x->joined) ot_plan_note(x->p, "loss %s joined with the %s at output '%s'%s", r->name, maker(x->out)->op->name, x->out->name, how);
    else ot_plan_note(x->p, "loss %s on output '%s'%s", r->name, x->out->name, how);
}

/* One loss, its scalar times its weight, on output z; *plain without it.  given: NULL: what follows from target and tail. */
static ot_value *one_loss(ot_plan *p, const ot_config *c, const ot_thing *given, ot_value *z, ot_value **plain)
{
    ot_graph *g = p->graph;
    ot_thing  chosen = { 0 };
    ctx       x = { .p = p, .c = c, .b = { .graph = g }, .loss = given ? given : &chosen, .out = z, .z = z, .axis = -1 };
    x.t = target_value(p, c, x.out->name);
    if (!given && !(chosen.name = choose(&x))) {
        ot_fail(g->err, OT_E_USAGE, "no loss can be chosen for output '%s': %s", z->name,
                x.hint ? x.hint : "name one with --loss: cross_entropy (class numbers), mse, l1, bce (targets in the shape of the output), output "
                                  "(the output is the loss)");
        return NULL;
    }
    const loss_row *r = find_loss(g, x.loss);
    if (!r) return NULL;
    ot_value *before = before_tail(&x, r);
    x.joined = before != NULL;
    if (before) x.z = before;
    if (!tail_is_there(&x, r)) return NULL;
    say_loss(&x, r, given != NULL);
    if (x.z->dtype == OT_F16 || x.z->dtype == OT_BF16) x.z = ot_cast(&x.b, x.z, OT_F32);
    if (!x.z || !ot_is_float(x.z->dtype)) return no_float(&x), NULL;
    ot_value *l = *plain = r->build(&x);
    double    w = ot_thing_num(x.loss, "weight", 1);
    return l && w != 1 ? mul(&x, l, num(&x, w)) : l;
}

/* The losses by themselves. */
typedef struct singles {
    int n;
    struct { ot_value *loss; const char *output; } of[OT_HEADS];
} singles;

/* The host reads single losses where there are several. */
static void keep_singles(ot_plan *p, const singles *s)
{
    for (int i = 0; i < s->n && p->n_losses > 1; i++) {
        int kept = ot_plan_keep(p, s->of[i].loss);
        if (kept >= 0) p->head[p->n_heads++] = (ot_head){ s->of[i].output, kept };
    }
}

static ot_status add_loss(ot_plan *p, const ot_config *c, const ot_thing *given, ot_value *z, singles *all)
{
    ot_graph *g = p->graph;
    ot_build  b = { .graph = g };
    ot_value *plain = NULL, *l = z ? one_loss(p, c, given, z, &plain) : NULL;
    if (!l) return g->err->status != OT_OK ? g->err->status : OT_E_INTERNAL;
    if (all->n < OT_HEADS) all->of[all->n].loss = plain, all->of[all->n++].output = z->name;
    if (p->loss && l->dtype != p->loss->dtype) l = ot_cast(&b, l, p->loss->dtype);
    p->loss = p->loss ? ot_map2(&b, OT_ROW_Add, 0, 0, p->loss, l) : l;
    p->n_losses++;
    return g->err->status;
}

/* Running a file: the outputs asked for.  Training needs none of them. */
static ot_status outputs(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    if (c->want == OT_WANT_TRAIN || c->want == OT_WANT_GRAD) g->n_outputs = 0;
    for (int i = 0; i < c->n_wanted; i++)
        if (!find_output(g, c->wanted[i])) return g->err->status;
    return OT_OK;
}

/* One per output with a target of its own; a target that names no output is the first one's.  Without any, the first
 * output must be the loss. */
static ot_status chosen_losses(ot_plan *p, const ot_config *c, singles *all)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_outputs; i++) {
        int k = find_target(p, c, g->outputs[i]->name);
        if (k >= 0 && (i == 0 || strcmp(c->feeds[k].name, "target"))) OT_TRY(add_loss(p, c, NULL, g->outputs[i], all));
    }
    return p->loss ? OT_OK : add_loss(p, c, NULL, g->outputs[0], all);
}

/* A weight of 0 leaves an output out: what only it reaches neither trains nor decays. */
static ot_status given_losses(ot_plan *p, const ot_config *c, singles *all)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < c->n_losses; i++)
        if (ot_thing_num(&c->losses[i], "weight", 1) != 0)
            OT_TRY(add_loss(p, c, &c->losses[i], find_output(g, c->losses[i].output), all));
    return p->loss ? OT_OK : ot_fail(g->err, OT_E_USAGE, "--loss: every loss has weight 0, so nothing trains");
}

ot_status ot_pass_loss(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    if (c->want == OT_WANT_RUN) return outputs(p, c);
    if (!g->n_outputs) return ot_fail(g->err, OT_E_MODEL, "the graph has no output to put a loss on");
    singles all = { 0 };
    OT_TRY(c->n_losses ? given_losses(p, c, &all) : chosen_losses(p, c, &all));
    ot_plan_keep(p, p->loss);
    keep_singles(p, &all);
    return g->err->status != OT_OK ? g->err->status : outputs(p, c);
}
