/* sets.c - the data sets of a training or an evaluation: opened, split, and accepted. */

#include <string.h>

#include "runtime/losses/losses.h"
#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/preprocess.h"
#include "runtime/train/options/metrics.h"
#include "runtime/train/run/trainer.h"

/* ---- of a training ------------------------------------------------------------------ */

/* What a data set says of itself; of windows over tokens, the set to train on says it for the others. */
static void note_set(ot_trainer *t, const ot_dataset *d)
{
    if (d && d->windows && t->data && d != t->data) return;
    for (const char *p = d ? d->notes : NULL; p && *p;) {
        size_t n = strcspn(p, "\n");
        ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes }, "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

/* May --target be the images themselves?  In built-in sets and folders they have no name: it says "image", or the model's input. */
static bool targets_images(const ot_trainer *t)
{
    const ot_graph *g = t->m->file->graph;
    bool images = t->s.target && !strcmp(t->s.target, "image");
    for (int i = 0; i < g->n_inputs && t->s.target; i++) images |= !strcmp(t->s.target, g->inputs[i]->name);
    return images;
}

static const char *target_of(const ot_trainer *t, const ot_dataset *d)
{
    bool named = d->table || ot_dataset_find(d, t->s.target) || !ot_dataset_find(d, "");
    return !named && targets_images(t) ? "" : t->s.target;
}

/* A set that was opened: which of it is the target, and whether it can be learnt from. */
static ot_status accept_set(ot_trainer *t, ot_dataset *d, ot_error *err)
{
    const char *target = NULL;
    if (!t->s.target) OT_TRY(ot_dataset_target_line(d, t->a, &target, err));
    if (t->s.target) OT_TRY(ot_dataset_target(d, target_of(t, d), err));
    if (target) ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes }, "%s", target);
    const char *in_order = t->data ? NULL : ot_dataset_in_order(d);
    if (in_order)
        ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes }, "%s: %s (change with --inputs)", d->name,
                      in_order);
    if (d->table && ot_dataset_odd_header(d))
        ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes },
                      "%s: line 1 is taken as column names, "
                      "although it contains numbers",
                      d->name);
    if (!d->table) ot_adapt_gaps(t->m->file->graph, d);
    return ot_dataset_check(d, err);
}

ot_status ot_sets_check_monitor(const ot_settings *s, ot_error *err)
{
    if (s->monitor <= OT_METRIC_LOSS && !s->monitor_output) return OT_OK;
    return ot_fail(err, OT_E_USAGE,
                   "--monitor %s needs validation samples; use --val-split 0.1, or --val with a set of its own",
                   s->monitor_name);
}

ot_data_options ot_sets_options(const ot_settings *s)
{
    return (ot_data_options){ .target = s->target,
                              .columns = s->columns,
                              .categories = s->categories,
                              .passed = s->passed,
                              .parts = s->split_column,
                              .group = s->group,
                              .normalize = s->normalize && !strcmp(s->normalize, "auto") ? "mean,std" : s->normalize,
                              .skips = s->skip_bad > 0,
                              .length = s->length,
                              .stride = s->stride,
                              .ahead = s->ahead,
                              .has_ahead = s->has_ahead,
                              .text = s->text,
                              .tokenizer = s->tokenizer,
                              .masking = ot_masking_of(s) };
}

/* Do all losses do without a target? */
static bool needs_no_target(const ot_trainer *t)
{
    bool none = t->s.options.n_losses > 0;
    for (int i = 0; i < t->s.options.n_losses; i++)
        none &= ot_loss_find(t->s.options.losses[i].name)->takes == OT_TAKES_NOTHING;
    return none;
}

/* part: some of its samples will be kept back, and ot_dataset_fit measures on the rest.  alone: see ot_data_options. */
static ot_status open_part(ot_trainer *t, const char *spec, ot_split split, bool part, bool alone, ot_dataset **out,
                           ot_error *err)
{
    ot_data_options o = ot_sets_options(&t->s);
    o.part = part;
    bool folder = ot_is_folder(spec);
    o.unlabelled = t->predicts || (targets_images(t) && folder) || (needs_no_target(t) && !folder);
    o.alone = alone;
    o.training = t->s.data && !strcmp(spec, t->s.data) ? t->data : NULL;
    OT_TRY(ot_adapt_wanted(t->m->file->graph, t->a, &o, err));
    o.preprocess = t->data ? t->data->preprocess : NULL;
    if (!o.preprocess && (!t->data || t->data->table)) /* a table that measured nothing has taken the model's record */
        o.preprocess = ot_import_metadata(t->m->file, OT_PREPROCESS_KEY);
    if (t->data) o.columns = o.categories = o.passed = NULL;
    OT_TRY(ot_dataset_open(spec, split, &o, out, err));
    if (!part) note_set(t, *out);
    return *out ? accept_set(t, *out, err) : OT_OK;
}

static ot_status open_set(ot_trainer *t, const char *spec, ot_split split, ot_dataset **out, ot_error *err)
{
    return open_part(t, spec, split, false, !t->data && out != &t->data, out, err);
}

/* The training set, and t->eval.data if it is kept back from it. */
static ot_status complete_sets(ot_trainer *t, ot_error *err)
{
    ot_status s = ot_dataset_fit(t->data, t->eval.data, err);
    note_set(t, t->data);
    return s;
}

/* The test part of the file or named set `spec`, beside the one that trains; without one, if an option names the set, all of
 * it. */
static ot_status open_other(ot_trainer *t, const char *spec, bool named, ot_dataset **out, ot_error *err)
{
    OT_TRY(open_set(t, spec, OT_SPLIT_TEST, out, err));
    if (!*out && named) OT_TRY(open_set(t, spec, OT_SPLIT_TRAIN, out, err));
    return *out ? ot_dataset_match(*out, t->data, err) : OT_OK;
}

/* Are samples of the training set kept back? */
static bool keeps_back(const ot_trainer *t) { return !t->s.overfit && (t->s.val_split > 0 || t->s.folds); }

ot_status ot_trainer_open_training(ot_trainer *t, ot_error *err)
{
    if (!t->s.data) return ot_fail(err, OT_E_USAGE, "--data is missing: name a data set such as mnist, or a file");
    return t->data ? OT_OK : open_part(t, t->s.data, OT_SPLIT_TRAIN, keeps_back(t), false, &t->data, err);
}

/* Are class numbers the target, not the images themselves? */
static bool learns_classes(const ot_trainer *t)
{
    bool classes = false;
    for (int i = 0; i < t->data->n; i++)
        classes |= t->data->array[i].role == OT_ARRAY_TARGET && !t->data->array[i].source;
    return classes && !needs_no_target(t);
}

ot_status ot_trainer_open(ot_trainer *t, ot_error *err)
{
    const char *test = t->s.test ? t->s.test : t->s.data;
    t->has_val = t->s.val || t->s.val_split > 0 || t->s.folds;
    OT_TRY(ot_trainer_open_training(t, err));
    OT_TRY(ot_trainer_number_classes(t, t->data, true, err));
    OT_TRY(ot_trainer_note_classes(t, err));
    if (t->data->renumbers && t->data->n_classes < 2 && learns_classes(t))
        return ot_fail(err, OT_E_DATA,
                       "%s: all images are in one class folder, '%s'; training needs at least two classes",
                       t->data->name, t->data->class_name[0]);
    if (t->s.overfit) return OT_OK;
    if (!t->has_val) { /* a folder may have a part for it */
        OT_TRY(open_set(t, t->s.data, OT_SPLIT_VAL, &t->eval.data, err));
        if (t->eval.data) OT_TRY(ot_dataset_match(t->eval.data, t->data, err));
        t->has_val = t->eval.data != NULL;
    }
    if (!t->has_val) OT_TRY(ot_sets_check_monitor(&t->s, err));
    t->eval.split = t->has_val ? "val" : "test";
    t->test.split = "test";
    if (t->s.val_split > 0)
        OT_TRY(ot_dataset_split(t->data, t->s.val_split, t->s.seed, &t->eval.data, &t->split_classes, err));
    if (t->s.folds)
        OT_TRY(ot_dataset_fold(t->data, t->s.fold, t->s.folds, t->s.seed, &t->eval.data, &t->split_classes, err));
    if (keeps_back(t)) OT_TRY(complete_sets(t, err));
    if (t->eval.data && t->eval.data->windows && t->eval.data->notes)
        ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes }, "%-s", t->eval.data->notes);
    if (t->s.folds && !t->s.test) return OT_OK; /* folds need no test set unless --test is given */
    if (t->s.val) OT_TRY(open_other(t, t->s.val, true, &t->eval.data, err));
    return open_other(t, test, t->s.test != NULL, t->has_val ? &t->test.data : &t->eval.data, err);
}

int64_t ot_trainer_set_bytes(const ot_dataset *d) { return d ? ot_dataset_bytes(d) : 0; }

/* ---- of an evaluation ------------------------------------------------------------------ */

/* What --val-split keeps back in a training with the same --seed. */
static ot_status open_kept_back(ot_trainer *t, ot_error *err)
{
    const char *option = t->s.folds ? "folds" : "val-split";
    if (!t->s.data) return ot_fail(err, OT_E_USAGE, "--%s needs --data, the set that it is a part of", option);
    if (t->s.folds && !t->s.fold)
        return ot_fail(err, OT_E_USAGE, "--folds: expected one fold to evaluate, such as 2/5");
    t->eval.split = "val";
    /* What the model records applies; a model that records nothing was trained on what the rest of the set says. */
    bool recorded = ot_import_metadata(t->m->file, OT_PREPROCESS_KEY) != NULL;
    OT_TRY(open_part(t, t->s.data, OT_SPLIT_TRAIN, true, recorded, &t->data, err));
    OT_TRY(ot_trainer_number_classes(t, t->data, false, err));
    OT_TRY(t->s.folds
               ? ot_dataset_fold(t->data, t->s.fold, t->s.folds, t->s.seed, &t->eval.data, &t->split_classes, err)
               : ot_dataset_split(t->data, t->s.val_split, t->s.seed, &t->eval.data, &t->split_classes, err));
    OT_TRY(complete_sets(t, err));
    OT_TRY(ot_normalize_parse(t->s.normalize, &t->normalize, err));
    if (t->normalize.kind != OT_NORMALIZE_MEASURE || t->normalize.automatic) return OT_OK;
    ot_adapt_env e = ot_trainer_adapt_env(t);
    e.measure = true;
    e.notes = NULL;
    return ot_adapt_inputs(&e, t->data, &t->train, err);
}

ot_status ot_trainer_open_evaluation_set(ot_trainer *t, ot_error *err)
{
    const char *spec = t->s.test ? t->s.test : t->s.val ? t->s.val : t->s.data;
    if (!t->s.test && (t->s.val_split > 0 || t->s.folds)) return open_kept_back(t, err);
    t->eval.split = !t->s.test && t->s.val ? "val" : "test";
    OT_TRY(open_set(t, spec, OT_SPLIT_TEST, &t->eval.data, err));
    if (!t->eval.data && !t->s.test) {
        OT_TRY(open_set(t, spec, OT_SPLIT_VAL, &t->eval.data, err));
        if (t->eval.data) t->eval.split = "val";
    }
    bool whole = !t->eval.data && !t->s.test && !t->s.val; /* one set, of which nothing is kept for a test */
    if (!t->eval.data) OT_TRY(open_set(t, spec, OT_SPLIT_TRAIN, &t->eval.data, err));
    OT_TRY(ot_normalize_parse(t->s.normalize, &t->normalize, err));
    if (t->normalize.kind != OT_NORMALIZE_MEASURE || t->normalize.automatic) return OT_OK;
    if (whole && ot_import_metadata(t->m->file, OT_PREPROCESS_KEY))
        return ot_fail(
            err, OT_E_USAGE,
            "--normalize mean,std would use the statistics of %s instead of the training set, which the model "
            "records: omit --normalize",
            spec);
    if (whole)
        return ot_fail(err, OT_E_USAGE,
                       "--normalize mean,std would use the statistics of %s instead of the training "
                       "set. Give both sets (--data TRAINING --test %s), or the values that the "
                       "training printed: --normalize MEANS,STDS",
                       spec, spec);
    ot_adapt_env e = ot_trainer_adapt_env(t);
    e.measure = true;
    e.notes = NULL;
    OT_TRY(open_set(t, t->s.data ? t->s.data : spec, OT_SPLIT_TRAIN, &t->data, err));
    return ot_adapt_inputs(&e, t->data, &t->train, err);
}

ot_status ot_trainer_open_run_set(ot_trainer *t, ot_error *err)
{
    ot_scored none = t->test;
    if (t->has_val && t->s.test) {
        none = t->eval;
        t->eval = t->test;
    }
    ot_dataset_free(none.data);
    t->test = (ot_scored){ .slot = -1, .rest = -1 };
    t->eval.slot = t->eval.rest = -1;
    return t->eval.data ? OT_OK : open_set(t, t->s.data, OT_SPLIT_TRAIN, &t->eval.data, err);
}
