/* main.c - tokenizers against Hugging Face's, and files that are cut or forged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/io.h"
#include "runtime/text/internal.h"

int ot_test_sentencepiece(void); /* sentencepiece.c */

#define FIXTURES OT_SOURCE_ROOT "/tests/text/fixtures/"

static const char *const names[] = { "gpt2",   "roberta",       "llama3",     "qwen2",   "bert",          "bert-cased",
                                     "llama2", "bpe-metaspace", "bpe-suffix", "unigram", "unigram-bytes", "wordlevel" };

static json_t *config_of(const char *name)
{
    char path[512];
    json_t *j;
    ot_error e = { 0 };
    snprintf(path, sizeof path, FIXTURES "%s.json", name);
    if (ot_tokenizer_load(path, &j, &e)) fail_msg("%s", e.text);
    return j;
}

static ot_tokenizer *made(const json_t *j, const char *name)
{
    ot_tokenizer *t;
    ot_error e = { 0 };
    if (ot_tokenizer_new(j, name, &t, &e)) fail_msg("%s", e.text);
    return t;
}

static int expect_ids(ot_tokenizer *t, const json_t *c, const char *name)
{
    const json_t *text = json_object_get(c, "text"), *ids = json_object_get(c, name);
    ot_ids got = { 0 };
    ot_error e = { 0 };
    if (!ids) return 0;
    if (ot_tokenizer_encode(t, json_string_value(text), json_string_length(text), true, &got, &e))
        fail_msg("%s", e.text);
    bool same = (size_t)got.n == json_array_size(ids);
    for (int64_t i = 0; same && i < got.n; i++) same = got.id[i] == json_integer_value(json_array_get(ids, (size_t)i));
    if (!same)
        fail_msg("%s: '%s' is %lld tokens, expected %zu, or other ones", name, json_string_value(text),
                 (long long)got.n, json_array_size(ids));
    free(got.id);
    return 1;
}

/* Every text, by every tokenizer, number by number. */
static void same_numbers(void **state)
{
    (void)state;
    json_error_t why;
    json_t *cases = json_load_file(FIXTURES "cases.json", 0, &why);
    assert_non_null(cases);
    assert_true(json_array_size(cases) > 600);
    for (int i = 0; i < OT_LEN(names); i++) {
        json_t *j = config_of(names[i]);
        ot_tokenizer *t = made(j, names[i]);
        json_decref(j);
        int compared = 0;
        for (size_t k = 0; k < json_array_size(cases); k++)
            compared += expect_ids(t, json_array_get(cases, k), names[i]);
        assert_true(compared > 200);
        ot_tokenizer_free(t);
    }
    json_decref(cases);
}

/* The bytes of the tokens of byte-level BPE are those of the text. */
static void back_again(void **state)
{
    (void)state;
    static const char text[] = "First Citizen:\nna\xC3\xAFve \xF0\x9F\x98\x80  42<s>";
    json_t *j = config_of("gpt2");
    ot_tokenizer *t = made(j, "gpt2");
    ot_ids ids = { 0 };
    char got[100] = "";
    size_t at = 0, n;
    bool special = false;
    assert_int_equal(ot_tokenizer_encode(t, text, sizeof text - 1, false, &ids, NULL), OT_OK);
    for (int64_t i = 0; i < ids.n; i++) {
        const char *p = ot_tokenizer_token(t, ids.id[i], &n, &special);
        memcpy(got + at, p, n);
        at += n;
    }
    assert_true(special);
    assert_string_equal(got, text);
    assert_null(ot_tokenizer_token(t, ot_tokenizer_size(t), &n, &special));
    assert_null(ot_tokenizer_token(t, -1, &n, &special));
    ot_error e = { 0 };
    assert_int_equal(ot_tokenizer_encode(t, "ab\xFF", 3, false, &ids, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "byte 2"));
    free(ids.id);
    ot_tokenizer_free(t);
    json_decref(j);
}

/* A text of the tokens' pieces: blanks, bytes and lines come back, and no blank in front of it. */
static void decoded(void **state)
{
    static const char *const of[] = { "llama2", "bpe-metaspace" };
    static const char text[] = "First Citizen: na\xC3\xAFve \xF0\x9F\x98\x80  42\n";
    (void)state;
    for (int i = 0; i < OT_LEN(of); i++) {
        json_t *j = config_of(of[i]);
        ot_tokenizer *t = made(j, of[i]);
        ot_ids ids = { 0 };
        char got[200] = "";
        assert_int_equal(ot_tokenizer_encode(t, text, sizeof text - 1, false, &ids, NULL), OT_OK);
        for (int64_t k = 0; k < ids.n; k++) {
            size_t n;
            bool blank, special;
            const char *p = ot_tokenizer_piece(t, ids.id[k], &n, &blank, &special);
            assert_non_null(p);
            if (blank && k) strcat(got, " ");
            strncat(got, p, n);
        }
        assert_string_equal(got, text);
        free(ids.id);
        ot_tokenizer_free(t);
        json_decref(j);
    }
}

/* ---- files ------------------------------------------------------------------------------------ */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/ot-text-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const files[] = { "vocab.json", "merges.txt", "vocab.txt", "tokenizer.json", "tokenizer.model" };
    char path[128];
    (void)state;
    for (int i = 0; i < OT_LEN(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static void put(const char *name, const void *p, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(p, 1, n, f) == n && !fclose(f));
}

static void expect_folder(const char *name)
{
    json_error_t why;
    json_t *cases = json_load_file(FIXTURES "cases.json", 0, &why), *j;
    ot_error e = { 0 };
    if (ot_tokenizer_load(folder, &j, &e)) fail_msg("%s", e.text);
    ot_tokenizer *t = made(j, folder);
    for (size_t k = 0; k < json_array_size(cases); k++) expect_ids(t, json_array_get(cases, k), name);
    ot_tokenizer_free(t);
    json_decref(j);
    json_decref(cases);
}

static void refused_folder(const char *words)
{
    json_t *j = NULL;
    ot_error e = { 0 };
    assert_int_equal(ot_tokenizer_load(folder, &j, &e), OT_E_DATA);
    assert_null(j);
    if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}

/* What is recorded in models is a complete tokenizer.json: other readers want every field of an added token. */
static void expect_complete(const json_t *config)
{
    static const char *const fields[] = { "id", "content", "single_word", "lstrip", "rstrip", "normalized", "special" };
    const json_t *added = json_object_get(config, "added_tokens");
    assert_true(json_array_size(added) > 0);
    for (size_t i = 0; i < json_array_size(added); i++)
        for (int k = 0; k < OT_LEN(fields); k++)
            if (!json_object_get(json_array_get(added, i), fields[k])) fail_msg("no field '%s'", fields[k]);
}

/* vocab.txt, and vocab.json with merges.txt, are the same tokenizers. */
static void older_files(void **state)
{
    (void)state;
    refused_folder("contains no tokenizer");
    put("tokenizer.model", "", 0);
    refused_folder("is not a model of SentencePiece");
    json_t *j = config_of("bert"), *vocab = json_object_get(json_object_get(j, "model"), "vocab"), *v;
    const char *key, *token[2000] = { 0 };
    char *text = calloc(1, 1 << 20);
    json_object_foreach(vocab, key, v) token[json_integer_value(v)] = key;
    for (int i = 0; token[i]; i++) strcat(strcat(text, token[i]), "\n");
    put("vocab.txt", text, strlen(text));
    expect_folder("bert");
    json_decref(j);
    json_t *loaded;
    ot_error e = { 0 };
    if (ot_tokenizer_load(folder, &loaded, &e)) fail_msg("%s", e.text);
    expect_complete(loaded);
    json_decref(loaded);

    j = config_of("gpt2");
    const json_t *merges = json_object_get(json_object_get(j, "model"), "merges");
    vocab = json_object_get(json_object_get(j, "model"), "vocab");
    json_object_del(vocab, "<s>"); /* which would make it RoBERTa's */
    json_object_del(vocab, "</s>");
    json_object_set_new(vocab, "zz1", json_integer(1));
    json_object_set_new(vocab, "zz2", json_integer(2));
    char *dump = json_dumps(vocab, 0);
    put("vocab.json", dump, strlen(dump));
    refused_folder("needs merges.txt");
    strcpy(text, "#version: 0.2\n");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *m = json_array_get(merges, i);
        sprintf(text + strlen(text), "%s %s\n", json_string_value(json_array_get(m, 0)),
                json_string_value(json_array_get(m, 1)));
    }
    put("merges.txt", text, strlen(text));
    if (ot_tokenizer_load(folder, &loaded, &e)) fail_msg("%s", e.text);
    expect_complete(loaded);
    ot_tokenizer *t = made(loaded, "files"), *u = made(j, "gpt2");
    ot_ids a = { 0 }, b = { 0 };
    static const char words[] = "The quick brown citizens' don't 123\n\n  <|endoftext|>";
    assert_int_equal(ot_tokenizer_encode(t, words, sizeof words - 1, false, &a, NULL), OT_OK);
    assert_int_equal(ot_tokenizer_encode(u, words, sizeof words - 1, false, &b, NULL), OT_OK);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.id, b.id, (size_t)a.n * sizeof *a.id);
    free(a.id);
    free(b.id);
    ot_tokenizer_free(t);
    ot_tokenizer_free(u);
    json_decref(loaded);
    json_decref(j);
    free(dump);
    free(text);
}

/* A file cut anywhere is an error; in steps, since each is parsed as a whole. */
static void cut_anywhere(void **state)
{
    (void)state;
    for (int i = 0; i < OT_LEN(names); i++) {
        char path[512];
        void *p;
        size_t n;
        snprintf(path, sizeof path, FIXTURES "%s.json", names[i]);
        assert_int_equal(ot_read_file(path, 1 << 20, &p, &n, NULL), OT_OK);
        for (size_t keep = 0; keep + 2 < n; keep += OT_SPARSE * (keep > 300 && keep + 300 < n ? 98 : 1)) {
            put("tokenizer.json", p, keep);
            refused_folder("is not JSON");
        }
        free(p);
    }
}

/* A byte changed anywhere: a tokenizer or an error, and texts are still encoded to numbers in range. */
static void change_bytes_of(const char *name)
{
    char path[512];
    void *p;
    size_t n, size;
    uint32_t r = 1;
    snprintf(path, sizeof path, FIXTURES "%s.json", name);
    assert_int_equal(ot_read_file(path, 1 << 20, &p, &n, NULL), OT_OK);
    for (int i = 0; i < 400; i += OT_SPARSE) {
        unsigned char *c = (unsigned char *)p + (r = r * 1664525u + 1013904223u) % n, was = *c;
        *c ^= (unsigned char)(1 << (r >> 29));
        put("tokenizer.json", p, n);
        json_t *j = NULL;
        ot_tokenizer *t = NULL;
        ot_error e = { 0 };
        ot_ids ids = { 0 };
        bool special;
        ot_status s = ot_tokenizer_load(folder, &j, &e);
        if (!s) s = ot_tokenizer_new(j, "changed", &t, &e);
        assert_true(s == OT_OK || s == OT_E_DATA);
        if (!s) assert_int_equal(ot_tokenizer_encode(t, "First Citizen: 12 <s>", 21, true, &ids, &e), OT_OK);
        for (int64_t k = 0; k < ids.n; k++) assert_non_null(ot_tokenizer_token(t, ids.id[k], &size, &special));
        free(ids.id);
        ot_tokenizer_free(t);
        json_decref(j);
        *c = was;
    }
    free(p);
}

static void changed_bytes(void **state)
{
    static const char *const of[] = { "gpt2",    "llama2",        "bpe-metaspace", "bpe-suffix",
                                      "unigram", "unigram-bytes", "wordlevel" };
    (void)state;
    for (int i = 0; i < OT_LEN(of); i++) change_bytes_of(of[i]);
}

/* Parts that are forged or not known, each by its name. */
static void forged(void **state)
{
    static const char bytes[] = "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}";
    static const struct {
        const char *json, *words;
    } cases[] = {
        { "{\"model\":{\"type\":\"Other\"}}", "model 'Other'" },
        { "{\"model\":{\"type\":\"Unigram\"}}", "no vocabulary" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", "unk_id" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}", "unk_id" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]],\"unk_id\":0}}", "piece 0" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0],[1,0]],\"unk_id\":0}}", "piece 1" },
        { "{%s,\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":0}}", "Unigram model: 'ByteLevel'" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}", "unknown words, '<unk>'" },
        { "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"},\"model\":{\"type\":\"WordLevel\","
          "\"vocab\":{\"<unk>\":0}}}",
          "table of normalisation" },
        { "{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
          "pre-tokenizer 'UnicodeScripts'" },
        { "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]},"
          "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
          "after ByteLevel" },
        { "{\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"x\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
          "'x'" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":0,\"c\":1,\"abc\":2},\"continuing_subword_prefix\":\"##\",\"merges\":"
          "[[\"ab\",\"c\"]]}}",
          "merge 0" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"unk_token\":\"b\"}}", "unknown characters, 'b'" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"dropout\":0.1}}", "dropout" },
        { "{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "decoder 'CTC'" },
        { "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\"x\",\"start\":"
          "1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
          "Strip of more than" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "merge 0" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "merge 0" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[1,2]]}}", "merge 0" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2000000000},\"merges\":[]}}", "number 2000000000" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "number -1" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"b\"},\"merges\":[]}}", "no number" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "no vocabulary" },
        { "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"byte_fallback\":true}}", "byte_fallback" },
        { "{%s,\"normalizer\":{\"type\":\"Replace\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
          "Replace has no pattern" },
        { "{%s,\"normalizer\":{\"type\":\"Precompiled\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
          "has no precompiled_charsmap" },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"a*\"}},\"model\":{"
          "\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
          "empty text" },
        { "{%s,\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",9],\"sep\":[\"a\",0]},\"model\":{\"type\":"
          "\"BPE\",\"vocab\":{\"a\":0}}}",
          "post-processor" },
        { "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}",
          "unknown words" },
    };
    (void)state;
    for (int i = 0; i < OT_LEN(cases); i++) {
        char text[1000];
        json_error_t why;
        ot_tokenizer *t;
        ot_error e = { 0 };
        const char *mark = strstr(cases[i].json, "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(mark ? mark - cases[i].json : 0), cases[i].json,
                 mark ? bytes : "", mark ? mark + 2 : cases[i].json);
        json_t *j = json_loads(text, 0, &why);
        assert_non_null(j);
        assert_int_equal(ot_tokenizer_new(j, "forged", &t, &e), OT_E_DATA);
        assert_null(t);
        if (!strstr(e.text, cases[i].words)) fail_msg("%s: '%s' does not say '%s'", text, e.text, cases[i].words);
        json_decref(j);
    }
}

/* Expressions that search the rest of the text from each character end; usual ones take any text, whole or cut into many words. */
static void endless(void **state)
{
    enum { N = 1 << 18 };
    static const struct {
        const char *regex, *part;
        bool good;
    } cases[] = { { "a*a*a*c", "a", false }, { "(a|aa)+c", "a", false },
                  { "a*c|a", "a", false },   { "\\\\s+(?!\\\\S)|\\\\s+", " ", true },
                  { "a+|b", "a", true },     { "a+|b", "ab", true } };
    (void)state;
    char *long_text = malloc(N);
    assert_non_null(long_text);
    for (int i = 0; i < OT_LEN(cases); i++) {
        char text[400];
        json_error_t why;
        ot_tokenizer *t;
        ot_error e = { 0 };
        ot_ids ids = { 0 };
        size_t n = strlen(cases[i].part);
        for (size_t k = 0; k < N; k++) long_text[k] = cases[i].part[k % n];
        snprintf(text, sizeof text,
                 "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"%s\"}},"
                 "\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"x\":0},\"unk_token\":\"x\"}}",
                 cases[i].regex);
        json_t *j = json_loads(text, 0, &why);
        assert_non_null(j);
        assert_int_equal(ot_tokenizer_new(j, "endless", &t, &e), OT_OK);
        ot_status s = ot_tokenizer_encode(t, long_text, N, false, &ids, &e);
        if (s != (cases[i].good ? OT_OK : OT_E_DATA)) fail_msg("%s: %d %s", cases[i].regex, s, e.text);
        if (!cases[i].good) assert_non_null(strstr(e.text, "takes too long"));
        ot_tokenizer_free(t);
        free(ids.id);
        json_decref(j);
    }
    free(long_text);
}

int main(void)
{
#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_numbers), cmocka_unit_test(back_again), cmocka_unit_test(decoded),
        cmocka_unit_test(forged),       IN_FOLDER(older_files),       IN_FOLDER(cut_anywhere),
        IN_FOLDER(changed_bytes),       cmocka_unit_test(endless),
    };
    if (!ot_has_unicode) {
        puts("skipped: built without libutf8proc");
        return 77;
    }
    return cmocka_run_group_tests_name("text", tests, NULL, NULL) + ot_test_sentencepiece();
}
