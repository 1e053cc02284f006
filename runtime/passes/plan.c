/* plan.c - runs the pipeline of passes.h over a copy of the model's graph. */
#include "runtime/passes/passes.h"

#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"

/* ---- patterns ------------------------------------------------------------------------ */

int ot_pattern_rank(const char *pattern, const char *name)
{
    int literal = 0;
    if (!strcmp(pattern, name)) return INT_MAX;
    if (fnmatch(pattern, name, 0)) return -1;
    for (; *pattern; pattern++) literal += *pattern != '*' && *pattern != '?';
    return literal;
}

/* ---- plans ----------------------------------------------------------------- */

ot_findings *ot_plan_findings(ot_plan *p)
{
    p->findings.a = p->graph->arena;
    return &p->findings;
}

void ot_plan_note(ot_plan *p, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    ot_vtext(line, sizeof line, fmt, ap);
    va_end(ap);
    ot_find(ot_plan_findings(p), OT_FINDING_NOTE, NULL, NULL, "%s", line);
}

int ot_plan_keep(ot_plan *p, ot_value *v)
{
    for (int i = 0; i < p->n_kept; i++)
        if (p->kept[i] == v) return i;
    ot_value **list = ot_graph_alloc(p->graph, (size_t)(p->n_kept + 1) * sizeof *list);
    if (!list || !v) return -1;
    if (p->n_kept) memcpy(list, p->kept, (size_t)p->n_kept * sizeof *list);
    list[p->n_kept++] = v;
    p->kept = list;
    return p->n_kept - 1;
}

bool ot_plan_reads(const ot_plan *p, const ot_value *v)
{
    const ot_graph *g = p->graph;
    const ot_value *one[] = { p->loss, p->grad_norm, p->correct, p->counted, p->divisor };
    bool yes = false;
    for (int i = 0; i < OT_LEN(one); i++) yes = yes || one[i] == v;
    for (int i = 0; i < g->n_outputs; i++) yes = yes || g->outputs[i] == v;
    for (int i = 0; i < g->n_assigns; i++) yes = yes || g->assigns[i].value == v;
    for (int i = 0; i < p->n_kept; i++) yes = yes || p->kept[i] == v;
    return yes;
}

typedef struct pass {
    const char *name;
    ot_status (*run)(ot_plan *p, const ot_config *c);
} pass;

static const pass pipeline[] = {
#define ROW(name, leaves) { #name, ot_pass_##name },
    OT_PASSES(ROW)
#undef ROW
};

#ifdef NDEBUG
enum { EVERY_PASS = 0 };
#else
enum { EVERY_PASS = 1 };
#endif

/* Feeds are given by name; from here on they are identified by position. */
static ot_status bind_feeds(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    p->fed = ot_graph_alloc(g, (size_t)c->n_feeds * sizeof *p->fed);
    for (int i = 0; p->fed && i < c->n_feeds; i++)
        for (int k = 0; k < g->n_inputs && !c->feeds[i].target && !p->fed[i]; k++)
            if (g->inputs[k]->role == OT_INPUT && !strcmp(g->inputs[k]->name, c->feeds[i].name))
                p->fed[i] = g->inputs[k];
    return g->err->status;
}

/* The part of a training that the nodes which a pass makes belong to. */
static ot_stage stage_of(const char *name)
{
    return !strcmp(name, "autodiff")    ? OT_STAGE_BACKWARD
           : !strcmp(name, "optimizer") ? OT_STAGE_UPDATE
                                        : OT_STAGE_FORWARD;
}

/* last: the last pass to run; NULL: run all. */
static ot_status plan_until(const char *last, const ot_graph *model, const ot_config *c, const ot_plan *like,
                            ot_plan **out, ot_error *err)
{
    *out = NULL;
    ot_plan *p = calloc(1, sizeof *p);
    if (!p) return ot_fail(err, OT_E_NOMEM, "no memory for a plan");
    p->like = like;
    p->device = c->device;
    p->threads = c->threads > 0 ? c->threads : 1;
    if (p->device) p->device->threads = p->threads;
    p->graph = ot_graph_clone(model, &p->sticky);
    if (p->graph) p->graph->room->findings = ot_plan_findings(p);
    if (p->graph) (void)bind_feeds(p, c); /* errors stick in the graph */
    bool typed = false;
    for (int i = 0; i < OT_LEN(pipeline) && p->sticky.status == OT_OK; i++) {
        p->graph->pass = pipeline[i].name;
        p->graph->stage = stage_of(pipeline[i].name);
        ot_status s = pipeline[i].run(p, c);
        if (s != OT_OK && p->sticky.status == OT_OK)
            ot_fail(&p->sticky, s, "internal error: pass %s failed", pipeline[i].name);
        typed |= !strcmp(pipeline[i].name, "infer");
        /* Kernels trust the final graph, so it is verified in every build. */
        if (p->sticky.status == OT_OK && (EVERY_PASS || i == OT_LEN(pipeline) - 1) &&
            ot_graph_verify(p->graph, typed, &p->sticky) != OT_OK) {
            ot_error e = p->sticky;
            p->sticky = (ot_error){ 0 };
            ot_fail(&p->sticky, e.status, "internal error after pass %s: %-s", pipeline[i].name, e.text);
        }
        if (last && !strcmp(pipeline[i].name, last)) break;
    }
    if (!last && p->device && p->sticky.status == OT_OK) (void)p->device->backend->ready(p->device, &p->sticky);
    if (p->sticky.status != OT_OK) {
        ot_status s = ot_fail(err, p->sticky.status, "%s", p->sticky.text);
        ot_plan_free(p);
        return s;
    }
    *out = p;
    return OT_OK;
}

ot_status ot_plan_new(const ot_graph *model, const ot_config *c, const ot_plan *like, ot_plan **out, ot_error *err)
{
    return plan_until(NULL, model, c, like, out, err);
}

ot_status ot_plan_limit(ot_plan *p, const ot_config *c, ot_error *err)
{
    ot_status s = ot_pass_recompute(p, c);
    if (s == OT_OK) s = ot_graph_verify(p->graph, true, &p->sticky);
    if (s == OT_OK && p->device) s = p->device->backend->ready(p->device, &p->sticky);
    return s == OT_OK ? OT_OK : ot_fail(err, s, "%s", p->sticky.text);
}

ot_status ot_plan_infer(const ot_graph *model, const ot_config *c, ot_plan **out, ot_error *err)
{
    return plan_until("infer", model, c, NULL, out, err);
}

ot_status ot_plan_inference(const ot_graph *model, const ot_config *c, ot_plan **out, ot_error *err)
{
    return plan_until("train_mode", model, c, NULL, out, err);
}

/* One Gradient with respect to all weights. */
static ot_status ask_for_gradients(ot_plan *p, const int *sources, int n)
{
    ot_graph *g = p->graph;
    ot_value **in = ot_graph_alloc(g, (size_t)(n + 1) * sizeof *in);
    p->weights = ot_graph_alloc(g, (size_t)(n + 1) * sizeof *p->weights);
    if (!in || !p->weights) return g->err->status;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < g->n_values; k++)
            if (g->values[k]->role == OT_WEIGHT && g->values[k]->source == sources[i])
                in[p->n_weights++] = g->values[k];
    if (p->n_weights != n || !p->loss) return ot_fail(g->err, OT_E_INTERNAL, "internal error: a weight is missing");
    memcpy(p->weights, in, (size_t)n * sizeof *in);
    in[n] = p->loss;
    ot_node *node = ot_graph_node(g, &ot_op_Gradient, "Gradient", NULL, in, n + 1, n);
    if (!node || ot_node_infer(node, g->err)) return g->err->status;
    for (int i = 0; i < n; i++) p->weights[i]->grad = node->out[i];
    return OT_OK;
}

ot_status ot_plan_describe(const ot_graph *model, const ot_config *c, const int *sources, int n, ot_plan **out,
                           ot_error *err)
{
    OT_TRY(plan_until("loss", model, c, NULL, out, err));
    ot_plan *p = *out;
    p->described = true;
    ot_status s = ask_for_gradients(p, sources, n);
    if (!s) s = ot_pass_optimizer(p, c);
    if (!s) return OT_OK;
    ot_fail(err, s, "%s", p->sticky.text);
    ot_plan_free(p);
    *out = NULL;
    return s;
}

static void release(ot_step *s, int n)
{
    for (int i = 0; i < n; i++)
        if (s[i].kernel && s[i].kernel->release && s[i].state) s[i].kernel->release(s[i].state);
}

void ot_plan_free(ot_plan *p)
{
    if (!p) return;
    release(p->batch_steps, p->n_batch_steps);
    release(p->update_steps, p->n_update_steps);
    ot_graph_free(p->graph);
    ot_plan_free(p->teacher);
    free(p);
}
