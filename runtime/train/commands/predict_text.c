/* predict_text.c - writes predictions as lines of CSV and JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/train/commands/predict_text.h"
#include "runtime/train/run/log.h"

static double probability_of(const ot_prediction *a, int64_t place, int64_t c)
{
    const double *v = a->v + place * a->classes;
    return a->classes > 1 ? v[c] : c ? v[0] : 1 - v[0]; /* one score: of class 1 */
}

/* The name of what value k is the probability of, or predicts. */
static const char *label_of(const ot_prediction *a, int64_t k)
{
    if (a->task == OT_TASK_VALUES) return a->column ? a->column[k] : NULL;
    return a->task == OT_TASK_LABELS && a->class_name ? a->class_name[a->each > 1 ? k : 1] : NULL;
}

static int64_t classes_of_one(const ot_prediction *a) { return a->classes > 1 ? a->classes : 2; }

/* The most probable classes, of equal ones the first; returns how many. */
static int64_t rank(ot_prediction *a, int64_t place, int64_t top)
{
    int64_t n = 0;
    for (int64_t c = 0; c < classes_of_one(a); c++) {
        int64_t at = n < top ? n++ : top;
        for (; at > 0 && probability_of(a, place, a->best[at - 1]) < probability_of(a, place, c); at--)
            if (at < n) a->best[at] = a->best[at - 1];
        if (at < n) a->best[at] = c;
    }
    return n;
}

/* ---- CSV ----------------------------------------------------------------------------------- */

static void put_column(const ot_prediction_lines *x, const ot_prediction *a, const char *what, const char *of,
                       int64_t number)
{
    char name[1024], shown[512], which[512] = "";
    if (x->n > 1) snprintf(which, sizeof which, "%s.", ot_shown(a->name, shown, sizeof shown));
    if (number >= 0) snprintf(name, sizeof name, "%s%s%s_%lld", which, what, of, (long long)number);
    else snprintf(name, sizeof name, "%s%s%s", which, what, of);
    if (x->sought) {
        *x->found |= !strcmp(x->sought, name);
        return;
    }
    fputc(',', x->f);
    ot_csv_text(name, x->f);
}

static void class_columns(const ot_prediction_lines *x, const ot_prediction *a, int64_t place)
{
    char of[32] = "";
    int64_t top = x->top < classes_of_one(a) ? x->top : classes_of_one(a);
    if (a->places > 1 || a->by_word) snprintf(of, sizeof of, "[%lld]", (long long)place);
    for (int64_t r = 0; r < top; r++) {
        put_column(x, a, "class", of, r ? r + 1 : -1);
        if (a->class_name) put_column(x, a, "class_name", of, r ? r + 1 : -1);
        put_column(x, a, "probability", of, r ? r + 1 : -1);
    }
}

static void head_of(const ot_prediction_lines *x, const ot_prediction *a)
{
    char shown[512];
    if (a->task == OT_TASK_CLASSES)
        for (int64_t p = 0; p < (a->by_word ? x->most : a->places); p++) class_columns(x, a, p);
    else
        for (int64_t k = 0; k < a->each; k++) {
            const char *of = label_of(a, k);
            if (of) put_column(x, a, "", ot_shown(of, shown, sizeof shown), -1);
            else
                put_column(x, a, x->n > 1 ? "value" : ot_shown(a->name, shown, sizeof shown), "", a->each > 1 ? k : -1);
        }
}

/* place -1: it has none. */
static void put_classes(const ot_prediction_lines *x, ot_prediction *a, int64_t place)
{
    for (int64_t r = 0; place < 0 && r < x->top && r < classes_of_one(a); r++)
        fputs(a->class_name ? ",,," : ",,", x->f);
    if (place < 0) return;
    for (int64_t r = 0, n = rank(a, place, x->top); r < n; r++) {
        fprintf(x->f, ",%lld", (long long)a->best[r]);
        if (a->class_name) {
            char name[1024];
            fputc(',', x->f);
            ot_csv_text(ot_shown(a->class_name[a->best[r]], name, sizeof name), x->f);
        }
        fprintf(x->f, ",%.6g", probability_of(a, place, a->best[r]));
    }
}

static void row_of(const ot_prediction_lines *x, ot_prediction *a)
{
    if (a->task != OT_TASK_CLASSES) {
        for (int64_t k = 0; k < a->each; k++)
            if (a->whole) fprintf(x->f, a->dtype == OT_U64 ? ",%llu" : ",%lld", (long long)a->whole[k]);
            else if (isnan(a->v[k])) fputs(",nan", x->f); /* without a sign */
            else fprintf(x->f, a->dtype == OT_F64 ? ",%.17g" : ",%.9g", a->v[k]);
        return;
    }
    for (int64_t p = 0; p < (a->by_word ? x->most : a->places); p++)
        put_classes(x, a, !a->by_word ? p : p < x->words ? x->word[p] : -1);
}

ot_status ot_prediction_name_copies(ot_prediction_lines *x, const char *const *before, int n, ot_arena *a,
                                    ot_error *err)
{
    for (int i = 0; i < x->copied.n;) {
        bool found = false;
        ot_prediction_lines q = *x;
        q.sought = x->copied.name[i];
        q.found = &found;
        for (int k = 0; k < n; k++) found |= !strcmp(before[k], q.sought);
        for (int k = 0; k < x->copied.n; k++) found |= k != i && !strcmp(x->copied.name[k], q.sought);
        for (int k = 0; k < x->n; k++) head_of(&q, &x->list[k]);
        if (found && !(x->copied.name[i] = ot_arena_printf(a, "copied.%s", q.sought)))
            return ot_fail(err, OT_E_NOMEM, "no memory for the columns of --copy");
        i += !found;
    }
    return OT_OK;
}

void ot_prediction_head(const ot_prediction_lines *x)
{
    char shown[1024];
    for (int i = 0; i < x->copied.n; i++) {
        fputc(',', x->f);
        ot_csv_text(ot_shown(x->copied.name[i], shown, sizeof shown), x->f);
    }
    for (int i = 0; i < x->n; i++) head_of(x, &x->list[i]);
}

/* The field of row `sample` in column i of --copy. */
static const char *copied_of(const ot_prediction_lines *x, int64_t sample, int i)
{
    return sample < x->copied.rows ? x->copied.text[sample * x->copied.n + i] : "";
}

void ot_prediction_row(const ot_prediction_lines *x, int64_t sample)
{
    char shown[1024];
    for (int i = 0; i < x->copied.n; i++) {
        const char *text = copied_of(x, sample, i);
        fputc(',', x->f);
        ot_csv_text(x->to_file ? text : ot_shown(text, shown, sizeof shown), x->f);
    }
    for (int i = 0; i < x->n; i++) row_of(x, &x->list[i]);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *classes_at(const ot_prediction_lines *x, ot_prediction *a, int64_t place)
{
    json_t *list = json_array();
    for (int64_t r = 0, n = rank(a, place, x->top); r < n; r++) {
        json_t *one = json_pack("{s:I}", "class", (json_int_t)a->best[r]);
        if (a->class_name) ot_json_set(&one, "class_name", ot_json_text(a->class_name[a->best[r]]));
        ot_json_set(&one, "probability", ot_json_number(probability_of(a, place, a->best[r])));
        ot_json_add(&list, one);
    }
    return list;
}

/* A list of the most probable classes; where a sample has several places or words, a list of such lists. */
static json_t *classes_of(const ot_prediction_lines *x, ot_prediction *a)
{
    if (a->places == 1 && !a->by_word) return classes_at(x, a, 0);
    json_t *all = json_array();
    for (int64_t p = 0; p < (a->by_word ? x->words : a->places); p++) {
        int64_t place = a->by_word ? x->word[p] : p;
        ot_json_add(&all, place < 0 ? json_null() : classes_at(x, a, place));
    }
    return all;
}

/* Value k.  JSON of others has whole numbers up to 2^63. */
static json_t *value_of(const ot_prediction *a, int64_t k)
{
    bool fits = a->whole && (a->dtype != OT_U64 || a->whole[k] >= 0);
    return fits ? json_integer(a->whole[k]) : ot_json_number(a->v[k]);
}

static json_t *values_of(const ot_prediction *a)
{
    bool named = label_of(a, 0) && a->distinct; /* else an object would lose some */
    json_t *all = named ? json_object() : json_array();
    for (int64_t k = 0; k < a->each; k++)
        if (named) ot_json_set(&all, label_of(a, k), value_of(a, k));
        else ot_json_add(&all, value_of(a, k));
    return all;
}

/* The key of an output: its name, unless that is a key of the sample's own. */
static const char *key_of(const ot_prediction *a, char *name, size_t n)
{
    static const char *const own[] = { "sample", "line", "file", "columns" };
    char shown[1000];
    ot_shown(a->name, shown, sizeof shown);
    for (int i = 0; i < OT_LEN(own); i++)
        if (!strcmp(shown, own[i])) return snprintf(name, n, "output.%s", own[i]), name;
    snprintf(name, n, "%s", shown);
    return name;
}

ot_status ot_prediction_json(const ot_prediction_lines *x, int64_t sample, int64_t line, const char *file, char **text,
                             ot_error *err)
{
    char name[1010];
    size_t digits = 9;
    json_t *o = json_pack("{s:I}", "sample", (json_int_t)sample);
    if (line) ot_json_set(&o, "line", json_integer(line));
    if (file) ot_json_set(&o, "file", ot_json_text(file));
    if (x->copied.n) {
        json_t *columns = json_object();
        for (int i = 0; i < x->copied.n; i++)
            ot_json_set(&columns, x->copied.name[i], ot_json_text(copied_of(x, sample, i)));
        ot_json_set(&o, "columns", columns);
    }
    for (int i = 0; i < x->n; i++) {
        ot_prediction *a = &x->list[i];
        if (a->dtype == OT_F64 && a->task == OT_TASK_VALUES) digits = 17;
        ot_json_set(&o, key_of(a, name, sizeof name), a->task == OT_TASK_CLASSES ? classes_of(x, a) : values_of(a));
    }
    *text = ot_json_dump(o, JSON_COMPACT | JSON_REAL_PRECISION(digits));
    json_decref(o);
    return *text ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the predictions");
}
