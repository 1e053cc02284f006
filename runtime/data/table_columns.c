/* table_columns.c - the columns of a table, what each of them is by its cells, and the categories of those that have some.
 *
 * The file is read once for the kinds, and once more for the texts of categories.  The first
 * line is a header if a cell in it is text above a number, if all its cells are texts that no other row has, if one is `target`, if it
 * names a column that the model was trained with or that an option names, or if it counts: 0,1,2,3 or 0,1,2,kind (as pandas writes
 * one).  Numbers with a decimal comma become numbers with a point where a row is read, before anything else looks at it. */
#include <string.h>
#include <strings.h>

#include "runtime/data/table.h"

const char *const ot_kind_name[OT_KINDS] = {
    "number", "category", "boolean", "date", "time", "label", "empty", "image"
};
const char *const ot_column_form_name[OT_FORMS] = { "value", "id", "one-hot", "parts", "text", "image" };

/* A category of more words is free text. */
enum { MOST_WORDS = 1 << 16 };

ot_status ot_table_no_memory(const ot_columns *t, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory", t->path);
}

/* ---- one pass over the rows --------------------------------------------------------------- */

static void remove_points(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (*s != '.') *to++ = *s;
    *to = 0;
}

/* Gives the numbers of columns that have a decimal comma a point, instead of those between thousands. */
static void put_points(const ot_columns *t, const ot_rows *r)
{
    for (int i = 0; i < r->n && i < t->commas; i++) {
        if (!t->comma[i]) continue;
        if (ot_cell_grouped(r->cell[i])) remove_points(r->cell[i]);
        if (ot_cell_comma(r->cell[i])) *strchr(r->cell[i], ',') = '.';
    }
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
        bool reads;
        if ((s = ot_table_reads_row(t, &r, &reads, err)) || !reads) continue;
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
    return f->text ? OT_OK : ot_table_no_memory(t, err);
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
    q->grouped += ot_cell_grouped(text);
    q->points += cell == OT_CELL_NUMBER && strchr(text, '.') && !ot_cell_grouped(text);
    q->texts += cell > OT_CELL_CODE && !ot_cell_grouped(text) && !ot_cell_comma(text);
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
    if (!t->column || !x->first || !x->again) return ot_table_no_memory(t, err);
    for (int i = 0; i < r->n; i++) {
        if (!(x->first[i] = ot_arena_strdup(d->arena, r->cell[i]))) return ot_table_no_memory(t, err);
        t->column[i].commas[ot_cell_comma(r->cell[i])]++; /* it looks like a name until its comma is known */
        t->column[i].grouped += ot_cell_grouped(r->cell[i]);
    }
    x->line = r->line;
    x->names = x->names || t->options.parts;
    OT_TRY(ot_table_find_parts(t, r, err));
    return ot_row_series_find(d, t, r, &x->names, err);
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
        if (!t->column[i].name) return ot_table_no_memory(t, err);
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
        bool reads = true;
        s = first ? keep_first(d, x, &r, err) : ot_table_reads_row(x->t, &r, &reads, err);
        if (!s && !first) s = ot_row_series_note(d, x->t, &r, reads, err);
        if (!s && !first && reads) s = count_row(d, x, &r, err);
        first = false;
    }
    ot_rows_close(&r);
    return s;
}

int64_t ot_column_missing(const ot_column *q)
{
    return q->count[OT_CELL_MISSING] + q->count[OT_CELL_NAN] + q->count[OT_CELL_NULL];
}

/* What a column is by its cells; categories that are identifiers are found when their words are known.  A column without a name that
 * numbers the rows is one, too: the index that pandas writes. */
static ot_kind kind_of(const ot_columns *t, const ot_column *q)
{
    int64_t there = t->rows - ot_column_missing(q);
    if (!there) return OT_KIND_EMPTY;
    if (t->header && !*q->name && q->counted == t->rows && t->rows > 1) return OT_KIND_LABEL;
    if (q->count[OT_CELL_NUMBER] + q->count[OT_CELL_CODE] == there) return OT_KIND_NUMBER;
    if (q->count[OT_CELL_BOOLEAN] == there) return OT_KIND_BOOLEAN;
    if (q->count[OT_CELL_DATE] + q->count[OT_CELL_TIME] == there)
        return q->count[OT_CELL_TIME] ? OT_KIND_TIME : OT_KIND_DATE;
    return OT_KIND_CATEGORY;
}

static ot_status survey_table(ot_dataset *d, ot_columns *t, ot_error *err)
{
    survey x = { .t = t };
    t->regular = true;
    t->scattered = false;
    ot_row_series_forget(t);
    t->series = t->cut = (ot_words){ 0 };
    t->rows = t->columns = 0;
    OT_TRY(survey_rows(d, &x, err));
    return t->columns ? name_columns(d, &x, err) : OT_OK;
}

/* Sets t->comma of columns whose numbers have a decimal comma and never a decimal point.  1,234 may be a thousand: it is read so only if
 * another number of the table shows what the comma is, or semicolons between the columns do.  1.268 is one if another number shows
 * a decimal comma, and none of the table has a decimal point.  *any: there are such columns. */
static ot_status find_commas(ot_dataset *d, ot_columns *t, bool *any, ot_error *err)
{
    bool sure = t->separator == ';', shown = false, pointed = false;
    *any = false;
    t->comma = ot_arena_alloc(d->arena, (size_t)t->columns + 1);
    if (!t->comma) return ot_table_no_memory(t, err);
    t->commas = t->columns;
    t->grouped = false;
    for (int i = 0; i < t->columns; i++)
        shown = shown || (t->column[i].commas[OT_COMMA_DECIMAL] && !t->column[i].points);
    for (int i = 0; i < t->columns; i++) pointed = pointed || t->column[i].points;
    for (int i = 0; i < t->columns && (sure || shown); i++) {
        const ot_column *q = &t->column[i];
        bool commas = q->commas[OT_COMMA_DECIMAL] + q->commas[OT_COMMA_THOUSAND] > 0;
        bool grouped = shown && q->grouped > 0 && !q->texts && (!pointed || q->commas[OT_COMMA_DECIMAL]);
        t->comma[i] = !q->points && (grouped || (commas && !q->grouped));
        t->grouped = t->grouped || (t->comma[i] && grouped);
        *any = *any || t->comma[i];
    }
    return OT_OK;
}

static ot_status tell_commas(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    const char **name = ot_arena_alloc(d->arena, sizeof *name * (size_t)t->columns);
    int n = 0;
    if (!name) return ot_table_no_memory(t, err);
    for (int i = 0; i < t->columns; i++)
        if (t->comma[i]) name[n++] = t->column[i].name;
    const char *all = ot_arena_names(d->arena, name, n);
    if (!all) return ot_table_no_memory(t, err);
    return ot_dataset_tell(d, err, "%s: numbers with a decimal comma in column%s %s%s", t->path, n > 1 ? "s" : "", all,
                           t->grouped ? "; points between groups of three digits separate thousands (1.268 is 1268)"
                                      : "");
}

ot_status ot_table_find_columns(ot_dataset *d, ot_columns *t, ot_error *err)
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
    bool parts = t->options.parts != NULL;
    if (parts && !t->rows && t->part != OT_SPLIT_TRAIN) return OT_OK; /* a part that it does not have */
    if (parts) OT_TRY(ot_table_tell_part(d, t, err));
    if (!t->rows)
        return ot_fail(err, OT_E_DATA,
                       t->columns                 ? "%s: has no samples, only the names of its columns"
                       : t->mark == OT_ROWS_CONLL ? "%s: has no sentences"
                                                  : "%s: is empty",
                       t->path);
    int usable = t->columns - parts;
    if (usable < 2 && !t->options.unlabelled)
        return ot_fail(err, OT_E_DATA,
                       "%s: has %d column%s%s; expected at least one input column and one target column%s", t->path,
                       usable, usable == 1 ? "" : "s", parts ? " beside that of --split" : "",
                       t->mark ? "" : "; columns are separated by commas, semicolons or tabs");
    return OT_OK;
}

bool ot_table_is_target(const ot_columns *t, int column)
{
    for (int k = 0; k < t->n_targets; k++)
        for (int i = 0; i < t->wanted[k].n; i++)
            if (t->wanted[k].column[i] == column) return true;
    return false;
}

void ot_table_find_mapping(ot_columns *t)
{
    t->mapped = t->fitted = false;
    for (int i = 0; i < t->columns; i++) {
        const ot_column *q = &t->column[i];
        bool numbers = q->kind == OT_KIND_NUMBER || (q->kind == OT_KIND_LABEL && q->counted == t->rows);
        bool other = !numbers && q->kind != OT_KIND_IMAGE;
        if (i == t->split_column || ot_row_series_apart(t, i) || (t->ordered && !t->ordered[i])) continue;
        t->mapped |= !ot_table_is_target(t, i) && (other || ot_column_missing(q));
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

/* The first cell of text among numbers or dates, where nine of ten cells are these: a mistake rather than a category.  *what: "a
 * number", "a date ...", of which there are *n; NULL: there is none. */
static const ot_first *stray_cell(const ot_columns *t, const ot_column *q, const char **what, int64_t *n)
{
    int64_t numbers = q->count[OT_CELL_NUMBER], dates = q->count[OT_CELL_DATE] + q->count[OT_CELL_TIME];
    const ot_first *f = dates > numbers ? &q->undated : &q->odd;
    *what = dates > numbers ? "a date such as 2024-05-31" : "a number";
    *n = dates > numbers ? dates : numbers;
    bool codes = q->count[OT_CELL_CODE] > 0; /* 007 is no number */
    return f->line && !codes && *n * 10 >= (t->rows - ot_column_missing(q)) * 9 ? f : NULL;
}

ot_status ot_table_check_stray(const ot_columns *t, const ot_column *q, bool input, ot_error *err)
{
    const char *what;
    int64_t n;
    const ot_first *f = stray_cell(t, q, &what, &n);
    if (!f) return OT_OK;
    ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': contains '%.40s'; expected %s as in %lld other rows", t->path,
            (long long)f->line, q->name, f->text, what, (long long)n);
    if (!input) return OT_E_DATA;
    return ot_fail_more(err, OT_E_DATA,
                        "a missing value is an empty cell, NA, NaN, null or ?; --inputs=-%s omits the column", q->name);
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
        bool lost = ot_cell_of(text, x->t->point, &v) <= OT_CELL_NULL; /* None may be a class of a target */
        bool gap = lost && x->t->options.described && strcasecmp(text, "none") != 0;
        if (!x->wanted[i] || (lost && !x->target[i]) || gap) continue;
        int before = w->n;
        int most = x->target[i] || x->t->column[i].named ? INT32_MAX / 4 : MOST_WORDS;
        OT_TRY(ot_words_add(w, text, most, x->d->arena, x->t->path, err));
        if (w->n > before && !ot_is_utf8(text))
            return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': the text '%.60s' is not UTF-8" CONVERT,
                           x->t->path, (long long)r->line, x->t->column[i].name, text);
    }
    return OT_OK;
}

ot_status ot_table_collect_words(ot_dataset *d, ot_columns *t, ot_error *err)
{
    enum { FEW = 20 };
    bool any = false;
    collector x = { d, t, ot_arena_alloc(d->arena, (size_t)t->columns), ot_arena_alloc(d->arena, (size_t)t->columns) };
    if (!x.wanted || !x.target) return ot_table_no_memory(t, err);
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
        int64_t there = t->rows - ot_column_missing(q), most;
        const char *what;
        bool differ = q->words.full || (there >= FEW && q->words.n == there);
        ot_words_sort(&q->words);
        if (x.wanted[i] && !x.target[i] && differ && !q->named && !stray_cell(t, q, &what, &most))
            q->kind = OT_KIND_LABEL;
    }
    return OT_OK;
}
