/* node.c - nodes: creation, replacement of what they read, marks of what depends on a value. */
#include <string.h>

#include "ops/op.h"

ot_node *ot_graph_node(ot_graph *g, const ot_op *op, const char *name, const void *attrs, ot_value *const *in, int n_in,
                       int n_out)
{
    if (g->err && g->err->status != OT_OK) return NULL;
    ot_node *n = ot_graph_alloc(g, sizeof *n);
    if (!n) return NULL;
    n->op = op;
    n->graph = g;
    n->phase = g->phase;
    n->stage = g->stage;
    n->n_in = n_in;
    n->n_out = n_out;
    n->name = ot_graph_name(g, name ? name : op->name);
    n->in = ot_graph_alloc(g, (size_t)n_in * sizeof *n->in);
    n->out = ot_graph_alloc(g, (size_t)n_out * sizeof *n->out);
    if (!n->name || !n->in || !n->out) return NULL;
    if (n_in) memcpy(n->in, in, (size_t)n_in * sizeof *in);
    for (int i = 0; i < n_in; i++)
        if (in[i] && in[i]->producer && in[i]->producer->stage > n->stage) n->stage = in[i]->producer->stage;
    if (op->attr_size) {
        size_t bytes = attrs ? ot_attr_bytes(op, attrs) : op->attr_size;
        void *a = ot_graph_alloc(g, bytes);
        if (!a) return NULL;
        if (attrs) memcpy(a, attrs, bytes);
        else ot_attr_defaults(op, a);
        n->attrs = a;
    }
    for (int i = 0; i < n_out; i++) {
        n->out[i] = ot_graph_value_named(g, n->name, OT_TEMP, OT_UNDEFINED, NULL);
        if (!n->out[i]) return NULL;
        n->out[i]->producer = n;
        n->out[i]->port = i;
    }
    ot_graph_link(g, n, g->cursor);
    return n;
}

void ot_graph_at(ot_graph *g, const ot_node *n)
{
    g->room->at = n ? n->name : NULL;
    g->room->at_op = n ? n->op->name : NULL;
}

void ot_graph_replace(ot_graph *g, ot_value *old, ot_value *now)
{
    for (ot_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == old) n->in[i] = now;
        for (int i = 0; ot_subgraph(n, i); i++) ot_graph_replace(ot_subgraph(n, i), old, now);
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == old) g->outputs[i] = now;
    for (int i = 0; i < g->n_assigns; i++) {
        if (g->assigns[i].state == old) g->assigns[i].state = now;
        if (g->assigns[i].value == old) g->assigns[i].value = now;
    }
}

static void clear_marks(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (ot_node *n = g->first; n; n = n->next)
        for (int i = 0; ot_subgraph(n, i); i++) clear_marks(ot_subgraph(n, i));
}

static bool mark_nodes(ot_graph *g)
{
    bool any = false;
    for (ot_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_in && !n->mark; i++) n->mark = n->in[i] && n->in[i]->mark;
        for (int i = 0; ot_subgraph(n, i); i++)
            if (mark_nodes(ot_subgraph(n, i))) n->mark = 1;
        for (int i = 0; i < n->n_out && n->mark; i++)
            if (n->out[i]) n->out[i]->mark = 1;
        any |= n->mark != 0;
    }
    for (int i = 0; i < g->n_outputs; i++) any |= g->outputs[i]->mark != 0;
    return any;
}

void ot_graph_mark_behind(ot_graph *g)
{
    clear_marks(g);
    (void)mark_nodes(g);
}

bool ot_graph_reads(const ot_graph *g, const ot_value *v)
{
    bool reads = false;
    for (int i = 0; i < g->n_outputs; i++) reads |= g->outputs[i] == v;
    for (int i = 0; i < g->n_assigns; i++) reads |= g->assigns[i].value == v;
    for (const ot_node *n = g->first; n && !reads; n = n->next) {
        for (int i = 0; i < n->n_in; i++) reads |= n->in[i] == v;
        for (int i = 0; ot_subgraph(n, i) && !reads; i++) reads = ot_graph_reads(ot_subgraph(n, i), v);
    }
    return reads;
}
