/* prune.c - removes what no wanted value needs; wanted are values that the host reads, and assignments. */
#include "runtime/passes/passes.h"

/* Marks v's producer, and theirs; the list is walked backwards, so one walk is sufficient. */
static void want(ot_value *v)
{
    if (v && v->producer) v->producer->mark = 1;
}

void ot_prune(ot_plan *p)
{
    ot_graph *g = p->graph;
    for (ot_node *n = g->first; n; n = n->next) n->mark = 0;
    for (int i = 0; i < p->n_kept; i++) want(p->kept[i]);
    for (int i = 0; i < g->n_outputs; i++) want(g->outputs[i]);
    for (int i = 0; i < g->n_assigns; i++) want(g->assigns[i].value);
    want(p->loss);
    for (ot_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        for (int i = 0; i < n->n_in && n->mark; i++) want(n->in[i]);
        if (!n->mark) ot_graph_remove(g, n);
    }
}

ot_status ot_pass_prune(ot_plan *p, const ot_config *c)
{
    (void)c;
    ot_prune(p);
    return p->graph->err->status;
}
