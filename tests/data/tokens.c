/* tokens.c - files of tokens and texts: their windows, parts, headers, and what is refused. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 4, TOKENS = 23, HEADER = 1024 };

static const ot_data_input inputs[] = { { "attention_mask", OT_I64, { 2, { -1, LENGTH } }, 0, false, false },
                                        { "ids", OT_I64, { 2, { -1, LENGTH } }, 300, false, false },
                                        { "position_ids", OT_I64, { 2, { -1, -1 } }, 8, false, false } };

static ot_data_options for_model(void) { return (ot_data_options){ .input = inputs, .n_inputs = OT_LEN(inputs) }; }

static ot_status open_with(const char *name, const ot_data_options *o, ot_dataset **d, ot_error *e)
{
    char path[256];
    *e = (ot_error){ 0 };
    snprintf(path, sizeof path, "%s/%s", ot_test_folder, name);
    return ot_dataset_open(path, OT_SPLIT_TRAIN, o, d, e);
}

static ot_dataset *opened(const char *name, const ot_data_options *o)
{
    ot_dataset *d;
    ot_error e;
    if (open_with(name, o, &d, &e)) fail_msg("%s: %s", name, e.text);
    return d;
}

static void expect_refused(const char *name, const ot_data_options *o, ot_status s, const char *words)
{
    ot_dataset *d;
    ot_error e;
    assert_int_equal(open_with(name, o, &d, &e), s);
    assert_null(d);
    if (!strstr(e.text, words) || !strstr(e.text, name)) fail_msg("%s: '%s' does not say '%s'", name, e.text, words);
}

/* Element k of sample i, in batches and by ot_array_at. */
static int64_t element(const ot_array *a, int64_t i, int64_t k)
{
    int64_t got[LENGTH];
    ot_gather g = { .src = a, .dtype = OT_I64, .elements = LENGTH, .channels = 1, .inner = 1 };
    ot_gather_run(&g, &i, 1, got, 1);
    assert_int_equal(got[k], ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i * LENGTH + k)));
    return got[k];
}

/* Tokens are their own numbers: sample i begins at token `first + i * stride`. */
static void expect_windows(const ot_dataset *d, int64_t samples, int64_t first, int64_t stride)
{
    const ot_array *x = ot_dataset_find(d, "ids"), *y = ot_dataset_find(d, "target");
    const ot_array *mask = ot_dataset_find(d, "attention_mask"), *place = ot_dataset_find(d, "position_ids");
    assert_true(x && y && mask && place && d->n == 4);
    assert_int_equal(d->samples, samples);
    for (int64_t i = 0; i < samples; i++)
        for (int64_t k = 0; k < LENGTH; k++) {
            assert_int_equal(element(x, i, k), first + i * stride + k);
            assert_int_equal(element(y, i, k), first + i * stride + k + 1);
            assert_int_equal(ot_dataset_token(d, y, i * LENGTH + k), first + i * stride + k + 1);
            assert_int_equal(element(mask, i, k), 1);
            assert_int_equal(element(place, i, k), k);
        }
}

static void put_u16(const char *name, int64_t n)
{
    uint16_t t[64];
    for (int i = 0; i < n; i++) t[i] = (uint16_t)i;
    ot_folder_put(name, t, (size_t)n * 2);
}

static void plain(void **state)
{
    (void)state;
    ot_data_options o = for_model();
    put_u16("t.bin", TOKENS);
    ot_dataset *d = opened("t.bin", &o);
    expect_windows(d, 5, 0, LENGTH);
    assert_true(ot_dataset_bytes(d) == 0 && d->notes && !d->preprocess);
    uint64_t hash = d->hash;
    ot_dataset_free(d);
    o.stride = 3;
    d = opened("t.bin", &o);
    expect_windows(d, 7, 0, 3);
    assert_true(d->hash != hash);
    ot_dataset_free(d);
    put_u16("exact.bin", LENGTH + 1);
    d = opened("exact.bin", &o);
    expect_windows(d, 1, 0, 3);
    ot_dataset_free(d);
    put_u16("few.bin", LENGTH);
    expect_refused("few.bin", &o, OT_E_DATA, "need 5");
    ot_folder_put("odd.bin", "abc", 3);
    expect_refused("odd.bin", &o, OT_E_DATA, "whole number of tokens");
    ot_folder_put("none.bin", "", 0);
    expect_refused("none.bin", &o, OT_E_DATA, "contains 0 tokens");
    o.length = 5;
    ot_error e;
    assert_int_equal(open_with("t.bin", &o, &d, &e), OT_E_USAGE);
}

/* Wide tokens, because the model's vocabulary needs them; an open length. */
static void wide(void **state)
{
    (void)state;
    const ot_data_input in = { "ids", OT_I64, { 2, { -1, -1 } }, 70000, false, false };
    ot_data_options o = { .input = &in, .n_inputs = 1, .length = LENGTH };
    uint32_t t[10];
    for (uint32_t i = 0; i < 10; i++) t[i] = 69990 + i;
    ot_folder_put("t.bin", t, sizeof t);
    ot_dataset *d = opened("t.bin", &o);
    assert_int_equal(d->samples, 2);
    assert_int_equal(element(ot_dataset_find(d, "target"), 1, 3), 69998);
    ot_dataset_free(d);
    o.length = 0;
    d = opened("t.bin", &o);
    assert_int_equal(d->samples, 1);
    assert_int_equal(d->array[0].t.dim[1], 9);
    ot_dataset_free(d);
}

/* Every token in range, or which is the first that is not. */
static void ranges(void **state)
{
    (void)state;
    ot_data_options o = for_model();
    put_u16("t.bin", TOKENS);
    ot_dataset *d = opened("t.bin", &o);
    const ot_array *x = ot_dataset_find(d, "ids");
    int64_t index[2] = { 1, 3 }, at = -1;
    assert_true(ot_array_within(x, index, 2, -300, 15, 0, &at));
    assert_false(ot_array_within(x, index, 2, 0, 13, 0, &at));
    assert_int_equal(ot_dataset_token(d, x, at), 14);
    assert_false(ot_array_within(x, index, 2, 0, 13, 14, &at));
    assert_int_equal(ot_dataset_token(d, x, at), 15);
    assert_false(ot_array_within(x, index, 2, 5, 20, 0, &at));
    assert_int_equal(ot_dataset_token(d, x, at), 4);
    ot_dataset_free(d);
}

static void headers(void **state)
{
    (void)state;
    ot_data_options o = for_model();
    unsigned char file[HEADER + 4 * TOKENS] = { 0 };
    for (int wide = 0; wide < 2; wide++) {
        int32_t head[3] = { wide ? 20240801 : 20240520, wide ? 7 : 1, TOKENS };
        size_t size = HEADER + (wide ? 4 : 2) * TOKENS;
        memcpy(file, head, sizeof head);
        for (int i = 0; i < TOKENS; i++)
            if (wide) memcpy(file + HEADER + 4 * i, &i, 4);
            else memcpy(file + HEADER + 2 * i, &(uint16_t){ (uint16_t)i }, 2);
        ot_folder_put("t.bin", file, size);
        ot_dataset *d = opened("t.bin", &o);
        expect_windows(d, 5, 0, LENGTH);
        ot_dataset_free(d);
        for (size_t n = HEADER; n < size; n++) { /* shorter ones are plain numbers */
            ot_folder_put("t.bin", file, n);
            expect_refused("t.bin", &o, OT_E_DATA, "its header says 23 tokens");
        }
        head[2] = -1;
        memcpy(file, head, sizeof head);
        ot_folder_put("t.bin", file, size);
        expect_refused("t.bin", &o, OT_E_DATA, "its header says -1 tokens");
        head[1] = 9;
        memcpy(file, head, sizeof head);
        ot_folder_put("t.bin", file, size);
        expect_refused("t.bin", &o, OT_E_DATA, "version 9");
    }
}

/* A part of a file of tokens is tokens that follow each other, and no window of the training reads them. */
static void parts(void **state)
{
    (void)state;
    ot_data_options o = for_model();
    ot_error e = { 0 };
    int classes;
    o.stride = 2;
    put_u16("t.bin", TOKENS);
    ot_dataset *d = opened("t.bin", &o), *v;
    if (ot_dataset_split(d, 0.4, 7, &v, &classes, &e)) fail_msg("%s", e.text);
    expect_windows(d, 5, 0, 2);  /* 0 .. 13: the last reads 8 .. 12 */
    expect_windows(v, 3, 14, 2); /* 14 .. 22 */
    assert_true(v->hash != d->hash);
    ot_dataset_free(v);
    ot_dataset_free(d);

    int64_t seen = 0;
    for (int fold = 1; fold <= 3; fold++) {
        d = opened("t.bin", &o);
        if (ot_dataset_fold(d, fold, 3, 7, &v, &classes, &e)) fail_msg("%s", e.text);
        int64_t begin = 7 * (fold - 1), end = fold < 3 ? 7 * fold : TOKENS;
        const ot_array *x = ot_dataset_find(d, "ids"), *y = ot_dataset_find(v, "ids");
        for (int64_t i = 0; i < v->samples; i++)
            assert_true(element(y, i, 0) >= begin && element(y, i, LENGTH - 1) + 1 < end);
        for (int64_t i = 0; i < d->samples; i++)
            assert_true(element(x, i, 0) >= end || element(x, i, LENGTH - 1) + 1 < begin);
        assert_true(d->samples > 2);
        seen += v->samples;
        ot_dataset_free(v);
        ot_dataset_free(d);
    }
    assert_int_equal(seen, 2 + 2 + 3);

    d = opened("t.bin", &o);
    assert_int_equal(ot_dataset_split(d, 0.1, 7, &v, &classes, &e), OT_E_DATA);
    assert_null(v);
    ot_dataset_free(d);
}

/* A file that changes under a training is an error, not a crash. */
static void changed(void **state)
{
    (void)state;
    ot_data_options o = for_model();
    ot_error e = { 0 };
    char path[256];
    put_u16("t.bin", TOKENS);
    ot_dataset *d = opened("t.bin", &o);
    assert_int_equal(ot_dataset_intact(d, &e), OT_OK);
    snprintf(path, sizeof path, "%s/t.bin", ot_test_folder);
    assert_int_equal(truncate(path, 8), 0);
    assert_int_equal(ot_dataset_intact(d, &e), OT_E_IO);
    if (!strstr(e.text, "was changed")) fail_msg("%s", e.text);
    ot_dataset_free(d);
}

/* A .npy of one dimension is tokens for an input of two, and an array for others. */
static void arrays(void **state)
{
    (void)state;
    static const char head[] = "\x93NUMPY\x01\0\x46\0{'descr': '<u2', 'fortran_order': False, 'shape': (23,), }";
    ot_data_options o = for_model();
    unsigned char file[80 + 2 * TOKENS];
    memset(file, ' ', 80);
    memcpy(file, head, sizeof head - 1);
    file[79] = '\n';
    for (uint16_t i = 0; i < TOKENS; i++) memcpy(file + 80 + 2 * i, &i, 2);
    ot_folder_put("t.npy", file, sizeof file);
    ot_dataset *d = opened("t.npy", &o);
    expect_windows(d, 5, 0, LENGTH);
    assert_int_equal(ot_dataset_bytes(d), 0);
    ot_dataset_free(d);
    for (size_t n = 0; n < sizeof file; n++) {
        ot_folder_put("t.npy", file, n);
        ot_error e;
        assert_int_equal(open_with("t.npy", &o, &d, &e), OT_E_DATA);
    }
    file[21] = '>'; /* in memory, with its bytes swapped */
    assert_int_equal(file[20], '\'');
    for (uint16_t i = 0; i < TOKENS; i++) memcpy(file + 80 + 2 * i, (uint8_t[]){ 0, (uint8_t)i }, 2);
    ot_folder_put("t.npy", file, sizeof file);
    d = opened("t.npy", &o);
    expect_windows(d, 5, 0, LENGTH);
    assert_int_equal(ot_dataset_bytes(d), 2 * TOKENS);
    ot_dataset_free(d);
    const ot_data_input flat = { "x", OT_F32, { 2, { -1, 1 } }, 0, false, false };
    d = opened("t.npy", &(ot_data_options){ .input = &flat, .n_inputs = 1 });
    assert_true(d->n == 1 && d->array[0].t.rank == 1 && !d->windows);
    ot_dataset_free(d);
}

/* ---- texts ---------------------------------------------------------------------------- */

static const char words[] = "na\xC3\xAFve b\xE2\x82\xAC\nabc";

static void expect_ids(const ot_dataset *d, const int *id, int64_t n)
{
    const ot_array *x = ot_dataset_find(d, "ids");
    for (int64_t i = 0; i < n; i++) assert_int_equal(element(x, i / LENGTH, i % LENGTH), id[i]);
}

static void bytes_and_characters(void **state)
{
    (void)state;
    /* \n blank a b c e n v i-diaeresis euro */
    static const int id[] = { 6, 2, 8, 7, 5, 1, 3, 9, 0, 2, 3, 4 };
    ot_data_options o = for_model();
    ot_folder_put("t.txt", words, sizeof words - 1);
    ot_dataset *d = opened("t.txt", &o); /* 300 rows: bytes */
    for (int i = 0; i < 12; i++) assert_int_equal(element(ot_dataset_find(d, "ids"), i / 4, i % 4), (uint8_t)words[i]);
    assert_string_equal(d->preprocess, "{\"kind\":\"text\",\"unit\":\"bytes\",\"length\":4}");
    ot_dataset_free(d);
    o.text = "chars";
    d = opened("t.txt", &o);
    assert_int_equal(d->samples, 2);
    expect_ids(d, id, 8);
    assert_int_equal(ot_dataset_bytes(d), 12);
    assert_string_equal(d->preprocess, "{\"kind\":\"text\",\"unit\":\"characters\",\"vocabulary\":[10,32,97,98,99,101,"
                                       "110,118,239,8364],\"length\":4}");
    /* Another text gets the same numbers, and may have no other character. */
    ot_folder_put("v.txt", "e na bv\nvvv", 11);
    ot_data_options p = for_model();
    p.preprocess = d->preprocess;
    ot_dataset *v = opened("v.txt", &p);
    expect_ids(v, (const int[]){ 5, 1, 6, 2, 1, 3, 7, 0 }, 8);
    assert_string_equal(v->preprocess, d->preprocess);
    ot_dataset_free(v);
    ot_folder_put("v.txt", "e na\nbvx\n", 9);
    expect_refused("v.txt", &p, OT_E_DATA, "line 2 contains 'x' (U+0078)");
    ot_dataset_free(d);
    for (size_t n = LENGTH + 2; n < sizeof words - 1; n++) { /* cut within a character */
        ot_error e;
        ot_folder_put("t.txt", words, n);
        ot_status s = open_with("t.txt", &o, &d, &e);
        assert_int_equal(s, n == 9 || n == 10 || n == 3 ? OT_E_DATA : OT_OK);
        if (s && !strstr(e.text, "line 1 is not UTF-8")) fail_msg("%zu: %s", n, e.text);
        ot_dataset_free(d);
    }
}

/* The model decides between bytes and characters, and both sizes are named where neither fits. */
static void vocabulary(void **state)
{
    (void)state;
    ot_data_input in = { "ids", OT_I64, { 2, { -1, LENGTH } }, 10, false, false };
    ot_data_options o = { .input = &in, .n_inputs = 1 };
    ot_folder_put("t.txt", words, sizeof words - 1);
    ot_dataset *d = opened("t.txt", &o);
    assert_non_null(strstr(d->preprocess, "characters"));
    ot_dataset_free(d);
    in.rows = 9;
    expect_refused("t.txt", &o, OT_E_DATA,
                   "10 different characters, but input 'ids' of the model is looked up in a table of 9 rows");
    o.text = "bytes";
    expect_refused("t.txt", &o, OT_E_DATA,
                   "256 different bytes, but input 'ids' of the model is looked up in a table of 9 rows");
    in = (ot_data_input){ "x", OT_F32, { 4, { -1, 3, 8, 8 } }, 0, false, false };
    expect_refused("t.txt", &o, OT_E_DATA, "no input of the model takes bytes");
    static const char *const forged[] = { "{\"unit\":\"characters\",\"vocabulary\":[1,1]}",
                                          "{\"unit\":\"characters\",\"vocabulary\":[-1]}",
                                          "{\"unit\":\"characters\",\"vocabulary\":[1114112]}",
                                          "{\"unit\":\"characters\",\"vocabulary\":[\"a\"]}" };
    in = (ot_data_input){ "ids", OT_I64, { 2, { -1, LENGTH } }, 10, false, false };
    for (int i = 0; i < OT_LEN(forged); i++) {
        ot_error e;
        o = (ot_data_options){ .input = &in, .n_inputs = 1, .preprocess = forged[i] };
        assert_int_equal(open_with("t.txt", &o, &d, &e), OT_E_MODEL);
    }
}

int ot_test_tokens(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ot_folder_make, ot_folder_remove)
    const struct CMUnitTest tests[] = {
        TEST(plain),      TEST(wide),    TEST(ranges), TEST(headers),
        TEST(parts),      TEST(changed), TEST(arrays), TEST(bytes_and_characters),
        TEST(vocabulary),
    };
    return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
