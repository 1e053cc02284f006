/* tfrecord.c - records of TensorFlow: arrays, images, shards; records cut, with turned bits, forged. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/crc32c.h"

static ot_dataset *open_path(const char *path)
{
    ot_dataset *d;
    ot_error e = { 0 };
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e)) fail_msg("%s", e.text);
    return d;
}

static void arrays(void **state)
{
    (void)state;
    ot_dataset *d = open_path(FIXTURES "four.tfrecord");
    assert_int_equal(d->samples, 4);
    assert_int_equal(d->n, 4);
    const ot_array *x = ot_dataset_find(d, "x"), *y = ot_dataset_find(d, "target"), *raw = ot_dataset_find(d, "raw"),
                   *word = ot_dataset_find(d, "word");
    static const char *const words[] = { "a", "ü", "", "long" };
    assert_true(x && y && raw && word);
    assert_true(x->t.dtype == OT_F32 && x->t.rank == 2 && x->t.dim[1] == 3 && x->flat);
    assert_true(y->t.dtype == OT_I64 && y->t.rank == 1 && y->role == OT_ARRAY_TARGET);
    assert_true(raw->t.dtype == OT_U8 && raw->t.rank == 2 && raw->t.dim[1] == 3);
    for (int i = 0; i < 12; i++) assert_true(((float *)x->t.data)[i] == (float)(i * 3 - 10) / 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(((int64_t *)y->t.data)[i], i * 3 - 10);
        assert_int_equal(((uint8_t *)raw->t.data)[3 * i + 1], (2 * i + 1) * 3);
        assert_string_equal(((char **)word->t.data)[i], words[i]);
    }
    assert_non_null(strstr(d->notes, "feature 'ragged' is not used: 0 to 4 elements in a record"));
    ot_dataset_free(d);
    d = open_path(FIXTURES "one.tfrecord.gz");
    const int64_t *many = ot_dataset_find(d, "many")->t.data;
    assert_true(many[0] == -1 && many[1] == INT64_C(1) << 62 && many[2] == INT64_MIN);
    ot_dataset_free(d);
}

/* The same images in one file, packed, and in two files. */
static void images(void **state)
{
    (void)state;
    static const char *const file[] = { "images.tfrecord", "images.tfrecord.gz", "images.tfrecord-00000-of-00002" };
    for (int k = 0; k < OT_LEN(file); k++) {
        char path[300];
        snprintf(path, sizeof path, FIXTURES "%s", file[k]);
        ot_dataset *d = open_path(path);
        const ot_array *x = ot_dataset_find(d, "image/encoded"), *y = ot_dataset_find(d, "image/class/label");
        assert_int_equal(d->samples, 6);
        assert_true(x && x->source && x->picture && x->mapped && x->source->channels == 3 && !x->source->height);
        assert_int_equal(y->role, OT_ARRAY_TARGET);
        assert_non_null(strstr(d->notes, "the target is feature 'image/class/label'"));
        ot_image_room room = { 0 };
        for (int64_t i = 0; i < 6; i++) {
            ot_image im;
            ot_error e = { 0 };
            if (x->source->read(x->source, i, 3, &room, &im, &e)) fail_msg("%s", e.text);
            assert_true(im.height == 2 + i % 2 && im.width == 3 && im.data[0] == 40 * i && im.data[2] == 200);
        }
        ot_image_room_free(&room);
        ot_dataset_free(d);
    }
    ot_dataset *d = open_path(FIXTURES "images.tfrecord-00001-of-00002");
    assert_int_equal(d->samples, 2); /* that file alone */
    ot_dataset_free(d);
}

/* Cut anywhere but between records it is an error, and so is every turned bit; what is left can be read. */
static void cut_and_turned(void **state)
{
    (void)state;
    memory_file m;
    ot_memory_begin(&m);
    static const char *const file[] = { "four.tfrecord", "images.tfrecord" };
    for (int k = 0; k < OT_LEN(file); k++) {
        size_t n, accepted = 0;
        unsigned char *p = ot_fixture_load(file[k], &n);
        for (size_t keep = 1; keep < n; keep++) {
            ot_dataset *d;
            ot_error e = { 0 };
            ot_memory_set(&m, p, keep);
            accepted += !ot_dataset_open(m.path, OT_SPLIT_TRAIN, NULL, &d, &e);
            if (e.status && (e.status != OT_E_DATA || !strstr(e.text, m.path))) fail_msg("%s", e.text);
            ot_dataset_free(d);
        }
        assert_int_equal(accepted, k ? 5 : 3);
        for (size_t bit = 0; bit < 8 * n; bit += OT_SPARSE_BITS) {
            ot_dataset *d;
            ot_error e = { 0 };
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
            ot_memory_set(&m, p, n);
            ot_status s = ot_dataset_open(m.path, OT_SPLIT_TRAIN, NULL, &d, &e);
            if (s != OT_E_DATA || d) fail_msg("%s: bit %zu: status %d", file[k], bit, (int)s);
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        free(p);
    }
    ot_memory_end(&m);
}

/* Messages that lie, with right checksums: every byte of a good one becomes every value. */
static void lying_messages(void **state)
{
    (void)state;
    static const struct {
        const char *message, *why;
        size_t n;
    } row[] = {
        { "\x0a\x7f", "is not a tf.Example", 2 },
        { "\x0a\x03\x0a\x01\x0a", "feature is malformed", 5 },
        { "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "is not a tf.Example", 11 },
        { "\x0b", "is not a tf.Example", 1 },
        { "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x12\x04\x0a\x03\x01\x02\x03", "list of values is malformed", 16 },
        { "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a\x02\x01\xff", "list of values is malformed", 15 },
        { "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a\x03\x01\x02", "is not a tf.Example", 14 },
        { "\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x07", "ok", 14 },
        { "\x0a\x0a\x0a\x08\x0a\x01\0\x12\x03\x1a\x01\x01", "malformed", 12 },
        { "\x0a\x1a\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a\x02\x01\x07\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a\x02\x01\x07",
          "has a feature twice", 28 },
        { "", "no feature of its records", 0 },
    };
    memory_file m;
    ot_crc32c c;
    ot_crc32c_init(&c);
    ot_memory_begin(&m);
    for (int i = 0; i < OT_LEN(row); i++) {
        for (int turn = -1; turn < (int)row[i].n * 256; turn++) {
            unsigned char file[64] = { (unsigned char)row[i].n };
            ot_dataset *d;
            ot_error e = { 0 };
            size_t n = row[i].n;
            memcpy(file + 8, &(uint32_t){ ot_crc32c_masked(&c, file, 8) }, 4);
            memcpy(file + 12, row[i].message, n);
            if (turn >= 0) file[12 + turn / 256] = (unsigned char)turn;
            memcpy(file + 12 + n, &(uint32_t){ ot_crc32c_masked(&c, file + 12, n) }, 4);
            ot_memory_set(&m, file, 16 + n);
            ot_status s = ot_dataset_open(m.path, OT_SPLIT_TRAIN, NULL, &d, &e);
            assert_true(s == OT_OK || s == OT_E_DATA);
            if (turn < 0 && strcmp(s ? e.text : "ok", row[i].why) && !strstr(e.text, row[i].why))
                fail_msg("%d: no '%s' in '%s'", i, row[i].why, e.text);
            ot_dataset_free(d);
        }
    }
    unsigned char large[16] = { 0, 0, 0, 0, 0, 1 }; /* a record of a TiB */
    ot_dataset *d;
    ot_error e = { 0 };
    memcpy(large + 8, &(uint32_t){ ot_crc32c_masked(&c, large, 8) }, 4);
    ot_memory_set(&m, large, sizeof large);
    assert_int_equal(ot_dataset_open(m.path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "has 1099511627776 bytes"));
    ot_memory_end(&m);
}

/* Shards that are not there, or are others. */
static void shards(void **state)
{
    (void)state;
    size_t n;
    char path[200];
    ot_dataset *d;
    ot_error e = { 0 };
    unsigned char *p = ot_fixture_load("images.tfrecord-00000-of-00002", &n);
    ot_folder_put("a-00000-of-00002", p, n);
    snprintf(path, sizeof path, "%s/a-00000-of-00002", ot_test_folder);
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_E_IO);
    assert_non_null(strstr(e.text, "a-00001-of-00002: cannot be opened"));
    free(p);
    p = ot_fixture_load("four.tfrecord", &n);
    ot_folder_put("a-00001-of-00002", p, n);
    free(p);
    e = (ot_error){ 0 };
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "no feature of its records"));
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, ot_folder_make, ot_folder_remove)

int ot_test_tfrecord(void)
{
    const struct CMUnitTest records[] = {
        cmocka_unit_test(arrays),         cmocka_unit_test(images), cmocka_unit_test(cut_and_turned),
        cmocka_unit_test(lying_messages), IN_FOLDER(shards),
    };
    return cmocka_run_group_tests(records, NULL, NULL);
}
