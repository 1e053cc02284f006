/* loss.c - terms that several formulas share: targets, class axes, class weights, accuracy. */
#include "runtime/losses/loss.h"

#include <stdio.h>
#include <string.h>

#include "ops/kernels/crossentropy.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/topkindex.h"

const ot_key ot_loss_keys[] = { OT_LOSS_KEYS, OT_KEYS_END };

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
    bool sum = ot_spec_is(x->how, "reduction", "sum");
    if (count == 0) count = (double)ot_numel(&v->shape);
    ot_value *s = ot_loss_sum_all(x, v);
    return sum ? s : mul(x, s, num(x, count != 0 ? 1 / count : (double)NAN));
}

ot_status ot_loss_fail(ot_loss *x, ot_status s, const char *what)
{
    return ot_fail(x->b.graph->err, s, "loss %s on output '%s': %s", x->how->name, x->out->name, what);
}

ot_value *ot_loss_target(ot_loss *x)
{
    char a[128], c[128];
    if (!x->t) {
        ot_loss_fail(x, OT_E_DATA, "the data has no target");
        return NULL;
    }
    if (ot_numel(&x->t->shape) != ot_numel(&x->z->shape)) {
        ot_fail(x->b.graph->err, OT_E_DATA,
                "loss %s: the target is %s, but output '%s' is %s; the numbers of "
                "elements must be equal",
                x->how->name, ot_shape_text(&x->t->shape, a), x->out->name, ot_shape_text(&x->z->shape, c));
        return NULL;
    }
    return ot_cast(&x->b, ot_view(&x->b, x->t, &x->z->shape), x->z->dtype);
}

static ot_shape without_axis(const ot_shape *s, int axis)
{
    ot_shape r = { .rank = 0 };
    for (int d = 0; d < s->rank; d++)
        if (d != axis) r.dim[r.rank++] = s->dim[d];
    return r;
}

ot_value *ot_loss_batch_first(ot_loss *x, ot_value *v)
{
    int at = x->batch_axis, perm[OT_MAX_RANK] = { at }, n = 1;
    if (!v || !at || at >= v->shape.rank) return v;
    for (int d = 0; d < v->shape.rank; d++)
        if (d != at) perm[n++] = d;
    return ot_transpose(&x->b, v, perm);
}

ot_value *ot_loss_other(ot_loss *x, const char *key)
{
    const ot_graph *g = x->b.graph;
    const char *name = ot_spec_text(x->how, key);
    for (int i = 0; i < g->n_outputs; i++)
        if (name && !strcmp(g->outputs[i]->name, name)) {
            if (ot_shape_eq(&g->outputs[i]->shape, &x->out->shape))
                return ot_cast(&x->b, ot_loss_batch_first(x, g->outputs[i]), x->z->dtype);
            ot_loss_fail(x, OT_E_MODEL, "the output to compare with has another shape");
            return NULL;
        }
    ot_fail(g->err, OT_E_USAGE, "loss %s: %s=%s: the model has no output of that name", x->how->name, key,
            name ? name : "");
    return NULL;
}

/* ---- classes -------------------------------------------------------------------- */

static bool fits_axis(const ot_shape *t, const ot_shape *z, int axis)
{
    ot_shape r = without_axis(z, axis), u = without_axis(t, t->rank == z->rank && t->dim[axis] == 1 ? axis : -1);
    return ot_shape_eq(&u, &r);
}

/* If both axis 1 and the last could be the class axis, the operator that made the output decides. */
static int choose_axis(ot_loss *x)
{
    const ot_shape *z = &x->z->shape;
    const ot_node *by = NULL;
    int last = z->rank - 1, axis = x->tail.axis;
    char why[300], text[128];
    if (axis == 1 || axis == last) snprintf(why, sizeof why, "normalised by the %s at the end", ot_tail_name(&x->tail));
    else if (x->z == x->out && ((axis = ot_made_axis(x->out, &by)) == 1 || axis == last))
        snprintf(why, sizeof why, "produced by %s '%.200s'", by->op->name, by->name);
    else if ((axis = ot_loss_default_axis(z->rank)) == last) snprintf(why, sizeof why, "the default for sequences");
    else snprintf(why, sizeof why, "the default in PyTorch");
    ot_find(x->findings, OT_FINDING_NOTE, NULL, NULL,
            "output '%s' is %s: axis 1 or axis %d could be the classes; axis %d is used (%s); set class_axis=%d in "
            "--loss for the other",
            x->out->name, ot_shape_text(z, text), last, axis, why, axis == 1 ? last : 1);
    return axis;
}

static int find_axis(ot_loss *x)
{
    const ot_shape *z = &x->z->shape, *t = &x->t->shape;
    int last = z->rank - 1, axis = -1;
    char a[128], c[128];
    if (ot_spec_find(x->how, "class_axis")) {
        if (!ot_axis((int64_t)ot_spec_num(x->how, "class_axis"), z->rank, &axis))
            ot_loss_fail(x, OT_E_USAGE, "class_axis is out of range");
        return axis;
    }
    bool same = ot_numel(t) == ot_numel(z);
    if (z->rank < 3 && (ot_is_float(x->t->dtype) || same)) return last > 0 ? 1 : 0;
    if (ot_is_float(x->t->dtype) || same) { /* probabilities of the classes */
        bool first = x->adds_up[0], end = x->adds_up[1];
        if (first != end) return first ? 1 : last;
        return first && z->dim[1] == z->dim[last] ? choose_axis(x) : x->tail.axis > 0 ? x->tail.axis : 1;
    }
    bool first = z->rank > 1 && fits_axis(t, z, 1), end = z->rank && fits_axis(t, z, last);
    if (first && end && last > 1 && z->dim[1] > 1) return choose_axis(x);
    if (first || end) return first ? 1 : last;
    ot_fail(x->b.graph->err, OT_E_DATA,
            "loss %s: class numbers of shape %s do not fit output '%s' of shape %s along any class axis", x->how->name,
            ot_shape_text(t, a), x->out->name, ot_shape_text(z, c));
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
    return (given && !isnan(given->num)) || (!given && x->ignores);
}

bool ot_loss_found(ot_loss *x, const ot_param *w)
{
    if (w->n || strcmp(w->text, OT_LOSS_AUTO)) return true;
    ot_fail(x->b.graph->err, OT_E_USAGE,
            "loss %s: %s=auto counts the labels of a training set, and there is none here; give the numbers: %s=[...]",
            x->how->name, w->key, w->key);
    return false;
}

ot_value *ot_loss_by_class(ot_loss *x, const ot_param *w, int64_t classes)
{
    bool counted = !strcmp(w->text, OT_LOSS_AUTO); /* up to the last class that occurs */
    if (w->n != classes && !(counted && w->n < classes)) {
        ot_fail(x->b.graph->err, OT_E_USAGE, "loss %s: %s has %d values, but output '%s' has %lld classes",
                x->how->name, w->key, w->n, x->out->name, (long long)classes);
        return NULL;
    }
    x->classes = classes;
    float *v = ot_graph_alloc(x->b.graph, (size_t)classes * sizeof *v);
    for (int i = 0; i < classes && v; i++) v[i] = i < w->n ? (float)w->list[i] : 1;
    ot_value *k =
        v ? ot_graph_const(x->b.graph, w->key, OT_F32, &(ot_shape){ .rank = 1, .dim = { classes } }, v) : NULL;
    return k ? ot_cast(&x->b, k, x->z->dtype) : NULL;
}

ot_value *ot_loss_class_weights(ot_loss *x, int64_t classes)
{
    const ot_param *w = ot_spec_find(x->how, "class_weights");
    return w && ot_loss_found(x, w) ? ot_loss_by_class(x, w, classes) : NULL;
}

ot_value *ot_loss_labels(ot_loss *x, int axis)
{
    ot_shape kept = x->z->shape;
    kept.dim[axis] = 1;
    return ot_cast(&x->b, ot_view(&x->b, x->t, &kept), OT_I64);
}

/* 0, 1, ... along the axis, in rows that can be compared with the output. */
static ot_value *class_numbers(ot_loss *x, int axis)
{
    const ot_shape *s = &x->z->shape;
    int64_t *iota = ot_graph_alloc(x->b.graph, (size_t)s->dim[axis] * sizeof *iota);
    if (!iota) return NULL;
    for (int64_t i = 0; i < s->dim[axis]; i++) iota[i] = i;
    ot_shape along = { .rank = s->rank };
    for (int d = 0; d < s->rank; d++) along.dim[d] = d == axis ? s->dim[d] : 1;
    return ot_graph_const(x->b.graph, "classes", OT_I64, &along, iota);
}

ot_value *ot_loss_is_class(ot_loss *x, int axis)
{
    return row2(x, OT_FN_Equal, class_numbers(x, axis), ot_loss_labels(x, axis));
}

ot_value *ot_loss_counts(ot_loss *x, int axis)
{
    int64_t ignored;
    if (!ot_loss_ignored(x, &ignored)) return NULL;
    return row2(x, OT_FN_NotEqual, ot_loss_labels(x, axis), ot_scalar(&x->b, OT_I64, (double)ignored));
}

ot_value *ot_loss_label_weights(ot_loss *x, int axis, ot_value *w)
{
    ot_shape along = { .rank = x->z->shape.rank }, kept = x->z->shape;
    for (int d = 0; d < along.rank; d++) along.dim[d] = d == axis ? x->z->shape.dim[d] : 1;
    kept.dim[axis] = 1;
    ot_value *counts = ot_loss_counts(x, axis);
    if (!w && counts) return ot_cast(&x->b, counts, x->z->dtype);
    if (!w) return ot_expand(&x->b, num(x, 1), &kept);
    ot_value *each = where(x, ot_loss_is_class(x, axis), ot_view(&x->b, w, &along), num(x, 0));
    each = ot_loss_sum_axis(x, each, axis, true);
    return counts ? where(x, counts, each, num(x, 0)) : each;
}

ot_value *ot_loss_weighted(ot_loss *x, ot_value *v, ot_value *each)
{
    ot_value *sum = ot_loss_sum_all(x, v), *by = ot_loss_sum_all(x, each);
    if (ot_spec_is(x->how, "reduction", "sum")) return sum;
    if (x->of) x->divisor = by;
    if (x->blank) by = where(x, row2(x, OT_FN_Greater, by, num(x, 0)), by, num(x, 1)); /* nothing counts: 0 */
    return quo(x, sum, by);
}

bool ot_loss_no_labels(ot_loss *x)
{
    if (!ot_spec_find(x->how, "ignore_index")) return true;
    ot_loss_fail(x, OT_E_USAGE,
                 "ignore_index is for class numbers, but this target has a value for each element of the output");
    return false;
}

static ot_value *reduce(ot_loss *x, int64_t kind, ot_value *v, int axis)
{
    return ot_emit(&x->b, &ot_op_Reduce, &(ot_reduce){ .kind = kind, .axes = (int64_t)1 << axis, .keepdims = 1 },
                   OT_IN(v));
}

/* Is the label the first class with the largest output?  Nothing is, where an output is NaN. */
static ot_value *is_largest(ot_loss *x, int axis, ot_value *label)
{
    ot_value *at = ot_emit(&x->b, &ot_op_TopKIndex, &(ot_topk_index){ .axis = axis, .k = 1 }, OT_IN(x->z)),
             *most = reduce(x, OT_REDUCE_MAX, x->z, axis);
    return mul(x, ot_cast(&x->b, row2(x, OT_FN_Equal, label, at), OT_F32),
               ot_cast(&x->b, row2(x, OT_FN_Equal, most, most), OT_F32));
}

/* Compares the class of each sample's largest output with the target, and counts matches. */
void ot_loss_accuracy(ot_loss *x, int axis)
{
    bool numbers = x->t && ot_is_int(x->t->dtype) &&
                   (x->z->shape.dim[axis] == 1 || ot_numel(&x->t->shape) < ot_numel(&x->z->shape));
    if (!x->eval || !numbers) return;
    ot_value *label = ot_loss_labels(x, axis);
    ot_value *right = is_largest(x, axis, label);
    ot_value *counts = row2(x, OT_FN_GreaterOrEqual, label, ot_scalar(&x->b, OT_I64, 0));
    int64_t ignored;
    if (ot_loss_ignored(x, &ignored)) counts = ot_loss_counts(x, axis);
    counts = ot_cast(&x->b, counts, OT_F32);
    x->right = ot_loss_sum_all(x, mul(x, right, counts));
    x->of = ot_loss_sum_all(x, counts);
}

void ot_loss_probabilities_accuracy(ot_loss *x, int axis)
{
    if (x->z->shape.dim[axis] < 2 || ot_numel(&x->t->shape) != ot_numel(&x->z->shape)) return;
    x->by_class = true;
    ot_value *t = x->eval ? ot_loss_target(x) : NULL;
    if (!t) return;
    ot_value *label = ot_emit(&x->b, &ot_op_TopKIndex, &(ot_topk_index){ .axis = axis, .k = 1 }, OT_IN(t)),
             *counts = ot_cast(&x->b, row2(x, OT_FN_Greater, reduce(x, OT_REDUCE_MAX, t, axis), num(x, 0)), OT_F32);
    x->right = ot_loss_sum_all(x, mul(x, is_largest(x, axis, label), counts));
    x->of = ot_loss_sum_all(x, counts);
}

/* A mean over labels of which perhaps none counts: 0 then, without a gradient, where PyTorch's is NaN.  Labels and weights
 * take the place of those that would make it 0 / 0. */
static ot_value *mean_or_nothing(ot_loss *x, const ot_cross_entropy *a, ot_value *t, ot_value *weights)
{
    ot_value *counts = row2(x, OT_FN_NotEqual, t, ot_scalar(&x->b, t->dtype, (double)a->ignore_index));
    ot_value *any =
        row2(x, OT_FN_Greater, ot_loss_sum_all(x, ot_cast(&x->b, counts, OT_F32)), ot_scalar(&x->b, OT_F32, 0));
    ot_value *some = where(x, any, t, ot_scalar(&x->b, t->dtype, 0));
    if (weights) weights = where(x, any, weights, ot_scalar(&x->b, weights->dtype, 1));
    ot_value *loss = weights ? ot_emit(&x->b, &ot_op_CrossEntropy, a, OT_IN(x->z, some, weights))
                             : ot_emit(&x->b, &ot_op_CrossEntropy, a, OT_IN(x->z, some));
    return loss ? where(x, any, loss, ot_scalar(&x->b, loss->dtype, 0)) : NULL;
}

ot_value *ot_loss_cross_entropy(ot_loss *x, int axis, ot_value *weights, int64_t reduction)
{
    const ot_shape *z = &x->z->shape;
    bool one_hot = z->dim[axis] > 1 && ot_numel(&x->t->shape) == ot_numel(z),
         probs = one_hot || ot_is_float(x->t->dtype);
    ot_cross_entropy a = {
        .axis = axis, .probs = probs, .log_input = x->kind->logs && !x->joined, .reduction = reduction
    };
    if (ot_entry_key(x->how->entry, "label_smoothing")) a.label_smoothing = ot_spec_num(x->how, "label_smoothing");
    a.has_ignore = ot_loss_ignored(x, &a.ignore_index);
    if (!a.has_ignore) a.ignore_index = 0;
    ot_shape flat = without_axis(z, axis);
    ot_value *t = probs ? ot_loss_target(x) : ot_view(&x->b, x->t, &flat);
    if (x->blank && a.has_ignore && !probs && t && reduction == OT_REDUCTION_MEAN)
        return mean_or_nothing(x, &a, t, weights);
    return weights ? ot_emit(&x->b, &ot_op_CrossEntropy, &a, OT_IN(x->z, t, weights))
                   : ot_emit(&x->b, &ot_op_CrossEntropy, &a, OT_IN(x->z, t));
}

void ot_loss_binary_accuracy(ot_loss *x, ot_value *t, double threshold)
{
    if (!x->eval || !t) return;
    ot_value *yes = row2(x, OT_FN_Greater, x->z, num(x, threshold)), *is = row2(x, OT_FN_Greater, t, num(x, 0.5));
    ot_value *right = ot_cast(&x->b, row2(x, OT_FN_Equal, yes, is), OT_F32);
    /* NaN is above no threshold, and yet no right answer to a 0 */
    right = where(x, row(x, OT_FN_IsNaN, x->z), ot_scalar(&x->b, OT_F32, 0), right);
    x->right = ot_loss_sum_all(x, right);
    x->of = ot_scalar(&x->b, OT_F32, (double)ot_numel(&x->z->shape));
}

bool ot_loss_has_classes(const ot_loss *x)
{
    return x->t && ot_is_int(x->t->dtype) && ot_numel(&x->t->shape) < ot_numel(&x->z->shape);
}
