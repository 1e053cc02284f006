/* invariant.c - states that no iteration of a Loop changes become values from outside the Loop.
 *
 * Exporters of TensorFlow pass the weights of a recurrent cell to the loop as states that every iteration returns
 * unchanged.  Read from outside they are ordinary weights in slots of the body's nodes.  Nodes of the body that only
 * split or reshape them move before the loop. */
#include <string.h>

#include "ops/onnx/control.h"
#include "runtime/passes/control.h"
#include "runtime/passes/stored.h"

/* Is state i the same after an iteration as before? */
static bool unchanged(const ot_graph *body, int i)
{
    const ot_value *v = body->outputs[1 + i];
    while (v && v->producer && v->producer->graph == body && v->producer->op == &ot_op_Identity) v = v->producer->in[0];
    return v && v == body->inputs[2 + i];
}

static void drop(ot_value **list, int *n, int at)
{
    for (int i = at; i + 1 < *n; i++) list[i] = list[i + 1];
    --*n;
}

static ot_status hoist(ot_graph *g, ot_node *n, ot_graph *body)
{
    int states = n->n_in - 2;
    if (body->n_inputs != states + 2 || body->n_outputs < states + 1 || n->n_out < states)
        return OT_OK; /* infer reports it */
    for (int i = states - 1; i >= 0; i--) {
        if (!unchanged(body, i) || !n->in[2 + i]) continue;
        ot_graph_replace(body, body->inputs[2 + i], n->in[2 + i]);
        g->cursor = n;
        OT_TRY(ot_deliver(g, n, i, "Identity", OT_IN(n->in[2 + i])));
        g->cursor = NULL;
        drop(body->inputs, &body->n_inputs, 2 + i);
        drop(body->outputs, &body->n_outputs, 1 + i);
        drop(n->in, &n->n_in, 2 + i);
        drop(n->out, &n->n_out, i);
        for (int k = i; k < n->n_out; k++)
            if (n->out[k]) n->out[k]->port = k;
    }
    return OT_OK;
}

/* Does n only move elements of values from outside the loop?  Nodes that compute stay: one that fails must not fail
 * if no iteration runs. */
static bool moves(const ot_graph *body, const ot_node *n)
{
    bool known = n->op->flags & (OT_MOVES | OT_SAME) && ot_slot_at(n->op, 0) == '>';
    for (int i = 0; i < n->n_in && known; i++)
        if (ot_graph_has(body, n->in[i])) known = i > 0 && ot_is_const(n->in[i]) && n->in[i]->source < 0;
    return known;
}

/* Inserts the node before the loop, over the same values; constants of the body come along. */
static ot_status move_out(ot_graph *g, const ot_node *loop, ot_graph *body, ot_node *n)
{
    ot_value **in = ot_graph_alloc(g, (size_t)(n->n_in + 1) * sizeof *in);
    if (!in) return g->err->status;
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i];
        if (ot_graph_has(body, in[i]) &&
            !(in[i] = ot_graph_const_of(g, in[i]->name, in[i]->dtype, &in[i]->shape, in[i]->data)))
            return g->err->status;
    }
    g->cursor = (ot_node *)(uintptr_t)loop;
    ot_node *out = ot_graph_node(g, n->op, n->name, n->attrs, in, n->n_in, n->n_out);
    g->cursor = NULL;
    if (!out) return g->err->status;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) ot_graph_replace(body, n->out[i], out->out[i]);
    return OT_OK;
}

static ot_status move_all_out(ot_graph *g, const ot_node *loop, ot_graph *body)
{
    for (ot_node *n = body->first; n; n = n->next)
        if (moves(body, n)) OT_TRY(move_out(g, loop, body, n));
    return OT_OK;
}

ot_status ot_hoist_invariants(ot_graph *g)
{
    for (ot_node *n = g->first; n; n = n->next) {
        ot_graph *body;
        for (int i = 0; (body = ot_subgraph(n, i)); i++) {
            OT_TRY(ot_hoist_invariants(body));
            if (n->op != &ot_op_Loop) continue;
            OT_TRY(hoist(g, n, body));
            OT_TRY(move_all_out(g, n, body));
        }
    }
    return OT_OK;
}
