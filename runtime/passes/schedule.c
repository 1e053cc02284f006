/* schedule.c - orders the nodes, chooses a kernel for each and prepares it.
 *
 * The order is that of the list: forward as the file has it, backward in reverse, updates last; but steps that can run
 * as one launch are grouped (group.c). A node of the update phase never runs before one of the batch phase. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/fused.h"
#include "runtime/passes/group.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/recompute.h"
#include "runtime/passes/tune.h"

/* Candidates after the one that the layout pass considered may support plain memory only.  A Copy's input is memory
 * in any layout. */
static bool takes_layouts(const ot_kernel *k, const ot_node *n)
{
    if (k->any_layout || n->op == &ot_op_Copy) return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->layout != OT_PLAIN) return false;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->layout != OT_PLAIN) return false;
    return true;
}

bool ot_schedule_can(const ot_kernel *k, const ot_node *n, const char **why)
{
    if (k->can && !k->can(n, why)) return false;
    if (takes_layouts(k, n)) return true;
    *why = "it supports plain memory layouts only";
    return false;
}

ot_prep ot_schedule_prep(const ot_plan *p, const ot_config *c, int variant)
{
    bool precise = (c->want == OT_WANT_RUN && !c->settled) || c->want == OT_WANT_GRAD; /* one run, to be inspected */
    return (ot_prep){ .threads = p->threads,
                      .precise = precise,
                      .err = p->graph->err,
                      .device = c->device,
                      .tf32 = c->options.precision != OT_FP32,
                      .bf16 = c->options.precision == OT_PREC_BF16 && !c->device,
                      .settled = c->settled && !p->like,
                      .variant = variant };
}

/* Tries one candidate; if it refuses, s->kernel stays NULL and *why is the reason. */
static ot_status try_kernel(ot_step *s, const ot_kernel *k, ot_prep prep, const char **why)
{
    const ot_node *n = s->node;
    if (!ot_schedule_can(k, n, why)) return OT_OK;
    if (k->prepare) OT_TRY(k->prepare(n, &prep));
    if (prep.refused) {
        *why = prep.refused;
        return OT_OK;
    }
    s->kernel = k;
    const char *how = *prep.how ? ot_arena_strdup(n->graph->arena, prep.how) : NULL;
    s->how = how ? how : "";
    s->state = prep.state;
    s->work = prep.work ? (int64_t)prep.work : -1; /* its size, until memory.c places it */
    s->work_bytes = (int64_t)prep.work;
    s->held = (int64_t)prep.held;
    s->table = prep.table;
    s->table_bytes = prep.table_bytes;
    return OT_OK;
}

enum { MOST_CANDIDATES = 8 };

/* The fastest measured candidate; else the first that can run the node, low-priority ones last; the reasons of the
 * others are kept. */
static ot_status prepare(ot_plan *p, ot_step *s, const ot_config *c, ot_tune *tune)
{
    const ot_node *n = s->node;
    ot_error *err = p->graph->err;
    ot_choice timed;
    const char *why = NULL;
    ot_refusal refused[2 * MOST_CANDIDATES];
    int count = 0;
    s->work = -1;
    s->group = 1;
    s->how = "";
    OT_TRY(ot_tune_choose(tune, n, &timed));
    if (timed.kernel) OT_TRY(try_kernel(s, timed.kernel, ot_schedule_prep(p, c, timed.variant), &why));
    if (s->kernel) s->tuned = timed.seconds, s->variant = timed.variant;
    else if (timed.kernel) refused[count++] = (ot_refusal){ timed.kernel, why };
    for (int yielding = 0; yielding < 2 && !s->kernel; yielding++)
        for (const ot_kernel *const *k = ot_kernels(n->op, c->device); *k && !s->kernel && count < OT_LEN(refused);
             k++) {
            const char *reason = NULL;
            bool yields = (*k)->yields && (*k)->yields(n, &reason);
            if ((c->ref_only && k[1]) || yields < yielding) continue;
            if (yields == yielding) OT_TRY(try_kernel(s, *k, ot_schedule_prep(p, c, 0), &reason));
            if (!s->kernel) refused[count++] = (ot_refusal){ *k, why = reason };
        }
    ot_refusal *kept = ot_graph_alloc(n->graph, (size_t)(count + 1) * sizeof *kept);
    if (!kept) return err->status;
    memcpy(kept, refused, (size_t)count * sizeof *kept);
    s->refused = kept;
    s->n_refused = count;
    if (s->kernel) return OT_OK;
    return ot_fail(err, OT_E_MODEL, "%s: %s has no kernel for %s%s%s%s", n->name, n->op->name,
                   n->n_out && n->out[0] ? ot_dtype_name(n->out[0]->dtype) : "this", c->device ? " on this device" : "",
                   why ? ": " : "", why ? why : "");
}

/* On the CPU bf16 is a choice of the kernels of products. */
static void tell_of_precision(ot_plan *p, const ot_config *c)
{
    int products = 0, done = 0;
    if (c->device || c->ref_only || c->options.precision != OT_PREC_BF16) return;
    for (int i = 0; i < p->n_batch_steps; i++) {
        const ot_step *s = &p->batch_steps[i];
        const ot_op *op = s->node->op == &ot_op_Fused ? ot_fused_op(s->node)->node->op : s->node->op;
        products += (op->flags & OT_PRODUCT) != 0;
        done += !strcmp(s->how, OT_BF16_PRODUCT);
    }
    p->bf16_products = done;
    if (done)
        ot_plan_note(
            p,
            "precision bf16: %d of %d matrix products and convolutions multiply in bfloat16 and add in float32; "
            "all values are float32",
            done, products);
    else
        ot_plan_note(p, "precision bf16: no effect on this CPU, which computes no product of this model faster in "
                        "bfloat16: fp32 is used");
}

/* A library that is there and refuses every operator: all of them run, on slower kernels. */
static void tell_of_library(ot_plan *p, const char *name)
{
    int refused = 0;
    const char *why = NULL, *other;
    for (int i = 0; i < p->n_batch_steps; i++) {
        const ot_step *s = &p->batch_steps[i];
        if (!strcmp(s->kernel->name, name)) return;
        for (int r = 0; r < s->n_refused; r++) {
            const ot_kernel *k = s->refused[r].kernel;
            if (strcmp(k->name, name) || !ot_schedule_can(k, s->node, &other)) continue;
            if (k->yields && k->yields(s->node, &other)) continue;
            refused++;
            why = s->refused[r].why;
        }
    }
    if (refused)
        ot_find(ot_plan_findings(p), OT_FINDING_NOTE, NULL, "plan --why names them, env the version",
                "%s refused all %d operators that it was tried for (%s): slower kernels compute them", name, refused,
                why);
}

static void tell_of_libraries(ot_plan *p, const ot_config *c)
{
    const char *done[4] = { 0 };
    if (!c->device || c->ref_only) return;
    for (int i = 0; i < p->n_batch_steps; i++)
        for (const ot_kernel *const *k = ot_kernels(p->batch_steps[i].node->op, c->device); *k; k++) {
            int n = 0;
            while (n < OT_LEN(done) && done[n] && strcmp(done[n], (*k)->name) != 0) n++;
            if (!(*k)->may_refuse || n == OT_LEN(done) || done[n]) continue;
            done[n] = (*k)->name;
            tell_of_library(p, done[n]);
        }
}

bool ot_step_runs(const ot_step *s)
{
    const ot_node *n = s->node;
    return !(n->op->flags & OT_ALIAS && n->out[0]->base == (n->in[0]->base ? n->in[0]->base : n->in[0]));
}

ot_status ot_schedule_again(ot_plan *p, const ot_config *c, const ot_step *first, const ot_node *n, ot_step *out)
{
    const char *why = "it refuses";
    *out = *first;
    out->node = n;
    out->kernel = NULL;
    out->state = NULL;
    OT_TRY(try_kernel(out, first->kernel, ot_schedule_prep(p, c, first->variant), &why));
    if (out->kernel) return OT_OK;
    return ot_fail(p->graph->err, OT_E_INTERNAL, "internal error: %s: %s cannot compute it again: %s", n->name,
                   first->kernel->name, why);
}

/* On a device, Maps of a few elements whose results are only assigned (running statistics) move to the end of the batch, where they are
 * one launch: group.c groups neighbours. */
static ot_status move_assigned(ot_graph *g)
{
    enum { FEW = 1 << 14 };
    bool *assigned = calloc((size_t)g->n_values + 1, sizeof *assigned);
    if (!assigned) return ot_fail(g->err, OT_E_NOMEM, "no memory to order the nodes");
    for (int i = 0; i < g->n_assigns; i++) assigned[g->assigns[i].value->id] = true;
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) assigned[n->in[i]->id] = false;
    ot_node *end = g->first, *stop;
    while (end && end->phase == OT_PHASE_BATCH) end = end->next;
    stop = end ? end->prev : g->last;
    for (ot_node *n = stop ? g->first : NULL, *next; n; n = next) {
        bool moves = n->op == &ot_op_Map;
        next = n == stop ? NULL : n->next;
        for (int k = 0; k < n->n_out && moves; k++)
            moves = n->out[k] && assigned[n->out[k]->id] && ot_numel(&n->out[k]->shape) < FEW;
        if (!moves) continue;
        ot_graph_remove(g, n);
        ot_graph_link(g, n, end);
        for (int k = 0; k < n->n_out; k++) n->out[k]->producer = n;
    }
    free(assigned);
    return OT_OK;
}

ot_status ot_pass_schedule(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    if (c->device && !c->ref_only) OT_TRY(move_assigned(g));
    int n_batch_steps = 0, n_update_steps = 0;
    for (ot_node *n = g->first; n; n = n->next) *(n->phase == OT_PHASE_BATCH ? &n_batch_steps : &n_update_steps) += 1;
    p->batch_steps = ot_graph_alloc(g, (size_t)n_batch_steps * sizeof *p->batch_steps);
    p->update_steps = ot_graph_alloc(g, (size_t)n_update_steps * sizeof *p->update_steps);
    if (!p->batch_steps || !p->update_steps) return g->err->status;
    ot_tune *tune;
    ot_status e = ot_tune_open(p, c, &tune);
    for (ot_node *n = g->first, *next; n && e == OT_OK; n = next) {
        next = n->next;
        ot_step *s =
            n->phase == OT_PHASE_BATCH ? &p->batch_steps[p->n_batch_steps++] : &p->update_steps[p->n_update_steps++];
        s->node = n;
        e = prepare(p, s, c, tune);
        if (e == OT_OK) e = ot_settle(p, c, s, n);
    }
    ot_tune_close(tune);
    if (e == OT_OK) tell_of_precision(p, c);
    if (e == OT_OK) tell_of_libraries(p, c);
    return e == OT_OK ? ot_group_steps(p) : e;
}
