/* tags.c - a target of tags, a list in each row: the class of a word where its first token is, OT_IGNORED at its other tokens, at those
 * around the text and at padding.
 *
 * Source  The recipe of transformers for token classification (examples/pytorch/token-classification, without label_all_tokens). */
#include "runtime/data/table.h"

typedef struct reading {
    ot_dataset *d;
    ot_columns *t;
    const ot_goal *w;
    int64_t *y; /* (rows, length) */
    int64_t length;
} reading;

/* Tag i of the list.  Of a string, the number in the order of the first appearances. */
static ot_status number_of(const reading *r, const ot_rows *row, int column, size_t i, int64_t *out, ot_error *err)
{
    ot_words *w = &r->t->column[column].words;
    if (!r->w->text) {
        *out = ot_rows_whole(row, column, i);
        return OT_OK;
    }
    const char *tag = ot_rows_word(row, column, i);
    if (!*tag)
        return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': the tag of word %zu is empty", r->t->path,
                       (long long)row->line, r->t->column[column].name, i + 1);
    OT_TRY(ot_words_add(w, tag, INT32_MAX / 4, r->d->arena, r->t->path, err));
    *out = ot_words_find(w, tag);
    return OT_OK;
}

static ot_status read_row(void *user, const ot_rows *row, int64_t at, ot_error *err)
{
    reading *r = user;
    size_t n;
    int64_t words, *y = r->y + at * r->length;
    const int column = r->w->column[0];
    const int32_t *place = ot_texts_words(r->t->text, at, &words);
    const ot_list list = ot_rows_list(row, column, &n), wanted = r->w->text ? OT_LIST_WORDS : OT_LIST_WHOLE;
    const char *name = r->t->column[column].name;
    if (list != wanted && list != OT_LIST_EMPTY)
        return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': expected a list of %s as in other lines, got %.40s",
                       r->t->path, (long long)row->line, name, r->w->text ? "strings" : "whole numbers",
                       row->cell[column]);
    if ((int64_t)n != words)
        return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': has %zu tag%s for %lld word%s", r->t->path,
                       (long long)row->line, name, n, n == 1 ? "" : "s", (long long)words, words == 1 ? "" : "s");
    for (int64_t i = 0; i < r->length; i++) y[i] = OT_IGNORED;
    for (int64_t i = 0, tag = 0; i < words; i++) {
        OT_TRY(number_of(r, row, column, (size_t)i, &tag, err));
        if (place[i] >= 0) y[place[i]] = tag;
    }
    return OT_OK;
}

/* Gives the strings the numbers of their sorted order. */
static ot_status sort_words(const reading *r, ot_error *err)
{
    ot_words *w = &r->t->column[r->w->column[0]].words;
    if (!w->n) return OT_OK;
    const char **before = ot_arena_copy(r->d->arena, w->word, (size_t)w->n * sizeof *before);
    int *to = ot_arena_alloc(r->d->arena, (size_t)w->n * sizeof *to);
    if (!before || !to) return ot_table_no_memory(r->t, err);
    ot_words_sort(w);
    for (int i = 0; i < w->n; i++) to[i] = ot_words_find(w, before[i]);
    for (int64_t i = 0; i < r->t->rows * r->length; i++)
        if (r->y[i] >= 0) r->y[i] = to[r->y[i]];
    return OT_OK;
}

static ot_status read_target(ot_dataset *d, ot_columns *t, ot_goal *w, ot_error *err)
{
    ot_shape s = { 2, { t->rows, ot_texts_length(t->text) } };
    int64_t there = ot_memory_available();
    ot_array *a = ot_dataset_add(d, w->name);
    if (!a) return ot_table_no_memory(t, err);
    if (!ot_shape_fits(&s, OT_I64) || ot_bytes(&s, OT_I64) > (uint64_t)there)
        return ot_fail(err, OT_E_NOMEM,
                       "%s: out of memory: tags of %lld samples of %lld tokens are more than the %lld MiB that are "
                       "available",
                       t->path, (long long)s.dim[0], (long long)s.dim[1], (long long)(there >> 20));
    OT_TRY(ot_array_alloc(d, a, OT_I64, &s, -1, t->path, err));
    a->role = OT_ARRAY_TARGET;
    w->array = d->n - 1;
    reading r = { d, t, w, a->t.data, s.dim[1] };
    OT_TRY(ot_table_each_row(t, read_row, &r, err));
    return w->text ? sort_words(&r, err) : OT_OK;
}

ot_status ot_tags_read(ot_dataset *d, ot_columns *t, ot_error *err)
{
    for (int i = 0; i < t->n_targets; i++)
        if (t->wanted[i].tags) OT_TRY(read_target(d, t, &t->wanted[i], err));
    return OT_OK;
}

const int32_t *ot_dataset_words(const ot_dataset *d, int64_t sample, int64_t *n)
{
    const ot_columns *t = d->table;
    sample = ot_dataset_origin(d, sample);
    bool words = t && t->text && ot_texts_are_words(t->text) && sample >= 0 && sample < t->rows;
    *n = 0;
    return words ? ot_texts_words(t->text, sample, n) : NULL;
}

int64_t ot_dataset_tokens(const ot_dataset *d) { return ot_texts_length(d->table->text); }
