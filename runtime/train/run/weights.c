/* weights.c - trained tensors in and out of a trainer, and steps by host tensors. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/run/folder.h"
#include "runtime/train/run/trainer.h"

/* ---- trained tensors ------------------------------------------------------------- */

/* The i-th state that comes from the file: a weight or a running statistic. */
static const ot_value *file_state(const ot_trainer *t, int i)
{
    const ot_plan *p = t->x.lead < 0 ? NULL : t->x.slot[t->x.lead].plan;
    for (int k = 0; p && k < p->n_states; k++)
        if (p->states[k]->source >= 0 && i-- == 0) return p->states[k];
    return NULL;
}

int ot_trainer_weight_count(const ot_trainer *t)
{
    if (!t) return 0;
    int n = 0;
    while (file_state(t, n)) n++;
    return n;
}

static ot_exec *lead(const ot_trainer *t) { return t->x.slot[t->x.lead].exec; }

/* The tensor but for its bytes. */
static ot_tensor describe(const ot_trainer *t, const ot_value *v)
{
    ot_tensor out = { .name = t->m->file->sources[v->source].name, .dtype = v->dtype, .rank = v->shape.rank };
    memcpy(out.dim, v->shape.dim, sizeof out.dim);
    return out;
}

/* Its bytes: where they lie, or a copy that is made anew at every call. */
static bool get(ot_trainer *t, int i, const ot_value *v, ot_tensor *out)
{
    ot_error ignored = { 0 };
    *out = describe(t, v);
    if (!t->x.device && v->layout == OT_PLAIN) {
        out->data = ot_exec_bytes(lead(t), v);
        return true;
    }
    if (!t->copies) t->copies = ot_arena_alloc(t->a, sizeof *t->copies * (size_t)ot_trainer_weight_count(t));
    if (t->copies && !t->copies[i]) t->copies[i] = ot_arena_alloc(t->a, ot_bytes(&v->shape, v->dtype) + 1);
    out->data = t->copies ? t->copies[i] : NULL;
    return out->data && ot_exec_read(lead(t), v, out->data, &ignored) == OT_OK;
}

bool ot_trainer_weight_at(ot_trainer *t, int i, ot_tensor *out)
{
    if (!t || !out || i < 0) return false;
    const ot_value *v = file_state(t, i);
    return v && get(t, i, v, out);
}

bool ot_trainer_weight_get(ot_trainer *t, const char *name, ot_tensor *out)
{
    if (!t || !name || !out) return false;
    const ot_value *v;
    for (int i = 0; (v = file_state(t, i)); i++)
        if (!strcmp(t->m->file->sources[v->source].name, name)) return get(t, i, v, out);
    return false;
}

/* The f32 master of a weight kept in half precision follows. */
static ot_status set_master(ot_trainer *t, const ot_value *w, const void *bytes, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *m = p->states[i];
        if (m->of != w || m->kind != OT_STATE_MASTER) continue;
        void *wide = malloc(ot_bytes(&m->shape, m->dtype) + 1);
        if (!wide) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", w->name);
        for (int64_t k = 0; k < ot_numel(&w->shape); k++) ot_set_f64(wide, m->dtype, k, ot_get_f64(bytes, w->dtype, k));
        ot_status s = ot_exec_write(lead(t), m, wide, err);
        free(wide);
        OT_TRY(s);
    }
    return OT_OK;
}

ot_status ot_trainer_weight_set(ot_trainer *t, const ot_tensor *w, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    OT_TRY(ot_tensors_given(w, 1, err));
    const ot_value *v;
    for (int i = 0; (v = file_state(t, i)); i++) {
        ot_tensor have = describe(t, v);
        if (strcmp(have.name, w->name)) continue;
        bool same = have.dtype == w->dtype && have.rank == w->rank;
        for (int k = 0; same && k < w->rank; k++) same = have.dim[k] == w->dim[k];
        if (!same)
            return ot_fail(err, OT_E_USAGE, "'%s' has another type or shape; expected %s of rank %d", w->name,
                           ot_dtype_name(have.dtype), have.rank);
        OT_TRY(ot_exec_write(lead(t), v, w->data, err));
        return set_master(t, v, w->data, err);
    }
    return ot_fail(err, OT_E_USAGE, "'%s' is not trained", w->name);
}

/* ---- steps by host tensors ------------------------------------------------------------ */

static int64_t samples_of(const ot_tensor *batch, int n)
{
    for (int i = 0; i < n; i++)
        if (!strncmp(batch[i].name, "target", 6) && batch[i].rank) return batch[i].dim[0];
    return n && batch[0].rank ? batch[0].dim[0] : 1;
}

/* A data set over the caller's memory; its views are renewed at every step. */
static ot_status borrow(ot_trainer *t, const ot_tensor *batch, int n, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    ot_dataset *d = a ? ot_arena_alloc(a, sizeof *d) : NULL;
    if (!d || !(d->array = ot_arena_alloc(a, sizeof *d->array * (size_t)(n + 1)))) {
        if (a) ot_arena_free(a);
        return ot_fail(err, OT_E_NOMEM, "no memory for a batch");
    }
    t->data = d;
    *d = (ot_dataset){ .arena = a, .name = "the batch", .samples = samples_of(batch, n), .n = n, .array = d->array };
    for (int i = 0; i < n; i++) {
        ot_array *x = &d->array[i];
        x->t = batch[i];
        x->t.name = ot_arena_strdup(a, batch[i].name);
        if (!x->t.name) return ot_fail(err, OT_E_NOMEM, "no memory for a batch");
        bool graph_input = false;
        for (int k = 0; k < t->m->file->graph->n_inputs; k++)
            graph_input |= !strcmp(t->m->file->graph->inputs[k]->name, batch[i].name);
        x->role = graph_input ? OT_ARRAY_INPUT : OT_ARRAY_TARGET;
        x->whole = !batch[i].rank || batch[i].dim[0] != d->samples;
    }
    t->s.batch = d->samples;
    t->s.shuffle = false;
    if (!t->s.steps && !t->s.epochs) t->s.steps = INT64_MAX / 2;
    return ot_trainer_prepare(t, err);
}

/* The arrays must be those of the first batch. */
static ot_status renew(ot_trainer *t, const ot_tensor *batch, int n, ot_error *err)
{
    for (int i = 0; i < t->data->n; i++) {
        ot_array *x = &t->data->array[i];
        const ot_tensor *now = NULL;
        for (int k = 0; k < n; k++)
            if (!strcmp(batch[k].name, x->t.name)) now = &batch[k];
        bool same = now && now->dtype == x->t.dtype && now->rank == x->t.rank;
        for (int k = 0; same && k < now->rank; k++) same = now->dim[k] == x->t.dim[k];
        if (!same)
            return ot_fail(err, OT_E_DATA, "'%s' has not the same type and shape as in the first batch", x->t.name);
        x->t.data = now->data;
    }
    return ot_session_renew(&t->x, &t->train, err);
}

ot_status ot_trainer_step(ot_trainer *t, const ot_tensor *batch, int n, double *loss, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    OT_TRY(ot_tensors_given(batch, n, err));
    ot_error first = { 0 };
    if (!t->by_steps) return ot_fail(err, OT_E_USAGE, "this trainer has its own data: use ot_trainer_run");
    if (t->s.accumulate > 1) return ot_fail(err, OT_E_USAGE, "--accumulate is not supported with single steps");
    ot_status s = t->x.a ? OT_OK : ot_session_open(&t->x, t->m, &t->s, NULL, &first);
    if (!t->data) t->x.sets_limit = 0; /* single batches come from the host */
    if (!s) s = t->data ? renew(t, batch, n, &first) : borrow(t, batch, n, &first);
    if (s && !t->x.memory) { /* nothing has changed: another first batch may come */
        ot_dataset_free(t->data);
        t->data = NULL;
        ot_session_close(&t->x);
        (void)ot_session_open(&t->x, t->m, &t->s, NULL, &(ot_error){ 0 }); /* else the next step tries */
    }
    if (s) return ot_fail(err, s, "%s", first.text);

    for (int64_t i = 0; i < t->batch; i++) t->index[i] = i;
    s = ot_trainer_update(t, 0, &first);
    if (s) return ot_fail(err, s, "%s", first.text);
    t->result.loss = t->last_loss;
    if (isfinite(t->last_loss)) ot_schedule_feedback(&t->schedule, t->step - 1, t->last_loss);
    if (loss) *loss = t->last_loss;
    return OT_OK;
}
