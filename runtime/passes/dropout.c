/* dropout.c - --add-dropout: a Dropout before the classifier, in plans of training steps only.
 *
 * The classifier is the last layer with a weight before the loss (Gemm, MatMul, Conv or Einsum), one per output.
 * The Dropout applies to its data input. */
#include "ops/op.h"
#include "runtime/passes/passes.h"

enum { SEEN = 2 }; /* node->mark */

static const ot_value *behind(const ot_value *v)
{
    while (v && v->producer && v->producer->n_in && v->producer->op->flags & OT_SAME) v = v->producer->in[0];
    return v;
}

/* The data input of n if another input is a weight, frozen or not; -1: n is no such layer. */
static int data_input(const ot_node *n)
{
    int data = -1;
    bool weight = false;
    if (!(n->op->flags & OT_PRODUCT)) return -1;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i], *from = behind(v);
        if (v && v->mark == OT_FED && data < 0) data = i;
        weight |= from && v->mark != OT_FED && (from->source >= 0 || ot_is_const(from)) && from->shape.rank > 1;
    }
    return weight ? data : -1;
}

static void drop(ot_plan *p, ot_node *n, int input, double ratio, int *added)
{
    ot_graph *g = p->graph;
    const ot_value *from = behind(n->in[input]);
    if (from && from->producer && from->producer->op == &ot_op_Dropout) {
        ot_find(ot_plan_findings(p), OT_FINDING_WARNING, n->name, "use --dropout P to change its ratio",
                "--add-dropout: the classifier "
                "already has Dropout; none is added");
        return;
    }
    float f = (float)ratio;
    uint8_t train = 1;
    ot_value *in[] = { n->in[input], ot_graph_const(g, "ratio", OT_F32, &OT_SCALAR, &f),
                       ot_graph_const(g, "training_mode", OT_BOOL, &OT_SCALAR, &train) };
    g->cursor = n;
    ot_node *d = ot_graph_node(g, &ot_op_Dropout, "onnxtrain.dropout", NULL, in, 3, 1);
    g->cursor = NULL;
    if (!d || ot_node_infer(d, g->err)) return;
    n->in[input] = d->out[0];
    *added += 1;
    ot_find(ot_plan_findings(p), OT_FINDING_NOTE, n->name, NULL,
            "--add-dropout %g: Dropout is added before the "
            "classifier in training; the written file has none",
            ratio);
}

/* Follows v back to the last layers. */
static void visit(ot_plan *p, const ot_value *v, double ratio, int *added)
{
    ot_node *n = v ? v->producer : NULL;
    if (!n || n->mark == SEEN || v->mark != OT_FED) return;
    if (v->id >= p->taught_from && v->id < p->taught_to) return; /* the teacher's */
    n->mark = SEEN;
    int input = data_input(n);
    if (input >= 0) drop(p, n, input, ratio, added);
    else
        for (int i = 0; i < n->n_in && p->graph->err->status == OT_OK; i++) visit(p, n->in[i], ratio, added);
}

ot_status ot_pass_dropout(ot_plan *p, const ot_config *c)
{
    int added = 0;
    if (c->want != OT_WANT_TRAIN || !(c->options.add_dropout > 0)) return OT_OK;
    for (ot_node *n = p->graph->first; n; n = n->next) n->mark = 0;
    ot_mark_fed(p->graph);
    visit(p, p->loss, c->options.add_dropout, &added);
    if (!added && p->graph->err->status == OT_OK)
        ot_find(ot_plan_findings(p), OT_FINDING_WARNING, NULL, NULL,
                "--add-dropout %g: no effect: no Gemm, MatMul or "
                "Conv with a weight was found before the loss",
                c->options.add_dropout);
    return p->graph->err->status;
}
