/* weights.c - trained tensors in and out of a trainer. */

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

/* The tensor without its bytes. */
static ot_tensor describe(const ot_trainer *t, const ot_value *v)
{
    ot_tensor out = { .name = t->m->file->sources[v->source].name, .dtype = v->dtype, .rank = v->shape.rank };
    memcpy(out.dim, v->shape.dim, sizeof out.dim);
    return out;
}

/* The tensor with its bytes: borrowed, or a copy that every call updates. */
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
    if (out) *out = (ot_tensor){ 0 };
    if (!t || !out || i < 0) return false;
    const ot_value *v = file_state(t, i);
    return v && get(t, i, v, out);
}

bool ot_trainer_weight_get(ot_trainer *t, const char *name, ot_tensor *out)
{
    if (out) *out = (ot_tensor){ 0 };
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
