/* training_info.c - --training-info: writes the training of the options into the file (TrainingInfoProto).
 *
 * exporter/training.c adds it to the model before the training, which then runs the file's algorithm, so that the file describes
 * exactly what was done.  Weights and the optimizer's state are initializers, which are written back like others. */
#include <string.h>

#include "exporter/training.h"
#include "runtime/optimizers/optimizers.h"
#include "runtime/train/run/file_training.h"

static ot_status check(const ot_trainer *t, ot_error *err)
{
    static const char *const never[] = { "accumulate", "add-dropout", "unfold-bn", "output", "quantized-scales",
                                         "ema",        "unfreeze",    "teacher",   "swa",    "lookahead",
                                         "lora" };
    static const char instead[] = "or train without --training-info and continue with 'onnxtrain resume RUN'";
    for (int i = 0; i < OT_LEN(never); i++)
        if (ot_options_count(t->o, never[i]))
            ot_fail_more(err, OT_E_USAGE, "--training-info: --%s cannot be written into the file; leave it out%s, %s",
                         never[i], i ? "" : ", with a larger --batch-size in its place where memory allows", instead);
    if (strcmp(t->s.schedule.name, "constant") || t->s.schedule.n)
        ot_fail_more(
            err, OT_E_USAGE,
            "--training-info: a schedule cannot be written into the file, which keeps one rate; --schedule constant, %s",
            instead);
    if (t->s.auto_precision || t->s.options.precision == OT_PREC_BF16 || t->s.options.precision == OT_PREC_FP16)
        ot_fail_more(err, OT_E_USAGE,
                     "--training-info: --precision cannot be written into the file; --precision fp32 or tf32, %s",
                     instead);
    /* The algorithm runs the nodes of the file, whose mode is that of inference: a training sets it by its options. */
    static const char *const modes[][2] = { { "bn", "auto" }, { "bn-variance", "population" }, { "dropout", "file" } };
    for (int i = 0; i < OT_LEN(modes); i++) {
        const char *given = ot_options_get(t->o, modes[i][0]);
        if (given && strcmp(given, modes[i][1]))
            ot_fail_more(err, OT_E_USAGE, "--training-info: --%s %s cannot be written into the file; leave it out, %s",
                         modes[i][0], given, instead);
    }
    if (t->s.batch_auto)
        ot_fail_more(err, OT_E_USAGE,
                     "--training-info: --batch-size auto: use a number, which is written into the file");
    if (t->s.options.skip_nonfinite)
        ot_fail_more(err, OT_E_USAGE,
                     "--training-info: --on-nonfinite skip cannot be written into the file; leave it out, %s", instead);
    return err->status;
}

/* Which tensors of the file train: *n of them. */
static ot_status find_weights(ot_trainer *t, const ot_config *c, int *sources, int *n, ot_error *err)
{
    ot_plan *p;
    const char *first = NULL;
    int stored = 0;
    OT_TRY(ot_plan_new(t->m->file->graph, c, NULL, &p, err));
    *n = p->n_weights;
    for (int i = 0; i < p->n_weights; i++) {
        const ot_value *v = p->weights[i];
        sources[i] = v->source;
        if (v->stored && !stored++) first = v->name;
        if (v->source >= 0 && t->m->file->sources[v->source].kind == OT_FROM_ATTRIBUTE)
            ot_fail_more(err, OT_E_MODEL,
                         "--training-info: '%s' is a node attribute; only initializers can be "
                         "updated",
                         v->name);
        else if (v->from_constant)
            ot_fail_more(err, OT_E_MODEL,
                         "--training-info: '%s' is the value of a Constant "
                         "node; only initializers can be updated",
                         v->name);
        else if (!v->stored && v->dtype != OT_F32 && v->dtype != OT_F64)
            ot_fail_more(err, OT_E_MODEL, "--training-info: '%s' is %s; only float32 and float64 can be updated",
                         v->name, ot_dtype_name(v->dtype));
    }
    if (stored)
        ot_fail_more(err, OT_E_MODEL,
                     "--training-info: %d weight%s quantised (first: '%s'); their updates "
                     "are not supported",
                     stored, stored > 1 ? "s are" : " is", first);
    ot_plan_free(p);
    return err->status;
}

static ot_status describe(ot_trainer *t, ot_imported **out, ot_error *err)
{
    ot_plan *p[2] = { NULL, NULL };
    ot_described d;
    int n = 0, *sources = ot_arena_alloc(t->a, sizeof *sources * (size_t)(t->m->file->n_sources + 1));
    ot_feed *feeds = ot_arena_alloc(t->a, sizeof *feeds * (size_t)(t->train.n + 1));
    ot_error other = { 0 };
    ot_config c = ot_session_config(&t->s, OT_WANT_TRAIN, t->x.threads);
    long long baked = (long long)ot_feeders_baked(&t->train, t->m->file->graph);
    if (!sources || !feeds) return ot_fail(err, OT_E_NOMEM, "no memory to write the training");
    if (baked && baked != t->batch)
        return ot_fail(err, OT_E_MODEL,
                       "--training-info: the model has a fixed batch size of %lld, but --batch-size "
                       "is %lld: use --batch-size %lld",
                       baked, (long long)t->batch, baked);
    c.feeds = feeds;
    c.n_feeds = t->train.n;
    ot_feeders_feeds(&t->train, t->batch, feeds);
    OT_TRY(find_weights(t, &c, sources, &n, err));
    /* Planned for two sizes of a batch: what differs depends on it.  A file may go through with one size alone. */
    ot_status s = ot_plan_describe(t->m->file->graph, &c, sources, n, &p[0], err), more = OT_E_MODEL;
    if (!s && !baked) {
        ot_feeders_feeds(&t->train, t->batch + 1, feeds);
        more = ot_plan_describe(t->m->file->graph, &c, sources, n, &p[1], &other);
    }
    if (!s && more) {
        ot_feeders_feeds(&t->train, t->batch, feeds);
        s = ot_plan_describe(t->m->file->graph, &c, sources, n, &p[1], err);
        ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL,
                "--training-info: the training algorithm is written for "
                "batch size %lld, the fixed size of the model",
                (long long)t->batch);
    }
    if (!s) {
        d = (ot_described){ .graph = { p[0]->graph, p[1]->graph },
                            .before = p[0]->before_loss,
                            .loss = p[0]->loss,
                            .lr = p[0]->knobs.lr,
                            .momentum = p[0]->knobs.momentum,
                            .t = p[0]->knobs.t,
                            .batch = t->batch };
        ot_optimizer_defaults(&t->s.options.optimizer, &d.rate, &d.start);
        s = ot_training_write(t->m->file, &d, out, err);
    }
    ot_plan_free(p[0]);
    ot_plan_free(p[1]);
    return s;
}

ot_status ot_trainer_describe(ot_trainer *t, ot_error *err)
{
    ot_imported *now = NULL;
    OT_TRY(check(t, err));
    OT_TRY(describe(t, &now, err));
    OT_TRY(ot_trainer_take(t, now, err));
    if (!now->training || now->training->why)
        return ot_fail(err, OT_E_INTERNAL, "--training-info: the written algorithm cannot be read back: %s",
                       now->training ? now->training->why : "it is missing");
    OT_TRY(ot_trainer_train_by_file(t, err));
    const ot_graph *g = now->training->graph;
    ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL,
            "--training-info: the training algorithm is written to the "
            "file (TrainingInfoProto): %d nodes; %d initializers are "
            "updated",
            g->n_nodes - now->graph->n_nodes, g->n_assigns);
    return OT_OK;
}
