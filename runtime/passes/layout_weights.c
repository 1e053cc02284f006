/* layout_weights.c - gives weights of convolutions the layouts that their kernels prefer.
 *
 * A weight, its moments and master, its gradient and its 16-bit copy are operands of the same Maps and assignments
 * and should have one layout: an update then runs over contiguous memory, and a cast makes the layout that the
 * kernel prefers at no cost.  Such values of one shape form a set.  A set is channels last if some kernel prefers it
 * (ot_kernel.wants) and all its other users accept any layout: convolutions, Maps, reductions to a scalar, zeros.
 *
 * State has one layout in all plans over it: the first plan chooses, the others follow. */
#include <stdlib.h>

#include "ops/kernels/copy.h"
#include "ops/kernel.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/passes.h"

typedef struct sets {
    ot_plan *p;
    int *of;               /* by value id: another member of its set, or itself */
    bool *wanted, *spoilt; /* by id of the first value of the set */
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

/* A reduction to one element, for which the order does not matter. */
static bool reduces_all(const ot_node *n) { return n->op == &ot_op_Reduce && ot_numel(&n->out[0]->shape) == 1; }

/* The same element everywhere: equal in every layout. */
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
    for (int i = 0; p->like && i < g->n_values; i++) { /* layouts fixed by the first plan */
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
