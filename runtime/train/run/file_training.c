/* file_training.c - training with the algorithm in the file (TrainingInfoProto) instead of that of the options. */
#include "runtime/train/run/file_training.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/train/run/session.h"

/* Options of the training algorithm: they have no effect on the algorithm in the file. */
static const char *const says_how[] = { "lr",
                                        "momentum",
                                        "weight-decay",
                                        "no-decay",
                                        "schedule",
                                        "accumulate",
                                        "clip-norm",
                                        "clip-value",
                                        "train",
                                        "freeze",
                                        "lr-scale",
                                        "untie",
                                        "unfold-bn",
                                        "add-dropout",
                                        "output",
                                        "quantized-scales",
                                        "ema",
                                        "layer-decay",
                                        "unfreeze",
                                        "l1",
                                        "teacher",
                                        "swa",
                                        "lookahead",
                                        "classes",
                                        "freeze-backbone",
                                        "lora" };

static const char use_options[] = "use --loss or --optimizer to train with the options instead";

static ot_status no_memory(ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "no memory for the file's own training algorithm");
}

static ot_status check_options(const ot_trainer *t, ot_error *err)
{
    for (int i = 0; i < OT_LEN(says_how); i++)
        if (ot_options_count(t->o, says_how[i]))
            ot_fail_more(err, OT_E_USAGE,
                         "--%s: has no effect on the training algorithm in the file "
                         "(TrainingInfoProto); %s",
                         says_how[i], use_options);
    if (t->s.batch_auto)
        ot_fail_more(
            err, OT_E_USAGE,
            "--batch-size auto: is not supported with the training algorithm in the file (TrainingInfoProto); %s",
            use_options);
    if (t->s.options.skip_nonfinite)
        ot_fail_more(err, OT_E_USAGE,
                     "--on-nonfinite skip: is not supported with the training algorithm in the file "
                     "(TrainingInfoProto); %s",
                     use_options);
    if (t->s.auto_precision || t->s.options.precision == OT_PREC_BF16 || t->s.options.precision == OT_PREC_FP16)
        ot_fail_more(err, OT_E_USAGE,
                     "--precision: the training algorithm in the file (TrainingInfoProto) has its "
                     "own types; %s",
                     use_options);
    return err->status;
}

ot_status ot_file_training_model(const ot_model *m, ot_arena *a, ot_model *out, ot_error *err)
{
    *out = *m;
    out->file = ot_arena_copy(a, m->file, sizeof *m->file);
    if (!out->file) return no_memory(err);
    out->file->graph = m->file->training->graph;
    return OT_OK;
}

/* ---- what is in it ------------------------------------------------------------------- */

const char *ot_file_training_text(const ot_model *m, ot_arena *a)
{
    const ot_training *x = m->file->training;
    if (x->why) return ot_arena_printf(a, "it is not supported: %s", x->why);
    int first = m->file->graph->n_inputs, inputs = x->graph->n_inputs - first,
        sets = x->initialization ? x->initialization->n_outputs : 0, n = x->graph->n_assigns;
    const char **name = ot_arena_alloc(a, sizeof *name * (size_t)(inputs + n + sets + 1)), **updated = name + inputs,
               **set = updated + n;
    if (!name) return NULL;
    for (int i = 0; i < inputs; i++) name[i] = x->graph->inputs[first + i]->name;
    for (int i = 0; i < n; i++) updated[i] = x->graph->assigns[i].state->name;
    for (int i = 0; i < sets; i++) set[i] = m->file->sources[x->sets[i]].name;
    const char *in = ot_arena_names(a, name, inputs), *updates = ot_arena_names(a, updated, n),
               *starts = ot_arena_names(a, set, sets);
    if (!in || !updates || !starts) return NULL;
    return ot_arena_printf(a, "reads %s%s, updates %s%s%s", inputs ? "" : "no further inputs", in, updates,
                           sets ? "; its initialization sets " : "", starts);
}

/* ---- initialization -------------------------------------------------------------------- */

/* Is the tensor untrained?  It equals its initialization, or all elements are equal (a single element: 0). */
static bool untouched(const ot_source *s, const void *start)
{
    size_t one = (size_t)ot_dtype_bits(s->dtype) / 8, bytes = ot_bytes(&s->shape, s->dtype);
    int64_t n = ot_numel(&s->shape);
    if (!bytes || !one || !memcmp(s->data, start, bytes)) return true;
    if (n == 1) return ot_get_f64(s->data, s->dtype, 0) == 0;
    return !memcmp(s->data, (const char *)s->data + one, bytes - one);
}

/* The outputs of the initialization, with --seed; in t's arena. */
static ot_status compute(ot_trainer *t, const ot_training *x, const void **start, ot_error *err)
{
    ot_session y;
    ot_numbers ignored;
    int slot;
    int64_t index = 0;
    ot_settings s = t->s;
    ot_feeders none = { .samples = 1 };
    ot_model m = *t->m;
    ot_imported file = *t->m->file;
    s.device = OT_DEVICE_CPU;
    s.options.precision = OT_FP32;
    file.graph = x->initialization;
    m.file = &file;
    OT_TRY(ot_session_open(&y, &m, &s, NULL, err));
    ot_status r = ot_session_plan(&y, OT_WANT_RUN, &none, 1, 1, &slot, err);
    if (!r) r = ot_session_allocate(&y, err);
    if (!r) r = ot_session_batch(&y, slot, &index, &ignored, err);
    const ot_graph *g = r ? NULL : y.slot[slot].plan->graph;
    for (int i = 0; !r && i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        const ot_source *to = &t->m->file->sources[x->sets[i]];
        char a[128], b[128];
        if (v->dtype != to->dtype || !ot_shape_eq(&v->shape, &to->shape)) {
            r = ot_fail(err, OT_E_MODEL, "initialization_binding: '%s' is %s%s; '%s' is %s%s", to->name,
                        ot_dtype_name(to->dtype), ot_shape_text(&to->shape, a), v->name, ot_dtype_name(v->dtype),
                        ot_shape_text(&v->shape, b));
            break;
        }
        void *p = ot_arena_alloc(t->a, ot_bytes(&v->shape, v->dtype) + 1);
        start[i] = p;
        r = p ? ot_exec_read(y.slot[slot].exec, v, p, err) : no_memory(err);
    }
    ot_session_close(&y);
    return r;
}

/* Does the graph assign a new value to v? */
static bool is_updated(const ot_graph *g, const ot_value *v)
{
    for (int i = 0; i < g->n_assigns; i++)
        if (g->assigns[i].state == v) return true;
    return false;
}

/* The graph starts from these.  What no update changes is assigned to itself: a state, which is written like the others. */
static ot_status start_from(ot_trainer *t, const ot_training *x, const void *const *start, ot_error *err)
{
    ot_error *sticky = ot_arena_alloc(t->a, sizeof *sticky);
    ot_graph *g = sticky ? ot_graph_clone(t->m->file->graph, sticky) : NULL;
    if (!g) return no_memory(err);
    t->file_training.model.file->graph = t->file_training.graph = g;
    for (int i = 0; i < g->n_values; i++)
        for (int k = 0; k < x->initialization->n_outputs; k++) {
            ot_value *v = g->values[i];
            if (v->source != x->sets[k]) continue;
            v->data = start[k];
            if (!is_updated(g, v)) ot_graph_assign(g, v, v);
        }
    return sticky->status ? ot_fail(err, sticky->status, "%s", sticky->text) : OT_OK;
}

static ot_status initialize(ot_trainer *t, const ot_training *x, ot_error *err)
{
    const char *how = ot_options_get(t->o, "initialize");
    bool always = !strcmp(how, "always"), fresh = true;
    if (!x->initialization) {
        t->file_training.initialization =
            always ? "--initialize: the training algorithm in the file has no initialization; "
                     "training starts from the stored tensors"
                   : NULL;
        return OT_OK;
    }
    if (!strcmp(how, "never")) return OT_OK;
    const void **start = ot_arena_alloc(t->a, sizeof *start * (size_t)(x->initialization->n_outputs + 1));
    if (!start) return no_memory(err);
    OT_TRY(compute(t, x, start, err));
    for (int i = 0; i < x->initialization->n_outputs; i++)
        fresh &= untouched(&t->m->file->sources[x->sets[i]], start[i]);
    if (!fresh && !always) {
        t->file_training.initialization =
            "the model has been trained before; training continues from the stored tensors (use "
            "--initialize always to start again)";
        return OT_OK;
    }
    t->file_training.initialization =
        "the initialization in the file is run first (use --initialize never to keep the stored "
        "tensors)";
    return start_from(t, x, start, err);
}

/* ---- choosing --------------------------------------------------------------------------- */

ot_status ot_trainer_train_by_file(ot_trainer *t, ot_error *err)
{
    ot_file_training *by = &t->file_training;
    OT_TRY(ot_file_training_model(t->m, t->a, &by->model, err));
    by->model_inputs = t->m->file->graph->n_inputs;
    by->used = true;
    t->m = t->x.model = &by->model;
    return OT_OK;
}

ot_status ot_trainer_use_file_training(ot_trainer *t, ot_error *err)
{
    const ot_training *x = t->m->file->training;
    if (!x) {
        if (!strcmp(ot_options_get(t->o, "initialize"), "always"))
            return ot_fail(err, OT_E_USAGE,
                           "--initialize always: the file has no training algorithm "
                           "(TrainingInfoProto), so it has no initialization");
        return OT_OK;
    }
    if (ot_options_count(t->o, "loss") || ot_options_count(t->o, "optimizer")) {
        t->file_training.line =
            x->why ? ot_arena_printf(t->a,
                                     "training uses the options; the training algorithm in the file "
                                     "(TrainingInfoProto) is not supported: %s",
                                     x->why)
                   : "training uses the options; the training algorithm in the file (TrainingInfoProto) is "
                     "ignored and stays in the file";
        return t->file_training.line ? OT_OK : no_memory(err);
    }
    if (x->why)
        return ot_fail(err, OT_E_MODEL,
                       "the training algorithm in the file (TrainingInfoProto) is not supported: %s; "
                       "%s",
                       x->why, use_options);
    OT_TRY(check_options(t, err));
    const char *what = ot_file_training_text(t->m, t->a);
    t->file_training.line =
        what ? ot_arena_printf(t->a,
                               "training uses the algorithm in the file (TrainingInfoProto): %s; use "
                               "--loss or --optimizer to train with the options instead",
                               what)
             : NULL;
    if (!t->file_training.line) return no_memory(err);
    OT_TRY(ot_trainer_train_by_file(t, err));
    return initialize(t, x, err);
}

void ot_trainer_note_file_training(ot_trainer *t)
{
    bool warns = t->m->file->training && t->m->file->training->why;
    if (t->file_training.line)
        ot_find(&t->findings, warns ? OT_FINDING_WARNING : OT_FINDING_NOTE, NULL, NULL, "%s", t->file_training.line);
    if (t->file_training.initialization)
        ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL, "%s", t->file_training.initialization);
}
