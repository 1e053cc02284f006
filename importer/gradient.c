/* gradient.c - Gradient: the tensors that its attributes name become its inputs.
 *
 * "xs" and "zs" name tensors that "y" depends on; the inputs are the values at which y is differentiated.  If every
 * input is the named tensor itself, the graph is used as it is.  Otherwise the nodes between them are copied, with
 * the input in the tensor's place.
 *
 * Spec    ai.onnx.preview.training Gradient 1. */
#include <stdlib.h>

#include "importer/build.h"

/* The tensor that a node's attribute names; NULL: there is none, which is a finding. */
static ot_value *named(ot_form *f, const char *attr, ProtobufCBinaryData text)
{
    const char *name = ot_arena_printf(f->job->f->arena, "%.*s", (int)text.len, (const char *)text.data);
    bool absent;
    ot_value *v = name ? ot_scope_find(f->scope, name, &absent) : NULL;
    if (!v) ot_form_finding(f, "%s: unknown tensor '%.200s'", attr, name ? name : "");
    return v;
}

/* *out: y with given[i] where it reads names[i], by copies of the nodes between. */
static ot_status elsewhere(ot_form *f, ot_value *y, ot_value *const *given, ot_value *const *names, int n,
                           ot_value **out)
{
    ot_graph *g = f->scope->graph;
    int count = g->n_values;
    ot_value **now = ot_job_alloc(f->job, (size_t)count * sizeof *now); /* the replacement of a value; NULL: none */
    bool *leads = ot_job_alloc(f->job, (size_t)count);                  /* to y, and not by way of one that is given */
    ot_node *last = g->last;
    if (!now || !leads) return OT_E_NOMEM;
    for (int i = 0; i < n; i++)
        if (ot_graph_has(g, names[i])) now[names[i]->id] = given[i];
    if (ot_graph_has(g, y)) leads[y->id] = !now[y->id];
    for (const ot_node *k = last; k; k = k->prev) {
        bool on = false;
        for (int i = 0; i < k->n_out; i++) on |= k->out[i] && leads[k->out[i]->id];
        for (int i = 0; i < k->n_in && on; i++)
            if (ot_graph_has(g, k->in[i]) && !now[k->in[i]->id]) leads[k->in[i]->id] = true;
    }
    for (ot_node *k = g->first, *next; k; k = k == last ? NULL : next) {
        bool on = false, changed = false;
        next = k->next;
        for (int i = 0; i < k->n_out; i++) on |= k->out[i] && leads[k->out[i]->id] && !now[k->out[i]->id];
        for (int i = 0; i < k->n_in; i++)
            changed |= ot_graph_has(g, k->in[i]) && k->in[i]->id < count && now[k->in[i]->id];
        if (!on || !changed) continue;
        if (ot_subgraph(k, 0))
            return ot_form_finding(
                f, "%s '%.200s' contains a graph: gradients at other values than its inputs are not supported",
                k->op->name, k->name);
        ot_value **in = ot_job_alloc(f->job, (size_t)(k->n_in + 1) * sizeof *in);
        if (!in) return OT_E_NOMEM;
        for (int i = 0; i < k->n_in; i++)
            in[i] = ot_graph_has(g, k->in[i]) && now[k->in[i]->id] ? now[k->in[i]->id] : k->in[i];
        ot_node *copy = ot_graph_node(g, k->op, k->name, k->attrs, in, k->n_in, k->n_out);
        if (!copy) return OT_E_NOMEM;
        for (int i = 0; i < k->n_out; i++) {
            if (k->out[i] && !now[k->out[i]->id]) now[k->out[i]->id] = copy->out[i];
            if (k->out[i]) continue;
            copy->out[i]->producer = NULL;
            copy->out[i] = NULL;
        }
    }
    *out = ot_graph_has(g, y) && now[y->id] ? now[y->id] : y;
    return OT_OK;
}

ot_status ot_gradient(ot_form *f)
{
    const ot_attribute *xs = ot_form_get(f, "xs"), *zs = ot_form_get(f, "zs"), *y = ot_form_get(f, "y");
    size_t n_x = xs ? xs->n_strings : 0, n = n_x + (zs ? zs->n_strings : 0);
    if (!y || !n_x) return ot_form_finding(f, "'xs' or 'y' names no tensor");
    if ((size_t)f->n_in != n || (size_t)f->n_out > n_x)
        return ot_form_finding(f, "%d inputs and %d outputs, but %zu tensors in 'xs' and %zu in 'zs'", f->n_in,
                               f->n_out, n_x, n - n_x);
    ot_value **in = ot_job_alloc(f->job, (n + 2) * sizeof *in), **names = ot_job_alloc(f->job, (n + 1) * sizeof *names);
    ot_value *of = in && names ? named(f, "y", y->s) : NULL;
    bool here = true;
    if (!in || !names) return OT_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        names[i] = i < n_x ? named(f, "xs", xs->strings[i]) : named(f, "zs", zs->strings[i - n_x]);
        if (names[i] && !f->in[i]) ot_form_finding(f, "input %zu is missing", i);
        if (!names[i] || !f->in[i]) of = NULL;
        here &= names[i] == f->in[i];
    }
    if (!of) return OT_E_MODEL;
    if (!here) OT_TRY(elsewhere(f, of, f->in, names, (int)n, &of));
    for (size_t i = 0; i < n_x; i++) {
        in[i] = f->in[i];
        in[i]->differentiated = true;
    }
    in[n_x] = of;
    f->in = in;
    f->n_in = (int)n_x + 1;
    f->cap_in = (int)n + 2;
    return OT_OK;
}
