/* control.c - control flow, spelled out while shapes are inferred.
 *
 * If with a condition that is known: the branch takes the node's place.  Exporters write such nodes for
 * questions about shapes.  With a condition that data decides, both branches take its place and Where
 * chooses between their outputs, which must have equal types and shapes: the gradient of the branch not
 * taken is zero. */
#include <string.h>

#include "ops/control.h"
#include "runtime/passes/passes.h"

/* Moves the nodes and values of a subgraph into g, before the cursor. */
static ot_status splice(ot_graph *g, ot_graph *sub)
{
    size_t     n = (size_t)g->n_values + (size_t)sub->n_values;
    ot_value **values = ot_graph_alloc(g, n * sizeof *values);
    if (!values) return g->err->status;
    memcpy(values, g->values, (size_t)g->n_values * sizeof *values);
    for (int i = 0; i < sub->n_values; i++) {
        sub->values[i]->id = g->n_values + i;
        values[g->n_values + i] = sub->values[i];
    }
    g->values = values;
    g->n_values = g->cap_values = (int)n;
    ot_node *at = g->cursor;
    for (ot_node *k = sub->first, *next; k; k = next) {
        next = k->next;
        k->graph = g;
        k->prev = at->prev;
        k->next = at;
        if (at->prev) at->prev->next = k;
        else g->first = k;
        at->prev = k;
        g->n_nodes++;
    }
    sub->first = sub->last = NULL;
    sub->n_values = 0;
    return OT_OK;
}

/* Output i of n is from now on made by `op` over the given operands. */
static ot_status deliver(ot_graph *g, ot_node *n, int i, const char *op, ot_value *const *in, int n_in)
{
    if (!n->out[i]) return OT_OK;
    ot_node *k = ot_graph_node(g, ot_find_op("", op), n->name, NULL, in, n_in, 1);
    if (!k) return g->err->status;
    k->out[0]->producer = NULL;
    k->out[0] = n->out[i];
    n->out[i]->producer = k;
    n->out[i]->port = 0;
    return OT_OK;
}

static ot_status take_branch(ot_graph *g, ot_node *n, ot_graph *branch)
{
    int count = branch->n_outputs;
    if (count != n->n_out) return ot_node_fail(n, g->err, "a branch gives %d outputs, the node has %d", count, n->n_out);
    OT_TRY(splice(g, branch));
    for (int i = 0; i < count; i++) OT_TRY(deliver(g, n, i, "Identity", OT_IN(branch->outputs[i])));
    return OT_OK;
}

static ot_status take_both(ot_graph *g, ot_node *n, const ot_if *a)
{
    ot_graph *yes = a->then_branch, *no = a->else_branch;
    if (yes->n_outputs != n->n_out || no->n_outputs != n->n_out)
        return ot_node_fail(n, g->err, "its branches give %d and %d outputs, the node has %d", yes->n_outputs, no->n_outputs, n->n_out);
    OT_TRY(splice(g, yes));
    OT_TRY(splice(g, no));
    for (int i = 0; i < n->n_out; i++)
        OT_TRY(deliver(g, n, i, "Where", OT_IN(n->in[0], yes->outputs[i], no->outputs[i])));
    return OT_OK;
}

ot_status ot_spell_out(ot_graph *g, ot_node **at)
{
    while (*at && (*at)->op == &ot_op_If) {
        ot_node       *n = *at, *prev = n->prev;
        const ot_if   *a = n->attrs;
        const ot_value *cond = n->in[0];
        if (!a->then_branch || !a->else_branch) return ot_node_fail(n, g->err, "it needs then_branch and else_branch");
        g->cursor = n;
        ot_status s = !ot_is_const(cond)                     ? take_both(g, n, a)
                      : ot_get_i64(cond->data, cond->dtype, 0) ? take_branch(g, n, a->then_branch)
                                                               : take_branch(g, n, a->else_branch);
        g->cursor = NULL;
        if (s != OT_OK) return s;
        ot_graph_remove(g, n);
        *at = prev ? prev->next : g->first;
    }
    return OT_OK;
}
