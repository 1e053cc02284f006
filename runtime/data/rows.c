/* rows.c - cuts delimited text, or lines, into rows and fields, piece by piece. */
#include "runtime/base/json.h"
#include "runtime/data/members.h"
#include "runtime/data/rows.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 << 10, MOST_ROW = 64 << 20, FIRST_CELLS = 64 };

/* Limits on unpacked text: in bytes, and as a multiple of the file size; the size is not known beforehand. */
enum { PACKED_TEXT = 64 << 20, PACKED_TIMES = 100 };

/* A field, as offsets from the beginning of the row. */
typedef struct field {
    size_t from, to;
    bool quoted;
} field;

struct ot_rows_state {
    ot_stream s;
    bool ended;   /* all bytes are in the buffer */
    char *buffer; /* room + 1 bytes */
    size_t room, begin, end;
    int64_t read, most; /* bytes so far, and how many a packed file may have */
    char mark;
    int64_t line;
    field *field;
    int cap; /* of field and cell */

    /* JSON lines: the first object, whose members are the columns; the current one; texts of numbers and of lists. */
    json_t *first, *object;
    bool again;          /* the first object is the next row, too: it gave the names */
    char **made;         /* of each cell */
    const json_t **list; /* of each cell: the list that it is; NULL: it is something else */
    size_t cells;        /* of a row */
    size_t *spread;      /* of each member: numbers in its list, each a cell; 0: it is one cell */

    /* CoNLL: the columns of each word, 0 before the first one, which is on line `of`; they are separated by tabs. */
    int columns;
    int64_t of;
    bool tabs;

    /* A folder: its files, the next one, the rest of the current one, what file names have in common at both ends. */
    ot_members *files;
    int64_t file;
    ot_file_room content;
    char *rest, *end_of_file, *label;
    size_t before, behind;
};

typedef struct ot_rows_state state;

static ot_status no_memory(const char *path, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory to read it", path);
}

/* Makes room behind the bytes of the current row, which move to the front. */
static ot_status make_room(state *x, int64_t line, ot_error *err)
{
    if (x->begin) memmove(x->buffer, x->buffer + x->begin, x->end - x->begin);
    x->end -= x->begin;
    x->begin = 0;
    if (x->room - x->end >= PIECE) return OT_OK;
    if (x->room >= MOST_ROW)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: the row has more than %d MiB; is a quote not closed?", x->s.name,
                       (long long)line, MOST_ROW >> 20);
    char *wide = realloc(x->buffer, 2 * x->room + 1);
    if (!wide) return no_memory(x->s.name, err);
    x->buffer = wide;
    x->room *= 2;
    return OT_OK;
}

/* Reads more of the file behind what the buffer holds. */
static ot_status refill(state *x, int64_t line, ot_error *err)
{
    OT_TRY(make_room(x, line, err));
    char *to = x->buffer + x->end;
    size_t room = x->room - x->end;
    int64_t got = x->s.read(&x->s, to, (int64_t)room, err);
    if (got < 0) return err ? err->status : OT_E_DATA;
    x->read += got;
    if (x->s.packed && x->read > x->most)
        return ot_fail(err, OT_E_NOMEM,
                       "%s: would unpack to more than %lld MiB, over %d times its size; if that is intended, "
                       "decompress it first",
                       x->s.name, (long long)(x->most >> 20), PACKED_TIMES);
    if (memchr(to, 0, (size_t)got)) {
        bool wide = got >= 2 && (!memcmp(to, "\xFF\xFE", 2) || !memcmp(to, "\xFE\xFF", 2));
        return ot_fail(err, OT_E_DATA, "%s: is not a text file: it contains a zero byte%s", x->s.name,
                       wide ? "; if it is UTF-16, convert it, for example with iconv -f UTF-16 -t UTF-8" : "");
    }
    x->ended = got < (int64_t)room;
    x->end += (size_t)got;
    return OT_OK;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The separator: the most frequent in the first line, outside of quotes.  Where all commas are between digits, any other
 * separator wins: 1,5;2,5 has two columns. */
static char find_mark(const char *p, const char *end)
{
    static const char mark[] = { ',', ';', '\t' };
    int64_t count[3] = { 0 }, inside = 0;
    int best = 0;
    bool quote = false;
    for (const char *from = p; p < end && (*p != '\n' || quote); p++) {
        quote ^= *p == '"';
        for (int i = 0; i < 3; i++) count[i] += !quote && *p == mark[i];
        inside += !quote && *p == ',' && p > from && is_digit(p[-1]) && end - p > 1 && is_digit(p[1]);
    }
    for (int i = 1; i < 3; i++)
        if (count[i] > count[best] || (count[i] && count[0] == inside)) best = i;
    return mark[best];
}

static bool ends_in(const char *s, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && !strncasecmp(s + n - m, end, m);
}

char ot_rows_mark(const char *path)
{
    size_t n = strlen(path);
    n -= ends_in(path, n, ".gz") ? 3 : ends_in(path, n, ".zst") ? 4 : 0;
    static const char *const conll[] = { ".conll", ".bio", ".iob", ".iob2" };
    for (int i = 0; i < OT_LEN(conll); i++)
        if (ends_in(path, n, conll[i])) return OT_ROWS_CONLL;
    if (ends_in(path, n, ".jsonl") || ends_in(path, n, ".ndjson")) return OT_ROWS_JSON;
    if (ends_in(path, n, ".txt")) return OT_ROWS_LINES;
    return ends_in(path, n, ".tsv") || ends_in(path, n, ".tab") ? '\t' : 0;
}

static bool in_folder(const ot_packed_file *f) { return strchr(f->name, '/'); }

/* How much of the names of the files that are in no class folder is the same: up to a mark, and from a dot on. */
static void find_common(state *x)
{
    const char *first = NULL;
    size_t before = 0, behind = 0, n = 0;
    for (int64_t i = 0; i < x->files->n; i++) {
        const char *name = x->files->list[i].name;
        if (in_folder(&x->files->list[i])) continue;
        size_t size = strlen(name), k = 0;
        if (!first) first = name, n = before = behind = size;
        while (k < before && k < size && name[k] == first[k]) k++;
        before = k;
        for (k = 0; k < behind && k < size && name[size - 1 - k] == first[n - 1 - k];) k++;
        behind = k;
    }
    if (before == n) before = 0; /* one file alone */
    while (before && !strchr("._-", first[before - 1])) before--;
    if (behind == n) behind = 0;
    while (behind && first[n - behind] != '.') behind--;
    x->before = before;
    x->behind = behind;
}

static ot_status open_files(ot_rows *r, state *x, ot_error *err)
{
    x->mark = OT_ROWS_FOLDER;
    x->file = -1; /* the names of the columns */
    OT_TRY(ot_members_folder(r->path, &x->files, err));
    find_common(x);
    return OT_OK;
}

/* The class of a file: the folder that it is in, or what its name has for itself. */
static ot_status set_label(ot_rows *r, state *x, const char *name, ot_error *err)
{
    const char *slash = strrchr(name, '/'), *from = slash ? slash : name + x->before;
    size_t n = slash ? 0 : strlen(name) - x->before;
    for (; slash && from > name && from[-1] != '/'; from--) n++;
    if (!slash && n > x->behind) n -= x->behind;
    free(x->label);
    x->label = strndup(from, n);
    return x->label ? OT_OK : no_memory(r->path, err);
}

/* The next file in x->rest; *more false: there is none. */
static ot_status next_file(ot_rows *r, state *x, bool *more, ot_error *err)
{
    const ot_members *m = x->files;
    while (x->file < m->n && m->list[x->file].size <= 0) x->file++; /* folders, and empty files */
    *more = x->file < m->n;
    if (!*more) return OT_OK;
    const ot_packed_file *f = &m->list[x->file];
    OT_TRY(ot_members_read(m, x->file, &x->content, err));
    x->rest = (char *)x->content.data;
    x->end_of_file = x->rest + f->size;
    if (memchr(x->rest, 0, (size_t)f->size))
        return ot_fail(err, OT_E_DATA, "%s/%s: is not a text file: it contains a zero byte", r->path, f->name);
    *x->end_of_file = 0;
    x->line = 1;
    OT_TRY(set_label(r, x, f->name, err));
    if (!in_folder(f)) return OT_OK;
    /* One text, on one line. */
    for (char *p = x->rest; p < x->end_of_file; p++)
        if (*p == '\n' || *p == '\r') *p = ' ';
    return OT_OK;
}

static ot_status read_file_row(ot_rows *r, state *x, bool *more, ot_error *err)
{
    *more = true;
    if (x->file < 0) {
        r->cell[0] = (char *)(uintptr_t)"text";
        r->cell[1] = (char *)(uintptr_t)"label";
        r->n = 2;
        x->file = 0;
        return OT_OK;
    }
    while (*more) {
        if (!x->rest) OT_TRY(next_file(r, x, more, err));
        if (!*more) return OT_OK;
        char *line = x->rest, *stop = memchr(line, '\n', (size_t)(x->end_of_file - line));
        size_t n = (size_t)((stop ? stop : x->end_of_file) - line);
        r->line = x->line++;
        x->rest = stop && stop + 1 < x->end_of_file ? stop + 1 : NULL;
        if (!x->rest) x->file++;
        if (n && line[n - 1] == '\r') n--;
        line[n] = 0;
        if (strspn(line, " \t") == n) continue;
        r->cell[0] = line;
        r->cell[1] = x->label;
        r->n = 2;
        return OT_OK;
    }
    return OT_OK;
}

static ot_status start(ot_rows *r, state *x, char mark, ot_error *err)
{
    x->room = 2 * PIECE;
    x->buffer = malloc(x->room + 1);
    x->field = malloc(FIRST_CELLS * sizeof *x->field);
    r->cell = malloc(FIRST_CELLS * sizeof *r->cell);
    x->cap = FIRST_CELLS;
    x->line = 1;
    if (!x->buffer || !x->field || !r->cell) return no_memory(r->path, err);
    if (mark == OT_ROWS_FOLDER) return open_files(r, x, err);
    OT_TRY(ot_stream_open(&x->s, r->path, err));
    if (!ot_mul(x->s.packed, PACKED_TIMES, &x->most) || !ot_add(x->most, PACKED_TEXT, &x->most)) x->most = INT64_MAX;
    OT_TRY(refill(x, 1, err));
    if (x->end >= 3 && !memcmp(x->buffer, "\xEF\xBB\xBF", 3)) x->begin = 3; /* byte-order mark */
    x->mark = mark ? mark : find_mark(x->buffer + x->begin, x->buffer + x->end);
    return OT_OK;
}

ot_status ot_rows_open(ot_rows *r, const char *path, char mark, ot_error *err)
{
    *r = (ot_rows){ .path = path, .state = calloc(1, sizeof(state)) };
    r->names = ot_rows_has_objects(mark) || mark == OT_ROWS_LINES || mark == OT_ROWS_FOLDER;
    return r->state ? start(r, r->state, mark, err) : no_memory(path, err);
}

static void forget_texts(state *x)
{
    for (size_t i = 0; x->made && i < x->cells; i++) {
        free(x->made[i]);
        x->made[i] = NULL;
    }
    if (x->list) memset(x->list, 0, x->cells * sizeof *x->list);
}

char ot_rows_separator(const ot_rows *r) { return r->state->mark; }

void ot_rows_close(ot_rows *r)
{
    state *x = r->state;
    if (x) {
        if (x->mark != OT_ROWS_FOLDER) ot_stream_close(&x->s);
        ot_members_free(x->files);
        free(x->content.data);
        free(x->label);
        forget_texts(x);
        free(x->made);
        free(x->list);
        free(x->spread);
        json_decref(x->object);
        json_decref(x->first);
        free(x->buffer);
        free(x->field);
    }
    free(x);
    free(r->cell);
    *r = (ot_rows){ 0 };
}

/* ---- one row ------------------------------------------------------------------------- */

typedef enum place { START, PLAIN, QUOTED, CLOSED } place;

/* Where the next byte of a row is in the machine that finds its end. */
typedef struct scan {
    place where;
    size_t at, from; /* offsets in the row: the next byte; the beginning of the field */
    bool quoted;     /* the field was */
    int64_t quote;   /* the line of the last opening quote */
    bool done;
} scan;

static ot_status add_field(ot_rows *r, state *x, const scan *c, ot_error *err)
{
    if (r->n == OT_MOST_COLUMNS)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: more than %d columns", r->path, (long long)r->line,
                       OT_MOST_COLUMNS);
    if (r->n == x->cap) {
        field *f = realloc(x->field, 2 * (size_t)x->cap * sizeof *f);
        if (f) x->field = f;
        char **cell = f ? realloc(r->cell, 2 * (size_t)x->cap * sizeof *cell) : NULL;
        if (!cell) return no_memory(r->path, err);
        r->cell = cell;
        x->cap *= 2;
    }
    x->field[r->n++] = (field){ c->from, c->at, c->quoted };
    return OT_OK;
}

/* Continues the row as far as the buffer reaches.  A quote opens only at the beginning of a field. */
static ot_status go_on(ot_rows *r, state *x, scan *c, ot_error *err)
{
    const char *row = x->buffer + x->begin, mark = x->mark;
    const size_t n = x->end - x->begin;
    for (; c->at < n; c->at++) {
        char b = row[c->at];
        if (c->where == QUOTED) {
            x->line += b == '\n';
            if (b == '"') c->where = CLOSED;
        } else if (b == mark || b == '\n') {
            OT_TRY(add_field(r, x, c, err));
            *c = (scan){ .at = c->at, .from = c->at + 1, .done = b == '\n' };
            if (!c->done) continue;
            x->line++;
            c->at++;
            return OT_OK;
        } else if (b == '"' && c->where != PLAIN) {
            if (c->where == START) c->quote = x->line;
            c->quoted = true;
            c->where = QUOTED;
        } else if (c->where != START || b != ' ') {
            c->where = PLAIN;
        }
    }
    return OT_OK;
}

static bool is_space(char b) { return b == ' ' || (b >= '\t' && b <= '\r'); }

/* The text between its quotes, in place.  NULL: something follows the closing quote. */
static char *unquoted(char *p, const char *end)
{
    while (*p == ' ') p++;
    char *from = ++p, *to = from;
    for (; *p != '"' || p[1] == '"'; p++) { /* the closing quote is there */
        p += *p == '"';
        *to++ = *p;
    }
    for (p++; p < end && (*p == ' ' || *p == '\r'); p++) continue;
    *to = 0;
    return p < end ? NULL : from;
}

static char *trimmed(char *from, char *end)
{
    while (from < end && is_space(*from)) from++;
    while (end > from && is_space(end[-1])) end--;
    *end = 0;
    return from;
}

/* Ends every field with a zero, which replaces the separator behind it. */
static ot_status cut(ot_rows *r, state *x, char *row, ot_error *err)
{
    for (int i = 0; i < r->n; i++) {
        const field *f = &x->field[i];
        row[f->to] = 0;
        r->cell[i] = f->quoted ? unquoted(row + f->from, row + f->to) : trimmed(row + f->from, row + f->to);
        if (!r->cell[i])
            return ot_fail(err, OT_E_DATA, "%s: line %lld: text after a closing quote", r->path,
                           (long long)(x->line - 1));
    }
    return OT_OK;
}

/* One row, or an empty line: then n is 0. */
static ot_status read_row(ot_rows *r, state *x, ot_error *err)
{
    scan c = { 0 };
    r->n = 0;
    r->line = x->line;
    OT_TRY(go_on(r, x, &c, err));
    while (!c.done && !x->ended) {
        OT_TRY(refill(x, r->line, err));
        OT_TRY(go_on(r, x, &c, err));
    }
    if (c.where == QUOTED)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: a quote is not closed", r->path, (long long)c.quote);
    char *row = x->buffer + x->begin;
    if (!c.done) {
        OT_TRY(add_field(r, x, &c, err));
        x->line++;
    }
    x->begin += c.at;
    OT_TRY(cut(r, x, row, err));
    if (r->n == 1 && !x->field[0].quoted && !*r->cell[0]) r->n = 0;
    return OT_OK;
}

/* ---- lines ---------------------------------------------------------------------------- */

/* The next line without its end, 0-terminated in the buffer. */
static ot_status read_line(ot_rows *r, state *x, char **line, size_t *n, ot_error *err)
{
    char *stop = NULL;
    for (size_t seen = 0; !stop;) {
        size_t there = x->end - x->begin;
        stop = memchr(x->buffer + x->begin + seen, '\n', there - seen);
        if (stop || x->ended) break;
        seen = there;
        OT_TRY(refill(x, x->line, err));
    }
    *line = x->buffer + x->begin;
    *n = stop ? (size_t)(stop - *line) : x->end - x->begin;
    x->begin += *n + (stop != NULL);
    if (*n && (*line)[*n - 1] == '\r') --*n;
    (*line)[*n] = 0;
    r->line = x->line++;
    return OT_OK;
}

/* How many numbers a list has; 0: it is something else. */
static size_t numbers_in(const json_t *v)
{
    size_t n = json_array_size(v);
    for (size_t i = 0; i < n; i++)
        if (!json_is_number(json_array_get(v, i))) return 0;
    return n;
}

static ot_list list_of(const json_t *v)
{
    size_t n = json_array_size(v), words = 0, whole = 0;
    if (!json_is_array(v)) return OT_LIST_NONE;
    for (size_t i = 0; i < n; i++) {
        words += json_is_string(json_array_get(v, i));
        whole += json_is_integer(json_array_get(v, i));
    }
    return !n ? OT_LIST_EMPTY : words == n ? OT_LIST_WORDS : whole == n ? OT_LIST_WHOLE : OT_LIST_OTHER;
}

/* Whether a list of the first object is a tag for each word of another one. */
static bool is_tags(const state *x, const json_t *list)
{
    const char *key;
    json_t *v;
    bool words = false;
    if (x->mark != OT_ROWS_TAGGED || list_of(list) != OT_LIST_WHOLE) return false;
    json_object_foreach(x->object, key, v) words |=
        list_of(v) == OT_LIST_WORDS && json_array_size(v) == json_array_size(list);
    return words;
}

/* Cells for the members of the first object. */
static ot_status make_cells(ot_rows *r, state *x, ot_error *err)
{
    const char *key;
    json_t *v;
    size_t n = 0, k = 0;
    x->spread = calloc(json_object_size(x->object), sizeof *x->spread);
    if (!x->spread) return no_memory(r->path, err);
    json_object_foreach(x->object, key, v)
    {
        x->spread[k] = is_tags(x, v) ? 0 : numbers_in(v);
        n += x->spread[k] ? x->spread[k] : 1;
        k++;
    }
    x->cells = n;
    if (n > OT_MOST_COLUMNS)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: more than %d columns", r->path, (long long)r->line,
                       OT_MOST_COLUMNS);
    char **cell = realloc(r->cell, (n + 1) * sizeof *cell);
    if (cell) r->cell = cell;
    x->made = cell ? calloc(n + 1, sizeof *x->made) : NULL;
    x->list = cell ? calloc(n + 1, sizeof *x->list) : NULL;
    return x->made && x->list ? OT_OK : no_memory(r->path, err);
}

/* A value as the text of a cell; *made: it is to be freed. */
static const char *text_of(const json_t *v, char **made)
{
    if (!v || json_is_null(v)) return "";
    if (json_is_string(v)) return json_string_value(v);
    if (json_is_boolean(v)) return json_is_true(v) ? "true" : "false";
    *made = ot_json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT);
    return *made;
}

/* The cells of a list of n numbers, key.0, key.1 ...; one that is missing has empty cells. */
static ot_status fill_list(ot_rows *r, state *x, const char *key, const json_t *list, size_t n, bool names,
                           ot_error *err)
{
    bool missing = !names && (!list || json_is_null(list));
    if (!names && !missing && numbers_in(list) != n)
        return ot_fail(
            err, OT_E_DATA,
            "%s: line %lld: '%.100s' is not a list of %zu numbers, as in the first line; lists of several lengths "
            "are not supported in a table: fill them up, or use an array (.npz)",
            r->path, (long long)r->line, key, n);
    for (size_t i = 0; i < n; i++) {
        const char *text = "";
        if (names && asprintf(&x->made[r->n], "%s.%zu", key, i) < 0) x->made[r->n] = NULL;
        if (names) text = x->made[r->n];
        else if (!missing) text = text_of(json_array_get(list, i), &x->made[r->n]);
        if (!text) return no_memory(r->path, err);
        r->cell[r->n++] = (char *)(uintptr_t)text;
    }
    return OT_OK;
}

static ot_status fill_cells(ot_rows *r, state *x, bool names, ot_error *err)
{
    const char *key;
    json_t *v;
    size_t k = 0;
    forget_texts(x);
    json_object_foreach(x->first, key, v)
    {
        const json_t *own = json_object_get(x->object, key);
        size_t n = x->spread[k++];
        const char *text = n ? "" : names ? key : text_of(own, &x->made[r->n]);
        if (!text) return no_memory(r->path, err);
        if (!n && !names && json_is_array(own)) x->list[r->n] = own;
        if (n) OT_TRY(fill_list(r, x, key, names ? NULL : own, n, names, err));
        else r->cell[r->n++] = (char *)(uintptr_t)text;
    }
    return OT_OK;
}

/* The cells of x->object; the first object gives the names, and is the next row too. */
static ot_status take_object(ot_rows *r, state *x, ot_error *err)
{
    if (x->first) return fill_cells(r, x, false, err);
    OT_TRY(make_cells(r, x, err));
    x->first = x->object;
    x->object = NULL;
    x->again = true;
    return fill_cells(r, x, true, err);
}

static ot_status read_object(ot_rows *r, state *x, ot_error *err)
{
    char *line;
    size_t n;
    OT_TRY(read_line(r, x, &line, &n, err));
    if (strspn(line, " \t") == n) return OT_OK;
    json_decref(x->object);
    x->object = NULL;
    json_error_t why;
    if (ot_json_parse_or(line, n, &x->object, &why)) return no_memory(r->path, err);
    if (!json_object_size(x->object))
        return ot_fail(err, OT_E_DATA,
                       "%s: line %lld is not a JSON object with members, such as {\"text\": \"...\", "
                       "\"label\": ...}%s%.100s%s",
                       r->path, (long long)r->line, *why.text ? " (" : "", why.text, *why.text ? ")" : "");
    return take_object(r, x, err);
}

/* ---- CoNLL ------------------------------------------------------------------------------ */

/* The name of a column of x->columns. */
static const char *conll_name(const state *x, int i, char room[16])
{
    if (!i) return "tokens";
    if (i == x->columns - 1) return "tags";
    snprintf(room, 16, "%d", i + 1);
    return room;
}

/* Cuts the next column off, in place; NULL: there is none. */
static char *next_column(const state *x, char **rest)
{
    char *from = *rest, *end;
    if (from && !x->tabs) from += strspn(from, " \t");
    if (!from || (!x->tabs && !*from)) return NULL;
    end = from + strcspn(from, x->tabs ? "\t" : " \t");
    *rest = *end ? end + 1 : NULL;
    return trimmed(from, end);
}

/* The columns of the first word. */
static ot_status count_columns(ot_rows *r, state *x, const char *line, ot_error *err)
{
    x->tabs = strchr(line, '\t');
    x->of = r->line;
    for (const char *p = line; p; x->columns++) { /* as next_column cuts: behind a last tab there is an empty one */
        if (!x->tabs) p += strspn(p, " ");
        if (!x->tabs && !*p) break;
        p += strcspn(p, x->tabs ? "\t" : " ");
        p = *p ? p + 1 : NULL;
    }
    if (x->columns <= OT_MOST_COLUMNS) return OT_OK;
    return ot_fail(err, OT_E_DATA, "%s: line %lld: more than %d columns", r->path, (long long)r->line, OT_MOST_COLUMNS);
}

/* Adds a word to the lists of x->object. */
static ot_status add_word(ot_rows *r, state *x, char *line, ot_error *err)
{
    char room[16], *text, *rest = line;
    int n = 0;
    if (!ot_is_utf8(line))
        return ot_fail(err, OT_E_DATA,
                       "%s: line %lld: the text is not UTF-8; convert the file, for example with iconv -f LATIN1 -t "
                       "UTF-8",
                       r->path, (long long)r->line);
    if (!x->columns) OT_TRY(count_columns(r, x, line, err));
    if (!x->object) x->object = json_object();
    for (; (text = next_column(x, &rest)); n++) {
        const char *name = conll_name(x, n, room);
        json_t *list = json_object_get(x->object, name);
        if (n >= x->columns) continue;
        if (!list && json_object_set_new(x->object, name, list = json_array())) return no_memory(r->path, err);
        if (json_array_append_new(list, json_string(text))) return no_memory(r->path, err);
    }
    if (n == x->columns) return OT_OK;
    return ot_fail(err, OT_E_DATA,
                   "%s: line %lld: %d column%s, but line %lld has %d: each word has a line with the same columns, "
                   "separated by %s, and an empty line ends a sentence",
                   r->path, (long long)r->line, n, n == 1 ? "" : "s", (long long)x->of, x->columns,
                   x->tabs ? "tabs" : "spaces");
}

/* The words up to the end of a sentence: an empty line, or one that begins a document. */
static ot_status read_sentence(ot_rows *r, state *x, ot_error *err)
{
    static const char document[] = "-DOCSTART-";
    size_t n, all = 0;
    int64_t first = 0;
    json_decref(x->object);
    x->object = NULL;
    while (!(x->ended && x->begin == x->end)) {
        char *line;
        OT_TRY(read_line(r, x, &line, &n, err));
        bool between = strspn(line, " \t") == n || !strncmp(line, document, sizeof document - 1);
        if (between && !x->object) continue;
        if (between) break;
        if (!first) first = r->line;
        if ((all += n) > MOST_ROW)
            return ot_fail(err, OT_E_DATA,
                           "%s: line %lld: the sentence has more than %d MiB; an empty line ends a sentence", r->path,
                           (long long)first, MOST_ROW >> 20);
        OT_TRY(add_word(r, x, line, err));
    }
    r->line = first;
    return x->object ? take_object(r, x, err) : OT_OK;
}

static ot_status read_first_again(ot_rows *r, state *x, ot_error *err)
{
    x->again = false;
    x->object = json_incref(x->first);
    return fill_cells(r, x, false, err);
}

static ot_status read_text(ot_rows *r, state *x, ot_error *err)
{
    size_t n;
    bool first = !x->again;
    x->again = true;
    if (first) r->cell[0] = (char *)(uintptr_t)"text";
    else OT_TRY(read_line(r, x, &r->cell[0], &n, err));
    r->n = first || *r->cell[0];
    return OT_OK;
}

ot_status ot_rows_next(ot_rows *r, bool *more, ot_error *err)
{
    ot_error own = { 0 };
    state *x = r->state;
    if (!err) err = &own;
    r->n = 0;
    if (x->mark == OT_ROWS_FOLDER) return read_file_row(r, x, more, err);
    while (!r->n && !(x->ended && x->begin == x->end && !(x->first && x->again))) {
        if (x->begin == x->end && !x->ended) OT_TRY(refill(x, x->line, err));
        if (x->first && x->again) OT_TRY(read_first_again(r, x, err));
        else if (x->mark == OT_ROWS_CONLL) OT_TRY(read_sentence(r, x, err));
        else if (ot_rows_has_objects(x->mark)) OT_TRY(read_object(r, x, err));
        else if (x->mark == OT_ROWS_LINES) OT_TRY(read_text(r, x, err));
        else if (x->begin < x->end) OT_TRY(read_row(r, x, err));
    }
    *more = r->n > 0;
    return OT_OK;
}

ot_list ot_rows_list(const ot_rows *r, int cell, size_t *n)
{
    const json_t *v = r->state->list ? r->state->list[cell] : NULL;
    if (n) *n = json_array_size(v);
    return list_of(v);
}

const char *ot_rows_word(const ot_rows *r, int cell, size_t i)
{
    return json_string_value(json_array_get(r->state->list[cell], i));
}

int64_t ot_rows_whole(const ot_rows *r, int cell, size_t i)
{
    return json_integer_value(json_array_get(r->state->list[cell], i));
}
