/* evaluate.c - the command eval, of a model or of a run: loss, accuracy, confusion matrix. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/commands/inspect.h"
#include "runtime/train/commands/series.h"
#include "runtime/train/run/checkpoint.h"
#include "runtime/train/options/metrics.h"

enum {
    MOST_CLASSES = 100,
    MOST_PRINTED = 20 /* of a confusion matrix */,
    NAME = 16 /* columns */,
    NAME_BYTES = 4 * NAME + 1
};

/* The names of the classes of one target. */
typedef struct names {
    const char *const *name;
    int n;
} names;

/* The classes of the target of feeder i of the evaluated set. */
static ot_status find_names(const ot_trainer *t, int i, const char *output, names *out, ot_error *err)
{
    *out = (names){ 0 };
    return i < 0 ? OT_OK : ot_trainer_class_names(t, &t->eval, i, output, &out->name, &out->n, err);
}

static ot_status names_measured(const ot_trainer *t, const ot_measured *m, names *out, ot_error *err)
{
    return find_names(t, m->feeder, t->m->outputs[m->output], out, err);
}

static const char *name_of(const names *c, int64_t i) { return i < c->n ? c->name[i] : ""; }

/* Correct predictions, predictions and targets of class c; those of class 0 of a binary output follow from class 1. */
static void count_class(const ot_meter *m, int64_t c, int64_t out[3])
{
    bool no = m->kind == OT_METER_BINARY && c == 0;
    int64_t k = m->kind == OT_METER_BINARY ? 0 : c;
    out[0] = no ? m->n - m->said[0] - m->is[0] + m->right[0] : m->right[k];
    out[1] = no ? m->n - m->said[0] : m->said[k];
    out[2] = no ? m->n - m->is[0] : m->is[k];
}

/* Number of classes, if the output predicts one class per sample; else 0. */
static int64_t classes_of(const ot_meter *m)
{
    if (m->kind == OT_METER_BINARY) return m->columns == 1 && !m->mask && !m->text ? 2 : 0;
    return m->kind == OT_METER_CLASSES ? m->classes : 0;
}

/* Writes number, precision, recall and F1 of each class. */
static void print_classes(const ot_meter *m, const names *d, FILE *f)
{
    ot_print(f, "\n%-*s %8s %10s %8s %8s\n", NAME + 4, "class", "samples", "precision", "recall", "f1");
    for (int64_t c = 0; c < classes_of(m); c++) {
        char name[NAME_BYTES];
        double v[3];
        int64_t of[3];
        count_class(m, c, of);
        ot_meter_scores(of[0], of[1], of[2], v);
        ot_shown_in(name_of(d, c), NAME, name, sizeof name);
        ot_print(f, "%3lld %s %8lld %10.4f %8.4f %8.4f\n", (long long)c, name, (long long)of[2], v[0], v[1], v[2]);
    }
}

/* ---- labels and columns ----------------------------------------------------------------- */

/* Number of labels or columns of an output (N, C) that are listed. */
static int64_t parts_of(const ot_trainer *t, const ot_measured *m)
{
    const ot_value *y = t->x.slot[t->eval.slot].plan->graph->outputs[m->output];
    int64_t n = ot_meter_parts(&m->meter);
    return y->shape.rank == 2 && n <= MOST_CLASSES ? n : 0;
}

/* The names of labels or columns; n 0: none. */
static ot_status names_of_parts(const ot_trainer *t, const ot_measured *m, names *out, ot_error *err)
{
    const ot_array *a = &t->eval.data->array[t->eval.fs.f[m->feeder].array];
    int64_t n = parts_of(t, m);
    out->name = ot_dataset_target_columns(t->eval.data, a, &out->n);
    if (out->n != n && m->meter.kind == OT_METER_BINARY) OT_TRY(names_measured(t, m, out, err));
    if (out->n != n) *out = (names){ 0 };
    return OT_OK;
}

static ot_status print_parts(const ot_trainer *t, const ot_measured *d, FILE *f, ot_error *err)
{
    static const int of_labels[] = { OT_METRIC_PRECISION, OT_METRIC_RECALL, OT_METRIC_F1, OT_METRIC_AUC },
                     of_values[] = { OT_METRIC_MAE, OT_METRIC_RMSE, OT_METRIC_R2 };
    const ot_meter *m = &d->meter;
    bool labels = m->kind == OT_METER_BINARY;
    const int *metric = labels ? of_labels : of_values;
    names of;
    OT_TRY(names_of_parts(t, d, &of, err));
    ot_print(f, "\n%-*s", NAME + 4, labels ? "label" : "column");
    if (labels) ot_print(f, " %8s", "samples");
    for (int i = 0; i < (labels ? OT_LEN(of_labels) : OT_LEN(of_values)); i++)
        ot_print(f, " %10s", ot_metrics.entries[metric[i]]->name);
    for (int64_t k = 0; k < parts_of(t, d); k++) {
        char name[NAME_BYTES];
        ot_shown_in(name_of(&of, k), NAME, name, sizeof name);
        ot_print(f, "\n%3lld %s", (long long)k, name);
        if (labels) ot_print(f, " %8lld", (long long)m->is[k]);
        for (int i = 0; i < (labels ? OT_LEN(of_labels) : OT_LEN(of_values)); i++) {
            double v = ot_meter_part(m, k, metric[i]);
            if (isnan(v)) ot_print(f, " %10s", "-");
            else ot_print(f, labels ? " %10.4f" : " %10.5g", v);
        }
    }
    ot_print(f, "\n");
    return OT_OK;
}

/* A list of objects, one for each label or column. */
static ot_status list_parts(const ot_trainer *t, const ot_measured *d, json_t **list, ot_error *err)
{
    const ot_meter *m = &d->meter;
    names of;
    OT_TRY(names_of_parts(t, d, &of, err));
    for (int64_t k = 0; k < parts_of(t, d); k++) {
        json_t *one = json_object();
        if (of.n) ot_json_set(&one, "name", ot_json_text(of.name[k]));
        if (m->kind == OT_METER_BINARY) ot_json_set(&one, "samples", json_integer(m->is[k]));
        for (int i = 0; i < OT_METRIC_COUNT; i++) {
            double v = ot_meter_part(m, k, i);
            if (!isnan(v)) ot_json_real(&one, ot_metrics.entries[i]->name, v);
        }
        ot_json_add(list, one);
    }
    return OT_OK;
}

/* "labels", "columns": by output if several are measured. */
static ot_status fill_parts(const ot_trainer *t, json_t **json, ot_error *err)
{
    const ot_scored *e = &t->eval;
    json_t *all[2] = { json_object(), json_object() };
    ot_status s = OT_OK;
    for (int i = 0; i < e->n_measured && !s; i++) {
        const ot_measured *d = &e->measured[i];
        bool values = d->meter.kind == OT_METER_VALUES;
        char name[1000];
        json_t *list = json_array();
        if (!parts_of(t, d)) {
            json_decref(list);
            continue;
        }
        s = list_parts(t, d, &list, err);
        if (e->n_measured == 1) ot_json_set(json, values ? "columns" : "labels", list);
        else ot_json_set(&all[values], ot_shown(t->m->outputs[d->output], name, sizeof name), list);
    }
    for (int k = 0; k < 2; k++)
        if (all[k] && json_object_size(all[k])) ot_json_set(json, k ? "columns" : "labels", all[k]);
        else json_decref(all[k]);
    return s;
}

/* ---- confusion matrix -------------------------------------------------------------------- */

/* [target][prediction] of the only output that is measured; n 0: there is none. */
typedef struct confusion {
    int64_t n, of_two[4];
    const int64_t *count;
} confusion;

static confusion find_confusion(const ot_trainer *t)
{
    int64_t no[3], yes[3];
    confusion c = { 0 };
    const ot_meter *m = t->eval.n_measured == 1 ? &t->eval.measured[0].meter : NULL;
    if (m && m->kind == OT_METER_CLASSES && m->confusion) return (confusion){ .n = m->classes, .count = m->confusion };
    if (!m || m->kind != OT_METER_BINARY || classes_of(m) != 2) return c;
    count_class(m, 0, no);
    count_class(m, 1, yes);
    c = (confusion){ 2, { no[0], no[2] - no[0], yes[2] - yes[0], yes[0] }, NULL };
    c.of_two[1] -= m->odd - m->odd_yes, c.of_two[2] -= m->odd_yes; /* NaN is counted as the other class, and is none */
    return c;
}

static int64_t confused(const confusion *c, int64_t target, int64_t answer)
{
    return (c->count ? c->count : c->of_two)[target * c->n + answer];
}

static ot_status print_confusion(const ot_trainer *t, FILE *f, ot_error *err)
{
    names of;
    const confusion c = find_confusion(t);
    int64_t most = 0;
    if (!c.n || c.n > MOST_PRINTED) return OT_OK;
    OT_TRY(names_measured(t, &t->eval.measured[0], &of, err));
    for (int64_t i = 0; i < c.n * c.n; i++) most = most > confused(&c, 0, i) ? most : confused(&c, 0, i);
    int width = snprintf(NULL, 0, "%lld", (long long)most);
    if (width < 6) width = 6;
    ot_print(f,
             "\n"
             "confusion matrix: rows are true classes, columns are predicted classes\n"
             "%*s",
             NAME + 4, "");
    for (int64_t i = 0; i < c.n; i++) ot_print(f, " %*lld", width, (long long)i);
    ot_print(f, "   recall\n");
    for (int64_t r = 0; r < c.n; r++) {
        int64_t all = 0;
        char name[NAME_BYTES];
        ot_shown_in(name_of(&of, r), NAME, name, sizeof name);
        ot_print(f, "%3lld %s", (long long)r, name);
        for (int64_t i = 0; i < c.n; i++) all += confused(&c, r, i);
        for (int64_t i = 0; i < c.n; i++) ot_print(f, " %*lld", width, (long long)confused(&c, r, i));
        if (all) ot_print(f, "  %6.2f %%\n", 100.0 * (double)confused(&c, r, r) / (double)all);
        else ot_print(f, "       -\n");
    }
    return OT_OK;
}

/* Names what precision, recall and F1 are averaged over. */
static void print_average(const ot_meter *m, const names *d, FILE *f)
{
    const char *yes = d->n == 2 ? d->name[1] : NULL;
    if (m->kind == OT_METER_CLASSES) ot_print(f, "          precision, recall and f1 are means over the classes\n");
    else if (m->kind == OT_METER_BINARY && m->labels > 1)
        ot_print(
            f,
            "          accuracy is that of single labels, not of samples with all labels correct; precision, recall and f1 are "
            "means over the labels\n");
    else if (m->kind == OT_METER_BINARY)
        ot_print(f, "          precision, recall and f1 are those of class 1%s%s%s\n", yes ? " (" : "", yes ? yes : "",
                 yes ? ")" : "");
}

static ot_status print_measured(const ot_trainer *t, FILE *f, ot_error *err)
{
    const ot_scored *e = &t->eval;
    for (int i = 0; i < e->n_measured; i++) {
        names of;
        OT_TRY(names_measured(t, &e->measured[i], &of, err));
        const char *output = t->m->outputs[e->measured[i].output]; /* in the plan another operator may compute it */
        const ot_meter *m = &e->measured[i].meter;
        for (int k = 0; k < OT_METRIC_COUNT; k++) {
            double v = ot_meter_value(m, k);
            if (!isnan(v))
                ot_print(f, "%-9s %.6g%s%s\n", ot_metrics.entries[k]->name, v, e->n_measured > 1 ? "  " : "",
                         e->n_measured > 1 ? output : "");
            if (!isnan(v) && k == OT_METRIC_F1) print_average(m, &of, f);
        }
    }
    return OT_OK;
}

static ot_status print_text(const ot_trainer *t, FILE *f, ot_error *err)
{
    double loss = t->eval.loss, accuracy = t->eval.accuracy;
    const ot_plan *p = t->x.slot[t->eval.slot].plan;
    ot_print(f, "samples   %lld\n", (long long)t->eval.fs.samples);
    if (!isnan(loss)) ot_print(f, "loss      %.6g\n", loss);
    else if (p->n_losses) ot_print(f, "loss      nan\n");
    for (int k = 0; k < p->n_heads; k++) ot_print(f, "          %.6g  %s\n", t->eval.head[k], p->head[k].name);
    if (!isnan(accuracy) && !p->n_heads) ot_print(f, "accuracy  %.4f %%\n", 100 * accuracy);
    for (int k = 0, n = 0; k < p->n_heads; k++)
        if (!isnan(t->eval.right[k]))
            ot_print(f, "%s  %.4f %%  %s\n", n++ ? "        " : "accuracy", 100 * t->eval.right[k], p->head[k].output);
    OT_TRY(print_measured(t, f, err));
    for (int i = 0; i < t->eval.n_measured; i++) {
        const ot_meter *m = &t->eval.measured[i].meter;
        names of;
        OT_TRY(names_measured(t, &t->eval.measured[i], &of, err));
        bool classes = classes_of(m) && classes_of(m) <= MOST_CLASSES;
        if (!classes && !parts_of(t, &t->eval.measured[i])) continue;
        if (t->eval.n_measured > 1) ot_print(f, "\noutput '%s'", t->m->outputs[t->eval.measured[i].output]);
        if (classes) print_classes(m, &of, f);
        else OT_TRY(print_parts(t, &t->eval.measured[i], f, err));
    }
    return print_confusion(t, f, err);
}

static ot_status fill_json(const ot_trainer *t, ot_page *p, ot_error *err)
{
    ot_json_set(&p->json, "model", ot_json_text(t->m->file->path));
    ot_json_set(&p->json, "data", ot_json_text(t->eval.data->name));
    ot_json_set(&p->json, "split", json_string(t->eval.split));
    ot_json_set(&p->json, "samples", json_integer(t->eval.fs.samples));
    ot_log_scores(&p->json, t, &t->eval);
    OT_TRY(fill_parts(t, &p->json, err));
    const confusion c = find_confusion(t);
    if (!c.n) return OT_OK;
    json_t *m = json_array();
    for (int64_t r = 0; r < c.n; r++) {
        json_t *row = json_array();
        for (int64_t i = 0; i < c.n; i++) ot_json_add(&row, json_integer(confused(&c, r, i)));
        ot_json_add(&m, row);
    }
    ot_json_set(&p->json, "confusion", m);
    return OT_OK;
}

static void warn_of_nan(const ot_trainer *t)
{
    int64_t odd = 0, n = 0;
    for (int i = 0; i < t->eval.n_measured; i++) odd += t->eval.measured[i].meter.odd, n += t->eval.measured[i].meter.n;
    if (odd)
        ot_trainer_say(t, OT_WARNING,
                       "%lld of %lld answers have outputs that are NaN: they count as wrong, and are in no "
                       "confusion matrix",
                       (long long)odd, (long long)n);
    else if (isnan(t->eval.loss) && t->x.slot[t->eval.slot].plan->n_losses)
        ot_trainer_say(t, OT_WARNING,
                       "the loss is NaN: outputs or targets are NaN, infinite, or outside of the domain of the loss");
}

/* Which samples and weights are evaluated: the data of ..., the weights of ... */
typedef enum source {
    OF_MODEL,    /* the options' and the model's */
    OF_BEST,     /* the run's and the model's, its best */
    OF_LAST,     /* the run's and its checkpoint's */
    OF_BEST_RUN, /* as OF_BEST, but no checkpoint has what the training measured of its data: it is measured again */
} source;

/* c: the run's checkpoint; NULL: there is none. */
static ot_status evaluate(ot_trainer *t, const ot_checkpoint *c, source from, char **text, ot_error *err)
{
    ot_page p;
    bool last = from == OF_LAST;
    OT_TRY(last || from == OF_BEST_RUN ? ot_trainer_open_run(t, err) : ot_trainer_open_evaluation(t, err));
    if (c) OT_TRY(last ? ot_checkpoint_weights(c, t, err) : ot_checkpoint_check_split(c, t, err));
    t->eval.all = true;
    OT_TRY(ot_trainer_score(t, &t->eval, err));
    OT_TRY(ot_import_intact(t->m->file, err)); /* weights that are pages of a file */
    warn_of_nan(t);
    OT_TRY(ot_page_open(&p, t->s.json, err));
    ot_error why = { 0 };
    if (t->s.json) fill_json(t, &p, &why);
    else print_text(t, p.f, &why);
    ot_status s = ot_page_close(&p, text, err);
    if (!why.status) return s;
    free(*text);
    *text = NULL;
    return ot_fail(err, why.status, "%s", why.text);
}

static ot_status eval_text(const ot_model *m, const ot_checkpoint *c, source from, const ot_options *o,
                           const ot_callbacks *cb, char **text, ot_error *err)
{
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    OT_TRY(ot_trainer_begin(m, o, cb, &t, err));
    ot_status s = evaluate(t, c, from, text, &first);
    ot_trainer_free(t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}

ot_status ot_eval_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    *text = NULL;
    OT_GIVEN(m);
    OT_GIVEN(o);
    return eval_text(m, NULL, OF_MODEL, o, cb, text, err);
}

/* --data or --val of the command is the set to evaluate on; inputs are scaled as in the training, by the run's data. */
static ot_status take_sets(ot_options *o, ot_error *err)
{
    static const char *const sets[] = { "val", "data" }, *const fixed[] = { "val-split", "folds", "seed" };
    for (int i = 0; i < OT_LEN(fixed); i++)
        if (ot_options_nth(o, fixed[i], 0))
            return ot_fail(
                err, OT_E_USAGE,
                "eval RUN: --%s: the run's own value decides which samples it has not trained on; remove this "
                "option, or evaluate the model's file",
                fixed[i]);
    for (int i = 0; i < OT_LEN(sets) && !ot_options_nth(o, "test", 0); i++) {
        const char *set;
        if (!ot_options_count(o, sets[i])) continue;
        for (int k = 0; (set = ot_options_nth(o, sets[i], k)); k++) OT_TRY(ot_options_set(o, "test", set, err));
        ot_options_unset(o, sets[i]);
    }
    return OT_OK;
}

static void say(const ot_callbacks *cb, ot_level level, const char *fmt, ...) OT_PRINTF(3, 4);
static void say(const ot_callbacks *cb, ot_level level, const char *fmt, ...)
{
    char line[OT_ERROR_TEXT];
    va_list ap;
    if (!cb || !cb->message) return;
    va_start(ap, fmt);
    ot_vtext(line, sizeof line, fmt, ap);
    va_end(ap);
    cb->message(cb->user, level, line);
}

/* c NULL: there is no usable checkpoint, and o has the options of the run's options.conf. */
static ot_status eval_run(ot_checkpoint *c, const char *run_dir, const ot_options *o, const ot_callbacks *cb,
                          char **text, ot_error *err)
{
    bool best = !c || !strcmp(ot_options_get(o, "select"), "best");
    char *of_best = NULL;
    if (best && asprintf(&of_best, "%s/best.onnx", run_dir) < 0)
        return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    const char *path = best ? of_best : ot_checkpoint_model(c);
    ot_model *m = NULL;
    ot_status s = path ? ot_model_load(path, &m, err) : ot_fail(err, OT_E_NOMEM, "no memory for a path");
    if (!s) say(cb, OT_INFO, "weights: %s of %s", best ? "the best" : "the last", run_dir);
    if (!s) s = eval_text(m, c, !best ? OF_LAST : c ? OF_BEST : OF_BEST_RUN, o, cb, text, err);
    ot_model_free(m);
    free(of_best);
    return s;
}

static bool has_file(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) return false;
    bool there = !access(path, R_OK);
    free(path);
    return there;
}

/* Without a usable checkpoint: evaluates best.onnx, unless the options select the last weights. */
static ot_status eval_best(const char *run_dir, ot_options *o, const ot_error *why, const ot_callbacks *cb, char **text,
                           ot_error *err)
{
    const char *select = ot_options_nth(o, "select", 0);
    char *conf = NULL;
    if (why->status != OT_E_IO || (select && strcmp(select, "best")) || !has_file(run_dir, "best.onnx"))
        return ot_fail(err, why->status, "%-s", why->text);
    say(cb, OT_WARNING, "%-s; evaluating best.onnx with the options of options.conf", why->text);
    if (asprintf(&conf, "%s/options.conf", run_dir) < 0) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    ot_status s = ot_options_set(o, "config", conf, err);
    free(conf);
    return s ? s : eval_run(NULL, run_dir, o, cb, text, err);
}

ot_status ot_eval_run_text(const char *run_dir, ot_options *o, const ot_callbacks *cb, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    *text = NULL;
    OT_GIVEN(run_dir);
    OT_GIVEN(o);
    ot_checkpoint *c = NULL;
    ot_error why = { 0 };
    OT_TRY(ot_series_refuse(run_dir, "eval", err));
    OT_TRY(take_sets(o, err));
    if (ot_checkpoint_open(run_dir, cb, &c, &why)) return eval_best(run_dir, o, &why, cb, text, err);
    ot_status s = ot_checkpoint_options(c, o, err);
    if (!s) s = eval_run(c, run_dir, o, cb, text, err);
    ot_checkpoint_free(c);
    return s;
}
