/* csv.c - reads tables: what the columns are, and the arrays of them.
 *
 * The file is read twice, and a third time in between for the texts of categories: only the arrays are in memory.  The first
 * line is a header if a cell in it is text above a number, if all its cells are texts that no other row has, if one is `target`, if it
 * names a column that the model was trained with or that an option names, or if it counts: 0,1,2,3 or 0,1,2,kind (as pandas writes
 * one).  Numbers with a decimal comma become numbers with a point where a row is read, before anything else looks at it.
 *
 * Shapes    inputs: (rows, elements); target: (rows) i64 for whole numbers and for text, whose sorted values become the
 *           classes, f32 otherwise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/data/table.h"

const char *const ot_kind_name[OT_KINDS] = {
    "number", "category", "boolean", "date", "time", "label", "empty", "image"
};
const char *const ot_column_form_name[OT_FORMS] = { "value", "id", "one-hot", "parts", "text", "image" };

/* A category of more words is free text. */
enum { MOST_WORDS = 1 << 16 };

static ot_status no_memory(const ot_columns *t, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory", t->path);
}

/* ---- one pass over the rows --------------------------------------------------------------- */

/* Gives the numbers of columns that have a decimal comma a point. */
static void put_points(const ot_columns *t, const ot_rows *r)
{
    for (int i = 0; i < r->n && i < t->commas; i++)
        if (t->comma[i] && ot_cell_comma(r->cell[i])) *strchr(r->cell[i], ',') = '.';
}

ot_status ot_table_each_row(const ot_columns *t, ot_row_function *f, void *user, ot_error *err)
{
    ot_rows r;
    bool more = true, header = t->header;
    int64_t rows = 0;
    ot_status s = ot_rows_open(&r, t->path, t->mark, err);
    while (!s && more) {
        s = ot_rows_next(&r, &more, err);
        if (s || !more) break;
        if (header) {
            header = false;
            continue;
        }
        if (r.n != t->columns || rows == t->rows) break;
        put_points(t, &r);
        s = f(user, &r, rows++, err);
    }
    ot_rows_close(&r);
    if (!s && (more || rows != t->rows)) s = ot_fail(err, OT_E_IO, "%s: changed while it was read", t->path);
    return s;
}

/* ---- kinds of columns ------------------------------------------------------------------------ */

typedef struct survey {
    ot_columns *t;
    const char **first; /* the cells of the first row */
    bool *again;        /* some other row has the same */
    int64_t line, next; /* of the first row; where the next row of a regular file begins */
    int64_t rows;       /* besides the first */
    bool names;         /* the first row is known to be names */
    bool above;         /* text of the first row is above a number */
} survey;

/* The first row is counted last if it turns out to be no header. */
static ot_status note_first(ot_dataset *d, const ot_columns *t, ot_first *f, const char *text, int64_t line,
                            ot_error *err)
{
    if (f->line && f->line < line) return OT_OK;
    *f = (ot_first){ line, ot_arena_strdup(d->arena, text) };
    return f->text ? OT_OK : no_memory(t, err);
}

/* What a cell adds to its column. */
static ot_status count_cell(ot_dataset *d, ot_columns *t, int c, const char *text, int64_t line, ot_error *err)
{
    double v;
    ot_column *q = &t->column[c];
    ot_cell cell = ot_cell_of(text, t->point, &v);
    if (!q->cells) q->first = v;
    q->counted += cell == OT_CELL_NUMBER && v == q->first + (double)q->cells;
    q->cells++;
    q->count[cell]++;
    q->bytes += (int64_t)strlen(text);
    q->commas[ot_cell_comma(text)]++;
    q->points += cell == OT_CELL_NUMBER && strchr(text, '.');
    bool none = cell == OT_CELL_NULL && !strcasecmp(text, "none");
    q->nones += none;
    if (cell <= OT_CELL_NULL) OT_TRY(note_first(d, t, none ? &q->none : &q->lost, text, line, err));
    if (cell > OT_CELL_CODE) OT_TRY(note_first(d, t, &q->odd, text, line, err));
    if (cell > OT_CELL_NULL && cell != OT_CELL_DATE && cell != OT_CELL_TIME)
        OT_TRY(note_first(d, t, &q->undated, text, line, err));
    if (cell == OT_CELL_NUMBER || cell == OT_CELL_CODE) {
        q->whole += ot_cell_whole(text, v);
        q->exact += ot_is_whole(v);
        q->beyond += v != 0 && v != 1;
    }
    return OT_OK;
}

static ot_status keep_first(ot_dataset *d, survey *x, const ot_rows *r, ot_error *err)
{
    ot_columns *t = x->t;
    t->columns = r->n;
    t->column = ot_arena_alloc(d->arena, (size_t)r->n * sizeof *t->column);
    x->first = ot_arena_alloc(d->arena, (size_t)r->n * sizeof *x->first);
    x->again = ot_arena_alloc(d->arena, (size_t)r->n * sizeof *x->again);
    if (!t->column || !x->first || !x->again) return no_memory(t, err);
    for (int i = 0; i < r->n; i++) {
        if (!(x->first[i] = ot_arena_strdup(d->arena, r->cell[i]))) return no_memory(t, err);
        t->column[i].commas[ot_cell_comma(r->cell[i])]++; /* it looks like a name until its comma is known */
    }
    x->line = r->line;
    return OT_OK;
}

static ot_status count_row(ot_dataset *d, survey *x, const ot_rows *r, ot_error *err)
{
    ot_columns *t = x->t;
    double v;
    if (r->n != t->columns)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: %d columns, but the first line has %d", t->path,
                       (long long)r->line, r->n, t->columns);
    if (!x->rows) t->first_line = x->next = r->line;
    for (int i = 0; i < r->n; i++) {
        OT_TRY(count_cell(d, t, i, r->cell[i], r->line, err));
        ot_list list = ot_rows_list(r, i, NULL);
        t->column[i].listed += list != OT_LIST_NONE;
        t->column[i].strings |= list == OT_LIST_WORDS;
        x->again[i] = x->again[i] || !strcmp(r->cell[i], x->first[i]);
        if (!x->rows && ot_cell_of(x->first[i], t->point, &v) != OT_CELL_MISSING &&
            !ot_cell_number(x->first[i], t->point, &v))
            x->above = x->above || ot_cell_number(r->cell[i], t->point, &v);
    }
    t->regular = t->regular && r->line == x->next++;
    x->rows++;
    return OT_OK;
}

/* All cells of the first row are texts, and no other row of three at least has one of them. */
static bool all_names(const survey *x)
{
    double v;
    bool names = true, text = true;
    for (int i = 0; i < x->t->columns; i++) {
        ot_cell cell = ot_cell_of(x->first[i], x->t->point, &v);
        names = names && cell == OT_CELL_TEXT && !x->again[i];
        text = text && !ot_cell_number(x->first[i], x->t->point, &v);
        for (int k = 0; k < i && names && i < 64; k++) names = strcmp(x->first[i], x->first[k]) != 0;
    }
    return x->rows ? names && x->rows > 1 : text;
}

/* A text that is a name and no value: no other row of two at least has it. */
static bool is_name(const survey *x, int i)
{
    double v;
    return ot_cell_of(x->first[i], x->t->point, &v) == OT_CELL_TEXT && !x->again[i] && x->rows > 1;
}

/* 0, 1, 2, 3 ...: names that a program gave; beside them may be others, such as that of the target. */
static bool counts(const survey *x)
{
    int n = 0;
    char text[16];
    for (int i = 0; i < x->t->columns; i++) {
        snprintf(text, sizeof text, "%d", n);
        if (!strcmp(x->first[i], text)) n++;
        else if (!is_name(x, i)) return false;
    }
    return n > 2 && x->t->columns > 3;
}

static bool names_target(const survey *x)
{
    bool some = false;
    for (int i = 0; i < x->t->columns; i++) some |= is_name(x, i) && !strcasecmp(x->first[i], "target");
    return some;
}

/* No other row has a cell of the first. */
static bool is_apart(const survey *x)
{
    bool some = false;
    for (int i = 0; i < x->t->columns; i++) some |= x->again[i];
    return !some;
}

#define CONVERT "; convert the file, for example with iconv -f LATIN1 -t UTF-8"

static ot_status name_columns(ot_dataset *d, survey *x, ot_error *err)
{
    ot_columns *t = x->t;
    bool image = false, names = false;
    for (int i = 0; i < t->columns && !image; i++) OT_TRY(ot_table_names_image(d, t, x->first[i], &image, err));
    if (!image) names = x->above || all_names(x) || names_target(x) || counts(x);
    if (!image && !names) OT_TRY(ot_table_knows_name(t, x->first, is_apart(x), &names, err));
    t->header = x->names || names;
    t->rows = x->rows + !t->header;
    t->odd_header = false;
    for (int i = 0; i < t->columns; i++) {
        double v;
        ot_cell cell = ot_cell_of(x->first[i], t->point, &v);
        t->odd_header |= names && !x->names && (cell == OT_CELL_NUMBER || cell == OT_CELL_CODE);
        t->column[i].name = t->header ? x->first[i] : ot_arena_printf(d->arena, "%d", i + 1);
        if (!t->column[i].name) return no_memory(t, err);
        if (t->header && !ot_is_utf8(t->column[i].name))
            return ot_fail(err, OT_E_DATA, "%s: line %lld: the name of column %d, '%.60s', is not UTF-8" CONVERT,
                           t->path, (long long)x->line, i + 1, t->column[i].name);
        if (!t->header) OT_TRY(count_cell(d, t, i, x->first[i], x->line, err));
    }
    if (!t->header) {
        t->regular = t->regular && (!x->rows || t->first_line == x->line + 1);
        t->first_line = x->line;
    }
    return OT_OK;
}

static ot_status survey_rows(ot_dataset *d, survey *x, ot_error *err)
{
    ot_rows r;
    bool more = true, first = true;
    ot_status s = ot_rows_open(&r, x->t->path, x->t->mark, err);
    x->names = r.names;
    x->t->separator = s ? 0 : ot_rows_separator(&r);
    while (!s && more) {
        s = ot_rows_next(&r, &more, err);
        if (s || !more) break;
        put_points(x->t, &r);
        s = first ? keep_first(d, x, &r, err) : count_row(d, x, &r, err);
        first = false;
    }
    ot_rows_close(&r);
    return s;
}

static int64_t sum(const ot_column *q, ot_cell from, ot_cell to)
{
    int64_t n = 0;
    for (int k = from; k <= (int)to; k++) n += q->count[k];
    return n;
}

/* What a column is by its cells; categories that are identifiers are found when their words are known.  A column without a name that
 * numbers the rows is one, too: the index that pandas writes. */
static ot_kind kind_of(const ot_columns *t, const ot_column *q)
{
    int64_t there = t->rows - sum(q, OT_CELL_MISSING, OT_CELL_NULL);
    if (!there) return OT_KIND_EMPTY;
    if (t->header && !*q->name && q->counted == t->rows && t->rows > 1) return OT_KIND_LABEL;
    if (sum(q, OT_CELL_NUMBER, OT_CELL_CODE) == there) return OT_KIND_NUMBER;
    if (q->count[OT_CELL_BOOLEAN] == there) return OT_KIND_BOOLEAN;
    if (sum(q, OT_CELL_DATE, OT_CELL_TIME) == there) return q->count[OT_CELL_TIME] ? OT_KIND_TIME : OT_KIND_DATE;
    return OT_KIND_CATEGORY;
}

static ot_status survey_table(ot_dataset *d, ot_columns *t, ot_error *err)
{
    survey x = { .t = t };
    t->regular = true;
    t->rows = t->columns = 0;
    OT_TRY(survey_rows(d, &x, err));
    return t->columns ? name_columns(d, &x, err) : OT_OK;
}

/* Sets t->comma of columns whose numbers have a decimal comma and never a point.  1,234 may be a thousand: it is read so only if
 * another number of the table shows what the comma is, or semicolons between the columns do.  *any: there are such columns. */
static ot_status find_commas(ot_dataset *d, ot_columns *t, bool *any, ot_error *err)
{
    bool sure = t->separator == ';';
    *any = false;
    t->comma = ot_arena_alloc(d->arena, (size_t)t->columns + 1);
    if (!t->comma) return no_memory(t, err);
    t->commas = t->columns;
    for (int i = 0; i < t->columns; i++) sure = sure || (t->column[i].commas[OT_COMMA_DECIMAL] && !t->column[i].points);
    for (int i = 0; i < t->columns && sure; i++) {
        const int64_t *n = t->column[i].commas;
        t->comma[i] = n[OT_COMMA_DECIMAL] + n[OT_COMMA_THOUSAND] > 0 && !t->column[i].points;
        *any = *any || t->comma[i];
    }
    return OT_OK;
}

static ot_status tell_commas(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    const char **name = ot_arena_alloc(d->arena, sizeof *name * (size_t)t->columns);
    int n = 0;
    if (!name) return no_memory(t, err);
    for (int i = 0; i < t->columns; i++)
        if (t->comma[i]) name[n++] = t->column[i].name;
    const char *all = ot_arena_names(d->arena, name, n);
    if (!all) return no_memory(t, err);
    return ot_dataset_tell(d, err, "%s: numbers with a decimal comma in column%s %s", t->path, n > 1 ? "s" : "", all);
}

static ot_status find_columns(ot_dataset *d, ot_columns *t, ot_error *err)
{
    bool commas;
    t->commas = 0;
    OT_TRY(survey_table(d, t, err));
    OT_TRY(find_commas(d, t, &commas, err));
    if (commas) {
        OT_TRY(survey_table(d, t, err));
        OT_TRY(tell_commas(d, t, err));
    }
    for (int i = 0; i < t->columns; i++) t->column[i].kind = kind_of(t, &t->column[i]);
    OT_TRY(ot_table_find_images(d, t, err));
    if (!t->rows)
        return ot_fail(err, OT_E_DATA,
                       t->columns                 ? "%s: has no samples, only the names of its columns"
                       : t->mark == OT_ROWS_CONLL ? "%s: has no sentences"
                                                  : "%s: is empty",
                       t->path);
    if (t->columns < 2 && !t->options.unlabelled)
        return ot_fail(err, OT_E_DATA, "%s: has 1 column; expected at least one input column and one target column%s",
                       t->path, t->mark ? "" : "; columns are separated by commas, semicolons or tabs");
    return OT_OK;
}

static bool is_target(const ot_columns *t, int column)
{
    for (int k = 0; k < t->n_targets; k++)
        for (int i = 0; i < t->wanted[k].n; i++)
            if (t->wanted[k].column[i] == column) return true;
    return false;
}

/* Whether the inputs are more than numbers; then numbers with zeros in front are codes. */
static void find_mapping(ot_columns *t)
{
    t->mapped = t->fitted = false;
    for (int i = 0; i < t->columns; i++) {
        const ot_column *q = &t->column[i];
        bool numbers = q->kind == OT_KIND_NUMBER || (q->kind == OT_KIND_LABEL && q->counted == t->rows);
        bool other = !numbers && q->kind != OT_KIND_IMAGE;
        if (t->ordered && !t->ordered[i]) continue;
        t->mapped |= !is_target(t, i) && (other || sum(q, OT_CELL_MISSING, OT_CELL_NULL));
    }
    for (int i = 0; i < t->columns && t->mapped; i++)
        if (t->column[i].kind == OT_KIND_NUMBER && t->column[i].count[OT_CELL_CODE])
            t->column[i].kind = OT_KIND_CATEGORY;
}

int ot_column_find(const ot_columns *t, const char *name)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->column[i].name, name)) return i;
    return -1;
}

/* ---- words -------------------------------------------------------------------------------------- */

typedef struct collector {
    ot_dataset *d;
    ot_columns *t;
    bool *wanted, *target; /* columns whose words are needed; those that are targets */
} collector;

static ot_status collect_row(void *user, const ot_rows *r, int64_t row, ot_error *err)
{
    (void)row;
    collector *x = user;
    for (int i = 0; i < r->n; i++) {
        double v;
        ot_words *w = &x->t->column[i].words;
        const char *text = r->cell[i];
        if (!x->wanted[i] || (!x->target[i] && ot_cell_of(text, x->t->point, &v) <= OT_CELL_NULL)) continue;
        int before = w->n;
        int most = x->target[i] || x->t->column[i].named ? INT32_MAX / 4 : MOST_WORDS;
        OT_TRY(ot_words_add(w, text, most, x->d->arena, x->t->path, err));
        if (w->n > before && !ot_is_utf8(text))
            return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': the text '%.60s' is not UTF-8" CONVERT,
                           x->t->path, (long long)r->line, x->t->column[i].name, text);
    }
    return OT_OK;
}

/* The categories of inputs, and the classes of targets.  A column of nothing but different texts is an identifier. */
static ot_status collect_words(ot_dataset *d, ot_columns *t, ot_error *err)
{
    enum { FEW = 20 };
    bool any = false;
    collector x = { d, t, ot_arena_alloc(d->arena, (size_t)t->columns), ot_arena_alloc(d->arena, (size_t)t->columns) };
    if (!x.wanted || !x.target) return no_memory(t, err);
    for (int i = 0; i < t->columns; i++) x.wanted[i] = !t->recorded && t->column[i].kind == OT_KIND_CATEGORY;
    for (int k = 0; k < t->n_targets; k++)
        for (int i = 0; i < t->wanted[k].n; i++) {
            int c = t->wanted[k].column[i];
            x.wanted[c] = x.target[c] = t->wanted[k].text && !t->wanted[k].tags;
        }
    for (int i = 0; i < t->columns; i++) any = any || x.wanted[i];
    if (!any) return OT_OK;
    OT_TRY(ot_table_each_row(t, collect_row, &x, err));
    for (int i = 0; i < t->columns; i++) {
        ot_column *q = &t->column[i];
        int64_t there = t->rows - sum(q, OT_CELL_MISSING, OT_CELL_NULL), most;
        const char *what;
        bool differ = q->words.full || (there >= FEW && q->words.n == there);
        ot_words_sort(&q->words);
        if (x.wanted[i] && !x.target[i] && differ && !q->named && !ot_table_stray(t, q, &what, &most))
            q->kind = OT_KIND_LABEL;
    }
    return OT_OK;
}

/* ---- arrays --------------------------------------------------------------------------------------- */

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
        if (!f->unknown_word) return no_memory(t, err);
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
        if (!own) return no_memory(x->t, err);
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
        if (w->text) {
            ((int64_t *)a->t.data)[row] = ot_words_find(&q->words, text);
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
    if (!a) return no_memory(t, err);
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
    return a->t.data ? OT_OK : no_memory(t, err);
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

static ot_status add_arrays(ot_dataset *d, ot_columns *t, ot_error *err)
{
    d->n = 0;
    for (int i = 0; i < t->n_inputs; i++) {
        ot_table_input *in = &t->input[i];
        if (in->member) {
            if (!ot_dataset_add(d, in->name)) return no_memory(t, err);
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
            if (!ot_dataset_add(d, w->name)) return no_memory(t, err);
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

/* Reads the whole table for the current target. */
static ot_status arrange(ot_dataset *d, ot_columns *t, ot_error *err)
{
    filler x = { d, t };
    d->cells = 0;
    OT_TRY(find_columns(d, t, err));
    OT_TRY(ot_texts_find(d, t, err));
    OT_TRY(ot_row_windows_choose(d, t, err));
    OT_TRY(ot_table_recall_order(d, t, err));
    OT_TRY(ot_table_choose_targets(d, t, err));
    ot_row_windows_drop_target(d, t);
    OT_TRY(ot_table_recall(d, t, &t->recorded, err));
    if (t->options.columns && (t->recorded || t->order)) {
        t->options.columns = NULL;
        OT_TRY(ot_dataset_tell(d, err, "%s: --inputs has no effect: the model records the columns that it takes",
                               t->path));
    }
    OT_TRY(ot_table_tell_anew(d, t, err));
    OT_TRY(ot_table_name_columns(d, t, err));
    if (!t->recorded) find_mapping(t);
    OT_TRY(collect_words(d, t, err));
    if (!t->recorded) OT_TRY(ot_table_choose_inputs(d, t, err));
    OT_TRY(add_arrays(d, t, err));
    if (!t->regular && !(t->line = ot_arena_alloc(d->arena, (size_t)t->rows * sizeof *t->line)))
        return no_memory(t, err);
    if (t->text) OT_TRY(ot_texts_read(d, t, err));
    OT_TRY(ot_tags_read(d, t, err));
    OT_TRY(ot_table_each_row(t, fill_row, &x, err));
    if (t->images) OT_TRY(ot_table_finish_images(d, t, err));
    set_classes(d, t);
    OT_TRY(tell_missing(d, t, err));
    OT_TRY(tell_unknown(d, t, err));
    return ot_row_windows_make(d, t, err);
}

static ot_status arranged(ot_dataset *d, ot_columns *t, ot_error *err)
{
    ot_error own = { 0 };
    if (!err) err = &own;
    t->point = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    ot_status s = t->point ? arrange(d, t, err) : no_memory(t, err);
    if (t->point) freelocale(t->point);
    ot_table_forget(t);
    if (!s && !t->options.part) s = ot_dataset_fit(d, NULL, err);
    return s;
}

/* ---- the data set ------------------------------------------------------------------------------------ */

/* A copy, so that the table can be read again for another target. */
static ot_status keep_options(ot_dataset *d, ot_columns *t, const ot_data_options *o, ot_error *err)
{
    ot_arena *a = d->arena;
    ot_data_options *own = &t->options;
    *own = *o;
    own->search = NULL;
    const char **text[] = { &own->target, &own->preprocess, &own->columns, &own->categories,
                            &own->passed, &own->normalize,  &own->text,    &own->tokenizer };
    for (int i = 0; i < OT_LEN(text); i++)
        if (*text[i] && !(*text[i] = ot_arena_strdup(a, *text[i]))) return no_memory(t, err);
    ot_data_input *in = ot_arena_alloc(a, sizeof *in * (size_t)(o->n_inputs + 1));
    if (!in) return no_memory(t, err);
    own->input = in;
    for (int i = 0; i < o->n_inputs; i++) {
        in[i] = o->input[i];
        if (!(in[i].name = ot_arena_strdup(a, in[i].name))) return no_memory(t, err);
    }
    t->target = own->target;
    return OT_OK;
}

ot_status ot_csv_open(const char *path, ot_dataset *d, ot_error *err)
{
    ot_columns *t = ot_arena_alloc(d->arena, sizeof *t);
    if (!t) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    t->path = d->name; /* the same text, and it stays */
    t->mark = ot_is_folder(path) ? OT_ROWS_FOLDER : ot_rows_mark(path);
    OT_TRY(keep_options(d, t, d->options, err));
    bool tokens = t->options.tokenizer || t->options.text || ot_texts_known(&t->options);
    if (tokens && t->mark == OT_ROWS_JSON) t->mark = OT_ROWS_TAGGED;
    d->table = t;
    return arranged(d, t, err);
}

ot_status ot_table_target(ot_dataset *d, const char *name, ot_error *err)
{
    ot_columns *t = d->table;
    if (t->target && !strcmp(t->target, name)) return OT_OK;
    if (!(t->target = ot_arena_strdup(d->arena, name))) return no_memory(t, err);
    OT_TRY(arranged(d, t, err));
    ot_dataset_arrange(d);
    return ot_dataset_finish(d, err);
}

ot_status ot_dataset_target_line(const ot_dataset *d, ot_arena *a, const char **line, ot_error *err)
{
    *line = NULL;
    if (!d->table || !d->column || !*d->column) return OT_OK;
    *line = ot_arena_printf(a, "%s: the target is column '%s'%s (change with --target)", d->name, d->column,
                            d->last ? ", the last one" : "");
    return *line ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a note");
}

bool ot_dataset_odd_header(const ot_dataset *d) { return d->table && d->table->odd_header; }

bool ot_dataset_has_gaps(const ot_dataset *d) { return d->table && d->table->line && d->table->mark != OT_ROWS_FOLDER; }
