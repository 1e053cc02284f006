/* pieces.c - decomposed Softmax, LogSoftmax, Sigmoid, Softplus and Tanh become single operators of ONNX before the loss
 * pass; logarithms of Sigmoids and of sums of exponentials become forms that do not overflow.
 *
 *     Softmax     e / sum e with e = exp(x), exp(LogSoftmax(x))        LogSoftmax   x - log(sum(exp(x))),
 *                                                                                   log(Softmax(x))
 *     Sigmoid     1 / (1 + exp(-x)), e / (1 + e), (1 + tanh(x / 2)) / 2             Softplus     log(1 + exp(x))
 *     Tanh        (exp(x) - exp(-x)) / (exp(x) + exp(-x)), (exp(2x) - 1) / (exp(2x) + 1), 2 Sigmoid(2x) - 1
 *     log(Sigmoid(x))   -Softplus(-x)        log(exp(p) + exp(q))   m + log(exp(p - m) + exp(q - m)), m near the maximum
 *
 * Sums may be in any order and nested; a maximum subtracted from x along the axis has no effect and is removed.
 * Quotients may be products with a Reciprocal.  Softmax and LogSoftmax sum over one axis.  Sums with an epsilon or a
 * Clip are not matched: they are other functions.  A plan that runs the file as written keeps the decomposed form, in
 * which a sum of large exponentials overflows.
 *
 * The pass also finds what the outputs are (ot_plan.tails), for predictions and metrics: scores, probabilities or their
 * logarithms. */
#include <float.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/recognise.h"

static const ot_node *made_by(const ot_value *v, const ot_op *op)
{
    return ot_is(v->producer, op) ? v->producer : NULL;
}

static bool is_number(const ot_value *v, double x)
{
    double c;
    return ot_recognise_scalar(v, &c) && c == x;
}

/* The other operand if n adds to a number x in either order, or multiplies it; NULL: n does neither. */
static ot_value *beside(const ot_value *v, const ot_op *op, double x)
{
    const ot_node *n = made_by(v, op);
    for (int i = 0; i < 2 && n; i++)
        if (is_number(n->in[i], x)) return n->in[1 - i];
    return NULL;
}

/* v = a / b?  As a Div, or as a product with one over b, which is input `order` of the Mul: callers try 0 and 1; a
 * Div is found with 0. */
static bool is_quotient(const ot_value *v, ot_value **a, ot_value **b, int order)
{
    const ot_node *n = v->producer, *r;
    if (ot_is(n, &ot_op_Div)) {
        *a = n->in[0];
        *b = n->in[1];
        return order == 0;
    }
    if (!ot_is(n, &ot_op_Mul)) return false;
    *a = n->in[1 - order];
    r = n->in[order]->producer;
    bool inverse = ot_is(r, &ot_op_Reciprocal) || (ot_is(r, &ot_op_Pow) && is_number(r->in[1], -1));
    if (inverse) *b = r->in[0];
    else if (ot_is(r, &ot_op_Div) && is_number(r->in[0], 1)) *b = r->in[1];
    else return false;
    return true;
}

/* v = 1 / b?  Then b. */
static ot_value *inverted(const ot_value *v)
{
    const ot_node *n = v->producer;
    if (ot_is(n, &ot_op_Reciprocal) || (ot_is(n, &ot_op_Pow) && is_number(n->in[1], -1))) return n->in[0];
    return ot_is(n, &ot_op_Div) && is_number(n->in[0], 1) ? n->in[1] : NULL;
}

/* f v, with the constant factors of v included. */
static ot_value *scaled(ot_build *b, ot_value *v, double f)
{
    for (;;) {
        const ot_node *n = v->producer;
        double c;
        int at = 0;
        if (ot_is(n, &ot_op_Neg)) f = -f;
        else if (ot_is(n, &ot_op_Sub) && is_number(n->in[0], 0)) f = -f, at = 1;
        else if (ot_is(n, &ot_op_Div) && ot_recognise_scalar(n->in[1], &c) && c != 0) f /= c;
        else if (ot_is(n, &ot_op_Mul) && ot_recognise_scalar(n->in[1], &c)) f *= c;
        else if (ot_is(n, &ot_op_Mul) && ot_recognise_scalar(n->in[0], &c)) f *= c, at = 1;
        else break;
        if (!ot_shape_eq(&n->in[at]->shape, &v->shape)) return NULL;
        v = n->in[at];
    }
    if (f == 1) return v;
    return f == -1 ? ot_emit(b, &ot_op_Neg, NULL, OT_IN(v))
                   : ot_emit(b, &ot_op_Mul, NULL, OT_IN(v, ot_scalar(b, v->dtype, f)));
}

/* ---- sums --------------------------------------------------------------------------------- */

enum { MOST_TERMS = 8, MOST_DEPTH = 6 };

typedef struct terms {
    int n;
    const ot_value *v[MOST_TERMS];
    int sign[MOST_TERMS];
} terms;

static void add_terms(const ot_value *v, int sign, int depth, terms *t)
{
    const ot_node *n = depth < MOST_DEPTH ? v->producer : NULL;
    if (ot_is(n, &ot_op_Add) || ot_is(n, &ot_op_Sub)) {
        add_terms(n->in[0], sign, depth + 1, t);
        add_terms(n->in[1], ot_is(n, &ot_op_Sub) ? -sign : sign, depth + 1, t);
    } else if (ot_is(n, &ot_op_Neg)) {
        add_terms(n->in[0], -sign, depth + 1, t);
    } else {
        if (t->n < MOST_TERMS) t->v[t->n] = v, t->sign[t->n] = sign;
        t->n++;
    }
}

static terms terms_of(const ot_value *v, int sign)
{
    terms t = { 0 };
    add_terms(v, sign, 0, &t);
    return t;
}

/* Is a, without its term `without` (-1: complete), the sum b? */
static bool same_sum(const terms *a, int without, const terms *b)
{
    unsigned taken = 0;
    if (a->n > MOST_TERMS || b->n > MOST_TERMS || a->n - (without >= 0) != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        if (i == without) continue;
        while (k < b->n && (taken >> k & 1 || a->v[i] != b->v[k] || a->sign[i] != b->sign[k])) k++;
        if (k == b->n) return false;
        taken |= 1u << k;
    }
    return true;
}

static bool same_value(const ot_value *a, const ot_value *b)
{
    terms x = terms_of(a, 1), y = terms_of(b, 1);
    return a == b || same_sum(&x, -1, &y);
}

/* ---- along one axis -------------------------------------------------------------------------- */

/* The input that v reduces by that operator over one axis, keeping the axis; NULL: v is no such reduction. */
static ot_value *reduced(const ot_value *v, const ot_op *op, int *axis)
{
    const ot_node *n = v->producer;
    int wide = 0;
    if (ot_is(n, &ot_op_Unsqueeze) || ot_is(n, &ot_op_Reshape)) n = n->in[0]->producer;
    if (!ot_is(n, op)) return NULL;
    ot_value *x = n->in[0];
    ot_ints axes = { 0 };
    ot_error ignored = { 0 };
    if (x->shape.rank != v->shape.rank) return NULL;
    for (int d = 0; d < x->shape.rank; d++)
        if (v->shape.dim[d] != x->shape.dim[d]) *axis = d, wide++;
    if (n->n_in > 1 && n->in[1] && (!ot_is_const(n->in[1]) || ot_const_ints(n, 1, &axes, &ignored))) return NULL;
    if (wide != 1 || v->shape.dim[*axis] != 1 || axes.n > 1 || (!axes.n && x->shape.rank != 1)) return NULL;
    int said = 0;
    return !axes.n || (ot_axis(axes.v[0], x->shape.rank, &said) && said == *axis) ? x : NULL;
}

/* x without a subtracted maximum along the axis. */
static ot_value *unshifted(ot_value *x, int axis)
{
    for (;;) {
        const ot_node *n = x->producer;
        int at = -1, along = 0;
        for (int i = ot_is(n, &ot_op_Sub) ? 1 : 0; i < 2 && at < 0 && (ot_is(n, &ot_op_Sub) || ot_is(n, &ot_op_Add));
             i++) {
            const ot_value *m = n->in[i];
            if (ot_is(n, &ot_op_Add)) m = made_by(m, &ot_op_Neg) ? m->producer->in[0] : NULL;
            if (m && reduced(m, &ot_op_ReduceMax, &along) && along == axis) at = 1 - i;
        }
        if (at < 0 || !ot_shape_eq(&n->in[at]->shape, &x->shape)) return x;
        x = n->in[at];
    }
}

/* v = log(sum(exp(x))) along an axis?  Then x. */
static ot_value *log_sum(const ot_value *v, int *axis)
{
    const ot_node *log = made_by(v, &ot_op_Log);
    ot_value *e = log ? reduced(log->in[0], &ot_op_ReduceSum, axis) : NULL;
    if (e) return made_by(e, &ot_op_Exp) ? e->producer->in[0] : NULL;
    return reduced(v, &ot_op_ReduceLogSumExp, axis);
}

static ot_value *along(ot_build *b, const ot_op *op, ot_value *x, int axis)
{
    union {
        char bytes[64];
        int64_t aligned;
    } attrs = { { 0 } };
    int64_t at = axis;
    if (op->attr_size > sizeof attrs) return NULL;
    ot_attr_defaults(op, attrs.bytes);
    for (const ot_attr *a = op->attrs; a && a->name; a++)
        if (!strcmp(a->name, "axis")) memcpy(attrs.bytes + a->offset, &at, sizeof at);
    return ot_emit(b, op, attrs.bytes, OT_IN(unshifted(x, axis)));
}

/* ---- each returns the replacement of v; NULL: v is something else ----------------------------------- */

static ot_value *softmax(ot_build *b, const ot_value *v)
{
    ot_value *e, *sum;
    int axis = 0;
    if (made_by(v, &ot_op_Exp)) {
        const ot_node *log = made_by(v->producer->in[0], &ot_op_LogSoftmax);
        return log ? ot_emit(b, &ot_op_Softmax, log->attrs, OT_IN(log->in[0])) : NULL;
    }
    for (int order = 0; order < 2; order++) {
        if (!is_quotient(v, &e, &sum, order) || !made_by(e, &ot_op_Exp)) continue;
        const ot_value *of = reduced(sum, &ot_op_ReduceSum, &axis);
        if (!of || !made_by(of, &ot_op_Exp) || !same_value(of->producer->in[0], e->producer->in[0])) continue;
        return along(b, &ot_op_Softmax, e->producer->in[0], axis);
    }
    return NULL;
}

static ot_value *log_softmax(ot_build *b, const ot_value *v)
{
    const ot_node *log = made_by(v, &ot_op_Log), *soft = log ? made_by(log->in[0], &ot_op_Softmax) : NULL;
    int axis = 0;
    if (soft) return ot_emit(b, &ot_op_LogSoftmax, soft->attrs, OT_IN(soft->in[0]));
    if (!made_by(v, &ot_op_Sub) && !made_by(v, &ot_op_Add)) return NULL;
    terms t = terms_of(v, 1);
    for (int i = 0; i < t.n && t.n <= MOST_TERMS; i++) {
        ot_value *x = t.sign[i] < 0 ? log_sum(t.v[i], &axis) : NULL;
        terms u = x ? terms_of(x, 1) : (terms){ 0 };
        if (x && ot_shape_eq(&x->shape, &v->shape) && same_sum(&t, i, &u)) return along(b, &ot_op_LogSoftmax, x, axis);
    }
    return NULL;
}

/* The w of 1 + exp(w); NULL: v is no such sum. */
static ot_value *one_plus_exp(const ot_value *v)
{
    ot_value *e = beside(v, &ot_op_Add, 1);
    return e && made_by(e, &ot_op_Exp) ? e->producer->in[0] : NULL;
}

static ot_value *sigmoid(ot_build *b, const ot_value *v)
{
    ot_value *below = inverted(v), *w = below ? one_plus_exp(below) : NULL, *a, *t, *z;
    if (w) {
        z = scaled(b, w, -1);
        return z ? ot_emit(b, &ot_op_Sigmoid, NULL, OT_IN(z)) : NULL;
    }
    for (int order = 0; order < 2; order++) {
        if (!is_quotient(v, &a, &below, order) || !made_by(a, &ot_op_Exp) || !(w = one_plus_exp(below))) continue;
        if (same_value(w, a->producer->in[0])) return ot_emit(b, &ot_op_Sigmoid, NULL, OT_IN(w));
    }
    /* (1 + tanh z) / 2, factored or expanded */
    t = beside(v, &ot_op_Add, 0.5);
    t = t ? beside(t, &ot_op_Mul, 0.5) : NULL;
    if (!t && (t = beside(v, &ot_op_Mul, 0.5))) t = beside(t, &ot_op_Add, 1);
    z = t && made_by(t, &ot_op_Tanh) ? t->producer->in[0] : NULL;
    if (!z || (!beside(z, &ot_op_Mul, 0.5) && !(made_by(z, &ot_op_Div) && is_number(z->producer->in[1], 2))))
        return NULL;
    z = scaled(b, z, 2);
    return z ? ot_emit(b, &ot_op_Sigmoid, NULL, OT_IN(z)) : NULL;
}

static ot_value *softplus(ot_build *b, const ot_value *v)
{
    const ot_node *log = made_by(v, &ot_op_Log);
    ot_value *w = log ? one_plus_exp(log->in[0]) : NULL;
    return w ? ot_emit(b, &ot_op_Softplus, NULL, OT_IN(w)) : NULL;
}

/* log(Sigmoid(x)) is the negated Softplus of -x. */
static ot_value *log_sigmoid(ot_build *b, const ot_value *v)
{
    const ot_node *log = made_by(v, &ot_op_Log), *s = log ? made_by(log->in[0], &ot_op_Sigmoid) : NULL;
    ot_value *x = s ? scaled(b, s->in[0], -1) : NULL;
    return x ? ot_emit(b, &ot_op_Neg, NULL, OT_IN(ot_emit(b, &ot_op_Softplus, NULL, OT_IN(x)))) : NULL;
}

/* log(exp(p) + exp(q) + ...) as m + log(exp(p - m) + exp(q - m) + ...): with m the rounded maximum, as in ReduceLogSumExp. */
static ot_value *log_of_exponentials(ot_build *b, const ot_value *v)
{
    const ot_node *log = made_by(v, &ot_op_Log);
    terms t = log ? terms_of(log->in[0], 1) : (terms){ 0 };
    double top = v->dtype == OT_F64 ? DBL_MAX : v->dtype == OT_F16 ? 65504 : (double)FLT_MAX;
    ot_value *x[MOST_TERMS], *sum = NULL;
    if (t.n < 2 || t.n > MOST_TERMS) return NULL;
    for (int i = 0; i < t.n; i++) {
        if (t.sign[i] < 0 || !made_by(t.v[i], &ot_op_Exp)) return NULL;
        x[i] = t.v[i]->producer->in[0];
    }
    ot_value *m = ot_emit(b, &ot_op_Max, NULL, x, t.n);
    m = ot_emit(b, &ot_op_Clip, NULL, OT_IN(m, ot_scalar(b, v->dtype, -top), ot_scalar(b, v->dtype, top)));
    m = ot_emit(b, &ot_op_Round, NULL, OT_IN(m));
    for (int i = 0; i < t.n; i++) {
        ot_value *e = ot_emit(b, &ot_op_Exp, NULL, OT_IN(ot_emit(b, &ot_op_Sub, NULL, OT_IN(x[i], m))));
        sum = i ? ot_emit(b, &ot_op_Add, NULL, OT_IN(sum, e)) : e;
    }
    return ot_emit(b, &ot_op_Add, NULL, OT_IN(m, ot_emit(b, &ot_op_Log, NULL, OT_IN(sum))));
}

/* The argument of an exponential that has that sign in t; NULL: there is none. */
static ot_value *exponent(const terms *t, int sign)
{
    for (int i = 0; i < t->n && i < MOST_TERMS; i++)
        if (t->sign[i] == sign && made_by(t->v[i], &ot_op_Exp)) return t->v[i]->producer->in[0];
    return NULL;
}

/* Is one the negative of the other? */
static bool are_opposite(const ot_value *a, const ot_value *b)
{
    terms x = terms_of(a, 1), y = terms_of(b, -1);
    if (same_sum(&x, -1, &y)) return true;
    return beside(a, &ot_op_Mul, -1) == b || beside(b, &ot_op_Mul, -1) == a;
}

static int number_at(const terms *t, double x)
{
    for (int i = 0; i < t->n && i < MOST_TERMS; i++)
        if (is_number(t->v[i], x)) return i;
    return -1;
}

/* 2 Sigmoid(w) - 1, or a quotient of exponentials. */
static ot_value *tanh_of(ot_build *b, const ot_value *v)
{
    ot_value *above, *below, *z = NULL, *twice = beside(v, &ot_op_Add, -1);
    if (!twice && made_by(v, &ot_op_Sub) && is_number(v->producer->in[1], 1)) twice = v->producer->in[0];
    if (twice) {
        const ot_value *s = beside(twice, &ot_op_Mul, 2);
        z = s && made_by(s, &ot_op_Sigmoid) ? scaled(b, s->producer->in[0], 0.5) : NULL;
        return z ? ot_emit(b, &ot_op_Tanh, NULL, OT_IN(z)) : NULL;
    }
    for (int order = 0; order < 2 && !z; order++) {
        if (!is_quotient(v, &above, &below, order)) continue;
        terms t = terms_of(above, 1), u = terms_of(below, 1);
        ot_value *p = exponent(&t, 1), *m = exponent(&t, -1);
        if (t.n != 2 || u.n != 2 || u.sign[0] < 0 || u.sign[1] < 0) continue;
        ot_value *w = p ? p : m, *q = exponent(&u, 1);
        if (!w || !q) continue;
        if (p && m) {
            ot_value *r = u.v[0]->producer && made_by(u.v[1], &ot_op_Exp) ? u.v[1]->producer->in[0] : NULL;
            bool both = r && ((same_value(q, p) && same_value(r, m)) || (same_value(q, m) && same_value(r, p)));
            if (both && are_opposite(p, m)) z = scaled(b, p, 1);
        } else if (same_value(q, w)) {
            int one = number_at(&t, 1), below_one = number_at(&u, 1);
            bool minus_one = number_at(&t, -1) >= 0 && p;
            if (below_one >= 0 && ((one >= 0 && t.sign[one] == (p ? -1 : 1)) || minus_one))
                z = scaled(b, w, p ? 0.5 : -0.5);
        }
    }
    return z ? ot_emit(b, &ot_op_Tanh, NULL, OT_IN(z)) : NULL;
}

/* ---- the pass ------------------------------------------------------------------------------------------ */

static ot_value *whole(ot_build *b, const ot_value *v)
{
    static ot_value *(*const rules[])(ot_build *, const ot_value *) = {
        softmax, log_softmax, sigmoid, softplus, log_sigmoid, log_of_exponentials, tanh_of,
    };
    static const ot_op *const last[] = { &ot_op_Div, &ot_op_Mul, &ot_op_Add,        &ot_op_Sub,
                                         &ot_op_Log, &ot_op_Exp, &ot_op_Reciprocal, &ot_op_Pow };
    ot_value *y = NULL;
    bool may = false;
    for (int i = 0; i < OT_LEN(last); i++) may |= v->producer->op == last[i];
    for (int i = 0; may && i < OT_LEN(rules) && !y; i++) y = rules[i](b, v);
    return y && y->dtype == v->dtype && ot_shape_eq(&y->shape, &v->shape) ? y : NULL;
}

static ot_status join_pieces(ot_graph *g)
{
    for (ot_node *n = g->first, *next; n && g->err->status == OT_OK; n = next) {
        ot_build b = { .graph = g, .node = n };
        next = n->next;
        if (n->n_out != 1 || !n->out[0] || !ot_is_float(n->out[0]->dtype)) continue;
        g->cursor = n;
        ot_value *v = n->out[0], *y = whole(&b, v);
        g->cursor = NULL;
        if (y) ot_recognise_take_over(g, v, y);
    }
    return g->err->status;
}

/* What the outputs of p are, by those of g: p's graph, or a copy whose pieces are joined. */
static ot_status find_tails(ot_plan *p, const ot_graph *g)
{
    const ot_node *by;
    p->tails = ot_graph_alloc(p->graph, (size_t)(g->n_outputs + 1) * sizeof *p->tails);
    p->class_axes = ot_graph_alloc(p->graph, (size_t)(g->n_outputs + 1) * sizeof *p->class_axes);
    for (int i = 0; p->tails && p->class_axes && i < g->n_outputs; i++) {
        ot_tail tail = ot_tail_find(g->outputs[i]);
        p->tails[i] = tail.kind;
        p->class_axes[i] = tail.axis >= 0 ? tail.axis : ot_made_axis(g->outputs[i], &by);
    }
    return p->graph->err->status;
}

/* A plan that runs the file as it is written: a copy shows how its outputs are computed. */
static ot_status find_tails_apart(ot_plan *p)
{
    ot_error e = { 0 };
    ot_graph *copy = ot_graph_clone(p->graph, &e);
    if (copy && join_pieces(copy) == OT_OK) (void)!find_tails(p, copy);
    ot_graph_free(copy);
    if (e.status == OT_E_NOMEM) return ot_fail(p->graph->err, e.status, "%s", e.text);
    return p->tails ? p->graph->err->status : find_tails(p, p->graph);
}

ot_status ot_pass_pieces(ot_plan *p, const ot_config *c)
{
    if (c->want == OT_WANT_RUN) return find_tails_apart(p);
    OT_TRY(join_pieces(p->graph));
    OT_TRY(find_tails(p, p->graph));
    return ot_recognise_losses(p->graph);
}
