/* csv.c - reads tables of numbers: one column is the target, the others are the input.
 *
 * Spec      RFC 4180: quotes, doubled quotes, line ends in quotes, CR LF. Also a semicolon or a tab if the first line
 *           has more of them; spaces around a field; empty lines between rows. The first line is a header if a cell in
 *           it is text above a number.  The target is the column of that name, else the last.
 * Shapes    input: (rows, columns - 1) f32; target: (rows) i64 for whole numbers and for text, whose
 *           sorted values become the classes, f32 otherwise.
 * Numerics  Numbers have a decimal point in every locale. */
#include "runtime/data/internal.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ot_columns {
    bool header; /* the file names the columns */
    int columns;
    int64_t rows;
    const char *const *name; /* of columns */
    char **cell;             /* (rows, columns) */
    int64_t *line;           /* of each row in the file, from 1 */
};

enum { MOST_COLUMNS = 1 << 16, PIECE = 1 << 16 };

/* ---- text to cells ----------------------------------------------------------------- */

typedef struct reader {
    char *p, *end; /* the text; fields are cut and unquoted in place */
    char mark;     /* the separator */
    int64_t line;
    char **cell; /* number of cells so far */
    int64_t *row_line;
    int64_t n, rows;
    int columns; /* of the first row */
    const char *path;
} reader;

/* Allocates all cells and lines: at most as many as there are separators and line ends.  The size is checked first,
 * since a file of separators needs many times its size: 8 bytes a cell here, 4 later. */
static ot_status make_room(reader *r, ot_dataset *d, ot_error *err)
{
    int64_t cells = 1, rows = 1, there = ot_memory_available();
    for (const char *p = r->p; p < r->end; p++) {
        cells += *p == r->mark || *p == '\n';
        rows += *p == '\n';
    }
    int64_t bytes = cells * ((int64_t)sizeof *r->cell + 4) + rows * ((int64_t)sizeof *r->row_line + 8);
    if (bytes > there)
        return ot_fail(err, OT_E_NOMEM, "%s: out of memory: its %lld cells need %lld MiB, but %lld MiB are available",
                       r->path, (long long)cells, (long long)(bytes >> 20), (long long)(there >> 20));
    r->cell = ot_arena_alloc(d->arena, (size_t)cells * sizeof *r->cell);
    r->row_line = ot_arena_alloc(d->arena, (size_t)rows * sizeof *r->row_line);
    return r->cell && r->row_line
               ? OT_OK
               : ot_fail(err, OT_E_NOMEM, "%s: no memory for its %lld cells", r->path, (long long)cells);
}

/* A quoted field, from its opening quote; *to is its text. */
static ot_status quoted(reader *r, char **to, ot_error *err)
{
    char *out = *to = ++r->p;
    int64_t began = r->line;
    for (;; r->p++) {
        if (r->p == r->end)
            return ot_fail(err, OT_E_DATA, "%s: line %lld: a quote is not closed", r->path, (long long)began);
        if (*r->p == '\n') r->line++;
        if (*r->p == '"') {
            if (r->p + 1 == r->end || r->p[1] != '"') break;
            r->p++;
        }
        *out++ = *r->p;
    }
    r->p++;
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\r')) r->p++;
    if (r->p < r->end && *r->p != r->mark && *r->p != '\n')
        return ot_fail(err, OT_E_DATA, "%s: line %lld: text after a closing quote", r->path, (long long)r->line);
    *out = 0; /* at or before the closing quote */
    return OT_OK;
}

static void plain(reader *r, char **to)
{
    *to = r->p;
    while (r->p < r->end && *r->p != r->mark && *r->p != '\n') r->p++;
}

/* Trims the spaces of a field that ended at `end`; the byte there is the separator, already read. */
static char *trimmed(char *from, char *end)
{
    while (from < end && isspace((unsigned char)*from)) from++;
    while (end > from && isspace((unsigned char)end[-1])) end--;
    *end = 0;
    return from;
}

/* One row; a line of spaces is skipped. */
static ot_status read_row(reader *r, ot_error *err)
{
    int columns = 0;
    int64_t line = r->line;
    bool more = true, blank = true;
    while (more) {
        char *field, *begin = r->p;
        while (r->p < r->end && *r->p == ' ' && r->mark != ' ') r->p++;
        bool quote = r->p < r->end && *r->p == '"';
        if (quote) {
            OT_TRY(quoted(r, &field, err));
        } else {
            r->p = begin;
            plain(r, &field);
        }
        char *end = r->p;
        more = r->p < r->end && *r->p == r->mark;
        if (r->p < r->end && *r->p == '\n') r->line++;
        if (r->p < r->end) r->p++;
        if (!quote) field = trimmed(field, end);
        blank = blank && !quote && !*field && !more;
        if (columns == MOST_COLUMNS)
            return ot_fail(err, OT_E_DATA, "%s: line %lld: more than %d columns", r->path, (long long)line,
                           MOST_COLUMNS);
        r->cell[r->n++] = field;
        columns++;
    }
    if (blank && columns == 1) {
        r->n--;
        return OT_OK;
    }
    if (!r->rows) r->columns = columns;
    if (columns != r->columns)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: %d columns, but the first line has %d", r->path, (long long)line,
                       columns, r->columns);
    r->row_line[r->rows++] = line;
    return OT_OK;
}

/* The separator: the most frequent in the first line, outside of quotes. */
static char find_mark(const char *p, const char *end)
{
    static const char mark[] = { ',', ';', '\t' };
    int count[3] = { 0 }, best = 0;
    bool quote = false;
    for (; p < end && (*p != '\n' || quote); p++) {
        quote ^= *p == '"';
        for (int i = 0; i < 3; i++) count[i] += !quote && *p == mark[i];
    }
    for (int i = 1; i < 3; i++)
        if (count[i] > count[best]) best = i;
    return mark[best];
}

/* ---- cells to numbers ---------------------------------------------------------------- */

/* false: text.  An empty cell, "?" and "NA" are not numbers: the value is missing. */
static bool number(const char *s, locale_t point, double *v)
{
    char *end;
    if (!*s || strpbrk(s, "xX(")) return false; /* no hexadecimal, no nan(...) */
    *v = strtod_l(s, &end, point);
    return !*end && end != s;
}

static bool missing(const char *s) { return !*s || !strcmp(s, "?") || !strcmp(s, "NA"); }

static bool is_header(const reader *r, locale_t point)
{
    bool all_text = true;
    double v;
    for (int i = 0; i < r->columns; i++) {
        bool text = !number(r->cell[i], point, &v);
        all_text = all_text && text;
        if (text && !missing(r->cell[i]) && r->rows > 1 && number(r->cell[r->columns + i], point, &v)) return true;
    }
    return all_text && r->rows == 1;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int by_text_there(const void *a, const void *b)
{
    return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* The distinct strings of the column, sorted, become class_name; the target their indices. */
static ot_status classes(ot_dataset *d, const ot_columns *t, int column, ot_array *y, ot_error *err)
{
    const char **name = ot_arena_alloc(d->arena, (size_t)t->rows * sizeof *name);
    if (!name) return ot_fail(err, OT_E_NOMEM, "%s: no memory for class names", d->name);
    int64_t n = 0, *to = y->t.data;
    for (int64_t i = 0; i < t->rows; i++) name[i] = t->cell[i * t->columns + column];
    qsort(name, (size_t)t->rows, sizeof *name, by_text);
    for (int64_t i = 0; i < t->rows; i++)
        if (i == 0 || strcmp(name[i], name[n - 1])) name[n++] = name[i];
    if (n > INT32_MAX) return ot_fail(err, OT_E_DATA, "%s: too many classes", d->name);
    for (int64_t i = 0; i < t->rows; i++) {
        const char *const *at = bsearch(&t->cell[i * t->columns + column], name, (size_t)n, sizeof *name, by_text);
        to[i] = at - (const char *const *)name;
    }
    d->class_name = name;
    d->n_classes = (int)n;
    return OT_OK;
}

static ot_status fill_target(ot_dataset *d, const ot_columns *t, int column, locale_t point, ot_array *y, ot_error *err)
{
    bool text = false, whole = true;
    for (int64_t i = 0; i < t->rows; i++) {
        const char *s = t->cell[i * t->columns + column];
        double v = 0;
        if (missing(s))
            return ot_fail(err, OT_E_DATA, "%s: line %lld: the target (column '%s') is missing", d->name,
                           (long long)t->line[i], t->name[column]);
        bool is_number = number(s, point, &v);
        text = text || !is_number;
        whole = whole && is_number && v == floor(v) && fabs(v) < 0x1p53 && !strpbrk(s, ".eE");
    }
    ot_shape one = { .rank = 1, .dim = { t->rows } };
    d->n_classes = 0;
    d->class_name = NULL;
    OT_TRY(ot_array_alloc(d, y, text || whole ? OT_I64 : OT_F32, &one, -1, d->name, err));
    if (text) return classes(d, t, column, y, err);
    for (int64_t i = 0; i < t->rows; i++) {
        double v = 0;
        number(t->cell[i * t->columns + column], point, &v);
        ot_set_f64(y->t.data, y->t.dtype, i, v);
    }
    return OT_OK;
}

static ot_status fill_input(ot_dataset *d, const ot_columns *t, int target, locale_t point, ot_array *x, ot_error *err)
{
    ot_shape shape = { .rank = 2, .dim = { t->rows, t->columns - 1 } };
    OT_TRY(ot_array_alloc(d, x, OT_F32, &shape, -1, d->name, err));
    float *to = x->t.data;
    for (int64_t i = 0; i < t->rows; i++) {
        for (int c = 0; c < t->columns; c++) {
            const char *s = t->cell[i * t->columns + c];
            double v;
            if (c == target) continue;
            if (!number(s, point, &v))
                return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': %s%.40s%s; expected a number", d->name,
                               (long long)t->line[i], t->name[c],
                               !*s          ? "is missing"
                               : missing(s) ? "is missing ('"
                                            : "contains '",
                               s,
                               !*s          ? ""
                               : missing(s) ? "')"
                                            : "'");
            *to++ = (float)v;
        }
    }
    return OT_OK;
}

/* Builds the arrays of the data set again with `column` as the target. */
static ot_status arrange(ot_dataset *d, int column, locale_t point, ot_error *err)
{
    d->n = 0;
    d->column = d->table->name[column];
    d->last = false;
    if (!ot_dataset_add(d, "") || !ot_dataset_add(d, "target"))
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    d->array[1].role = OT_ARRAY_TARGET;
    OT_TRY(fill_target(d, d->table, column, point, &d->array[1], err));
    return fill_input(d, d->table, column, point, &d->array[0], err);
}

ot_status ot_table_target(ot_dataset *d, const char *name, ot_error *err)
{
    const ot_columns *t = d->table;
    for (int i = 0; i < t->columns; i++) {
        if (strcmp(t->name[i], name)) continue;
        locale_t point = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
        if (!point) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
        ot_status s = arrange(d, i, point, err);
        freelocale(point);
        if (!s) ot_dataset_arrange(d);
        return s ? s : ot_dataset_finish(d, err);
    }
    ot_fail(err, OT_E_DATA, "%s: no column '%s' for the target; its columns are:", d->name, name);
    for (int i = 0; i < t->columns; i++) ot_fail_more(err, OT_E_DATA, "  %s", t->name[i]);
    return OT_E_DATA;
}

/* Maps the labels of d, strings of its own, to their indices in name[0..n). */
static ot_status match_classes(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err)
{
    const char *const **sorted = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *sorted);
    int64_t *to = ot_arena_alloc(d->arena, ((size_t)d->n_classes + 1) * sizeof *to);
    if (!to || !sorted) return ot_fail(err, OT_E_NOMEM, "%s: no memory for classes", d->name);
    for (int i = 0; i < n; i++) sorted[i] = &name[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_text_there);
    for (int i = 0; i < d->n_classes; i++) {
        const char *const *key = &d->class_name[i], *const *const *at =
                                                        bsearch(&key, sorted, (size_t)n, sizeof *at, by_text_there);
        if (!at)
            return ot_fail(err, OT_E_DATA, "%s: column '%s' has class '%.40s', which is not in %s", d->name, d->column,
                           d->class_name[i], from);
        to[i] = *at - name;
    }
    int64_t *y = d->array[1].t.data;
    for (int64_t i = 0; i < d->table->rows; i++) y[i] = to[y[i]];
    d->class_name = name;
    d->n_classes = n;
    return OT_OK;
}

ot_status ot_dataset_number(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err)
{
    if (d->renumbers) return ot_pictures_number(d, name, n, from, err);
    if (d->table && d->class_name) return match_classes(d, name, n, from, err);
    if (d->class_name) return OT_OK;
    d->class_name = name;
    d->n_classes = n;
    return OT_OK;
}

int64_t ot_dataset_line(const ot_dataset *d, int64_t sample)
{
    if (!d->table || sample < 0 || sample >= d->samples) return 0;
    sample = ot_dataset_origin(d, sample);
    return sample < d->table->rows ? d->table->line[sample] : 0;
}

ot_status ot_dataset_match(ot_dataset *d, const ot_dataset *like, ot_error *err)
{
    const ot_columns *t = d->table, *u = like->table;
    if (d->renumbers && like->class_name)
        return ot_pictures_number(d, like->class_name, like->n_classes, like->name, err);
    if (!t || !u) return OT_OK;
    for (int i = 0; i < t->columns && t->header && u->header && t->columns == u->columns; i++)
        if (strcmp(t->name[i], u->name[i]))
            return ot_fail(err, OT_E_DATA, "%s: column %d is '%s', but in %s it is '%s'", d->name, i + 1, t->name[i],
                           like->name, u->name[i]);
    if (!d->class_name != !like->class_name)
        return ot_fail(err, OT_E_DATA, "%s: column '%s' contains %s, but in %s it contains %s", d->name, d->column,
                       d->class_name ? "strings" : "numbers", like->name, like->class_name ? "strings" : "numbers");
    return d->class_name ? match_classes(d, like->class_name, like->n_classes, like->name, err) : OT_OK;
}

/* ---- file ------------------------------------------------------------------------------ */

/* Limits on unpacked text: in bytes, and as a multiple of the file size; the size is not known beforehand. */
enum { PACKED_TEXT = 64 << 20, PACKED_TIMES = 100 };

/* The size of the text; a compressed file is unpacked once for this. */
static ot_status measure(const char *path, int64_t *n, ot_error *err)
{
    ot_stream s;
    int64_t most, got;
    OT_TRY(ot_stream_open(&s, path, err));
    *n = s.most;
    if (!s.packed) {
        ot_stream_close(&s);
        return OT_OK;
    }
    if (!ot_mul(s.packed, PACKED_TIMES, &most) || !ot_add(most, PACKED_TEXT, &most)) most = INT64_MAX;
    char *block = malloc(PIECE);
    ot_status status = block ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory to read it", path);
    for (*n = 0; !status; *n += got) {
        got = s.read(&s, block, PIECE, err);
        if (got < 0) status = err->status;
        if (got <= 0) break;
        if (*n + got > most)
            status = ot_fail(err, OT_E_NOMEM,
                             "%s: would unpack to more than %lld MiB, over %d times its size; if "
                             "that is intended, decompress it first",
                             path, (long long)(most >> 20), PACKED_TIMES);
    }
    free(block);
    ot_stream_close(&s);
    return status;
}

/* The whole text, in the arena, 0-terminated. */
static ot_status read_text(const char *path, ot_dataset *d, reader *r, ot_error *err)
{
    ot_stream s;
    int64_t n = 0, there = ot_memory_available();
    OT_TRY(measure(path, &n, err));
    if (n > there)
        return ot_fail(err, OT_E_NOMEM, "%s: out of memory: its text needs %lld MiB, but %lld MiB are available", path,
                       (long long)(n >> 20), (long long)(there >> 20));
    char *text = ot_arena_alloc(d->arena, (size_t)n + 1);
    if (!text) return ot_fail(err, OT_E_NOMEM, "%s: no memory to read it", path);
    OT_TRY(ot_stream_open(&s, path, err));
    ot_status status = ot_stream_read(&s, text, n, "its text", err);
    if (!status) status = ot_stream_end(&s, err);
    ot_stream_close(&s);
    r->p = text;
    r->end = text + n;
    if (!status && memchr(text, 0, (size_t)n))
        return ot_fail(err, OT_E_DATA, "%s: is not a text file: it contains a zero byte", path);
    return status;
}

static ot_status make_table(reader *r, ot_dataset *d, locale_t point, ot_error *err)
{
    if (r->rows == 0 || r->columns < 2)
        return ot_fail(err, OT_E_DATA, "%s: has %d column%s; expected at least one input column and one target column",
                       r->path, r->columns, r->columns == 1 ? "" : "s");
    bool header = is_header(r, point);
    ot_columns *t = ot_arena_alloc(d->arena, sizeof *t);
    const char **name = ot_arena_alloc(d->arena, (size_t)r->columns * sizeof *name);
    int64_t skip = header ? r->columns : 0;
    if (!t || !name) return ot_fail(err, OT_E_NOMEM, "%s: no memory", r->path);
    for (int i = 0; i < r->columns; i++) {
        name[i] = header ? r->cell[i] : ot_arena_printf(d->arena, "%d", i + 1);
        if (!name[i]) return ot_fail(err, OT_E_NOMEM, "%s: no memory", r->path);
    }
    t->header = header;
    t->columns = r->columns;
    t->rows = r->rows - header;
    t->name = name;
    t->cell = r->cell + skip;
    t->line = r->row_line + header;
    d->table = t;
    int target = t->columns - 1, named = 0;
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->name[i], "target")) target = i, named++;
    if (named > 1) return ot_fail(err, OT_E_DATA, "%s: %d columns are named 'target', expected one", r->path, named);
    OT_TRY(arrange(d, target, point, err));
    d->last = strcmp(d->column, "target") != 0;
    return OT_OK;
}

ot_status ot_csv_open(const char *path, ot_dataset *d, ot_error *err)
{
    ot_error own = { 0 };
    if (!err) err = &own;
    reader r = { .path = path, .line = 1 };
    locale_t point = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    ot_status s = point ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (!s) s = read_text(path, d, &r, err);
    if (!s) {
        if (r.end - r.p >= 3 && !memcmp(r.p, "\xEF\xBB\xBF", 3)) r.p += 3; /* byte-order mark */
        r.mark = find_mark(r.p, r.end);
        s = make_room(&r, d, err);
        while (r.p < r.end && !s) s = read_row(&r, err);
    }
    if (!s) s = make_table(&r, d, point, err);
    if (point) freelocale(point);
    return s;
}

bool ot_dataset_odd_header(const ot_dataset *d)
{
    bool odd = false;
    for (int i = 0; d->table && d->table->header && i < d->table->columns; i++) {
        const char *name = d->table->name[i];
        odd |= strpbrk(name, "0123456789") && strspn(name, "+-.0123456789eE") == strlen(name);
    }
    return odd;
}
