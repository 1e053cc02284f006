/* tokenizer.c - a tokenizer from the JSON of tokenizer.json, and the encoding of texts.
 *
 * A text is cut at added tokens first, as they stand; what is between them is normalised, cut into words, and each word
 * encoded by the model. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

enum { MOST_TOKENS = 1 << 24, MOST_SPECIALS = 16, MOST_STEPS = 16 };

typedef enum step { CLEAN, SPACE_CJK, STRIP_MARKS, LOWER, TO_NFC, TO_NFD, TO_NFKC, TO_NFKD } step;

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

struct ot_tokenizer {
    ot_arena *a;
    const char *name;
    ot_string_table vocab;
    token *token;
    int64_t size;
    added *added;
    int n_added;
    bool begins[256]; /* an added token does, with this byte */
    step step[MOST_STEPS];
    int n_steps;
    bool bert, prefix_space; /* words of BERT; a text begins with a blank */
    ot_word word;
    bool pieces;                /* WordPiece, else BPE */
    ot_sentencepiece *sentence; /* NULL: it is none */
    ot_bpe bpe;
    ot_wordpiece piece;
    int32_t around[2 * MOST_SPECIALS]; /* those in front of a text, then those behind it */
    int n_front, n_behind;
    ot_buffer text[2]; /* what is normalised */
};

static ot_status no_memory(const ot_tokenizer *t, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", t->name);
}

static ot_status unsupported(const ot_tokenizer *t, const char *what, const char *name, ot_error *err)
{
    return ot_fail(err, OT_E_DATA, "%s: unsupported %s '%.100s'", t->name, what, name ? name : "(without a type)");
}

static const char *text_of(const json_t *v, const char *key) { return json_string_value(json_object_get(v, key)); }

static bool flag(const json_t *v, const char *key, bool dflt)
{
    const json_t *x = json_object_get(v, key);
    return json_is_boolean(x) ? json_is_true(x) : dflt;
}

/* ---- vocabulary ------------------------------------------------------------------------------------ */

/* GPT-2's characters for bytes: printable ones stand for themselves, the others for those from U+0100 on. */
static int byte_of(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255)) return (int)c;
    if (c < 256 || c > 323) return -1;
    int k = (int)c - 256;
    return k < 33 ? k : k < 67 ? k - 33 + 127 : 173;
}

/* The bytes that a token of byte-level BPE represents; one with other characters is what it is. */
static const char *raw(ot_tokenizer *t, const char *key, size_t n, size_t *size)
{
    char *p = ot_arena_struct(t->a, n + 1);
    uint32_t c;
    *size = 0;
    for (size_t i = 0; p && i < n; *size += 1) {
        int k = ot_utf8(key + i, n - i, &c), b = k ? byte_of(c) : -1;
        if (b < 0 || t->pieces) {
            memcpy(p, key, n + 1);
            *size = n;
            return p;
        }
        p[*size] = (char)b;
        i += (size_t)k;
    }
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

static ot_status read_vocabulary(ot_tokenizer *t, const json_t *vocab, ot_error *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(vocab) || !json_object_size(vocab))
        return ot_fail(err, OT_E_DATA, "%s: its model has no vocabulary", t->name);
    json_object_foreach((json_t *)(uintptr_t)vocab, key, v)
    {
        size_t n;
        const char *p = raw(t, key, strlen(key), &n);
        if (!p) return no_memory(t, err);
        if (!json_is_integer(v)) return ot_fail(err, OT_E_DATA, "%s: token '%.60s' has no number", t->name, key);
        OT_TRY(name_token(t, json_integer_value(v), p, n, false, err));
        if (!ot_string_table_put(&t->vocab, p, n, (int32_t)json_integer_value(v))) return no_memory(t, err);
    }
    return OT_OK;
}

static int by_length(const void *a, const void *b)
{
    const added *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : 0;
}

static ot_status read_added(ot_tokenizer *t, const json_t *list, ot_error *err)
{
    size_t n = json_array_size(list);
    t->added = ot_arena_struct(t->a, (n + 1) * sizeof *t->added);
    if (!t->added) return no_memory(t, err);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i), *id = json_object_get(v, "id");
        const char *text = text_of(v, "content"), *copy = text ? ot_arena_strdup(t->a, text) : NULL;
        if (!text || !*text || !json_is_integer(id))
            return ot_fail(err, OT_E_DATA, "%s: added token %zu has no content or number", t->name, i);
        if (!copy) return no_memory(t, err);
        OT_TRY(name_token(t, json_integer_value(id), copy, strlen(copy), flag(v, "special", false), err));
        t->added[t->n_added++] = (added){ copy,
                                          strlen(copy),
                                          (int32_t)json_integer_value(id),
                                          flag(v, "lstrip", false),
                                          flag(v, "rstrip", false),
                                          flag(v, "single_word", false) };
        t->begins[(unsigned char)*copy] = true;
        if (!ot_string_table_put(&t->vocab, copy, strlen(copy), (int32_t)json_integer_value(id)))
            return no_memory(t, err);
    }
    qsort(t->added, (size_t)t->n_added, sizeof *t->added, by_length); /* the longest first */
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
    memcpy(both, p[0], size[0]);
    memcpy(both + size[0], p[1], size[1]);
    int32_t a = ot_string_table_get(&t->vocab, p[0], size[0]), b = ot_string_table_get(&t->vocab, p[1], size[1]);
    int32_t made = ot_string_table_get(&t->vocab, both, size[0] + size[1]);
    if (a < 0 || b < 0 || made < 0) return bad_merge(t, i, err);
    return ot_pairs_put(&t->bpe.merges, a, b, (int32_t)i, made) ? OT_OK : no_memory(t, err);
}

static ot_status read_bpe(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    static const char *const affixes[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    const json_t *merges = json_object_get(m, "merges");
    for (int i = 0; i < OT_LEN(affixes); i++)
        if (text_of(m, affixes[i]) && *text_of(m, affixes[i]))
            return unsupported(t, "part of its model:", affixes[i], err);
    if (flag(m, "byte_fallback", false)) return unsupported(t, "part of its model:", "byte_fallback", err);
    if (json_number_value(json_object_get(m, "dropout")) > 0)
        return unsupported(t, "part of its model:", "dropout", err);
    if (!t->word) return ot_fail(err, OT_E_DATA, "%s: BPE without a ByteLevel pre-tokenizer is not supported", t->name);
    t->bpe.whole = flag(m, "ignore_merges", false);
    if (json_array_size(merges) > MOST_TOKENS) return ot_fail(err, OT_E_DATA, "%s: has too many merges", t->name);
    for (size_t i = 0; i < json_array_size(merges); i++) OT_TRY(read_merge(t, i, json_array_get(merges, i), err));
    for (int b = 0; b < 256; b++) t->bpe.byte[b] = ot_string_table_get(&t->vocab, (char[]){ (char)b }, 1);
    return OT_OK;
}

static ot_status read_pieces(ot_tokenizer *t, const json_t *m, ot_error *err)
{
    const char *unknown = text_of(m, "unk_token"), *prefix = text_of(m, "continuing_subword_prefix");
    const json_t *most = json_object_get(m, "max_input_chars_per_word");
    t->piece.prefix = ot_arena_strdup(t->a, prefix ? prefix : "##");
    if (!t->piece.prefix) return no_memory(t, err);
    t->piece.prefix_n = strlen(t->piece.prefix);
    t->piece.longest = json_is_integer(most) && json_integer_value(most) <= 1000 ? json_integer_value(most) : 100;
    t->piece.unknown = unknown ? ot_string_table_get(&t->vocab, unknown, strlen(unknown)) : -1;
    if (t->piece.unknown < 0)
        return ot_fail(err, OT_E_DATA, "%s: its token for unknown words, '%.60s', is not in the vocabulary", t->name,
                       unknown ? unknown : "");
    return t->bert ? OT_OK
                   : ot_fail(err, OT_E_DATA, "%s: WordPiece without a BertPreTokenizer is not supported", t->name);
}

/* ---- normalizer, pre-tokenizer, post-processor ---------------------------------------------------------- */

static void add_step(ot_tokenizer *t, step s)
{
    if (t->n_steps < MOST_STEPS) t->step[t->n_steps] = s;
    t->n_steps++; /* too many: build refuses it */
}

static ot_status read_normalizer(ot_tokenizer *t, const json_t *v, int depth, ot_error *err)
{
    static const struct {
        const char *type;
        step step;
    } plain[] = { { "NFC", TO_NFC },   { "NFD", TO_NFD },      { "NFKC", TO_NFKC },
                  { "NFKD", TO_NFKD }, { "Lowercase", LOWER }, { "StripAccents", STRIP_MARKS } };
    const char *type = text_of(v, "type");
    if (!v || json_is_null(v)) return OT_OK;
    if (type && !strcmp(type, "Sequence") && depth < 4) {
        const json_t *list = json_object_get(v, "normalizers");
        for (size_t i = 0; i < json_array_size(list) && t->n_steps <= MOST_STEPS; i++)
            OT_TRY(read_normalizer(t, json_array_get(list, i), depth + 1, err));
        return OT_OK;
    }
    for (int i = 0; type && i < OT_LEN(plain); i++)
        if (!strcmp(type, plain[i].type)) return add_step(t, plain[i].step), OT_OK;
    if (!type || strcmp(type, "BertNormalizer")) return unsupported(t, "normalizer", type, err);
    bool lower = flag(v, "lowercase", true);
    if (flag(v, "clean_text", true)) add_step(t, CLEAN);
    if (flag(v, "handle_chinese_chars", true)) add_step(t, SPACE_CJK);
    if (flag(v, "strip_accents", lower)) add_step(t, TO_NFD), add_step(t, STRIP_MARKS);
    if (lower) add_step(t, LOWER);
    return OT_OK;
}

static ot_status read_split(ot_tokenizer *t, const json_t *v, ot_error *err)
{
    const json_t *pattern = json_object_get(v, "pattern");
    const char *regex = text_of(pattern, "Regex"), *how = text_of(v, "behavior");
    if (t->word || !how || strcmp(how, "Isolated") || flag(v, "invert", false))
        return unsupported(t, "pre-tokenizer Split with behavior", how, err);
    t->word = regex ? ot_pattern(regex) : NULL;
    return t->word ? OT_OK
                   : ot_fail(err, OT_E_DATA, "%s: unsupported pattern of words: %.300s", t->name,
                             regex ? regex : "a string");
}

static ot_status read_words(ot_tokenizer *t, const json_t *v, int depth, bool *bytes, ot_error *err)
{
    const char *type = text_of(v, "type");
    if (!v || json_is_null(v)) return OT_OK;
    if (type && !strcmp(type, "Sequence") && depth < 2) {
        const json_t *list = json_object_get(v, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            OT_TRY(read_words(t, json_array_get(list, i), depth + 1, bytes, err));
        return OT_OK;
    }
    if (type && !strcmp(type, "Split")) return read_split(t, v, err);
    if (type && !strcmp(type, "BertPreTokenizer") && !t->word && !t->bert) return t->bert = true, OT_OK;
    if (!type || strcmp(type, "ByteLevel") || *bytes) return unsupported(t, "pre-tokenizer", type, err);
    *bytes = true;
    t->prefix_space = flag(v, "add_prefix_space", true);
    if (!flag(v, "use_regex", true))
        return t->word ? OT_OK : unsupported(t, "pre-tokenizer", "ByteLevel without words", err);
    if (t->word && t->word != ot_word_gpt2) return unsupported(t, "pre-tokenizer", "ByteLevel after Split", err);
    t->word = ot_word_gpt2;
    return OT_OK;
}

static ot_status add_special(ot_tokenizer *t, const json_t *id, bool behind, ot_error *err)
{
    int *n = behind ? &t->n_behind : &t->n_front, at = t->n_front + t->n_behind;
    json_int_t v = json_integer_value(id);
    if (!json_is_integer(id) || v < 0 || v >= t->size || *n == MOST_SPECIALS || (t->n_behind && !behind))
        return ot_fail(err, OT_E_DATA, "%s: its post-processor names a token that is not in the vocabulary", t->name);
    t->around[at] = (int32_t)v;
    ++*n;
    return OT_OK;
}

static ot_status read_template(ot_tokenizer *t, const json_t *v, ot_error *err)
{
    const json_t *single = json_object_get(v, "single"), *tokens = json_object_get(v, "special_tokens");
    bool behind = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *one = json_array_get(single, i), *special = json_object_get(one, "SpecialToken");
        const char *id = text_of(special, "id");
        if (json_object_get(one, "Sequence")) behind = true;
        const json_t *ids = id ? json_object_get(json_object_get(tokens, id), "ids") : NULL;
        for (size_t k = 0; special && k < json_array_size(ids); k++)
            OT_TRY(add_special(t, json_array_get(ids, k), behind, err));
    }
    return OT_OK;
}

static ot_status read_specials(ot_tokenizer *t, const json_t *v, int depth, ot_error *err)
{
    const char *type = text_of(v, "type");
    if (!v || json_is_null(v)) return OT_OK;
    if (type && !strcmp(type, "Sequence") && depth < 4) {
        const json_t *list = json_object_get(v, "processors");
        for (size_t i = 0; i < json_array_size(list); i++)
            OT_TRY(read_specials(t, json_array_get(list, i), depth + 1, err));
        return OT_OK;
    }
    if (type && !strcmp(type, "ByteLevel")) return OT_OK; /* offsets alone */
    if (type && !strcmp(type, "TemplateProcessing")) return read_template(t, v, err);
    if (!type || (strcmp(type, "BertProcessing") && strcmp(type, "RobertaProcessing")))
        return unsupported(t, "post-processor", type, err);
    OT_TRY(add_special(t, json_array_get(json_object_get(v, "cls"), 1), false, err));
    return add_special(t, json_array_get(json_object_get(v, "sep"), 1), true, err);
}

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
    return OT_OK;
}

static ot_status build(ot_tokenizer *t, const json_t *config, ot_error *err)
{
    const json_t *m = json_object_get(config, "model");
    const char *type = text_of(m, "type");
    bool bytes = false;
    if (type && !strcmp(type, "SentencePiece")) return build_sentencepiece(t, m, err);
    if (!type && json_object_get(m, "merges")) type = "BPE"; /* files of the first versions do not say */
    if (!type || (strcmp(type, "BPE") && strcmp(type, "WordPiece"))) return unsupported(t, "model", type, err);
    if (!ot_has_unicode)
        return ot_fail(err, OT_E_DATA,
                       "%s: this program was built without tables of Unicode: install libutf8proc-dev and "
                       "build it again",
                       t->name);
    t->pieces = !strcmp(type, "WordPiece");
    OT_TRY(read_normalizer(t, json_object_get(config, "normalizer"), 0, err));
    if (t->n_steps > MOST_STEPS)
        return ot_fail(err, OT_E_DATA, "%s: its normalizer has more than %d steps", t->name, MOST_STEPS);
    OT_TRY(read_words(t, json_object_get(config, "pre_tokenizer"), 0, &bytes, err));
    if (t->bert != t->pieces || (t->word && !bytes))
        return ot_fail(err, OT_E_DATA, "%s: a %s model with this pre-tokenizer is not supported", t->name, type);
    OT_TRY(read_vocabulary(t, json_object_get(m, "vocab"), err));
    OT_TRY(read_added(t, json_object_get(config, "added_tokens"), err));
    OT_TRY(t->pieces ? read_pieces(t, m, err) : read_bpe(t, m, err));
    return read_specials(t, json_object_get(config, "post_processor"), 0, err);
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
    free(t->piece.piece.p);
    free(t->text[0].p);
    free(t->text[1].p);
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
    *blank = p && t->pieces;
    if (!p || !t->pieces || *n <= t->piece.prefix_n || memcmp(p, t->piece.prefix, t->piece.prefix_n)) return p;
    *blank = false;
    *n -= t->piece.prefix_n;
    return p + t->piece.prefix_n;
}

const int32_t *ot_tokenizer_around(const ot_tokenizer *t, int *front, int *behind)
{
    *front = t->n_front;
    *behind = t->n_behind;
    return t->around;
}

/* The first of these names that is a token. */
static int64_t first_of(const ot_tokenizer *t, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        int32_t id = ot_string_table_get(&t->vocab, names[i], strlen(names[i]));
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

static bool is_cjk(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool change_character(step s, uint32_t c, ot_buffer *out)
{
    switch (s) {
    case CLEAN:
        if (!c || c == 0xFFFD || ot_is_control(c)) return true;
        return ot_buffer_char(out, ot_is_blank(c) ? ' ' : c);
    case SPACE_CJK:
        if (!is_cjk(c)) return ot_buffer_char(out, c);
        return ot_buffer_add(out, " ", 1) && ot_buffer_char(out, c) && ot_buffer_add(out, " ", 1);
    default: return ot_is_mark(c) || ot_buffer_char(out, c);
    }
}

static bool apply(step s, const char *p, size_t n, ot_buffer *out)
{
    uint32_t c;
    out->n = 0;
    if (s == LOWER) return ot_lower_case(p, n, out);
    if (s >= TO_NFC) return ot_normal_form(s - TO_NFC + OT_NFC, p, n, out);
    for (int k; n && (k = ot_utf8(p, n, &c)); p += k, n -= (size_t)k)
        if (!change_character(s, c, out)) return false;
    return true;
}

static bool encode_words(ot_tokenizer *t, const char *p, size_t n, ot_ids *out)
{
    const char *end = p + n, *stop;
    if (t->bert) {
        for (; ot_word_bert(&p, end, &stop); p = stop)
            if (!ot_wordpiece_word(&t->piece, &t->vocab, p, (size_t)(stop - p), out)) return false;
        return true;
    }
    for (; p < end; p = stop) {
        stop = t->word(p, end);
        if (!ot_bpe_word(&t->bpe, &t->vocab, p, (size_t)(stop - p), out)) return false;
    }
    return true;
}

/* What is between two added tokens. */
static bool encode_part(ot_tokenizer *t, const char *p, size_t n, ot_ids *out)
{
    if (!n) return true;
    if (t->sentence) return ot_sentencepiece_encode(t->sentence, p, n, out);
    for (int i = 0; i < t->n_steps; i++) {
        ot_buffer *b = &t->text[i % 2];
        if (!apply(t->step[i], p, n, b)) return false;
        p = b->p ? b->p : "";
        n = b->n;
    }
    if (t->prefix_space && n && *p != ' ') {
        ot_buffer *b = &t->text[t->n_steps % 2];
        b->n = 0;
        if (!ot_buffer_add(b, " ", 1) || !ot_buffer_add(b, p, n)) return false;
        p = b->p;
        n = b->n;
    }
    return encode_words(t, p, n, out);
}

static bool in_word(const char *p, const char *from, const char *end)
{
    uint32_t c = 0;
    while (p > from && p < end && (*p & 0xC0) == 0x80) p--;
    if (p >= end || !ot_utf8(p, (size_t)(end - p), &c)) return false;
    return ot_is_letter(c) || ot_is_digit(c) || c == '_';
}

/* The added token at p; NULL: none. */
static const added *added_at(const ot_tokenizer *t, const char *text, const char *p, const char *end)
{
    if (!t->begins[(unsigned char)*p]) return NULL;
    for (int i = 0; i < t->n_added; i++) {
        const added *x = &t->added[i];
        if (x->n > (size_t)(end - p) || memcmp(x->p, p, x->n)) continue;
        if (x->word && ((p > text && in_word(p - 1, text, end)) || in_word(p + x->n, text, end))) continue;
        return x;
    }
    return NULL;
}

static const char *skip_back(const char *from, const char *p)
{
    uint32_t c;
    while (p > from) {
        const char *q = p - 1;
        while (q > from && (*q & 0xC0) == 0x80) q--;
        if (!ot_utf8(q, (size_t)(p - q), &c) || !ot_is_blank(c)) break;
        p = q;
    }
    return p;
}

static const char *skip_on(const char *p, const char *end)
{
    uint32_t c;
    for (int k; p < end && (k = ot_utf8(p, (size_t)(end - p), &c)) && ot_is_blank(c);) p += k;
    return p;
}

static bool encode(ot_tokenizer *t, const char *text, size_t n, ot_ids *out)
{
    const char *end = text + n, *from = text, *p = text;
    while (p < end) {
        const added *x = added_at(t, text, p, end);
        if (!x) {
            p++;
            continue;
        }
        const char *stop = x->left ? skip_back(from, p) : p;
        if (!encode_part(t, from, (size_t)(stop - from), out) || !ot_ids_add(out, x->id)) return false;
        p += x->n;
        if (x->right) p = skip_on(p, end);
        from = p;
    }
    return encode_part(t, from, (size_t)(end - from), out);
}

ot_status ot_tokenizer_encode(ot_tokenizer *t, const char *text, size_t n, bool specials, ot_ids *out, ot_error *err)
{
    uint32_t c;
    bool good = true;
    for (size_t i = 0; i < n;) {
        int k = ot_utf8(text + i, n - i, &c);
        if (!k) return ot_fail(err, OT_E_DATA, "byte %zu of the text is not UTF-8", i);
        i += (size_t)k;
    }
    for (int i = 0; specials && good && i < t->n_front; i++) good = ot_ids_add(out, t->around[i]);
    good = good && encode(t, text, n, out);
    for (int i = 0; specials && good && i < t->n_behind; i++) good = ot_ids_add(out, t->around[t->n_front + i]);
    return good ? OT_OK : no_memory(t, err);
}
