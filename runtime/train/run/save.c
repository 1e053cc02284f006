/* save.c - writes a copy of the model's file with the trained tensors.
 *
 * Before the file gets its name it is read back, and must compute the same outputs for one batch as the trainer's
 * weights, in evaluation mode.  If the file has nodes in training mode (BatchNormalization), it is also run as it is, as other
 * runtimes will do, and a difference is reported.
 *
 * Memory  The file that is read back, and the trainer's outputs. */

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/stored.h"
#include "runtime/train/run/folder.h"
#include "runtime/train/run/file_training.h"
#include "runtime/train/run/lora.h"
#include "runtime/train/run/unfold.h"

/* ---- answers ------------------------------------------------------------------------- */

/* The floating-point outputs of a session for a batch, row-major, on the host. */
typedef struct answers {
    const ot_graph *graph;
    void **bytes; /* by output; NULL: of another type */
} answers;

static void answers_free(answers *a)
{
    for (int o = 0; a->bytes && o < a->graph->n_outputs; o++) free(a->bytes[o]);
    free(a->bytes);
    a->bytes = NULL;
}

/* Copies: the session's memory is used again. */
static ot_status answers_of(const ot_slot *q, answers *a, ot_error *err)
{
    const ot_graph *g = q->plan->graph;
    *a = (answers){ g, calloc((size_t)g->n_outputs + 1, sizeof *a->bytes) };
    ot_status s = a->bytes ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory to compare outputs");
    for (int o = 0; o < g->n_outputs && !s; o++) {
        const ot_value *v = g->outputs[o];
        if (!ot_is_float(v->dtype)) continue;
        a->bytes[o] = malloc(ot_bytes(&v->shape, v->dtype) + 1);
        s = a->bytes[o] ? ot_exec_read(q->exec, v, a->bytes[o], err)
                        : ot_fail(err, OT_E_NOMEM, "no memory to compare output '%s'", v->name);
    }
    if (s) answers_free(a);
    return s;
}

/* An output in row-major order: borrowed, or a copy in *own. */
static ot_status output_of(const ot_session *x, const ot_slot *q, const ot_value *v, const void **bytes, void **own,
                           ot_error *err)
{
    *own = NULL;
    *bytes = x->device ? NULL : ot_exec_bytes(q->exec, v);
    if (*bytes && v->layout == OT_PLAIN) return OT_OK;
    *bytes = *own = malloc(ot_bytes(&v->shape, v->dtype) + 1);
    if (!*own) return ot_fail(err, OT_E_NOMEM, "no memory to compare output '%s'", v->name);
    return ot_exec_read(q->exec, v, *own, err);
}

/* Is each |a - b| at most limit * (1 + |a|)?  No if one of the numbers is not finite. */
static bool within(const float *a, const float *b, int64_t n, float limit)
{
    int far = 0;
#pragma omp simd reduction(| : far)
    for (int64_t i = 0; i < n; i++) far |= !(fabsf(a[i] - b[i]) <= limit * (1 + fabsf(a[i])));
    return !far;
}

/* Elements that are compared at once, where all are expected to be close: logits of a language model are tens of millions. */
enum { PART = 4096 };

static bool part_within(const void *a, const void *b, ot_dtype t, int64_t from, int64_t n, double limit)
{
    return t == OT_F32 && within((const float *)a + from, (const float *)b + from, n, (float)(limit * 0.999));
}

/* The written file answers within rounding: other kernels may be chosen for it. */
static bool close_enough(double a, double b, double rounding)
{
    return a == b || fabs(a - b) <= rounding * (1 + fabs(b)) || (!isfinite(a) && !isfinite(b));
}

/* p: the trainer's, q: the file's. */
static ot_status compare_output(const ot_value *v, const void *p, const void *q, double rounding, ot_error *err)
{
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i += PART) {
        int64_t end = i + PART < n ? i + PART : n;
        if (part_within(q, p, v->dtype, i, end - i, rounding)) continue;
        for (int64_t e = i; e < end; e++)
            if (!close_enough(ot_get_f64(p, v->dtype, e), ot_get_f64(q, v->dtype, e), rounding))
                return ot_fail(err, OT_E_IO, "output '%s' of the written file is %g, expected %g", v->name,
                               ot_get_f64(q, v->dtype, e), ot_get_f64(p, v->dtype, e));
    }
    return OT_OK;
}

static ot_status compare_outputs(const answers *a, const ot_session *y, int k, double rounding, ot_error *err)
{
    const ot_graph *b = y->slot[k].plan->graph;
    for (int o = 0; o < a->graph->n_outputs && o < b->n_outputs; o++) {
        const ot_value *v = a->graph->outputs[o], *w = b->outputs[o];
        const void *bytes;
        void *own;
        if (!ot_shape_eq(&v->shape, &w->shape) || v->dtype != w->dtype)
            return ot_fail(err, OT_E_IO, "output '%s' of the written file has another shape", v->name);
        if (!a->bytes[o]) continue;
        ot_status s = output_of(y, &y->slot[k], w, &bytes, &own, err);
        if (!s) s = compare_output(v, a->bytes[o], bytes, rounding, err);
        free(own);
        OT_TRY(s);
    }
    return OT_OK;
}

/* ---- the file as it is written ---------------------------------------------------- */

/* The difference between two outputs for a batch, of the evaluation and of the written file. */
typedef struct distance {
    double most;        /* the largest difference, divided by 1 + |value of the evaluation| */
    double a, b;        /* these two values: of the evaluation, of the file */
    const char *output; /* the output with the largest difference */
    int64_t samples;    /* of an output (N, C); 0: no such output */
    int64_t others;     /* those of them with another class as the largest score */
} distance;

static int64_t largest_of(const void *p, ot_dtype t, int64_t first, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (ot_get_f64(p, t, first + i) > ot_get_f64(p, t, first + best)) best = i;
    return best;
}

static void measure(const ot_value *v, const void *a, const void *b, const char *name, distance *d)
{
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i += PART) {
        int64_t end = i + PART < n ? i + PART : n;
        if (part_within(a, b, v->dtype, i, end - i, d->most)) continue;
        for (int64_t e = i; e < end; e++) {
            double x = ot_get_f64(a, v->dtype, e), y = ot_get_f64(b, v->dtype, e), far = fabs(x - y) / (1 + fabs(x));
            if (isfinite(x) != isfinite(y)) far = INFINITY;
            if (far > d->most) d->most = far, d->a = x, d->b = y, d->output = name;
        }
    }
    if (v->shape.rank != 2 || v->shape.dim[1] < 2 || d->samples) return;
    int64_t classes = v->shape.dim[1];
    d->samples = v->shape.dim[0];
    for (int64_t i = 0; i < d->samples; i++)
        d->others += largest_of(a, v->dtype, i * classes, classes) != largest_of(b, v->dtype, i * classes, classes);
}

/* a: what the evaluation answers to the same batch; names: of the outputs. */
static ot_status compare_as_written(const answers *a, const char *const *names, const ot_session *y, int k, distance *d,
                                    ot_error *err)
{
    const ot_graph *b = y->slot[k].plan->graph;
    for (int o = 0; o < a->graph->n_outputs && o < b->n_outputs; o++) {
        const ot_value *v = a->graph->outputs[o], *w = b->outputs[o];
        const void *bytes;
        void *own;
        if (!a->bytes[o] || v->dtype != w->dtype || !ot_shape_eq(&v->shape, &w->shape)) continue;
        ot_status s = output_of(y, &y->slot[k], w, &bytes, &own, err);
        if (!s) measure(v, a->bytes[o], bytes, names[o], d);
        free(own);
        OT_TRY(s);
    }
    return OT_OK;
}

/* Why the file answers otherwise than the evaluation, and what to do. */
static void say_distance(const ot_trainer *t, const distance *d)
{
    const ot_review *r = &t->review;
    char classes[80] = "", why[600] = "the reason is unknown; compare the file with another runtime before you use it";
    if (d->samples)
        snprintf(classes, sizeof classes, ", and the predicted class differs for %lld of %lld samples",
                 (long long)d->others, (long long)d->samples);
    const char *modes = r->norms && r->dropouts ? "BatchNormalization and Dropout are"
                        : r->norms              ? "BatchNormalization is"
                                                : "Dropout is";
    if (r->norms || r->dropouts)
        snprintf(why, sizeof why,
                 "%s in training mode in the file; 'onnxtrain export %.400s -o FILE' writes the "
                 "model for inference",
                 modes, t->saving);
    else if (r->draws) snprintf(why, sizeof why, "the graph uses random numbers");
    else if (t->s.options.precision != OT_FP32)
        snprintf(why, sizeof why, "the evaluation used %s, the file computes in float32",
                 ot_precision_name(t->s.options.precision));
    ot_trainer_say(t, OT_WARNING,
                   "the written file gives other outputs than the evaluation: on a batch of %lld output '%s' is %.4g, "
                   "but %.4g in the evaluation%s: %s",
                   (long long)t->x.slot[t->proof].batch, d->output, d->b, d->a, classes, why);
}

/* A session of the written file.  While the trainer waits for it, it computes in the trainer's scratch memory, and with
 * the weights where the file was read to. */
static ot_status open_written(ot_trainer *t, const ot_model *written, const ot_settings *s, bool on_device,
                              ot_session *y, ot_error *err)
{
    OT_TRY(ot_session_open(y, written, s, on_device ? &t->x : NULL, err));
    y->counter = t->x.counter;
    y->lender = t->x.device ? NULL : &t->x;
    y->fixed = true;
    return OT_OK;
}

/* Runs the written file on the batch of the proof as any runtime does, in float32, and tells where it differs from the
 * evaluation.  It is no failure: the file is what it was, with other weights. */
static ot_status try_as_written(ot_trainer *t, const ot_model *written, const ot_settings *s, const answers *a,
                                ot_error *err)
{
    static const double rounding = 1e-3, less_precise = 1.0 / 16;
    ot_session y;
    ot_settings plain = *s;
    ot_slot *q = &t->x.slot[t->proof];
    ot_numbers ignored;
    distance d = { 0 };
    int slot;
    plain.options.precision = OT_FP32;
    plain.options.eval_mode = false;
    OT_TRY(open_written(t, written, &plain, !(s->device == OT_DEVICE_CPU && t->x.device), &y, err));
    ot_status r = ot_session_plan(&y, OT_WANT_RUN, q->feeders, q->batch, 1, &slot, err);
    if (!r) r = ot_session_allocate(&y, err);
    if (!r) r = ot_session_batch(&y, slot, t->index, &ignored, err);
    if (!r) r = compare_as_written(a, t->x.model->outputs, &y, slot, &d, err);
    ot_session_close(&y);
    bool steps = t->review.roundings > 0; /* of integers: a sum near the middle of two falls to either side */
    if (!r && d.most > (t->s.options.precision == OT_FP32 && !steps ? rounding : less_precise)) say_distance(t, &d);
    return r;
}

/* ---- the proof ------------------------------------------------------------------------ */

static ot_status answer(ot_session *y, ot_feeders *fs, int64_t batch, int64_t *index, int *slot, ot_error *err)
{
    ot_numbers ignored;
    OT_TRY(ot_session_plan(y, OT_WANT_EVAL, fs, batch, 1, slot, err));
    OT_TRY(ot_session_allocate(y, err));
    return ot_session_batch(y, *slot, index, &ignored, err);
}

/* The batch of the proof through the written file; on the CPU where the device has no room for a second model.
 * a: what the trainer's weights answer. */
static ot_status prove_answers(ot_trainer *t, const ot_model *written, const answers *a, ot_error *err)
{
    ot_session y;
    ot_slot *q = &t->x.slot[t->proof];
    ot_settings as_filed = t->s, on_cpu; /* the scales of the written file are those that were fitted */
    ot_error first = { 0 };
    int slot;
    as_filed.options.fit_scales = false;
    on_cpu = as_filed;
    on_cpu.device = OT_DEVICE_CPU;
    OT_TRY(open_written(t, written, &as_filed, true, &y, err));
    ot_status s = answer(&y, q->feeders, q->batch, t->index, &slot, &first);
    if (s == OT_E_NOMEM && y.device) {
        ot_session_close(&y);
        first = (ot_error){ 0 };
        OT_TRY(open_written(t, written, &on_cpu, false, &y, err));
        s = answer(&y, q->feeders, q->batch, t->index, &slot, &first);
    }
    if (!s) s = compare_outputs(a, &y, slot, ot_trainer_rounding(t), &first);
    bool moved = y.device != t->x.device;
    ot_session_close(&y);
    if (s) return ot_fail(err, s, "%s", first.text);
    if (!t->review.modes && t->s.options.precision == OT_FP32) return OT_OK; /* that was how any runtime runs it */
    s = try_as_written(t, written, moved ? &on_cpu : &t->s, a, &first);
    if (s == OT_E_DEVICE) return ot_fail(err, s, "%s", first.text);
    if (s)
        ot_trainer_say(t, OT_WARNING, "the written file could not be run and compared with the evaluation: %s",
                       first.text);
    return OT_OK;
}

static ot_status prove_model(ot_trainer *t, const ot_model *written, ot_error *err)
{
    ot_slot *q = &t->x.slot[t->proof];
    ot_numbers ignored;
    answers a;
    for (int64_t i = 0; i < q->batch; i++) t->index[i] = i % q->feeders->samples;
    OT_TRY(ot_session_batch(&t->x, t->proof, t->index, &ignored, err));
    OT_TRY(answers_of(q, &a, err));
    ot_status s = prove_answers(t, written, &a, err);
    answers_free(&a);
    return s;
}

static ot_status prove(const ot_imported *written, void *user, ot_error *err)
{
    ot_trainer *t = user;
    ot_model whole = { .file = (ot_imported *)(uintptr_t)written, .outputs = t->m->outputs }, cut;
    if (!t->cut.file && !t->file_training.used) return prove_model(t, &whole, err);
    ot_arena *a = ot_arena_new();
    ot_error first = { 0 };
    if (!a) return ot_fail(err, OT_E_NOMEM, "no memory for the model");
    ot_status s;
    if (t->file_training.used) {
        s = written->training && !written->training->why ? ot_file_training_model(&whole, a, &cut, &first)
                                                         : ot_fail(&first, OT_E_IO,
                                                                   "the training algorithm is missing in "
                                                                   "the written file");
        if (!s) s = prove_model(t, &cut, &first);
    } else {
        s = ot_model_cut(&whole, t->s.n_outputs, t->s.outputs, a, &cut, &first);
        if (!s) s = prove_model(t, &cut, &first), ot_model_cut_drop(&cut);
    }
    ot_arena_free(a);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}

const char *ot_trainer_out(ot_trainer *t)
{
    const char *stem = t->s.out ? "" : ot_stem(t->m->file->path, t->a);
    return t->s.out ? t->s.out : stem ? ot_arena_printf(t->a, "%s-trained.onnx", stem) : NULL;
}

ot_status ot_trainer_bytes(const ot_trainer *t, ot_arena *a, const ot_value *v, void **out, ot_error *err)
{
    const ot_slot *q = &t->x.slot[t->x.lead];
    *out = ot_exec_bytes(q->exec, v);
    if (!t->x.device && v->layout == OT_PLAIN) return OT_OK;
    *out = ot_arena_alloc(a, ot_bytes(&v->shape, v->dtype) + 1);
    return *out ? ot_exec_read(q->exec, v, *out, err) : ot_fail(err, OT_E_NOMEM, "no memory for '%s'", v->name);
}

/* Numbers as elements of a tensor of the file. */
static ot_status add_numbers(ot_arena *a, const ot_value *v, const double *x, ot_export_tensor *to, ot_error *err)
{
    void *bytes = ot_arena_alloc(a, ot_bytes(&v->shape, v->dtype) + 1);
    if (!bytes) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", v->name);
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++) ot_set_f64(bytes, v->dtype, i, x[i]);
    *to = (ot_export_tensor){ .source = v->source, .bytes = bytes };
    return OT_OK;
}

/* A weight that the file keeps in integers; its scale and zero point where they were fitted. */
static ot_status add_stored(ot_trainer *t, ot_arena *a, const ot_value *v, const void *floats, ot_export_tensor *list,
                            int *n, ot_error *err)
{
    const ot_stored *q = v->stored;
    size_t numbers = (size_t)ot_stored_scales(v) + (q->like ? (size_t)ot_stored_scales(q->like) : 0);
    double *scale = ot_arena_alloc(a, sizeof *scale * (numbers + 1)),
           *zero = ot_arena_alloc(a, sizeof *zero * (numbers + 1));
    void *out = ot_arena_alloc(a, ot_bytes(&v->shape, q->dtype) + 1), *like = NULL;
    if (!scale || !zero || !out) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", v->name);
    if (q->like) OT_TRY(ot_trainer_bytes(t, a, q->like, &like, err));
    if (ot_stored_write(v, floats, like, scale, zero, out) != OT_OK)
        return ot_fail(err, OT_E_DIVERGED, "%s: contains NaN or infinity; nothing is written", v->name);
    list[(*n)++] = (ot_export_tensor){ .source = v->source, .bytes = out };
    if (q->fitted) OT_TRY(add_numbers(a, q->scale, scale, &list[(*n)++], err));
    return q->fitted && ot_stored_moves(v) ? add_numbers(a, q->zero, zero, &list[(*n)++], err) : OT_OK;
}

/* Every tensor of the file that the training has changed. */
static ot_status collect(ot_trainer *t, ot_arena *a, ot_export_tensor *list, int *n, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *v = p->states[i];
        void *bytes;
        if (v->source < 0) continue;
        OT_TRY(ot_trainer_bytes(t, a, v, &bytes, err));
        if (v->stored) OT_TRY(add_stored(t, a, v, bytes, list, n, err));
        else list[(*n)++] = (ot_export_tensor){ .source = v->source, .bytes = bytes };
    }
    return OT_OK;
}

/* The check of a written file before it gets its name. */
typedef struct verification {
    ot_trainer *t;
    bool proof;       /* compare its outputs with the trainer's */
    const char *data; /* result: names of its data files */
} verification;

static ot_status verify(const ot_imported *written, void *user, ot_error *err)
{
    verification *x = user;
    const char *name;
    for (int i = 0; (name = ot_import_data_name(written, i)); i++) {
        x->data = ot_arena_printf(x->t->a, "%s%s%s", i ? x->data : "", i ? ", " : "", name);
        if (!x->data) return ot_fail(err, OT_E_NOMEM, "no memory for the names of data files");
    }
    return x->proof ? prove(written, x->t, err) : OT_OK;
}

ot_status ot_trainer_save(ot_trainer *t, const int *folder, const char *path, bool proof, const char **data,
                          ot_error *err)
{
    ot_arena *a = ot_arena_new();
    size_t most = 3 * (size_t)t->x.slot[t->x.lead].plan->n_states + 1 +
                  (size_t)ot_trainer_unfolded(t); /* with a scale and a zero point */
    ot_export_tensor *list = a ? ot_arena_alloc(a, most * sizeof *list) : NULL;
    verification x = { .t = t, .proof = proof && t->proof >= 0 };
    ot_export_options o = { .check = verify, .user = &x, .folder = folder, .dry = t->dry };
    ot_export_metadata metadata[3];
    const char *classes = NULL, *losses = NULL;
    ot_classes_kind kind = OT_CLASSES_KEPT;
    int n = 0;
    ot_status s = list ? ot_trainer_use_averages(t, err) : ot_fail(err, OT_E_NOMEM, "no memory to write '%s'", path);
    if (!s) s = collect(t, a, list, &n, err);
    if (!s) s = ot_trainer_fold(t, a, list, &n, err);
    t->saving = path;
    if (!s) s = ot_trainer_classes_text(t, a, &kind, &classes, err);
    o.metadata = metadata;
    if (kind != OT_CLASSES_KEPT)
        metadata[o.n_metadata++] = (ot_export_metadata){ OT_CLASSES_KEY, classes, kind != OT_CLASSES_NAMED };
    if (t->data && t->data->preprocess)
        metadata[o.n_metadata++] = (ot_export_metadata){ OT_PREPROCESS_KEY, t->data->preprocess, t->data->only_names };
    bool little =
        kind != OT_CLASSES_NAMED && t->data && t->data->only_names && !ot_import_metadata(t->loaded->file, OT_LOSS_KEY);
    bool ours = o.n_metadata || ot_import_metadata(t->loaded->file, OT_LOSS_KEY);
    if (!s && ours) s = ot_losses_text(t, a, &losses, err); /* a file without metadata of ours gets none */
    if (losses) metadata[o.n_metadata++] = (ot_export_metadata){ OT_LOSS_KEY, losses, little };
    if (t->x.memory) ot_memory_idle(t->x.memory); /* the written file is read back: less than the activations were */
    if (!s) s = ot_export(t->loaded->file, path, n, list, &o, err);
    s = ot_trainer_put_back(t, s, err);
    if (a) ot_arena_free(a);
    if (data) *data = s ? NULL : x.data;
    return s;
}

static ot_status check_export(ot_trainer *t, const char *path, ot_error *err)
{
    const char *what = ot_arena_printf(t->a, "-o %s", path);
    if (!what) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    ot_inputs in = ot_trainer_inputs(t);
    return ot_output_check(&in, AT_FDCWD, path, OT_FILE_MODEL, what, err);
}

/* The least that the written model and its external data take: what their floating-point initializers do. */
static uint64_t least_bytes(const ot_imported *m)
{
    uint64_t n = 0;
    for (int i = 0; i < m->n_sources; i++) {
        const ot_source *s = &m->sources[i];
        if (s->kind == OT_FROM_INITIALIZER && ot_is_float(s->dtype)) n += ot_bytes(&s->shape, s->dtype);
    }
    return n;
}

ot_status ot_trainer_check_export(ot_trainer *t, const char *path, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    if (!path) path = ot_trainer_out(t);
    if (!path) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    OT_TRY(check_export(t, path, err));
    return ot_replace_probe(path, least_bytes(t->loaded->file), err);
}

ot_status ot_trainer_export(ot_trainer *t, const char *path, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    if (!path) path = ot_trainer_out(t);
    const char *kept = path ? ot_arena_strdup(t->a, path) : NULL;
    if (!kept) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    OT_TRY(check_export(t, kept, err));
    if (t->x.lead < 0) return ot_fail(err, OT_E_USAGE, "nothing has been trained yet");
    OT_TRY(ot_evaluated_by(t, &t->result.evaluation, err));
    OT_TRY(ot_trainer_save(t, NULL, kept, true, &t->result.model_data, err));
    t->result.model_path = kept;
    return OT_OK;
}
