/* verify.c - checks the invariants of graph.h: on the final graph of every plan, in debug builds after every pass. */
#include "runtime/graph/graph.h"

#include <stdlib.h>

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
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: input %d, '%s', is produced later (I1)", n->name, n->op->name,
                           i, v->name);
        if (!v->producer && v->role == OT_TEMP)
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: input %d, '%s', is produced by no node (I1)", n->name,
                           n->op->name, i, v->name);
        OT_TRY(check_value(v, typed, err));
    }
    for (int i = 0; i < n->n_out; i++) {
        const ot_value *v = n->out[i];
        if (!v) continue;
        if (v->producer != n || v->port != i)
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: output %d, '%s', has another producer (I2)", n->name,
                           n->op->name, i, v->name);
        if (v->data && v->role == OT_TEMP)
            return ot_fail(err, OT_E_INTERNAL, "%s: %s: output '%s' has both data and a producer (I4)", n->name,
                           n->op->name, v->name);
        OT_TRY(check_value(v, typed, err));
    }
    return OT_OK;
}

/* The shape of a channels-last Copy is that of its memory. */
static bool same_shape(const ot_value *v, const ot_shape *s)
{
    return ot_shape_eq(&v->shape, s) ||
           (v->layout != OT_PLAIN && v->shape.rank == s->rank && ot_numel(&v->shape) == ot_numel(s));
}

/* Kernels rely on types and shapes: those of the operands must be accepted by the operator's rule, and those of the
 * results must be the rule's. */
static ot_status check_rule(ot_node *n, ot_error *err)
{
    struct {
        ot_dtype dtype;
        ot_shape shape;
    } was[16], rule;
    ot_error why = { 0 };
    char a[128], b[128];
    if (n->n_out > OT_LEN(was))
        return ot_fail(err, OT_E_INTERNAL, "%s: %s: %d outputs (I6)", n->name, n->op->name, n->n_out);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) was[i].dtype = n->out[i]->dtype, was[i].shape = n->out[i]->shape;
    if (ot_node_infer(n, &why) != OT_OK) return ot_fail(err, OT_E_INTERNAL, "%s (I6)", why.text);
    for (int i = 0; i < n->n_out; i++) {
        ot_value *v = n->out[i];
        if (!v) continue;
        rule.dtype = v->dtype, rule.shape = v->shape;
        v->dtype = was[i].dtype, v->shape = was[i].shape;
        if (v->dtype == rule.dtype && same_shape(v, &rule.shape)) continue;
        return ot_fail(err, OT_E_INTERNAL, "%s: %s: output %d, '%s', is %s%s, but the shape rule gives %s%s (I6)",
                       n->name, n->op->name, i, v->name, ot_dtype_name(v->dtype), ot_shape_text(&v->shape, a),
                       ot_dtype_name(rule.dtype), ot_shape_text(&rule.shape, b));
    }
    return OT_OK;
}

/* ---- I5 ---------------------------------------------------------------------------- */

static bool lasts(const ot_value *v) { return v->role == OT_WEIGHT || v->role == OT_STATE; }

static int by_identity(const void *a, const void *b)
{
    const ot_value *v = *(const ot_value *const *)a, *w = *(const ot_value *const *)b;
    int x = v->of ? v->of->source : v->source, y = w->of ? w->of->source : w->source;
    if (v->kind != w->kind) return v->kind < w->kind ? -1 : 1;
    return (x > y) - (x < y);
}

static ot_status check_kind(const ot_value *v, ot_error *err)
{
    const ot_value *w = v->of;
    if (v->kind == OT_STATE_OF_FILE && (w || (lasts(v) && v->source < 0)))
        return ot_fail(err, OT_E_INTERNAL, "state '%s' is neither from the file nor of a weight (I5)", v->name);
    if (v->kind != OT_STATE_OF_FILE && (v->role != OT_STATE || v->source >= 0 || v->producer))
        return ot_fail(err, OT_E_INTERNAL, "'%s' has a state kind, but is not a state (I5)", v->name);
    bool owner = w && (w->role == OT_WEIGHT || (v->kind == OT_STATE_AVERAGE && w->role == OT_STATE)) && w->source >= 0;
    if (w && !owner)
        return ot_fail(err, OT_E_INTERNAL, "'%s' is a state of '%s', which is not a weight of the file (I5)", v->name,
                       w->name);
    return OT_OK;
}

static ot_status check_identities(const ot_graph *g, ot_error *err)
{
    const ot_value **list = malloc(((size_t)g->n_values + 1) * sizeof *list);
    ot_status s = list ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory to check the graph");
    int n = 0;
    for (int i = 0; i < g->n_values && s == OT_OK; i++) {
        s = check_kind(g->values[i], err);
        if (lasts(g->values[i])) list[n++] = g->values[i];
    }
    if (s == OT_OK && n) qsort(list, (size_t)n, sizeof *list, by_identity);
    for (int i = 1; i < n && s == OT_OK; i++)
        if (!by_identity(&list[i - 1], &list[i]))
            s = ot_fail(err, OT_E_INTERNAL, "'%s' and '%s' are the same state (I5)", list[i - 1]->name, list[i]->name);
    free(list);
    return s;
}

ot_status ot_graph_verify(const ot_graph *g, bool typed, ot_error *err)
{
    for (ot_node *n = g->first; n; n = n->next) n->mark = 0;
    for (ot_node *n = g->first; n; n = n->next) {
        OT_TRY(check_node(g, n, typed, err));
        if (typed && n->op->flags & OT_INTERNAL) OT_TRY(check_rule(n, err));
        n->mark = 1;
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i]->role == OT_TEMP && !g->outputs[i]->producer)
            return ot_fail(err, OT_E_INTERNAL, "output '%s' is produced by no node (I1)", g->outputs[i]->name);
    return check_identities(g, err);
}
