/* targets.c - matches target arrays to losses, and makes a feeder for each. */
#include <string.h>

#include "runtime/losses/losses.h"
#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/image_targets.h"
#include "runtime/train/feed/masks.h"
#include "runtime/train/feed/target_labels.h"
#include "runtime/train/feed/target_scale.h"

static bool needs_target(const ot_spec *loss) { return ot_loss_find(loss->name)->takes != OT_TAKES_NOTHING; }

static const ot_output *find_output(const ot_output *o, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(o[i].name, name)) return &o[i];
    return NULL;
}

static const char *names(ot_arena *a, const char *const *name, int n)
{
    const char *s = ot_arena_names(a, name, n);
    return s ? s : "";
}

static const char *array_names(const ot_adapt_env *e, const ot_dataset *d)
{
    const char **list = ot_arena_alloc(e->a, sizeof *list * (size_t)(d->n + 1));
    for (int i = 0; list && i < d->n; i++) list[i] = d->array[i].t.name;
    return list && d->n ? names(e->a, list, d->n) : "no arrays";
}

static const char *output_names(const ot_adapt_env *e, const ot_output *o, int n)
{
    const char **list = ot_arena_alloc(e->a, sizeof *list * (size_t)(n + 1));
    for (int i = 0; list && i < n; i++) list[i] = o[i].name;
    return list ? names(e->a, list, n) : "";
}

/* Reports a missing target; an array with the name of an output was probably intended as its target. */
static ot_status missing(const ot_adapt_env *e, const ot_dataset *d, const ot_output *o, int n_outputs,
                         const char *name, ot_error *err)
{
    const char *own = strncmp(name, "target_", 7) ? NULL : name + 7;
    if (own && !find_output(o, n_outputs, own)) own = NULL;
    for (int i = 0; i < d->n; i++)
        if (own ? !strcmp(d->array[i].t.name, own) : find_output(o, n_outputs, d->array[i].t.name) != NULL)
            return ot_fail_more(
                err, OT_E_DATA,
                "no target: the data has no array '%s', but '%s' has the name of an output: save it as 'target_%s', or use --target '%s'",
                name, d->array[i].t.name, d->array[i].t.name, d->array[i].t.name);
    return ot_fail_more(err, OT_E_DATA,
                        "no target: the data has no array '%s', only %s; choose the target with --target NAME", name,
                        array_names(e, d));
}

/* ---- which ----------------------------------------------------------------------------- */

/* The output that a target without an output's name is for: the first one.  Where that holds integers or texts, as the labels of
 * a classifier, and one other holds floats, that one: no loss acts on labels. */
static const ot_output *plain_output(const ot_output *o, int n)
{
    const ot_output *only = NULL;
    int found = 0;
    for (int i = 0; i < n; i++)
        if (ot_is_float(o[i].dtype)) only = &o[i], found++;
    return n && !ot_is_float(o[0].dtype) && found == 1 ? only : n ? o : NULL;
}

static void say_plain(const ot_adapt_env *e, const ot_output *first, const ot_output *o)
{
    if (o != first)
        ot_adapt_note(e, "the target is used for output '%s', because '%s' is %s and cannot have a loss", o->name,
                      first->name, ot_dtype_name(first->dtype));
}

/* Sets the output of a loss without one: the output of the only target, else the first that can have a loss. */
static void find_output_of_loss(const ot_adapt_env *e, const ot_dataset *d, const ot_output *o, int n_outputs,
                                ot_spec *t)
{
    const ot_output *only = NULL;
    int n = 0;
    if (t->output || n_outputs < 2) return;
    if (ot_target_plain(d)) {
        only = plain_output(o, n_outputs);
        say_plain(e, o, only);
        if (only != o) t->output = only->name;
        return;
    }
    for (int i = 0; i < n_outputs; i++)
        if (ot_target_of(d, o[i].name)) only = &o[i], n++;
    if (n != 1) return;
    t->output = only->name;
    ot_adapt_note(e, "loss %s is applied to output '%s', which has the only target", t->name, only->name);
}

/* Arrays that go with sequences, by the names that PyTorch gives them. */
static void add_lengths(const ot_dataset *d, const ot_wanted *of, ot_wanted *w, int *n)
{
    static const char *const name[] = { "input_lengths", "target_lengths" };
    const ot_wanted like = *of;
    for (int i = 0; i < OT_LEN(name); i++) {
        const ot_array *a = ot_dataset_find(d, name[i]);
        if (a)
            w[(*n)++] =
                (ot_wanted){ .loss = like.loss, .output = like.output, .array = a, .name = name[i], .lengths = true };
    }
}

static ot_status wants_by_loss(const ot_adapt_env *e, const ot_dataset *d, const ot_output *o, int n_outputs,
                               ot_wanted *w, int *n, ot_error *err)
{
    int needing = 0;
    for (int i = 0; i < e->s->options.n_losses; i++)
        needing += needs_target(&e->s->options.losses[i]) && !ot_loss_joins(e->s->options.losses, i);
    for (int i = 0; i < e->s->options.n_losses; i++) {
        ot_spec *t = &e->s->options.losses[i];
        if (!needs_target(t) || ot_loss_left_out(t) || ot_loss_joins(e->s->options.losses, i)) continue;
        if (needing == 1) find_output_of_loss(e, d, o, n_outputs, t);
        const ot_output *output = t->output ? find_output(o, n_outputs, t->output) : n_outputs ? o : NULL;
        const ot_array *own = output ? ot_target_of(d, output->name) : NULL,
                       *plain = needing == 1 ? ot_target_plain(d) : NULL;
        ot_wanted *q = &w[*n];
        *q = (ot_wanted){ .loss = t, .output = output, .array = own ? own : plain };
        q->name = own || (t->output && !plain) ? ot_arena_printf(e->a, "target_%s", output ? output->name : t->output)
                                               : "target";
        if (!q->name) return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data");
        if (!q->array) missing(e, d, o, n_outputs, q->name, err);
        else (*n)++;
        if (ot_wanted_takes(q) == OT_TAKES_SEQUENCES) add_lengths(d, q, w, n);
    }
    return err->status;
}

static bool uses(const ot_feeders *fs, int array)
{
    for (int i = 0; i < fs->n; i++)
        if (fs->f[i].array == array) return true;
    return false;
}

/* Every output with a target of its own; one may have the target that names none.  What a model reads as an input is a
 * target only if --target says so. */
static ot_status wants_by_array(const ot_adapt_env *e, const ot_feeders *fs, const ot_output *o, int n_outputs,
                                ot_wanted *w, int *n, ot_error *err)
{
    const ot_dataset *d = fs->data;
    const ot_output *first = plain_output(o, n_outputs);
    for (int i = 0; i < n_outputs; i++) {
        const ot_array *own = ot_target_of(d, o[i].name), *plain = &o[i] == first ? ot_target_plain(d) : NULL,
                       *a = own ? own : plain;
        if (!a || (!e->s->target && uses(fs, (int)(a - d->array)))) continue;
        if (!own) say_plain(e, o, first);
        const char *name = own  ? own->t.name
                           : !i ? "target"
                                : ot_arena_printf(e->a, "target_%s", o[i].name); /* so the loss pass finds it */
        if (!name) return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data");
        w[(*n)++] = (ot_wanted){ .output = &o[i], .array = a, .name = name };
    }
    return err->status;
}

/* ---- what is left over ---------------------------------------------------------------------- */

/* Does a loss with weight 0 exclude target a? */
static bool given_up(const ot_settings *s, const ot_array *a)
{
    for (int i = 0; i < s->options.n_losses; i++)
        if (ot_loss_left_out(&s->options.losses[i]) && s->options.losses[i].output && ot_target_is_named(a) &&
            !strcmp(a->t.name + 7, s->options.losses[i].output))
            return true;
    return false;
}

void ot_adapt_idle(const ot_adapt_env *e, const ot_feeders *fs)
{
    const ot_dataset *d = fs->data;
    const char **idle = ot_arena_alloc(e->a, sizeof *idle * (size_t)(d->n + 1));
    int n = 0;
    for (int i = 0; idle && i < d->n; i++) {
        bool target =
            d->array[i].role == OT_ARRAY_TARGET && (e->as_is || e->predicts || ot_target_is_named(&d->array[i]));
        if (!target && !uses(fs, i)) idle[n++] = d->array[i].t.name;
    }
    if (n)
        ot_adapt_note(e, "%s: %s %s not used: no input of the model has %s name", d->name, names(e->a, idle, n),
                      n > 1 ? "are" : "is", n > 1 ? "their" : "its");
}

/* Reports named targets that no loss uses. */
static ot_status check_arrays(const ot_adapt_env *e, const ot_feeders *fs, const ot_output *o, int n_outputs,
                              ot_error *err)
{
    for (int i = 0; i < fs->data->n; i++) {
        const ot_array *a = &fs->data->array[i];
        if (a->role != OT_ARRAY_TARGET || !ot_target_is_named(a) || uses(fs, i) || given_up(e->s, a)) continue;
        const char *output = a->t.name + 7;
        if (!find_output(o, n_outputs, output))
            ot_fail_more(err, OT_E_DATA, "array '%s': the model has no output '%s'; its outputs are %s", a->t.name,
                         output, output_names(e, o, n_outputs));
        else
            ot_fail_more(
                err, OT_E_DATA,
                "array '%s' is not used: give the output a loss with --loss %s=..., or ignore it with --loss %s=mse:weight=0",
                a->t.name, output, output);
    }
    if (!err->status) ot_adapt_idle(e, fs);
    return err->status;
}

/* The output that is the loss, as the loss pass finds it. */
static const ot_output *loss_in_graph(const ot_output *o, int n)
{
    const ot_output *found = NULL;
    for (int i = 0; i < n; i++)
        if (ot_is_float(o[i].dtype) && ot_shape_known(&o[i].shape) && ot_numel(&o[i].shape) == 1 &&
            (!found || (strcmp(found->name, "loss") && !strcmp(o[i].name, "loss"))))
            found = &o[i];
    return found ? found : o;
}

/* A loss over several outputs names the others by keys. */
static bool names_output(const ot_spec *t, const char *output)
{
    static const char *const key[] = { "other", "positive", "negative", "var" };
    for (int i = 0; i < OT_LEN(key); i++)
        if (ot_spec_is(t, key[i], output)) return true;
    return false;
}

/* Notes the outputs without a loss, which do not train, if others have one. */
static void say_outputs(const ot_adapt_env *e, const ot_wanted *w, int n_wants, const ot_output *o, int n_outputs)
{
    const char **idle = ot_arena_alloc(e->a, sizeof *idle * (size_t)(n_outputs + 1));
    int n = 0;
    for (int i = 0; idle && i < n_outputs; i++) {
        bool used = !n_wants && !e->s->options.n_losses && &o[i] == loss_in_graph(o, n_outputs);
        for (int k = 0; k < n_wants; k++) used |= w[k].output == &o[i];
        for (int k = 0; k < e->s->options.n_losses; k++) {
            const ot_spec *t = &e->s->options.losses[k];
            used |= names_output(t, o[i].name) ||
                    (!needs_target(t) &&
                     (t->output ? !strcmp(t->output, o[i].name) : &o[i] == loss_in_graph(o, n_outputs)));
        }
        if (!used) idle[n++] = o[i].name;
    }
    if (idle && n && n < n_outputs)
        ot_adapt_note(e, "%s %s: no target and no loss; weights that affect no other output do not train",
                      n > 1 ? "outputs" : "output", names(e->a, idle, n));
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

/* How many leading axes of a sample t of the target hold one label for each row of the output; 0: none. */
static int row_axes(const ot_wanted *w, const ot_shape *t)
{
    int64_t n = 1;
    for (int k = 0; k < t->rank && w->output && w->output->rows > 1 && n < w->output->rows; k++)
        if ((n *= t->dim[k]) == w->output->rows) return k + 1;
    return 0;
}

/* Shape of one sample of the output, whose target's is t; false: it is not known, or has no batch. */
static bool output_sample(const ot_wanted *w, const ot_shape *t, ot_shape *out)
{
    const ot_output *o = w->output;
    int rows = row_axes(w, t);
    if (!o || o->shape.rank < 1 || (o->batch_axis < 0 && !rows) || rows + o->shape.rank > OT_MAX_RANK) return false;
    for (int i = 0; i < o->shape.rank; i++)
        if (o->shape.dim[i] < 0) return false;
    *out = without(&o->shape, rows ? 0 : o->batch_axis);
    if (!rows) return true;
    memmove(out->dim + rows, out->dim, (size_t)out->rank * sizeof *out->dim);
    memcpy(out->dim, t->dim, (size_t)rows * sizeof *out->dim);
    out->rank += rows;
    return true;
}

/* If the output has several rows for each sample: checks that labels can be matched to them, and notes that they are. */
static ot_status check_rows(const ot_adapt_env *e, const ot_wanted *w, const ot_shape *t, ot_error *err)
{
    char x[128], y[128], z[128];
    const ot_output *o = w->output;
    ot_shape one = o ? without(&o->shape, 0) : (ot_shape){ 0 };
    if (!o || !o->rows) return OT_OK;
    ot_shape_text(&o->shape, x);
    ot_shape_text(t, y);
    if (!row_axes(w, t)) {
        if (ot_numel(t) == o->rows * ot_numel(&one)) return OT_OK; /* values in another shape */
        return ot_fail_more(
            err, OT_E_DATA,
            "target '%s' is %s per sample, but output '%s' is %s, %lld rows for each of %lld samples; class numbers must be [samples,%lld]",
            w->array->t.name, y, o->name, x, (long long)o->rows, (long long)(o->shape.dim[0] / o->rows),
            (long long)o->rows);
    }
    if (o->mixed)
        return ot_fail_more(err, OT_E_DATA,
                            "output '%s' is %s, %lld rows for each of %lld samples, but the rows of a "
                            "sample are not adjacent: in '%s', from which it is reshaped, the batch "
                            "is another axis; export logits of shape [samples,%lld,classes]",
                            o->name, x, (long long)o->rows, (long long)(o->shape.dim[0] / o->rows), o->mixed,
                            (long long)o->rows);
    ot_adapt_note(
        e, "output '%s' is %s, %lld rows for each of %lld samples: target '%s', %s per sample, is matched row by row",
        o->name, x, (long long)o->rows, (long long)(o->shape.dim[0] / o->rows), w->array->t.name, ot_shape_text(t, z));
    return OT_OK;
}

/* Which axis of a sample of the output the classes lie on, for labels of shape t; -1: none fits. */
static int class_axis(const ot_wanted *w, const ot_shape *o, const ot_shape *t)
{
    int axis, rows = row_axes(w, t), first = rows, last = o->rank - 1;
    if (first > last) return -1;
    if (w->loss && ot_spec_find(w->loss, "class_axis")) {
        double given = ot_spec_num(w->loss, "class_axis");
        axis = (int)given - (given > 0 ? 1 - rows : 0) + (given < 0 ? o->rank : 0);
        if (given == 0 || axis < 0 || axis >= o->rank) return -1;
        first = last = axis;
    }
    for (axis = first;; axis = last) {
        ot_shape rest = without(o, axis);
        if (alike(&rest, t)) return axis;
        if (axis == last) return -1;
    }
}

static ot_status wrong_shape(const ot_wanted *w, const ot_shape *t, const ot_shape *o, const char *what, ot_error *err)
{
    char x[128], y[128];
    return ot_fail_more(err, OT_E_DATA, "target '%s' is %s %s per sample, but output '%s' is %s per sample%s",
                        w->array->t.name, ot_dtype_name(w->array->t.dtype), ot_shape_text(t, x), w->output->name,
                        ot_shape_text(o, y), what);
}

/* ---- feeders ------------------------------------------------------------------------------- */

static void set_feed(ot_feeder *f, const ot_wanted *w, ot_dtype t, const ot_shape *sample)
{
    bool both = false, binary = ot_zeros_and_ones(w->array, &both);
    *f = (ot_feeder){ .name = w->name,
                      .ignores = f->ignores,
                      .uncounted = f->uncounted,
                      .ignored = f->ignored,
                      .range = f->range,
                      .batch_axis = w->output && w->output->batch_axis > 0 ? w->output->batch_axis : 0,
                      .by_rows = row_axes(w, sample) > 0,
                      .src = w->array,
                      .output = w->output ? w->output->name : NULL,
                      .target = true,
                      .binary = binary,
                      .varies = both,
                      .others = !binary && !w->array->mapped,
                      .named = w->data && ot_dataset_string_column(w->data, w->array),
                      .adds_up = { ot_adds_up(w->array, sample, 0), ot_adds_up(w->array, sample, sample->rank - 1) },
                      .dtype = t,
                      .sample = *sample };
    f->gather = (ot_gather){ .src = w->array, .dtype = t, .elements = ot_numel(sample), .channels = 1, .inner = 1 };
}

static ot_status adapt_values(const ot_adapt_env *e, const ot_wanted *w, const ot_shape *sample, int64_t samples,
                              ot_feeder *f, ot_error *err)
{
    ot_shape o, t = *sample;
    ot_dtype type = w->output && ot_is_float(w->output->dtype) ? w->output->dtype
                    : w->array->t.dtype == OT_F64              ? OT_F64
                                                               : OT_F32;
    OT_TRY(ot_target_check_texts(w, err));
    OT_TRY(ot_target_check_shares(e, w, samples, f, err));
    if (output_sample(w, &t, &o)) {
        bool classes = !w->loss && o.rank && class_axis(w, &o, &t) >= 0;
        if (!alike(&o, &t))
            return wrong_shape(
                w, &t, &o,
                classes
                    ? "; expected integer class numbers such as int64 (--loss cross_entropy also accepts whole floats)"
                    : "",
                err);
        t = o;
    }
    ot_error wide = { 0 };
    if (ot_array_fits(w->array, type, &wide))
        return ot_fail_more(err, wide.status, "target '%s': %s", w->array->t.name, wide.text);
    set_feed(f, w, type, &t);
    return ot_target_scale(e, w->data, w->loss, w->output, f, err);
}

/* Binds a target of classes: integers, or floats that are whole numbers. */
static ot_status adapt_classes(const ot_adapt_env *e, const ot_wanted *w, const ot_shape *sample, int64_t samples,
                               ot_feeder *f, ot_error *err)
{
    ot_shape o, t = *sample;
    ot_error whole = { 0 };
    if (ot_is_float(w->array->t.dtype) && ot_array_fits(w->array, OT_I64, &whole))
        return ot_fail_more(err, whole.status, "target '%s' does not contain class numbers: %s", w->array->t.name,
                            whole.text);
    if (output_sample(w, &t, &o)) {
        int axis = o.rank ? class_axis(w, &o, &t) : -1;
        if (axis < 0)
            return wrong_shape(
                w, &t, &o, "; expected class numbers (that shape without the class axis) or values (the whole shape)",
                err);
        if (!w->loss && o.dim[axis] == 1) {
            OT_TRY(ot_target_check_texts(w, err));
            if (!w->array->mapped && ot_numel(&o) == 1 && ot_target_any_number(e, w->output) &&
                !ot_zeros_and_ones(w->array, NULL))
                return adapt_values(e, w, sample, samples, f, err);
            t = o; /* no or yes per sample: the loss pass looks at the tail */
        } else {
            t = without(&o, axis);
            OT_TRY(ot_target_check_names(e, w, o.dim[axis], err));
            OT_TRY(ot_target_check_labels(e, w, o.dim[axis], samples, f, err));
        }
    }
    set_feed(f, w, OT_I64, &t);
    return OT_OK;
}

/* A whole number per sample. */
static ot_status adapt_lengths(const ot_wanted *w, ot_feeder *f, ot_error *err)
{
    ot_error whole = { 0 };
    if (w->array->t.rank != 1)
        return ot_fail_more(err, OT_E_DATA, "array '%s' has rank %d; expected one number per sample", w->array->t.name,
                            w->array->t.rank);
    if (ot_array_fits(w->array, OT_I64, &whole))
        return ot_fail_more(err, whole.status, "array '%s': %s", w->array->t.name, whole.text);
    set_feed(f, w, OT_I64, &(ot_shape){ .rank = 0 });
    return OT_OK;
}

/* Labels of a sample, none of them the blank, and behind them blanks or negative numbers up to the longest. */
static ot_status adapt_sequences(const ot_wanted *w, const ot_shape *sample, int64_t samples, ot_feeder *f,
                                 ot_error *err)
{
    const ot_tensor *t = &w->array->t;
    const ot_output *o = w->output;
    int64_t blank = (int64_t)ot_spec_num(w->loss, "blank"), most = sample->rank ? sample->dim[0] : 1;
    int64_t classes = o && o->shape.rank == 3 ? o->shape.dim[2] : INT64_MAX;
    ot_error whole = { 0 };
    if (sample->rank > 1 || !most)
        return ot_fail_more(err, OT_E_DATA,
                            "target '%s' has rank %d; expected (samples, labels) with at least one label", t->name,
                            t->rank);
    if (ot_array_fits(w->array, OT_I64, &whole))
        return ot_fail_more(err, whole.status, "target '%s' does not contain class numbers: %s", t->name, whole.text);
    for (int64_t i = 0; i < samples * most; i++) {
        int64_t y = ot_get_i64(t->data, t->dtype, i), before = i % most ? ot_get_i64(t->data, t->dtype, i - 1) : -2;
        bool padding = y < 0 || y == blank, behind = i % most && (before < 0 || before == blank);
        if (y >= classes)
            return ot_fail_more(err, OT_E_DATA,
                                "target '%s': sample %lld has class %lld, but output '%s' has %lld classes, 0 to %lld",
                                t->name, (long long)ot_dataset_origin(w->data, i / most), (long long)y, o->name,
                                (long long)classes, (long long)classes - 1);
        if (!padding && behind)
            return ot_fail_more(
                err, OT_E_DATA,
                "target '%s': sample %lld has a label after its padding (the blank class %lld, or negative numbers)",
                t->name, (long long)ot_dataset_origin(w->data, i / most), (long long)blank);
    }
    set_feed(f, w, OT_I64, sample);
    const ot_param *first = ot_spec_find(w->loss, "batch_first");
    if (first) f->batch_axis = first->num != 0 ? 0 : 1;
    return OT_OK;
}

static ot_status adapt_array(const ot_adapt_env *e, const ot_wanted *w, const ot_shape *sample, int64_t samples,
                             ot_feeder *f, ot_error *err)
{
    const ot_tensor *a = &w->array->t;
    ot_shape o, t = *sample;
    bool same = output_sample(w, &t, &o) && ot_shape_eq(&o, &t);
    if (w->lengths) return adapt_lengths(w, f, err);
    if (ot_wanted_takes(w) != OT_TAKES_SEQUENCES && ot_wanted_takes(w) != OT_TAKES_VECTORS)
        OT_TRY(check_rows(e, w, &t, err));
    switch (ot_wanted_takes(w)) {
    case OT_TAKES_SEQUENCES: return adapt_sequences(w, &t, samples, f, err);
    case OT_TAKES_VECTORS: /* the formula of the loss checks their number */ set_feed(f, w, OT_F32, &t); return OT_OK;
    case OT_TAKES_NUMBERS: return adapt_classes(e, w, &t, samples, f, err);
    case OT_TAKES_CLASSES:
        return (ot_is_float(a->dtype) && (same || !w->output)) || (same && o.rank && ot_numel(&o) > 1) /* one-hot */
                   ? adapt_values(e, w, &t, samples, f, err)
                   : adapt_classes(e, w, &t, samples, f, err);
    case OT_TAKES_EITHER:
        if (ot_is_float(a->dtype)) return adapt_values(e, w, &t, samples, f, err);
        if (w->loss && output_sample(w, &t, &o) && alike(&o, &t)) return adapt_values(e, w, &t, samples, f, err);
        if (!same) return adapt_classes(e, w, &t, samples, f, err);
        OT_TRY(ot_target_check_texts(w, err));
        OT_TRY(ot_target_check_shares(e, w, samples, f, err));
        set_feed(f, w, OT_I64, &t); /* 0/1 of the output's shape */
        return OT_OK;
    default: return adapt_values(e, w, &t, samples, f, err);
    }
}

/* The input that the same array feeds, changed on its way or as images, and whose values output o can have; NULL: there is none. */
static const ot_feeder *input_of(const ot_wanted *w, const ot_feeders *fs)
{
    ot_takes kind = ot_wanted_takes(w);
    if (w->lengths || !w->output || (kind != OT_TAKES_VALUES && kind != OT_TAKES_EITHER)) return NULL;
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        ot_shape t = f->sample, o;
        bool same = !f->target && !f->whole && f->src == w->array && !f->mask && ot_is_float(f->dtype);
        bool changed = f->src->source || f->src->t.dtype == OT_U8 || f->gather.scale || f->gather.permute[2];
        if (same && changed && ot_is_float(w->output->dtype) && output_sample(w, &t, &o) && alike(&o, &t)) return f;
    }
    return NULL;
}

/* An autoencoder: what the model is fed with is what it is to give back. */
static ot_status adapt_input(const ot_adapt_env *e, const ot_wanted *w, const ot_feeder *in, ot_feeder *f,
                             ot_error *err)
{
    ot_shape t = in->sample, o;
    (void)output_sample(w, &t, &o);
    if (!in->gather.scale && !in->src->source) OT_TRY(ot_target_check_shares(e, w, w->array->t.dim[0], f, err));
    else if (ot_wanted_loss_of_shares(e, w) && !ot_feeds_shares(in))
        return ot_fail_more(err, OT_E_DATA,
                            "target '%s': loss %s needs values from 0 to 1, which --normalize 1/255 feeds", in->name,
                            ot_wanted_loss_of_shares(e, w)->name);
    ot_range range = f->range;
    *f = *in;
    if (range.why) f->range = range;
    f->name = w->name;
    f->output = w->output->name;
    f->target = f->as_input = true;
    f->batch_axis = w->output->batch_axis > 0 ? w->output->batch_axis : 0;
    f->dtype = f->gather.dtype = w->output->dtype;
    f->sample = o;
    f->others = !w->array->mapped;
    if (!ot_shape_fits(&o, f->dtype)) return ot_fail_more(err, OT_E_DATA, "target '%s' is too large", f->src->t.name);
    ot_adapt_note(e, "target of output '%s': input '%s' as it is fed%s", f->output, in->name,
                  f->gather.scale ? ", scaled alike" : "");
    return OT_OK;
}

static ot_status adapt_one(const ot_adapt_env *e, const ot_wanted *w, const ot_feeders *fs, ot_feeder *f, ot_error *err)
{
    const ot_tensor *a = &w->array->t;
    ot_shape t = { .rank = a->rank - 1 };
    *f = (ot_feeder){ 0 };
    if (a->rank < 1 || a->dim[0] != fs->samples)
        return ot_fail_more(err, OT_E_DATA, "target '%s' has %lld samples, but the data has %lld", a->name,
                            (long long)(a->rank ? a->dim[0] : 0), (long long)fs->samples);
    const ot_feeder *in = input_of(w, fs);
    if (in) return adapt_input(e, w, in, f, err);
    if (ot_target_is_image(w->data, w->array, w->loss, w->output))
        return ot_image_target(e, fs, w->array, w->loss, w->output, w->name, f, err);
    for (int i = 0; i < t.rank; i++) t.dim[i] = a->dim[i + 1];
    if (!w->array->source) return adapt_array(e, w, &t, fs->samples, f, err);
    OT_TRY(ot_mask_shape(fs, w->output, a->name, &t, err));
    OT_TRY(adapt_array(e, w, &t, fs->samples, f, err));
    return ot_mask_set(e, fs, w->loss, &t, f, err);
}

ot_status ot_adapt_targets(const ot_adapt_env *e, const ot_output *outputs, int n, ot_feeders *fs, ot_error *err)
{
    const ot_dataset *d = fs->data;
    size_t most = 3 * (size_t)e->s->options.n_losses + (size_t)n + 1;
    ot_wanted *w = ot_arena_alloc(e->a, sizeof *w * most);
    ot_feeder *list = ot_arena_alloc(e->a, sizeof *list * ((size_t)fs->n + most));
    if (!w || !list) return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data");

    ot_error found = { 0 };
    int n_wants = 0;
    if (e->s->options.n_losses) wants_by_loss(e, d, outputs, n, w, &n_wants, &found);
    else wants_by_array(e, fs, outputs, n, w, &n_wants, &found);
    /* The old list may hold pointers into itself. */
    for (int i = 0; i < fs->n; i++) {
        list[i] = fs->f[i];
        if (list[i].src == &fs->f[i].own) list[i].src = list[i].gather.src = &list[i].own;
    }
    fs->f = list;
    for (int i = 0; i < n_wants; i++) {
        ot_feeder *f = &list[fs->n];
        w[i].data = d;
        if (adapt_one(e, &w[i], fs, f, &found)) continue;
        f->array = (int)(w[i].array - d->array);
        fs->n++;
        for (int k = 0; k < e->s->options.n_losses && !w[i].lengths && !found.status; k++)
            if (ot_spec_shares(&e->s->options.losses[k], w[i].loss))
                (void)ot_adapt_balance(e, &e->s->options.losses[k], f, &found);
        if (!found.status) (void)ot_masks_ignored(e, f, &found);
    }
    if (found.status == OT_OK && d) (void)ot_adapt_masking(e, fs, &found);
    if (found.status == OT_OK) check_arrays(e, fs, outputs, n, &found);
    if (!e->s->options.n_losses && !n_wants && !found.status && !has_scalar(outputs, n))
        missing(e, d, outputs, n, "target", &found);
    if (found.status && d->rule)
        ot_fail_more(&found, found.status, "the target is column '%s', %s (change with --target)", d->column, d->rule);
    if (found.status) return ot_fail(err, found.status, "%s: %-s", d->name, found.text);
    say_outputs(e, w, n_wants, outputs, n);
    return OT_OK;
}
