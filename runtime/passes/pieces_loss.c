/* pieces_loss.c - softmax cross-entropy decomposed in the graph becomes one CrossEntropy, which stores neither
 * log-probabilities nor their gradient.  With l = LogSoftmax(x) along an axis, not read elsewhere:
 *
 *     NegativeLogLikelihoodLoss(l, labels)
 *     GatherElements(l, labels) along the axis, a label for every row; labels below zero count from the end
 *     sum(t l) over the axis and others, with t of the shape of l that depends on no weight: one-hot labels,
 *     probabilities
 *
 * Following masks, weights, means and signs are unchanged.  A Clip, or an epsilon, before the logarithm is another
 * function. */
#include <string.h>

#include "ops/kernels/crossentropy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/recognise.h"

/* v = LogSoftmax(x) along one axis, read once?  Then x. */
static ot_value *logits(const ot_readers *r, const ot_value *v, int *axis)
{
    const ot_node *n = v->producer;
    if (!ot_is(n, &ot_op_LogSoftmax) || !ot_recognise_reader(r, v) ||
        !ot_axis(ot_attr_get(n, "axis", 0), v->shape.rank, axis))
        return NULL;
    return ot_attr_get(n, "flatten", 0) && *axis != v->shape.rank - 1 ? NULL : n->in[0];
}

static ot_shape without(const ot_shape *s, int axis)
{
    ot_shape y = { .rank = s->rank - 1 };
    for (int d = 0; d < y.rank; d++) y.dim[d] = s->dim[d + (d >= axis)];
    return y;
}

/* The negative loss of each row, in the shape y and the type of x. */
static ot_value *minus_losses(ot_build *b, ot_value *x, ot_value *target, int axis, bool probs, const ot_shape *y)
{
    ot_cross_entropy a = { .axis = axis, .reduction = OT_REDUCTION_NONE, .probs = probs };
    ot_value *l = ot_emit(b, &ot_op_CrossEntropy, &a, OT_IN(x, target));
    return l ? ot_map1(b, OT_FN_Neg, 0, 0, ot_view(b, ot_cast(b, l, x->dtype), y)) : NULL;
}

/* Labels from -C to C-1, converted to 0 to C-1. */
static ot_value *counted_up(ot_build *b, ot_value *labels, int64_t classes)
{
    labels = ot_cast(b, labels, OT_I64);
    if (!labels) return NULL;
    ot_value *below = ot_map2(b, OT_FN_Less, 0, 0, labels, ot_scalar(b, OT_I64, 0));
    return ot_map3(b, OT_FN_Where, 0, 0, below,
                   ot_map2(b, OT_FN_Add, 0, 0, labels, ot_scalar(b, OT_I64, (double)classes)), labels);
}

static ot_value *gathered(ot_build *b, const ot_readers *r, const ot_node *n)
{
    int axis, along;
    ot_value *x = logits(r, n->in[0], &axis), *labels = n->in[1];
    if (!x || !ot_axis(ot_attr_get(n, "axis", 0), x->shape.rank, &along) || along != axis) return NULL;
    ot_shape rows = x->shape, list = without(&x->shape, axis);
    rows.dim[axis] = 1;
    if (!ot_shape_eq(&labels->shape, &rows)) return NULL;
    return minus_losses(b, x, counted_up(b, ot_view(b, labels, &list), x->shape.dim[axis]), axis, false, &rows);
}

/* The axes of a reduction as bits; 0: unknown, or none. */
static int64_t axes_of(const ot_node *n)
{
    ot_ints axes = { 0 };
    ot_error ignored = { 0 };
    int64_t set = 0;
    int rank = n->in[0]->shape.rank, at;
    if (n->n_in > 1 && n->in[1] && (!ot_is_const(n->in[1]) || ot_const_ints(n, 1, &axes, &ignored))) return 0;
    for (int i = 0; i < axes.n; i++) {
        if (!ot_axis(axes.v[i], rank, &at)) return 0;
        set |= (int64_t)1 << at;
    }
    return axes.n || ot_attr_get(n, "noop_with_empty_axes", 0) ? set : ((int64_t)1 << rank) - 1;
}

static ot_value *summed(ot_build *b, const ot_readers *r, const ot_node *n)
{
    const ot_node *mul = n->in[0]->producer;
    int64_t axes = axes_of(n), rest[OT_MAX_RANK];
    int axis, count = 0;
    if (!ot_is(mul, &ot_op_Mul) || !ot_recognise_reader(r, n->in[0])) return NULL;
    for (int i = 0; i < 2; i++) {
        ot_value *x = logits(r, mul->in[i], &axis), *t = mul->in[1 - i];
        if (!x || !(axes >> axis & 1) || t->mark || !ot_shape_eq(&t->shape, &x->shape)) continue;
        ot_shape rows = x->shape;
        rows.dim[axis] = 1;
        for (int d = 0; d < x->shape.rank; d++)
            if (axes >> d & 1 && d != axis) rest[count++] = d;
        ot_value *l = minus_losses(b, x, t, axis, true, &rows);
        return l ? ot_view(b, ot_sum(b, l, rest, count, true), &n->out[0]->shape) : NULL;
    }
    return NULL;
}

static ot_value *likelihood(ot_build *b, const ot_readers *r, const ot_node *n)
{
    int axis;
    ot_value *x = logits(r, n->in[0], &axis), *in[3] = { x, n->in[1], ot_node_in(n, 2) };
    return x && axis == 1 ? ot_emit(b, &ot_op_SoftmaxCrossEntropyLoss, n->attrs, in, n->n_in) : NULL;
}

/* value->mark: depends on a weight. */
static void mark_trained(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = g->values[i]->role == OT_WEIGHT;
    for (const ot_node *n = g->first; n; n = n->next) {
        bool trained = false;
        for (int i = 0; i < n->n_in; i++) trained |= n->in[i] && n->in[i]->mark;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i]) n->out[i]->mark = trained;
    }
}

ot_status ot_recognise_losses(ot_graph *g)
{
    ot_readers readers;
    bool any = false;
    for (const ot_node *n = g->first; n && !any; n = n->next) any = n->op == &ot_op_LogSoftmax;
    if (!any) return OT_OK;
    OT_TRY(ot_recognise_readers(g, &readers));
    mark_trained(g);
    for (ot_node *n = g->first, *next; n && g->err->status == OT_OK; n = next) {
        ot_build b = { .graph = g, .node = n };
        ot_value *y = NULL, *v = n->n_out ? n->out[0] : NULL;
        next = n->next;
        if (!v || !ot_is_float(v->dtype)) continue;
        g->cursor = n;
        if (ot_is(n, &ot_op_GatherElements)) y = gathered(&b, &readers, n);
        else if (ot_is(n, &ot_op_ReduceSum)) y = summed(&b, &readers, n);
        else if (ot_is(n, &ot_op_NegativeLogLikelihoodLoss)) y = likelihood(&b, &readers, n);
        g->cursor = NULL;
        if (y && y->dtype == v->dtype && ot_shape_eq(&y->shape, &v->shape)) ot_recognise_take_over(g, v, y);
    }
    return g->err->status;
}
