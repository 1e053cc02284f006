/* row_series.c - several time series in one table, which a column names (--group).
 *
 * The rows of a series may lie one below the other, or between those of others, as in a table that is sorted by date.  In the arrays
 * they are together, in the order of the file; a sample is a window inside of one of them. */
#include <math.h>
#include <string.h>

#include "runtime/data/table.h"

/* The column that the model records; NULL: none. */
static ot_status recorded_group(ot_dataset *d, const ot_columns *t, const char **name, ot_error *err)
{
    json_t *root = NULL;
    const char *text = t->options.preprocess;
    *name = NULL;
    if (!text || ot_json_parse(text, strlen(text), &root)) return OT_OK;
    const char *found = json_string_value(json_object_get(json_object_get(root, OT_ROW_WINDOWS_KEY), OT_ROW_GROUP_KEY));
    bool lost = found && !(*name = ot_arena_strdup(d->arena, found));
    json_decref(root);
    return lost ? ot_table_no_memory(t, err) : OT_OK;
}

ot_status ot_row_series_find(ot_dataset *d, ot_columns *t, const ot_rows *first, bool *names, ot_error *err)
{
    t->group = t->options.group;
    t->group_column = -1;
    if (t->group) {
        OT_TRY(ot_table_find_named(t, first, t->group, "--group", &t->group_column, err));
    } else {
        OT_TRY(recorded_group(d, t, &t->group, err));
        for (int i = 0; t->group && i < first->n; i++)
            if (!strcmp(first->cell[i], t->group)) t->group_column = i;
    }
    *names = *names || t->group_column >= 0;
    return OT_OK;
}

ot_status ot_row_series_note(ot_dataset *d, ot_columns *t, const ot_rows *r, bool reads, ot_error *err)
{
    bool group = t->group_column >= 0 && t->group_column < r->n;
    if (!group && t->split_column < 0) return OT_OK;
    const char *name = group ? r->cell[t->group_column] : "";
    if (group && !*name)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: column '%s' (--group) is empty; expected the name of a series",
                       t->path, (long long)r->line, t->group);
    if (!reads && ot_words_find(&t->series, name) < 0) return OT_OK;
    t->scattered = t->scattered || (reads && ot_words_find(&t->cut, name) >= 0);
    return ot_words_add(reads ? &t->series : &t->cut, name, INT32_MAX / 4, d->arena, t->path, err);
}

typedef struct sorter {
    ot_columns *t;
    int64_t *next; /* of each series: the place of its next row */
} sorter;

static ot_status count_row(void *user, const ot_rows *r, int64_t row, ot_error *err)
{
    const sorter *x = user;
    int k = ot_words_find(&x->t->series, r->cell[x->t->group_column]);
    if (k < 0) return ot_fail(err, OT_E_IO, "%s: changed while it was read", x->t->path);
    x->t->place[row] = k;
    x->t->part_of_rows[k].rows++;
    return OT_OK;
}

ot_status ot_row_series_arrange(ot_dataset *d, ot_columns *t, ot_error *err)
{
    if (t->group_column < 0 && !t->group) return OT_OK;
    if (t->group_column < 0)
        return ot_dataset_tell(d, err, "%s: has no column '%s', which named the series in training: its rows are one",
                               t->path, t->group);
    int n = t->series.n;
    t->place = ot_arena_alloc(d->arena, ((size_t)t->rows + 1) * sizeof *t->place);
    t->part_of_rows = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *t->part_of_rows);
    sorter x = { t, ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *x.next) };
    if (!t->place || !t->part_of_rows || !x.next) return ot_table_no_memory(t, err);
    OT_TRY(ot_table_each_row(t, count_row, &x, err));
    int64_t at = 0;
    for (int k = 0; k < n; k++) {
        t->part_of_rows[k].first = x.next[k] = at;
        at += t->part_of_rows[k].rows;
    }
    for (int64_t i = 0; i < t->rows; i++) t->place[i] = x.next[t->place[i]]++;
    return OT_OK;
}

ot_status ot_row_series_cut(ot_dataset *d, ot_columns *t, int64_t need, int64_t *samples, ot_error *err)
{
    const ot_row_windows *w = &t->windows;
    int n = t->series.n, shorter = 0, first = 0;
    int64_t all = 0, longest = 0;
    for (int k = 0; k < n; k++) {
        ot_row_series *s = &t->part_of_rows[k];
        s->samples = s->rows < need ? 0 : (s->rows - need) / w->stride + 1;
        if (!s->samples && !shorter++) first = k;
        if (s->rows > longest) longest = s->rows;
        all += s->samples;
    }
    if (!all)
        return ot_fail(
            err, OT_E_DATA,
            "%s: the longest of the %d series in column '%s' (--group) has %lld row%s, but a sample of %lld rows%s needs %lld",
            t->path, n, t->group, (long long)longest, longest == 1 ? "" : "s", (long long)w->length,
            t->n_targets ? " and its target" : "", (long long)need);
    int64_t *window = ot_arena_alloc(d->arena, ((size_t)all + 1) * sizeof *window), at = 0;
    if (!window) return ot_table_no_memory(t, err);
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < t->part_of_rows[k].samples; i++)
            window[at++] = t->part_of_rows[k].first + i * w->stride;
    t->window = window;
    *samples = all;
    OT_TRY(ot_dataset_tell(d, err, "%s: %d series in column '%s' (--group); no window reaches from one into another",
                           t->path, n, t->group));
    if (!shorter) return OT_OK;
    return ot_dataset_tell(d, err,
                           shorter == 1
                               ? "%s: %d of them, '%s', has fewer than %lld rows and gives no sample"
                               : "%s: %d of them, the first is '%s', have fewer than %lld rows and give no sample",
                           t->path, shorter, t->series.word[first], (long long)need);
}

bool ot_row_series_apart(const ot_columns *t, int column)
{
    if (column < 0 || column != t->group_column) return false;
    const char *name = t->column[column].name, *p = t->options.columns;
    size_t length = strlen(name);
    while (p && *p) { /* a,b or INPUT=a,b;INPUT=c */
        size_t n = strcspn(p, ",;=");
        if (n == length && !memcmp(p, name, n) && p[n] != '=') return false;
        p += n + (p[n] != 0);
    }
    return true;
}

ot_status ot_row_series_used(const ot_dataset *d, const ot_array *a, const bool **used, ot_error *err)
{
    const ot_columns *t = d->table;
    *used = NULL;
    if (!t->window || !a->row) return OT_OK;
    bool *mark = ot_arena_alloc(d->arena, (size_t)t->rows + 1);
    if (!mark) return ot_table_no_memory(t, err);
    for (int64_t i = 0, end = 0; i < a->t.dim[0]; i++) { /* windows ascend */
        int64_t from = a->row[i] > end ? a->row[i] : end;
        end = a->row[i] + t->windows.length;
        for (int64_t k = from; k < end; k++) mark[k] = true;
    }
    *used = mark;
    return OT_OK;
}

void ot_row_series_forget(ot_columns *t)
{
    ot_words_free(&t->series);
    ot_words_free(&t->cut);
}
