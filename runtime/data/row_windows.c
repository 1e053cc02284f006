/* row_windows.c - samples of a table that are windows of rows: a time series (--length, --stride, --ahead).
 *
 * Sample i is rows i*stride .. i*stride+length-1, one array (length, elements of a row) for each input.  Its target is that of the row
 * `ahead` rows after its last one.  Arrays are read row by row as those of other tables, and then become views of the same memory.
 * Of several series (row_series.c) only the windows inside of one are samples.
 * Windows overlap, so a part that is kept back is the last ones: no training sample has a target from it. */
#include <math.h>
#include <string.h>

#include "runtime/data/table.h"

static void recall(const ot_columns *t, ot_row_windows *w)
{
    json_t *root = NULL;
    const char *text = t->options.preprocess;
    if (!text || ot_json_parse(text, strlen(text), &root)) return;
    const json_t *one = json_object_get(root, OT_ROW_WINDOWS_KEY);
    json_int_t length = json_integer_value(json_object_get(one, "length"));
    json_int_t stride = json_integer_value(json_object_get(one, "stride"));
    json_int_t ahead = json_integer_value(json_object_get(one, "ahead"));
    const json_int_t most = INT32_MAX;
    if (length > 0 && stride > 0 && ahead >= 0 && length <= most && stride <= most && ahead <= most)
        *w = (ot_row_windows){ length, stride, ahead };
    json_decref(root);
}

void ot_row_windows_record(const ot_columns *t, json_t **root)
{
    const ot_row_windows *w = &t->windows;
    if (!w->length) return;
    json_t *one = json_object();
    ot_json_set(&one, "length", json_integer(w->length));
    ot_json_set(&one, "stride", json_integer(w->stride));
    ot_json_set(&one, "ahead", json_integer(w->ahead));
    if (t->group_column >= 0) ot_json_set(&one, OT_ROW_GROUP_KEY, json_string(t->group));
    ot_json_set(root, OT_ROW_WINDOWS_KEY, one);
}

/* The inputs that columns are chosen for have the shape of a row. */
static ot_status take_rows(ot_dataset *d, ot_columns *t, ot_error *err)
{
    int64_t length = t->windows.length;
    ot_data_input *in = ot_arena_copy(d->arena, t->options.input, (size_t)t->options.n_inputs * sizeof *in);
    if (!in) return ot_fail(err, OT_E_NOMEM, "%s: no memory", t->path);
    for (int i = 0; i < t->options.n_inputs; i++) {
        ot_shape *s = &in[i].shape;
        char shape[128];
        if (s->rank < 0) continue;
        if (s->rank < 2 || (s->dim[1] >= 0 && s->dim[1] != length))
            return ot_fail(err, OT_E_USAGE,
                           "--length %lld: input '%s' is %s; expected %lld, the rows of a sample, as its second axis",
                           (long long)length, in[i].name, ot_shape_text(s, shape), (long long)length);
        memmove(s->dim + 1, s->dim + 2, (size_t)(s->rank - 2) * sizeof *s->dim);
        s->rank--;
    }
    t->options.input = in;
    return OT_OK;
}

ot_status ot_row_windows_choose(ot_dataset *d, ot_columns *t, ot_error *err)
{
    const ot_data_options *o = &t->options;
    ot_row_windows w = { 0 };
    if (t->windows.length) return OT_OK; /* read again for another target */
    bool other = t->text || t->images;   /* --length means another thing */
    if (!other) recall(t, &w);
    bool recorded = w.length > 0;
    if (o->length && !other) w.length = o->length;
    if (!w.length && o->group)
        return ot_fail(err, OT_E_USAGE,
                       "--group: each sample of %s is one row; windows of N rows of a series need --length N", t->path);
    if (other) return OT_OK;
    if (!w.length && o->has_ahead)
        return ot_fail(err, OT_E_USAGE,
                       "--ahead: each sample of %s is one row; samples of N rows, as of a time series, need --length N",
                       t->path);
    if (!w.length) return OT_OK;
    if (o->stride || !recorded) w.stride = o->stride ? o->stride : 1;
    if (o->has_ahead || !recorded) w.ahead = o->has_ahead ? o->ahead : 1;
    if (t->scattered)
        return ot_fail(
            err, OT_E_DATA,
            "%s: rows of a part (--split) are not one below the other%s; windows of rows (--length) would join some that do not "
            "follow each other in time",
            t->path,
            t->group_column < 0 ? " (of several series in one table, --group COLUMN names them)" : " in each series");
    t->windows = w;
    OT_TRY(ot_row_series_arrange(d, t, err));
    return take_rows(d, t, err);
}

bool ot_row_windows_reads_target(const ot_columns *t, const ot_goal *w)
{
    return t->windows.length && t->windows.ahead && !w->text && !w->tags && !w->member;
}

/* A forecast is of rows that are not there yet. */
void ot_row_windows_drop_target(ot_dataset *d, ot_columns *t)
{
    bool forecast = t->windows.length && t->windows.ahead && t->options.unlabelled && t->options.alone;
    if (!forecast) return;
    t->n_targets = 0;
    d->column = NULL;
}

static void begin(ot_array *a, const ot_columns *t, int64_t each)
{
    a->stride = (t->window ? 1 : t->windows.stride) * each;
    a->row = t->window;
}

/* What covers one row becomes what covers `length` of them, `samples` times. */
static void view(ot_array *a, const ot_columns *t, int64_t samples)
{
    const ot_row_windows *w = &t->windows;
    int64_t each = ot_array_elements(a) / a->t.dim[0];
    memmove(a->t.dim + 2, a->t.dim + 1, (size_t)(a->t.rank - 1) * sizeof *a->t.dim);
    a->t.rank++;
    a->t.dim[0] = samples;
    a->t.dim[1] = w->length;
    begin(a, t, each);
}

static void view_target(ot_array *a, const ot_columns *t, int64_t samples)
{
    const ot_row_windows *w = &t->windows;
    int64_t each = ot_array_elements(a) / a->t.dim[0], size = ot_dtype_bits(a->t.dtype) / 8;
    a->t.data = (char *)a->t.data + (w->length - 1 + w->ahead) * each * size;
    a->t.dim[0] = samples;
    begin(a, t, each);
}

ot_status ot_row_windows_make(ot_dataset *d, ot_columns *t, ot_error *err)
{
    const ot_row_windows *w = &t->windows;
    if (!w->length) return OT_OK;
    int64_t need = w->length + (t->n_targets ? w->ahead : 0), samples = (t->rows - need) / w->stride + 1;
    if (t->place) OT_TRY(ot_row_series_cut(d, t, need, &samples, err));
    else if (t->rows < need)
        return ot_fail(err, OT_E_DATA, "%s: has %lld row%s, but a sample of %lld rows%s needs %lld", t->path,
                       (long long)t->rows, t->rows == 1 ? "" : "s", (long long)w->length,
                       t->n_targets ? " and its target" : "", (long long)need);
    for (int i = 0; i < d->n; i++) {
        ot_array *a = &d->array[i];
        if (a->t.rank >= OT_MAX_RANK)
            return ot_fail(err, OT_E_DATA, "%s: rows of more than %d axes cannot be in a window", t->path,
                           OT_MAX_RANK - 2);
        if (a->role == OT_ARRAY_TARGET) view_target(a, t, samples);
        else view(a, t, samples);
    }
    return ot_dataset_tell(d, err,
                           "%s: %lld rows; samples are windows of %lld of them (--length), one every %lld (--stride), "
                           "and the target is that of the row %lld after the last one (--ahead)",
                           t->path, (long long)t->rows, (long long)w->length, (long long)w->stride,
                           (long long)w->ahead);
}

int64_t ot_row_windows_keep(const ot_columns *t, int64_t samples, double fraction, bool *kept)
{
    const ot_row_series whole = { 0, t->rows, samples };
    int n = t->window ? t->series.n : 1;
    int64_t first = 0, keep = 0;
    for (int k = 0; k < n; k++) {
        const ot_row_series *s = t->window ? &t->part_of_rows[k] : &whole;
        int64_t last = llround(fraction * (double)s->samples);
        for (int64_t i = 0; i < s->samples; i++) kept[first + i] = i >= s->samples - last;
        first += s->samples;
        keep += last;
    }
    if (!keep) kept[samples - 1] = true, keep = 1; /* each part has one at least */
    if (keep == samples) kept[0] = false, keep--;
    return keep;
}

static int64_t first_row(const ot_columns *t, int64_t sample)
{
    return t->window ? t->window[sample] : sample * t->windows.stride;
}

int64_t ot_row_windows_rows(const ot_columns *t, const ot_array *a)
{
    const ot_row_windows *w = &t->windows;
    if (t->window) return t->rows;
    return w->length ? (a->t.dim[0] - 1) * w->stride + w->length : a->t.dim[0];
}

int64_t ot_row_windows_last(const ot_columns *t, int64_t sample)
{
    const ot_row_windows *w = &t->windows;
    return w->length ? first_row(t, sample) + w->length - 1 : sample;
}

bool ot_table_has_windows(const ot_columns *t) { return t->windows.length > 0; }

static int64_t line_of_row(const ot_columns *t, int64_t row)
{
    return row < 0 || row >= t->rows ? 0 : t->line ? t->line[row] : t->first_line + row;
}

int64_t ot_dataset_line(const ot_dataset *d, int64_t sample)
{
    if (!d->table || sample < 0 || sample >= d->samples) return 0;
    return line_of_row(d->table, ot_row_windows_last(d->table, ot_dataset_origin(d, sample)));
}

int64_t ot_dataset_line_of(const ot_dataset *d, const ot_array *a, int64_t e)
{
    int64_t each = ot_array_elements(a) / a->t.dim[0], sample = e / each;
    const ot_columns *t = d->table;
    if (!t || !t->windows.length) return ot_dataset_line(d, sample);
    int64_t first = first_row(t, ot_dataset_origin(d, sample)), length = t->windows.length;
    if (a->role == OT_ARRAY_TARGET) return line_of_row(t, first + length - 1 + t->windows.ahead);
    return line_of_row(t, first + e % each / (each / length));
}

const char *ot_row_windows_hint(const ot_data_input *in, char text[128])
{
    *text = 0;
    if (in->shape.rank == 3 && in->shape.dim[1] > 0)
        snprintf(text, 128, "; for samples of %lld consecutive rows, as of a time series, use --length %lld",
                 (long long)in->shape.dim[1], (long long)in->shape.dim[1]);
    return text;
}
