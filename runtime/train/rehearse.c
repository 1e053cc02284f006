/* rehearse.c - a plan for a model without its data. */

#include <string.h>

#include "runtime/train/rehearse.h"

/* Feeds of the graph's inputs with `open` for sizes the file leaves open. */
static int make_feeds(const ot_graph *g, int64_t batch, int64_t open, ot_feed *list)
{
    int n = 0;
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        if (v->role != OT_INPUT || v->data || v == g->seed || v == g->counter) continue;
        ot_feed *f = &list[n++];
        *f = (ot_feed){ .name = v->name, .dtype = v->dtype, .shape = v->shape };
        if (f->shape.rank < 0) f->shape = (ot_shape){ .rank = 2, .dim = { batch, open } };
        for (int d = 0; d < f->shape.rank; d++)
            if (f->shape.dim[d] < 0) f->shape.dim[d] = d ? open : batch;
        if (!f->shape.rank) f->whole = true;
    }
    return n;
}

/* The outputs' shapes, from the first open size that goes through. */
static ot_status find_sizes(const ot_model *m, const ot_settings *s, int64_t batch, ot_feed *feeds,
                            int *n, int64_t *open, ot_plan **out, ot_error *err)
{
    static const int64_t sizes[] = { 32, 8, 64, 16, 128, 224, 1, 10 };
    ot_error first = { 0 };
    for (int i = 0; i < OT_LEN(sizes); i++) {
        ot_error e = { 0 };
        *open = sizes[i];
        *n = make_feeds(m->file->graph, batch, *open, feeds);
        ot_config c = ot_session_config(s, OT_WANT_RUN, 1);
        c.feeds = feeds;
        c.n_feeds = *n;
        if (!ot_plan_new(m->file->graph, &c, NULL, out, &e)) return OT_OK;
        if (!i) first = e;
    }
    return ot_fail(err, first.status, "%s", first.text);
}

static const ot_value *output_of(const ot_graph *g, const ot_model *m, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (name ? !strcmp(m->outputs[i], name) : ot_is_float(g->outputs[i]->dtype))
            return g->outputs[i];
    return NULL;
}

/* A target that fits the loss: classes without the class axis, else values of the output's shape.
 */
static void make_target(const ot_thing *t, const ot_value *y, const char *name, ot_feed *f)
{
    bool classes =
        !strcmp(t->name, "cross_entropy") || !strcmp(t->name, "nll") || !strcmp(t->name, "hinge");
    *f = (ot_feed){ .name = name, .dtype = y->dtype, .shape = y->shape };
    if (!classes || y->shape.rank < 1) return;
    double given = ot_thing_num(t, "class_axis", y->shape.rank > 1 ? 1 : 0);
    int axis = (int)given + (given < 0 ? y->shape.rank : 0), k = 0;
    if (axis < 0 || axis >= y->shape.rank) return;
    f->dtype = OT_I64;
    for (int d = 0; d < y->shape.rank; d++)
        if (d != axis) f->shape.dim[k++] = y->shape.dim[d];
    f->shape.rank = k;
}

ot_status ot_rehearse(const ot_model *m, const ot_settings *s, ot_want want, ot_device *d, ot_arena *a,
                      ot_rehearsal *out, ot_error *err)
{
    int n;
    int64_t open;
    ot_plan *run = NULL;
    *out = (ot_rehearsal){ .batch = s->batch ? s->batch : 2, .assumed = "" };
    ot_feed *feeds =
        ot_arena_alloc(a, sizeof *feeds * (size_t)(m->file->graph->n_inputs + s->n_losses + 2));
    ot_thing *loss = ot_arena_alloc(a, sizeof *loss);
    if (!feeds || !loss) return ot_fail(err, OT_E_NOMEM, "no memory to plan");
    OT_TRY(find_sizes(m, s, out->batch, feeds, &n, &open, &run, err));

    ot_config c = ot_session_config(s, want, ot_session_threads(s));
    c.accumulate = s->accumulate;
    c.device = d;
    c.tune = s->tune;
    ot_status r = OT_OK;
    if (!c.n_losses) {
        const ot_value *y = output_of(run->graph, m, NULL);
        *loss = (ot_thing){ .name = "mse",
                            .output = m->outputs[0] && m->outputs[1] && y ? y->name : NULL };
        for (int i = 0; y && i < run->graph->n_outputs; i++)
            if (run->graph->outputs[i] == y && loss->output) loss->output = m->outputs[i];
        if (y && ot_numel(&y->shape) == 1) loss->name = "output";
        c.losses = loss;
        c.n_losses = 1;
        if (y)
            out->assumed = ot_arena_printf(a, "no loss is given: %s on output '%s' is assumed%s",
                                           loss->name, y->name,
                                           run->graph->n_outputs > 1 ? ", and none on the other outputs" : "");
        if (!y)
            r = ot_fail(err, OT_E_MODEL,
                        "no output of the model is a float: there is nothing a loss could act on");
    }
    for (int i = 0; !r && i < c.n_losses; i++) {
        const ot_thing *t = &c.losses[i];
        const ot_value *y = output_of(run->graph, m, t->output);
        if (!strcmp(t->name, "output") || !y || ot_thing_num(t, "weight", 1) == 0) continue;
        const char *name =
            t->output && c.n_losses > 1 ? ot_arena_printf(a, "target_%s", t->output) : "target";
        make_target(t, y, name ? name : "target", &feeds[n++]);
    }
    ot_plan_free(run);
    c.feeds = feeds;
    c.n_feeds = n;
    return r ? r : ot_plan_new(m->file->graph, &c, NULL, &out->plan, err);
}

ot_status ot_rehearse_run(const ot_model *m, const ot_settings *s, ot_arena *a, ot_rehearsal *out,
                          ot_error *err)
{
    int n;
    int64_t open;
    *out = (ot_rehearsal){ .batch = s->batch ? s->batch : 2, .assumed = "" };
    ot_feed *feeds = ot_arena_alloc(a, sizeof *feeds * (size_t)(m->file->graph->n_inputs + 1));
    if (!feeds) return ot_fail(err, OT_E_NOMEM, "no memory to plan");
    return find_sizes(m, s, out->batch, feeds, &n, &open, &out->plan, err);
}

ot_status ot_rehearse_inputs(const ot_model *m, const ot_settings *s, int64_t batch, ot_arena *a, ot_feed **feeds, int *n,
                             ot_error *err)
{
    int64_t open;
    ot_plan *plan = NULL;
    *feeds = ot_arena_alloc(a, sizeof **feeds * (size_t)(m->file->graph->n_inputs + 1));
    if (!*feeds) return ot_fail(err, OT_E_NOMEM, "no memory to plan");
    OT_TRY(find_sizes(m, s, batch, *feeds, n, &open, &plan, err));
    ot_plan_free(plan);
    return OT_OK;
}
