/* own.c - training by the file's own algorithm (TrainingInfoProto, importer/training.c).
 *
 * Its graph contains loss, gradients and updates; this pass finds them, and the passes that would build them do
 * nothing. */
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/stored.h"

/* Does a Gradient by v exist? */
static bool differentiated_by(const ot_graph *g, const ot_value *v)
{
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; n->op == &ot_op_Gradient && i + 1 < n->n_in; i++)
            if (n->in[i] == v) return true;
    return false;
}

ot_status ot_own_classify(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_values; i++) {
        ot_value *v = g->values[i];
        if (v->role != OT_WEIGHT) continue;
        v->role = OT_CONST;
        v->why = "constant: not updated by the training algorithm in the file";
    }
    for (int i = 0; i < g->n_assigns; i++) {
        ot_value *v = g->assigns[i].state;
        bool trains = ot_is_float(v->dtype) && differentiated_by(g, v);
        v->role = trains ? OT_WEIGHT : OT_STATE;
        v->why = trains ? "trained: by the training algorithm in the file"
                        : "state: of the training algorithm in the "
                          "file";
    }
    if (c->want != OT_WANT_TRAIN) g->n_assigns = 0;
    return g->err->status;
}

/* What replaces an initializer must have its type and shape. */
static ot_status check_updates(ot_plan *p)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_assigns; i++) {
        const ot_value *v = g->assigns[i].state, *now = g->assigns[i].value;
        char a[128], b[128];
        if (v->dtype == now->dtype && ot_shape_eq(&v->shape, &now->shape)) continue;
        ot_fail_more(g->err, OT_E_MODEL, "update_binding: '%s' is %s%s, but its update '%s' is %s%s", v->name,
                     ot_dtype_name(v->dtype), ot_shape_text(&v->shape, a), now->name, ot_dtype_name(now->dtype),
                     ot_shape_text(&now->shape, b));
    }
    return g->err->status;
}

ot_status ot_own_loss(ot_plan *p)
{
    ot_graph *g = p->graph;
    OT_TRY(check_updates(p));
    if (p->baked)
        return ot_fail(g->err, OT_E_MODEL,
                       "the training algorithm in the file (TrainingInfoProto) has a fixed batch "
                       "size: use --batch-size %lld, or --optimizer to train with the options "
                       "instead",
                       (long long)p->baked);
    for (const ot_node *n = g->first; n; n = n->next) {
        ot_value *y = n->op == &ot_op_Gradient ? n->in[n->n_in - 1] : NULL;
        if (!y || ot_numel(&y->shape) != 1 || !y->producer || y->producer->op == &ot_op_Gradient) continue;
        p->loss = y;
        p->n_losses = 1;
        return OT_OK;
    }
    return ot_fail(g->err, OT_E_MODEL,
                   "the training algorithm in the file (TrainingInfoProto) has no loss: it uses "
                   "no gradient of a single element");
}
