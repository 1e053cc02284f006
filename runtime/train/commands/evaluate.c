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
    const ot_plan *p = t->x.slot[t->eval.slot].plan;
    const ot_feeder *target = NULL;
    int n = 0;
    for (int i = 0; i < t->eval.fs.n; i++)
        if (t->eval.fs.f[i].target) target = &t->eval.fs.f[i], n++;
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
    const ot_dataset *d = t->eval.data;
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

/* Of classes: how many, precision, recall, F1 of each. */
static void print_classes(const ot_meter *m, const ot_dataset *d, FILE *f)
{
    ot_print(f, "\n%-12s %8s %10s %8s %8s\n", "class", "samples", "precision", "recall", "f1");
    for (int64_t c = 0; c < m->classes; c++) {
        char name[13];
        double v[3];
        ot_meter_class(m, c, v);
        snprintf(name, sizeof name, "%s", d->class_name && c < d->n_classes ? d->class_name[c] : "");
        ot_print(f, "%3lld %-8.8s %8lld %10.4f %8.4f %8.4f\n", (long long)c, name, (long long)m->is[c], v[0], v[1],
                 v[2]);
    }
}

static void print_measured(const ot_trainer *t, FILE *f)
{
    const ot_scored *e = &t->eval;
    for (int i = 0; i < e->n_measured; i++) {
        const char *output = t->x.slot[e->slot].plan->graph->outputs[e->measured[i].output]->name;
        for (int k = 0; k < OT_METRIC_COUNT; k++) {
            double v = ot_meter_value(&e->measured[i].meter, k);
            if (!isnan(v))
                ot_print(f, "%-9s %.6g%s%s\n", ot_metrics.entries[k]->name, v, e->n_measured > 1 ? "  " : "",
                         e->n_measured > 1 ? output : "");
        }
    }
}

static void print_text(const ot_trainer *t, FILE *f)
{
    double loss = t->eval.loss, accuracy = t->eval.accuracy;
    const ot_plan *p = t->x.slot[t->eval.slot].plan;
    ot_print(f, "samples   %lld\n", (long long)t->eval.fs.samples);
    if (!isnan(loss)) ot_print(f, "loss      %.6g\n", loss);
    for (int k = 0; k < p->n_heads; k++) ot_print(f, "          %.6g  %s\n", t->eval.head[k], p->head[k].output);
    if (!isnan(accuracy) && !p->n_heads) ot_print(f, "accuracy  %.4f %%\n", 100 * accuracy);
    for (int k = 0, n = 0; k < p->n_heads; k++)
        if (!isnan(t->eval.right[k]))
            ot_print(f, "%s  %.4f %%  %s\n", n++ ? "        " : "accuracy", 100 * t->eval.right[k], p->head[k].output);
    print_measured(t, f);
    for (int i = 0; i < t->eval.n_measured; i++) {
        const ot_meter *m = &t->eval.measured[i].meter;
        if (m->kind == OT_METER_CLASSES && m->classes <= MOST_CLASSES) print_classes(m, t->eval.data, f);
    }
    if (t->confusion && t->classes <= 20) print_confusion(t, f);
}

static void fill_json(const ot_trainer *t, ot_page *p)
{
    ot_json_set(&p->json, "model", ot_json_text(t->m->file->path));
    ot_json_set(&p->json, "data", ot_json_text(t->eval.data->name));
    ot_json_set(&p->json, "samples", json_integer(t->eval.fs.samples));
    ot_log_scores(&p->json, t, &t->eval);
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
    ot_page p;
    OT_TRY(ot_trainer_open_evaluation(t, err));
    OT_TRY(want_confusion(t, err));
    t->eval.all = true;
    OT_TRY(ot_trainer_score(t, &t->eval, err));
    OT_TRY(ot_page_open(&p, t->s.json, err));
    if (t->s.json) fill_json(t, &p);
    else print_text(t, p.f);
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
