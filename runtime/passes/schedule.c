/* schedule.c - one order, a kernel for every node, and what each kernel prepares.
 *
 * The order is that of the list: forward as the file has it, backward in reverse, updates last.
 * A node of the update phase never runs before one of the every phase. */
#include "ops/kernel.h"
#include "runtime/passes/passes.h"

static ot_status prepare(ot_step *s, const ot_config *c, int threads, ot_error *err)
{
    const ot_node *n = s->node;
    const char    *why = NULL;
    s->kernel = ot_kernel_for(n, c->device, c->ref_only, &why);
    s->work = -1;
    s->group = 1;
    if (!s->kernel)
        return ot_fail(err, OT_E_MODEL, "%s: %s has no kernel for %s%s%s%s", n->name, n->op->name,
                       n->n_out && n->out[0] ? ot_dtype_name(n->out[0]->dtype) : "this",
                       c->device ? " on this device" : "", why ? ": " : "", why ? why : "");
    if (!s->kernel->prepare) return OT_OK;
    bool    precise = c->want == OT_WANT_RUN || c->want == OT_WANT_GRAD; /* one run, to be looked at */
    ot_prep prep = { .threads = threads, .precise = precise, .err = err, .device = c->device, .tf32 = c->precision != OT_FP32 };
    OT_TRY(s->kernel->prepare(n, &prep));
    s->state = prep.state;
    s->work = prep.work ? (int64_t)prep.work : -1; /* its size, until memory.c places it */
    s->table = prep.table;
    s->table_bytes = prep.table_bytes;
    return OT_OK;
}

ot_status ot_pass_schedule(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    int       n_every = 0, n_update = 0;
    for (ot_node *n = g->first; n; n = n->next) *(n->phase == OT_EVERY ? &n_every : &n_update) += 1;
    p->every = ot_graph_alloc(g, (size_t)n_every * sizeof *p->every);
    p->update = ot_graph_alloc(g, (size_t)n_update * sizeof *p->update);
    if (!p->every || !p->update) return g->err->status;
    for (ot_node *n = g->first; n; n = n->next) {
        ot_step *s = n->phase == OT_EVERY ? &p->every[p->n_every++] : &p->update[p->n_update++];
        s->node = n;
        OT_TRY(prepare(s, c, p->threads, g->err));
    }
    return OT_OK;
}
