/* settle.c - predictions: what depends on weights only is computed once, while the plan is made.
 *
 * The step's kernel runs here, its results become constants, and the step is dropped: factors of norms, transposed or converted
 * weights.  A plan that many others resemble (other batch sizes, other lengths) would hold all of this again: only the first
 * plan of a session does.  Results larger than the operands (expansions) and more than MOST bytes stay in the steps. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/tune.h"

enum { MOST = 256 << 20 };

static bool draws(const ot_node *n)
{
    const ot_program *m = n->attrs;
    bool random = n->op->flags & OT_RANDOM;
    for (int i = 0; n->op == &ot_op_Map && i < m->n_inst; i++) random = random || m->inst[i].row == OT_FN_Random;
    return random;
}

static bool can_settle(const ot_plan *p, const ot_step *s)
{
    const ot_node *n = s->node;
    int64_t in = 0, out = 0;
    if (n->op->flags & OT_ALIAS || draws(n) || n->n_in < 1 || n->n_in > OT_MAP_IN || n->n_out > OT_MAP_OUT)
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
    return out <= in && p->settled_bytes + out <= MOST;
}

static ot_status compute(ot_plan *p, const ot_step *s)
{
    const ot_node *n = s->node;
    const void *in[OT_MAP_IN] = { NULL };
    void *out[OT_MAP_OUT] = { NULL };
    void *work = s->work_bytes > 0 ? aligned_alloc(64, ((size_t)s->work_bytes + 63) / 64 * 64) : NULL;
    ot_status e = OT_OK;
    if (s->work_bytes > 0 && !work) return ot_fail(p->graph->err, OT_E_NOMEM, "%s: no memory to compute it", n->name);
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] ? ot_settled_bytes(p->graph, n->in[i]) : NULL;
    for (int i = 0; i < n->n_out && e == OT_OK; i++) {
        size_t bytes = n->out[i] ? ot_bytes(&n->out[i]->shape, n->out[i]->dtype) : 0;
        if (n->out[i] && !(out[i] = ot_graph_alloc(p->graph, bytes))) e = p->graph->err->status;
        p->settled_bytes += (int64_t)bytes;
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
