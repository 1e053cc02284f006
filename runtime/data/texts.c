/* texts.c - a column of texts, or two, as tokens for classifiers: truncated or padded to one length, with masks and positions beside
 * them.
 *
 * The trained model records how, under the input of tokens:
 *   {"kind": "text", "column": "text", "unit": "tokens", "tokenizer": {...}, "length": 64}
 * or unit "bytes"; or "characters" with their code points as "vocabulary": character i has number i + 2, behind those for
 * padding (0) and for characters that were not in the training texts (1).  A pair has the second column as "pair".  "words": a
 * text is a list of words, or a string whose words have blanks between them, and each word is tokenized alone.
 *
 * Source  Two texts are truncated as tokenizers' longest_first does (utils/truncation.rs). */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/data/table.h"
#include "runtime/text/text.h"

enum { POINTS = 0x110000, USUAL_LENGTH = 512, FILL = 0, UNKNOWN = 1, FIRST = 2, MOST_PARTS = 32 };

typedef enum unit { TOKENS, BYTES, CHARACTERS } unit;

static const char *const unit_name[] = { "tokens", "bytes", "characters" };

struct ot_texts {
    ot_data_input *input;              /* the model's that tokens feed */
    int n_inputs, of;                  /* of them the one of tokens */
    bool supposed;                     /* there is no model */
    int column, second;                /* -1: there is one text */
    const char *name;                  /* of the column, or of both */
    ot_text_part part[2 * MOST_PARTS]; /* of a sample, in order */
    int n_parts;
    unit unit;
    json_t *config; /* of the tokenizer */
    ot_tokenizer *k;
    int32_t *number; /* of each code point, -1: none; while texts are read for the first time, 0: there */
    bool fresh;      /* characters are yet to be numbered */
    int64_t kinds;
    int64_t most, length, fixed; /* tokens of a sample: at most, and when it is known; the model's own, 0: open */
    ot_ids all;                  /* of all texts, and where each ends */
    int64_t *end, *middle, cut;  /* where the second of two begins; texts that were longer */
    bool words;                  /* a text is a list of words */
    ot_ids first;         /* of each word of all texts: where its first token is in its sample; -1: it has none */
    const int32_t *place; /* the same when all are read */
    int64_t *last;        /* where the words of each text end in it */
    const char *json;
};

bool ot_texts_has(const ot_texts *x, int column) { return column == x->column || column == x->second; }

const char *ot_texts_input(const ot_texts *x) { return x->input[x->of].name; }

bool ot_texts_are_words(const ot_texts *x) { return x->words; }

int64_t ot_texts_length(const ot_texts *x) { return x->length; }

const int32_t *ot_texts_words(const ot_texts *x, int64_t row, int64_t *n)
{
    int64_t from = row ? x->last[row - 1] : 0;
    *n = x->last[row] - from;
    return x->place + from;
}

const char *ot_texts_record(const ot_texts *x, const char **input)
{
    *input = ot_texts_input(x);
    return x->json;
}

void ot_texts_forget(ot_texts *x)
{
    if (!x) return;
    ot_tokenizer_free(x->k);
    json_decref(x->config);
    free(x->number);
    free(x->all.id);
    free(x->end);
    free(x->middle);
    free(x->first.id);
    x->k = NULL;
    x->config = NULL;
    x->number = NULL;
    x->all = x->first = (ot_ids){ 0 };
    x->end = x->middle = NULL;
}

/* ---- which input, which column ------------------------------------------------------------------ */

static ot_status recorded(const ot_data_options *o, const char *input, json_t **out, ot_error *err)
{
    json_t *root = NULL;
    *out = NULL;
    if (o->preprocess && ot_json_parse(o->preprocess, strlen(o->preprocess), &root))
        return ot_fail(err, OT_E_NOMEM, "no memory for the metadata of the model");
    json_t *one = json_object_get(json_object_get(root, "inputs"), input);
    const char *kind = json_string_value(json_object_get(one, "kind"));
    if (kind && !strcmp(kind, "text")) *out = json_incref(one);
    json_decref(root);
    return OT_OK;
}

bool ot_texts_known(const ot_data_options *o)
{
    const ot_data_input *in = ot_windows_input(o);
    ot_error none = { 0 };
    json_t *one = NULL;
    if (!in || recorded(o, in->name, &one, &none)) return false;
    json_decref(one);
    return one != NULL;
}

static bool is_filled(ot_beside k) { return k == OT_ONES || k == OT_ZEROS || k == OT_PLACES; }

/* Takes the inputs that tokens feed from the table's options. */
static ot_status take_inputs(ot_dataset *d, ot_columns *t, const ot_data_input *of, ot_texts **out, ot_error *err)
{
    static const ot_data_input any = { .name = "input_ids", .dtype = OT_I64, .shape = { 2, { -1, -1 } } };
    ot_data_options *o = &t->options;
    ot_texts *x = ot_arena_struct(d->arena, sizeof *x);
    ot_data_input *mine = ot_arena_alloc(d->arena, sizeof *mine * (size_t)(o->n_inputs + 1));
    ot_data_input *rest = ot_arena_alloc(d->arena, sizeof *rest * (size_t)(o->n_inputs + 1));
    int n = 0;
    if (!x || !mine || !rest) return ot_table_no_memory(t, err);
    *x = (ot_texts){ .input = mine, .supposed = !of };
    if (!of) mine[x->n_inputs++] = any;
    for (int i = 0; i < o->n_inputs; i++) {
        const ot_data_input *in = &o->input[i];
        if (in == of) x->of = x->n_inputs;
        if (in == of || is_filled(ot_beside_of(in->name))) mine[x->n_inputs++] = *in;
        else rest[n++] = *in;
    }
    o->input = rest;
    o->n_inputs = n;
    *out = x;
    return OT_OK;
}

static int named_column(const ot_columns *t, const char *name, size_t n)
{
    for (int i = 0; i < t->columns; i++)
        if (strlen(t->column[i].name) == n && !memcmp(t->column[i].name, name, n)) return i;
    return -1;
}

/* The column, or the two, that --inputs names; -1: it names none for this input. */
static int given_column(const ot_columns *t, ot_texts *x)
{
    const char *text = t->options.columns, *input = ot_texts_input(x);
    size_t n = strlen(input);
    if (!text || !strcmp(text, "auto")) return -1;
    for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
        end = p + strcspn(p, ";");
        bool named = (size_t)(end - p) > n && !memcmp(p, input, n) && p[n] == '=';
        if (!named && (t->options.n_inputs || p > text || *end)) continue;
        const char *from = named ? p + n + 1 : p;
        int one = named_column(t, from, (size_t)(end - from));
        for (const char *q = from; one < 0 && q < end; q++) {
            int first = *q == ',' ? named_column(t, from, (size_t)(q - from)) : -1;
            int second = first >= 0 ? named_column(t, q + 1, (size_t)(end - q - 1)) : -1;
            if (second >= 0 && second != first) x->second = second, one = first;
        }
        if (one >= 0) return one;
    }
    return -1;
}

/* Whether the column of the target (--target, else `label`, else the last one) has lists, and another one lists of words: tags of words. */
static bool has_tags(const ot_columns *t, int *target)
{
    bool words = false;
    *target = ot_column_find(t, t->target ? t->target : "label");
    if (*target < 0 && !t->target) *target = t->columns - 1;
    for (int i = 0; i < t->columns; i++) words |= i != *target && t->column[i].strings;
    return words && *target >= 0 && t->column[*target].listed;
}

/* The column `text`, or of lists of words `tokens` or `words`, or the one of the longest texts.  Tags are of lists of words. */
static int longest_column(const ot_columns *t)
{
    static const char *const names[] = { "text", "tokens", "words" };
    int best = -1, target;
    bool tags = has_tags(t, &target);
    for (int i = 0; i < OT_LEN(names); i++) {
        int named = ot_column_find(t, names[i]);
        if (named >= 0 && !(t->target && named == target) && (t->column[named].strings || (!i && !tags))) return named;
    }
    for (int i = 0; i < t->columns; i++) {
        const ot_column *q = &t->column[i];
        bool text = q->count[OT_CELL_TEXT] > 0 && !(t->target && !strcmp(t->target, q->name));
        if (tags ? i == target || !q->strings : q->listed && !q->strings) continue;
        if (text && (best < 0 || q->bytes > t->column[best].bytes)) best = i;
    }
    return best;
}

/* A model that was trained on column `name`, which is not there: another one is taken where it is the only one. */
static ot_status other_column(ot_dataset *d, const ot_columns *t, const ot_texts *x, const char *name, ot_error *err)
{
    if (t->mark == OT_ROWS_LINES || t->mark == OT_ROWS_FOLDER || t->mark == OT_ROWS_CONLL)
        return OT_OK; /* there the name is no choice of the user's */
    if (t->columns > 1 && !(t->options.columns && !strcmp(t->options.columns, "auto")))
        return ot_fail(err, OT_E_DATA,
                       "%s: no column '%s', which the model was trained with; choose another one with --inputs COLUMN",
                       t->path, name);
    return ot_dataset_tell(d, err, "%s: no column '%s', which the model was trained with: column '%s' is taken",
                           t->path, name, t->column[x->column].name);
}

static ot_status choose_column(ot_dataset *d, ot_columns *t, ot_texts *x, const json_t *one, ot_error *err)
{
    const char *name = json_string_value(json_object_get(one, "column"));
    const char *pair = json_string_value(json_object_get(one, "pair"));
    x->second = -1;
    x->column = given_column(t, x);
    if (x->column < 0 && t->options.columns && strcmp(t->options.columns, "auto") && !t->options.n_inputs)
        return ot_fail(err, OT_E_USAGE,
                       "--inputs %s: expected the column that contains the text, or two (A,B), or %s=COLUMN",
                       t->options.columns, ot_texts_input(x));
    if (x->column < 0 && name && pair) {
        x->column = ot_column_find(t, name);
        x->second = ot_column_find(t, pair);
        if (x->column < 0 || x->second < 0)
            return ot_fail(err, OT_E_DATA,
                           "%s: no column '%s': the model was trained with pairs of columns, '%s' and '%s'; choose two "
                           "columns with --inputs A,B",
                           t->path, x->column < 0 ? name : pair, name, pair);
    }
    if (x->column < 0 && name) x->column = ot_column_find(t, name);
    bool other = x->column < 0;
    if (other) x->column = longest_column(t);
    if (x->column >= 0 && other && name) OT_TRY(other_column(d, t, x, name, err));
    if (x->column < 0)
        return ot_fail(err, OT_E_DATA, "%s: no column contains text for input '%s'; choose one with --inputs COLUMN",
                       t->path, ot_texts_input(x));
    x->name = t->column[x->column].name;
    x->words = x->second < 0 && (json_is_true(json_object_get(one, "words")) || t->column[x->column].strings);
    if (x->second >= 0 && (t->column[x->column].listed || t->column[x->second].listed))
        return ot_fail(err, OT_E_DATA, "%s: columns '%s' and '%s': pairs of lists of words are not supported", t->path,
                       x->name, t->column[x->second].name);
    t->column[x->column].kind = OT_KIND_LABEL; /* its words are no categories */
    if (x->second >= 0) t->column[x->second].kind = OT_KIND_LABEL;
    return OT_OK;
}

/* ---- what the tokens are -------------------------------------------------------------------------- */

static ot_status bad_record(const ot_texts *x, const char *what, ot_error *err)
{
    return ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: input '%s': '%s' is invalid", ot_texts_input(x),
                   what);
}

static ot_status set_tokenizer(const ot_columns *t, ot_texts *x, const char *path, const json_t *one, ot_error *err)
{
    if (path) OT_TRY(ot_tokenizer_load(path, &x->config, err));
    else x->config = json_incref(json_object_get(one, "tokenizer"));
    if (!json_is_object(x->config)) return bad_record(x, "tokenizer", err);
    OT_TRY(ot_tokenizer_new(x->config, path ? path : "the model's tokenizer", &x->k, err));
    x->kinds = ot_tokenizer_size(x->k);
    return (void)t, OT_OK;
}

static ot_status set_characters(const ot_columns *t, ot_texts *x, const json_t *list, ot_error *err)
{
    x->number = malloc(POINTS * sizeof *x->number);
    if (!x->number) return ot_table_no_memory(t, err);
    memset(x->number, -1, POINTS * sizeof *x->number);
    x->fresh = !list;
    x->kinds = FIRST;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t c = json_integer_value(v);
        if (!json_is_integer(v) || c < 0 || c >= POINTS || x->number[c] >= 0) return bad_record(x, "vocabulary", err);
        x->number[c] = (int32_t)x->kinds++;
    }
    return OT_OK;
}

static ot_status set_unit(const ot_columns *t, ot_texts *x, const json_t *one, ot_error *err)
{
    const ot_data_options *o = &t->options;
    const char *before = json_string_value(json_object_get(one, "unit"));
    if (o->tokenizer && o->text) return ot_fail(err, OT_E_USAGE, "--text and --tokenizer: use one of them");
    bool tokens = o->tokenizer || (!o->text && before && !strcmp(before, "tokens"));
    bool chars = o->text ? !strcmp(o->text, "chars") : before && !strcmp(before, "characters");
    x->unit = tokens ? TOKENS : chars ? CHARACTERS : BYTES;
    x->fresh = false;
    if (tokens) return set_tokenizer(t, x, o->tokenizer, one, err);
    if (chars && before && !strcmp(before, "characters") && !json_is_array(json_object_get(one, "vocabulary")))
        return bad_record(x, "vocabulary", err);
    if (chars) return set_characters(t, x, json_object_get(one, "vocabulary"), err);
    x->kinds = 256;
    return OT_OK;
}

/* What a sample is made of. */
static ot_status set_parts(const ot_columns *t, ot_texts *x, ot_error *err)
{
    int front = 0, behind = 0, n = 0;
    const ot_text_part *pair = x->k && x->second >= 0 ? ot_tokenizer_pair(x->k, &n) : NULL;
    if (x->second >= 0 && !x->k)
        return ot_fail(err, OT_E_USAGE, "%s: two columns of text need --tokenizer, which puts tokens between them",
                       t->path);
    if (x->second >= 0 && (n < 2 || n > OT_LEN(x->part)))
        return ot_fail(err, OT_E_DATA, "%s: the tokenizer's post-processor has no template for pairs", t->path);
    x->n_parts = 0;
    for (int i = 0; i < n; i++) x->part[x->n_parts++] = pair[i];
    if (n) return OT_OK;
    const int32_t *special = x->k ? ot_tokenizer_around(x->k, &front, &behind) : NULL;
    for (int i = 0; i < front; i++) x->part[x->n_parts++] = (ot_text_part){ special[i], 0 };
    x->part[x->n_parts++] = (ot_text_part){ OT_FIRST_TEXT, 0 };
    for (int i = 0; i < behind; i++) x->part[x->n_parts++] = (ot_text_part){ special[front + i], 0 };
    return OT_OK;
}

/* Tokens around a text, or two. */
static int around(const ot_texts *x) { return x->n_parts - 1 - (x->second >= 0); }

static ot_status set_length(const ot_columns *t, ot_texts *x, const json_t *one, ot_error *err)
{
    const ot_data_input *in = &x->input[x->of];
    json_int_t before = json_integer_value(json_object_get(one, "length"));
    int64_t asked = t->options.length;
    x->fixed = in->shape.rank == 2 && in->shape.dim[1] > 0 ? in->shape.dim[1] : 0;
    x->length = x->fixed ? x->fixed : asked ? asked : before > 0 && before <= INT32_MAX / 8 ? before : 0;
    x->most = x->length ? x->length : USUAL_LENGTH;
    for (int i = 0; i < x->n_inputs && !x->length; i++) /* of positions, as many as there are */
        if (x->input[i].rows && i != x->of && ot_beside_of(x->input[i].name) == OT_PLACES && x->input[i].rows < x->most)
            x->most = x->input[i].rows;
    if (x->fixed && asked && asked != x->fixed)
        return ot_fail(err, OT_E_USAGE, "--length %lld: input '%s' of the model has a fixed length of %lld",
                       (long long)asked, in->name, (long long)x->fixed);
    for (int i = 0; i < x->n_inputs && x->length; i++) {
        const ot_data_input *beside = &x->input[i];
        if (i == x->of || !beside->rows || ot_beside_of(beside->name) != OT_PLACES || x->length <= beside->rows)
            continue;
        return ot_fail(
            err, OT_E_USAGE,
            "%s: samples of %lld tokens are too long: input '%s' of the model is looked up in a table of %lld "
            "positions%s",
            t->path, (long long)x->length, beside->name, (long long)beside->rows,
            x->fixed ? "" : "; use --length with this number or a smaller one");
    }
    if (x->most <= around(x))
        return ot_fail(err, OT_E_DATA, "%s: samples of %lld tokens have no room for a text: the tokenizer adds %d",
                       t->path, (long long)x->most, around(x));
    return OT_OK;
}

ot_status ot_texts_find(ot_dataset *d, ot_columns *t, ot_error *err)
{
    const ot_data_options *o = &t->options;
    const ot_data_input *of = t->text ? &t->text->input[t->text->of] : ot_windows_input(o);
    json_t *one = NULL;
    if (of) OT_TRY(recorded(o, of->name, &one, err));
    bool wanted = o->tokenizer || o->text || one;
    ot_status s = OT_OK;
    if (wanted && !of && o->n_inputs)
        s = ot_fail(err, OT_E_DATA,
                    "%s: no input of the model takes tokens: expected one of integers of shape [samples,length]",
                    t->path);
    else if (wanted && !t->text) s = take_inputs(d, t, of, &t->text, err);
    if (wanted && !s) s = choose_column(d, t, t->text, one, err);
    if (wanted && !s) s = set_unit(t, t->text, one, err);
    if (wanted && !s) s = set_parts(t, t->text, err);
    if (wanted && !s) s = set_length(t, t->text, one, err);
    json_decref(one);
    return s;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

typedef struct reading {
    const ot_columns *t;
    ot_texts *x;
} reading;

static ot_status not_utf8(const reading *r, const ot_rows *row, ot_error *err)
{
    return ot_fail(err, OT_E_DATA,
                   "%s: line %lld, column '%s': the text is not UTF-8; convert the file, for example with iconv -f "
                   "LATIN1 -t UTF-8",
                   r->t->path, (long long)row->line, r->x->name);
}

static ot_status add(const reading *r, ot_ids *a, int32_t id, ot_error *err)
{
    if (a->n == a->room) {
        int64_t room = 2 * a->room + 1024;
        int32_t *wide = realloc(a->id, (size_t)room * sizeof *wide);
        if (!wide) return ot_table_no_memory(r->t, err);
        a->id = wide;
        a->room = room;
    }
    a->id[a->n++] = id;
    return OT_OK;
}

/* word: it is one of a list of words. */
static ot_status add_text(const reading *r, const ot_rows *row, const char *text, size_t n, bool word, ot_error *err)
{
    ot_texts *x = r->x;
    uint32_t c = 0;
    ot_error why = { 0 };
    if (x->k) {
        ot_status s = word ? ot_tokenizer_word(x->k, text, n, &x->all, &why)
                           : ot_tokenizer_encode(x->k, text, n, false, &x->all, &why);
        return s == OT_E_DATA ? not_utf8(r, row, err) : s ? ot_table_no_memory(r->t, err) : OT_OK;
    }
    for (size_t i = 0, k = 1; i < n; i += k) {
        if (x->number && !(k = (size_t)ot_utf8(text + i, n - i, &c))) return not_utf8(r, row, err);
        if (x->fresh) x->number[c] = 0;
        OT_TRY(add(r, &x->all,
                   !x->number         ? (unsigned char)text[i]
                   : x->fresh         ? (int32_t)c
                   : x->number[c] < 0 ? UNKNOWN
                                      : x->number[c],
                   err));
    }
    return OT_OK;
}

/* A word of the sample that begins at x->all.id[begin].  Bytes and characters have a blank between words, which is no word's. */
static ot_status add_word(const reading *r, const ot_rows *row, const char *word, size_t n, int64_t begin,
                          ot_error *err)
{
    ot_texts *x = r->x;
    if (!x->k && x->all.n > begin) OT_TRY(add_text(r, row, " ", 1, false, err));
    int64_t at = x->all.n;
    OT_TRY(add_text(r, row, word, n, true, err));
    return add(r, &x->first, x->all.n > at ? (int32_t)(at - begin) : -1, err);
}

static ot_status add_words(const reading *r, const ot_rows *row, ot_error *err)
{
    ot_texts *x = r->x;
    size_t n;
    int64_t begin = x->all.n;
    ot_list list = ot_rows_list(row, x->column, &n);
    for (size_t i = 0; i < n && list == OT_LIST_WORDS; i++) {
        const char *word = ot_rows_word(row, x->column, i);
        OT_TRY(add_word(r, row, word, strlen(word), begin, err));
    }
    if (list == OT_LIST_WHOLE || list == OT_LIST_OTHER)
        return ot_fail(err, OT_E_DATA, "%s: line %lld, column '%s': expected a list of words (strings), got %.40s",
                       r->t->path, (long long)row->line, x->name, row->cell[x->column]);
    const char *p = list == OT_LIST_NONE ? row->cell[x->column] : "";
    for (; *(p += strspn(p, " \t\r\n")); p += n) {
        n = strcspn(p, " \t\r\n");
        OT_TRY(add_word(r, row, p, n, begin, err));
    }
    return OT_OK;
}

/* Words whose first token is behind the last of n have none; before the others are the tokens in front of a text. */
static void place_words(ot_texts *x, int64_t from, int64_t n)
{
    int front = 0;
    while (x->part[front].id != OT_FIRST_TEXT) front++;
    for (int64_t i = from; i < x->first.n; i++) {
        int32_t *at = &x->first.id[i];
        *at = *at < 0 || *at >= n ? -1 : *at + front;
    }
}

/* Of two texts of n[0] and n[1] tokens, which together are at most `most`. */
static void longest_first(int64_t n[2], int64_t most)
{
    bool swap = n[0] > n[1];
    int64_t *a = &n[swap], *b = &n[!swap]; /* the shorter, the longer */
    if (*a > most) *b = *a;
    else *b = most - *a > *a ? most - *a : *a;
    if (*a + *b <= most) return;
    *a = most / 2;
    *b = *a + most % 2;
}

static ot_status read_row(void *user, const ot_rows *row, int64_t at, ot_error *err)
{
    reading *r = user;
    ot_texts *x = r->x;
    int64_t begin = x->all.n, most = x->most - around(x), words = x->first.n;
    const char *one = row->cell[x->column], *two = x->second >= 0 ? row->cell[x->second] : "";
    OT_TRY(x->words ? add_words(r, row, err) : add_text(r, row, one, strlen(one), false, err));
    int64_t n[2] = { x->all.n - begin, 0 };
    OT_TRY(add_text(r, row, two, strlen(two), false, err));
    n[1] = x->all.n - begin - n[0];
    int64_t was = n[0];
    if (n[0] + n[1] > most) {
        if (x->second >= 0) longest_first(n, most);
        else n[0] = most;
        if (n[1]) memmove(x->all.id + begin + n[0], x->all.id + begin + was, (size_t)n[1] * sizeof *x->all.id);
        x->all.n = begin + n[0] + n[1];
        x->cut++;
    }
    place_words(x, words, n[0]);
    x->last[at] = x->first.n;
    x->middle[at] = begin + n[0];
    x->end[at] = x->all.n;
    return OT_OK;
}

static void number_characters(ot_texts *x)
{
    for (int c = 0; c < POINTS; c++)
        if (x->number[c] >= 0) x->number[c] = (int32_t)x->kinds++;
    for (int64_t i = 0; i < x->all.n; i++) x->all.id[i] = x->number[x->all.id[i]];
}

static int64_t begin_of(const ot_texts *x, int64_t row) { return row ? x->end[row - 1] : 0; }

/* The longest text decides where nothing else does. */
static void find_length(ot_texts *x, int64_t rows)
{
    int64_t longest = 1;
    for (int64_t i = 0; i < rows; i++) {
        int64_t n = x->end[i] - begin_of(x, i) + around(x);
        if (n > longest) longest = n;
    }
    if (!x->length) x->length = longest;
}

/* ---- arrays ------------------------------------------------------------------------------------------- */

static ot_status add_array(ot_dataset *d, const ot_columns *t, const char *name, ot_dtype type, bool same,
                           ot_array **out, ot_error *err)
{
    ot_shape s = { 2, { t->rows, t->text->length } };
    ot_shape one = { 2, { 1, t->text->length } };
    int64_t there = ot_memory_available();
    ot_array *a = ot_dataset_add(d, name);
    if (!a) return ot_table_no_memory(t, err);
    if (!ot_shape_fits(&s, type) || (!same && ot_bytes(&s, type) > (uint64_t)there))
        return ot_fail(err, OT_E_NOMEM,
                       "%s: out of memory: %lld samples of %lld tokens are more than the %lld MiB that are available",
                       t->path, (long long)t->rows, (long long)t->text->length, (long long)(there >> 20));
    OT_TRY(ot_array_alloc(d, a, type, same ? &one : &s, -1, t->path, err));
    a->t.dim[0] = t->rows;
    a->same = same;
    *out = a;
    return OT_OK;
}

static void put(ot_array *a, int64_t at, int64_t v)
{
    switch (a->t.dtype) {
    case OT_U8: ((uint8_t *)a->t.data)[at] = (uint8_t)v; break;
    case OT_U16: ((uint16_t *)a->t.data)[at] = (uint16_t)v; break;
    default: ((int32_t *)a->t.data)[at] = (int32_t)v; break;
    }
}

static int64_t fill_of(const ot_texts *x)
{
    int64_t pad = x->k ? ot_tokenizer_pad(x->k) : FILL;
    return pad < 0 ? 0 : pad;
}

/* a: the tokens, or the type of each. */
static void fill_tokens(const ot_texts *x, ot_array *a, int64_t rows, bool types)
{
    int64_t pad = types ? 0 : fill_of(x);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i * x->length, stop = at + x->length;
        for (int p = 0; p < x->n_parts; p++) {
            const ot_text_part *part = &x->part[p];
            int64_t from = part->id == OT_SECOND_TEXT ? x->middle[i] : begin_of(x, i);
            int64_t end = part->id == OT_SECOND_TEXT ? x->end[i] : x->middle[i];
            if (part->id >= 0) put(a, at++, types ? part->type : part->id);
            for (int64_t k = from; part->id < 0 && k < end; k++) put(a, at++, types ? part->type : x->all.id[k]);
        }
        while (at < stop) put(a, at++, pad);
    }
}

static void fill_mask(const ot_texts *x, ot_array *a, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        int64_t n = x->end[i] - begin_of(x, i) + around(x);
        memset((uint8_t *)a->t.data + i * x->length, 1, (size_t)n);
    }
}

static ot_status add_arrays(ot_dataset *d, const ot_columns *t, bool *mask, ot_error *err)
{
    const ot_texts *x = t->text;
    ot_array *a = NULL;
    ot_dtype type = x->kinds <= 1 << 8 ? OT_U8 : x->kinds <= 1 << 16 ? OT_U16 : OT_I32;
    for (int i = 0; i < x->n_inputs; i++) {
        const ot_data_input *in = &x->input[i];
        ot_beside k = i == x->of ? OT_TOKENS : ot_beside_of(in->name);
        bool types = k == OT_ZEROS && x->second >= 0, same = (k == OT_ZEROS && !types) || k == OT_PLACES;
        OT_TRY(add_array(d, t, in->name, k == OT_TOKENS ? type : k == OT_PLACES ? OT_I32 : OT_U8, same, &a, err));
        if (k == OT_TOKENS || types) fill_tokens(x, a, t->rows, types);
        if (k == OT_ONES) fill_mask(x, a, t->rows);
        for (int64_t p = 0; p < x->length && k == OT_PLACES; p++) put(a, p, p);
        *mask |= k == OT_ONES;
    }
    return OT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

static ot_status check_rows(const ot_columns *t, const ot_texts *x, ot_error *err)
{
    const ot_data_input *in = &x->input[x->of];
    if (!in->rows || x->kinds <= in->rows) return OT_OK;
    return ot_fail(err, OT_E_DATA,
                   "%s: its text has %lld different %s, but input '%s' of the model is looked up in a table of %lld "
                   "rows%s",
                   t->path, (long long)x->kinds, unit_name[x->unit], in->name, (long long)in->rows,
                   x->unit == BYTES        ? "; use --text chars"
                   : x->unit == CHARACTERS ? " (two more than there are characters: for padding, and for others)"
                                           : "");
}

static json_t *vocabulary_of(const ot_texts *x)
{
    json_t *list = json_array();
    uint32_t *point = calloc((size_t)x->kinds + 1, sizeof *point);
    for (uint32_t c = 0; point && c < POINTS; c++)
        if (x->number[c] >= FIRST) point[x->number[c]] = c;
    for (int64_t i = FIRST; i < x->kinds && point; i++) ot_json_add(&list, json_integer(point[i]));
    if (!point) {
        json_decref(list);
        list = NULL;
    }
    free(point);
    return list;
}

static ot_status record(ot_dataset *d, const ot_columns *t, ot_texts *x, ot_error *err)
{
    json_t *o = json_object();
    ot_json_set(&o, "kind", json_string("text"));
    ot_json_set(&o, "column", json_string(x->name));
    if (x->second >= 0) ot_json_set(&o, "pair", json_string(t->column[x->second].name));
    if (x->words) ot_json_set(&o, "words", json_true());
    ot_json_set(&o, "unit", json_string(unit_name[x->unit]));
    if (x->unit == TOKENS) ot_json_set(&o, "tokenizer", json_incref(x->config));
    if (x->unit == CHARACTERS) ot_json_set(&o, "vocabulary", vocabulary_of(x));
    ot_json_set(&o, "length", json_integer(x->length));
    char *text = ot_json_dump(o, JSON_COMPACT);
    json_decref(o);
    x->json = text ? ot_arena_strdup(d->arena, text) : NULL;
    free(text);
    return x->json ? OT_OK : ot_table_no_memory(t, err);
}

/* Is a token between two texts? */
static bool separated(const ot_texts *x)
{
    for (int i = 1; i < x->n_parts; i++)
        if (x->part[i].id < 0 && x->part[i - 1].id < 0) return false;
    return true;
}

static ot_status tell(ot_dataset *d, const ot_columns *t, bool mask, ot_error *err)
{
    const ot_texts *x = t->text;
    bool filled = false;
    char cut[120] = "";
    for (int64_t i = 0; i < t->rows; i++) filled |= x->end[i] - begin_of(x, i) + around(x) < x->length;
    if (x->cut)
        snprintf(cut, sizeof cut, "; %lld of %lld samples are longer and were truncated%s", (long long)x->cut,
                 (long long)t->rows, x->fixed ? "" : " (change with --length)");
    const char *second = x->second >= 0 ? t->column[x->second].name : NULL;
    OT_TRY(ot_dataset_tell(d, err,
                           "%s: column%s '%s'%s%s%s to input '%s' as %s%s (%lld different), %lld of each sample%s",
                           t->path, second ? "s" : "", x->name, second ? " and '" : "", second ? second : "",
                           second ? "' go" : " goes", ot_texts_input(x),
                           second     ? "pairs of "
                           : x->words ? "words, each as "
                                      : "",
                           unit_name[x->unit], (long long)x->kinds, (long long)x->length, cut));
    if (second && !separated(x))
        OT_TRY(ot_dataset_tell(d, err, "%s: the tokenizer puts no token between the two", t->path));
    if (mask || !filled || x->supposed) return OT_OK;
    return ot_dataset_tell(d, err,
                           "%s: shorter samples are padded with token %lld, which the model sees: it has no input "
                           "attention_mask",
                           t->path, (long long)fill_of(x));
}

ot_status ot_texts_read(ot_dataset *d, ot_columns *t, ot_error *err)
{
    ot_texts *x = t->text;
    reading r = { t, x };
    bool mask = false;
    x->cut = 0;
    x->end = calloc((size_t)t->rows + 1, sizeof *x->end);
    x->middle = calloc((size_t)t->rows + 1, sizeof *x->middle);
    x->last = ot_arena_alloc(d->arena, ((size_t)t->rows + 1) * sizeof *x->last);
    if (!x->end || !x->middle || !x->last) return ot_table_no_memory(t, err);
    OT_TRY(ot_table_each_row(t, read_row, &r, err));
    x->place = ot_arena_copy(d->arena, x->first.id ? x->first.id : &(int32_t){ 0 },
                             (size_t)(x->first.n + !x->first.n) * sizeof *x->place);
    if (!x->place) return ot_table_no_memory(t, err);
    if (x->fresh) number_characters(x);
    find_length(x, t->rows);
    OT_TRY(check_rows(t, x, err));
    OT_TRY(add_arrays(d, t, &mask, err));
    OT_TRY(record(d, t, x, err));
    return tell(d, t, mask, err);
}
