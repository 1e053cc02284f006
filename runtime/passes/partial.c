/* partial.c - outputs of a file that are no tensors, or that cannot be computed.
 *
 * A sequence becomes one output per element, after the file's own outputs; an optional becomes its element.  If a
 * node fails for a reason beyond this program (data-dependent strings, unknown operators), the outputs that need it
 * are skipped and reported, provided that another output remains: the user may not need them.  Output i of the plan
 * stays output i of the file: a skipped one is empty. */
#include <stdio.h>
#include <string.h>

#include "ops/onnx/sequence.h"
#include "runtime/passes/passes.h"

/* Replaces output i, which is skipped, by an empty tensor. */
static ot_status leave_out(ot_plan *p, int i, const char *why)
{
    ot_graph *g = p->graph;
    const char *name = g->outputs[i]->name;
    ot_value *v = ot_graph_const(g, name, OT_F32, &(ot_shape){ .rank = 1, .dim = { 0 } }, "");
    char *text = ot_graph_alloc(g, strlen(why) + 1);
    if (!v || !text) return g->err->status;
    memcpy(text, why, strlen(why));
    v->left_out = text;
    g->outputs[i] = v;
    ot_find(ot_plan_findings(p), OT_FINDING_NOTE, NULL, NULL, "output '%s' is omitted: %s", name, why);
    return g->err->status;
}

/* The outputs that depend on `at`, which failed, and all nodes that lead only to them. */
static ot_status leave_out_behind(ot_plan *p, ot_node *at, const ot_error *why)
{
    ot_graph *g = p->graph;
    int left = 0;
    for (ot_node *n = g->first; n; n = n->next) n->mark = n == at;
    ot_graph_mark_behind(g);
    for (int i = 0; i < g->n_outputs; i++) left += !g->outputs[i]->mark && !g->outputs[i]->left_out;
    if (!left) return ot_fail(g->err, why->status, "%s", why->text);
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i]->mark) OT_TRY(leave_out(p, i, why->text));
    for (ot_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (n->mark) ot_graph_remove(g, n);
    }
    return g->err->status;
}

/* Does n fail because of what this program does not support?  A file that is wrong is refused. */
static bool is_beyond(const ot_node *n)
{
    bool beyond = n->op == &ot_op_Unsupported;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (v)
            beyond |= v->dtype == OT_STRING || v->dtype == OT_UNDEFINED || (ot_is_nondiff(n->op, i) && !ot_is_const(v));
    }
    return beyond;
}

ot_status ot_leave_out_unsupported(ot_plan *p)
{
    for (ot_node *n = p->graph->first; n;) {
        ot_error why = { 0 };
        ot_node *at = n->op == &ot_op_Unsupported ? n : NULL;
        n = n->next;
        if (!at) continue;
        (void)ot_node_infer(at, &why);
        OT_TRY(leave_out_behind(p, at, &why));
        n = p->graph->first; /* some are removed */
    }
    return OT_OK;
}

/* ---- sequences ------------------------------------------------------------------ */

static ot_status add_output(ot_plan *p, ot_value *v, const char *name, int k)
{
    ot_graph *g = p->graph;
    size_t size = strlen(name) + 24;
    char *text = ot_graph_alloc(g, size);
    const char **list = ot_graph_alloc(g, (size_t)(p->n_spread + 1) * sizeof *list);
    if (!text || !list) return g->err->status;
    snprintf(text, size, "%s/%d", name, k);
    if (p->n_spread) memcpy(list, p->spread, (size_t)p->n_spread * sizeof *list);
    list[p->n_spread++] = text;
    p->spread = list;
    ot_graph_output(g, v);
    return g->err->status;
}

/* Why an output that is a list k is skipped, and how its elements can train. */
static const char *list_text(const ot_node *k, char buf[300])
{
    if (k->op != &ot_op_SequenceConstruct) return "it is an empty optional";
    if (!k->n_in) return "it is a sequence";
    snprintf(buf, 300, "it is a sequence; --output '%.200s' trains an element of it", k->in[0]->name);
    return buf;
}

static ot_status spread(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    char why[300];
    for (int i = 0, n = g->n_outputs; i < n; i++) {
        ot_value *v = g->outputs[i];
        const ot_node *k = v->producer;
        if (ot_is_optional(v) && k->n_in == 1 && ot_is_list(k->in[0])) k = k->in[0]->producer;
        if (ot_is_optional(v) && k->op == &ot_op_Optional && k->n_in == 1) {
            g->outputs[i] = k->in[0];
        } else if (ot_is_list(v) || ot_is_optional(v)) {
            for (int e = 0; e < k->n_in && c->want == OT_WANT_RUN; e++) OT_TRY(add_output(p, k->in[e], v->name, e));
            OT_TRY(leave_out(p, i, list_text(k, why)));
        }
    }
    return g->err->status;
}

ot_status ot_infer_plan(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    ot_node *at;
    while (ot_infer_nodes(g, &at) != OT_OK) {
        ot_error why = *g->err;
        if (!c->partial || why.status != OT_E_MODEL || !at || !is_beyond(at)) return why.status;
        *g->err = (ot_error){ 0 };
        OT_TRY(leave_out_behind(p, at, &why));
    }
    OT_TRY(spread(p, c));
    return ot_infer_graph(g);
}
