/* steps.c - single updates and predictions with a caller's tensors.
 *
 * Each combination of names, types and shapes has a plan of its own; all of them share the weights.  The caller's memory is read
 * during the call alone.  A step that fails for its data, or whose loss is no number, leaves everything as it was: weights (on the
 * CPU: no update has begun), running statistics, which the batch itself moves, and counters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/run/model.h"
#include "runtime/train/run/trainer.h"

/* ---- data sets over the caller's memory ------------------------------------------------ */

static int64_t samples_of(const ot_tensor *in, int n)
{
    for (int i = 0; i < n; i++)
        if (!strncmp(in[i].name, "target", 6) && in[i].rank) return in[i].dim[0];
    return n && in[0].rank ? in[0].dim[0] : 1;
}

static bool is_input(const ot_trainer *t, const char *name)
{
    for (int k = 0; k < t->m->file->graph->n_inputs; k++)
        if (!strcmp(t->m->file->graph->inputs[k]->name, name)) return true;
    return false;
}

static ot_status data_set_of(const ot_trainer *t, const ot_tensor *in, int n, ot_dataset **out, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    ot_dataset *d = a ? ot_arena_alloc(a, sizeof *d) : NULL;
    ot_array *list = d ? ot_arena_alloc(a, sizeof *list * (size_t)(n + 1)) : NULL;
    for (int i = 0; list && i < n; i++) {
        list[i].t = in[i];
        list[i].t.name = ot_arena_strdup(a, in[i].name);
        list[i].role = is_input(t, in[i].name) ? OT_ARRAY_INPUT : OT_ARRAY_TARGET;
        list[i].whole = !in[i].rank || in[i].dim[0] != samples_of(in, n);
        if (!list[i].t.name) list = NULL;
    }
    if (!list) {
        if (a) ot_arena_free(a);
        return ot_fail(err, OT_E_NOMEM, "no memory for a batch");
    }
    *d = (ot_dataset){ .arena = a, .name = "the batch", .samples = samples_of(in, n), .n = n, .array = list };
    *out = d;
    return OT_OK;
}

static ot_status no_copy(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for a batch"); }

/* The tensors with memory of their own, in arena a. */
static ot_status copy_tensors(const ot_tensor *in, int n, ot_arena *a, ot_tensor **out, ot_error *err)
{
    *out = ot_arena_alloc(a, sizeof **out * (size_t)(n + 1));
    if (!*out) return no_copy(err);
    for (int i = 0; i < n; i++) {
        ot_tensor *own = &(*out)[i];
        ot_shape s = { .rank = in[i].rank };
        memcpy(s.dim, in[i].dim, sizeof s.dim);
        size_t bytes = ot_bytes(&s, in[i].dtype);
        *own = in[i];
        if (!(own->data = ot_arena_alloc(a, bytes + 1))) return no_copy(err);
        if (bytes) memcpy(own->data, in[i].data, bytes);
        char **text = own->data;
        for (int64_t k = 0; in[i].dtype == OT_STRING && k < ot_numel(&s); k++)
            if (!(text[k] = ot_arena_strdup(a, text[k]))) return no_copy(err);
    }
    return OT_OK;
}

/* The arrays lie where `in`, which has all of their names, says; NULL: nowhere. */
static void point(const ot_dataset *d, const ot_tensor *in, int n)
{
    for (int i = 0; i < d->n; i++) {
        d->array[i].t.data = NULL;
        for (int k = 0; in && k < n; k++)
            if (!strcmp(in[k].name, d->array[i].t.name)) d->array[i].t.data = in[k].data;
    }
}

/* ---- shapes ---------------------------------------------------------------------------- */

static bool is_like(const ot_array *a, const ot_tensor *in, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(in[i].name, a->t.name) != 0) continue;
        bool same = in[i].dtype == a->t.dtype && in[i].rank == a->t.rank;
        for (int k = 0; same && k < in[i].rank; k++) same = in[i].dim[k] == a->t.dim[k];
        return same;
    }
    return false;
}

static ot_batch_shape *find_shape(const ot_trainer *t, ot_want want, const ot_tensor *in, int n)
{
    for (int i = 0; i < t->steps.n; i++) {
        const ot_dataset *d = t->steps.list[i]->d;
        bool same = t->steps.list[i]->want == want && d->n == n;
        for (int k = 0; same && k < n; k++) same = is_like(&d->array[k], in, n);
        if (same) return t->steps.list[i];
    }
    return NULL;
}

void ot_trainer_forget_shapes(ot_trainer *t)
{
    for (int i = 0; i < t->steps.n; i++)
        if (t->steps.list[i]->d != t->data) ot_dataset_free(t->steps.list[i]->d);
    t->steps.n = 0;
}

static ot_status new_shape(ot_trainer *t, ot_want want, ot_dataset *d, ot_feeders *fs, ot_batch_shape **out,
                           ot_error *err)
{
    if (want == OT_WANT_TRAIN && d->samples < 1) return ot_fail(err, OT_E_DATA, "%s has no samples", d->name);
    /* A tensor without elements may name any number of samples. */
    if (d->samples > INT32_MAX)
        return ot_fail(err, OT_E_DATA, "a batch of %lld samples is too large", (long long)d->samples);
    ot_batch_shape *p = ot_arena_alloc(t->a, sizeof *p);
    if (!p) return no_copy(err);
    *p = (ot_batch_shape){ .want = want, .d = d, .fs = fs, .batch = d->samples };
    p->index = ot_arena_alloc(t->a, sizeof *p->index * (size_t)(p->batch + 1));
    if (!p->index) return no_copy(err);
    for (int64_t i = 0; i < p->batch; i++) p->index[i] = i;
    *out = p;
    return OT_OK;
}

/* The first batch of a trainer without data opens it. */
static ot_status open_first(ot_trainer *t, const ot_tensor *in, int n, ot_batch_shape **out, ot_error *err)
{
    if (!t->x.a) OT_TRY(ot_session_open(&t->x, t->m, &t->s, NULL, err));
    t->x.sets_limit = 0; /* single batches come from the host */
    OT_TRY(data_set_of(t, in, n, &t->data, err));
    t->s.batch = t->data->samples;
    t->s.shuffle = false;
    if (!t->s.steps && !t->s.epochs) t->s.steps = OT_ENDLESS;
    OT_TRY(new_shape(t, OT_WANT_TRAIN, t->data, &t->train, out, err));
    OT_TRY(copy_tensors(in, n, t->data->arena, &(*out)->own, err));
    return ot_trainer_prepare(t, err);
}

/* Nothing has changed: another first batch may come. */
static void close_first(ot_trainer *t)
{
    ot_dataset_free(t->data);
    t->data = NULL;
    ot_session_close(&t->x);
    (void)ot_session_open(&t->x, t->m, &t->s, NULL, &(ot_error){ 0 }); /* else the next step tries */
}

/* Feeders and a plan for other shapes than those before. */
static ot_status plan_shape(ot_trainer *t, ot_batch_shape *p, ot_error *err)
{
    ot_output *outputs;
    int n, slot, before = t->x.n;
    ot_adapt_env e = ot_trainer_adapt_env(t);
    e.notes = NULL; /* the first batch had them */
    e.training = &t->train;
    if (t->normalize.automatic) e.preprocess = t->measured; /* of the first batch, or of the training set */
    e.predicts = p->want == OT_WANT_PREDICT;
    OT_TRY(ot_adapt_inputs(&e, p->d, p->fs, err));
    if (p->want == OT_WANT_TRAIN) {
        OT_TRY(ot_session_outputs(&t->x, p->fs, p->batch, &outputs, &n, err));
        OT_TRY(ot_adapt_targets(&e, outputs, n, p->fs, err));
    }
    OT_TRY(ot_session_plan(&t->x, p->want, p->fs, p->batch, 1, &slot, err));
    OT_TRY(ot_session_grow(&t->x, before, err));
    t->planned = ot_trainer_planned_bytes(t, &t->x, t->batch);
    t->result.planned_bytes = t->result.peak_bytes = t->planned;
    return OT_OK;
}

static ot_status open_shape(ot_trainer *t, ot_want want, const ot_tensor *in, int n, ot_batch_shape **out,
                            ot_error *err)
{
    if (t->x.n == OT_SLOTS)
        return ot_fail(err, OT_E_USAGE,
                       "a trainer has plans for %d combinations of shapes at most: pad the tensors to fewer sizes",
                       t->steps.n);
    ot_dataset *d;
    OT_TRY(data_set_of(t, in, n, &d, err));
    ot_feeders *fs = ot_arena_alloc(t->a, sizeof *fs);
    ot_status s = fs ? new_shape(t, want, d, fs, out, err) : no_copy(err);
    if (!s) s = plan_shape(t, *out, err);
    if (s) ot_dataset_free(d);
    return s;
}

/* The shape of these tensors, whose arrays lie in them now. */
static ot_status take_shape(ot_trainer *t, ot_want want, const ot_tensor *in, int n, ot_batch_shape **out,
                            ot_error *err)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(in[i].name, in[k].name))
                return ot_fail(err, OT_E_DATA, "tensor '%s' is given twice", in[i].name);
    *out = find_shape(t, want, in, n);
    if (*out) {
        point((*out)->d, in, n);
        return ot_session_renew(&t->x, (*out)->fs, err);
    }
    bool first = !t->data;
    ot_status s = first ? open_first(t, in, n, out, err) : open_shape(t, want, in, n, out, err);
    if (s && first) close_first(t);
    if (s) *out = NULL;
    else t->steps.list[t->steps.n++] = *out;
    return s;
}

/* The caller's memory is the caller's again. */
static void leave_shape(ot_batch_shape *p)
{
    point(p->d, p->own, p->d->n);
    for (int i = 0; i < p->fs->n; i++) {
        ot_feeder *f = &p->fs->f[i];
        const ot_array *from = f->src == &f->own ? ot_dataset_find(p->d, f->own.t.name) : NULL;
        if (from) f->own.t.data = from->t.data;
    }
}

/* ---- running statistics ------------------------------------------------------------------ */

/* States that a batch assigns: those of the lead's plan, which laid them out. */
struct ot_kept_statistics {
    int n;
    const ot_value **state;
    void **bytes;
};

static ot_status list_statistics(ot_trainer *t, ot_error *err)
{
    const ot_graph *g = t->x.slot[t->x.lead].plan->graph;
    ot_kept_statistics *k = ot_arena_alloc(t->a, sizeof *k);
    if (!k) return no_copy(err);
    *k = (ot_kept_statistics){ .state = ot_arena_alloc(t->a, sizeof *k->state * (size_t)(g->n_assigns + 1)),
                               .bytes = ot_arena_alloc(t->a, sizeof *k->bytes * (size_t)(g->n_assigns + 1)) };
    if (!k->state || !k->bytes) return no_copy(err);
    for (int i = 0; i < g->n_assigns; i++) {
        const ot_node *by = g->assigns[i].value->producer;
        if (by && by->phase != OT_PHASE_BATCH) continue;
        const ot_value *v = k->state[k->n] = g->assigns[i].state;
        if (!(k->bytes[k->n++] = ot_arena_alloc(t->a, ot_bytes(&v->shape, v->dtype) + 1))) return no_copy(err);
    }
    t->steps.kept = k;
    return OT_OK;
}

static ot_status keep_statistics(ot_trainer *t, ot_error *err)
{
    if (!t->steps.kept) OT_TRY(list_statistics(t, err));
    for (int i = 0; i < t->steps.kept->n; i++)
        OT_TRY(ot_exec_read(t->x.slot[t->x.lead].exec, t->steps.kept->state[i], t->steps.kept->bytes[i], err));
    return OT_OK;
}

static ot_status restore_statistics(ot_trainer *t, ot_error *err)
{
    for (int i = 0; i < t->steps.kept->n; i++)
        OT_TRY(ot_exec_write(t->x.slot[t->x.lead].exec, t->steps.kept->state[i], t->steps.kept->bytes[i], err));
    return OT_OK;
}

/* ---- a step ------------------------------------------------------------------------------ */

typedef struct counters {
    int64_t given, step, samples, steps;
    uint64_t counter;
} counters;

static counters count(const ot_trainer *t)
{
    return (counters){ t->given, t->step, t->samples, t->result.steps, t->x.counter };
}

static void count_again(ot_trainer *t, const counters *c)
{
    t->given = c->given;
    t->step = c->step;
    t->samples = c->samples;
    t->result.steps = c->steps;
    t->x.counter = c->counter;
    t->x.t = (double)c->given;
}

static ot_status update(ot_trainer *t, ot_error *err)
{
    counters before = count(t);
    ot_error ignored = { 0 };
    OT_TRY(keep_statistics(t, err));
    ot_status s = ot_trainer_update(t, 0, err);
    bool unchanged = s == OT_E_DATA || (s == OT_E_DIVERGED && !t->x.device && !isfinite(t->last_loss));
    if (unchanged && restore_statistics(t, &ignored)) return OT_E_DEVICE;
    if (unchanged) count_again(t, &before);
    if (s) return s;
    t->result.loss = t->last_loss;
    t->result.reason = "running";
    if (isfinite(t->last_loss)) ot_schedule_feedback(&t->schedule, t->step - 1, t->last_loss);
    return OT_OK;
}

ot_status ot_trainer_step(ot_trainer *t, const ot_tensor *batch, int n, double *loss, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    OT_TRY(ot_tensors_given(batch, n, err));
    ot_error first = { 0 };
    if (!t->by_steps) return ot_fail(err, OT_E_USAGE, "this trainer has its own data: use ot_trainer_run");
    if (t->s.accumulate > 1) return ot_fail(err, OT_E_USAGE, "--accumulate is not supported with single steps");
    ot_status s = take_shape(t, OT_WANT_TRAIN, batch, n, &t->steps.now, &first);
    if (!s) s = update(t, &first);
    if (t->steps.now) leave_shape(t->steps.now);
    t->steps.now = NULL;
    if (s) return ot_fail(err, s, "%s", first.text);
    if (loss) *loss = t->last_loss;
    return OT_OK;
}

/* ---- a prediction ------------------------------------------------------------------------ */

static ot_status take_outputs(const ot_trainer *t, int slot, ot_tensors *out, ot_error *err)
{
    const ot_slot *q = &t->x.slot[slot];
    const ot_graph *g = q->plan->graph;
    out->owner = ot_arena_new();
    out->t = out->owner ? ot_arena_alloc(out->owner, sizeof *out->t * (size_t)(g->n_outputs + 1)) : NULL;
    if (!out->t) return ot_fail(err, OT_E_NOMEM, "no memory for the outputs");
    for (int i = 0; i < g->n_outputs; i++)
        if (!g->outputs[i]->left_out)
            OT_TRY(ot_tensor_of(out->owner, t->m->outputs[i], q->exec, g->outputs[i], &out->t[out->n++], err));
    return OT_OK;
}

static ot_status predict(ot_trainer *t, const ot_tensor *in, int n, ot_tensors *out, ot_error *err)
{
    ot_batch_shape *p = NULL;
    ot_numbers ignored;
    int slot;
    ot_status s = take_shape(t, OT_WANT_PREDICT, in, n, &p, err);
    if (!s) s = ot_session_plan(&t->x, OT_WANT_PREDICT, p->fs, p->batch, 1, &slot, err); /* finds it */
    if (!s) s = ot_session_batch(&t->x, slot, p->index, &ignored, err);
    if (!s) s = take_outputs(t, slot, out, err);
    if (p) leave_shape(p);
    return s;
}

ot_status ot_trainer_predict(ot_trainer *t, const ot_tensor *in, int n, ot_tensors *out, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(out);
    *out = (ot_tensors){ 0 };
    OT_GIVEN(t);
    OT_TRY(ot_tensors_given(in, n, err));
    ot_error first = { 0 };
    if (!t->x.memory)
        return ot_fail(err, OT_E_USAGE, "nothing has been trained yet: the weights are the model's, use ot_run");
    if (ot_session_in_flight(&t->x))
        return ot_fail(err, OT_E_USAGE,
                       "updates are being computed on the device: predict before or after ot_trainer_run");
    ot_status s = ot_trainer_use_averages(t, &first);
    if (!s) s = ot_trainer_put_back(t, predict(t, in, n, out, &first), &first);
    if (!s) return OT_OK;
    ot_tensors_free(out);
    return ot_fail(err, s, "%s", first.text);
}
