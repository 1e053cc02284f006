/* evaluate.c - the command eval: loss, accuracy, confusion matrix. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/trainer.h"

enum { MOST_CLASSES = 100 };

/* A confusion matrix makes sense for one output (N, C) and one target of class numbers. */
static ot_status want_confusion(ot_trainer *t, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->evaluation].plan;
    const ot_feeder *target = NULL;
    int n = 0;
    for (int i = 0; i < t->eval.n; i++)
        if (t->eval.f[i].target) target = &t->eval.f[i], n++;
    if (n != 1 || !ot_is_int(target->dtype) || target->sample.rank != 0 || p->graph->n_outputs != 1)
        return OT_OK;
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
    ot_print(f, "\nconfusion matrix: rows are the true classes, columns the predicted ones\n%12s", "");
    for (int64_t c = 0; c < t->classes; c++) ot_print(f, " %6lld", (long long)c);
    ot_print(f, "   recall\n");
    for (int64_t r = 0; r < t->classes; r++) {
        int64_t all = 0, *row = t->confusion + r * t->classes;
        char name[13];
        snprintf(name, sizeof name, "%s",
                 d->class_name && r < d->n_classes ? d->class_name[r] : "");
        ot_print(f, "%3lld %-8.8s", (long long)r, name);
        for (int64_t c = 0; c < t->classes; c++) all += row[c];
        for (int64_t c = 0; c < t->classes; c++) ot_print(f, " %6lld", (long long)row[c]);
        if (all) ot_print(f, "  %6.2f %%\n", 100.0 * (double)row[r] / (double)all);
        else ot_print(f, "       -\n");
    }
}

void ot_log_losses(json_t *event, const ot_plan *p, const double *v)
{
    json_t *all = p->n_heads ? json_object() : NULL;
    for (int k = 0; all && k < p->n_heads; k++) {
        char name[1000];
        json_object_set_new(all, ot_shown(p->head[k].output, name, sizeof name), isfinite(v[k]) ? json_real(v[k]) : json_null());
    }
    if (all) json_object_set_new(event, "losses", all);
}

static void print_text(const ot_trainer *t, double loss, double accuracy, FILE *f)
{
    const ot_plan *p = t->x.slot[t->evaluation].plan;
    ot_print(f, "samples   %lld\n", (long long)t->eval.samples);
    if (!isnan(loss)) ot_print(f, "loss      %.6g\n", loss);
    for (int k = 0; k < p->n_heads; k++) ot_print(f, "          %.6g  %s\n", t->evaluated_head[k], p->head[k].output);
    if (!isnan(accuracy)) ot_print(f, "accuracy  %.4f %%%s%s\n", 100 * accuracy, p->n_heads ? "  " : "", p->n_heads ? p->counted_of : "");
    if (t->confusion && t->classes <= 20) print_confusion(t, f);
}

static char *json_text(const ot_trainer *t, double loss, double accuracy)
{
    json_t *o = json_pack("{s:o, s:o, s:I}", "model", ot_json_text(t->m->file->path), "data", ot_json_text(t->eval_data->name),
                          "samples", (json_int_t)t->eval.samples);
    if (!o) return NULL;
    ot_log_real(o, "loss", loss);
    ot_log_losses(o, t->x.slot[t->evaluation].plan, t->evaluated_head);
    if (!isnan(accuracy)) ot_log_real(o, "accuracy", accuracy);
    if (t->confusion) {
        json_t *m = json_array();
        for (int64_t r = 0; r < t->classes; r++) {
            json_t *row = json_array();
            for (int64_t c = 0; c < t->classes; c++)
                json_array_append_new(row, json_integer(t->confusion[r * t->classes + c]));
            json_array_append_new(m, row);
        }
        json_object_set_new(o, "confusion", m);
    }
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(12)), *line = NULL;
    json_decref(o);
    if (text && asprintf(&line, "%s\n", text) < 0) line = NULL;
    free(text);
    return line;
}

static ot_status evaluate(ot_trainer *t, char **text, ot_error *err)
{
    double loss, accuracy;
    size_t size = 0;
    OT_TRY(ot_trainer_open_evaluation(t, err));
    OT_TRY(want_confusion(t, err));
    OT_TRY(ot_trainer_evaluate(t, &loss, &accuracy, err));
    if (t->s.json) {
        *text = json_text(t, loss, accuracy);
    } else {
        FILE *f = open_memstream(text, &size);
        if (!f) return ot_fail(err, OT_E_NOMEM, "no memory for the result");
        print_text(t, loss, accuracy, f);
        if (fclose(f)) {
            free(*text);
            *text = NULL;
        }
    }
    return *text ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the result");
}

ot_status ot_eval_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text,
                       ot_error *err)
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
