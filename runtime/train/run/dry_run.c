/* dry_run.c - plans a model without its data. */

#include <string.h>

#include "ops/op.h"
#include "runtime/losses/losses.h"
#include "runtime/train/run/dry_run.h"
#include "runtime/train/options/specs.h"
#include "runtime/train/run/variants.h"

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

static const int64_t open_sizes[] = { 32, 8, 64, 16, 128, 224, 1, 10 };

bool ot_leaves_open(const ot_graph *g)
{
    bool open = false;
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_shape *s = &g->inputs[i]->shape;
        open |= s->rank < 0;
        for (int d = 1; d < s->rank; d++) open |= s->dim[d] < 0;
    }
    return open;
}

/* A plan of the outputs alone, with the first open size that can be planned; feeds, n: its inputs. */
static ot_status plan_outputs(const ot_model *m, const ot_settings *s, int64_t batch, ot_arena *a, ot_feed *feeds,
                              int *n, ot_plan **out, ot_error *err)
{
    ot_error first = { 0 };
    for (int i = 0; i < (ot_leaves_open(m->file->graph) ? OT_LEN(open_sizes) : 1); i++) {
        ot_error e = { 0 };
        *n = make_feeds(m->file->graph, batch, open_sizes[i], feeds);
        ot_config c = ot_session_config(s, OT_WANT_RUN, 1);
        c.options.eval_mode = true; /* as in ot_session_outputs */
        c.feeds = feeds;
        c.n_feeds = *n;
        if (!ot_plan_any(m->file->graph, &c, feeds, false, a, out, &e)) return OT_OK;
        if (!i) first = e;
    }
    return ot_fail(err, first.status, "%s", first.text);
}

/* The output of that name; NULL: the first of floats. */
static const ot_value *output_of(const ot_graph *g, const ot_model *m, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (i < m->file->graph->n_outputs &&
            (name ? !strcmp(m->outputs[i], name) : ot_is_float(g->outputs[i]->dtype) && !g->outputs[i]->left_out))
            return g->outputs[i];
    return NULL;
}

/* The loss that a training would choose for most data, from the activation at the end and the shape of the output. */
static const char *probable_loss(ot_tail_kind tail, const ot_value *y)
{
    if (ot_numel(&y->shape) == 1) return "output";
    if (tail == OT_TAIL_SIGMOID || ot_made_hard_sigmoid(y)) return "bce";
    if (tail == OT_TAIL_LOG_SOFTMAX) return "nll";
    return y->shape.rank > 1 && y->shape.dim[y->shape.rank == 3 ? 2 : 1] > 1 ? "cross_entropy" : "mse";
}

/* A target for the loss: class numbers, without the class axis; else values of the output's shape. */
static void make_target(const ot_spec *t, const ot_value *y, const char *name, ot_feed *f)
{
    ot_takes takes = ot_loss_find(t->name)->takes;
    bool classes = takes == OT_TAKES_CLASSES || takes == OT_TAKES_NUMBERS;
    *f = (ot_feed){ .name = name, .dtype = y->dtype, .shape = y->shape };
    if (takes == OT_TAKES_SEQUENCES)
        f->dtype = OT_I64, f->shape = (ot_shape){ .rank = 2, .dim = { y->shape.rank ? y->shape.dim[0] : 1, 8 } };
    if (takes == OT_TAKES_VECTORS || ot_spec_find(t, "other")) f->shape.rank -= f->shape.rank > 0;
    if (!classes || y->shape.rank < 1) return;
    double given =
        ot_spec_find(t, "class_axis") ? ot_spec_num(t, "class_axis") : (double)ot_loss_default_axis(y->shape.rank);
    int axis = (int)given + (given < 0 ? y->shape.rank : 0), k = 0;
    if (axis < 0 || axis >= y->shape.rank) return;
    f->dtype = OT_I64;
    for (int d = 0; d < y->shape.rank; d++)
        if (d != axis) f->shape.dim[k++] = y->shape.dim[d];
    f->shape.rank = k;
}

/* --memory-limit: the plan recomputes values if that helps. */
static ot_status keep_limit(const ot_model *m, const ot_settings *s, ot_config *c, ot_dry_run *r, ot_error *err)
{
    const ot_plan *p = r->plan;
    int64_t others = p->state_bytes + p->const_bytes + (c->device ? 0 : m->bytes), most = s->memory_limit - others;
    r->bytes = r->unlimited = others + p->scratch_bytes;
    if (!s->memory_limit || r->bytes <= s->memory_limit) return OT_OK;
    c->scratch_limit = most > 1 ? most : 1;
    OT_TRY(ot_plan_limit(r->plan, c, err));
    r->bytes = others + p->scratch_bytes;
    return OT_OK;
}

static ot_status no_float(const ot_graph *g, ot_error *err)
{
    const ot_value *list = NULL;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i]->left_out) list = g->outputs[i];
    return ot_fail(
        err, OT_E_MODEL, "no output of the model is a float (the first is %s), so it cannot have a loss; %s%s%s%s",
        ot_dtype_name(g->n_outputs ? g->outputs[0]->dtype : OT_UNDEFINED), list ? "output '" : "",
        list ? list->name : "use --output NAME to train a tensor inside the graph, such as the one before it",
        list ? "': " : "", list ? list->left_out : "");
}

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory to plan"); }

/* Sets *loss to the loss that is assumed without --loss, and out->assumed.  run: the plan of the outputs. */
static ot_status assume_loss(const ot_model *m, const ot_plan *run, ot_arena *a, ot_spec *loss, ot_dry_run *out,
                             ot_error *err)
{
    const ot_graph *g = run->graph;
    const ot_value *y = output_of(g, m, NULL);
    if (!y) return no_float(g, err);
    *loss = (ot_spec){ 0 };
    for (int i = 0; i < g->n_outputs; i++) {
        if (g->outputs[i] != y) continue;
        loss->output = m->outputs[1] ? m->outputs[i] : NULL; /* the only output needs no name */
        loss->name = probable_loss(run->tails[i], y);
    }
    out->assumed = ot_arena_printf(a,
                                   "no --data: loss %s on output '%s' and batch size %lld are assumed%s; "
                                   "use --data, --loss and --batch-size to change them",
                                   loss->name, y->name, (long long)out->batch,
                                   g->n_outputs > 1 ? ", and no loss on the other outputs" : "");
    return out->assumed ? OT_OK : no_memory(err);
}

/* Sets out->assumed of a training that the file describes. */
static ot_status assume_batch(ot_arena *a, ot_dry_run *out, ot_error *err)
{
    out->assumed = ot_arena_printf(a,
                                   "no --data: batch size %lld is assumed; use --data and --batch-size to "
                                   "change it",
                                   (long long)out->batch);
    return out->assumed ? OT_OK : no_memory(err);
}

/* Appends a target for each loss that has one; losses on the same output share it.  n: number of feeds so far. */
static void add_targets(const ot_model *m, const ot_graph *g, const ot_plan_options *o, ot_arena *a, ot_feed *feeds,
                        int *n)
{
    for (int i = 0; i < o->n_losses; i++) {
        const ot_spec *loss = &o->losses[i];
        const ot_value *y = output_of(g, m, loss->output);
        if (ot_loss_find(loss->name)->takes == OT_TAKES_NOTHING || !y || ot_loss_left_out(loss)) continue;
        const char *name = loss->output && o->n_losses > 1 ? ot_arena_printf(a, "target_%s", loss->output) : "target";
        bool there = false;
        for (int k = 0; k < *n && name; k++) there |= !strcmp(feeds[k].name, name);
        if (!there) make_target(loss, y, name ? name : "target", &feeds[(*n)++]);
    }
}

ot_status ot_dry_run_plan(const ot_model *m, const ot_settings *s, ot_device *d, ot_arena *a, ot_dry_run *out,
                          ot_error *err)
{
    int n;
    ot_plan *run = NULL;
    *out = (ot_dry_run){ .batch = s->batch ? s->batch : OT_DEFAULT_BATCH, .assumed = "" };
    ot_feed *feeds = ot_arena_alloc(a, sizeof *feeds * (size_t)(m->file->graph->n_inputs + s->options.n_losses + 2));
    ot_spec *loss = ot_arena_alloc(a, sizeof *loss);
    if (!feeds || !loss) return no_memory(err);
    OT_TRY(plan_outputs(m, s, out->batch, a, feeds, &n, &run, err));
    if (n && feeds[0].shape.rank) out->batch = feeds[0].shape.dim[0]; /* the file's own, if it is fixed */

    ot_config c = ot_session_config(s, OT_WANT_TRAIN, ot_session_threads(s));
    c.accumulate = s->accumulate;
    c.device = d;
    c.tune = s->tune;
    ot_status r = OT_OK;
    if (!c.options.n_losses && m->file->graph->n_assigns) r = assume_batch(a, out, err);
    else if (!c.options.n_losses) {
        r = assume_loss(m, run, a, loss, out, err);
        c.options.losses = loss;
        c.options.n_losses = 1;
    }
    if (!r) add_targets(m, run->graph, &c.options, a, feeds, &n);
    ot_plan_free(run);
    c.feeds = out->feeds = feeds;
    c.n_feeds = out->n_feeds = n;
    if (!r) r = ot_plan_any(m->file->graph, &c, feeds, false, a, &out->plan, err);
    return r ? r : keep_limit(m, s, &c, out, err);
}

void ot_dry_run_fill(void *p, ot_dtype t, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ot_set_f64(p, t, i, ot_is_float(t) ? (double)(seed >> 11) * 0x1p-53 : 0);
    }
}

/* ---- shapes ---------------------------------------------------------------------- */

/* The file's graph, inferred at these sizes; NULL: it cannot be inferred. */
static ot_graph *infer_at(const ot_model *m, int64_t batch, int64_t open, ot_error *err)
{
    ot_graph *g = ot_graph_clone(m->file->graph, err);
    for (int i = 0; g && i < g->n_inputs; i++) {
        ot_value *v = g->inputs[i];
        if (v->role != OT_INPUT || v->data) continue;
        if (v->shape.rank < 0) v->shape = (ot_shape){ .rank = 2, .dim = { -1, -1 } };
        for (int d = 0; d < v->shape.rank; d++)
            if (v->shape.dim[d] < 0) v->shape.dim[d] = d ? open : batch;
    }
    for (ot_node *n = g ? g->first : NULL; n && err->status == OT_OK; n = n->next)
        if (ot_spell_out(g, &n) == OT_OK) ot_infer_node(g, n);
    if (g && err->status == OT_OK) return g;
    if (g) ot_graph_free(g);
    return NULL;
}

/* Sets v's type and shape from a; dimensions that another batch size changes (in b) are open. */
static void take_shape(ot_value *v, const ot_value *a, const ot_value *b)
{
    v->dtype = a->dtype;
    v->shape = a->shape;
    if (a->shape.rank < 0 || a->shape.rank != b->shape.rank) {
        if (a->shape.rank != b->shape.rank) v->shape.rank = -1;
        return;
    }
    for (int d = 0; d < v->shape.rank; d++)
        if (a->shape.dim[d] != b->shape.dim[d]) v->shape.dim[d] = -1;
}

ot_graph *ot_dry_run_shapes(const ot_model *m, int64_t *open, ot_error *err)
{
    ot_graph *a = NULL, *b = NULL, *g = NULL;
    for (int i = 0; !b && i < OT_LEN(open_sizes); i++) {
        ot_error e = { 0 };
        *open = open_sizes[i];
        a = infer_at(m, 2, *open, &e);
        b = a ? infer_at(m, 3, *open, &e) : NULL;
        if (a && !b) ot_graph_free(a);
        if (!b) ot_fail(err, e.status, "%s", e.text);
    }
    if (!b) return NULL;
    *err = (ot_error){ 0 };
    g = ot_graph_clone(m->file->graph, err);
    for (int i = 0; g && i < g->n_values; i++)
        if (g->values[i]->role == OT_TEMP) take_shape(g->values[i], a->values[i], b->values[i]);
    for (int i = 0; g && i < g->n_outputs; i++)
        if (g->outputs[i]->role == OT_TEMP) take_shape(g->outputs[i], a->outputs[i], b->outputs[i]);
    ot_graph_free(b);
    ot_graph_free(a);
    return g;
}

ot_status ot_dry_run_inputs(const ot_model *m, const ot_settings *s, int64_t batch, ot_arena *a, ot_feed **feeds,
                            int *n, ot_error *err)
{
    ot_plan *plan = NULL;
    *feeds = ot_arena_alloc(a, sizeof **feeds * (size_t)(m->file->graph->n_inputs + 1));
    if (!*feeds) return no_memory(err);
    OT_TRY(plan_outputs(m, s, batch, a, *feeds, n, &plan, err));
    ot_plan_free(plan);
    return OT_OK;
}

ot_status ot_classified(const ot_model *m, const ot_settings *s, ot_plan *p, ot_error *err)
{
    ot_config c = ot_session_config(s, OT_WANT_GRAD, 1);
    *p = (ot_plan){ .threads = 1 };
    p->graph = ot_graph_clone(m->file->graph, &p->sticky);
    ot_status r = p->graph ? ot_pass_classify(p, &c) : OT_E_NOMEM;
    if (!r && p->sticky.status) r = p->sticky.status;
    if (!r) return OT_OK;
    ot_fail(err, r, "%s", *p->sticky.text ? p->sticky.text : "the graph could not be analysed");
    if (p->graph) ot_graph_free(p->graph);
    p->graph = NULL;
    return r;
}
