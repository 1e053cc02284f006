/* load.c - the files of a tokenizer as one JSON object in the form of tokenizer.json. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/io.h"
#include "runtime/base/json.h"
#include "runtime/text/internal.h"

enum { LARGEST = 512 << 20 };

static ot_status no_memory(const char *path, ot_error *err) { return ot_fail(err, OT_E_NOMEM, "%s: no memory", path); }

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static ot_status read_json(const char *path, json_t **out, ot_error *err)
{
    void *text;
    size_t n;
    json_error_t why;
    OT_TRY(ot_read_file(path, LARGEST, &text, &n, err));
    ot_status s = ot_json_parse_or(text, n, out, &why);
    free(text);
    if (s) return no_memory(path, err);
    return *out ? OT_OK : ot_fail(err, OT_E_DATA, "%s: line %d is not JSON: %s", path, why.line, why.text);
}

/* Each line of a text; blank ends are kept, line ends are not. */
typedef struct reader {
    const char *p, *end;
} reader;

static bool next_line(reader *r, const char **line, size_t *n)
{
    if (r->p >= r->end) return false;
    const char *stop = memchr(r->p, '\n', (size_t)(r->end - r->p));
    *line = r->p;
    *n = (size_t)((stop ? stop : r->end) - r->p);
    if (*n && (*line)[*n - 1] == '\r') --*n;
    r->p = stop ? stop + 1 : r->end;
    return true;
}

/* ---- GPT-2, RoBERTa: vocab.json and merges.txt ------------------------------------------------ */

static ot_status read_merges(const char *path, json_t **out, ot_error *err)
{
    void *text;
    size_t n, size;
    const char *line;
    ot_status s = OT_OK;
    OT_TRY(ot_read_file(path, LARGEST, &text, &size, err));
    reader r = { text, (char *)text + size };
    *out = json_array();
    for (int k = 1; !s && next_line(&r, &line, &n); k++) {
        if (!n || (k == 1 && n >= 8 && !memcmp(line, "#version", 8))) continue;
        json_t *one;
        s = ot_json_utf8(line, n, &one);
        if (s == OT_E_DATA) ot_fail(err, s, "%s: line %d is not UTF-8", path, k);
        else if (s || json_array_append_new(*out, one)) s = no_memory(path, err);
    }
    free(text);
    return *out ? s : no_memory(path, err);
}

/* Those of the names that the vocabulary has, with all fields of a tokenizer.json: what is recorded in a model is read by others. */
static json_t *added_of(const json_t *vocab, const char *const *names, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *id = json_object_get(vocab, names[i]);
        if (id)
            ot_json_add(&list, json_pack("{s:O, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", names[i],
                                         "single_word", 0, "lstrip", !strcmp(names[i], "<mask>"), "rstrip", 0,
                                         "normalized", 0, "special", 1));
    }
    return list;
}

static ot_status from_vocab_json(const char *path, json_t *vocab, json_t **out, ot_error *err)
{
    static const char *const names[] = { "<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>" };
    const char *slash = strrchr(path, '/');
    char merges[4096];
    json_t *list = NULL;
    int n = snprintf(merges, sizeof merges, "%.*smerges.txt", slash ? (int)(slash + 1 - path) : 0, path);
    if (n >= (int)sizeof merges || !is_file(merges))
        return ot_fail(err, OT_E_DATA, "%s: a vocabulary of this form needs merges.txt beside it", path);
    ot_status s = read_merges(merges, &list, err);
    json_t *cls = json_object_get(vocab, "<s>"), *sep = json_object_get(vocab, "</s>");
    json_t *post = cls && sep ? json_pack("{s:s, s:[s,O], s:[s,O], s:b, s:b}", "type", "RobertaProcessing", "cls",
                                          "<s>", cls, "sep", "</s>", sep, "trim_offsets", 1, "add_prefix_space", 0)
                              : json_null();
    if (!s)
        *out = json_pack("{s:o, s:{s:s, s:b, s:b}, s:o, s:{s:s, s:O, s:O}}", "added_tokens",
                         added_of(vocab, names, OT_LEN(names)), "pre_tokenizer", "type", "ByteLevel",
                         "add_prefix_space", 0, "trim_offsets", 1, "post_processor", post, "model", "type", "BPE",
                         "vocab", vocab, "merges", list);
    else json_decref(post);
    json_decref(list);
    return s ? s : *out ? OT_OK : no_memory(path, err);
}

/* ---- BERT: vocab.txt --------------------------------------------------------------------------- */

/* What tokenizer_config.json beside it says; without one, whether no word of the vocabulary has a capital letter.  Errors: OT_E_NOMEM. */
static ot_status find_lower(const char *path, const json_t *vocab, int *lower, ot_error *err)
{
    const char *slash = strrchr(path, '/'), *key;
    char beside[4096];
    json_t *v;
    ot_error other = { 0 };
    int n = snprintf(beside, sizeof beside, "%.*stokenizer_config.json", slash ? (int)(slash + 1 - path) : 0, path);
    json_t *config = NULL;
    if (n < (int)sizeof beside && is_file(beside) && read_json(beside, &config, &other) == OT_E_NOMEM)
        return ot_fail(err, OT_E_NOMEM, "%-s", other.text);
    const json_t *given = json_object_get(config, "do_lower_case");
    bool decides = json_is_boolean(given);
    *lower = !decides || json_is_true(given);
    json_decref(config);
    if (decides) return OT_OK;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, v)
    {
        if (*key == '[') continue;
        for (const char *c = key; *c; c++)
            if (*c >= 'A' && *c <= 'Z') *lower = false;
    }
    return OT_OK;
}

static ot_status from_vocab_txt(const char *path, json_t **out, ot_error *err)
{
    static const char *const names[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    void *text;
    size_t n, size;
    const char *line;
    ot_status s = OT_OK;
    OT_TRY(ot_read_file(path, LARGEST, &text, &size, err));
    reader r = { text, (char *)text + size };
    json_t *vocab = json_object(), *post = json_null();
    int lower = 0;
    for (int k = 0; !s && next_line(&r, &line, &n); k++) {
        char key[512];
        if (n >= sizeof key || memchr(line, 0, n)) {
            s = ot_fail(err, OT_E_DATA, "%s: line %d is not a token of at most %zu bytes", path, k + 1, sizeof key - 1);
            break;
        }
        memcpy(key, line, n);
        key[n] = '\0';
        if (!ot_is_utf8(key)) s = ot_fail(err, OT_E_DATA, "%s: line %d is not UTF-8", path, k + 1);
        else if (json_object_set_new(vocab, key, json_integer(k))) s = no_memory(path, err);
    }
    free(text);
    json_t *cls = json_object_get(vocab, "[CLS]"), *sep = json_object_get(vocab, "[SEP]");
    if (!s && !json_object_get(vocab, "[UNK]"))
        s = ot_fail(err, OT_E_DATA, "%s: has no line [UNK], as vocabularies of BERT have", path);
    if (cls && sep) {
        post = json_pack("{s:s, s:[s,O], s:[s,O]}", "type", "BertProcessing", "cls", "[CLS]", cls, "sep", "[SEP]", sep);
    }
    if (!s) s = find_lower(path, vocab, &lower, err);
    if (!s)
        *out =
            json_pack("{s:o, s:{s:s, s:b, s:b, s:n, s:b}, s:{s:s}, s:O, s:{s:s, s:O, s:s, s:s, s:i}}", "added_tokens",
                      added_of(vocab, names, OT_LEN(names)), "normalizer", "type", "BertNormalizer", "clean_text", 1,
                      "handle_chinese_chars", 1, "strip_accents", "lowercase", lower, "pre_tokenizer", "type",
                      "BertPreTokenizer", "post_processor", post, "model", "type", "WordPiece", "vocab", vocab,
                      "unk_token", "[UNK]", "continuing_subword_prefix", "##", "max_input_chars_per_word", 100);
    json_decref(post);
    json_decref(vocab);
    return s ? s : *out ? OT_OK : no_memory(path, err);
}

/* ---- SentencePiece: .model ---------------------------------------------------------------------- */

static ot_status from_model(const char *path, json_t **out, ot_error *err)
{
    void *bytes;
    size_t n;
    OT_TRY(ot_read_file(path, LARGEST, &bytes, &n, err));
    ot_status s = ot_sentencepiece_load(path, bytes, n, out, err);
    free(bytes);
    return s;
}

/* ---- which ---------------------------------------------------------------------------------------- */

static ot_status load_file(const char *path, json_t **out, ot_error *err)
{
    json_t *v = NULL;
    if (ot_ends_in(path, ".model") || ot_ends_in(path, ".spm")) return from_model(path, out, err);
    if (ot_ends_in(path, ".txt")) return from_vocab_txt(path, out, err);
    OT_TRY(read_json(path, &v, err));
    if (json_is_object(v) && json_object_get(v, "model")) {
        *out = v;
        return OT_OK;
    }
    ot_status s = json_is_object(v) ? from_vocab_json(path, v, out, err)
                                    : ot_fail(err, OT_E_DATA, "%s: is not a tokenizer: expected an object", path);
    json_decref(v);
    return s;
}

ot_status ot_tokenizer_load(const char *path, json_t **out, ot_error *err)
{
    static const char *const names[] = { "tokenizer.json",  "vocab.json",   "vocab.txt",
                                         "tokenizer.model", "spiece.model", "sentencepiece.bpe.model" };
    struct stat st;
    char file[4096];
    *out = NULL;
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) return load_file(path, out, err);
    for (int i = 0; i < OT_LEN(names); i++)
        if (snprintf(file, sizeof file, "%s/%s", path, names[i]) < (int)sizeof file && is_file(file))
            return load_file(file, out, err);
    return ot_fail(err, OT_E_DATA,
                   "%s: the folder contains no tokenizer: expected tokenizer.json, vocab.json with "
                   "merges.txt, vocab.txt, or tokenizer.model",
                   path);
}
