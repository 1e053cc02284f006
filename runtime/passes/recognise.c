/* recognise.c - operators that exporters decompose become single kernel operators again.
 *
 * Norms        recognise_norm.c
 * Activations  recognise_activation.c
 * Roots        recognise_root.c
 * Attention    Dot, Maps that scale and mask, SoftmaxAxis, Dot become a FusedAttention if the device has a kernel for
 *              it besides the reference and, on the CPU, a head has CPU_SCORES scores or more. */
#include <math.h>
#include <string.h>

#include "ops/kernels/attention.h"
#include "ops/kernels/copy.h"
#include "ops/kernels/dot.h"
#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "ops/kernels/softmax.h"
#include "runtime/passes/recognise.h"

ot_status ot_recognise_readers(ot_graph *g, ot_readers *r)
{
    size_t n = (size_t)g->n_values + 1;
    *r = (ot_readers){ g->n_values, ot_graph_alloc(g, n * sizeof *r->times), ot_graph_alloc(g, n * sizeof *r->last) };
    if (!r->times || !r->last) return g->err->status;
    for (ot_node *k = g->first; k; k = k->next)
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i]) r->times[k->in[i]->id]++, r->last[k->in[i]->id] = k;
    for (int i = 0; i < g->n_outputs; i++) r->times[g->outputs[i]->id] += 2; /* must stay */
    for (int i = 0; i < g->n_assigns; i++) r->times[g->assigns[i].value->id] += 2;
    return OT_OK;
}

ot_node *ot_recognise_reader(const ot_readers *r, const ot_value *v)
{
    return v->id < r->known && r->times[v->id] == 1 ? r->last[v->id] : NULL;
}

bool ot_recognise_scalar(const ot_value *v, double *x)
{
    if (!ot_is_const(v) || ot_numel(&v->shape) != 1 || !ot_is_float(v->dtype)) return false;
    *x = ot_get_f64(v->data, v->dtype, 0);
    return true;
}

void ot_recognise_take_over(ot_graph *g, ot_value *v, ot_value *y)
{
    y->name = v->name;
    y->declared = v->declared;
    ot_graph_replace(g, v, y);
}

int ot_recognise_row(const ot_node *n)
{
    const ot_program *p = n && n->op == &ot_op_Map ? n->attrs : NULL;
    return p && p->n_inst == 1 && p->n_out == 1 ? p->inst[0].row : -1;
}

/* ---- attention ------------------------------------------------------------------ */

/* Facts about values, by id. */
typedef struct known {
    ot_readers readers;
    bool *trained; /* depends on a tensor that may train */
} known;

static ot_status know(ot_graph *g, known *k)
{
    OT_TRY(ot_recognise_readers(g, &k->readers));
    k->trained = ot_graph_alloc(g, (size_t)g->n_values * sizeof *k->trained);
    if (!k->trained) return g->err->status;
    for (int i = 0; i < g->n_values; i++) k->trained[i] = g->values[i]->role == OT_WEIGHT;
    for (ot_node *n = g->first; n; n = n->next) {
        bool trained = false;
        for (int i = 0; i < n->n_in; i++) trained |= n->in[i] && k->trained[n->in[i]->id];
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i]) k->trained[n->out[i]->id] = trained;
    }
    return OT_OK;
}

typedef struct attention {
    ot_value *q, *k, *v, *mask;
    bool k_is_transposed; /* k: (.., D, S) */
    ot_attention a;
} attention;

/* Boolean or additive masks that hide exactly the later positions. */
static bool is_causal(const ot_value *m, int64_t T, int64_t S)
{
    if (!ot_is_const(m) || m->shape.rank < 2 || T != S || T < 2) return false;
    const ot_shape *s = &m->shape;
    if (s->dim[s->rank - 2] != T || s->dim[s->rank - 1] != S || ot_numel(s) != T * S) return false;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < S; i++) {
            double v = ot_get_f64(m->data, m->dtype, t * S + i);
            bool open = m->dtype == OT_BOOL ? v != 0 : v == 0;
            if (open != (i <= t) || (!open && m->dtype != OT_BOOL && !(v <= -1e4))) return false;
        }
    return true;
}

static bool is_mask(const known *k, const ot_value *m, const ot_value *scores)
{
    ot_shape all;
    return m->id < k->readers.known && !k->trained[m->id] && m->shape.rank <= 4 &&
           ot_broadcast(&m->shape, &scores->shape, &all) && ot_shape_eq(&all, &scores->shape) &&
           (m->dtype == OT_BOOL || m->dtype == scores->dtype);
}

/* Adds n, a Map between the product and the softmax, to f; *data: its input.  false: it is neither a scale nor a
 * mask, or in the wrong order. */
static bool take_map(const known *k, const ot_node *n, attention *f, ot_value **data)
{
    double x;
    const ot_value *y = n->out[0];
    if (ot_recognise_row(n) == OT_FN_Where && !f->mask && f->a.scale == 1 && ot_recognise_scalar(n->in[2], &x) &&
        is_mask(k, n->in[0], y) && n->in[0]->dtype == OT_BOOL && ot_shape_eq(&n->in[1]->shape, &y->shape)) {
        f->mask = n->in[0];
        f->a.hidden = x;
        *data = n->in[1];
        return true;
    }
    if (ot_recognise_row(n) == OT_FN_Div && ot_recognise_scalar(n->in[1], &x) && x != 0) {
        f->a.scale /= x;
        *data = n->in[0];
        return true;
    }
    for (int i = 0; i < 2 && n->n_in == 2; i++) {
        if (ot_recognise_row(n) == OT_FN_Mul && ot_recognise_scalar(n->in[i], &x)) {
            f->a.scale *= x;
            *data = n->in[1 - i];
            return true;
        }
        /* A mask is added after the scale, which the backward walk meets later. */
        if (ot_recognise_row(n) == OT_FN_Add && !f->mask && f->a.scale == 1 && is_mask(k, n->in[i], y) &&
            n->in[i]->dtype == y->dtype && ot_shape_eq(&n->in[1 - i]->shape, &y->shape)) {
            f->mask = n->in[i];
            *data = n->in[1 - i];
            return true;
        }
    }
    return false;
}

/* x, or its factor if x is a multiple by a constant, which goes to the scale: exporters scale queries and keys
 * before the product. */
static ot_value *unscaled(const known *k, ot_value *x, double *scale)
{
    const ot_node *n = x->producer;
    double by;
    if (!n || !ot_recognise_reader(&k->readers, x) || (n->n_in == 2 && n->in[0]->dtype != n->in[1]->dtype)) return x;
    if (ot_recognise_row(n) == OT_FN_Div && ot_recognise_scalar(n->in[1], &by) && by != 0 &&
        ot_shape_eq(&n->in[0]->shape, &x->shape)) {
        *scale /= by;
        return n->in[0];
    }
    for (int i = 0; i < 2 && ot_recognise_row(n) == OT_FN_Mul; i++)
        if (ot_recognise_scalar(n->in[i], &by) && ot_shape_eq(&n->in[1 - i]->shape, &x->shape)) {
            *scale *= by;
            return n->in[1 - i];
        }
    return x;
}

static bool is_dot(const ot_node *n) { return n && n->op == &ot_op_Dot && n->n_in == 2; }

/* The probabilities that v is; or those in which it puts 0 where they are NaN, then *zero is set. */
static const ot_value *probabilities(const known *k, const ot_value *v, int64_t *zero)
{
    double x;
    const ot_node *n = v->producer;
    if (ot_recognise_row(n) != OT_FN_Where || !ot_recognise_scalar(n->in[1], &x) || x != 0) return v;
    const ot_value *nan = n->in[0], *p = n->in[2];
    if (ot_recognise_row(nan->producer) != OT_FN_IsNaN || nan->producer->in[0] != p ||
        !ot_recognise_reader(&k->readers, nan) || !ot_recognise_reader(&k->readers, v) || p->id >= k->readers.known ||
        k->readers.times[p->id] != 2)
        return v;
    *zero = 1;
    return p;
}

/* Is n the last product of an attention? */
static bool match(const known *k, const ot_node *n, attention *f)
{
    const ot_dot *last = n->attrs;
    *f = (attention){ .a = { .scale = 1, .hidden = -1e9 } };
    if (!is_dot(n) || last->ta || last->tb || n->out[0]->shape.rank != 4) return false;
    const ot_value *p = probabilities(k, n->in[0], &f->a.zero_rows);
    const ot_node *soft = p->producer;
    if (!soft || soft->op != &ot_op_SoftmaxAxis || (!f->a.zero_rows && !ot_recognise_reader(&k->readers, p)))
        return false;
    const ot_softmax_axis *rows = soft->attrs;
    if (rows->log || rows->axis != 3) return false;
    ot_value *at = soft->in[0];
    while (at->producer && ot_recognise_reader(&k->readers, at) && at->producer->op == &ot_op_Map)
        if (!take_map(k, at->producer, f, &at)) return false;
    if (!is_dot(at->producer) || !ot_recognise_reader(&k->readers, at)) return false;
    const ot_dot *first = at->producer->attrs;
    f->q = unscaled(k, at->producer->in[0], &f->a.scale);
    f->k = unscaled(k, at->producer->in[1], &f->a.scale);
    f->v = n->in[1];
    f->k_is_transposed = !first->tb;
    if (first->ta || f->q->shape.rank != 4 || f->k->shape.rank != 4 || f->v->shape.rank != 4) return false;
    const int64_t *q = f->q->shape.dim, *key = f->k->shape.dim, *v = f->v->shape.dim;
    if (q[0] != key[0] || q[1] != key[1] || q[0] != v[0] || q[1] != v[1]) return false;
    if (f->mask && is_causal(f->mask, q[2], v[2])) {
        f->mask = NULL;
        f->a.causal = 1;
    }
    return f->q->dtype == f->v->dtype && f->q->dtype == f->k->dtype;
}

/* x with its last two axes swapped; if x is itself a permuted copy, that copy's input with its axes permuted. */
static ot_value *swapped(ot_build *b, ot_value *x)
{
    static const int perm[] = { 0, 1, 3, 2 };
    const ot_node *c = x->producer;
    const ot_copy *a = c && c->op == &ot_op_Copy ? c->attrs : NULL;
    if (!a || a->n != 1) return ot_transpose(b, x, perm);
    ot_piece *p = ot_graph_alloc(b->graph, sizeof *p);
    ot_shape s = x->shape;
    if (!p) return NULL;
    *p = a->piece[0];
    for (int d = 2; d < 4; d++) {
        s.dim[d] = x->shape.dim[5 - d];
        p->stride[d] = a->piece[0].stride[5 - d];
        p->dst[d] = a->piece[0].dst[5 - d];
        p->extent[d] = a->piece[0].extent[5 - d];
    }
    return ot_copy_emit(b, &s, a->fill, p, 1, c->in, c->n_in);
}

/* On the CPU a few scores fit in the caches, and products of many small matrices are oneDNN's: the separate
 * operators are as fast. */
enum { CPU_SCORES = 64 * 64 };

static bool is_worth_it(const ot_config *c, const attention *f)
{
    return c->device || c->ref_only || f->q->shape.dim[2] * f->v->shape.dim[2] >= CPU_SCORES;
}

/* Does the device have a kernel for n besides the reference, one that cannot refuse it once the separate operators are
 * gone? */
static bool has_kernel_for(const ot_node *n, const ot_config *c)
{
    const char *why;
    for (const ot_kernel *const *k = ot_kernels(n->op, c->device); *k; k++)
        if (!(*k)->may_refuse && (c->ref_only || *k != ot_ref_kernel(n->op)) && (!(*k)->can || (*k)->can(n, &why)))
            return true;
    return false;
}

/* Inserts a FusedAttention before n and uses its result instead, unless no kernel can run it. */
static void put_attention(ot_graph *g, const ot_config *c, ot_node *n, attention *f)
{
    ot_build b = { .graph = g, .node = n };
    g->cursor = n;
    g->phase = n->phase;
    ot_value *key = f->k_is_transposed ? swapped(&b, f->k) : f->k;
    ot_node *y =
        ot_emit_n(&b, &ot_op_FusedAttention, &f->a, (ot_value *[]){ f->q, key, f->v, f->mask }, f->mask ? 4 : 3, 3);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (y && has_kernel_for(y, c)) ot_graph_replace(g, n->out[0], y->out[0]);
}

/* ---- the pass --------------------------------------------------------------------- */

static bool has_kernel(const ot_op *op, const ot_config *c)
{
    const ot_kernel *const *k = ot_kernels(op, c->device);
    return k[0] && (c->ref_only || k[0] != ot_ref_kernel(op));
}

ot_status ot_pass_recognise(ot_plan *p, const ot_config *c)
{
    known k = { 0 };
    attention f;
    bool any = false;
    OT_TRY(ot_recognise_norms(p->graph, c, &any));
    OT_TRY(ot_recognise_roots(p->graph, &any));
    OT_TRY(ot_recognise_activations(p->graph, &any));
    bool attends = has_kernel(&ot_op_FusedAttention, c) && has_kernel(&ot_op_FusedAttentionDx, c);
    if (attends) OT_TRY(know(p->graph, &k));
    for (ot_node *n = attends ? p->graph->first : NULL, *next; n; n = next) {
        next = n->next;
        if (match(&k, n, &f) && is_worth_it(c, &f)) put_attention(p->graph, c, n, &f), any = true;
    }
    OT_TRY(ot_recognise_biases(p->graph, c, &any)); /* what is added to scores is a mask: attention comes first */
    if (any) ot_prune(p);
    return p->graph->err->status;
}
