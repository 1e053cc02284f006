/* trainer.c - a training: cutting epochs, matching its data to the model, planning.  loop.c runs it. */

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/training.h"
#include "runtime/optimizers/optimizers.h"
#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/draw.h"
#include "runtime/train/feed/preprocess.h"
#include "runtime/train/options/cpus.h"
#include "runtime/train/run/detail.h"
#include "runtime/train/run/folder.h"
#include "runtime/train/run/file_training.h"
#include "runtime/train/options/metrics.h"
#include "runtime/train/run/unfold.h"

/* ---- telling ------------------------------------------------------------------- */

void ot_trainer_say(const ot_trainer *t, ot_level level, const char *fmt, ...)
{
    char line[1024];
    if (!t->cb.message) return;
    va_list ap;
    va_start(ap, fmt);
    ot_vtext(line, sizeof line, fmt, ap);
    va_end(ap);
    t->cb.message(t->cb.user, level, line);
}

void ot_trainer_say_lines(const ot_trainer *t, ot_level level, const char *lines)
{
    while (lines && *lines) {
        size_t n = strcspn(lines, "\n");
        ot_trainer_say(t, level, "%.*s", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

/* ---- epochs ------------------------------------------------------------------------ */

/* The size of the batches that the file's own training was written for; 0: it does not say. */
static int64_t written_batch(const ot_trainer *t)
{
    const char *text = t->file_training.used ? ot_import_metadata(t->m->file, OT_TRAINING_BATCH_KEY) : NULL;
    char *end = NULL;
    long long n = text && *text >= '1' && *text <= '9' ? strtoll(text, &end, 10) : 0;
    return n > 0 && n <= INT32_MAX && !*end ? n : 0;
}

enum { OVERFIT_UPDATES = 300 };

/* What follows from the size of a batch: the batches and updates of an epoch. */
static void cut(ot_trainer *t, int64_t batch)
{
    const ot_settings *s = &t->s;
    int64_t n = t->train.samples;
    t->batch = s->shuffle && batch > n ? n : batch;
    t->full = n / t->batch;
    t->rest = s->shuffle && !s->drop_last ? n % t->batch : 0;
    int64_t batches = s->shuffle ? t->full + (t->rest > 0) : ot_ceil_div(n, t->batch);
    if (s->overfit && s->overfit < batches) {
        batches = t->full = s->overfit;
        t->rest = 0;
    }
    t->updates = ot_ceil_div(batches, s->accumulate);
}

static ot_status cut_epochs(ot_trainer *t, ot_error *err)
{
    const ot_settings *s = &t->s;
    int64_t n = t->train.samples;
    if (n < 1) return ot_fail(err, OT_E_DATA, "%s has no samples", t->data->name);
    int64_t baked = t->file_training.used || s->training_info ? ot_feeders_baked(&t->train, t->m->file->graph)
                                                              : 0; /* such a training is for that size alone */
    int64_t written = s->batch || baked ? 0 : written_batch(t);
    t->batch = s->batch ? s->batch : baked ? baked : written ? written : n < OT_DEFAULT_BATCH ? n : OT_DEFAULT_BATCH;
    if (written && !t->index)
        ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL,
                "batch size %lld, as in the training algorithm of the "
                "file; change with --batch-size",
                (long long)written);
    if (baked && !s->batch && !t->index) /* said once */
        ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL,
                "batch size %lld: the fixed batch size of the model; "
                "training information in a file is for this size only",
                (long long)baked);
    cut(t, t->batch);
    t->x.epoch_updates = t->updates;

    int64_t by_epochs;
    int64_t usual = s->overfit ? ot_ceil_div(OVERFIT_UPDATES, t->updates) : 10;
    if (!ot_mul(s->epochs ? s->epochs : usual, t->updates, &by_epochs)) by_epochs = INT64_MAX;
    t->total = !s->steps ? by_epochs : !s->epochs || s->steps < by_epochs ? s->steps : by_epochs;
    t->epochs = ot_ceil_div(t->total, t->updates);
    OT_TRY(ot_trainer_place_averages(t, err));
    t->index = ot_arena_alloc(t->a, (size_t)t->batch * sizeof *t->index);
    if (!t->index) return ot_fail(err, OT_E_NOMEM, "no memory for the samples of a batch");
    if (ot_feeders_load(&t->train)) OT_TRY(ot_permutation_new(t->a, n, &t->ahead_order, err));
    return ot_permutation_new(t->a, n, &t->order, err);
}

/* ---- planning ------------------------------------------------------------------------ */

static ot_status plan_training(ot_trainer *t, ot_session *x, ot_error *err)
{
    int slot, n;
    int64_t first, ends[2] = { 0, t->updates - 1 };
    for (int i = 0; i < 2; i++) {
        ot_trainer_batches(t, ends[i], &first, &n);
        for (int k = 0; k < n; k += n > 1 ? n - 1 : 1) /* only the last may be short */
            OT_TRY(ot_session_plan(x, OT_WANT_TRAIN, &t->train, ot_trainer_batch_size(t, first + k), n, &slot, err));
    }
    return OT_OK;
}

static ot_status plan_evaluation(ot_trainer *t, ot_session *x, ot_scored *e, ot_error *err)
{
    int64_t n = e->data ? e->fs.samples : 0, batch = t->batch < n ? t->batch : n;
    e->slot = e->rest = -1;
    if (n < 1) return OT_OK;
    ot_want want = t->predicts ? OT_WANT_RUN : OT_WANT_EVAL;
    OT_TRY(ot_session_plan(x, want, &e->fs, batch, 1, &e->slot, err));
    if (n % batch) OT_TRY(ot_session_plan(x, want, &e->fs, n % batch, 1, &e->rest, err));
    return OT_OK;
}

ot_status ot_trainer_plan_batch(ot_trainer *t, ot_session *x, int64_t batch, ot_error *err)
{
    cut(t, batch);
    x->epoch_updates = t->updates;
    OT_TRY(plan_training(t, x, err));
    OT_TRY(plan_evaluation(t, x, &t->eval, err));
    OT_TRY(plan_evaluation(t, x, &t->test, err));
    t->proof = t->eval.slot;
    ot_error none = { 0 };
    if (t->proof < 0 && ot_session_plan(x, OT_WANT_EVAL, &t->train, t->batch, 1, &t->proof, &none)) t->proof = -1;
    return OT_OK;
}

ot_adapt_env ot_trainer_adapt_env(ot_trainer *t)
{
    return (ot_adapt_env){ .graph = t->m->file->graph,
                           .s = &t->s,
                           .file_training = t->file_training.used,
                           .model_inputs = t->file_training.model_inputs,
                           .preprocess = t->record,
                           .file = t->m->file,
                           .normalize = &t->normalize,
                           .predicts = t->predicts,
                           .a = t->a,
                           .notes = &t->notes,
                           .findings = &t->findings };
}

/* Reports that one set contains bytes, which are scaled, and the other does not. */
static void compare_scales(const ot_trainer *t, const ot_scored *y, const ot_adapt_env *e)
{
    for (int i = 0; i < t->train.n; i++)
        for (int k = 0; k < y->fs.n; k++) {
            const ot_feeder *f = &t->train.f[i], *q = &y->fs.f[k];
            if (strcmp(f->name, q->name) || f->gather.scale == q->gather.scale) continue;
            bool first = f->gather.scale;
            ot_dtype as_is = first ? q->src->t.dtype : f->src->t.dtype;
            ot_adapt_note(e, "input '%s': images of %s are scaled, but %s is fed unchanged (%s%s)", f->name,
                          first ? t->data->name : y->data->name, first ? y->data->name : t->data->name,
                          ot_dtype_name(as_is), as_is == OT_U8 ? "; use --normalize 1/255 to scale both" : "");
        }
}

/* Makes the preprocessing that was decided and measured the record of the trained model. */
static ot_status keep_record(ot_trainer *t, const char *model, ot_error *err)
{
    const char *text, *table = t->data->preprocess ? t->data->preprocess : t->data->table ? model : NULL;
    json_decref(t->measured);
    OT_TRY(ot_preprocess_text(&t->train, table, model, t->a, &text, &t->measured, err));
    if (text) {
        t->data->preprocess = text;
        t->data->only_names = false;
    }
    return OT_OK;
}

/* Targets that happen to be only 0 and 1 in a set to evaluate on are values as in the training, with the same loss. */
static void follow_training(const ot_feeders *train, ot_feeders *fs)
{
    for (int i = 0; i < fs->n; i++)
        for (int k = 0; k < train->n; k++) {
            if (!fs->f[i].target || !train->f[k].others || strcmp(fs->f[i].name, train->f[k].name)) continue;
            fs->f[i].binary = fs->f[i].varies = false;
        }
}

static ot_status adapt(ot_trainer *t, ot_error *err)
{
    ot_output *outputs = NULL;
    int n = 0;
    ot_adapt_env e = ot_trainer_adapt_env(t);
    OT_TRY(ot_normalize_parse(t->s.normalize, &t->normalize, err));
    e.measure = true;
    OT_TRY(ot_adapt_inputs(&e, t->data, &t->train, err));
    OT_TRY(cut_epochs(t, err));
    if (!t->file_training.used) {
        OT_TRY(ot_session_outputs(&t->x, &t->train, t->batch, &outputs, &n, err));
        OT_TRY(ot_trainer_check_classes(t, outputs, n, err));
        OT_TRY(ot_adapt_targets(&e, outputs, n, &t->train, err));
        OT_TRY(ot_adapt_augment(&e, outputs, n, t->x.threads, &t->train, err));
        ot_trainer_try_together(t, &t->train);
    }
    OT_TRY(keep_record(t, ot_import_metadata(t->m->file, OT_PREPROCESS_KEY), err));
    ot_scored *sets[] = { &t->eval, &t->test };
    for (int i = 0; i < OT_LEN(sets); i++) {
        ot_adapt_env q = e;
        q.notes = NULL;
        q.measure = false;
        q.beside = true;
        q.training = &t->train;
        if (t->normalize.automatic) q.preprocess = t->measured; /* just now */
        if (!sets[i]->data) continue;
        OT_TRY(ot_adapt_inputs(&q, sets[i]->data, &sets[i]->fs, err));
        compare_scales(t, sets[i], &e);
        if (!t->file_training.used) OT_TRY(ot_adapt_targets(&q, outputs, n, &sets[i]->fs, err));
        follow_training(&t->train, &sets[i]->fs);
    }
    return OT_OK;
}

static ot_status start_schedule(ot_trainer *t, ot_error *err)
{
    double rate, momentum;
    if (!ot_optimizer_defaults(&t->s.options.optimizer, &rate, &momentum))
        return ot_fail(err, OT_E_USAGE, "unknown optimizer '%s'", t->s.options.optimizer.name);
    int64_t total = t->by_steps && t->s.steps == OT_ENDLESS ? 0 : t->total;
    bool moves = ot_optimizer_find(t->s.options.optimizer.name)->moves;
    OT_TRY(
        ot_schedule_init(&t->schedule, &t->s.schedule, rate, moves ? momentum : (double)NAN, total, t->updates, err));
    t->schedule.momentum = momentum;
    t->x.moves_momentum = ot_schedule_moves_momentum(&t->schedule);
    return OT_OK;
}

/* ---- what the user reads first ---------------------------------------------------------- */

static int64_t parameters(const ot_plan *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_weights; i++) n += ot_numel(&p->weights[i]->shape);
    return n;
}

/* Reports options without an effect in this run, and how long an epoch is if its last batch continues with the first samples. */
static void say_limits(const ot_trainer *t)
{
    const ot_settings *s = &t->s;
    long long n = t->train.samples, batch = t->batch, given = t->updates * s->accumulate * batch;
    for (int i = 0; i < s->options.n_unfreeze && !t->by_steps; i++)
        if (s->options.unfreeze_at[i] > t->epochs)
            ot_trainer_say(t, OT_WARNING,
                           "--unfreeze %s@%lld: the run has %lld epoch%s: these initializers never train",
                           s->options.unfreeze[i], (long long)s->options.unfreeze_at[i], (long long)t->epochs,
                           t->epochs == 1 ? "" : "s");
    if (s->min_delta > 0 && !s->patience) ot_trainer_say(t, OT_WARNING, "--min-delta: no effect without --patience");
    if (s->data && !s->shuffle && !s->overfit && s->accumulate > 1 && given - n >= batch && batch <= n)
        ot_trainer_say(t, OT_INFO,
                       "--no-shuffle: all updates have %d batches, which continue with the first sample after the "
                       "last: an epoch of %lld update%s takes %lld samples of %lld",
                       s->accumulate, (long long)t->updates, t->updates == 1 ? "" : "s", given, n);
}

/* Options that do something else than their words say, or nothing. */
static void say_options(const ot_trainer *t)
{
    const ot_settings *s = &t->s;
    long long n = t->train.samples, batches = t->full + (t->rest > 0);
    say_limits(t);
    if (s->data && s->shuffle && s->batch > n)
        ot_trainer_say(t, OT_WARNING,
                       "--batch-size %lld: the training set has %lld samples; each batch contains all "
                       "of them",
                       (long long)s->batch, n);
    if (s->data && !s->shuffle && s->batch > n)
        ot_trainer_say(t, OT_WARNING,
                       "--batch-size %lld: the training set has %lld samples; samples repeat within a "
                       "batch",
                       (long long)s->batch, n);
    if (s->data && !s->shuffle && !s->overfit && s->batch <= n && n % t->batch)
        ot_trainer_say(
            t, OT_INFO,
            "--no-shuffle: the last batch of an epoch has %lld samples; it is filled with the first %lld of the set",
            n % t->batch, t->batch - n % t->batch);
    if (s->data && s->shuffle && s->accumulate > batches)
        ot_trainer_say(t, OT_WARNING, "--accumulate %d: an epoch has %lld batch%s; each update uses all of them",
                       s->accumulate, batches, batches > 1 ? "es" : "");
    double warmup = t->schedule.warmup * (double)t->schedule.per;
    if (warmup > 0 && t->total > 0 && warmup >= (double)t->total)
        ot_trainer_say(t, OT_WARNING,
                       "the warmup takes %.0f updates but the run has %lld: the learning rate never "
                       "reaches %g",
                       warmup, (long long)t->total, t->schedule.base);
    if (s->options.n_train && !s->options.n_freeze)
        ot_trainer_say(t, OT_INFO,
                       "--train adds to the initializers that train by default; use --freeze '*' too to "
                       "train only these");
    if (s->options.ema > 0)
        ot_trainer_say(t, OT_INFO,
                       "--ema %g: evaluation, best.onnx and -o use averages of the weights and running statistics",
                       s->options.ema);
    if (s->options.swa_every)
        ot_trainer_say(
            t, OT_INFO,
            "--swa: evaluation, best.onnx and -o use the mean of the weights and running statistics after %s "
            "from %s %lld on, and before that the weights themselves",
            s->swa_updates ? "each update" : "each epoch", s->swa_updates ? "update" : "epoch",
            (long long)(s->options.swa_after / s->options.swa_every + 1));
    if (s->drop_last && !s->shuffle)
        ot_trainer_say(t, OT_WARNING, "--drop-last: no effect with --no-shuffle, with which all batches are full");
    if (!strcmp(s->schedule.name, "plateau"))
        ot_trainer_say(t, OT_INFO, "schedule plateau uses %s",
                       ot_trainer_watches_epochs(t)
                           ? "the mean training loss of each epoch; no evaluation set is given (--val)"
                       : !t->eval.data ? "the loss of each update; no evaluation set is given (--val)"
                       : !t->has_val   ? "the mean training loss of each epoch; no validation samples are given "
                                         "(--val, --val-split)"
                       : ot_measure_plateau(t) == OT_METRIC_LOSS     ? "the loss of each evaluation"
                       : ot_measure_plateau(t) == OT_METRIC_ACCURACY ? "the accuracy of each evaluation"
                                                                     : "the monitored metric of each evaluation");
}

/* The accuracy of masks is that of pixels, most of which may be background. */
static void say_masks(const ot_trainer *t)
{
    bool masks = false, chosen = ot_options_nth(t->o, "monitor", 0) != NULL;
    ot_meter m;
    for (int i = 0, output; t->has_val && !chosen && i < t->eval.fs.n && !masks; i++)
        masks = ot_measure_fits(t, &t->eval, i, &output, &m) && m.kind == OT_METER_CLASSES && m.mask;
    if (masks)
        ot_trainer_say(t, OT_INFO,
                       "the accuracy of pixels decides which epoch is the best; --monitor iou uses the mean IoU of the "
                       "classes, in which small classes count as much as large ones");
}

/* What trains, and what it is evaluated on. */
static void say_sets(const ot_trainer *t)
{
    char classes[80] = "", val[400] = "", test[400] = "";
    if (t->split_classes > 1)
        snprintf(classes, sizeof classes, ", the same fraction of each of %d target values", t->split_classes);
    if (t->eval.data)
        snprintf(val, sizeof val, "; %s after each epoch: %s%.200s, %lld samples%s", t->eval.split,
                 t->same_set ? "the same " : "", t->eval.data->name, (long long)t->eval.fs.samples, classes);
    if (t->test.data)
        snprintf(test, sizeof test, "; test at the end: %.200s, %lld samples", t->test.data->name,
                 (long long)t->test.fs.samples);
    ot_trainer_say(t, OT_INFO, "%s: %lld sample%s%s%s", t->data->name, (long long)t->train.samples,
                   t->train.samples == 1 ? "" : "s", val, test);
    if (t->s.overfit)
        ot_trainer_say(t, OT_INFO,
                       "--overfit-batch: %lld of them train, in the same batches in each epoch, without "
                       "evaluation",
                       (long long)(t->full * t->batch + t->rest < t->train.samples ? t->full * t->batch + t->rest
                                                                                   : t->train.samples));
    else if (!t->has_val && !t->file_training.used && !t->searches)
        ot_trainer_say(t, OT_INFO, "%s; --val-split 0.1 keeps a tenth of the samples for validation",
                       ot_best_looks(t) ? "all samples train, and the training loss decides which epoch is the best"
                                        : "all samples train, and nothing is evaluated");
}

static void say_threads(const ot_trainer *t, int available)
{
    enum { BY_FAR = 4 };
    if (t->s.threads > BY_FAR * available)
        ot_trainer_say(
            t, OT_WARNING,
            "--threads %d: %d processor%s available; threads that wait for a processor make every step slower",
            t->s.threads, available, available == 1 ? " is" : "s are");
}

static void say_plan(const ot_trainer *t)
{
    const ot_session *x = &t->x;
    const ot_plan *p = x->slot[x->lead].plan;
    double mib = 1 << 20;
    char granted[96];
    ot_cpus cpus = ot_cpus_read();
    const char *stem = ot_stem(t->m->file->path, t->a);
    ot_trainer_say(t, OT_INFO, "%s", x->device_line);
    ot_trainer_say(t, OT_INFO, "%s: %lld parameters in %d initializer%s (of %d tensors, opset %lld)", stem ? stem : "",
                   (long long)parameters(p), p->n_weights, p->n_weights == 1 ? " trains" : "s train",
                   t->m->file->n_sources, (long long)t->m->file->opset);
    if (!t->by_steps) say_sets(t);
    if (!t->by_steps) say_masks(t);
    ot_trainer_say_lines(t, OT_INFO, t->notes);
    ot_trainer_say_findings(t, true);
    say_options(t);
    const char *how = t->file_training.used ? "algorithm of the file"
                                            : ot_arena_printf(t->a, "%s, rate %g, %s", t->s.options.optimizer.name,
                                                              t->schedule.base, t->s.schedule.name);
    char updates[96] = "";
    if (!t->by_steps)
        snprintf(updates, sizeof updates, ", %lld update%s per epoch, %lld in total", (long long)t->updates,
                 t->updates == 1 ? "" : "s", (long long)t->total);
    ot_trainer_say(t, OT_INFO, "%s; batch size %lld%s%s; %d thread%s%s", how ? how : "", (long long)t->batch,
                   t->s.accumulate > 1 ? " accumulated" : "", updates, x->threads, x->threads > 1 ? "s" : "",
                   t->s.threads > 0 ? "" : ot_cpus_text(&cpus, granted));
    say_threads(t, cpus.threads);
    if (x->device) {
        ot_trainer_say(t, OT_INFO,
                       "GPU memory: %.1f MiB planned (weights and state %.1f, activations %.1f, data %.1f, constants "
                       "and batches %.1f)",
                       (double)ot_session_bytes(x) / mib, (double)x->state_bytes / mib, (double)x->scratch_bytes / mib,
                       (double)ot_session_set_bytes(x) / mib,
                       (double)(x->const_bytes + ot_session_inbox_bytes(x)) / mib);
        return;
    }
    ot_trainer_say(t, OT_INFO,
                   "memory: %.1f MiB planned (weights and state %.1f, activations %.1f, data %.1f, "
                   "file and constants %.1f)",
                   (double)t->planned / mib, (double)x->state_bytes / mib, (double)x->scratch_bytes / mib,
                   (double)(ot_trainer_set_bytes(t->data) + ot_trainer_set_bytes(t->eval.data) +
                            ot_trainer_set_bytes(t->test.data)) /
                       mib,
                   (double)(t->m->bytes + (t->taught_by ? t->taught_by->bytes : 0) + x->const_bytes) / mib);
}

int64_t ot_trainer_planned_bytes(const ot_trainer *t, const ot_session *x, int64_t batch)
{
    return ot_session_bytes(x) + ot_trainer_set_bytes(t->data) + ot_trainer_set_bytes(t->eval.data) +
           ot_trainer_set_bytes(t->test.data) + t->m->bytes + (t->taught_by ? t->taught_by->bytes : 0) +
           ((t->order.list ? t->train.samples : 0) + batch) * (int64_t)sizeof *t->index +
           ot_trainer_average_bytes(t, x) + (t->s.select_best ? x->state_bytes : 0);
}

ot_status ot_trainer_plan(ot_trainer *t, ot_error *err)
{
    OT_TRY(adapt(t, err));
    if (t->s.training_info && !t->file_training.used) {
        OT_TRY(ot_trainer_describe(t, err));
        t->notes = "";
        OT_TRY(adapt(t, err));
    }
    OT_TRY(ot_trainer_unfold(t, true, err));
    if (t->s.batch_auto) {
        OT_TRY(ot_trainer_choose_batch(t, err));
        t->notes = "";
        OT_TRY(adapt(t, err));
    }
    OT_TRY(start_schedule(t, err));
    OT_TRY(ot_trainer_choose_precision(t, err));
    OT_TRY(ot_trainer_plan_batch(t, &t->x, t->batch, err));
    OT_TRY(ot_measure_check(t, &t->eval, err));
    t->same_set = t->eval.data && t->eval.data->hash == t->data->hash && t->eval.fs.samples == t->train.samples;
    OT_TRY(ot_trainer_join(t, t->x.slot[t->x.lead].plan, err));
    t->planned = ot_trainer_planned_bytes(t, &t->x, t->batch);
    return ot_trainer_keep_limit(t, err);
}

ot_status ot_trainer_prepare(ot_trainer *t, ot_error *err)
{
    OT_TRY(ot_trainer_plan(t, err));
    say_plan(t);
    ot_trainer_look_ahead(t);
    ot_trainer_keep_images(t);
    OT_TRY(ot_session_allocate(&t->x, err));
    if (t->x.device)
        ot_trainer_say(t, OT_INFO,
                       ot_session_has_set(&t->x, &t->train) ? "the data set is on the GPU; batches are "
                                                              "assembled there"
                                                            : "each batch is copied to the GPU");
    t->result.planned_bytes = t->result.peak_bytes = t->planned;
    return OT_OK;
}

/* ---- evaluation alone ------------------------------------------------------------------ */

/* Images whose proportions are not those of the model's input become several samples. */
static ot_status divide_images(ot_trainer *t, ot_error *err)
{
    ot_feeders *fs = &t->eval.fs;
    int64_t images = t->eval.data->samples;
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        if (f->target || !f->redraw || !f->src->source || ot_array_is_sound(f->src)) continue;
        OT_TRY(ot_dataset_tile(t->eval.data, f->array, f->to.h, f->to.w, t->s.skip_bad > 0, err));
        fs->samples = t->eval.data->samples;
        if (fs->samples > images)
            ot_adapt_note(
                &(ot_adapt_env){ .a = t->a, .notes = &t->notes },
                "input '%s': images with other proportions are computed as a whole, in parts that overlap: %lld "
                "image%s %s %lld parts",
                f->name, (long long)images, images == 1 ? "" : "s", images == 1 ? "has" : "have",
                (long long)fs->samples);
        return OT_OK;
    }
    return OT_OK;
}

/* Samples of a batch: whole batches of the size that the file has fixed, so that what it has for each place of a batch, such as an
 * initial state, meets the same samples as there. */
static int64_t evaluation_batch(ot_trainer *t)
{
    enum { USUAL = 64 };
    int64_t fixed = ot_feeders_baked(&t->eval.fs, t->m->file->graph);
    if (!t->s.batch) return fixed > USUAL ? fixed : fixed > 1 ? USUAL / fixed * fixed : USUAL;
    if (fixed > 1 && t->s.batch % fixed && t->s.batch < t->eval.fs.samples)
        ot_find(
            &t->findings, OT_FINDING_WARNING, NULL, NULL,
            "--batch-size %lld is not a multiple of %lld, the fixed batch size of the model: if the model has numbers for "
            "each place of a batch, they meet other samples than in the file",
            (long long)t->s.batch, (long long)fixed);
    return t->s.batch;
}

/* The set to evaluate on and the batches of its inputs. */
static ot_status open_evaluation_inputs(ot_trainer *t, const ot_adapt_env *e, ot_error *err)
{
    if (!t->s.data && !t->s.test && !t->s.val)
        return ot_fail(err, OT_E_USAGE, "--data is missing: name a data set such as mnist, or a file");
    OT_TRY(ot_trainer_review(t, true, err));
    OT_TRY(ot_trainer_open_evaluation_set(t, err));
    if (!t->eval.data->origin && !t->predicts) OT_TRY(ot_trainer_number_classes(t, t->eval.data, false, err));
    OT_TRY(ot_adapt_inputs(e, t->eval.data, &t->eval.fs, err));
    if (t->tiles) OT_TRY(divide_images(t, err));
    if (t->eval.fs.samples < 1) return ot_fail(err, OT_E_DATA, "%s has no samples", t->eval.data->name);
    t->x.fixed = t->x.settled = true; /* nothing trains */
    t->batch = evaluation_batch(t);
    if (t->batch > t->eval.fs.samples) t->batch = t->eval.fs.samples;
    t->index = ot_arena_alloc(t->a, (size_t)t->batch * sizeof *t->index);
    return t->index ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a batch");
}

static ot_status begin_evaluation(ot_trainer *t, ot_error *err)
{
    ot_trainer_try_together(t, &t->eval.fs);
    OT_TRY(plan_evaluation(t, &t->x, &t->eval, err));
    ot_trainer_look_ahead(t);
    ot_trainer_say(t, OT_INFO, "%s", t->x.device_line);
    ot_trainer_say_lines(t, OT_INFO, t->notes);
    OT_TRY(ot_trainer_join(t, t->x.slot[t->x.lead].plan, err));
    ot_trainer_say_findings(t, true);
    return ot_session_allocate(&t->x, err);
}

ot_status ot_trainer_open_evaluation(ot_trainer *t, ot_error *err)
{
    ot_output *outputs;
    int n;
    OT_TRY(ot_losses_take(t, err));
    ot_adapt_env e = ot_trainer_adapt_env(t);
    OT_TRY(open_evaluation_inputs(t, &e, err));
    OT_TRY(ot_session_outputs(&t->x, &t->eval.fs, t->batch, &outputs, &n, err));
    OT_TRY(ot_adapt_targets(&e, outputs, n, &t->eval.fs, err));
    return begin_evaluation(t, err);
}

ot_status ot_trainer_open_prediction(ot_trainer *t, ot_error *err)
{
    t->predicts = t->s.options.eval_mode = true;
    OT_TRY(ot_losses_take(t, err));
    ot_adapt_env e = ot_trainer_adapt_env(t);
    OT_TRY(open_evaluation_inputs(t, &e, err));
    ot_adapt_idle(&e, &t->eval.fs);
    return begin_evaluation(t, err);
}

ot_status ot_trainer_open_run(ot_trainer *t, ot_error *err)
{
    OT_TRY(ot_trainer_use_file_training(t, err));
    OT_TRY(ot_trainer_review(t, false, err));
    OT_TRY(ot_trainer_open(t, err));
    OT_TRY(ot_trainer_open_run_set(t, err));
    OT_TRY(ot_trainer_plan(t, err));
    ot_trainer_say(t, OT_INFO, "%s", t->x.device_line);
    ot_trainer_say_lines(t, OT_INFO, t->notes);
    ot_trainer_say_findings(t, true);
    return ot_session_allocate(&t->x, err);
}

ot_status ot_trainer_open_teacher(ot_trainer *t, ot_error *err)
{
    ot_error e = { 0 };
    if (!t->s.teacher) return OT_OK;
    if (ot_import(t->s.teacher, &t->taught_by, &e)) return ot_fail(err, e.status, "--teacher %-s", e.text);
    t->teacher = (ot_teacher){ .graph = t->taught_by->graph, .path = t->s.teacher, .how = t->s.learns };
    t->s.options.teacher = &t->teacher;
    return OT_OK;
}

ot_status ot_trainer_open_gradient(ot_trainer *t, int *slot, ot_error *err)
{
    OT_TRY(ot_trainer_open_teacher(t, err));
    OT_TRY(ot_trainer_review(t, false, err));
    OT_TRY(ot_trainer_open_training(t, err));
    OT_TRY(ot_trainer_number_classes(t, t->data, true, err));
    if (!t->s.batch) t->s.batch = t->data->samples;
    t->s.shuffle = false;
    if (!ot_options_count(t->o, "dropout"))
        t->s.options.dropout = 0; /* so that gradients can be compared; --dropout overrides it */
    OT_TRY(adapt(t, err));
    OT_TRY(ot_session_plan(&t->x, OT_WANT_GRAD, &t->train, t->batch, 1, slot, err));
    ot_trainer_say(t, OT_INFO, "%s", t->x.device_line);
    ot_trainer_say_lines(t, OT_INFO, t->notes);
    OT_TRY(ot_trainer_join(t, t->x.slot[t->x.lead].plan, err));
    ot_trainer_say_findings(t, true);
    return ot_session_allocate(&t->x, err);
}

/* ---- the object ---------------------------------------------------------------------------- */

static const ot_result no_result = {
    .reason = "not started", .split = "train", .loss = NAN, .accuracy = NAN, .best = NAN, .value = NAN
};

ot_status ot_trainer_begin(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_trainer **out,
                           ot_error *err)
{
    *out = NULL;
    ot_trainer *t = calloc(1, sizeof *t);
    if (t) t->a = ot_arena_new();
    if (!t || !t->a) {
        free(t);
        return ot_fail(err, OT_E_NOMEM, "no memory for a trainer");
    }
    t->m = t->as_read = t->loaded = m;
    t->o = o;
    t->notes = "";
    t->folder.fd = -1;
    t->x.lead = t->eval.slot = t->eval.rest = t->test.slot = t->test.rest = t->proof = -1;
    t->best.loss = t->best.accuracy = t->best.counted = t->log.lr = NAN;
    if (cb) t->cb = *cb;
    t->log.user = t->cb.user;
    t->log.line = t->cb.log;
    t->result = no_result;
    ot_error first = { 0 };
    ot_status s = ot_settings_read(o, m->outputs, t->a, &t->s, &first);
    if (!s && (t->s.monitor > OT_METRIC_ACCURACY || t->s.monitor_output)) t->result.metric = t->s.monitor_name;
    t->configs = ot_options_configs(o, t->a);
    if (!s && t->s.n_outputs) {
        s = ot_model_cut(m, t->s.n_outputs, t->s.outputs, t->a, &t->cut, &first);
        t->m = &t->cut;
    }
    if (!s) s = ot_preprocess_read(ot_import_metadata(m->file, OT_PREPROCESS_KEY), &t->record, &first);
    if (!s) s = ot_session_open(&t->x, t->m, &t->s, NULL, &first);
    if (s) {
        ot_trainer_free(t);
        return ot_fail(err, s, "%s", first.text);
    }
    *out = t;
    return OT_OK;
}

ot_inputs ot_trainer_inputs(const ot_trainer *t)
{
    const bool open = t->data != NULL; /* then they are known better than by what the options say */
    return (ot_inputs){ .model = t->m->file,
                        .teacher = t->taught_by,
                        .configs = t->configs,
                        .named = { open ? NULL : t->s.data, open ? NULL : t->s.val, open ? NULL : t->s.test },
                        .data = { t->data, t->eval.data, t->test.data } };
}

/* Whether everything can be written at the end, before anything is computed.  Without the option o it is the caller's decision
 * whether and where a model is written. */
static ot_status check_outputs(ot_trainer *t, ot_error *err)
{
    const char *out = ot_trainer_out(t), *log = NULL;
    if (!out || (t->s.log && !(log = ot_arena_printf(t->a, "--log %s", t->s.log))))
        return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    ot_inputs in = ot_trainer_inputs(t);
    if (t->s.out) OT_TRY(ot_trainer_check_export(t, out, err));
    OT_TRY(ot_trainer_check_deploy(t, err));
    if (!log) return OT_OK;
    if (ot_path_same(t->s.log, out))
        return ot_fail(err, OT_E_USAGE, "%s: is the same file as -o; use different files", log);
    return ot_output_check(&in, AT_FDCWD, t->s.log, OT_FILE_LOG, log, err);
}

static ot_status open_trainer(ot_trainer *t, ot_error *err)
{
    if (t->s.folds && !t->s.fold)
        return ot_fail(err, OT_E_USAGE,
                       "--folds %d trains several models: call ot_series_text, or train one of them with 1/%d",
                       t->s.folds, t->s.folds);
    t->by_steps = !t->s.data;
    OT_TRY(ot_trainer_open_teacher(t, err));
    OT_TRY(ot_trainer_use_file_training(t, err));
    OT_TRY(ot_trainer_review(t, false, err));
    if (t->by_steps && t->s.swa > 0)
        return ot_fail(err, OT_E_USAGE, "--swa needs --data, because it begins at an epoch of the training");
    if (t->by_steps) t->x.sets_limit = 0; /* the caller's memory is another at every step */
    if (t->by_steps) return OT_OK;
    OT_TRY(check_outputs(t, err)); /* before a large set is read */
    OT_TRY(ot_trainer_open(t, err));
    OT_TRY(check_outputs(t, err)); /* the set itself */
    return ot_trainer_prepare(t, err);
}

ot_status ot_trainer_new(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_trainer **out,
                         ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(out);
    OT_GIVEN(m);
    OT_GIVEN(o);
    ot_error first = { 0 };
    OT_TRY(ot_trainer_begin(m, o, cb, out, err));
    ot_status s = open_trainer(*out, &first);
    if (!s) return OT_OK;
    s = ot_trainer_explain(*out, s, &first);
    ot_trainer_say_findings(*out, false);
    ot_trainer_free(*out);
    *out = NULL;
    return ot_fail(err, s, "%s", first.text);
}

void ot_trainer_free(ot_trainer *t)
{
    if (!t) return;
    ot_error ignored = { 0 };
    (void)ot_log_close(&t->log, &ignored);
    ot_folder_close(&t->folder);
    ot_session_close(&t->x);
    ot_trainer_forget_shapes(t);
    ot_model_cut_drop(&t->cut);
    ot_measure_close(&t->eval);
    ot_measure_close(&t->test);
    ot_detail_close(&t->eval);
    ot_detail_close(&t->test);
    ot_dataset_free(t->test.data);
    ot_dataset_free(t->eval.data);
    ot_dataset_free(t->data);
    ot_graph_free(t->lora.graph);
    if (t->unfolded.n) ot_graph_free(t->m->file->graph);
    if (t->remade) ot_import_free(t->remade);
    if (t->taught_by) ot_import_free(t->taught_by);
    ot_graph_free(t->file_training.graph);
    json_decref(t->record);
    json_decref(t->measured);
    ot_arena_free(t->a);
    free(t);
}

void ot_trainer_cancel(ot_trainer *t)
{
    if (!t) return;
    t->cancelled = 1;
}

void ot_trainer_result(const ot_trainer *t, ot_result *out)
{
    if (out) *out = t ? t->result : no_result;
}
