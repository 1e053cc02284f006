/* evaluate.c - the command eval: loss, accuracy, confusion matrix. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/train/commands/inspect.h"
#include "runtime/train/run/metrics.h"
#include "runtime/train/run/trainer.h"

enum { MOST_CLASSES = 100 };

/* A confusion matrix makes sense for one output (N, C) and one target of class numbers. */
static ot_status want_confusion(ot_trainer *t, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->evaluation].plan;
    const ot_feeder *target = NULL;
    int n = 0;
    for (int i = 0; i < t->eval.n; i++)
        if (t->eval.f[i].target) target = &t->eval.f[i], n++;
    if (n != 1 || !ot_is_int(target->dtype) || target->sample.rank != 0 || p->graph->n_outputs != 1) return OT_OK;
    const ot_value *y = p->graph->outputs[0];
    if (y->shape.rank != 2 || y->shape.dim[1] < 2 || y->shape.dim[1] > MOST_CLASSES) return OT_OK;
    t->classes = y->shape.dim[1];
    t->confusion = ot_arena_alloc(t->a, (size_t)(t->classes * t->classes) * sizeof *t->confusion);
    t->answers = ot_arena_alloc(t->a, ot_bytes(&y->shape, y->dtype) + 1); /* the last batch is smaller */
    return t->confusion && t->answers ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the confusion matrix");
}

static void print_confusion(const ot_trainer *t, FILE *f)
{
    const ot_dataset *d = t->eval_data;
    ot_print(f,
             "\n"
             "confusion matrix: rows are true classes, columns are predicted classes\n"
             "%12s",
             "");
    for (int64_t c = 0; c < t->classes; c++) ot_print(f, " %6lld", (long long)c);
    ot_print(f, "   recall\n");
    for (int64_t r = 0; r < t->classes; r++) {
        int64_t all = 0, *row = t->confusion + r * t->classes;
        char name[13];
        snprintf(name, sizeof name, "%s", d->class_name && r < d->n_classes ? d->class_name[r] : "");
        ot_print(f, "%3lld %-8.8s", (long long)r, name);
        for (int64_t c = 0; c < t->classes; c++) all += row[c];
        for (int64_t c = 0; c < t->classes; c++) ot_print(f, " %6lld", (long long)row[c]);
        if (all) ot_print(f, "  %6.2f %%\n", 100.0 * (double)row[r] / (double)all);
        else ot_print(f, "       -\n");
    }
}

void ot_log_heads(json_t **event, const ot_trainer *t)
{
    const ot_plan *p = t->x.slot[t->evaluation].plan;
    if (!p->n_heads) return;
    json_t *losses = json_object(), *right = json_object();
    for (int k = 0; k < p->n_heads; k++) {
        char name[1000];
        const char *shown = ot_shown(p->head[k].output, name, sizeof name);
        double v = t->evaluated_head[k], share = t->evaluated_right[k];
        ot_json_set(&losses, shown, isfinite(v) ? json_real(v) : json_null());
        if (!isnan(share)) ot_json_set(&right, shown, json_real(share));
    }
    ot_json_set(event, "losses", losses);
    if (!right || json_object_size(right)) ot_json_set(event, "accuracies", right);
    else json_decref(right);
}

const char *ot_trainer_accuracies(const ot_trainer *t, double accuracy, char buf[600])
{
    const ot_plan *p = t->x.slot[t->evaluation].plan;
    int n = 0;
    size_t at = 0;
    *buf = '\0';
    for (int k = 0; k < p->n_heads; k++) n += !isnan(t->evaluated_right[k]);
    if (n < 2 && !isnan(accuracy)) snprintf(buf, 600, "accuracy %.2f %%", 100 * accuracy);
    for (int k = 0; k < p->n_heads && n > 1 && at < 500; k++)
        if (!isnan(t->evaluated_right[k]))
            at += (size_t)snprintf(buf + at, 600 - at, "%s%.60s %.2f %%", at ? ", " : "accuracy ", p->head[k].output,
                                   100 * t->evaluated_right[k]);
    return buf;
}

static void print_text(const ot_trainer *t, double loss, double accuracy, FILE *f)
{
    const ot_plan *p = t->x.slot[t->evaluation].plan;
    ot_print(f, "samples   %lld\n", (long long)t->eval.samples);
    if (!isnan(loss)) ot_print(f, "loss      %.6g\n", loss);
    for (int k = 0; k < p->n_heads; k++) ot_print(f, "          %.6g  %s\n", t->evaluated_head[k], p->head[k].output);
    if (!isnan(accuracy) && !p->n_heads) ot_print(f, "accuracy  %.4f %%\n", 100 * accuracy);
    for (int k = 0, n = 0; k < p->n_heads; k++)
        if (!isnan(t->evaluated_right[k]))
            ot_print(f, "%s  %.4f %%  %s\n", n++ ? "        " : "accuracy", 100 * t->evaluated_right[k],
                     p->head[k].output);
    if (t->confusion && t->classes <= 20) print_confusion(t, f);
}

static void fill_json(const ot_trainer *t, double loss, double accuracy, ot_page *p)
{
    ot_json_set(&p->json, "model", ot_json_text(t->m->file->path));
    ot_json_set(&p->json, "data", ot_json_text(t->eval_data->name));
    ot_json_set(&p->json, "samples", json_integer(t->eval.samples));
    ot_json_real(&p->json, ot_metrics.entries[OT_METRIC_LOSS]->name, loss);
    ot_log_heads(&p->json, t);
    if (!isnan(accuracy)) ot_json_real(&p->json, ot_metrics.entries[OT_METRIC_ACCURACY]->name, accuracy);
    if (!t->confusion) return;
    json_t *m = json_array();
    for (int64_t r = 0; r < t->classes; r++) {
        json_t *row = json_array();
        for (int64_t c = 0; c < t->classes; c++) ot_json_add(&row, json_integer(t->confusion[r * t->classes + c]));
        ot_json_add(&m, row);
    }
    ot_json_set(&p->json, "confusion", m);
}

static ot_status evaluate(ot_trainer *t, char **text, ot_error *err)
{
    double loss, accuracy;
    ot_page p;
    OT_TRY(ot_trainer_open_evaluation(t, err));
    OT_TRY(want_confusion(t, err));
    OT_TRY(ot_trainer_evaluate(t, &loss, &accuracy, err));
    OT_TRY(ot_page_open(&p, t->s.json, err));
    if (t->s.json) fill_json(t, loss, accuracy, &p);
    else print_text(t, loss, accuracy, p.f);
    return ot_page_close(&p, text, err);
}

ot_status ot_eval_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text, ot_error *err)
{
    OT_GIVEN(text);
    OT_GIVEN(m);
    OT_GIVEN(o);
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    *text = NULL;
    OT_TRY(ot_trainer_begin(m, o, cb, &t, err));
    ot_status s = evaluate(t, text, &first);
    ot_trainer_free(t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
