/* mode.c - BatchNorm and Dropout as asked (DESIGN 6).
 *
 * BatchNorm trains where its input depends on an input of the graph, unless --bn frozen, its scale and
 * bias are frozen, or a channel has a single value; one whose input depends on weights alone (weight
 * standardisation) keeps the mode of the file.  In training its new running statistics are assigned.
 * Dropout acts in training only. */
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/passes.h"

enum { FED = 1 }; /* value->mark: depends on an input of the graph */

static void mark_fed(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (int i = 0; i < g->n_inputs; i++) g->inputs[i]->mark = FED;
    for (ot_node *n = g->first; n; n = n->next) {
        bool fed = false;
        for (int i = 0; i < n->n_in; i++) fed |= n->in[i] && n->in[i]->mark == FED;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && fed) n->out[i]->mark = FED;
    }
}

/* Writes an integer attribute by its ONNX name; the graph's nodes own their attributes. */
static void set_attr(ot_node *n, const char *name, int64_t v)
{
    for (const ot_attr *a = n->op->attrs; a && a->name; a++)
        if (!strcmp(a->name, name)) memcpy((char *)(uintptr_t)n->attrs + a->offset, &v, sizeof v);
}

/* Makes room for at least `want` outputs and creates those below it that are left out. */
static bool outputs(ot_graph *g, ot_node *n, int want)
{
    if (n->n_out < want) {
        ot_value **out = ot_graph_alloc(g, (size_t)want * sizeof *out);
        if (!out) return false;
        memcpy(out, n->out, (size_t)n->n_out * sizeof *out);
        n->out = out;
        n->n_out = want;
    }
    for (int i = 1; i < want; i++) {
        if (n->out[i]) continue;
        n->out[i] = ot_graph_value(g, n->name, OT_TEMP, OT_UNDEFINED, NULL);
        if (!n->out[i]) return false;
        n->out[i]->producer = n;
        n->out[i]->port = i;
    }
    return true;
}

static bool asked_to_train(const ot_plan *p, const ot_config *c, const ot_node *n, const char **why)
{
    const ot_shape *x = &n->in[0]->shape;
    int64_t         channels = x->rank > 1 ? x->dim[1] : 1;
    (void)p;
    *why = NULL;
    if (c->want != OT_WANT_TRAIN && c->want != OT_WANT_GRAD) return false;
    if (c->bn == OT_BN_FROZEN) return false;
    if (c->bn == OT_BN_TRAIN) return true;
    if (n->in[1]->role != OT_WEIGHT && n->in[2]->role != OT_WEIGHT) *why = "its scale and bias are frozen";
    else if (channels && ot_numel(x) / channels == 1) *why = "a channel has a single value in a batch";
    return !*why;
}

static ot_status batch_norm(ot_plan *p, const ot_config *c, ot_node *n, int *trained)
{
    ot_graph   *g = p->graph;
    const char *why = NULL;
    if (n->in[0]->mark != FED) return OT_OK;
    bool train = asked_to_train(p, c, n, &why);
    if (why) ot_plan_note(p, "%s: BatchNormalization keeps its running statistics: %s", n->name, why);
    set_attr(n, "training_mode", train);
    set_attr(n, "unbiased", c->bn_unbiased);
    if (!train) {
        /* The running statistics stay what they are, for whoever reads them. */
        for (int i = 1; i < n->n_out && i < 3; i++)
            if (n->out[i]) ot_graph_replace(g, n->out[i], n->in[i + 2]);
        n->n_out = 1;
        return ot_node_infer(n, g->err);
    }
    *trained += 1;
    if (!outputs(g, n, 3)) return g->err->status;
    OT_TRY(ot_node_infer(n, g->err));
    for (int i = 3; i < 5 && c->want == OT_WANT_TRAIN; i++)
        if (n->in[i]->role == OT_STATE) ot_graph_assign(g, n->in[i], n->out[i - 2]);
    return OT_OK;
}

static ot_status dropout(ot_plan *p, const ot_config *c, ot_node *n, int *acting)
{
    ot_graph  *g = p->graph;
    bool       on = c->want == OT_WANT_TRAIN && c->dropout != 0;
    ot_value **in = ot_graph_alloc(g, 3 * sizeof *in);
    float      ratio = (float)c->dropout;
    uint8_t    train = on;
    if (!in) return g->err->status;
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    in[2] = ot_graph_const(g, "training_mode", OT_BOOL, &OT_SCALAR, &train);
    if (on && c->dropout > 0) in[1] = ot_graph_const(g, "ratio", OT_F32, &OT_SCALAR, &ratio);
    n->in = in;
    n->n_in = 3;
    *acting += on;
    return g->err->status;
}

ot_status ot_pass_mode(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    int       norms = 0, trained = 0, drops = 0, acting = 0;
    if (c->want == OT_WANT_RUN && !c->eval_mode) return OT_OK;
    mark_fed(g);
    for (ot_node *n = g->first; n; n = n->next) {
        if (!strcmp(n->op->name, "BatchNormalization")) norms++, batch_norm(p, c, n, &trained);
        if (!strcmp(n->op->name, "Dropout")) drops++, dropout(p, c, n, &acting);
        if (g->err->status != OT_OK) return g->err->status;
    }
    if (c->want != OT_WANT_TRAIN) return OT_OK;
    if (norms) ot_plan_note(p, "BatchNormalization: %d of %d use and update batch statistics (--bn)", trained, norms);
    if (drops) ot_plan_note(p, "Dropout: %d of %d act (--dropout)", acting, drops);
    else if (c->dropout > 0) ot_plan_note(p, "--dropout %g: the model has no Dropout; nothing is dropped", c->dropout);
    return OT_OK;
}
