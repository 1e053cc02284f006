/* layout_weights.c - weights of convolutions as their kernels want them.
 *
 * A weight, its moments and masters, its gradient and its copy in 16 bits meet in Maps and assignments and should lie
 * alike: then an update runs over contiguous memory, and a cast gives the kernel what it wants for nothing.  Values
 * of one shape that meet so form a set.  A set lies channels last where some kernel wants that (ot_kernel.wants)
 * and everyone else who touches it takes any layout: convolutions, Maps, reductions to a scalar, zeros.
 *
 * State lies the same in every plan over it: what the first one laid out is kept by the others. */
#include <stdlib.h>

#include "ops/kernels/copy.h"
#include "ops/kernel.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/passes.h"

typedef struct sets {
    ot_plan *p;
    int *of;               /* by value id: another of the set, or itself */
    bool *wanted, *spoilt; /* by the id of the set's first */
} sets;

static int first_of(const sets *s, int id)
{
    while (s->of[id] != id) id = s->of[id] = s->of[s->of[id]];
    return id;
}

static void meet(sets *s, const ot_value *a, const ot_value *b)
{
    int x = first_of(s, a->id), y = first_of(s, b->id);
    if (x == y || !ot_shape_eq(&a->shape, &b->shape)) return;
    s->of[y] = x;
    s->wanted[x] |= s->wanted[y];
    s->spoilt[x] |= s->spoilt[y];
}

/* A reduction to one element, which any order of the elements serves. */
static bool reduces_all(const ot_node *n) { return n->op == &ot_op_Reduce && ot_numel(&n->out[0]->shape) == 1; }

/* One element everywhere: the same in every order. */
static bool fills(const ot_node *n)
{
    const ot_copy *a = n->attrs;
    if (n->op != &ot_op_Copy || a->n != 1 || ot_numel(&n->in[0]->shape) != 1) return false;
    for (int d = 0; d < a->shape.rank; d++)
        if (a->piece[0].extent[d] != a->shape.dim[d]) return false;
    return true;
}

static const ot_value *operand(const ot_node *n, int i) { return i < n->n_in ? n->in[i] : n->out[i - n->n_in]; }

/* The weights of a convolution, or their gradient. */
static const ot_value *filters(const ot_node *n) { return n->op->filters ? operand(n, n->op->filters - 1) : NULL; }

static void visit(sets *s, const ot_node *n, const ot_config *c)
{
    const char *why;
    const ot_kernel *k = ot_kernel_for(n, c->device, c->ref_only, &why);
    const ot_value *w = k && k->any_layout ? filters(n) : NULL, *one;
    bool joins = fills(n) || (k && k->any_layout && (n->op == &ot_op_Map || reduces_all(n)));
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = operand(n, i);
        if (!v || v->shape.rank < 3) continue;
        if (v == w)
            s->wanted[first_of(s, v->id)] |=
                k->wants && k->wants(n, c->options.precision != OT_FP32) == OT_CHANNELS_LAST;
        else if (!joins) s->spoilt[first_of(s, v->id)] = true;
        if (!joins) continue;
        for (int j = 0; j < i; j++) /* with the others of its shape */
            if ((one = operand(n, j)) && one->shape.rank >= 3) meet(s, one, v);
    }
}

static ot_status settle(sets *s)
{
    ot_plan *p = s->p;
    ot_graph *g = p->graph;
    for (int i = 0; p->like && i < g->n_values; i++) { /* what lies already */
        const ot_value *v = g->values[i];
        if (v->role != OT_WEIGHT && v->role != OT_STATE) continue;
        const ot_value *there = ot_same_state(p->like, v);
        bool last = there && there->layout == OT_CHANNELS_LAST;
        if (!last) s->spoilt[first_of(s, i)] = true;
    }
    for (int i = 0; i < g->n_values; i++) {
        ot_value *v = g->values[i];
        int at = first_of(s, i);
        bool state = v->role == OT_WEIGHT || v->role == OT_STATE;
        const ot_value *there = state && p->like ? ot_same_state(p->like, v) : NULL;
        if ((!state && v->role != OT_TEMP) || !ot_layout_matters(&v->shape)) continue;
        if (there) v->layout = there->layout;
        else if (s->wanted[at] && !s->spoilt[at]) v->layout = OT_CHANNELS_LAST;
    }
    return OT_OK;
}

ot_status ot_weight_layout(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    sets s = { .p = p };
    size_t n = (size_t)g->n_values + 1;
    s.of = ot_graph_alloc(g, n * sizeof *s.of);
    s.wanted = ot_graph_alloc(g, n);
    s.spoilt = ot_graph_alloc(g, n);
    if (!s.of || !s.wanted || !s.spoilt) return g->err->status;
    for (int i = 0; i < g->n_values; i++) s.of[i] = i;
    for (const ot_node *k = g->first; k; k = k->next) visit(&s, k, c);
    for (int i = 0; i < g->n_assigns; i++) meet(&s, g->assigns[i].state, g->assigns[i].value);
    for (int i = 0; i < g->n_outputs; i++) s.spoilt[first_of(&s, g->outputs[i]->id)] = true;
    return settle(&s);
}
