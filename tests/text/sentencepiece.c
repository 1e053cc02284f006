/* sentencepiece.c - .model files against SentencePiece, number by number; files that are cut or changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/io.h"
#include "runtime/text/internal.h"

#define FIXTURES OT_SOURCE_ROOT "/tests/text/fixtures/"

int ot_test_sentencepiece(void);

static const char *const names[] = { "unigram", "suffix", "bpe", "bpe-plain" };

static void read_model(const char *name, void **p, size_t *n)
{
    char path[512];
    ot_error e = { 0 };
    snprintf(path, sizeof path, FIXTURES "sp-%s.model", name);
    if (ot_read_file(path, 1 << 20, p, n, &e)) fail_msg("%s", e.text);
}

static ot_tokenizer *opened(const char *name)
{
    void *p;
    size_t n;
    json_t *j;
    ot_tokenizer *t;
    ot_error e = { 0 };
    read_model(name, &p, &n);
    if (ot_sentencepiece_load(name, p, n, &j, &e)) fail_msg("%s", e.text);
    free(p);
    /* As it is in a trained model: printing changes no score. */
    char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(3));
    json_decref(j);
    json_error_t why;
    j = json_loads(text, 0, &why);
    free(text);
    if (ot_tokenizer_new(j, name, &t, &e)) fail_msg("%s", e.text);
    json_decref(j);
    return t;
}

static void same_numbers(void **state)
{
    (void)state;
    json_error_t why;
    json_t *cases = json_load_file(FIXTURES "sentencepiece.json", 0, &why);
    assert_true(json_array_size(cases) > 600);
    for (int i = 0; i < OT_LEN(names); i++) {
        ot_tokenizer *t = opened(names[i]);
        assert_int_equal(ot_tokenizer_size(t), 500);
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *text = json_object_get(json_array_get(cases, k), "text");
            const json_t *ids = json_object_get(json_array_get(cases, k), names[i]);
            ot_ids got = { 0 };
            ot_error e = { 0 };
            if (ot_tokenizer_encode(t, json_string_value(text), json_string_length(text), true, &got, &e))
                fail_msg("%s", e.text);
            bool same = (size_t)got.n == json_array_size(ids);
            for (int64_t v = 0; same && v < got.n; v++)
                same = got.id[v] == json_integer_value(json_array_get(ids, (size_t)v));
            if (!same) fail_msg("%s: '%s' has other tokens", names[i], json_string_value(text));
            free(got.id);
        }
        ot_tokenizer_free(t);
    }
    json_decref(cases);
}

/* Blanks and bytes are what tokens stand for. */
static void back_again(void **state)
{
    (void)state;
    static const char text[] = "First Citizen: na\xC3\xAFve \xF0\x9F\x98\x80";
    ot_tokenizer *t = opened("bpe");
    ot_ids ids = { 0 };
    char got[100] = "";
    assert_int_equal(ot_tokenizer_encode(t, text, sizeof text - 1, false, &ids, NULL), OT_OK);
    for (int64_t i = 0; i < ids.n; i++) {
        size_t n;
        bool blank, special;
        const char *p = ot_tokenizer_piece(t, ids.id[i], &n, &blank, &special);
        assert_true(p && !blank && !special);
        strncat(got, p, n);
    }
    assert_int_equal(*got, ' '); /* in front of every text */
    assert_string_equal(got + 1, text);
    size_t n;
    bool special;
    assert_non_null(ot_tokenizer_token(t, 0, &n, &special));
    assert_true(special);
    free(ids.id);
    ot_tokenizer_free(t);
}

/* A tokenizer of these bytes or an error; texts get tokens that there are. */
static void try_bytes(const void *p, size_t n)
{
    static const char text[] = "thou art <sep>\xEF\xAC\x81 \xE2\x80\xA6\xE3\x80\x80 10 \xE6\x97\xA5";
    json_t *j = NULL;
    ot_tokenizer *t = NULL;
    ot_error e = { 0 };
    ot_ids ids = { 0 };
    size_t size;
    bool special;
    ot_status s = ot_sentencepiece_load("x.model", p, n, &j, &e);
    if (!s) s = ot_tokenizer_new(j, "x.model", &t, &e);
    if (s && (s != OT_E_DATA || !strstr(e.text, "x.model"))) fail_msg("status %d: %s", s, e.text);
    if (!s) assert_int_equal(ot_tokenizer_encode(t, text, sizeof text - 1, true, &ids, &e), OT_OK);
    for (int64_t k = 0; k < ids.n; k++) assert_non_null(ot_tokenizer_token(t, ids.id[k], &size, &special));
    free(ids.id);
    ot_tokenizer_free(t);
    json_decref(j);
}

static void hostile(void **state)
{
    (void)state;
    uint32_t r = 1;
    for (int i = 0; i < OT_LEN(names); i++) {
        void *p;
        size_t n;
        read_model(names[i], &p, &n);
        for (size_t keep = 0; keep < n; keep += OT_SPARSE * (1 + keep % 7)) try_bytes(p, keep);
        for (int k = 0; k < 1500 / OT_SPARSE; k++) {
            size_t at = (r = r * 1664525u + 1013904223u) % n;
            if (k % 2) at = n - 1 - at % 800; /* options and rules are at the end */
            unsigned char *c = (unsigned char *)p + at, was = *c;
            *c ^= (unsigned char)(1 << (r >> 29));
            try_bytes(p, n);
            *c = was;
        }
        free(p);
    }
}

int ot_test_sentencepiece(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_numbers), cmocka_unit_test(back_again),
                                        cmocka_unit_test(hostile) };
    return cmocka_run_group_tests_name("sentencepiece", tests, NULL, NULL);
}
