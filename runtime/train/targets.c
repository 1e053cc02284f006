/* targets.c - matches target arrays to losses, and checks every label before the first step. */

#include <stdio.h>
#include <string.h>

#include "runtime/train/adapt.h"

/* One target that is wanted. */
typedef struct want {
    const ot_thing *loss;    /* NULL: the loss pass chooses */
    const ot_output *output; /* NULL: not known which */
    const ot_array *array;
    const char *name; /* of the feed */
} want;

static bool is_loss(const want *w, const char *a, const char *b)
{
    return w->loss && (!strcmp(w->loss->name, a) || !strcmp(w->loss->name, b));
}

static const ot_output *find_output(const ot_output *o, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(o[i].name, name)) return &o[i];
    return NULL;
}

/* The array called "target", or the only one of that role. */
static const ot_array *only_target(const ot_dataset *d)
{
    const ot_array *only = ot_dataset_find(d, "target");
    int n = 0;
    if (only) return only;
    for (int i = 0; i < d->n; i++)
        if (d->array[i].role == OT_ARRAY_TARGET) only = &d->array[i], n++;
    return n == 1 ? only : NULL;
}

static ot_status missing(const ot_adapt_env *e, const ot_dataset *d, const char *name,
                         ot_error *err)
{
    const char *s = "";
    for (int i = 0; i < d->n && s; i++)
        s = ot_arena_printf(e->a, "%s%s'%s'", s, i ? ", " : "", d->array[i].t.name);
    return ot_fail_more(err, OT_E_DATA,
                        "there is no target: the loss wants an array '%s'; %s has %s", name,
                        d->name, s && *s ? s : "no array");
}

/* ---- which ----------------------------------------------------------------------------- */

static ot_status wants_by_loss(const ot_adapt_env *e, const ot_dataset *d, const ot_output *o,
                               int n_outputs, want *w, int *n, ot_error *err)
{
    int needing = 0;
    for (int i = 0; i < e->s->n_losses; i++) needing += strcmp(e->s->losses[i].name, "output") != 0;
    for (int i = 0; i < e->s->n_losses; i++) {
        const ot_thing *t = &e->s->losses[i];
        if (!strcmp(t->name, "output")) continue;
        want *q = &w[*n];
        *q = (want){ .loss = t,
                     .output = t->output        ? find_output(o, n_outputs, t->output)
                               : n_outputs == 1 ? o
                                                : NULL };
        q->name = "target";
        if (t->output) {
            q->name = ot_arena_printf(e->a, "target_%s", t->output);
            if (!q->name) return ot_fail(err, OT_E_NOMEM, "no memory to adapt the data");
            q->array = ot_dataset_find(d, q->name);
        }
        if (!q->array && needing == 1) {
            q->array = only_target(d);
            q->name = "target";
        }
        if (!q->array) missing(e, d, q->name, err);
        else (*n)++;
    }
    return err->status;
}

static ot_status wants_by_array(const ot_dataset *d, const ot_output *o, int n_outputs, want *w,
                                int *n, ot_error *err)
{
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        if (a->role != OT_ARRAY_TARGET) continue;
        want *q = &w[(*n)++];
        *q = (want){ .array = a, .name = "target", .output = n_outputs == 1 ? o : NULL };
        if (strncmp(a->t.name, "target_", 7)) continue;
        q->name = a->t.name;
        q->output = find_output(o, n_outputs, a->t.name + 7);
        if (!q->output)
            ot_fail_more(err, OT_E_DATA, "array '%s': the model has no output '%s'", a->t.name,
                         a->t.name + 7);
    }
    return err->status;
}

/* One output may be the loss itself. */
static bool has_scalar(const ot_output *o, int n)
{
    for (int i = 0; i < n; i++)
        if (ot_shape_known(&o[i].shape) && ot_numel(&o[i].shape) == 1) return true;
    return false;
}

/* ---- shapes ------------------------------------------------------------------------------- */

static ot_shape without(const ot_shape *s, int axis)
{
    ot_shape r = { .rank = s->rank - 1 };
    for (int i = 0, k = 0; i < s->rank; i++)
        if (i != axis) r.dim[k++] = s->dim[i];
    return r;
}

/* a and b are the same but for dimensions of 1. */
static bool alike(const ot_shape *a, const ot_shape *b)
{
    int i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dim[i] == 1) i++;
        while (k < b->rank && b->dim[k] == 1) k++;
        if (i == a->rank || k == b->rank) return i == a->rank && k == b->rank;
        if (a->dim[i++] != b->dim[k++]) return false;
    }
}

/* Shape of one sample of the output; false: it is not known, or has no batch. */
static bool output_sample(const ot_adapt_env *e, const want *w, ot_shape *out)
{
    if (!w->output || w->output->shape.rank < 1 || w->output->shape.dim[0] != e->batch)
        return false;
    for (int i = 0; i < w->output->shape.rank; i++)
        if (w->output->shape.dim[i] < 0) return false;
    *out = without(&w->output->shape, 0);
    return true;
}

/* Which axis of a sample of the output the classes lie on, for labels of shape t; -1: none fits. */
static int class_axis(const want *w, const ot_shape *o, const ot_shape *t)
{
    int axis, first = 0, last = o->rank - 1;
    if (w->loss && ot_thing_find(w->loss, "class_axis")) {
        double given = ot_thing_num(w->loss, "class_axis", 1);
        axis = (int)given - (given > 0 ? 1 : 0) + (given < 0 ? o->rank : 0);
        if (given == 0 || axis < 0 || axis >= o->rank) return -1;
        first = last = axis;
    }
    for (axis = first;; axis = last) {
        ot_shape rest = without(o, axis);
        if (alike(&rest, t)) return axis;
        if (axis == last) return -1;
    }
}

static ot_status wrong_shape(const want *w, const ot_shape *t, const ot_shape *o, const char *what,
                             ot_error *err)
{
    char x[128], y[128];
    return ot_fail_more(
        err, OT_E_DATA, "target '%s': a sample is %s; output '%s' is %s per sample%s",
        w->array->t.name, ot_shape_text(t, x), w->output->name, ot_shape_text(o, y), what);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static ot_status check_labels(const want *w, int64_t classes, int64_t samples, ot_error *err)
{
    const ot_tensor *t = &w->array->t;
    const ot_param *ignore = w->loss ? ot_thing_find(w->loss, "ignore_index") : NULL;
    int64_t skip = ignore ? (int64_t)ignore->num : 0, n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t y = ot_get_i64(t->data, t->dtype, i);
        if ((y >= 0 && y < classes) || (ignore && y == skip)) continue;
        return ot_fail_more(
            err, OT_E_DATA,
            "target '%s': sample %lld has class %lld; output '%s' has %lld classes, 0 to %lld",
            t->name, (long long)(samples > 0 ? i / (n / samples) : i), (long long)y,
            w->output->name, (long long)classes, (long long)classes - 1);
    }
    return OT_OK;
}

static bool zeros_and_ones(const ot_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    for (int64_t i = 0; i < n; i++) {
        double v = ot_get_f64(t->data, t->dtype, i);
        if (v != 0 && v != 1) return false;
    }
    return true;
}

static void set_feed(ot_feeder *f, const want *w, ot_dtype t, const ot_shape *sample)
{
    *f = (ot_feeder){ .name = w->name,
                      .src = w->array,
                      .target = true,
                      .binary = zeros_and_ones(&w->array->t),
                      .dtype = t,
                      .sample = *sample };
    f->gather = (ot_gather){
        .src = w->array, .dtype = t, .elements = ot_numel(sample), .channels = 1, .inner = 1
    };
}

/* Classes: integers, or floats that are whole where labels must be. */
static ot_status adapt_classes(const ot_adapt_env *e, const want *w, const ot_shape *sample,
                               int64_t samples, ot_feeder *f, ot_error *err)
{
    ot_shape o, t = *sample;
    ot_error whole = { 0 };
    if (ot_is_float(w->array->t.dtype) && ot_array_fits(w->array, OT_I64, &whole))
        return ot_fail_more(err, whole.status, "target '%s' is no class: %s", w->array->t.name,
                            whole.text);
    if (output_sample(e, w, &o)) {
        int axis = o.rank ? class_axis(w, &o, &t) : -1;
        if (axis < 0) return wrong_shape(w, &t, &o, ": classes do not fit it", err);
        t = without(&o, axis);
        OT_TRY(check_labels(w, o.dim[axis], samples, err));
    }
    set_feed(f, w, OT_I64, &t);
    return OT_OK;
}

static ot_status adapt_values(const ot_adapt_env *e, const want *w, const ot_shape *sample,
                              ot_feeder *f, ot_error *err)
{
    ot_shape o, t = *sample;
    ot_dtype type = w->output && ot_is_float(w->output->dtype) ? w->output->dtype
                    : w->array->t.dtype == OT_F64              ? OT_F64
                                                               : OT_F32;
    if (output_sample(e, w, &o)) {
        if (!alike(&o, &t)) return wrong_shape(w, &t, &o, "", err);
        t = o;
    }
    set_feed(f, w, type, &t);
    return OT_OK;
}

static ot_status adapt_one(const ot_adapt_env *e, const want *w, int64_t samples, ot_feeder *f,
                           ot_error *err)
{
    const ot_tensor *a = &w->array->t;
    ot_shape o, t = { .rank = a->rank - 1 };
    if (a->rank < 1 || a->dim[0] != samples)
        return ot_fail_more(err, OT_E_DATA, "target '%s' has %lld samples; the data has %lld",
                            a->name, (long long)(a->rank ? a->dim[0] : 0), (long long)samples);
    for (int i = 0; i < t.rank; i++) t.dim[i] = a->dim[i + 1];
    bool same = output_sample(e, w, &o) && ot_shape_eq(&o, &t);
    if (is_loss(w, "cross_entropy", "nll"))
        return ot_is_float(a->dtype) && (same || !w->output)
                   ? adapt_values(e, w, &t, f, err)
                   : adapt_classes(e, w, &t, samples, f, err);
    if (w->loss) return adapt_values(e, w, &t, f, err);
    if (ot_is_float(a->dtype)) return adapt_values(e, w, &t, f, err);
    if (!same) return adapt_classes(e, w, &t, samples, f, err);
    set_feed(f, w, OT_I64, &t); /* 0/1 of the output's shape */
    return OT_OK;
}

ot_status ot_adapt_targets(const ot_adapt_env *e, const ot_output *outputs, int n, ot_feeders *fs,
                           ot_error *err)
{
    const ot_dataset *d = fs->data;
    want *w = ot_arena_alloc(e->a, sizeof *w * (size_t)(e->s->n_losses + d->n + 1));
    ot_feeder *list =
        ot_arena_alloc(e->a, sizeof *list * (size_t)(fs->n + e->s->n_losses + d->n + 1));
    if (!w || !list) return ot_fail(err, OT_E_NOMEM, "no memory to adapt the data");

    ot_error found = { 0 };
    int n_wants = 0;
    if (e->s->n_losses) wants_by_loss(e, d, outputs, n, w, &n_wants, &found);
    else wants_by_array(d, outputs, n, w, &n_wants, &found);
    if (!e->s->n_losses && !n_wants && !found.status && !has_scalar(outputs, n))
        missing(e, d, "target", &found);
    /* The old list may hold pointers into itself. */
    for (int i = 0; i < fs->n; i++) {
        list[i] = fs->f[i];
        if (list[i].src == &fs->f[i].own) list[i].src = list[i].gather.src = &list[i].own;
    }
    fs->f = list;
    for (int i = 0; i < n_wants; i++)
        if (!adapt_one(e, &w[i], fs->samples, &list[fs->n], &found)) fs->n++;
    return found.status ? ot_fail(err, found.status, "%s", found.text) : OT_OK;
}
