/* session.c - a few plans over one set of weights, their memory, and batches fed to them. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/session.h"

ot_config ot_session_config(const ot_settings *s, ot_want want, int threads)
{
    return (ot_config){
        .want = want,
        .n_losses = s->n_losses,
        .losses = s->losses,
        .optimizer = s->optimizer,
        .clip_norm = s->clip_norm,
        .clip_value = s->clip_value,
        .accumulate = 1,
        .bn = s->bn,
        .bn_unbiased = s->bn_unbiased,
        .dropout = s->dropout,
        .n_train = s->n_train,
        .train = s->train,
        .n_freeze = s->n_freeze,
        .freeze = s->freeze,
        .n_no_decay = s->n_no_decay,
        .no_decay = s->no_decay,
        .n_lr_scale = s->n_lr_scale,
        .lr_scale = s->lr_scale,
        .lr_scale_by = s->lr_scale_by,
        .eval_mode = s->eval_mode,
        .precision = s->precision,
        .threads = threads,
    };
}

ot_status ot_session_open(ot_session *x, const ot_model *m, const ot_settings *s, ot_error *err)
{
    *x = (ot_session){ .model = m, .s = s, .seed = s->seed, .lead = -1 };
    x->threads = s->threads > 0 ? s->threads : ot_cpus();
    x->a = ot_arena_new();
    return x->a ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for plans");
}

void ot_session_close(ot_session *x)
{
    for (int i = 0; i < x->n; i++)
        if (i != x->lead) ot_exec_free(x->slot[i].exec);
    if (x->lead >= 0) ot_exec_free(x->slot[x->lead].exec);
    for (int i = x->n - 1; i >= 0; i--) ot_plan_free(x->slot[i].plan);
    free(x->scratch);
    if (x->a) ot_arena_free(x->a);
    *x = (ot_session){ .lead = -1 };
}

ot_status ot_session_plan(ot_session *x, ot_want want, ot_feeders *fs, int64_t batch,
                          int accumulate, int *out, ot_error *err)
{
    for (int i = 0; i < x->n; i++) {
        const ot_slot *q = &x->slot[i];
        if (q->want == want && q->feeders == fs && q->batch == batch &&
            q->accumulate == accumulate) {
            *out = i;
            return OT_OK;
        }
    }
    if (x->n == OT_SLOTS)
        return ot_fail(err, OT_E_INTERNAL, "a session has %d plans at most", OT_SLOTS);

    ot_feed *feeds = ot_arena_alloc(x->a, sizeof *feeds * (size_t)(fs->n + 1));
    if (!feeds) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    ot_feeders_feeds(fs, batch, feeds);
    ot_config c = ot_session_config(x->s, want, x->threads);
    c.feeds = feeds;
    c.n_feeds = fs->n;
    c.accumulate = accumulate;
    c.schedules_momentum = x->moves_momentum;
    c.tune = x->s->tune;

    ot_slot *q = &x->slot[x->n];
    *q = (ot_slot){ .want = want, .batch = batch, .accumulate = accumulate, .feeders = fs };
    OT_TRY(ot_plan_new(x->model->file->graph, &c, x->lead < 0 ? NULL : x->slot[x->lead].plan,
                       &q->plan, err));
    if (x->lead < 0) x->lead = x->n;
    if (q->plan->state_bytes > x->state_bytes) x->state_bytes = q->plan->state_bytes;
    if (q->plan->scratch_bytes > x->scratch_bytes) x->scratch_bytes = q->plan->scratch_bytes;
    if (q->plan->const_bytes > x->const_bytes) x->const_bytes = q->plan->const_bytes;
    *out = x->n++;
    return OT_OK;
}

/* ---- binding ------------------------------------------------------------------------ */

static const ot_value *find_fed(const ot_plan *p, const ot_feeder *f)
{
    ot_value **list = f->target ? p->targets : p->graph->inputs;
    int n = f->target ? p->n_targets : p->graph->n_inputs;
    for (int i = 0; i < n; i++)
        if (list[i]->role == OT_INPUT && !strcmp(list[i]->name, f->name)) return list[i];
    return NULL;
}

static void feed_knob(ot_slot *q, const ot_value *v, const void *p)
{
    if (v) ot_exec_feed(q->exec, v, p);
}

/* Every input the plan reads must have its bytes. */
static ot_status check_fed(const ot_plan *p, const ot_feeders *fs, ot_error *err)
{
    for (int i = 0; i < p->n_targets; i++) {
        bool found = false;
        for (int k = 0; k < fs->n; k++) found |= find_fed(p, &fs->f[k]) == p->targets[i];
        if (!found)
            return ot_fail(err, OT_E_DATA, "the loss wants an array '%s'; there is none",
                           p->targets[i]->name);
    }
    return OT_OK;
}

static ot_status bind(ot_session *x, ot_slot *q, ot_error *err)
{
    OT_TRY(check_fed(q->plan, q->feeders, err));
    const ot_knobs *k = &q->plan->knobs;
    feed_knob(q, k->lr, &x->lr);
    feed_knob(q, k->momentum, &x->momentum);
    feed_knob(q, k->t, &x->t);
    feed_knob(q, k->seed, &x->seed);
    feed_knob(q, k->counter, &x->counter);
    for (int i = 0; i < q->feeders->n; i++) {
        const ot_value *v = find_fed(q->plan, &q->feeders->f[i]);
        if (v) ot_exec_feed(q->exec, v, q->feeders->f[i].buffer);
    }
    return OT_OK;
}

/* The largest batch cut by these feeders; smaller ones share its memory. */
static int64_t largest(const ot_session *x, const ot_feeders *fs)
{
    int64_t most = 0;
    for (int i = 0; i < x->n; i++)
        if (x->slot[i].feeders == fs && x->slot[i].batch > most) most = x->slot[i].batch;
    return most;
}

static int64_t batch_bytes(const ot_feeders *fs, int64_t batch)
{
    int64_t bytes = 0;
    for (int i = 0; i < fs->n; i++)
        if (!ot_add(bytes, ot_feeder_bytes(&fs->f[i], batch), &bytes)) return INT64_MAX;
    return bytes;
}

int64_t ot_session_bytes(const ot_session *x)
{
    int64_t bytes = x->state_bytes + x->scratch_bytes + x->const_bytes;
    for (int i = 0; i < x->n; i++) {
        bool first = true;
        for (int k = 0; k < i; k++) first &= x->slot[k].feeders != x->slot[i].feeders;
        if (first &&
            !ot_add(bytes, batch_bytes(x->slot[i].feeders, largest(x, x->slot[i].feeders)), &bytes))
            return INT64_MAX;
    }
    return bytes;
}

/* The system would rather end the process later than refuse memory now. */
static ot_status check_memory(const ot_session *x, ot_error *err)
{
    int64_t needed = ot_session_bytes(x), there = ot_memory_available();
    if (needed <= there) return OT_OK;
    return ot_fail(
        err, OT_E_NOMEM,
        "out of memory: %lld MiB are needed, %lld MiB are there; a smaller --batch-size needs less",
        (long long)(needed >> 20), (long long)(there >> 20));
}

ot_status ot_session_allocate(ot_session *x, ot_error *err)
{
    OT_TRY(check_memory(x, err));
    for (int i = 0; i < x->n; i++) {
        int64_t most = largest(x, x->slot[i].feeders);
        for (int k = 0; k < x->slot[i].feeders->n; k++)
            OT_TRY(ot_feeder_prepare(&x->slot[i].feeders->f[k], most, x->a, err));
    }

    size_t bytes = (size_t)(x->scratch_bytes + 127) / 64 * 64;
    x->scratch = aligned_alloc(64, bytes);
    if (!x->scratch)
        return ot_fail(err, OT_E_NOMEM,
                       "out of memory: %lld MiB are needed; a smaller --batch-size needs less",
                       (long long)(ot_session_bytes(x) >> 20));
    for (int k = 0; k < x->n; k++) {
        int i = k == 0 ? x->lead : k <= x->lead ? k - 1 : k; /* the one that owns the state first */
        ot_slot *q = &x->slot[i];
        void *state = i == x->lead ? NULL : ot_exec_state(x->slot[x->lead].exec);
        OT_TRY(ot_exec_new(q->plan, state, x->scratch, &q->exec, err));
        OT_TRY(bind(x, q, err));
    }
    return OT_OK;
}

/* ---- running ------------------------------------------------------------------------- */

ot_status ot_session_batch(ot_session *x, int slot, const int64_t *index, ot_error *err)
{
    ot_slot *q = &x->slot[slot];
    for (int i = 0; i < q->feeders->n; i++) {
        ot_feeder *f = &q->feeders->f[i];
        if (!f->whole) ot_feeder_take(f, index, q->batch, f->buffer, x->threads);
    }
    return ot_exec_every(q->exec, err);
}

double ot_session_scalar(ot_session *x, int slot, const ot_value *v)
{
    return v ? ot_get_f64(ot_exec_bytes(x->slot[slot].exec, v), v->dtype, 0) : NAN;
}

static ot_output *declared(const ot_graph *g, ot_arena *a, bool *complete)
{
    ot_output *o = ot_arena_alloc(a, sizeof *o * (size_t)(g->n_outputs + 1));
    *complete = true;
    for (int i = 0; o && i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        o[i] = (ot_output){ .name = v->name, .dtype = v->dtype, .shape = v->shape };
        if (v->dtype == OT_UNDEFINED || !ot_shape_known(&v->shape)) *complete = false;
    }
    return o;
}

ot_status ot_session_outputs(ot_session *x, const ot_feeders *fs, int64_t batch, ot_output **out,
                             int *n, ot_error *err)
{
    const ot_graph *g = x->model->file->graph;
    bool complete;
    *n = g->n_outputs;
    *out = declared(g, x->a, &complete);
    ot_feed *feeds = ot_arena_alloc(x->a, sizeof *feeds * (size_t)(fs->n + 1));
    if (!*out || !feeds) return ot_fail(err, OT_E_NOMEM, "no memory for plans");

    /* What the file declares is often symbolic, and sometimes wrong: a plan knows. */
    ot_feeders_feeds(fs, batch, feeds);
    ot_config c = ot_session_config(x->s, OT_WANT_RUN, x->threads);
    c.feeds = feeds;
    c.n_feeds = fs->n;
    ot_plan *p = NULL;
    OT_TRY(ot_plan_new(g, &c, NULL, &p, err));
    for (int i = 0; i < g->n_outputs && i < p->graph->n_outputs; i++) {
        (*out)[i].dtype = p->graph->outputs[i]->dtype;
        (*out)[i].shape = p->graph->outputs[i]->shape;
    }
    ot_plan_free(p);
    return OT_OK;
}
