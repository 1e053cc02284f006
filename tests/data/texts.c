/* texts.c - tables with a column of texts, as CSV, JSON lines and lines: their tokens, masks and labels, and what is refused. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/json.h"

#define TOKENIZERS OT_SOURCE_ROOT "/tests/text/fixtures/"

enum { LENGTH = 12 };

static const ot_data_input fixed[] = { { "input_ids", OT_I64, { 2, { -1, LENGTH } }, 500, false, false },
                                       { "attention_mask", OT_I64, { 2, { -1, LENGTH } }, 0, false, false },
                                       { "token_type_ids", OT_I64, { 2, { -1, LENGTH } }, 2, false, false } };
static const ot_data_input open_length[] = { { "ids", OT_I64, { 2, { -1, -1 } }, 256, false, false },
                                             { "position_ids", OT_I64, { 2, { -1, -1 } }, 8, false, false } };

static ot_status open_with(const char *name, const char *text, const ot_data_options *o, ot_dataset **d, ot_error *e)
{
    char path[256];
    *e = (ot_error){ 0 };
    ot_folder_put(name, text, strlen(text));
    snprintf(path, sizeof path, "%s/%s", ot_test_folder, name);
    return ot_dataset_open(path, OT_SPLIT_TRAIN, o, d, e);
}

static ot_dataset *opened(const char *name, const char *text, const ot_data_options *o)
{
    ot_dataset *d;
    ot_error e;
    if (!open_with(name, text, o, &d, &e)) return d;
    if (strstr(e.text, "libutf8proc-dev")) skip();
    fail_msg("%s: %s", name, e.text);
    return NULL;
}

static void expect_refused(const char *name, const char *text, const ot_data_options *o, ot_status s, const char *words)
{
    ot_dataset *d;
    ot_error e;
    ot_status got = open_with(name, text, o, &d, &e);
    if (got && strstr(e.text, "libutf8proc-dev")) return;
    if (got != s) fail_msg("%s: status %d: %s", name, got, e.text);
    assert_null(d);
    if (!strstr(e.text, words)) fail_msg("%s: '%s' does not say '%s'", name, e.text, words);
}

/* Sample i of an array is v[0..n). */
static void expect_row(const ot_dataset *d, const char *name, int64_t i, const int *v, int64_t n)
{
    const ot_array *a = ot_dataset_find(d, name);
    if (!a) fail_msg("no array %s", name);
    assert_int_equal(a->t.rank, 2);
    assert_int_equal(a->t.dim[0], d->samples);
    assert_int_equal(a->t.dim[1], n);
    for (int64_t k = 0; k < n; k++)
        if (ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i * n + k)) != v[k])
            fail_msg("%s: element %lld of sample %lld is %lld", name, (long long)k, (long long)i,
                     (long long)ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i * n + k)));
}

static int64_t label(const ot_dataset *d, int64_t i)
{
    const ot_array *a = ot_dataset_find(d, "target");
    assert_non_null(a);
    return ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i));
}

/* What Hugging Face's tokenizers give with enable_truncation(12) and enable_padding(length=12). */
static void as_bert(void **state)
{
    (void)state;
    static const char csv[] = "label,text\nplain,the king is here\nquoted,\"To be, or not to be: that is the "
                              "question\"\nplain, yes\n";
    static const int rows[3][LENGTH] = { { 2, 71, 177, 115, 236, 3 },
                                         { 2, 80, 95, 9, 218, 120, 80, 95, 13, 108, 115, 3 },
                                         { 2, 40, 78, 3 } };
    static const int there[] = { 6, 12, 4 }, zeros[LENGTH] = { 0 };
    ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "bert.json" };
    ot_dataset *d = opened("t.csv", csv, &o);
    assert_int_equal(d->n, 4);
    assert_int_equal(d->samples, 3);
    assert_int_equal(d->n_classes, 2);
    assert_string_equal(d->class_name[1], "quoted");
    assert_non_null(strstr(d->notes, "1 of 3 samples are longer and were truncated"));
    for (int i = 0; i < 3; i++) {
        int mask[LENGTH] = { 0 };
        for (int k = 0; k < there[i]; k++) mask[k] = 1;
        expect_row(d, "input_ids", i, rows[i], LENGTH);
        expect_row(d, "attention_mask", i, mask, LENGTH);
        expect_row(d, "token_type_ids", i, zeros, LENGTH);
        assert_int_equal(label(d, i), i == 1);
    }
    /* The model that was trained knows its tokenizer and its column: a file of lines without labels does. */
    ot_data_options q = {
        .input = fixed, .n_inputs = 3, .preprocess = d->preprocess, .unlabelled = true, .alone = true
    };
    ot_dataset *lines = opened("t.txt", "yes\n\nthe king is here", &q);
    assert_int_equal(lines->samples, 2);
    assert_null(ot_dataset_find(lines, "target"));
    expect_row(lines, "input_ids", 0, rows[2], LENGTH);
    expect_row(lines, "input_ids", 1, rows[0], LENGTH);
    ot_dataset_free(lines);
    lines = opened("single.csv", "text\nyes\n", &q); /* the name tells that this is no text */
    assert_int_equal(lines->samples, 1);
    ot_dataset_free(lines);
    lines = opened("one.csv", "text\nyes\nno\n", &q);
    expect_row(lines, "input_ids", 0, rows[2], LENGTH);
    ot_dataset_free(lines);
    ot_dataset_free(d);
}

/* What Hugging Face's tokenizers give for two texts, with enable_truncation(12) and enable_padding(length=12). */
static void pairs_of_texts(void **state)
{
    (void)state;
    static const char csv[] = "a,b,label\nthe king is here,yes,x\nyes,\"To be, or not to be: that is the question\",y\n"
                              "\"no, my lord\",\"the king is here, my lord\",x\n,yes,y\n";
    static const int bert[4][LENGTH] = { { 2, 71, 177, 115, 236, 3, 40, 78, 3 },
                                         { 2, 40, 78, 3, 80, 95, 9, 218, 120, 80, 95, 3 },
                                         { 2, 88, 9, 97, 193, 3, 71, 177, 115, 236, 9, 3 },
                                         { 2, 3, 40, 78, 3 } };
    static const int roberta[4][LENGTH] = { { 1, 272, 350, 303, 329, 297, 269, 2, 2, 287, 283, 2 },
                                            { 1, 287, 283, 2, 2, 225, 403, 309, 16, 225, 275, 2 },
                                            { 1, 391, 16, 311, 456, 2, 2, 272, 350, 303, 329, 2 },
                                            { 1, 2, 2, 287, 283, 2, 3, 3, 3, 3, 3, 3 } };
    static const int first[] = { 6, 4, 6, 2 }, there[] = { 9, 12, 12, 5 }, second[] = { 12, 12, 12, 6 };
    ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "bert.json", .columns = "a,b" };
    for (int kind = 0; kind < 2; kind++) {
        ot_dataset *d = opened("t.csv", csv, &o);
        assert_non_null(strstr(d->notes, "columns 'a' and 'b' go to input 'input_ids' as pairs"));
        for (int i = 0; i < 4; i++) {
            int mask[LENGTH] = { 0 }, types[LENGTH] = { 0 };
            for (int k = 0; k < (kind ? second : there)[i]; k++) mask[k] = 1, types[k] = !kind && k >= first[i];
            expect_row(d, "input_ids", i, (kind ? roberta : bert)[i], LENGTH);
            expect_row(d, "attention_mask", i, mask, LENGTH);
            expect_row(d, "token_type_ids", i, types, LENGTH);
            assert_int_equal(label(d, i), i % 2);
        }
        ot_data_options q = {
            .input = fixed, .n_inputs = 3, .preprocess = d->preprocess, .unlabelled = true, .alone = true
        };
        ot_dataset *again = opened("u.csv", "b,a\nyes,the king is here\n", &q);
        expect_row(again, "input_ids", 0, (kind ? roberta : bert)[0], LENGTH);
        ot_dataset_free(again);
        expect_refused("u.txt", "yes\n", &q, OT_E_DATA, "pairs of columns, 'a' and 'b'");
        ot_dataset_free(d);
        o.tokenizer = TOKENIZERS "roberta.json";
        o.columns = "input_ids=a,b";
    }
    o.tokenizer = TOKENIZERS "gpt2.json";
    ot_dataset *d = opened("t.csv", csv, &o);
    assert_non_null(strstr(d->notes, "puts no token between"));
    ot_dataset_free(d);
    o.tokenizer = NULL;
    o.text = "bytes";
    expect_refused("t.csv", csv, &o, OT_E_USAGE, "need --tokenizer");
}

/* What every sample has in common is in memory once: its fingerprint is of that row, and of nothing behind it. */
static void one_row_for_all(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    char *csv = malloc(16 * ROWS + 16), *p = csv + sprintf(csv, "text,y\n");
    for (int i = 0; i < ROWS; i++) p += sprintf(p, "yes,%d\n", i % 2);
    ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "bert.json" };
    ot_dataset *d = opened("t.csv", csv, &o);
    assert_true(ot_dataset_find(d, "token_type_ids")->same);
    uint64_t hash = d->hash;
    ot_dataset_free(d);
    d = opened("t.csv", csv, &o);
    assert_true(d->hash == hash);
    ot_dataset_free(d);
    free(csv);
}

/* Scores of pieces are recorded with all their digits: fewer would make other pieces the best ones. */
static void as_unigram(void **state)
{
    (void)state;
    ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "unigram.json" };
    ot_dataset *d = opened("t.csv", "label,text\nplain,the king is here\nother,To be or not\n", &o);
    json_error_t why;
    json_t *file = json_load_file(TOKENIZERS "unigram.json", 0, &why), *record = json_loads(d->preprocess, 0, &why);
    const json_t *one = json_object_get(json_object_get(record, "inputs"), "input_ids");
    assert_non_null(one);
    assert_true(json_equal(json_object_get(one, "tokenizer"), file));
    json_decref(file);
    json_decref(record);
    ot_dataset_free(d);
}

static void as_roberta(void **state)
{
    (void)state;
    static const int rows[3][LENGTH] = { { 1, 272, 350, 303, 329, 297, 269, 2, 3, 3, 3, 3 },
                                         { 1, 225, 403, 309, 16, 225, 275, 326, 292, 309, 30, 2 },
                                         { 1, 287, 283, 2, 3, 3, 3, 3, 3, 3, 3, 3 } };
    static const char json[] = "{\"id\": 7, \"text\": \"the king is here\", \"score\": 0.5}\n"
                               "{\"text\": \"To be, or not to be: that is the question\", \"score\": 1, \"id\": 8}\n\n"
                               "{\"score\": -2e1, \"text\": \" yes\", \"id\": null, \"more\": [1]}";
    ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "roberta.json", .target = "score" };
    ot_dataset *d = opened("t.jsonl", json, &o);
    assert_int_equal(d->samples, 3);
    const ot_array *a = ot_dataset_find(d, "target");
    assert_int_equal(a->t.dtype, OT_F32);
    assert_true(ot_get_f64(a->t.data, OT_F32, 0) == 0.5 && ot_get_f64(a->t.data, OT_F32, 2) == -20);
    for (int i = 0; i < 3; i++) expect_row(d, "input_ids", i, rows[i], LENGTH);
    assert_int_equal(ot_dataset_line(d, 2), 4);
    ot_dataset_free(d);
}

static void bytes_and_characters(void **state)
{
    (void)state;
    static const char tsv[] = "text\ta\tb\nb\xC3\xA4\t0\t1\nabca\t1\t1\n";
    static const int bytes[2][4] = { { 'b', 0xC3, 0xA4, 0 }, { 'a', 'b', 'c', 'a' } };
    static const int chars[2][4] = { { 3, 5, 0, 0 }, { 2, 3, 4, 2 } }, places[4] = { 0, 1, 2, 3 };
    ot_data_options o = { .input = open_length, .n_inputs = 2, .text = "bytes", .target = "a,b" };
    ot_dataset *d = opened("t.tsv", tsv, &o);
    for (int i = 0; i < 2; i++) {
        expect_row(d, "ids", i, bytes[i], 4);
        expect_row(d, "position_ids", i, places, 4);
        expect_row(d, "target", i, (int[][2]){ { 0, 1 }, { 1, 1 } }[i], 2);
    }
    assert_non_null(strstr(d->notes, "padded with token 0"));
    ot_dataset_free(d);
    o.text = "chars";
    d = opened("t.tsv", tsv, &o);
    for (int i = 0; i < 2; i++) expect_row(d, "ids", i, chars[i], 4);
    ot_data_options q = { .input = open_length, .n_inputs = 2, .preprocess = d->preprocess, .unlabelled = true };
    ot_dataset *again = opened("u.txt", "cz\nbbbbbbbb\n", &q);
    expect_row(again, "ids", 0, (int[]){ 4, 1, 0, 0 }, 4);
    expect_row(again, "ids", 1, (int[]){ 3, 3, 3, 3 }, 4);
    ot_dataset_free(again);
    ot_dataset_free(d);
}

/* At most as many as the model has positions; --length; inputs that take other columns. */
static void lengths(void **state)
{
    (void)state;
    static const ot_data_input mixed[] = { { "ids", OT_I64, { 2, { -1, -1 } }, 256, false, false },
                                           { "x", OT_F32, { 2, { -1, 2 } }, 0, false, false } };
    ot_data_options o = { .input = open_length, .n_inputs = 2, .text = "bytes" };
    ot_dataset *d = opened("t.csv", "text,y\nabcdefghijkl,1\na,0\n", &o);
    assert_int_equal(ot_dataset_find(d, "ids")->t.dim[1], 8);
    ot_dataset_free(d);
    o.length = 3;
    d = opened("t.csv", "text,y\nabcdefghijkl,1\na,0\n", &o);
    expect_row(d, "ids", 0, (int[]){ 'a', 'b', 'c' }, 3);
    ot_dataset_free(d);
    o = (ot_data_options){ .input = mixed, .n_inputs = 2, .text = "bytes", .normalize = "none" };
    d = opened("t.csv", "p,what,q,y\n1,ab,2,0\n3,c,4,1\n", &o);
    expect_row(d, "ids", 0, (int[]){ 'a', 'b' }, 2);
    expect_row(d, "ids", 1, (int[]){ 'c', 0 }, 2);
    const ot_array *x = ot_dataset_find(d, "x");
    assert_true(x && x->t.dtype == OT_F32 && ((float *)x->t.data)[3] == 4);
    ot_dataset *again;
    ot_data_options q = { .input = mixed, .n_inputs = 2, .preprocess = d->preprocess };
    again = opened("u.csv", "y,q,p,what\n0,2,1,ab\n1,4,3,c\n", &q);
    expect_row(again, "ids", 0, (int[]){ 'a', 'b' }, 2);
    assert_true(((float *)ot_dataset_find(again, "x")->t.data)[3] == 4);
    assert_int_equal(label(again, 1), 1);
    ot_dataset_free(again);
    ot_dataset_free(d);
}

static void refused(void **state)
{
    (void)state;
    static const ot_data_input number[] = { { "x", OT_F32, { 4, { -1, 3, 8, 8 } }, 0, false, false } };
    ot_data_options o = { .input = open_length, .n_inputs = 2, .text = "bytes" };
    expect_refused("t.csv", "a,b\n1,2\n3,4\n", &o, OT_E_DATA, "no column contains text");
    expect_refused("t.jsonl", "{\"text\":\"a\",\"label\":1}\n[1]\n", &o, OT_E_DATA, "line 2 is not a JSON object");
    expect_refused("t.jsonl", "{\"text\":\"a\"", &o, OT_E_DATA, "line 1 is not a JSON object");
    expect_refused("t.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\"}\n", &o, OT_E_DATA,
                   "line 2: the target (column 'label') is missing");
    o.length = LENGTH + 1;
    o.input = fixed;
    o.n_inputs = 3;
    expect_refused("t.csv", "text,y\na,1\nb,0\n", &o, OT_E_USAGE, "has a fixed length of 12");
    o.length = 0;
    o.text = "chars";
    expect_refused("t.csv", "text,y\na,1\n\xFF,0\n", &o, OT_E_DATA, "line 3, column 'text': the text is not UTF-8");
    o.tokenizer = TOKENIZERS "bert.json";
    expect_refused("t.csv", "text,y\na,1\nb,0\n", &o, OT_E_USAGE, "use one of them");
    o.text = NULL;
    expect_refused("t.csv", "text,y\na,1\n\xFF,0\n", &o, OT_E_DATA, "line 3, column 'text': the text is not UTF-8");
    o.columns = "nothing";
    expect_refused("t.csv", "text,y\na,1\nb,0\n", &o, OT_E_USAGE, "expected the column");
    o.columns = NULL;
    o.preprocess = "{\"inputs\":{\"input_ids\":{\"kind\":\"text\",\"unit\":\"tokens\",\"tokenizer\":3}}}";
    o.tokenizer = NULL;
    expect_refused("t.csv", "text,y\na,1\nb,0\n", &o, OT_E_MODEL, "'tokenizer' is invalid");
    o.preprocess = "{\"inputs\":{\"input_ids\":{\"kind\":\"text\",\"unit\":\"characters\",\"vocabulary\":[5,5]}}}";
    expect_refused("t.csv", "text,y\na,1\nb,0\n", &o, OT_E_MODEL, "'vocabulary' is invalid");
    o = (ot_data_options){ .input = number, .n_inputs = 1, .text = "bytes" };
    expect_refused("t.csv", "text,y\na,1\nb,0\n", &o, OT_E_DATA, "no input of the model takes tokens");
}

/* A table of JSON lines is what the same CSV is; cut at every byte it is data or an error. */
static void json_lines(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":1,\"b\":\"p\",\"on\":true,\"y\":\"\\u00e4\"}\r\n"
                               "{\"y\":\"z\",\"on\":false,\"a\":2.5,\"b\":\"q\"}\n";
    ot_data_options o = { 0 };
    ot_dataset *d = opened("t.jsonl", json, &o),
               *c = opened("t.csv", "a,b,on,y\n1,p,true,\xC3\xA4\n2.5,q,false,z\n", &o);
    assert_int_equal(d->hash, c->hash);
    assert_string_equal(d->class_name[0], "z");
    ot_dataset_free(c);
    ot_dataset_free(d);
    for (size_t n = 0; n < sizeof json; n++) {
        char part[sizeof json] = "";
        ot_error e;
        memcpy(part, json, n);
        if (!open_with("t.jsonl", part, &o, &d, &e)) ot_dataset_free(d);
        else assert_true(e.status == OT_E_DATA && strstr(e.text, "t.jsonl"));
    }
}

static void put_in(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", ot_test_folder, folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ot_folder_put(path, text, strlen(text));
}

/* Files of lines, whose classes are in their names, and class folders with a text in each file. */
static void folders(void **state)
{
    (void)state;
    static const int rows[5][3] = {
        { 'n', 'o', 0 }, { 'b', 'a', 'd' }, { 'a', '\t', 'b' }, { 'y', 'e', 's' }, { 'x', ' ', 'y' }
    };
    ot_data_options o = { .input = open_length, .n_inputs = 1, .text = "bytes", .length = 3 };
    char path[256];
    ot_dataset *d;
    ot_error e = { 0 };
    put_in("lines", "re-polarity.neg", "no\n\nbad\r\na\tb");
    put_in("lines", "re-polarity.pos", "yes\n");
    put_in("lines", "empty.txt", "");
    snprintf(path, sizeof path, "%s/lines/empty.txt", ot_test_folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/lines", ot_test_folder);
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e)) fail_msg("%s", e.text);
    assert_int_equal(d->samples, 4);
    assert_string_equal(d->class_name[0], "neg");
    assert_string_equal(d->class_name[1], "pos");
    for (int i = 0; i < 4; i++) {
        expect_row(d, "ids", i, rows[i], 3);
        assert_int_equal(label(d, i), i == 3);
    }
    ot_dataset *test = d;
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TEST, &o, &test, &e), OT_OK);
    assert_null(test);
    ot_dataset_free(d);

    put_in("texts", "x", "");
    snprintf(path, sizeof path, "%s/texts/x", ot_test_folder);
    unlink(path);
    put_in("texts/bad", "1.txt", "no");
    put_in("texts/good", "2.txt", "x\ny\n");
    put_in("texts/good", "1.txt", "yes");
    snprintf(path, sizeof path, "%s/texts", ot_test_folder);
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e)) fail_msg("%s", e.text);
    assert_int_equal(d->samples, 3);
    assert_string_equal(d->class_name[1], "good");
    expect_row(d, "ids", 0, rows[0], 3);
    expect_row(d, "ids", 1, rows[3], 3);
    expect_row(d, "ids", 2, rows[4], 3);
    assert_int_equal(label(d, 0), 0);
    assert_int_equal(label(d, 2), 1);
    ot_dataset_free(d);
    ot_folder_put("texts/good/3.txt", "a\0b", 3);
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "good/3.txt: is not a text file"));
}

/* What Hugging Face's tokenizers give words (is_pretokenized; of RoBERTa with add_prefix_space), and the tags at word_ids as the recipe for
 * token classification puts them.  A word of no token and one behind the end have none. */
static void tags_of_words(void **state)
{
    (void)state;
    static const char *const file[] = { TOKENIZERS "bert.json", TOKENIZERS "roberta.json" };
    static const int ids[2][3][LENGTH] = { { { 2, 71, 177, 33, 135, 42, 3, 0, 0, 0, 0, 0 },
                                             { 2, 164, 51, 146, 81, 145, 267, 178, 58, 57, 54, 3 },
                                             { 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } },
                                           { { 1, 272, 225, 163, 227, 238, 350, 303, 431, 351, 83, 2 },
                                             { 1, 225, 37, 458, 356, 274, 383, 69, 70, 80, 274, 2 },
                                             { 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 } } };
    static const int tags[2][3][LENGTH] = {
        { { -100, 4, 0, 2, -100, -100, -100, -100, -100, -100, -100, -100 },
          { -100, 3, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100 },
          { -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100 } },
        { { -100, 4, 3, -100, -100, -100, 0, -100, 2, -100, -100, -100 },
          { -100, 3, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100 },
          { -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100 } }
    };
    static const char names[] =
        "{\"tags\": [\"O\", \"I-PER\", \"B-LOC\", \"B-PER\"], \"words\": [\"the\", \"\xE2\x80\x8B\", \"king\", \"Romeo\"]}\n"
        "{\"tags\": [\"I-PER\", \"O\", \"O\", \"B-ORG\"], \"words\": [\"Antidisestablishment\", \"is\", \"here\", \"king\"]}\n"
        "{\"tags\": [], \"words\": []}\n",
                      numbers[] =
                          "{\"tags\": [4, 3, 0, 2], \"words\": [\"the\", \"\xE2\x80\x8B\", \"king\", \"Romeo\"]}\n"
                          "{\"tags\": [3, 4, 4, 1], \"words\": [\"Antidisestablishment\", \"is\", \"here\", \"king\"]}\n"
                          "{\"tags\": [], \"words\": []}\n";
    for (int k = 0; k < 4; k++) {
        int of = k % 2;
        int64_t n;
        ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = file[of], .target = k > 1 ? "tags" : NULL };
        ot_dataset *d = opened("t.jsonl", k > 1 ? numbers : names, &o);
        for (int i = 0; i < 3; i++) {
            expect_row(d, "input_ids", i, ids[of][i], LENGTH);
            expect_row(d, "target", i, tags[of][i], LENGTH);
        }
        const int32_t *place = ot_dataset_words(d, 1, &n);
        assert_true(n == 4 && place[0] == 1 && place[3] == -1);
        assert_true(k > 1 ? !d->class_name : d->n_classes == 5 && !strcmp(d->class_name[2], "B-PER"));
        ot_data_options q = { .input = fixed, .n_inputs = 3, .preprocess = d->preprocess, .unlabelled = true };
        ot_dataset *again = opened("u.jsonl", "{\"words\":[\"the\",\"king\"]}\n", &q),
                   *lines = opened("u.txt", " the  king\n", &q);
        assert_int_equal(again->hash, lines->hash);
        assert_int_equal(ot_get_i64(again->array[0].t.data, again->array[0].t.dtype, 1), ids[of][0][1]);
        assert_true(ot_dataset_words(lines, 0, &n) && n == 2);
        ot_dataset_free(lines);
        ot_dataset_free(again);
        ot_dataset_free(d);
    }
    ot_data_options o = { .input = open_length, .n_inputs = 2, .text = "bytes" };
    ot_dataset *d = opened("t.jsonl", "{\"tokens\":[\"ab\",\"c\"],\"tags\":[1,0]}\n", &o);
    expect_row(d, "ids", 0, (int[]){ 'a', 'b', ' ', 'c' }, 4);
    expect_row(d, "target", 0, (int[]){ 1, OT_IGNORED, OT_IGNORED, 0 }, 4);
    ot_dataset_free(d);
    int64_t words; /* an empty word has no token, also where a blank is put in front of words */
    o = (ot_data_options){ .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "roberta.json" };
    d = opened("t.jsonl", "{\"words\":[\"the\",\"\"],\"tags\":[3,4]}\n", &o);
    expect_row(d, "input_ids", 0, (int[]){ 1, 272, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3 }, LENGTH);
    expect_row(d, "target", 0, (int[]){ -100, 3, -100, -100, -100, -100, -100, -100, -100, -100, -100, -100 }, LENGTH);
    assert_true(ot_dataset_words(d, 0, &words)[1] == -1 && words == 2);
    ot_dataset_free(d);
    /* A word that is an added token is that token alone; what is between such tokens in a word begins with a blank. */
    static const char added[] = "{\"words\":[\"the\",\"<s>\",\"king<mask>of\",\"<|endoftext|>\"],\"tags\":[3,4,1,2]}\n";
    static const int tokens[] = { 272, 1, 350, 303, 4, 305, 0 }, first[] = { 0, 1, 2, 6 };
    for (int k = 0; k < 2; k++) {
        o.tokenizer = k ? TOKENIZERS "gpt2.json" : TOKENIZERS "roberta.json";
        d = opened("t.jsonl", added, &o);
        const ot_array *got = ot_dataset_find(d, "input_ids");
        for (int i = 0; i < OT_LEN(tokens); i++)
            assert_int_equal(ot_get_i64(got->t.data, got->t.dtype, i + !k),
                             tokens[i]); /* <s> is in front of RoBERTa's */
        const int32_t *at = ot_dataset_words(d, 0, &words);
        for (int i = 0; i < 4; i++) assert_int_equal(at[i], first[i] + !k);
        ot_dataset_free(d);
    }
    o = (ot_data_options){ .input = open_length, .n_inputs = 2, .text = "bytes" };
    d = opened("t.jsonl", "{\"text\":\"the whole\",\"of\":[\"a\",\"c\"],\"pos\":[\"TTTTTTTTTT\",\"T\"]}\n", &o);
    expect_row(d, "ids", 0, (int[]){ 'a', ' ', 'c' }, 3);
    ot_dataset_free(d);
}

/* Sentences of CoNLL are the lists of JSON lines: the same arrays and classes. */
static void conll(void **state)
{
    (void)state;
    static const char
        json[] = "{\"tokens\":[\"the\",\"#\"],\"pos\":[\"DT\",\"NN\"],\"tags\":[\"O\",\"B-X\"]}\n"
                 "{\"tokens\":[\"king\"],\"pos\":[\"NN\"],\"tags\":[\"B-X\"]}\n",
        *const same[] = { "the DT O\n# NN B-X\n\nking NN B-X\n",
                          "\xEF\xBB\xBF-DOCSTART- -X- O\r\n\r\nthe  DT O \r\n#  NN\tB-X\r\n \r\n\r\nking NN B-X",
                          "-DOCSTART-\nthe\tDT\tO\n#\tNN\tB-X\n-DOCSTART- x y z z\nking\tNN\tB-X\n\n\n",
                          "the 1 2 DT O\n# 1 2 NN B-X\n\nking 1 2 NN B-X\n" },
        *const name[] = { "t.conll", "t.bio", "t.iob", "t.iob2" };
    ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "bert.json" };
    ot_dataset *d = opened("t.jsonl", json, &o), *again;
    for (int i = 0; i < OT_LEN(same); i++) {
        ot_dataset *c = opened(name[i], same[i], &o);
        for (int k = 0; k < d->n; k++) {
            const ot_array *a = ot_dataset_find(c, d->array[k].t.name);
            ot_shape shape = ot_array_shape(a);
            assert_memory_equal(a->t.data, d->array[k].t.data, ot_bytes(&shape, a->t.dtype));
        }
        assert_true(c->samples == 2 && c->n_classes == 2 && !strcmp(c->class_name[0], "B-X"));
        ot_dataset_free(c);
    }
    ot_dataset_free(d);
    d = opened("t.conll", same[1], &o);
    assert_int_equal(ot_dataset_line(d, 0), 3);
    assert_int_equal(ot_dataset_line(d, 1), 7);
    /* Words alone, and other columns by their numbers. */
    ot_data_options q = { .input = fixed, .n_inputs = 3, .preprocess = d->preprocess, .unlabelled = true };
    again = opened("u.conll", "the\n#\n\nking\n", &q);
    assert_int_equal(again->n, d->n - 1);
    assert_memory_equal(again->array[0].t.data, ot_dataset_find(d, "input_ids")->t.data, 2 * LENGTH);
    ot_dataset_free(again);
    ot_dataset_free(d);
    for (size_t n = 0; n < strlen(same[1]); n++) {
        char part[100] = "";
        ot_error e;
        memcpy(part, same[1], n);
        if (!open_with("t.conll", part, &o, &d, &e)) ot_dataset_free(d);
        else assert_true(e.status == OT_E_DATA && strstr(e.text, "t.conll"));
    }
    o.target = "2";
    d = opened("t.conll", same[0], &o);
    assert_true(d->n_classes == 2 && !strcmp(d->class_name[0], "DT"));
    ot_dataset_free(d);
}

static void conll_refused(void **state)
{
    (void)state;
    ot_data_options o = { .input = fixed, .n_inputs = 3, .tokenizer = TOKENIZERS "bert.json" };
    expect_refused(
        "t.conll", "\nthe DT O\n\nking B-X\n", &o, OT_E_DATA,
        "t.conll: line 4: 2 columns, but line 2 has 3: each word has a line with the same columns, separated by "
        "spaces");
    expect_refused("t.conll", "New York\tB-X\nking O\n", &o, OT_E_DATA, "line 2: 1 column, but line 1 has 2");
    expect_refused("t.conll", "the\tO\nking\t\n", &o, OT_E_DATA, "line 1, column 'tags': the tag of word 2 is empty");
    expect_refused("t.conll", "the\t\nking\tO\n", &o, OT_E_DATA, "line 1, column 'tags': the tag of word 1 is empty");
    expect_refused("t.conll", "the\tO\t\nking\tO\n", &o, OT_E_DATA, "line 2: 2 columns, but line 1 has 3");
    expect_refused("t.conll", "the\nking\n", &o, OT_E_DATA, "one input column and one target column");
    expect_refused("t.conll", "the O\n\nk\xFCng O\n", &o, OT_E_DATA, "line 3: the text is not UTF-8");
    expect_refused("t.conll", "-DOCSTART- O\n\n", &o, OT_E_DATA, "has no sentences");
    o = (ot_data_options){ 0 };
    expect_refused("t.conll", "the O\n", &o, OT_E_DATA,
                   "tags of words need a list of words in another column, and --tokenizer");
}

/* Numbers of the classes that a model has. */
static void tags_renumbered(void **state)
{
    (void)state;
    static const char *const name[] = { "O", "B", "I" };
    ot_data_options o = { .input = open_length, .n_inputs = 2, .text = "bytes" };
    ot_dataset *d = opened("t.jsonl", "{\"tokens\":[\"ab\",\"c\"],\"tags\":[\"B\",\"O\"]}\n", &o);
    ot_error e = { 0 };
    assert_int_equal(ot_dataset_number(d, name, 3, false, "m.onnx", &e), OT_OK);
    expect_row(d, "target", 0, (int[]){ 1, OT_IGNORED, OT_IGNORED, 0 }, 4);
    ot_dataset_free(d);
}

static void tags_refused(void **state)
{
    (void)state;
    ot_data_options o = { .input = open_length, .n_inputs = 2, .text = "bytes" };
#define FIRST "{\"tokens\":[\"a\",\"b\"],\"tags\":[\"O\",\"B\"]}\n"
    expect_refused("t.jsonl", FIRST "{\"tokens\":[\"a\"],\"tags\":[\"O\",\"B\"]}\n", &o, OT_E_DATA,
                   "line 2, column 'tags': has 2 tags for 1 word");
    expect_refused("t.jsonl", FIRST "{\"tokens\":[\"a\"],\"tags\":[1]}\n", &o, OT_E_DATA,
                   "line 2, column 'tags': expected a list of strings as in other lines, got [1]");
    expect_refused("t.jsonl", FIRST "{\"tokens\":[\"a\"],\"tags\":\"O\"}\n", &o, OT_E_DATA,
                   "line 2, column 'tags': expected a list of strings as in other lines, got O");
    expect_refused("t.jsonl", FIRST "{\"tokens\":[\"a\"]}\n", &o, OT_E_DATA,
                   "line 2: the target (column 'tags') is missing");
    expect_refused("t.jsonl", FIRST "{\"tokens\":[1],\"tags\":[\"O\"]}\n", &o, OT_E_DATA,
                   "line 2, column 'tokens': expected a list of words (strings), got [1]");
    expect_refused("t.jsonl", "{\"text\":\"a b\",\"tags\":[\"O\",\"B\"]}\n", &o, OT_E_DATA,
                   "tags of words need a list of words");
    o.tokenizer = TOKENIZERS "bert.json";
    o.text = NULL;
    o.columns = "tokens,more";
    expect_refused("t.jsonl", "{\"tokens\":[\"a\"],\"more\":[\"b\"],\"y\":1}\n", &o, OT_E_DATA,
                   "pairs of lists of words are not supported");
    o = (ot_data_options){ 0 };
    expect_refused("t.jsonl", FIRST, &o, OT_E_DATA,
                   "tags of words need a list of words in another column, and --tokenizer");
#undef FIRST
}

int ot_test_texts(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_unigram),   cmocka_unit_test(one_row_for_all), cmocka_unit_test(pairs_of_texts),
        cmocka_unit_test(as_bert),      cmocka_unit_test(as_roberta),      cmocka_unit_test(bytes_and_characters),
        cmocka_unit_test(lengths),      cmocka_unit_test(refused),         cmocka_unit_test(json_lines),
        cmocka_unit_test(folders),      cmocka_unit_test(tags_of_words),   cmocka_unit_test(tags_renumbered),
        cmocka_unit_test(tags_refused), cmocka_unit_test(conll),           cmocka_unit_test(conll_refused),
    };
    return cmocka_run_group_tests_name("texts", tests, ot_folder_make, ot_folder_remove);
}
