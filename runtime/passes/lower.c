/* lower.c - replaces every node by kernel operators, through the lowering rule of its operator. */
#include <string.h>

#include "ops/kernels/copy.h"
#include "ops/kernels/view.h"
#include "ops/op.h"
#include "runtime/passes/passes.h"

/* Was v computed by a node between `prev` (excluded; NULL: the head) and `end` (excluded)? */
static bool made_between(const ot_graph *g, const ot_node *prev, const ot_node *end, const ot_value *v)
{
    for (const ot_node *n = prev ? prev->next : g->first; n != end; n = n->next)
        if (v->producer == n) return true;
    return false;
}

/* Replaces y by `out`, which the lowering of `end` has just made. */
static void take_over(ot_graph *g, ot_node *prev, const ot_node *end, ot_value *out, ot_value *y)
{
    for (ot_node *n = prev ? prev->next : g->first; n != end; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == y) n->in[i] = out;
    out->producer = y->producer;
    out->port = y->port;
    out->producer->out[out->port] = out;
    y->producer = NULL;
}

static ot_status settle(ot_build *b, ot_node *n, ot_node *prev, int i)
{
    ot_graph *g = b->graph;
    ot_value *out = n->out[i], *y = b->yield[i];
    if (!y)
        return ot_fail(g->err, OT_E_INTERNAL, "%s: internal error: lowering %s gives no output %d", n->name,
                       n->op->name, i);
    if (y->dtype != out->dtype || !ot_shape_eq(&y->shape, &out->shape)) {
        char a[128], c[128];
        return ot_fail(g->err, OT_E_INTERNAL,
                       "%s: internal error: lowering %s gives %s%s for output %d, expected "
                       "%s%s",
                       n->name, n->op->name, ot_dtype_name(y->dtype), ot_shape_text(&y->shape, a), i,
                       ot_dtype_name(out->dtype), ot_shape_text(&out->shape, c));
    }
    if (!made_between(g, prev, n, y)) /* an input, or already another output */
        y = ot_emit(b, &ot_op_View, &(ot_view_attrs){ y->shape }, OT_IN(y));
    if (!y) return g->err->status;
    take_over(g, prev, n, out, y);
    return OT_OK;
}

ot_status ot_lower_yield(ot_build *b, ot_node *n, ot_node *prev)
{
    for (int i = 0; i < n->n_out && b->graph->err->status == OT_OK; i++)
        if (n->out[i]) settle(b, n, prev, i);
    if (b->graph->err->status == OT_OK) ot_graph_remove(b->graph, n);
    return b->graph->err->status;
}

static ot_status lower_node(ot_graph *g, ot_node *n, const ot_device *d, bool again)
{
    ot_node *prev = n->prev;
    ot_build b = { .graph = g, .node = n, .device = d, .again = again };
    ot_value **yield = ot_graph_alloc(g, (size_t)n->n_out * sizeof *yield);
    if (!yield) return g->err->status;
    b.yield = yield;
    g->cursor = n;
    g->phase = n->phase;
    ot_graph_at(g, n);
    n->op->lower(&b);
    ot_status s = ot_lower_yield(&b, n, prev);
    ot_graph_at(g, NULL);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    return s;
}

ot_status ot_lower(ot_graph *g, const ot_device *d)
{
    bool again = false;
    for (const ot_node *n = g->first; n; n = n->next) again |= n->op == &ot_op_Gradient;
    for (ot_node *n = g->first; n;) {
        if (!n->op->lower) {
            n = n->next;
            continue;
        }
        ot_node *prev = n->prev;
        OT_TRY(lower_node(g, n, d, again));
        n = prev ? prev->next : g->first; /* the new nodes may be lowered further */
    }
    return OT_OK;
}

ot_status ot_pass_lower(ot_plan *p, const ot_config *c) { return ot_lower(p->graph, c->device); }
