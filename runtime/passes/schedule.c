/* schedule.c - one order, a kernel for every node, and what each kernel prepares.
 *
 * The order is that of the list: forward as the file has it, backward in reverse, updates last.
 * A node of the update phase never runs before one of the every phase. */
#include <string.h>

#include "ops/kernel.h"
#include "runtime/passes/passes.h"

static const ot_kernel *choose(const ot_node *n, bool ref_only)
{
    const char *why = NULL;
    for (const ot_kernel *const *k = ot_kernels(n->op); *k; k++)
        if ((!(*k)->can || (*k)->can(n, &why)) && (!ref_only || !k[1])) return *k;
    return NULL;
}

static ot_status prepare(ot_step *s, int threads, bool ref_only, bool precise, ot_error *err)
{
    const ot_node *n = s->node;
    s->kernel = choose(n, ref_only);
    s->work = -1;
    if (!s->kernel) return ot_fail(err, OT_E_MODEL, "%s: %s has no kernel for %s", n->name, n->op->name, n->n_out && n->out[0] ? ot_dtype_name(n->out[0]->dtype) : "this");
    if (!s->kernel->prepare) return OT_OK;
    ot_prep prep = { .threads = threads, .precise = precise, .err = err };
    OT_TRY(s->kernel->prepare(n, &prep));
    s->state = prep.state;
    s->work = prep.work ? (int64_t)prep.work : -1; /* its size, until memory.c places it */
    return OT_OK;
}

ot_status ot_pass_schedule(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    int       n_every = 0, n_update = 0;
    bool      precise = c->want == OT_WANT_RUN || c->want == OT_WANT_GRAD; /* one run, to be looked at */
    for (ot_node *n = g->first; n; n = n->next) *(n->phase == OT_EVERY ? &n_every : &n_update) += 1;
    p->every = ot_graph_alloc(g, (size_t)n_every * sizeof *p->every);
    p->update = ot_graph_alloc(g, (size_t)n_update * sizeof *p->update);
    if (!p->every || !p->update) return g->err->status;
    for (ot_node *n = g->first; n; n = n->next) {
        ot_step *s = n->phase == OT_EVERY ? &p->every[p->n_every++] : &p->update[p->n_update++];
        s->node = n;
        OT_TRY(prepare(s, p->threads, c->ref_only, precise, g->err));
    }
    return OT_OK;
}
