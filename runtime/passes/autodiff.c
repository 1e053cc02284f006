/* autodiff.c - a gradient value per trained weight, by reverse accumulation.
 *
 * Walk the nodes backwards from the loss.  When a node is reached, every node that reads its outputs has been visited,
 * so the gradient of each output is complete: the sum over its uses.  The node's rule turns the gradients of its
 * outputs into gradients of its inputs.  Three things are done here once, so that no rule needs them: an operand that
 * was broadcast gets its gradient summed back to its own shape; a value used several times gets the sum; and no
 * gradient is built for a value that depends on no weight.
 *
 * Grad  a rule that returns no gradient for an input declares it zero. */
#include <string.h>

#include "ops/kernels/copy.h"
#include "ops/kernels/view.h"
#include "ops/kernels/map.h"
#include "ops/op.h"
#include "ops/kernels/take.h"
#include "runtime/passes/evidence.h"
#include "runtime/passes/lossscale.h"

enum { NEEDS = 1 }; /* value->mark: depends on a trained weight */

static bool edge(const ot_node *n, int i) /* can a gradient flow into input i? */
{
    return n->in[i] && ot_is_float(n->in[i]->dtype) && !ot_is_nondiff(n->op, i);
}

/* Marks every value that depends on a weight and reports every operator on such a path that has no gradient. */
static ot_status mark_needs(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        g->values[i]->mark = g->values[i]->role == OT_WEIGHT && ot_is_float(g->values[i]->dtype) ? NEEDS : 0;
    for (ot_node *n = g->first; n; n = n->next) {
        bool needs = false;
        for (int i = 0; i < n->n_in && !needs; i++) needs = edge(n, i) && n->in[i]->mark == NEEDS;
        if (!needs || n->op->grad_zero) continue;
        bool carries = false;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && ot_is_float(n->out[i]->dtype)) n->out[i]->mark = NEEDS, carries = true;
        if (carries && !n->op->grad)
            ot_fail_more(g->err, OT_E_MODEL, "%s: %s has no gradient, but trained weights depend on it", n->name,
                         n->op->name);
    }
    return g->err->status;
}

/* Is input i of n a bias per channel that a following BatchNorm subtracts again?  Its gradient is zero.  Computed as
 * a sum of many terms it would be noise, which an adaptive optimizer turns into steps of its full learning rate. */
static bool cancelled(const ot_node *n, int i, const int *uses)
{
    const ot_value *y = n->out[0];
    if (i != 2 || (n->op != &ot_op_Convolve && (n->op != &ot_op_Dot || y->shape.rank != 2)) || uses[y->id] != 1)
        return false;
    for (const ot_node *k = n->next; k; k = k->next)
        for (int j = 0; j < k->n_in; j++)
            if (k->in[j] == y) return k->op == &ot_op_BatchNorm && j == 0;
    return false;
}

/* Gradients of floats of 8 bits and fewer are float32: most gradients are smaller than the smallest such float. */
static ot_dtype type_of_gradient(const ot_value *v) { return ot_dtype_bits(v->dtype) <= 8 ? OT_F32 : v->dtype; }

static void accumulate(ot_build *b, ot_value *v, ot_value *dv)
{
    if (!dv) return;
    ot_dtype t = type_of_gradient(v);
    dv = ot_sum_to(b, dv, &v->shape, ot_dtype_bits(t) > 16); /* no rounding before a wider v */
    if (dv) dv = ot_cast(b, dv, t);
    v->grad = v->grad ? ot_map2(b, OT_FN_Add, 0, 0, v->grad, dv) : dv;
}

/* The index of the cancelled bias among the inputs that need a gradient; the operator's rule is not called for it.
 * -1: none. */
static int wants_zero(const ot_node *n, bool *wants, const int *uses)
{
    for (int i = 0; i < n->n_in; i++)
        if (wants[i] && cancelled(n, i, uses)) {
            wants[i] = false;
            return i;
        }
    return -1;
}

/* again: the nodes built here will be differentiated themselves. */
static ot_status backward(ot_graph *g, ot_node *n, const int *uses, bool again)
{
    ot_value **din = ot_graph_alloc(g, (size_t)n->n_in * sizeof *din);
    ot_value **dout = ot_graph_alloc(g, (size_t)n->n_out * sizeof *dout);
    bool *wants = ot_graph_alloc(g, (size_t)n->n_in);
    if (!din || !dout || !wants) return g->err->status;
    bool reached = false, wanted = false;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && (dout[i] = n->out[i]->grad)) reached = true;
    for (int i = 0; i < n->n_in; i++)
        if ((wants[i] = edge(n, i) && n->in[i]->mark == NEEDS)) wanted = true;
    if (!reached || !wanted || n->op->grad_zero) return OT_OK;
    ot_build b = { .graph = g, .node = n, .dout = dout, .din = din, .wants = wants, .again = again };
    int zero = wants_zero(n, wants, uses);
    ot_graph_at(g, n);
    n->op->grad(&b);
    ot_graph_at(g, NULL);
    if (zero >= 0)
        accumulate(&b, n->in[zero], ot_expand(&b, ot_scalar(&b, n->in[zero]->dtype, 0), &n->in[zero]->shape));
    for (int i = 0; i < n->n_in && g->err->status == OT_OK; i++)
        if (wants[i]) accumulate(&b, n->in[i], din[i]);
    return g->err->status;
}

/* Copies of one parameter are updated alike: each gets the sum of their gradients. */
static void share(ot_build *b, ot_value *v)
{
    int64_t n = 0;
    const int32_t *list = ot_copies_of(b->graph, v, &n);
    ot_shape all = { 1, { ot_numel(&v->shape) } };
    ot_value *groups = list ? ot_graph_const(b->graph, v->name, OT_I32, &all, list) : NULL;
    if (!groups) return;
    ot_value *sum =
        ot_emit(b, &ot_op_TakeDx, &(ot_take_dx){ 0, { 1, { n } } }, OT_IN(ot_view(b, v->grad, &all), groups));
    v->grad = ot_view(b, ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(sum, groups)), &v->shape);
}

static ot_value *as_copy(ot_build *b, ot_value *g, const ot_value *like, bool turned)
{
    return turned ? ot_transpose(b, g, (int[]){ 1, 0 }) : ot_view(b, g, &like->shape);
}

/* A weight that the exporter wrote twice gets one gradient, the sum. */
static ot_status tie(ot_graph *g, ot_build *b, int n)
{
    ot_value **of = ot_graph_alloc(g, (size_t)n * sizeof *of);
    bool *turned = ot_graph_alloc(g, (size_t)n * sizeof *turned);
    if (!of || !turned) return g->err->status;
    for (int i = 0; i < n; i++) {
        ot_value *v = g->values[i];
        if (v->role != OT_WEIGHT || !v->grad || !(of[i] = ot_original_of(g, v, &turned[i]))) continue;
        while (of[i]->id < i && of[of[i]->id]) { /* a copy itself */
            turned[i] ^= turned[of[i]->id];
            of[i] = of[of[i]->id];
        }
        if (of[i]->grad) of[i]->grad = ot_map2(b, OT_FN_Add, 0, 0, of[i]->grad, as_copy(b, v->grad, of[i], turned[i]));
        else of[i] = NULL;
    }
    for (int i = 0; i < n; i++)
        if (of[i]) g->values[i]->grad = as_copy(b, of[i]->grad, g->values[i], turned[i]), g->values[i]->copy = true;
    return g->err->status;
}

/* No gradient for the second half of the last axis. */
static void hold_half(ot_build *b, ot_value *v)
{
    int last = v->shape.rank - 1;
    ot_shape line = { 1, { v->shape.dim[last] } };
    float *keep = ot_graph_alloc(b->graph, (size_t)line.dim[0] * sizeof *keep);
    for (int64_t i = 0; keep && i < line.dim[0] / 2; i++) keep[i] = 1;
    ot_value *mask = keep ? ot_graph_const_of(b->graph, v->name, OT_F32, &line, keep) : NULL;
    if (mask) v->grad = ot_map2(b, OT_FN_Mul, 0, 0, v->grad, ot_cast(b, mask, v->dtype));
}

/* A weight that this plan does not use, because a data-dependent branch excludes it, gets a zero gradient: all plans
 * of one training train the same weights. */
static void add_zeros(ot_plan *p, ot_build *b)
{
    for (int i = 0; i < p->n_reached; i++) {
        ot_value *w = p->reached[i];
        if (w->role == OT_WEIGHT && !w->grad && ot_is_float(w->dtype))
            w->grad = ot_expand(b, ot_scalar(b, w->dtype, 0), &w->shape);
    }
}

/* Weights that got a gradient, in file order. */
static ot_status collect(ot_plan *p, ot_build *b)
{
    ot_graph *g = p->graph;
    int n = g->n_values; /* final: tying and sharing add entries */
    p->weights = ot_graph_alloc(g, (size_t)n * sizeof *p->weights);
    if (!p->weights) return g->err->status;
    OT_TRY(tie(g, b, n));
    for (int i = 0; i < n; i++) {
        ot_value *v = g->values[i];
        if (v->role == OT_WEIGHT && v->grad && ot_holds_copies(v) && !v->half) share(b, v);
        if (v->role == OT_WEIGHT && v->grad && v->half) hold_half(b, v);
        if (v->role == OT_WEIGHT && v->grad) p->weights[p->n_weights++] = v;
        else if (v->role == OT_WEIGHT) v->why = "does not affect the loss";
    }
    if (!p->n_weights)
        return ot_fail(g->err, OT_E_MODEL,
                       "nothing to train: no trained weight affects the loss (see "
                       "'onnxtrain inspect' for the reasons)");
    return OT_OK;
}

/* ---- the operator Gradient ----------------------------------------------------------- */

/* Values that lead to y, before n, by value id.  NULL: out of memory. */
static bool *leading(ot_graph *g, const ot_node *n, const ot_value *y)
{
    bool *leads = ot_graph_alloc(g, (size_t)g->n_values);
    if (leads) leads[y->id] = true;
    for (const ot_node *k = n->prev; k && leads; k = k->prev) {
        bool on = false;
        for (int i = 0; i < k->n_out; i++) on |= k->out[i] && leads[k->out[i]->id];
        for (int i = 0; i < k->n_in && on; i++)
            if (k->in[i]) leads[k->in[i]->id] = true;
    }
    return leads;
}

/* Marks the values between the x and y of n. */
static ot_status mark_between(ot_graph *g, const ot_node *n, const bool *leads)
{
    for (int i = 0; i < g->n_values; i++) {
        g->values[i]->mark = 0;
        g->values[i]->grad = NULL;
    }
    for (int i = 0; i + 1 < n->n_in; i++) n->in[i]->mark = NEEDS;
    for (ot_node *k = g->first; k != n; k = k->next) {
        bool needs = false, carries = false;
        for (int i = 0; i < k->n_in && !needs; i++) needs = edge(k, i) && k->in[i]->mark == NEEDS;
        for (int i = 0; i < k->n_out && needs && !k->op->grad_zero; i++)
            if (k->out[i] && leads[k->out[i]->id] && ot_is_float(k->out[i]->dtype))
                k->out[i]->mark = NEEDS, carries = true;
        if (carries && !k->op->grad)
            ot_fail_more(g->err, OT_E_MODEL, "%s: %s has no gradient, but Gradient '%s' needs it", k->name, k->op->name,
                         n->name);
    }
    return g->err->status;
}

static int *count_uses(ot_graph *g)
{
    int *uses = ot_graph_alloc(g, (size_t)g->n_values * sizeof *uses); /* number of values before the backward pass */
    for (const ot_node *n = g->first; n && uses; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) uses[n->in[i]->id]++;
    return uses;
}

/* Replaces n by the nodes that compute its gradients.  again: these will be differentiated themselves; of: array by
 * value id for the gradients of weights, NULL: not needed. */
static ot_status differentiate(ot_graph *g, const ot_config *c, ot_node *n, bool again, ot_value **of)
{
    ot_value *y = n->in[n->n_in - 1], **yield = ot_graph_alloc(g, (size_t)n->n_out * sizeof *yield);
    ot_node *prev = n->prev;
    ot_build b = { .graph = g, .node = n, .yield = yield };
    int *uses = count_uses(g);
    bool *leads = leading(g, n, y);
    if (!yield || !uses || !leads || mark_between(g, n, leads)) return g->err->status;
    g->cursor = n;
    y->grad = ot_expand(&b, ot_scalar(&b, y->dtype, 1), &y->shape);
    for (ot_node *k = prev; k && g->err->status == OT_OK; k = k->prev) backward(g, k, uses, again);
    for (int i = 0; i < n->n_out && g->err->status == OT_OK; i++) {
        const ot_value *x = n->in[i];
        ot_value *dx = x->grad ? x->grad : ot_expand(&b, ot_scalar(&b, x->dtype, 0), &x->shape);
        if (of && x->role == OT_WEIGHT && !of[x->id]) of[x->id] = n->out[i];
        if (n->out[i] && dx) yield[i] = ot_emit(&b, &ot_op_View, &(ot_view_attrs){ x->shape }, OT_IN(dx));
    }
    ot_status s = ot_lower_yield(&b, n, prev);
    g->cursor = NULL;
    return s != OT_OK ? s : ot_lower(g, c->device);
}

/* In order: the second may differentiate what the first computes. */
static ot_status differentiate_all(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    bool some = false, own = p->own && c->want == OT_WANT_TRAIN;
    int n_values = g->n_values; /* weights are among its inputs */
    ot_value **of = own ? ot_graph_alloc(g, (size_t)n_values * sizeof *of) : NULL;
    bool later = !own && (c->want == OT_WANT_TRAIN || c->want == OT_WANT_GRAD);
    int left = 0;
    if (own && !of) return g->err->status;
    for (const ot_node *n = g->first; n; n = n->next) left += n->op == &ot_op_Gradient;
    for (ot_node *n = g->first, *next; n; n = next) {
        ot_node *prev = n->prev;
        next = n->next;
        if (n->op != &ot_op_Gradient) continue;
        some = true;
        OT_TRY(differentiate(g, c, n, --left > 0 || later, of));
        next = prev ? prev->next : g->first; /* lowering may have replaced the following nodes */
    }
    for (int i = 0; i < g->n_values && some; i++) {
        g->values[i]->grad = NULL;
        g->values[i]->differentiated = false;
    }
    if (!own) return OT_OK;
    p->weights = ot_graph_alloc(g, (size_t)n_values * sizeof *p->weights);
    for (int i = 0; p->weights && i < n_values; i++)
        if (of[i]) (p->weights[p->n_weights++] = g->values[i])->grad = of[i];
    return g->err->status;
}

ot_status ot_pass_autodiff(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    OT_TRY(differentiate_all(p, c));
    if ((c->want != OT_WANT_GRAD && c->want != OT_WANT_TRAIN) || (p->own && c->want == OT_WANT_TRAIN)) return OT_OK;
    OT_TRY(mark_needs(g));
    int *uses = count_uses(g);
    if (!uses) return g->err->status;
    ot_build b = { .graph = g };
    p->loss->grad = ot_loss_seed(p, c, &b);
    for (ot_node *n = g->last; n; n = n->prev) OT_TRY(backward(g, n, uses, false));
    add_zeros(p, &b);
    OT_TRY(collect(p, &b));
    ot_loss_unscale_all(p, c, &b);
    for (int i = 0; i < p->n_weights && c->want == OT_WANT_GRAD; i++) ot_plan_keep(p, p->weights[i]->grad);
    if (c->options.keep_gradients && c->want == OT_WANT_TRAIN) {
        p->kept_grad = ot_graph_alloc(g, (size_t)(p->n_weights + 1) * sizeof *p->kept_grad);
        for (int i = 0; p->kept_grad && i < p->n_weights; i++)
            p->kept_grad[i] = p->weights[i]->grad ? ot_plan_keep(p, p->weights[i]->grad) : -1;
    }
    return ot_lower(g, c->device);
}
