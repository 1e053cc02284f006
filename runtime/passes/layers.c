/* layers.c - the layer of every weight, for --layer-decay.
 *
 * The layer of a node is the greatest number of nodes with a matrix or filters that train on a path from an input of the graph
 * to it, itself included.  A weight has the layer of the first node that reads it together with data: biases and norms
 * belong to the matrix before them. */
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/passes.h"

typedef struct walk {
    int *depth;      /* by value id: the layer that it comes from; -1: it does not depend on an input of the graph */
    ot_value **from; /* by value id: the weight that it is a form of; NULL: none */
} walk;

/* The two matrices of an adapter are one layer. */
static bool is_matrix(const ot_value *w)
{
    return !w->second && w->slot_op && ot_slot_is_strong(ot_slot_at(w->slot_op, w->slot_input)) && w->shape.rank > 1;
}

static void look(walk *k, const ot_node *n)
{
    int depth = -1;
    bool matrix = false;
    ot_value *form = NULL;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (!v) continue;
        if (k->depth[v->id] > depth) depth = k->depth[v->id];
        ot_value *w = k->from[v->id];
        if (w && w->role == OT_WEIGHT) form = w, matrix |= is_matrix(w);
    }
    if (depth >= 0) depth += matrix;
    for (int i = 0; i < n->n_in && depth >= 0; i++) {
        ot_value *w = n->in[i] ? k->from[n->in[i]->id] : NULL;
        if (w && w->role == OT_WEIGHT && w->layer < 0) w->layer = depth;
    }
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        k->depth[n->out[i]->id] = depth;
        k->from[n->out[i]->id] = depth < 0 ? form : NULL;
    }
}

ot_status ot_find_layers(ot_plan *p)
{
    ot_graph *g = p->graph;
    size_t n = (size_t)g->n_values + 1;
    walk k = { .depth = ot_graph_alloc(g, n * sizeof *k.depth), .from = ot_graph_alloc(g, n * sizeof *k.from) };
    if (!k.depth || !k.from) return g->err->status;
    for (int i = 0; i < g->n_values; i++) {
        ot_value *v = g->values[i];
        bool input = v->role == OT_INPUT && !v->producer;
        k.depth[i] = input ? 0 : -1;
        k.from[i] = v->role == OT_WEIGHT ? v : NULL;
        v->layer = -1;
    }
    for (const ot_node *i = g->first; i; i = i->next) look(&k, i);
    return g->err->status;
}
