/* settle.c - predictions: what depends on weights only is computed once, while the steps are ordered.  Not a pass.
 *
 * The step's kernel runs here, its results become constants, and the step is dropped: factors of norms, scaled, transposed or
 * narrowed weights.  A plan that many others resemble (other batch sizes, other lengths) would hold all of this again: only the
 * first plan of a session does.  Results larger than the operands (expansions) and those beyond OT_SETTLED_MOST bytes, beside the
 * scaled weights of fold_scale.c, stay in the steps. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/passes/tune.h"

enum { MOST_OPERANDS = 64 };

static bool can_settle(const ot_plan *p, const ot_step *s)
{
    const ot_node *n = s->node;
    int64_t in = 0, out = 0;
    if (n->op->flags & (OT_ALIAS | OT_RANDOM) || n->n_in < 1 || n->n_in > MOST_OPERANDS || n->n_out > MOST_OPERANDS)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        if (!ot_settled_bytes(p->graph, n->in[i])) return false;
        in += (int64_t)ot_bytes(&n->in[i]->shape, n->in[i]->dtype);
    }
    for (int i = 0; i < n->n_out; i++) {
        const ot_value *v = n->out[i];
        if (v && (v->role != OT_TEMP || ot_plan_reads(p, v))) return false;
        if (v) out += (int64_t)ot_bytes(&v->shape, v->dtype);
    }
    return out <= in && p->settled_bytes + out <= OT_SETTLED_MOST + p->folded_bytes;
}

static ot_status compute(ot_plan *p, const ot_step *s)
{
    const ot_node *n = s->node;
    const void *in[MOST_OPERANDS] = { NULL };
    void *out[MOST_OPERANDS] = { NULL };
    void *work = s->work_bytes > 0 ? aligned_alloc(64, ((size_t)s->work_bytes + 63) / 64 * 64) : NULL;
    ot_status e = OT_OK;
    if (s->work_bytes > 0 && !work) return ot_fail(p->graph->err, OT_E_NOMEM, "%s: no memory to compute it", n->name);
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] ? ot_settled_bytes(p->graph, n->in[i]) : NULL;
    for (int i = 0; i < n->n_out && e == OT_OK; i++) {
        size_t bytes = n->out[i] ? ot_bytes(&n->out[i]->shape, n->out[i]->dtype) : 0;
        if (n->out[i] && !(out[i] = ot_graph_alloc(p->graph, bytes))) e = p->graph->err->status;
        else p->settled_bytes += (int64_t)bytes;
    }
    if (e == OT_OK)
        e = s->kernel->run(&(ot_call){ .node = n,
                                       .in = in,
                                       .out = out,
                                       .work = work,
                                       .state = s->state,
                                       .threads = p->threads,
                                       .err = p->graph->err });
    for (int i = 0; i < n->n_out && e == OT_OK; i++)
        if (n->out[i]) n->out[i]->data = out[i], n->out[i]->role = OT_CONST;
    free(work);
    return e;
}

ot_status ot_settle(ot_plan *p, const ot_config *c, ot_step *s, ot_node *n)
{
    if (!c->settled || p->like || n->phase != OT_PHASE_BATCH || !can_settle(p, s)) return OT_OK;
    OT_TRY(compute(p, s));
    if (s->kernel->release && s->state) s->kernel->release(s->state);
    memset(s, 0, sizeof *s);
    p->n_batch_steps--;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) n->out[i]->producer = NULL;
    ot_graph_remove(p->graph, n);
    return OT_OK;
}
