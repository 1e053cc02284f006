/* shares.c - finds values that are shares of 1 by the way they are computed.
 *
 * Two facts are followed from the operators that establish them: the interval that values lie in, and the sum of values
 * along an axis where it is a constant.  A Softmax has sum 1; so has x / sum(x) if no x is negative; a mean of several
 * such values, a selection between them, p beside 1 - p, and the lines of a table that have equal sums. */
#include "runtime/losses/shares.h"

#include <math.h>

enum { DEEPEST = 10, MOST_VALUES = 1 << 18, MOST_STEPS = 10000 };

/* How far a question may go: `left` is shared by all that it leads to, because a value may be read many times. */
typedef struct reach {
    int depth, *left;
} reach;

/* Takes n steps; are none left? */
static bool spend(reach r, int64_t n)
{
    *r.left = *r.left >= n ? *r.left - (int)n : -1;
    return *r.left < 0;
}

static bool ends(reach r) { return r.depth > DEEPEST || spend(r, 1); }
static reach deeper(reach r) { return (reach){ r.depth + 1, r.left }; }

static const ot_node *made_by(const ot_value *v) { return v ? v->producer : NULL; }

static bool constant(const ot_value *v, double *x)
{
    if (!v || !ot_is_const(v) || !v->data || ot_numel(&v->shape) != 1) return false;
    *x = ot_get_f64(v->data, v->dtype, 0);
    return true;
}

/* ---- the interval ------------------------------------------------------------- */

typedef struct range {
    double lo, hi;
} range;

static const range anything = { -INFINITY, INFINITY };

static range of_constant(const ot_value *v, reach at)
{
    enum { A_STEP = 64 }; /* elements */
    int64_t n = ot_numel(&v->shape);
    range r = { INFINITY, -INFINITY };
    if (n < 1 || n > MOST_VALUES || spend(at, 1 + n / A_STEP) || (!ot_is_float(v->dtype) && !ot_is_int(v->dtype)))
        return anything;
    for (int64_t i = 0; i < n; i++) {
        double x = ot_get_f64(v->data, v->dtype, i);
        if (isnan(x)) return anything;
        r.lo = fmin(r.lo, x), r.hi = fmax(r.hi, x);
    }
    return r;
}

static range of_function(const ot_node *n)
{
    static const ot_op *const share[] = { &ot_op_Sigmoid, &ot_op_Softmax, &ot_op_HardSigmoid }, *const positive[] = {
        &ot_op_Exp, &ot_op_Relu, &ot_op_Abs, &ot_op_Sqrt, &ot_op_Softplus, &ot_op_ReduceL1, &ot_op_ReduceL2
    };
    for (int i = 0; i < OT_LEN(share); i++)
        if (ot_is(n, share[i])) return (range){ 0, 1 };
    for (int i = 0; i < OT_LEN(positive); i++)
        if (ot_is(n, positive[i])) return (range){ 0, INFINITY };
    return ot_is(n, &ot_op_Tanh) ? (range){ -1, 1 } : anything;
}

static range range_of(const ot_value *v, reach at);

static range wider(range a, range b) { return (range){ fmin(a.lo, b.lo), fmax(a.hi, b.hi) }; }

/* 0 times infinity, and infinity over infinity: no bound. */
static range of_corners(range a, range b, bool over)
{
    double x[4] = { over ? a.lo / b.lo : a.lo * b.lo, over ? a.lo / b.hi : a.lo * b.hi,
                    over ? a.hi / b.lo : a.hi * b.lo, over ? a.hi / b.hi : a.hi * b.hi };
    range r = { INFINITY, -INFINITY };
    bool whole = true;
    for (int i = 0; i < 4; i++) {
        whole &= !isnan(x[i]);
        r = wider(r, (range){ x[i], x[i] });
    }
    if (a.lo >= 0 && b.lo >= 0) return (range){ 0, whole ? r.hi : (double)INFINITY };
    return whole ? r : anything;
}

static range of_two(const ot_node *n, reach at)
{
    range a = range_of(n->in[0], at), b = range_of(n->in[1], at);
    if (ot_is(n, &ot_op_Add)) return (range){ a.lo + b.lo, a.hi + b.hi };
    if (ot_is(n, &ot_op_Sub)) return (range){ a.lo - b.hi, a.hi - b.lo };
    if (ot_is(n, &ot_op_Mul)) return of_corners(a, b, false);
    return b.lo > 0 || (b.lo >= 0 && a.lo >= 0) ? of_corners(a, b, true) : anything;
}

/* Of all inputs from `first` on. */
static range of_all(const ot_node *n, int first, reach at)
{
    bool most = ot_is(n, &ot_op_Max), least = ot_is(n, &ot_op_Min), sum = ot_is(n, &ot_op_Sum);
    range r = range_of(n->in[first], at);
    for (int i = first + 1; i < n->n_in; i++) {
        if (*at.left < 0) return anything;
        range q = range_of(n->in[i], at);
        r = most    ? (range){ fmax(r.lo, q.lo), fmax(r.hi, q.hi) }
            : least ? (range){ fmin(r.lo, q.lo), fmin(r.hi, q.hi) }
            : sum   ? (range){ r.lo + q.lo, r.hi + q.hi }
                    : wider(r, q);
    }
    return r;
}

static range of_clip(const ot_node *n, reach at)
{
    range r = range_of(n->in[0], at);
    double lo = ot_clip_bound(n, 1, -INFINITY), hi = ot_clip_bound(n, 2, INFINITY);
    return isnan(lo) || isnan(hi) ? anything : (range){ fmin(fmax(r.lo, lo), hi), fmin(fmax(r.hi, lo), hi) };
}

static range range_of(const ot_value *v, reach at)
{
    const ot_node *n = made_by(v);
    if (v && ot_is_const(v) && v->data) return of_constant(v, at);
    if (!n || !n->n_in || !n->in[0] || ends(at)) return anything;
    range r = of_function(n);
    if (r.lo > anything.lo) return r;
    at = deeper(at);
    if (ot_is(n, &ot_op_Clip)) return of_clip(n, at);
    if (ot_is(n, &ot_op_Cast) && n->in[0]->dtype == OT_BOOL) return (range){ 0, 1 };
    if (ot_is(n, &ot_op_Add) || ot_is(n, &ot_op_Sub) || ot_is(n, &ot_op_Mul) || ot_is(n, &ot_op_Div))
        return of_two(n, at);
    if (ot_is(n, &ot_op_Where)) return of_all(n, 1, at);
    if (ot_is(n, &ot_op_Concat) || ot_is(n, &ot_op_Mean) || ot_is(n, &ot_op_Sum) || ot_is(n, &ot_op_Max) ||
        ot_is(n, &ot_op_Min))
        return of_all(n, 0, at);
    if (ot_is(n, &ot_op_ReduceMean) || ot_is(n, &ot_op_ReduceMax) || ot_is(n, &ot_op_ReduceMin) ||
        ot_is(n, &ot_op_Expand) || ot_mover_of(n))
        return range_of(n->in[0], at);
    if (ot_is(n, &ot_op_ReduceSum) || ot_is(n, &ot_op_Reciprocal) || ot_is(n, &ot_op_LpNormalization))
        return range_of(n->in[0], at).lo >= 0 ? (range){ 0, INFINITY } : anything;
    return anything;
}

/* ---- the sum along an axis ------------------------------------------------------- */

typedef struct share {
    int axis;
    double total; /* the sum along it, of values that are not negative */
} share;

static bool share_of(const ot_value *v, reach at, share *s);

/* The only axis that a reduction is over, of its input; -1: it is over several. */
static int reduced_axis(const ot_node *n)
{
    int axis;
    if (n->n_in < 2 || !n->in[1] || !ot_is_const(n->in[1]) || ot_numel(&n->in[1]->shape) != 1) return -1;
    return ot_axis(ot_get_i64(n->in[1]->data, n->in[1]->dtype, 0), n->in[0]->shape.rank, &axis) ? axis : -1;
}

static bool is_reduction(const ot_node *n) { return ot_is(n, &ot_op_ReduceSum) || ot_is(n, &ot_op_ReduceL1); }

/* The operators that a divisor may have after its sum: they bring it into shape, or keep it from 0. */
static bool keeps_sum(const ot_node *n)
{
    static const ot_op *const keeps[] = { &ot_op_Reshape, &ot_op_Unsqueeze, &ot_op_Expand, &ot_op_Identity,
                                          &ot_op_Cast,    &ot_op_Clip,      &ot_op_Max,    &ot_op_Add };
    for (int i = 0; i < OT_LEN(keeps); i++)
        if (ot_is(n, keeps[i])) return true;
    return false;
}

/* The first sum in a divisor; NULL: none. */
static const ot_node *sum_in(const ot_value *v, reach at)
{
    const ot_node *n = made_by(v);
    if (!n || ends(at)) return NULL;
    if (is_reduction(n)) return n;
    const ot_node *found = NULL;
    for (int i = 0; i < 2 && i < n->n_in && keeps_sum(n) && !found; i++) found = sum_in(n->in[i], deeper(at));
    return found;
}

/* A number that a divisor is kept from 0 with. */
static bool is_small(const ot_value *v)
{
    double x;
    return constant(v, &x) && x >= 0 && x <= 1e-3;
}

/* Is v the elements of c times as many as the axis has, for c of one element along it? */
static bool is_multiple(const ot_value *v, const ot_value *c, double times)
{
    const ot_node *n = made_by(v);
    double x;
    for (int i = 0; i < 2 && ot_is(n, &ot_op_Mul); i++)
        if (n->in[i] == c && constant(n->in[1 - i], &x) && x == times) return true;
    return false;
}

/* Is v the sum of x, of which no element is negative, along the axis? */
static bool is_sum(const ot_value *v, const ot_value *x, int axis, reach at)
{
    const ot_node *n = made_by(v), *sum = made_by(x);
    if (!n || ends(at)) return false;
    if (is_reduction(n)) return n->in[0] == x && reduced_axis(n) == axis;
    if (!keeps_sum(n) || !ot_is_float(v->dtype)) return false;
    if (ot_is(n, &ot_op_Clip) && !(ot_clip_bound(n, 1, 0) <= 1e-3 && ot_clip_bound(n, 2, INFINITY) >= 1e30))
        return false;
    if (!ot_is(n, &ot_op_Max) && !ot_is(n, &ot_op_Add)) return is_sum(n->in[0], x, axis, deeper(at));
    for (int i = 0; i < 2 && n->n_in == 2; i++) {
        if (is_small(n->in[i]) && is_sum(n->in[1 - i], x, axis, deeper(at))) return true;
        /* sum(a + c) = sum(a) + n c, for c that is the same along the axis */
        for (int k = 0; k < 2 && ot_is(n, &ot_op_Add) && ot_is(sum, &ot_op_Add); k++) {
            const ot_value *a = sum->in[k], *c = sum->in[1 - k];
            bool same = c->shape.rank == x->shape.rank && c->shape.dim[axis] == 1 && ot_shape_eq(&a->shape, &x->shape);
            if (same && is_multiple(n->in[i], c, (double)x->shape.dim[axis]) &&
                is_sum(n->in[1 - i], a, axis, deeper(at)))
                return true;
        }
    }
    return false;
}

/* Has v the shape of x with 1 along the axis, or is it an expansion of such a value?  Another shape of as many elements would
 * divide by the sums of other lines. */
static bool divides_lines(const ot_value *v, const ot_value *x, int axis)
{
    const ot_node *n = made_by(v);
    int lead = x->shape.rank - v->shape.rank;
    bool lines = lead >= 0;
    for (int d = 0; d < x->shape.rank && lines; d++)
        lines = (d < lead ? 1 : v->shape.dim[d - lead]) == (d == axis ? 1 : x->shape.dim[d]);
    return lines ||
           (ot_is(n, &ot_op_Expand) && !ot_is(made_by(n->in[0]), &ot_op_Expand) && divides_lines(n->in[0], x, axis));
}

/* x / sum(x) */
static bool is_quotient(const ot_node *n, reach at, share *s)
{
    const ot_node *inverse = NULL;
    const ot_value *x = n->in[0], *by = n->in[1];
    if (ot_is(n, &ot_op_Mul)) {
        for (int i = 0; i < 2 && !inverse; i++)
            if (ot_is(made_by(n->in[i]), &ot_op_Reciprocal)) inverse = n->in[i]->producer, x = n->in[1 - i];
        if (!inverse) return false;
        by = inverse->in[0];
    }
    const ot_node *sum = sum_in(by, at);
    int axis = sum ? reduced_axis(sum) : -1;
    if (axis < 0 || sum->in[0]->shape.rank != x->shape.rank || !divides_lines(by, x, axis) ||
        !is_sum(by, x, axis, at) || !(range_of(x, at).lo >= 0))
        return false;
    *s = (share){ axis, 1 };
    return true;
}

/* p beside 1 - p, or the Sigmoid of -z beside z, of one element each. */
static bool is_pair(const ot_node *n, share *s)
{
    bool sigmoid = ot_is(n, &ot_op_Sigmoid);
    const ot_node *both = sigmoid ? made_by(n->in[0]) : n;
    while (ot_is(both, &ot_op_Cast) && sigmoid) both = made_by(both->in[0]);
    s->total = 1;
    return both && ot_pair_of(both, sigmoid) >= 0 &&
           ot_axis(ot_attr_get(both, "axis", 0), both->out[0]->shape.rank, &s->axis);
}

/* Any lines of a constant table that are not negative and have equal sums, as the leaves of trees have. */
static bool is_looked_up(const ot_node *n, reach at, share *s)
{
    const ot_value *table = n->in[0];
    int along, axis = table->shape.rank - 1;
    int64_t size = axis < 1 ? 0 : table->shape.dim[axis];
    if (!ot_is_const(table) || !table->data || size < 2 || !(of_constant(table, at).lo >= 0) ||
        !ot_axis(ot_attr_get(n, "axis", 0), axis + 1, &along) || along == axis)
        return false;
    for (int64_t i = 0; i < ot_numel(&table->shape); i += size) {
        double sum = 0;
        for (int64_t k = i; k < i + size; k++) sum += ot_get_f64(table->data, table->dtype, k);
        if (i && !(fabs(sum - s->total) <= 1e-5 * s->total)) return false;
        s->total = sum;
    }
    s->axis = n->out[0]->shape.rank - 1;
    return s->total > 0;
}

/* All inputs from `first` on, in the shape of the result, with sums along the same axis. */
static bool are_alike(const ot_node *n, int first, reach at, bool add, share *s)
{
    double all = 0;
    for (int i = first; i < n->n_in; i++) {
        share t;
        if (!share_of(n->in[i], at, &t) || n->in[i]->shape.rank != n->out[0]->shape.rank) return false;
        if (n->in[i]->shape.dim[t.axis] != n->out[0]->shape.dim[t.axis]) return false;
        if (i > first && (t.axis != s->axis || (!add && fabs(t.total - s->total) > 1e-6))) return false;
        *s = t;
        all += t.total;
    }
    if (add) s->total = ot_is(n, &ot_op_Mean) ? all / n->n_in : all;
    return n->n_in > first;
}

/* Does the condition choose whole lines along the axis? */
static bool whole_lines(const ot_node *n, int axis)
{
    const ot_shape *c = &n->in[0]->shape;
    int at = axis - (n->out[0]->shape.rank - c->rank);
    return at < 0 || c->dim[at] == 1;
}

/* Is n a share that is multiplied with, or divided by, a positive constant number? */
static bool is_scaled(const ot_node *n, reach at, share *s)
{
    double x;
    for (int i = 0; i < (ot_is(n, &ot_op_Mul) ? 2 : 1); i++)
        if (constant(n->in[1 - i], &x) && x > 0 && n->in[1 - i]->shape.rank <= n->in[i]->shape.rank &&
            share_of(n->in[i], at, s)) {
            s->total *= ot_is(n, &ot_op_Mul) ? x : 1 / x;
            return true;
        }
    return false;
}

/* Is n the mean or the sum of a share over another axis? */
static bool is_reduced(const ot_node *n, reach at, share *s)
{
    int over = reduced_axis(n);
    if (over < 0 || !share_of(n->in[0], at, s) || over == s->axis) return false;
    if (ot_is(n, &ot_op_ReduceSum)) s->total *= (double)n->in[0]->shape.dim[over];
    if (!ot_attr_get(n, "keepdims", 1)) s->axis -= over < s->axis;
    return true;
}

static bool is_concat(const ot_node *n, reach at, share *s)
{
    int axis;
    if (is_pair(n, s)) return true;
    return ot_axis(ot_attr_get(n, "axis", 0), n->out[0]->shape.rank, &axis) && are_alike(n, 0, at, false, s) &&
           s->axis != axis;
}

static bool is_l1(const ot_node *n, reach at, share *s)
{
    s->total = 1;
    return ot_attr_get(n, "p", 2) == 1 && ot_axis(ot_attr_get(n, "axis", -1), n->in[0]->shape.rank, &s->axis) &&
           range_of(n->in[0], at).lo >= 0;
}

static bool share_of(const ot_value *v, reach at, share *s)
{
    const ot_node *n = made_by(v);
    if (!n || !n->n_in || !n->in[0] || ends(at) || !ot_is_float(v->dtype)) return false;
    at = deeper(at);
    if (ot_is(n, &ot_op_Softmax)) {
        *s = (share){ ot_normalised_axis(n), 1 };
        return s->axis >= 0;
    }
    if (ot_is(n, &ot_op_Sigmoid)) return is_pair(n, s);
    if (ot_is(n, &ot_op_LpNormalization)) return is_l1(n, at, s);
    if (ot_is(n, &ot_op_Gather) && is_looked_up(n, at, s)) return true;
    if (ot_is(n, &ot_op_Concat)) return is_concat(n, at, s);
    if (ot_is(n, &ot_op_Where)) return are_alike(n, 1, at, false, s) && whole_lines(n, s->axis);
    if (ot_is(n, &ot_op_Add) || ot_is(n, &ot_op_Sum) || ot_is(n, &ot_op_Mean)) return are_alike(n, 0, at, true, s);
    if (ot_is(n, &ot_op_Div) || ot_is(n, &ot_op_Mul)) return is_quotient(n, at, s) || is_scaled(n, at, s);
    if (ot_is(n, &ot_op_ReduceMean) || ot_is(n, &ot_op_ReduceSum)) return is_reduced(n, at, s);
    const ot_mover *m = ot_mover_of(n);
    if (!m || !share_of(n->in[0], at, s)) return false;
    s->axis = m->follow(n, s->axis);
    bool changes = ot_is(n, &ot_op_Clip) || ot_is(n, &ot_op_DequantizeLinear); /* numbers from 0 to 1 hardly */
    return s->axis >= 0 && (!changes || fabs(s->total - 1) < 1e-6);
}

int ot_shares_axis(const ot_value *v)
{
    share s = { 0 };
    int left = MOST_STEPS;
    return share_of(v, (reach){ 0, &left }, &s) && fabs(s.total - 1) < 1e-5 ? s.axis : -1;
}
