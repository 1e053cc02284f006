/* losses.c - part of the pass `loss`: the formulas, a row of the table each.
 *
 * Source  PyTorch's formulas, defaults and names of keys; what it does not have says where it is from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/kernels/crossentropy.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/loss.h"

/* ---- short forms --------------------------------------------------------------- */

ot_value *ot_loss_sum_all(ot_loss *x, ot_value *v)
{
    int64_t axes[OT_MAX_RANK];
    if (!v) return NULL;
    for (int d = 0; d < v->shape.rank; d++) axes[d] = d;
    return ot_sum(&x->b, v, axes, v->shape.rank, false);
}

ot_value *ot_loss_sum_axis(ot_loss *x, ot_value *v, int axis, bool keepdims)
{
    int64_t one = axis;
    return v ? ot_sum(&x->b, v, &one, 1, keepdims) : NULL;
}

ot_value *ot_loss_reduce(ot_loss *x, ot_value *v, double count)
{
    if (!v) return NULL;
    bool sum = !strcmp(ot_spec_text(x->how, "reduction", "mean"), "sum");
    if (count == 0) count = (double)ot_numel(&v->shape);
    ot_value *s = ot_loss_sum_all(x, v);
    return sum ? s : mul(x, s, num(x, count ? 1 / count : NAN));
}

ot_status ot_loss_fail(ot_loss *x, ot_status s, const char *what)
{
    return ot_fail(x->p->graph->err, s, "loss %s on output '%s': %s", x->how->name, x->out->name, what);
}

ot_value *ot_loss_target(ot_loss *x)
{
    char a[128], c[128];
    if (!x->t) return ot_loss_fail(x, OT_E_DATA, "the data has no target"), NULL;
    if (ot_numel(&x->t->shape) != ot_numel(&x->z->shape)) {
        ot_fail(x->p->graph->err, OT_E_DATA, "loss %s: the target is %s, output '%s' is %s; both need the same number of elements", x->how->name,
                ot_shape_text(&x->t->shape, a), x->out->name, ot_shape_text(&x->z->shape, c));
        return NULL;
    }
    return ot_cast(&x->b, ot_view(&x->b, x->t, &x->z->shape), x->z->dtype);
}

ot_shape ot_loss_without(const ot_shape *s, int axis)
{
    ot_shape r = { .rank = 0 };
    for (int d = 0; d < s->rank; d++)
        if (d != axis) r.dim[r.rank++] = s->dim[d];
    return r;
}

ot_value *ot_loss_other(ot_loss *x, const char *key)
{
    const ot_graph *g = x->p->graph;
    const char     *name = ot_spec_text(x->how, key, "");
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i]->name, name)) {
            if (ot_shape_eq(&g->outputs[i]->shape, &x->out->shape)) return ot_cast(&x->b, ot_loss_batch_first(x, g->outputs[i]), x->z->dtype);
            return ot_loss_fail(x, OT_E_MODEL, "the output that it is compared with has another shape"), NULL;
        }
    ot_fail(g->err, OT_E_USAGE, "loss %s: %s=%s: the model has no output of that name", x->how->name, key, name);
    return NULL;
}

/* ---- classes -------------------------------------------------------------------- */

static bool fits_axis(const ot_shape *t, const ot_shape *z, int axis)
{
    ot_shape r = ot_loss_without(z, axis), u = ot_loss_without(t, t->rank == z->rank && t->dim[axis] == 1 ? axis : -1);
    return ot_shape_eq(&u, &r);
}

/* Both axis 1 and the last could hold the classes: what made the output says which. */
static int choose_axis(ot_loss *x)
{
    const ot_shape *z = &x->z->shape;
    const ot_node  *by = NULL;
    int             last = z->rank - 1, axis = x->tail.axis;
    char            why[300], text[128];
    if (axis == 1 || axis == last) snprintf(why, sizeof why, "the %s at the end normalises it", ot_tail_name(&x->tail));
    else if (x->z == x->out && ((axis = ot_made_axis(x->out, &by)) == 1 || axis == last))
        snprintf(why, sizeof why, "%s '%.200s' makes it", by->op->name, by->name);
    else if ((axis = z->rank == 3 ? last : 1) == last) snprintf(why, sizeof why, "as usual for sequences");
    else snprintf(why, sizeof why, "as in PyTorch");
    ot_plan_note(x->p, "output '%s' is %s: its classes may be axis 1 or axis %d; axis %d is taken (%s). class_axis=%d in --loss takes the other",
                 x->out->name, ot_shape_text(z, text), last, axis, why, axis == 1 ? last : 1);
    return axis;
}

static int find_axis(ot_loss *x)
{
    const ot_shape *z = &x->z->shape, *t = &x->t->shape;
    int             last = z->rank - 1, axis = -1;
    char            a[128], c[128];
    if (ot_spec_find(x->how, "class_axis")) {
        if (!ot_axis((int64_t)ot_spec_num(x->how, "class_axis", 1), z->rank, &axis)) ot_loss_fail(x, OT_E_USAGE, "class_axis is out of range");
        return axis;
    }
    bool same = ot_numel(t) == ot_numel(z);
    if (z->rank < 3 && (ot_is_float(x->t->dtype) || same)) return last > 0 ? 1 : 0;
    if (ot_is_float(x->t->dtype) || same) { /* shares of the classes */
        bool first = x->feed && x->feed->adds_up[0], end = x->feed && x->feed->adds_up[1];
        if (first != end) return first ? 1 : last;
        return first && z->dim[1] == z->dim[last] ? choose_axis(x) : x->tail.axis > 0 ? x->tail.axis : 1;
    }
    bool first = z->rank > 1 && fits_axis(t, z, 1), end = z->rank && fits_axis(t, z, last);
    if (first && end && last > 1 && z->dim[1] > 1) return choose_axis(x);
    if (first || end) return first ? 1 : last;
    ot_fail(x->p->graph->err, OT_E_DATA, "loss %s: class numbers of shape %s do not fit output '%s' of shape %s along any class axis",
            x->how->name, ot_shape_text(t, a), x->out->name, ot_shape_text(z, c));
    return -1;
}

int ot_loss_axis(ot_loss *x)
{
    if (x->axis < 0) x->axis = find_axis(x);
    return x->axis;
}

bool ot_loss_ignored(const ot_loss *x, int64_t *label)
{
    const ot_param *given = ot_spec_find(x->how, "ignore_index");
    *label = given && !isnan(given->num) ? (int64_t)given->num : OT_IGNORED;
    return (given && !isnan(given->num)) || (!given && x->feed && x->feed->ignores);
}

ot_value *ot_loss_class_weights(ot_loss *x, int64_t classes)
{
    const ot_param *w = ot_spec_find(x->how, "class_weights");
    if (!w) return NULL;
    if (w->n != classes) {
        ot_fail(x->p->graph->err, OT_E_USAGE, "loss %s: class_weights has %d numbers, output '%s' has %lld classes", x->how->name, w->n,
                x->out->name, (long long)classes);
        return NULL;
    }
    float *v = ot_graph_alloc(x->p->graph, (size_t)w->n * sizeof *v);
    for (int i = 0; i < w->n && v; i++) v[i] = (float)w->list[i];
    ot_value *k = v ? ot_graph_const(x->p->graph, "class_weights", OT_F32, &(ot_shape){ .rank = 1, .dim = { w->n } }, v) : NULL;
    return k ? ot_cast(&x->b, k, x->z->dtype) : NULL;
}

ot_value *ot_loss_labels(ot_loss *x, int axis)
{
    ot_shape kept = x->z->shape;
    kept.dim[axis] = 1;
    return ot_cast(&x->b, ot_view(&x->b, x->t, &kept), OT_I64);
}

ot_value *ot_loss_is_class(ot_loss *x, int axis)
{
    const ot_shape *s = &x->z->shape;
    int64_t        *iota = ot_graph_alloc(x->p->graph, (size_t)s->dim[axis] * sizeof *iota);
    if (!iota) return NULL;
    for (int64_t i = 0; i < s->dim[axis]; i++) iota[i] = i;
    ot_shape along = { .rank = s->rank };
    for (int d = 0; d < s->rank; d++) along.dim[d] = d == axis ? s->dim[d] : 1;
    return row2(x, OT_FN_Equal, ot_graph_const(x->p->graph, "classes", OT_I64, &along, iota), ot_loss_labels(x, axis));
}

static void keep_counts(ot_loss *x, ot_value *right, ot_value *of)
{
    x->right = right;
    x->of = of;
    if (!x->p->correct) x->p->counted_of = x->out->name, x->p->correct = right, x->p->counted = of; /* the first */
    ot_plan_keep(x->p, right);
    ot_plan_keep(x->p, of);
}

/* Which classes the samples' largest outputs are: counts those that match the target. */
void ot_loss_accuracy(ot_loss *x, int axis)
{
    bool numbers = x->t && ot_is_int(x->t->dtype) && (x->z->shape.dim[axis] == 1 || ot_numel(&x->t->shape) < ot_numel(&x->z->shape));
    if (x->c->want != OT_WANT_EVAL || !numbers) return;
    ot_value *label = ot_loss_labels(x, axis), *is = ot_loss_is_class(x, axis);
    ot_value *top = ot_emit(&x->b, &ot_op_Reduce, &(ot_reduce){ .kind = OT_REDUCE_MAX, .axes = (int64_t)1 << axis, .keepdims = 1 }, OT_IN(x->z));
    ot_value *hit = row2(x, OT_FN_And, is, row2(x, OT_FN_Equal, x->z, top));
    ot_value *right = ot_loss_sum_axis(x, ot_cast(&x->b, hit, OT_F32), axis, false);
    ot_value *counts = row2(x, OT_FN_GreaterOrEqual, label, ot_scalar(&x->b, OT_I64, 0));
    int64_t   ignored;
    if (ot_loss_ignored(x, &ignored)) counts = row2(x, OT_FN_NotEqual, label, ot_scalar(&x->b, OT_I64, (double)ignored));
    counts = ot_cast(&x->b, counts, OT_F32);
    right = mul(x, right, ot_view(&x->b, counts, right ? &right->shape : NULL));
    keep_counts(x, ot_loss_sum_all(x, right), ot_loss_sum_all(x, counts));
}

ot_value *ot_loss_cross_entropy(ot_loss *x, int axis, ot_value *weights, int64_t reduction)
{
    const ot_shape  *z = &x->z->shape;
    bool             one_hot = z->dim[axis] > 1 && ot_numel(&x->t->shape) == ot_numel(z), probs = one_hot || ot_is_float(x->t->dtype);
    ot_cross_entropy a = { .axis = axis, .probs = probs, .log_input = !strcmp(x->how->name, "nll") && !x->joined,
                           .label_smoothing = ot_spec_num(x->how, "label_smoothing", 0), .reduction = reduction };
    a.has_ignore = ot_loss_ignored(x, &a.ignore_index);
    if (!a.has_ignore) a.ignore_index = 0;
    ot_shape  flat = ot_loss_without(z, axis);
    ot_value *t = probs ? ot_loss_target(x) : ot_view(&x->b, x->t, &flat);
    return weights ? ot_emit(&x->b, &ot_op_CrossEntropy, &a, OT_IN(x->z, t, weights)) : ot_emit(&x->b, &ot_op_CrossEntropy, &a, OT_IN(x->z, t));
}

static ot_value *over_classes(ot_loss *x)
{
    if (!x->t) return ot_loss_fail(x, OT_E_DATA, "the data has no target"), NULL;
    int axis = ot_loss_axis(x);
    if (axis < 0) return NULL;
    ot_value *w = ot_loss_class_weights(x, x->z->shape.dim[axis]);
    ot_loss_accuracy(x, axis);
    return ot_loss_cross_entropy(x, axis, w, strcmp(ot_spec_text(x->how, "reduction", "mean"), "sum") ? OT_REDUCTION_MEAN : OT_REDUCTION_SUM);
}

/* ---- elements -------------------------------------------------------------------- */

static ot_value *difference(ot_loss *x) { return sub(x, x->z, ot_loss_target(x)); }
static ot_value *of_row(ot_loss *x, int r, double p, ot_value *v) { return ot_loss_reduce(x, ot_map1(&x->b, r, p, 0, v), 0); }

static ot_value *mse(ot_loss *x) { return of_row(x, OT_FN_Square, 0, difference(x)); }
static ot_value *l1(ot_loss *x) { return of_row(x, OT_FN_Abs, 0, difference(x)); }
static ot_value *huber(ot_loss *x) { return of_row(x, OT_FN_Huber, ot_spec_num(x->how, "delta", 1), difference(x)); }

static ot_value *smooth_l1(ot_loss *x)
{
    double beta = ot_spec_num(x->how, "beta", 1);
    return beta == 0 ? l1(x) : of_row(x, OT_FN_SmoothL1, beta, difference(x));
}

/* KLDivLoss with reduction='batchmean'. */
static ot_value *kl(ot_loss *x)
{
    ot_value *t = ot_loss_target(x);
    double    n = x->z->shape.rank ? (double)x->z->shape.dim[0] : 1;
    if (ot_spec_flag(x->how, "log_target", false)) return ot_loss_reduce(x, mul(x, row(x, OT_FN_Exp, t), sub(x, t, x->z)), n);
    return ot_loss_reduce(x, row2(x, OT_FN_KlTerm, x->z, t), n);
}

/* pos_weight: a number, or a list as long as the last axis. */
static ot_value *pos_weight(ot_loss *x)
{
    const ot_param *w = ot_spec_find(x->how, "pos_weight");
    if (!w) return NULL;
    if (!w->n) return num(x, w->num);
    float *v = ot_graph_alloc(x->p->graph, (size_t)w->n * sizeof *v);
    for (int i = 0; i < w->n && v; i++) v[i] = (float)w->list[i];
    int last = x->z->shape.rank - 1;
    if (w->n != 1 && (last < 0 || x->z->shape.dim[last] != w->n)) return ot_loss_fail(x, OT_E_USAGE, "pos_weight does not fit the last axis"), NULL;
    ot_value *k = v ? ot_graph_const(x->p->graph, "pos_weight", OT_F32, &(ot_shape){ .rank = 1, .dim = { w->n } }, v) : NULL;
    return k ? ot_cast(&x->b, k, x->z->dtype) : NULL;
}

void ot_loss_binary_accuracy(ot_loss *x, ot_value *t, double threshold)
{
    if (x->c->want != OT_WANT_EVAL || !t) return;
    ot_value *yes = row2(x, OT_FN_Greater, x->z, num(x, threshold)), *is = row2(x, OT_FN_Greater, t, num(x, 0.5));
    ot_value *right = ot_loss_sum_all(x, ot_cast(&x->b, row2(x, OT_FN_Equal, yes, is), OT_F32));
    keep_counts(x, right, ot_scalar(&x->b, OT_F32, (double)ot_numel(&x->z->shape)));
}

/* -(w y log s(z) + (1-y) log(1-s(z))) = (1-y) z + (1 + (w-1) y) softplus(-z) */
static ot_value *bce_with_logits(ot_loss *x)
{
    ot_value *t = ot_loss_target(x), *w = pos_weight(x);
    ot_loss_binary_accuracy(x, t, 0);
    if (!w) return ot_loss_reduce(x, row2(x, OT_FN_BceWithLogits, x->z, t), 0);
    ot_value *s = row(x, OT_FN_Softplus, row(x, OT_FN_Neg, x->z));
    ot_value *f = add(x, num(x, 1), mul(x, sub(x, w, num(x, 1)), t));
    return ot_loss_reduce(x, add(x, mul(x, sub(x, num(x, 1), t), x->z), mul(x, f, s)), 0);
}

static ot_value *bce(ot_loss *x)
{
    if (x->joined) return bce_with_logits(x);
    ot_value *t = ot_loss_target(x);
    ot_loss_binary_accuracy(x, t, 0.5);
    return ot_loss_reduce(x, row2(x, OT_FN_Bce, x->z, t), 0);
}

static ot_value *output(ot_loss *x)
{
    char a[128];
    if (x->p->micro && ot_numel(&x->z->shape) == x->p->micro) return ot_loss_reduce(x, x->z, 0); /* one of each of the file's batches */
    if (ot_numel(&x->z->shape) != 1) {
        ot_fail(x->p->graph->err, OT_E_USAGE, "loss output: output '%s' has shape %s; an output that is the loss has one element", x->out->name, ot_shape_text(&x->z->shape, a));
        return NULL;
    }
    return ot_view(&x->b, x->z, &OT_SCALAR);
}

/* ---- the table -------------------------------------------------------------------- */

#define SOFTMAX     (1u << OT_TAIL_SOFTMAX)
#define LOG_SOFTMAX (1u << OT_TAIL_LOG_SOFTMAX)
#define SIGMOID     (1u << OT_TAIL_SIGMOID)

static const char scores[] = "scores, one for each class", logs[] = "log-probabilities", chances[] = "probabilities",
                  each[] = "scores of yes and no";

static const ot_loss_row losses[] = {
    /* name              formula               joined with            contradicted by        takes, classes last, refused then */
    { "cross_entropy",   over_classes,         SOFTMAX,               SIGMOID,               scores, false, false },
    { "nll",             over_classes,         LOG_SOFTMAX,           SOFTMAX | SIGMOID,     logs, false, true },
    { "bce",             bce,                  SIGMOID,               LOG_SOFTMAX,           chances, false, false },
    { "bce_with_logits", bce_with_logits,      SIGMOID,               SOFTMAX | LOG_SOFTMAX, each, false, false },
    { "mse",             mse,                  0,                     0,                     NULL, false, false },
    { "l1",              l1,                   0,                     0,                     NULL, false, false },
    { "smooth_l1",       smooth_l1,            0,                     0,                     NULL, false, false },
    { "huber",           huber,                0,                     0,                     NULL, false, false },
    { "kl",              kl,                   0,                     SOFTMAX | SIGMOID,     logs, false, true },
    { "hinge",           ot_loss_hinge,        0,                     0,                     NULL, false, false },
    { "focal",           ot_loss_focal,        SOFTMAX | LOG_SOFTMAX | SIGMOID, 0,           NULL, false, false },
    { "dice",            ot_loss_dice,         0,                     0,                     NULL, false, false },
    { "ctc",             ot_loss_ctc,          SOFTMAX | LOG_SOFTMAX, SIGMOID,               logs, true, false },
    { "cosine",          ot_loss_cosine,       0,                     0,                     NULL, false, false },
    { "triplet",         ot_loss_triplet,      0,                     0,                     NULL, false, false },
    { "contrastive",     ot_loss_contrastive,  0,                     0,                     NULL, false, false },
    { "poisson_nll",     ot_loss_poisson_nll,  0,                     0,                     NULL, false, false },
    { "gaussian_nll",    ot_loss_gaussian_nll, 0,                     0,                     NULL, false, false },
    { "output",          output,               0,                     0,                     NULL, false, false },
};

const ot_loss_row *ot_loss_find(const char *name)
{
    for (int i = 0; i < OT_LEN(losses); i++)
        if (!strcmp(losses[i].name, name)) return &losses[i];
    return NULL;
}
