/* verify.c - the invariants of graph.h, checked after every pass in debug builds. */
#include "runtime/graph/graph.h"
#include "ops/op.h"

static ot_status check_value(const ot_value *v, bool typed, ot_error *err)
{
    if (typed && v->dtype == OT_UNDEFINED) return ot_fail(err, OT_E_INTERNAL, "value '%s' has no type (I3)", v->name);
    if (typed && v->dtype != OT_STRING && (!ot_shape_known(&v->shape) || !ot_shape_fits(&v->shape, v->dtype)))
        return ot_fail(err, OT_E_INTERNAL, "value '%s' has no finite shape (I3)", v->name);
    return OT_OK;
}

static ot_status check_node(const ot_graph *g, const ot_node *n, bool typed, ot_error *err)
{
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (!v) continue;
        if (v->producer && v->producer->graph == g && v->producer->mark != 1)
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: input %d, '%s', is produced later (I1)", n->name, n->op->name, i, v->name);
        if (!v->producer && v->role == OT_TEMP)
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: nothing makes input %d, '%s' (I1)", n->name, n->op->name, i, v->name);
        OT_TRY(check_value(v, typed, err));
    }
    for (int i = 0; i < n->n_out; i++) {
        const ot_value *v = n->out[i];
        if (!v) continue;
        if (v->producer != n || v->port != i)
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: output %d, '%s', names another producer (I2)", n->name, n->op->name, i, v->name);
        if (v->data && v->role == OT_TEMP)
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: output '%s' has bytes and a producer (I4)", n->name, n->op->name, v->name);
        OT_TRY(check_value(v, typed, err));
    }
    return OT_OK;
}

ot_status ot_graph_verify(const ot_graph *g, bool typed, ot_error *err)
{
    for (ot_node *n = g->first; n; n = n->next) n->mark = 0;
    for (ot_node *n = g->first; n; n = n->next) {
        OT_TRY(check_node(g, n, typed, err));
        n->mark = 1;
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i]->role == OT_TEMP && !g->outputs[i]->producer)
            return ot_fail(err, OT_E_INTERNAL, "nothing makes output '%s' (I1)", g->outputs[i]->name);
    return OT_OK;
}
