/* table_arrays.c - fills the arrays of a table's inputs and targets with the numbers of its cells.
 *
 * Shapes    inputs: (rows, elements); target: (rows) i64 for whole numbers and for text, whose sorted values become the
 *           classes, f32 otherwise. */
#include <math.h>
#include <string.h>

#include "runtime/data/table.h"

typedef struct filler {
    ot_dataset *d;
    ot_columns *t;
} filler;

static ot_status not_a_number(const ot_columns *t, const ot_rows *r, const ot_column_field *f, const char *what,
                              ot_error *err)
{
    const char *s = r->cell[f->column];
    return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': contains '%.40s'; expected %s", t->path,
                   (long long)r->line, f->name, s, what);
}

/* Adds element k of a cell to the fingerprint of the table's cells, in whichever order an input takes its columns. */
static void mark_cell(ot_dataset *d, const ot_rows *r, const ot_column_field *f, int k, double v, bool lost)
{
    const struct {
        int64_t line, column, k, lost;
        double v;
    } of = { r->line, f->column, k, lost, v };
    d->cells += ot_hash(1, &of, sizeof of);
}

/* The numbers of a cell: as measured, or NaN where the value is missing and nothing is known of it yet. */
static ot_status fill_numbers(ot_dataset *d, const ot_columns *t, const ot_rows *r, ot_column_field *f, bool gaps,
                              float *to, ot_error *err)
{
    double v, part[OT_TIME_PARTS] = { 0 };
    ot_cell cell = ot_cell_of(r->cell[f->column], t->point, &v);
    bool lost = cell <= OT_CELL_NULL;
    bool number = cell == OT_CELL_NUMBER || cell == OT_CELL_CODE, date = cell == OT_CELL_DATE || cell == OT_CELL_TIME;
    if (!lost && f->kind == OT_KIND_NUMBER && !number) return not_a_number(t, r, f, "a number", err);
    if (!lost && f->kind == OT_KIND_BOOLEAN && cell != OT_CELL_BOOLEAN)
        return not_a_number(t, r, f, "true or false", err);
    if (!lost && (f->kind == OT_KIND_DATE || f->kind == OT_KIND_TIME) && !date)
        return not_a_number(t, r, f, "a date such as 2024-05-31", err);
    if (lost && !f->missing++) f->missing_line = r->line;
    if (f->form == OT_FORM_PARTS && !lost) ot_date_parts(v, part);
    else part[0] = v;
    for (int k = 0; k < f->width; k++) {
        float x = lost ? NAN : (float)part[k];
        mark_cell(d, r, f, k, lost ? 0 : (double)x, lost);
        if (f->measured && !gaps) {
            double known = lost ? f->fill[k] : (double)x;
            x = (float)(f->scaled ? (known - f->mean[k]) / f->std[k] : known);
        }
        to[k] = x;
    }
    return OT_OK;
}

/* The number of a cell's category; -1: it has none. */
static ot_status find_word(const ot_columns *t, ot_dataset *d, const ot_rows *r, ot_column_field *f, int64_t *at,
                           ot_error *err)
{
    double v;
    const char *text = r->cell[f->column];
    bool lost = ot_cell_of(text, t->point, &v) <= OT_CELL_NULL;
    *at = lost ? -1 : ot_words_find(f->words, text);
    if (lost && !f->missing++) f->missing_line = r->line;
    if (!lost && *at < 0 && !f->unknown++) {
        f->unknown_line = r->line;
        f->unknown_word = ot_arena_strdup(d->arena, text);
        if (!f->unknown_word) return ot_table_no_memory(t, err);
    }
    if (*at < 0 && f->own && (lost || f->form == OT_FORM_ID)) *at = f->words->n;
    if (*at >= 0 || f->form != OT_FORM_ID) return OT_OK;
    if (lost)
        return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': is missing, but no value was missing in training",
                       t->path, (long long)r->line, f->name);
    return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': '%.40s' is not one of the %d categories of training",
                   t->path, (long long)r->line, f->name, text, f->words->n);
}

static ot_status fill_field(filler *x, const ot_rows *r, const ot_table_input *in, ot_column_field *f, void *to,
                            ot_error *err)
{
    int64_t at;
    if (f->form == OT_FORM_TEXT) {
        char *own = ot_arena_strdup(x->d->arena, r->cell[f->column]);
        if (!own) return ot_table_no_memory(x->t, err);
        ((char **)to)[f->at] = own;
        return OT_OK;
    }
    if (f->form == OT_FORM_ID || f->form == OT_FORM_ONE_HOT) {
        OT_TRY(find_word(x->t, x->d, r, f, &at, err));
        if (in->dtype == OT_F32) mark_cell(x->d, r, f, 0, (double)at, false);
        if (f->form == OT_FORM_ONE_HOT) {
            if (at >= 0 && at < f->width) ((float *)to)[f->at + at] = 1;
        } else if (in->dtype == OT_I64) {
            ((int64_t *)to)[f->at] = at;
        } else {
            ((float *)to)[f->at] = (float)at;
        }
        return OT_OK;
    }
    if (in->dtype == OT_F32) return fill_numbers(x->d, x->t, r, f, in->gaps, (float *)to + f->at, err);
    double v;
    ot_cell cell = ot_cell_of(r->cell[f->column], x->t->point, &v);
    if (cell != OT_CELL_BOOLEAN && (!ot_cell_number(r->cell[f->column], x->t->point, &v) || !ot_is_whole(v)))
        return not_a_number(x->t, r, f, "a whole number", err);
    ((int64_t *)to)[f->at] = (int64_t)v;
    return OT_OK;
}

static ot_status fill_target(const ot_columns *t, const ot_rows *r, const ot_goal *w, ot_array *a, int64_t row,
                             ot_error *err)
{
    for (int i = 0; i < w->n; i++) {
        double v = 0;
        const ot_column *q = &t->column[w->column[i]];
        const char *text = r->cell[w->column[i]];
        bool lost = t->options.described && ot_cell_of(text, t->point, &v) <= OT_CELL_NULL;
        int word = w->text ? ot_words_find(&q->words, text) : -1; /* None may be one */
        if (w->text) {
            ((int64_t *)a->t.data)[row] = lost && word < 0 ? OT_IGNORED : word;
        } else if (lost) {
            ot_set_f64(a->t.data, a->t.dtype, row * w->n + i, (double)NAN);
        } else if (ot_cell_number(text, t->point, &v)) {
            ot_set_f64(a->t.data, a->t.dtype, row * w->n + i, v);
        } else {
            return ot_fail(err, OT_E_IO, "%s: changed while it was read", t->path);
        }
    }
    return OT_OK;
}

static ot_status fill_row(void *user, const ot_rows *r, int64_t row, ot_error *err)
{
    filler *x = user;
    ot_columns *t = x->t;
    if (t->place) row = t->place[row];
    if (t->line) t->line[row] = r->line;
    for (int i = 0; i < t->n_inputs; i++) {
        ot_table_input *in = &t->input[i];
        ot_array *a = &x->d->array[in->array];
        if (in->member) {
            OT_TRY(ot_table_add_file(x->d, t, r, in->field->column, &in->member[row], err));
            continue;
        }
        size_t size = in->dtype == OT_F32 ? 4 : 8;
        void *to = (char *)a->t.data + (size_t)row * (size_t)ot_numel(&in->shape) * size;
        for (int k = 0; k < in->n; k++) OT_TRY(fill_field(x, r, in, &in->field[k], to, err));
    }
    for (int i = 0; i < t->n_targets; i++) {
        const ot_goal *w = &t->wanted[i];
        if (w->member) OT_TRY(ot_table_add_file(x->d, t, r, w->column[0], &w->member[row], err));
        else if (!w->tags) OT_TRY(fill_target(t, r, w, &x->d->array[w->array], row, err));
    }
    return OT_OK;
}

static ot_status add_array(ot_dataset *d, const ot_columns *t, const char *name, ot_dtype type, const ot_shape *sample,
                           int *at, ot_error *err)
{
    ot_shape s = { .rank = sample->rank + 1, .dim = { t->rows } };
    memcpy(s.dim + 1, sample->dim, (size_t)sample->rank * sizeof *s.dim);
    int64_t bytes, there = ot_memory_available();
    int64_t each = type == OT_F32 ? 4 : 8;
    ot_array *a = ot_dataset_add(d, name);
    if (!a) return ot_table_no_memory(t, err);
    if (!ot_mul(t->rows * each, ot_numel(sample), &bytes) || bytes > there)
        return ot_fail(err, OT_E_NOMEM,
                       "%s: out of memory: its %lld rows of %lld elements need %lld MiB, but %lld MiB "
                       "are available",
                       t->path, (long long)t->rows, (long long)ot_numel(sample), (long long)(bytes >> 20),
                       (long long)(there >> 20));
    *at = d->n - 1;
    if (type != OT_STRING) return ot_array_alloc(d, a, type, &s, -1, t->path, err);
    a->t.dtype = type;
    a->t.rank = s.rank;
    memcpy(a->t.dim, s.dim, sizeof s.dim);
    a->t.data = ot_arena_alloc(d->arena, (size_t)bytes + 8);
    return a->t.data ? OT_OK : ot_table_no_memory(t, err);
}

/* The type of a target of numbers: class numbers, labels of 0 and 1, or measurements. */
static ot_dtype target_type(const ot_columns *t, const ot_goal *w)
{
    bool whole = true;
    for (int i = 0; i < w->n; i++) {
        const ot_column *q = &t->column[w->column[i]];
        whole = whole && q->whole == t->rows && (w->n == 1 || !q->beyond);
    }
    return w->text || whole ? OT_I64 : OT_F32;
}

ot_status ot_table_add_arrays(ot_dataset *d, ot_columns *t, ot_error *err)
{
    d->n = 0;
    for (int i = 0; i < t->n_inputs; i++) {
        ot_table_input *in = &t->input[i];
        if (in->member) {
            if (!ot_dataset_add(d, in->name)) return ot_table_no_memory(t, err);
            in->array = d->n - 1;
            continue;
        }
        OT_TRY(add_array(d, t, in->name, in->dtype, &in->shape, &in->array, err));
        d->array[in->array].gaps = in->gaps;
        for (int k = 0; k < in->n; k++)
            d->array[in->array].gaps |= !in->field[k].measured && in->dtype == OT_F32 && t->pending;
    }
    for (int i = 0; i < t->n_targets; i++) {
        ot_goal *w = &t->wanted[i];
        if (w->tags) continue;
        if (w->member) {
            if (!ot_dataset_add(d, w->name)) return ot_table_no_memory(t, err);
            w->array = d->n - 1;
            d->array[w->array].role = OT_ARRAY_TARGET;
            continue;
        }
        ot_shape s = w->n == 1 ? OT_SCALAR : (ot_shape){ 1, { w->n } };
        OT_TRY(add_array(d, t, w->name, target_type(t, w), &s, &w->array, err));
        d->array[w->array].role = OT_ARRAY_TARGET;
    }
    return OT_OK;
}

/* The words of the one target of texts are the names of the classes. */
static void set_classes(ot_dataset *d, ot_columns *t)
{
    d->n_classes = 0;
    d->class_name = NULL;
    for (int i = 0; i < t->n_targets; i++) {
        const ot_words *w = &t->column[t->wanted[i].column[0]].words;
        if (!t->wanted[i].text) continue;
        d->n_classes = w->n;
        d->class_name = w->word;
    }
}

/* Of a table that does not train: its missing values, which the model's means replace. */
static ot_status tell_missing(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    const ot_column_field *first = NULL;
    int64_t cells = 0;
    int columns = 0;
    for (int i = 0; i < t->n_inputs && t->recorded && t->options.alone; i++)
        for (int k = 0; k < t->input[i].n && !t->input[i].gaps; k++) {
            const ot_column_field *f = &t->input[i].field[k];
            if (!f->missing || (f->form != OT_FORM_VALUE && f->form != OT_FORM_PARTS)) continue;
            if (!columns++ || f->missing_line < first->missing_line) first = f;
            cells += f->missing;
        }
    if (!columns) return OT_OK;
    return ot_dataset_tell(
        d, err,
        "%s: %lld missing value%s in %d column%s replaced by the mean of training; first: line %lld, "
        "column '%s'",
        t->path, (long long)cells, cells > 1 ? "s" : "", columns,
        columns > 1 ? "s are"
        : cells > 1 ? " are"
                    : " is",
        (long long)first->missing_line, first->name);
}

static ot_status tell_unknown(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    for (int i = 0; i < t->n_inputs; i++)
        for (int k = 0; k < t->input[i].n; k++) {
            const ot_column_field *f = &t->input[i].field[k];
            if (f->missing && f->form == OT_FORM_ONE_HOT && !f->own)
                OT_TRY(ot_dataset_tell(
                    d, err,
                    "%s: column '%s': %lld value%s missing, first in line %lld, but none was in training: encoded as zeros",
                    t->path, f->name, (long long)f->missing, f->missing == 1 ? " is" : "s are",
                    (long long)f->missing_line));
            if (f->unknown)
                OT_TRY(ot_dataset_tell(
                    d, err,
                    "%s: column '%s': %lld value%s not among the categories of training, first '%.40s' "
                    "in line %lld: %s",
                    t->path, f->name, (long long)f->unknown, f->unknown == 1 ? " is" : "s are", f->unknown_word,
                    (long long)f->unknown_line, f->form == OT_FORM_ID ? "taken as missing" : "encoded as zeros"));
        }
    return OT_OK;
}

ot_status ot_table_fill(ot_dataset *d, ot_columns *t, ot_error *err)
{
    filler x = { d, t };
    d->cells = 0;
    OT_TRY(ot_table_each_row(t, fill_row, &x, err));
    if (t->images) OT_TRY(ot_table_finish_images(d, t, err));
    set_classes(d, t);
    OT_TRY(tell_missing(d, t, err));
    return tell_unknown(d, t, err);
}
