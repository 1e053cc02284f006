/* tokenizer.c - a tokenizer from the JSON of tokenizer.json, and the encoding of texts.
 *
 * A text is cut at added tokens first, as they stand; what is between them is normalised, cut at added tokens that are looked for
 * in normalised text, then into words, and each word encoded by the model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

enum { MOST_TOKENS = 1 << 22 }; /* four times the largest known vocabulary: 64 MiB */

typedef struct token {
    const char *p; /* NULL: there is none of this number */
    uint32_t n;
    bool special;
} token;

typedef struct added {
    const char *p;
    size_t n;
    int32_t id;
    bool left, right, word; /* takes blanks with it; stands alone only */
} added;

/* By the first byte, of these the longest first. */
typedef struct added_set {
    added *list;
    int n, from[257]; /* where those of each first byte begin */
} added_set;

typedef enum model { BPE, WORD_PIECE, UNIGRAM, WORD_LEVEL, SENTENCE_PIECE } model;

static const char *const model_names[] = { "BPE", "WordPiece", "Unigram", "WordLevel", "SentencePiece" };

struct ot_tokenizer {
    ot_arena *a;
    const char *name;
    ot_string_table vocab;
    token *token;
    int64_t size;
    added_set raw, normal; /* added tokens as they stand in a text, and as they do when it is normalised */
    ot_normalizer *normalizer;
    ot_cutter *cutter;
    ot_decoder *decoder;
    bool bytes; /* words are bytes */
    model model;
    ot_sentencepiece *sentence; /* the model is the tokenizer's own */
    ot_bpe bpe;
    ot_wordpiece piece;
    ot_unigram unigram;
    int32_t byte[256]; /* UNIGRAM: the tokens of bytes that unknown characters become; -1: there is none */
    bool fallback;
    int32_t unknown;    /* WORD_LEVEL: of words that are not in the vocabulary */
    const char *missed; /* UNIGRAM: unknown characters that are not written yet; NULL: none */
    size_t n_missed;
    ot_template around;
    ot_ids *out;      /* what is encoded to */
    bool spaced;      /* a blank is put in front of what is between added tokens */
    ot_buffer begins; /* that, with the blank */
};

static ot_status no_memory(const ot_tokenizer *t, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", t->name);
}

ot_status ot_text_unsupported(const char *name, const char *what, const char *which, ot_error *err)
{
    return ot_fail(err, OT_E_DATA, "%s: unsupported %s '%.100s'", name, what, which ? which : "(without a type)");
}

const char *ot_config_text(const json_t *v, const char *key) { return json_string_value(json_object_get(v, key)); }

bool ot_config_flag(const json_t *v, const char *key, bool dflt)
{
    const json_t *x = json_object_get(v, key);
    return json_is_boolean(x) ? json_is_true(x) : dflt;
}

/* ---- vocabulary ------------------------------------------------------------------------------------ */

/* What words are compared with: the bytes that a token of byte-level words represents; one of other characters is what it is. */
static const char *raw(ot_tokenizer *t, const char *key, size_t n, size_t *size)
{
    char *p = ot_arena_struct(t->a, n + 1);
    if (!p || (t->bytes && ot_bytes_of(key, n, p, size))) return p;
    memcpy(p, key, n);
    p[n] = '\0';
    *size = n;
    return p;
}

static ot_status name_token(ot_tokenizer *t, int64_t id, const char *p, size_t n, bool special, ot_error *err)
{
    if (id < 0 || id >= MOST_TOKENS)
        return ot_fail(err, OT_E_DATA, "%s: token '%.60s' has the number %lld; expected 0 to %d", t->name, p,
                       (long long)id, MOST_TOKENS - 1);
    if (id >= t->size) {
        int64_t size = id + 1 > 2 * t->size ? id + 1 : 2 * t->size;
        token *wide = realloc(t->token, (size_t)size * sizeof *wide);
        if (!wide) return no_memory(t, err);
        memset(wide + t->size, 0, (size_t)(size - t->size) * sizeof *wide);
        t->token = wide;
        t->size = size;
    }
    t->token[id] = (token){ p, (uint32_t)n, special };
    return OT_OK;
}

/* Gives a number the text that its token represents. */
static ot_status name_text(ot_tokenizer *t, const json_t *id, const char *key, bool special, ot_error *err)
{
    const char *p = key;
    size_t n = strlen(key);
    if (!json_is_integer(id)) return ot_fail(err, OT_E_DATA, "%s: token '%.60s' has no number", t->name, key);
    if (!special && !ot_decoder_run(t->decoder, &p, &n)) return no_memory(t, err);
    char *own = ot_arena_struct(t->a, n + 1);
    if (!own) return no_memory(t, err);
    if (n) memcpy(own, p, n);
    own[n] = '\0';
    return name_token(t, json_integer_value(id), own, n, special, err);
}

/* The pieces of a unigram model are a list of [piece, score], whose numbers are their places; of equal ones the last counts. */
static ot_status read_scores(ot_tokenizer *t, const json_t *list, ot_error *err)
{
    size_t n = json_array_size(list);
    if (!n || n > MOST_TOKENS) return ot_fail(err, OT_E_DATA, "%s: its model has no vocabulary", t->name);
    double *score = ot_arena_alloc(t->a, n * sizeof *score), least = INFINITY;
    ot_text_piece *piece = ot_arena_alloc(t->a, n * sizeof *piece);
    if (!score || !piece) return no_memory(t, err);
    t->unigram.score = score;
    t->unigram.pieces.list = piece;
    for (size_t i = n; i-- > 0;) {
        const json_t *one = json_array_get(list, i), *v = json_array_get(one, 1);
        const char *key = json_string_value(json_array_get(one, 0));
        score[i] = json_number_value(v);
        if (!key || !json_is_number(v) || !isfinite(score[i]))
            return ot_fail(err, OT_E_DATA, "%s: piece %zu of its model is not a text and a score", t->name, i);
        char *own = ot_arena_strdup(t->a, key);
        json_t *id = own ? json_integer((json_int_t)i) : NULL;
        if (!id) return no_memory(t, err);
        ot_status s = name_text(t, id, own, false, err);
        json_decref(id);
        if (s) return s;
        least = fmin(least, score[i]);
        size_t size = strlen(own);
        if (!size || ot_string_table_get(&t->vocab, own, size) >= 0) continue;
        if (!ot_string_table_put(&t->vocab, own, size, (int32_t)i)) return no_memory(t, err);
        piece[t->unigram.pieces.n++] = (ot_text_piece){ own, (uint32_t)size, (int32_t)i };
    }
    qsort(piece, (size_t)t->unigram.pieces.n, sizeof *piece, ot_piece_order);
    t->unigram.unknown_score = least - 10;
    return OT_OK;
}

static ot_status read_vocabulary(ot_tokenizer *t, const json_t *vocab, ot_error *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(vocab) || !json_object_size(vocab))
        return ot_fail(err, OT_E_DATA, "%s: its model has no vocabulary", t->name);
    json_object_foreach((json_t *)(uintptr_t)vocab, key, v)
    {
        size_t n;
        OT_TRY(name_text(t, v, key, false, err));
        const char *p = raw(t, key, strlen(key), &n);
        if (!p || !ot_string_table_put(&t->vocab, p, n, (int32_t)json_integer_value(v))) return no_memory(t, err);
    }
    return OT_OK;
}

static int by_length(const void *a, const void *b)
{
    const added *x = a, *y = b;
    if (*x->p != *y->p) return (unsigned char)*x->p < (unsigned char)*y->p ? -1 : 1;
    return (x->n < y->n) - (x->n > y->n);
}

static void sort_added(added_set *s)
{
    if (s->n) qsort(s->list, (size_t)s->n, sizeof *s->list, by_length);
    for (int i = 0, c = 0; c <= 256; s->from[c++] = i)
        while (i < s->n && (unsigned char)*s->list[i].p < c) i++;
}

static ot_status add_token(ot_tokenizer *t, const json_t *v, const char *text, ot_error *err)
{
    bool special = ot_config_flag(v, "special", false), normal = ot_config_flag(v, "normalized", !special);
    const json_t *id = json_object_get(v, "id");
    size_t n = strlen(text);
    added_set *set = normal ? &t->normal : &t->raw;
    const char *content = text;
    if (normal && !ot_normalizer_run(t->normalizer, &text, &n)) return no_memory(t, err);
    char *own = ot_arena_struct(t->a, n + 1);
    if (!own) return no_memory(t, err);
    if (n) memcpy(own, text, n);
    own[n] = '\0';
    OT_TRY(name_text(t, id, special || !n ? content : own, special, err));
    if (!n) return OT_OK; /* nothing is left of it to be found */
    set->list[set->n++] = (added){ own,
                                   n,
                                   (int32_t)json_integer_value(id),
                                   ot_config_flag(v, "lstrip", false),
                                   ot_config_flag(v, "rstrip", false),
                                   ot_config_flag(v, "single_word", false) };
    return OT_OK;
}

static ot_status read_added(ot_tokenizer *t, const json_t *list, ot_error *err)
{
    size_t n = json_array_size(list);
    t->raw.list = ot_arena_struct(t->a, (n + 1) * sizeof *t->raw.list);
    t->normal.list = ot_arena_struct(t->a, (n + 1) * sizeof *t->normal.list);
    if (!t->raw.list || !t->normal.list) return no_memory(t, err);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        const char *text = ot_config_text(v, "content");
        if (!text || !*text || !json_is_integer(json_object_get(v, "id")))
            return ot_fail(err, OT_E_DATA, "%s: added token %zu has no content or number", t->name, i);
        OT_TRY(add_token(t, v, text, err));
    }
    sort_added(&t->raw);
    sort_added(&t->normal);
    return OT_OK;
}

/* ---- models ------------------------------------------------------------------------------------------ */

static ot_status bad_merge(const ot_tokenizer *t, size_t i, ot_error *err)
{
    return ot_fail(err, OT_E_DATA, "%s: merge %zu is not two tokens of the vocabulary that make a third", t->name, i);
}

static ot_status read_merge(ot_tokenizer *t, size_t i, const json_t *v, ot_error *err)
{
    const char *left = json_string_value(json_is_array(v) ? json_array_get(v, 0) : v), *right, *p[2];
    size_t n[2], size[2];
    if (json_is_array(v)) {
        right = json_string_value(json_array_get(v, 1));
        n[0] = left ? strlen(left) : 0;
    } else {
        right = left ? strchr(left, ' ') : NULL;
        n[0] = right ? (size_t)(right - left) : 0;
        right += right != NULL;
    }
    if (!left || !right || !n[0] || !*right) return bad_merge(t, i, err);
    n[1] = strlen(right);
    char *key = ot_arena_printf(t->a, "%.*s", (int)n[0], left), *both;
    if (!key || !(p[0] = raw(t, key, n[0], &size[0])) || !(p[1] = raw(t, right, n[1], &size[1])) ||
        !(both = ot_arena_struct(t->a, size[0] + size[1] + 1)))
        return no_memory(t, err);
    size_t skip = t->bpe.prefix_n; /* the right half is no beginning of a word */
    if (size[1] < skip) return bad_merge(t, i, err);
    memcpy(both, p[0], size[0]);
    memcpy(both + size[0], p[1] + skip, size[1] - skip);
    int32_t a = ot_string_table_get(&t->vocab, p[0], size[0]), b = ot_string_table_get(&t->vocab, p[1], size[1]);
    int32_t made = ot_string_table_get(&t->vocab, both, size[0] + size[1] - skip);
    if (a < 0 || b < 0 || made < 0) return bad_merge(t, i, err);
    return ot_pairs_put(&t->bpe.merges, a, b, (int32_t)i, made) ? OT_OK : no_memory(t, err);
}

/* A copy of a member; "" where there is none; NULL: no memory. */
static const char *copy_member(ot_tokenizer *t, const json_t *m, const char *key, size_t *n)
{
    const char *text = ot_config_text(m, key);
    *n = text ? strlen(text) : 0;
    return text ? ot_arena_strdup(t->a, text) : "";
}

/* The tokens of bytes; whether there are all. */
static bool find_bytes(const ot_tokenizer *t, int32_t byte[256])
{
    bool all = true;
    for (int i = 0; i < 256; i++) {
        char key[8] = { (char)i };
        int n = t->bytes ? 1 : snprintf(key, sizeof key, "<0x%02X>", (unsigned)i);
        byte[i] = ot_string_table_get(&t->vocab, key, (size_t)n);
        all &= byte[i] >= 0;
    }
    return all;
}

/* The tokens of bytes, and what becomes of characters that are none. */
static ot_status read_unknown(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    ot_bpe *b = &t->bpe;
    const char *unknown = ot_config_text(m, "unk_token");
    bool all = find_bytes(t, b->byte);
    bool complete = t->bytes && all && !b->prefix_n && !b->suffix_n; /* no byte is unknown */
    b->by_byte = t->bytes;
    b->fallback = ot_config_flag(m, "byte_fallback", false) && !complete;
    b->fuse = ot_config_flag(m, "fuse_unk", false);
    b->unknown = unknown ? ot_string_table_get(&t->vocab, unknown, strlen(unknown)) : -1;
    if (t->bytes && b->fallback)
        return ot_text_unsupported(t->name, "part of its model:", "byte_fallback with ByteLevel", err);
    if (unknown && b->unknown < 0 && !complete)
        return ot_fail(err, OT_E_DATA, "%s: its token for unknown characters, '%.60s', is not in the vocabulary",
                       t->name, unknown);
    return OT_OK;
}

static ot_status read_bpe(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    const json_t *merges = json_object_get(m, "merges");
    ot_bpe *b = &t->bpe;
    if (json_number_value(json_object_get(m, "dropout")) > 0)
        return ot_text_unsupported(t->name, "part of its model:", "dropout", err);
    b->prefix = copy_member(t, m, "continuing_subword_prefix", &b->prefix_n);
    b->suffix = copy_member(t, m, "end_of_word_suffix", &b->suffix_n);
    if (!b->prefix || !b->suffix) return no_memory(t, err);
    b->whole = ot_config_flag(m, "ignore_merges", false);
    OT_TRY(read_unknown(t, m, err));
    if (json_array_size(merges) > MOST_TOKENS) return ot_fail(err, OT_E_DATA, "%s: has too many merges", t->name);
    for (size_t i = 0; i < json_array_size(merges); i++) OT_TRY(read_merge(t, i, json_array_get(merges, i), err));
    return OT_OK;
}

static ot_status find_unknown(const ot_tokenizer *t, const char *unknown, int32_t *out, ot_error *err)
{
    *out = unknown ? ot_string_table_get(&t->vocab, unknown, strlen(unknown)) : -1;
    if (*out >= 0) return OT_OK;
    return ot_fail(err, OT_E_DATA, "%s: its token for unknown words, '%.60s', is not in the vocabulary", t->name,
                   unknown ? unknown : "");
}

static ot_status read_pieces(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    enum { LONGEST = 1000, USUAL = 100 };
    const char *unknown = ot_config_text(m, "unk_token");
    const json_t *most = json_object_get(m, "max_input_chars_per_word");
    t->piece.prefix = "##";
    t->piece.prefix_n = 2;
    if (ot_config_text(m, "continuing_subword_prefix"))
        t->piece.prefix = copy_member(t, m, "continuing_subword_prefix", &t->piece.prefix_n);
    if (!t->piece.prefix) return no_memory(t, err);
    t->piece.longest = json_is_integer(most) ? json_integer_value(most) : USUAL;
    if (t->piece.longest < 1 || t->piece.longest > LONGEST)
        return ot_fail(err, OT_E_DATA, "%s: its max_input_chars_per_word is %lld; expected 1 to %d", t->name,
                       (long long)t->piece.longest, LONGEST);
    return find_unknown(t, unknown, &t->piece.unknown, err);
}

static ot_status read_unigram(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    const json_t *unknown = json_object_get(m, "unk_id");
    json_int_t id = json_is_integer(unknown) ? json_integer_value(unknown) : -1;
    if (id < 0 || id >= (json_int_t)json_array_size(json_object_get(m, "vocab")))
        return ot_fail(err, OT_E_DATA, "%s: its unk_id, the number of unknown characters, is not in the vocabulary",
                       t->name);
    t->unigram.unknown = (int32_t)id;
    t->fallback = ot_config_flag(m, "byte_fallback", false);
    find_bytes(t, t->byte);
    return OT_OK;
}

static ot_status read_model(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    const char *unknown = ot_config_text(m, "unk_token");
    if (t->bytes && t->model != BPE)
        return ot_fail(err, OT_E_DATA, "%s: unsupported pre-tokenizer of a %s model: 'ByteLevel'", t->name,
                       model_names[t->model]);
    switch (t->model) {
    case WORD_PIECE: return read_pieces(t, m, err);
    case UNIGRAM: return read_unigram(t, m, err);
    case WORD_LEVEL: return find_unknown(t, unknown ? unknown : "<unk>", &t->unknown, err);
    default: return read_bpe(t, m, err);
    }
}

/* ---- the whole --------------------------------------------------------------------------- */

/* Of tokens, U+2581 is a blank, and <0x41> the byte. */
static ot_status build_sentencepiece(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    OT_TRY(ot_sentencepiece_new(m, t->name, t->a, &t->sentence, err));
    for (int32_t i = 0; i < ot_sentencepiece_size(t->sentence); i++) {
        size_t n, size = 0;
        bool special;
        const char *p = ot_sentencepiece_piece(t->sentence, i, &n, &special);
        int b = ot_sentencepiece_byte(p, n);
        char *own = ot_arena_struct(t->a, n + 1);
        if (!own || !ot_string_table_put(&t->vocab, p, n, i)) return no_memory(t, err);
        for (size_t k = 0; k < n && b < 0; k++) {
            bool blank = n - k >= 3 && !memcmp(p + k, "\xE2\x96\x81", 3);
            own[size++] = blank ? ' ' : p[k];
            k += blank ? 2 : 0;
        }
        if (b >= 0) own[size++] = (char)b;
        own[size] = '\0';
        OT_TRY(name_token(t, i, own, size, special, err));
    }
    return ot_template_read(&t->around, NULL, t->name, t->size, err);
}

/* The parts around the model; the vocabulary, which words, merges and added tokens are looked up in, needs all of them. */
static ot_status build_parts(ot_tokenizer *t, const json_t *config, ot_error *err)
{
    const json_t *m = json_object_get(config, "model");
    const char *suffix = t->model == BPE ? ot_config_text(m, "end_of_word_suffix") : NULL;
    json_t *plain = NULL, *decoder = json_object_get(config, "decoder");
    OT_TRY(ot_normalizer_new(json_object_get(config, "normalizer"), t->name, t->a, &t->normalizer, err));
    OT_TRY(ot_cutter_new(json_object_get(config, "pre_tokenizer"), t->name, t->a, &t->cutter, err));
    t->bytes = ot_cutter_is_byte_level(t->cutter);
    if (t->model == WORD_PIECE && (!decoder || json_is_null(decoder))) { /* vocab.txt has none */
        const char *prefix = ot_config_text(m, "continuing_subword_prefix");
        plain = json_pack("{s:s, s:s, s:b}", "type", "WordPiece", "prefix", prefix ? prefix : "##", "cleanup", 0);
        if (!plain) return no_memory(t, err);
        decoder = plain;
    }
    ot_status s = ot_decoder_new(decoder, suffix && *suffix ? suffix : NULL, t->bytes, t->name, t->a, &t->decoder, err);
    json_decref(plain);
    return s;
}

static ot_status build(ot_tokenizer *t, const json_t *config, ot_error *err)
{
    const json_t *m = json_object_get(config, "model");
    const char *type = ot_config_text(m, "type");
    if (!type && json_object_get(m, "merges")) type = "BPE"; /* files of the first versions do not say */
    int kind = 0;
    while (type && kind < OT_LEN(model_names) && strcmp(type, model_names[kind])) kind++;
    if (!type || kind == OT_LEN(model_names)) return ot_text_unsupported(t->name, "model", type, err);
    t->model = (model)kind;
    if (t->model == SENTENCE_PIECE) return build_sentencepiece(t, m, err);
    if (!ot_has_unicode)
        return ot_fail(err, OT_E_DATA,
                       "%s: this program was built without tables of Unicode: install libutf8proc-dev and "
                       "build it again",
                       t->name);
    OT_TRY(build_parts(t, config, err));
    const json_t *vocab = json_object_get(m, "vocab");
    OT_TRY(t->model == UNIGRAM ? read_scores(t, vocab, err) : read_vocabulary(t, vocab, err));
    OT_TRY(read_added(t, json_object_get(config, "added_tokens"), err));
    OT_TRY(read_model(t, m, err));
    return ot_template_read(&t->around, json_object_get(config, "post_processor"), t->name, t->size, err);
}

ot_status ot_tokenizer_new(const json_t *config, const char *name, ot_tokenizer **out, ot_error *err)
{
    *out = NULL;
    ot_tokenizer *t = calloc(1, sizeof *t);
    if (t) t->a = ot_arena_new();
    if (!t || !t->a || !(t->name = ot_arena_strdup(t->a, name))) {
        ot_tokenizer_free(t);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", name);
    }
    ot_status s = build(t, config, err);
    if (s) ot_tokenizer_free(t);
    else *out = t;
    return s;
}

void ot_tokenizer_free(ot_tokenizer *t)
{
    if (!t) return;
    ot_sentencepiece_free(t->sentence);
    free(t->vocab.slot);
    free(t->token);
    free(t->bpe.merges.slot);
    free(t->bpe.symbol);
    free(t->bpe.heap);
    free(t->bpe.piece.p);
    free(t->piece.piece.p);
    free(t->begins.p);
    free(t->unigram.best);
    ot_normalizer_free(t->normalizer);
    ot_cutter_free(t->cutter);
    ot_decoder_free(t->decoder);
    ot_arena_free(t->a);
    free(t);
}

int64_t ot_tokenizer_size(const ot_tokenizer *t)
{
    int64_t n = t->size;
    while (n && !t->token[n - 1].p) n--;
    return n;
}

const char *ot_tokenizer_token(const ot_tokenizer *t, int64_t id, size_t *n, bool *special)
{
    if (id < 0 || id >= t->size || !t->token[id].p) return NULL;
    *n = t->token[id].n;
    *special = t->token[id].special;
    return t->token[id].p;
}

const char *ot_tokenizer_piece(const ot_tokenizer *t, int64_t id, size_t *n, bool *blank, bool *special)
{
    const char *p = ot_tokenizer_token(t, id, n, special);
    *blank = false;
    return !p || !t->decoder ? p : ot_decoder_piece(t->decoder, p, n, blank);
}

const int32_t *ot_tokenizer_around(const ot_tokenizer *t, int *front, int *behind)
{
    *front = t->around.n_front;
    *behind = t->around.n_behind;
    return t->around.around;
}

const ot_text_part *ot_tokenizer_pair(const ot_tokenizer *t, int *n)
{
    *n = t->around.n_pair;
    return t->around.pair;
}

static int64_t added_of(const added_set *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].n == strlen(name) && !memcmp(s->list[i].p, name, s->list[i].n)) return s->list[i].id;
    return -1;
}

/* The first of these names that is a token. */
static int64_t first_of(const ot_tokenizer *t, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t id = ot_string_table_get(&t->vocab, names[i], strlen(names[i]));
        if (id < 0) id = added_of(&t->raw, names[i]);
        if (id < 0) id = added_of(&t->normal, names[i]);
        if (id >= 0) return id;
    }
    return -1;
}

int64_t ot_tokenizer_mask(const ot_tokenizer *t)
{
    static const char *const names[] = { "[MASK]", "<mask>" };
    return first_of(t, names, OT_LEN(names));
}

int64_t ot_tokenizer_pad(const ot_tokenizer *t)
{
    static const char *const names[] = { "[PAD]", "<pad>", "<|endoftext|>", "</s>", "<|end_of_text|>" };
    return first_of(t, names, OT_LEN(names));
}

/* ---- encoding -------------------------------------------------------------------------------------------- */

/* Unknown characters in a row: as they stand they may be a piece, else their bytes are, else they are one unknown token. */
static bool put_missed(ot_tokenizer *t)
{
    const char *p = t->missed;
    if (!p) return true;
    t->missed = NULL;
    int32_t id = ot_string_table_get(&t->vocab, p, t->n_missed);
    bool bytes = id < 0 && t->fallback, good = true;
    for (size_t i = 0; i < t->n_missed && bytes; i++) bytes = t->byte[(unsigned char)p[i]] >= 0;
    if (!bytes) return ot_ids_add(t->out, id < 0 ? t->unigram.unknown : id);
    for (size_t i = 0; i < t->n_missed && good; i++) good = ot_ids_add(t->out, t->byte[(unsigned char)p[i]]);
    return good;
}

static bool take_piece(void *user, int32_t id, const char *p, size_t n)
{
    ot_tokenizer *t = user;
    if (id != t->unigram.unknown) return put_missed(t) && ot_ids_add(t->out, id);
    if (!t->missed) t->missed = p, t->n_missed = 0;
    t->n_missed += n;
    return true;
}

static bool encode_word(void *user, const char *p, size_t n)
{
    ot_tokenizer *t = user;
    int32_t id;
    switch (t->model) {
    case WORD_PIECE: return ot_wordpiece_word(&t->piece, &t->vocab, p, n, t->out);
    case UNIGRAM: t->missed = NULL; return ot_unigram_run(&t->unigram, p, n, take_piece, t) && put_missed(t);
    case WORD_LEVEL: id = ot_string_table_get(&t->vocab, p, n); return ot_ids_add(t->out, id < 0 ? t->unknown : id);
    default: return ot_bpe_word(&t->bpe, &t->vocab, p, n, t->out);
    }
}

/* What is between two added tokens; first: the text begins with it. */
static bool encode_words(ot_tokenizer *t, const char *p, size_t n, bool first)
{
    if (t->spaced && n && *p != ' ') {
        t->begins.n = 0;
        if (!ot_buffer_add(&t->begins, " ", 1) || !ot_buffer_add(&t->begins, p, n)) return false;
        p = t->begins.p;
        n = t->begins.n;
    }
    return t->sentence ? ot_sentencepiece_encode(t->sentence, p, n, t->out)
                       : ot_cutter_run(t->cutter, p, n, first, encode_word, t);
}

static bool in_word(const char *p, const char *from, const char *end)
{
    uint32_t c = 0;
    while (p > from && p < end && (*p & 0xC0) == 0x80) p--;
    if (p >= end || !ot_utf8(p, (size_t)(end - p), &c)) return false;
    return ot_is_word(c) || ot_is_joiner(c);
}

/* The longest added token at p; NULL: none. */
static const added *added_at(const added_set *s, const char *p, const char *end)
{
    unsigned char c = (unsigned char)*p;
    for (int i = s->from[c]; i < s->from[c + 1]; i++)
        if (s->list[i].n <= (size_t)(end - p) && !memcmp(s->list[i].p, p, s->list[i].n)) return &s->list[i];
    return NULL;
}

typedef bool taker(ot_tokenizer *t, const char *p, size_t n, bool first);

/* Cuts a text at the added tokens of a set; what is between them continues. */
static bool cut(ot_tokenizer *t, const added_set *s, const char *text, size_t n, bool first, taker *take)
{
    const char *end = text + n, *from = text, *p = text;
    while (p < end) {
        const added *x = added_at(s, p, end);
        bool apart = x && (!x->word || !((p > text && in_word(p - 1, text, end)) || in_word(p + x->n, text, end)));
        if (!apart) {
            p += x ? x->n : 1;
            continue;
        }
        const char *stop = x->left ? ot_back_over_blanks(from, p) : p;
        if (stop > from && !take(t, from, (size_t)(stop - from), first && from == text)) return false;
        if (!ot_ids_add(t->out, x->id)) return false;
        p += x->n;
        if (x->right) p = ot_skip_blanks(p, end);
        from = p;
    }
    return from == end || take(t, from, (size_t)(end - from), first && from == text);
}

static bool encode_normal(ot_tokenizer *t, const char *p, size_t n, bool first)
{
    if (t->normalizer && !ot_normalizer_run(t->normalizer, &p, &n)) return false;
    return cut(t, &t->normal, p, n, first, encode_words);
}

ot_status ot_tokenizer_encode(ot_tokenizer *t, const char *text, size_t n, bool specials, ot_ids *out, ot_error *err)
{
    uint32_t c;
    bool good = true;
    for (size_t i = 0; i < n;) {
        int k = ot_utf8(text + i, n - i, &c);
        if (!k)
            return ot_fail(err, OT_E_DATA, "byte %zu of the text is not UTF-8; convert it, for example with iconv", i);
        i += (size_t)k;
    }
    const ot_template *a = &t->around;
    for (int i = 0; specials && good && i < a->n_front; i++) good = ot_ids_add(out, a->around[i]);
    t->out = out;
    good = good && cut(t, &t->raw, text, n, true, encode_normal);
    for (int i = 0; specials && good && i < a->n_behind; i++) good = ot_ids_add(out, a->around[a->n_front + i]);
    if (ot_cutter_tired(t->cutter) || ot_normalizer_tired(t->normalizer))
        return ot_fail(
            err, OT_E_DATA,
            "%s: a regular expression of the tokenizer takes too long for this text: it searches the rest of "
            "a line or text from each of its characters",
            t->name);
    return good ? OT_OK : no_memory(t, err);
}

ot_status ot_tokenizer_word(ot_tokenizer *t, const char *word, size_t n, ot_ids *out, ot_error *err)
{
    t->spaced = t->bytes;
    ot_status s = ot_tokenizer_encode(t, word, n, false, out, err);
    t->spaced = false;
    return s;
}
