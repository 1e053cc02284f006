/* recompute.c - computes values of the forward part again in the backward part, if the scratch slab would be larger than
 * its limit.  Without a limit, on a CPU, it does so for large values that cost little, such as activation functions.
 *
 * The nodes run again are copies of those of the forward part after all other passes: same operator, attributes, inputs,
 * layouts and kernels, so that the results are the same bits.  Random numbers are functions of a counter, and assignments read
 * the values of the forward part alone.  Which nodes: recompute_choose.c.  That simulates memory without placing
 * it; if the placed slab is too large, the choice is repeated with a lower limit. */
#include "runtime/passes/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/passes/group.h"

/* Limits of what is recomputed if there is no --memory-limit. */
static const double MOST_COST = .01; /* of the operations and bytes of a plan */
static const double WORTH = 5; /* part of the plan's memory that is saved, by the part of its cost that is added */

enum { LARGE = 512 << 20 }; /* bytes of a scratch slab; in smaller ones nothing is worth it */

typedef struct work {
    ot_plan *p;
    const ot_config *c;
    ot_again *w;
    ot_step *was; /* the steps without recomputation, in order */
    int n_batch;
    ot_step *copy; /* by step: of the node that runs again; node NULL: none yet */
    bool *used;    /* by step: the plan has its copy */
} work;

/* ---- nodes that run again -------------------------------------------------------------- */

/* With the inputs of n, and in no list. */
static ot_node *copy_node(ot_graph *g, const ot_node *n)
{
    ot_node *k = ot_graph_alloc(g, sizeof *k);
    if (!k) return NULL;
    *k = *n;
    k->stage = OT_STAGE_BACKWARD;
    k->again = true;
    k->prev = k->next = NULL;
    k->in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *k->in);
    k->out = ot_graph_alloc(g, (size_t)n->n_out * sizeof *k->out);
    if (!k->in || !k->out) return NULL;
    if (n->n_in) memcpy(k->in, n->in, (size_t)n->n_in * sizeof *k->in);
    for (int i = 0; i < n->n_out; i++) {
        const ot_value *v = n->out[i];
        if (!v) continue;
        ot_value *y = k->out[i] = ot_graph_value(g, v->name, OT_TEMP, v->dtype, &v->shape);
        if (!y) return NULL;
        y->layout = v->layout;
        y->producer = k;
        y->port = i;
    }
    return k;
}

static ot_status make_copies(work *x)
{
    const ot_again *w = x->w;
    for (int at = 0; at < w->n_order; at++) {
        ot_again_entry e = w->order[at];
        if (!e.again || x->copy[e.step].node) continue;
        ot_node *n = copy_node(x->p->graph, w->step[e.step].node);
        if (!n) return x->p->graph->err->status;
        OT_TRY(ot_schedule_again(x->p, x->c, &x->was[e.step], n, &x->copy[e.step]));
    }
    return OT_OK;
}

/* The operand of a step that runs again or is in the backward part. */
static ot_value *operand(const work *x, ot_value *v)
{
    if (!v || !ot_again_reads(x->w, v)) return v;
    return x->copy[x->w->made[v->id]].node->out[v->port];
}

/* ---- the order ------------------------------------------------------------------------- */

/* The graph's list in the order of the choice. */
static ot_status link(work *x)
{
    const ot_again *w = x->w;
    ot_graph *g = x->p->graph;
    g->first = g->last = NULL;
    g->n_nodes = 0;
    for (int at = 0; at < w->n_order; at++) {
        ot_again_entry e = w->order[at];
        const ot_again_step *s = &w->step[e.step];
        ot_node *n = e.again ? (ot_node *)(uintptr_t)x->copy[e.step].node : s->node;
        ot_graph_link(g, n, NULL);
        if (!e.again && !s->late) continue;
        bool other = e.again;
        for (int i = 0; i < n->n_in; i++) other |= operand(x, s->in[i]) != s->in[i];
        if (other && !e.again) n->in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *n->in);
        if (!n->in) return g->err->status;
        for (int i = 0; other && i < n->n_in; i++) n->in[i] = operand(x, s->in[i]);
        if (!other) n->in = s->in;
    }
    return OT_OK;
}

/* The plan's steps in that order, grouped. */
static ot_status list_steps(work *x)
{
    const ot_again *w = x->w;
    ot_plan *p = x->p;
    int n = w->n_order - (w->n_steps - x->n_batch);
    ot_step *steps = ot_graph_alloc(p->graph, (size_t)w->n_order * sizeof *steps);
    if (!steps) return p->graph->err->status;
    p->n_recomputed = 0;
    for (int at = 0; at < w->n_order; at++) {
        ot_again_entry e = w->order[at];
        steps[at] = e.again ? x->copy[e.step] : x->was[e.step];
        steps[at].group = 1;
    }
    for (int i = 0; i < w->n_values; i++) p->n_recomputed += w->store[i].dropped;
    p->batch_steps = steps;
    p->update_steps = steps + n;
    p->n_batch_steps = n;
    p->n_update_steps = w->n_order - n;
    memset(x->used, 0, (size_t)w->n_steps * sizeof *x->used);
    for (int at = 0; at < w->n_order; at++) x->used[w->order[at].step] |= w->order[at].again;
    p->recomputed_cost = w->all > 0 ? w->cost / w->all : 0;
    return ot_group_steps(p);
}

static ot_status apply(work *x)
{
    OT_TRY(make_copies(x));
    OT_TRY(link(x));
    OT_TRY(list_steps(x));
    return ot_pass_memory(x->p, x->c);
}

/* ---- the pass -------------------------------------------------------------------------- */

static ot_status fit(work *x)
{
    enum { MOST = 6 };
    int64_t limit = x->c->scratch_limit, target = limit;
    for (int k = 0;; k++) {
        bool last = !ot_again_choose(x->w, k < MOST && target > 0 ? target : 0); /* then it is the least there is */
        OT_TRY(apply(x));
        int64_t over = x->p->scratch_bytes - limit;
        if (over <= 0 || last) return OT_OK;
        target -= over + over / 4;
    }
}

static ot_status save(work *x)
{
    int64_t before = ot_again_choose_cheap(x->w, MOST_COST), saved = before - x->w->peak;
    double added = x->w->cost / x->w->all, planned = (double)(x->p->state_bytes + x->p->scratch_bytes);
    return saved > 0 && (double)saved / planned >= WORTH * added ? apply(x) : OT_OK;
}

static ot_status open(work *x, ot_plan *p, const ot_config *c)
{
    *x = (work){ .p = p, .c = c, .n_batch = p->n_batch_steps };
    OT_TRY(ot_again_new(p, &x->w, p->graph->err));
    size_t n = (size_t)x->w->n_steps + 1;
    x->was = calloc(n, sizeof *x->was);
    x->copy = calloc(n, sizeof *x->copy);
    x->used = calloc(n, sizeof *x->used);
    if (!x->was || !x->copy || !x->used) return ot_fail(p->graph->err, OT_E_NOMEM, "no memory to plan recomputation");
    for (int i = 0; i < x->w->n_steps; i++)
        x->was[i] = i < p->n_batch_steps ? p->batch_steps[i] : p->update_steps[i - p->n_batch_steps];
    return OT_OK;
}

static void close(work *x)
{
    for (int i = 0; x->copy && x->used && i < x->w->n_steps; i++) {
        const ot_step *s = &x->copy[i];
        if (!x->used[i] && s->state && s->kernel->release) s->kernel->release(s->state);
    }
    free(x->was);
    free(x->copy);
    free(x->used);
    ot_again_free(x->w);
}

ot_status ot_pass_recompute(ot_plan *p, const ot_config *c)
{
    work x;
    bool limited = c->scratch_limit > 0 && p->scratch_bytes > c->scratch_limit;
    bool saves = !c->scratch_limit && c->saves_memory && !p->device && p->scratch_bytes >= LARGE;
    if (c->want != OT_WANT_TRAIN || (!limited && !saves)) return OT_OK;
    ot_status s = open(&x, p, c);
    if (!s) s = limited ? fit(&x) : save(&x);
    close(&x);
    return s;
}
