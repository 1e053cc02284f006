/* corpus.c - a text file as a sequence of bytes, characters or a tokenizer's tokens, for models that predict the next one.
 *
 * Bytes are the pages of the file.  Characters are numbered in the order of their code points; the numbers, or the tokenizer,
 * are written into the trained model, so that other texts get the same ones. */
#include "runtime/base/json.h"
#include "runtime/data/internal.h"
#include "runtime/text/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 0x110000, BYTES = 256 };

typedef struct text {
    const char *path;
    const unsigned char *p;
    int64_t n;
    int64_t characters;
    int32_t *number; /* of each code point; -1: none */
    int kinds;
} text;

static ot_status no_memory(const text *t, ot_error *err) { return ot_fail(err, OT_E_NOMEM, "%s: no memory", t->path); }

/* The character at byte i; its length, or 0: no UTF-8. */
static int character(const text *t, int64_t i, uint32_t *c)
{
    return ot_utf8((const char *)t->p + i, (size_t)(t->n - i), c);
}

static int64_t line_of(const text *t, int64_t at)
{
    int64_t line = 1;
    for (int64_t i = 0; i < at; i++) line += t->p[i] == '\n';
    return line;
}

/* Marks every character of the text in t->number, and counts them. */
static ot_status find_characters(text *t, ot_error *err)
{
    uint32_t c;
    for (int64_t i = 0; i < t->n; t->characters++) {
        int n = character(t, i, &c);
        if (!n)
            return ot_fail(err, OT_E_DATA, "%s: line %lld is not UTF-8 (byte %lld); use --text bytes", t->path,
                           (long long)line_of(t, i), (long long)i);
        t->number[c] = 0;
        i += n;
    }
    return OT_OK;
}

static void number_characters(text *t)
{
    for (int c = 0; c < POINTS; c++)
        if (t->number[c] >= 0) t->number[c] = t->kinds++;
}

/* The numbers that the model's training text gave. */
static ot_status read_vocabulary(text *t, const json_t *list, ot_error *err)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t c = json_integer_value(v);
        if (!json_is_integer(v) || c < 0 || c >= POINTS || t->number[c] >= 0)
            return ot_fail(err, OT_E_MODEL,
                           "the model's onnxtrain.preprocess has a vocabulary that is not a list of "
                           "different characters");
        t->number[c] = (int32_t)i;
    }
    t->kinds = (int)n;
    return OT_OK;
}

/* {"kind":"text","unit":unit,key:value,"length":N}, which a trained model keeps; value: taken over, NULL: without it. */
static ot_status write_preprocess(ot_dataset *d, const char *unit, const char *key, json_t *value, ot_error *err)
{
    json_t *all = json_object();
    ot_json_set(&all, "kind", json_string("text"));
    ot_json_set(&all, "unit", json_string(unit));
    if (key) ot_json_set(&all, key, value);
    ot_json_set(&all, "length", json_integer(ot_windows_length(d->windows)));
    if (d->masking.p > 0) {
        json_t *mask = json_object();
        ot_json_set(&mask, "p", json_real(d->masking.p));
        ot_json_set(&mask, "token", json_integer(d->masking.token));
        ot_json_set(&all, "mask", mask);
    }
    char *dump = ot_json_dump(all, JSON_COMPACT);
    d->preprocess = dump ? ot_arena_strdup(d->arena, dump) : NULL;
    free(dump);
    json_decref(all);
    return d->preprocess ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
}

/* The code points in the order of their numbers; NULL: no memory. */
static json_t *vocabulary_of(const text *t)
{
    json_t *list = json_array();
    uint32_t *point = calloc((size_t)t->kinds + 1, sizeof *point);
    for (uint32_t c = 0; point && c < POINTS; c++)
        if (t->number[c] >= 0) point[t->number[c]] = c;
    bool good = list && point;
    for (int i = 0; good && i < t->kinds; i++) good = !json_array_append_new(list, json_integer(point[i]));
    free(point);
    if (good) return list;
    json_decref(list);
    return NULL;
}

/* A character that has no number. */
static ot_status unknown(const text *t, int64_t at, uint32_t c, ot_error *err)
{
    return ot_fail(err, OT_E_DATA,
                   "%s: line %lld contains '%.*s' (U+%04X), which is not among the %d characters of the "
                   "model's training text",
                   t->path, (long long)line_of(t, at), character(t, at, &c), t->p + at, c, t->kinds);
}

/* token: the one for masks where none is given; kinds: tokens from 0. */
static void set_mask(ot_dataset *d, int64_t token, int64_t kinds)
{
    if (d->masking.token < 0) d->masking.token = token;
    d->masking.kinds = kinds;
}

/* --augment mask, else as it was in the training. */
static ot_status choose_mask(ot_dataset *d, const json_t *trained, ot_error *err)
{
    const json_t *mask = json_object_get(trained, "mask"), *token = json_object_get(mask, "token");
    d->masking = d->options->masking;
    if (d->masking.p > 0 || !mask) return OT_OK;
    d->masking = (ot_masking){ json_number_value(json_object_get(mask, "p")), json_integer_value(token), 0 };
    if (d->masking.p > 0 && d->masking.p <= 1 && json_is_integer(token) && d->masking.token >= 0) return OT_OK;
    return ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: 'mask' is invalid");
}

static ot_status encode(ot_dataset *d, text *t, ot_error *err)
{
    ot_dtype type = t->kinds <= 1 << 8 ? OT_U8 : t->kinds <= 1 << 16 ? OT_U16 : OT_U32;
    int64_t size = ot_dtype_bits(type) / 8, most = ot_memory_available();
    if (t->characters * size > most)
        return ot_fail(err, OT_E_NOMEM, "%s: out of memory: its characters need %lld MiB, but %lld MiB are available",
                       t->path, (long long)(t->characters * size >> 20), (long long)(most >> 20));
    void *ids = ot_arena_alloc(d->arena, (size_t)(t->characters * size) + 1);
    if (!ids) return no_memory(t, err);
    uint32_t c;
    int64_t k = 0;
    for (int64_t i = 0, n; i < t->n; i += n, k++) {
        n = character(t, i, &c);
        int32_t id = n ? t->number[c] : -1;
        if (id < 0) return unknown(t, i, c, err);
        if (type == OT_U8) ((uint8_t *)ids)[k] = (uint8_t)id;
        else if (type == OT_U16) ((uint16_t *)ids)[k] = (uint16_t)id;
        else ((uint32_t *)ids)[k] = (uint32_t)id;
    }
    set_mask(d, t->kinds, t->kinds);
    ot_dataset_unmap(d); /* the characters stand for it */
    return ot_windows_set(d, ids, type, k, "characters", err);
}

/* The model cannot have all of them. */
static ot_status check_rows(const ot_dataset *d, int64_t kinds, const char *what, const char *advice, ot_error *err)
{
    const ot_data_input *x = ot_windows_input(d->options);
    if (!x || !x->rows || kinds <= x->rows) return OT_OK;
    return ot_fail(err, OT_E_DATA,
                   "%s: has %lld different %s, but input '%s' of the model is looked up in a table of %lld rows%s",
                   d->name, (long long)kinds, what, x->name, (long long)x->rows, advice);
}

static ot_status open_characters(ot_dataset *d, text *t, const json_t *vocabulary, ot_error *err)
{
    t->number = malloc(POINTS * sizeof *t->number);
    if (!t->number) return no_memory(t, err);
    memset(t->number, -1, POINTS * sizeof *t->number);
    ot_status s = find_characters(t, err);
    if (vocabulary && !s) {
        memset(t->number, -1, POINTS * sizeof *t->number);
        s = read_vocabulary(t, vocabulary, err);
    } else if (!s) {
        number_characters(t);
    }
    if (!s) s = check_rows(d, t->kinds, "characters", t->kinds > BYTES ? "; --text bytes needs 256" : "", err);
    if (!s) s = encode(d, t, err);
    if (!s)
        s = ot_dataset_tell(d, err, "%s: its %d different characters are the tokens (change with --text)", d->name,
                            t->kinds);
    json_t *list = s ? NULL : vocabulary_of(t);
    if (!s) s = list ? write_preprocess(d, "characters", "vocabulary", list, err) : no_memory(t, err);
    free(t->number);
    return s;
}

static ot_status open_bytes(ot_dataset *d, const text *t, ot_error *err)
{
    OT_TRY(check_rows(d, BYTES, "bytes", "; use --text chars", err));
    set_mask(d, BYTES, BYTES);
    OT_TRY(ot_windows_set(d, t->p, OT_U8, t->n, "bytes", err));
    OT_TRY(ot_dataset_tell(d, err, "%s: its bytes are the tokens (change with --text)", d->name));
    return write_preprocess(d, "bytes", NULL, NULL, err);
}

/* The tokens of the whole text, in as many bits as they need. */
static ot_status encode_tokens(ot_dataset *d, const text *t, ot_tokenizer *k, ot_error *err)
{
    ot_ids ids = { 0 };
    ot_error why = { 0 };
    ot_status s = ot_tokenizer_encode(k, (const char *)t->p, (size_t)t->n, false, &ids, &why);
    if (s) ot_fail(err, s, "%s: %s", t->path, why.text);
    bool wide = ot_tokenizer_size(k) > 1 << 16;
    void *token = s ? NULL : ot_arena_alloc(d->arena, (size_t)ids.n * (wide ? 4 : 2) + 1);
    if (!s && !token) s = no_memory(t, err);
    for (int64_t i = 0; !s && i < ids.n; i++)
        if (wide) ((uint32_t *)token)[i] = (uint32_t)ids.id[i];
        else ((uint16_t *)token)[i] = (uint16_t)ids.id[i];
    free(ids.id);
    if (s) return s;
    set_mask(d, ot_tokenizer_mask(k), ot_tokenizer_size(k));
    ot_dataset_unmap(d);
    return ot_windows_set(d, token, wide ? OT_U32 : OT_U16, ids.n, "tokens", err);
}

static ot_status open_tokens(ot_dataset *d, const text *t, const json_t *config, const char *name, ot_error *err)
{
    ot_tokenizer *k = NULL;
    OT_TRY(ot_tokenizer_new(config, name, &k, err));
    int64_t size = ot_tokenizer_size(k);
    ot_status s = check_rows(d, size, "tokens of the tokenizer", "", err);
    if (!s) s = encode_tokens(d, t, k, err);
    if (!s) s = ot_dataset_tell(d, err, "%s: its tokens are those of %s, %lld in all", d->name, name, (long long)size);
    if (!s) s = write_preprocess(d, "tokens", "tokenizer", json_incref((json_t *)(uintptr_t)config), err);
    ot_tokenizer_free(k);
    return s;
}

static ot_status open_unit(ot_dataset *d, text *t, const json_t *trained, ot_error *err)
{
    const ot_data_options *o = d->options;
    const ot_data_input *x = ot_windows_input(o);
    const char *unit = json_string_value(json_object_get(trained, "unit"));
    const json_t *vocabulary = unit && !strcmp(unit, "characters") ? json_object_get(trained, "vocabulary") : NULL;
    const json_t *tokenizer = unit && !strcmp(unit, "tokens") ? json_object_get(trained, "tokenizer") : NULL;
    if (o->tokenizer && o->text) return ot_fail(err, OT_E_USAGE, "--text and --tokenizer: use one of them");
    if (o->tokenizer) {
        json_t *config = NULL;
        OT_TRY(ot_tokenizer_load(o->tokenizer, &config, err));
        ot_status s = open_tokens(d, t, config, o->tokenizer, err);
        json_decref(config);
        return s;
    }
    if (tokenizer && !o->text) return open_tokens(d, t, tokenizer, "the model's tokenizer", err);
    bool chars = o->text ? !strcmp(o->text, "chars") : unit ? vocabulary != NULL : x && x->rows && x->rows < BYTES;
    return chars ? open_characters(d, t, vocabulary, err) : open_bytes(d, t, err);
}

ot_status ot_corpus_open(const char *path, ot_dataset *d, ot_error *err)
{
    text t = { .path = path };
    const void *bytes = NULL;
    const char *recorded = d->options->preprocess;
    json_t *trained = NULL;
    OT_TRY(ot_dataset_map(d, path, &bytes, &t.n, err));
    t.p = bytes ? bytes : (const void *)"";
    if (recorded && ot_json_parse(recorded, strlen(recorded), &trained))
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    ot_status s = choose_mask(d, trained, err);
    if (!s) s = open_unit(d, &t, trained, err);
    json_decref(trained);
    return s;
}
