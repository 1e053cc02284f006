/* save.c - the trained tensors into a copy of the model's file.
 *
 * Before the file appears it is read back and must answer one batch as the trainer's own weights
 * do. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/export.h"
#include "runtime/train/folder.h"
#include "runtime/train/trainer.h"

/* The written file answers within rounding: other kernels may be chosen for it. */
static bool close_enough(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-3 * (1 + fabs(b)) || (!isfinite(a) && !isfinite(b));
}

static ot_status compare_outputs(ot_session *x, int i, ot_session *y, int k, ot_error *err)
{
    const ot_graph *a = x->slot[i].plan->graph, *b = y->slot[k].plan->graph;
    for (int o = 0; o < a->n_outputs && o < b->n_outputs; o++) {
        const ot_value *v = a->outputs[o], *w = b->outputs[o];
        if (!ot_shape_eq(&v->shape, &w->shape) || v->dtype != w->dtype)
            return ot_fail(err, OT_E_IO, "output '%s' of the written file has another shape",
                           v->name);
        if (!ot_is_float(v->dtype) || v->layout != w->layout) continue;
        const void *p = ot_exec_bytes(x->slot[i].exec, v), *q = ot_exec_bytes(y->slot[k].exec, w);
        for (int64_t e = 0, n = ot_numel(&v->shape); e < n; e++)
            if (!close_enough(ot_get_f64(p, v->dtype, e), ot_get_f64(q, w->dtype, e)))
                return ot_fail(err, OT_E_IO,
                               "output '%s' of the written file is %g where %g is right", v->name,
                               ot_get_f64(q, w->dtype, e), ot_get_f64(p, v->dtype, e));
    }
    return OT_OK;
}

/* One batch through the trainer's weights and through the written file. */
static ot_status prove(const ot_imported *written, void *user, ot_error *err)
{
    ot_trainer *t = user;
    ot_session y;
    ot_slot *q = &t->x.slot[t->proof];
    ot_model copy = { .file = (ot_imported *)(uintptr_t)written, .outputs = t->m->outputs };
    int slot;
    for (int64_t i = 0; i < q->batch; i++) t->index[i] = i % q->feeders->samples;
    OT_TRY(ot_session_batch(&t->x, t->proof, t->index, err));
    OT_TRY(ot_session_open(&y, &copy, &t->s, err));
    y.counter = t->x.counter;
    ot_status s = ot_session_plan(&y, OT_WANT_EVAL, q->feeders, q->batch, 1, &slot, err);
    if (!s) s = ot_session_allocate(&y, err);
    if (!s) s = ot_session_batch(&y, slot, t->index, err);
    if (!s) s = compare_outputs(&t->x, t->proof, &y, slot, err);
    ot_session_close(&y);
    return s;
}

static const char *default_path(ot_trainer *t)
{
    const char *stem = t->s.out ? "" : ot_stem(t->m->file->path, t->a);
    return t->s.out ? t->s.out : stem ? ot_arena_printf(t->a, "%s-trained.onnx", stem) : NULL;
}

ot_status ot_trainer_save(ot_trainer *t, const char *path, bool proof, ot_error *err)
{
    if (t->x.lead < 0) return ot_fail(err, OT_E_USAGE, "nothing is trained yet");
    const ot_slot *q = &t->x.slot[t->x.lead];
    ot_export_tensor *list = calloc((size_t)q->plan->n_states + 1, sizeof *list);
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory to write '%s'", path);
    int n = 0;
    for (int i = 0; i < q->plan->n_states; i++) {
        const ot_value *v = q->plan->states[i];
        if (v->source >= 0)
            list[n++] =
                (ot_export_tensor){ .source = v->source, .bytes = ot_exec_bytes(q->exec, v) };
    }
    ot_export_options o = { .check = proof && t->proof >= 0 ? prove : NULL, .user = t };
    ot_status s = ot_export(t->m->file, path, n, list, &o, err);
    free(list);
    return s;
}

ot_status ot_trainer_export(ot_trainer *t, const char *path, ot_error *err)
{
    if (!path) path = default_path(t);
    const char *kept = path ? ot_arena_strdup(t->a, path) : NULL;
    if (!kept) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    OT_TRY(ot_trainer_save(t, kept, true, err));
    t->result.model_path = kept;
    return OT_OK;
}
