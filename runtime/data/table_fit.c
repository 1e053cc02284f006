/* table_fit.c - what is measured on the training part of a table, and what two tables must have in common.
 *
 * Numerics  Mean and population standard deviation in f64, in the order of the samples; a column of one value has
 *           deviation 1.  Both are rounded to the digits of the record, more than a float has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/sound.h"
#include "runtime/data/table.h"

/* ---- measuring ---------------------------------------------------------------------------------- */

typedef struct place {
    float *x; /* of the first sample */
    int64_t rows, step;
    const bool *used; /* of each row: it is measured; NULL: all are */
} place;

static place place_of(const ot_dataset *d, const ot_table_input *in, const ot_column_field *f, int k)
{
    const ot_array *a = &d->array[in->array];
    return (place){ (float *)a->t.data + f->at + k, ot_row_windows_rows(d->table, a), ot_numel(&in->shape), NULL };
}

static void measure(const place *p, double *mean, double *std)
{
    double sum = 0, square = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        double v = p->used && !p->used[i] ? (double)NAN : (double)p->x[i * p->step];
        if (!isnan(v)) sum += v, n++;
    }
    *mean = n ? sum / (double)n : 0;
    for (int64_t i = 0; i < p->rows; i++) {
        double v = p->used && !p->used[i] ? (double)NAN : (double)p->x[i * p->step] - *mean;
        if (!isnan(v)) square += v * v;
    }
    *std = n ? sqrt(square / (double)n) : 1;
    if (!isfinite(*mean)) *mean = 0; /* infinite values are found by ot_dataset_check */
    if (!(*std > 0) || !isfinite(*std)) *std = 1;
}

/* v with the digits that the record has: what is recalled gives the same bits. */
static double recorded(double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.*e", OT_TABLE_DIGITS - 1, v);
    return strtod(text, NULL);
}

static void complete(const place *p, const ot_column_field *f, int k)
{
    for (int64_t i = 0; i < p->rows; i++) {
        float *x = &p->x[i * p->step];
        double v = isnan(*x) ? f->fill[k] : (double)*x;
        *x = (float)(f->scaled ? (v - f->mean[k]) / f->std[k] : v);
    }
}

static void fit_field(ot_dataset *d, ot_dataset *part, const ot_table_input *in, ot_column_field *f, const bool *used)
{
    for (int k = 0; k < f->width; k++) {
        place p = place_of(d, in, f, k);
        p.used = used;
        measure(&p, &f->mean[k], &f->std[k]);
        f->mean[k] = recorded(f->mean[k]);
        f->std[k] = recorded(f->std[k]);
        f->fill[k] = f->mean[k];
        if (d->table->windows.length) p.rows = d->table->rows; /* the parts share them */
        complete(&p, f, k);
        if (!part || d->table->windows.length) continue;
        p = place_of(part, in, f, k);
        complete(&p, f, k);
    }
    f->measured = true;
}

/* ---- telling ------------------------------------------------------------------------------------ */

static int64_t missing_of(const ot_columns *t, const ot_column_field *f)
{
    const int64_t *n = t->column[f->column].count;
    return n[OT_CELL_MISSING] + n[OT_CELL_NAN] + n[OT_CELL_NULL];
}

static ot_status tell_field(ot_dataset *d, const ot_columns *t, const ot_table_input *in, const ot_column_field *f,
                            ot_error *err)
{
    char what[160], lost[100] = "", more[80] = "";
    int64_t missing = missing_of(t, f);
    const char *kind = ot_kind_name[f->kind];
    bool number = in->dtype == OT_F32;
    if (f->form == OT_FORM_ONE_HOT)
        snprintf(what, sizeof what, "%s, %d value%s, one-hot", kind, f->words->n, f->words->n == 1 ? "" : "s");
    else if (f->form == OT_FORM_ID)
        snprintf(what, sizeof what, "%s, %d value%s, as ids from 0", kind, f->words->n, f->words->n == 1 ? "" : "s");
    else if (f->form == OT_FORM_PARTS)
        snprintf(what, sizeof what, "%s, as year, month, day, weekday%s", kind,
                 f->width == OT_TIME_PARTS ? " and hour" : "");
    else if (f->form == OT_FORM_TEXT) snprintf(what, sizeof what, "%s, as text", kind);
    else if (f->kind == OT_KIND_DATE || f->kind == OT_KIND_TIME)
        snprintf(what, sizeof what, "%s, as days since 1970-01-01", kind);
    else if (number && !in->gaps && (f->scaled || missing))
        snprintf(what, sizeof what, "%s, mean %.3g", kind, f->mean[0]);
    else snprintf(what, sizeof what, "%s", kind);
    if (f->scaled) snprintf(more, sizeof more, ", standardised");
    if (missing)
        snprintf(lost, sizeof lost, ", %.1f %% missing (%s)", 100 * (double)missing / (double)t->rows,
                 f->form == OT_FORM_TEXT ? "as they are"
                 : f->own                ? "a value of their own"
                 : in->gaps              ? "left to the model"
                                         : "replaced by the mean");
    return ot_dataset_tell(d, err, "  %-20s %s%s%s", f->name, what, more, lost);
}

/* Numbers that stay as they are although others would be standardised. */
static ot_status tell_unscaled(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    const char *how = t->options.normalize;
    if (how ? strcmp(how, "mean,std") != 0 : !t->mapped) return OT_OK;
    for (int i = 0; i < t->n_inputs; i++) {
        const ot_table_input *in = &t->input[i];
        if (!in->gaps && (!in->scales || how)) continue;
        OT_TRY(ot_dataset_tell(
            d, err, "%s: the numbers for input '%s' are not standardised: the model itself %s", t->path, in->of,
            in->gaps ? "replaces its missing values" : "scales them (change with --normalize mean,std)"));
    }
    return OT_OK;
}

static ot_status tell(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    enum { SHOWN = 40 };
    for (int i = 0; i < t->n_inputs; i++) {
        const ot_table_input *in = &t->input[i];
        if (in->member) {
            OT_TRY(ot_dataset_tell(d, err, "%s: column '%s' names %lld %s%s%s%s", t->path, in->field->name,
                                   (long long)t->rows,
                                   ot_array_is_sound(&d->array[in->array]) ? "recordings" : "images",
                                   *in->of ? " for input '" : "", in->of, *in->of ? "'" : ""));
            continue;
        }
        OT_TRY(ot_dataset_tell(d, err, "%s: %d column%s, %lld element%s%s%s%s:", t->path, in->n, in->n == 1 ? "" : "s",
                               (long long)ot_numel(&in->shape), ot_numel(&in->shape) == 1 ? "" : "s",
                               *in->of ? " for input '" : "", in->of, *in->of ? "'" : ""));
        for (int k = 0; k < in->n && k < SHOWN; k++) OT_TRY(tell_field(d, t, in, &in->field[k], err));
        if (in->n > SHOWN) OT_TRY(ot_dataset_tell(d, err, "  (%d more)", in->n - SHOWN));
    }
    bool scaled = false;
    for (int i = 0; i < t->n_inputs; i++) {
        const ot_table_input *in = &t->input[i];
        for (int k = 0; k < in->n; k++) scaled |= in->field[k].scaled;
    }
    if (!scaled) return OT_OK;
    return ot_dataset_tell(d, err,
                           "%s: numbers are standardised with mean and deviation of %s (change with "
                           "--normalize none, or --passthrough COLUMN)",
                           t->path, t->options.alone && !t->options.part ? "this file" : "the training samples");
}

/* Numbers that are far from what a new model expects, in a table that is fed without changes. */
static ot_status tell_far(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    enum { FAR = 30, ROWS = 1 << 12 }; /* the first rows suffice for a hint */
    const ot_table_input *in = t->input;
    const ot_column_field *farthest = NULL;
    double most = FAR, mean, std;
    if (t->options.alone || t->options.normalize || t->order || in->scales) return OT_OK;
    for (int k = 0; k < in->n; k++) {
        place p = place_of(d, in, &in->field[k], 0);
        if (p.rows > ROWS) p.rows = ROWS;
        measure(&p, &mean, &std);
        if (hypot(mean, std) <= most) continue;
        most = hypot(mean, std);
        farthest = &in->field[k];
    }
    if (!farthest) return OT_OK;
    return ot_dataset_tell(
        d, err,
        "%s: numbers are fed without changes, column '%s' with a root mean square of %.3g: a new model "
        "trains faster with --normalize mean,std",
        t->path, farthest->name, most);
}

ot_status ot_dataset_fit(ot_dataset *d, ot_dataset *part, ot_error *err)
{
    ot_columns *t = d->table;
    if (t && t->recorded) return ot_table_record_target(d, t, &d->preprocess, err);
    if (!t || t->fitted) return OT_OK;
    for (int i = 0; i < t->n_inputs; i++) {
        const ot_table_input *in = &t->input[i];
        const bool *used;
        OT_TRY(ot_row_series_used(d, &d->array[in->array], &used, err));
        for (int k = 0; k < in->n; k++)
            if (!in->field[k].measured) fit_field(d, part, in, &in->field[k], used);
        d->array[in->array].gaps = in->gaps;
        if (part) part->array[in->array].gaps = in->gaps;
    }
    t->fitted = true;
    bool plain = !t->mapped && !t->scaled && t->n_inputs == 1 && !t->options.columns;
    d->only_names = plain = plain && !t->images && !t->text;
    OT_TRY(plain ? tell_far(d, t, err) : tell(d, t, err));
    OT_TRY(tell_unscaled(d, t, err));
    OT_TRY(plain ? ot_table_record_order(d, t, &d->preprocess, err) : ot_table_record(d, t, &d->preprocess, err));
    if (part) part->preprocess = d->preprocess;
    return OT_OK;
}

bool ot_table_is_scaled(const ot_dataset *d)
{
    const ot_columns *t = d->table;
    return t && !t->recorded && (t->scaled || t->images || t->text);
}

/* ---- classes ------------------------------------------------------------------------------------ */

static int by_text_there(const void *a, const void *b)
{
    return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* The target whose strings are classes. */
static ot_array *class_target(const ot_dataset *d)
{
    for (int i = 0; i < d->table->n_targets; i++)
        if (d->table->wanted[i].text) return &d->array[d->table->wanted[i].array];
    return NULL;
}

const char *ot_dataset_string_column(const ot_dataset *d, const ot_array *a)
{
    const ot_columns *t = d->table;
    for (int i = 0; t && i < t->n_targets; i++)
        if (t->wanted[i].text && (!a || &d->array[t->wanted[i].array] == a))
            return t->column[t->wanted[i].column[0]].name;
    return NULL;
}

int ot_dataset_classes(const ot_dataset *d, const ot_array *a, const char *const **name)
{
    bool of_another = ot_dataset_string_column(d, NULL) && !ot_dataset_string_column(d, a);
    *name = of_another ? NULL : d->class_name;
    return of_another ? 0 : d->n_classes;
}

const char *ot_dataset_number_column(const ot_dataset *d, const ot_array *a, int64_t e)
{
    const ot_column *q = d->table && !d->table->recorded ? ot_table_column_of(d, a, e) : NULL;
    return q && q->kind == OT_KIND_NUMBER ? q->name : NULL;
}

const ot_column *ot_table_column_of(const ot_dataset *d, const ot_array *a, int64_t e)
{
    const ot_columns *t = d->table;
    int at = (int)(a - d->array);
    for (int i = 0; t && i < t->n_inputs; i++) {
        const ot_table_input *in = &t->input[i];
        if (in->array == at && t->windows.length) e %= ot_numel(&in->shape);
        for (int k = 0; k < in->n && in->array == at && !in->member; k++)
            if (e >= in->field[k].at && e < in->field[k].at + in->field[k].width)
                return &t->column[in->field[k].column];
    }
    for (int i = 0; t && i < t->n_targets; i++)
        if (t->wanted[i].array == at && e < t->wanted[i].n) return &t->column[t->wanted[i].column[e]];
    return NULL;
}

const char *const *ot_dataset_target_columns(const ot_dataset *d, const ot_array *a, int *n)
{
    const ot_columns *t = d->table;
    *n = 0;
    for (int i = 0; t && t->header && i < t->n_targets; i++) {
        const ot_goal *w = &t->wanted[i];
        if (w->member || &d->array[w->array] != a) continue;
        const char **name = ot_arena_alloc(d->arena, sizeof *name * (size_t)(w->n + 1));
        for (int k = 0; name && k < w->n; k++) name[k] = t->column[w->column[k]].name;
        *n = name ? w->n : 0;
        return name;
    }
    return NULL;
}

/* Maps the labels of d, strings of its own, to their indices in name[0..n). */
static ot_status match_classes(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err)
{
    const char *const **sorted = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *sorted);
    int64_t *to = ot_arena_alloc(d->arena, ((size_t)d->n_classes + 1) * sizeof *to);
    ot_array *a = class_target(d);
    if (!to || !sorted) return ot_fail(err, OT_E_NOMEM, "%s: no memory for classes", d->name);
    if (!a) return OT_OK;
    for (int i = 0; i < n; i++) sorted[i] = &name[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_text_there);
    for (int i = 0; i < d->n_classes; i++) {
        const char *const *key = &d->class_name[i], *const *const *at =
                                                        bsearch(&key, sorted, (size_t)n, sizeof *at, by_text_there);
        if (!at) return ot_unknown_class(d, d->class_name[i], name, n, from, err);
        to[i] = *at - name;
    }
    int64_t *y = a->t.data;
    for (int64_t i = 0, k = ot_array_elements(a); i < k; i++)
        y[i] = y[i] < 0 ? y[i] : to[y[i]]; /* tags are OT_IGNORED, too */
    d->class_name = name;
    d->n_classes = n;
    return OT_OK;
}

ot_status ot_dataset_number(ot_dataset *d, const char *const *name, int n, bool labels, const char *from, ot_error *err)
{
    if (labels && !d->class_name && !d->labelled) OT_TRY(ot_labels_match(d, name, n, from, err));
    if (d->renumbers) return ot_pictures_number(d, name, n, from, err);
    if (d->table && d->class_name) return match_classes(d, name, n, from, err);
    if (d->class_name) return OT_OK;
    d->class_name = name;
    d->n_classes = n;
    return OT_OK;
}

/* More than numbers, and missing values that the model leaves to the table. */
static bool is_encoded(const ot_columns *t)
{
    bool some = false;
    for (int i = 0; i < t->n_inputs && t->mapped; i++)
        for (int k = 0; k < t->input[i].n; k++) {
            const ot_column_field *f = &t->input[i].field[k];
            some |= f->kind != OT_KIND_NUMBER || (!t->input[i].gaps && missing_of(t, f));
        }
    return some;
}

ot_status ot_dataset_match(ot_dataset *d, const ot_dataset *like, ot_error *err)
{
    const ot_columns *t = d->table, *u = like->table;
    OT_TRY(ot_sounds_match(d, like, err));
    if (like->labelled && !d->class_name)
        return ot_dataset_number(d, like->class_name, like->n_classes, true, like->name, err);
    if (d->renumbers && like->class_name)
        return ot_pictures_number(d, like->class_name, like->n_classes, like->name, err);
    if (!t || !u || !t->n_targets) return OT_OK;
    bool named = !t->recorded && !t->order && !t->text && t->header && u->header && t->columns == u->columns;
    for (int i = 0; i < t->columns && named; i++)
        if (strcmp(t->column[i].name, u->column[i].name))
            return ot_fail(err, OT_E_DATA, "%s: column %d is '%s', but in %s it is '%s'", d->name, i + 1,
                           t->column[i].name, like->name, u->column[i].name);
    if (is_encoded(t) && !t->recorded && !u->mapped)
        return ot_fail(err, OT_E_DATA,
                       "%s: has text or missing values in its input columns, but %s has only numbers there", d->name,
                       like->name);
    const bool strings = class_target(d) != NULL, strings_there = class_target(like) != NULL;
    if (strings != strings_there)
        return ot_fail(err, OT_E_DATA, "%s: column '%s' contains %s, but in %s it contains %s", d->name, d->column,
                       strings ? "strings" : "numbers", like->name, strings_there ? "strings" : "numbers");
    return strings ? match_classes(d, like->class_name, like->n_classes, like->name, err) : OT_OK;
}
