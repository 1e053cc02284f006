/* sets.c - named sets and the folders searched for them; samples, targets, checks. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder with `n` pictures of 2×2 and their labels. */
static void put_idx(const char *folder, const char *prefix, int n, int label)
{
    unsigned char images[16 + 4 * 20] = { 0, 0, 8, 3, 0, 0, 0, (unsigned char)n, 0, 0, 0, 2, 0, 0, 0, 2 };
    unsigned char labels[8 + 20] = { 0, 0, 8, 1, 0, 0, 0, (unsigned char)n };
    char name[128];
    memset(labels + 8, label, (size_t)n);
    for (int i = 0; i < 4 * n; i++) images[16 + i] = (unsigned char)(i * 5);
    snprintf(name, sizeof name, "%s/%s-images-idx3-ubyte", folder, prefix);
    ot_folder_put(name, images, 16 + 4 * (size_t)n);
    snprintf(name, sizeof name, "%s/%s-labels-idx1-ubyte", folder, prefix);
    ot_folder_put(name, labels, 8 + (size_t)n);
}

static ot_dataset *open_set(const char *spec, ot_split split, ot_status want, ot_error *e)
{
    const char *search[] = { ot_test_folder, NULL };
    ot_dataset *d;
    *e = (ot_error){ 0 };
    ot_status s = ot_dataset_open(spec, split, &(ot_data_options){ .search = search }, &d, e);
    if (s != want) fail_msg("%s: status %d, not %d: %s", spec, s, want, e->text);
    return d;
}

static void named_set(void **state)
{
    (void)state;
    ot_error e;
    put_idx("kmnist", "train", 5, 9);
    put_idx("kmnist", "t10k", 3, 1);
    ot_dataset *d = open_set("kmnist", OT_SPLIT_TRAIN, OT_OK, &e);
    assert_true(d->samples == 5 && d->n_classes == 10 && d->class_name != NULL);
    assert_string_equal(d->name, "kmnist");
    ot_dataset *t = open_set("kmnist", OT_SPLIT_TEST, OT_OK, &e);
    assert_int_equal(t->samples, 3);
    assert_true(t->hash != d->hash);
    ot_dataset_free(t);
    t = open_set("kmnist", OT_SPLIT_TRAIN, OT_OK, &e);
    assert_true(t->hash == d->hash);
    ot_dataset_free(t);
    ot_dataset_free(d);
    put_idx("kmnist", "train", 5, 10); /* a label that is none */
    assert_null(open_set("kmnist", OT_SPLIT_TRAIN, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "label 10"));
}

static void a_set_without_test_part(void **state)
{
    (void)state;
    ot_error e;
    put_idx("kmnist", "train", 5, 9);
    assert_null(open_set("kmnist", OT_SPLIT_TEST, OT_OK, &e));
    char path[128];
    snprintf(path, sizeof path, "%s/kmnist", ot_test_folder); /* the same folder, by its path */
    assert_null(open_set(path, OT_SPLIT_TEST, OT_OK, &e));
    ot_dataset *d = open_set(path, OT_SPLIT_TRAIN, OT_OK, &e);
    assert_int_equal(d->samples, 5);
    ot_dataset_free(d);
}

static void sets_that_are_not_there(void **state)
{
    (void)state;
    ot_error e;
    assert_null(open_set("kmnist", OT_SPLIT_TRAIN, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, ot_test_folder)); /* where it looked … */
    assert_non_null(strstr(e.text, "./data/kmnist"));
    assert_non_null(strstr(e.text, "codh.rois.ac.jp")); /* … and where to get it */
    assert_null(open_set("no-such-set", OT_SPLIT_TRAIN, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "fashion-mnist"));
    assert_null(open_set(ot_test_folder, OT_SPLIT_TRAIN, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "the folder is empty"));
    put_idx("kmnist", "train", 5, 1);
    char path[128];
    snprintf(path, sizeof path, "%s/kmnist/train-labels-idx1-ubyte", ot_test_folder);
    assert_int_equal(unlink(path), 0);
    assert_null(open_set("kmnist", OT_SPLIT_TRAIN, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "the file of labels is missing"));
}

/* $ONNXTRAIN_DATA and $XDG_DATA_HOME are asked, in this order. */
static void environment(void **state)
{
    (void)state;
    ot_error e = { 0 };
    ot_dataset *d;
    char first[128], second[128];
    put_idx("one/kmnist", "train", 2, 1);
    put_idx("two/onnxtrain/kmnist", "train", 3, 1);
    snprintf(first, sizeof first, "%s/one", ot_test_folder);
    snprintf(second, sizeof second, "%s/two", ot_test_folder);
    setenv("XDG_DATA_HOME", second, 1);
    assert_int_equal(ot_dataset_open("kmnist", OT_SPLIT_TRAIN, NULL, &d, &e), OT_OK);
    assert_int_equal(d->samples, 3);
    ot_dataset_free(d);
    setenv("ONNXTRAIN_DATA", first, 1);
    assert_int_equal(ot_dataset_open("kmnist", OT_SPLIT_TRAIN, NULL, &d, &e), OT_OK);
    assert_int_equal(d->samples, 2);
    ot_dataset_free(d);
    unsetenv("ONNXTRAIN_DATA");
    unsetenv("XDG_DATA_HOME");
}

static void mnist_of_the_source_tree(void **state)
{
    (void)state;
    ot_error e = { 0 };
    ot_dataset *d;
    const char *search[] = { OT_SOURCE_ROOT "/models/data", NULL };
    if (ot_dataset_open("mnist", OT_SPLIT_TEST, &(ot_data_options){ .search = search }, &d, &e)) fail_msg("%s", e.text);
    assert_int_equal(d->samples, 10000);
    const uint8_t *y = d->array[1].t.data;
    static const uint8_t first[10] = { 7, 2, 1, 0, 4, 1, 4, 9, 5, 9 };
    assert_memory_equal(y, first, sizeof first);
    ot_picture q;
    assert_true(ot_picture_of(&d->array[0], &q) && q.h == 28 && q.w == 28 && q.c == 1);
    assert_false(ot_picture_of(&d->array[1], &q));
    ot_dataset_free(d);
}

static void cifar(void **state)
{
    (void)state;
    enum { RECORD = 3073 };
    unsigned char *b = calloc(3, RECORD + 1);
    ot_error e;
    for (int i = 0; i < 3; i++) {
        b[i * RECORD] = (unsigned char)(7 + i);
        b[i * RECORD + 1] = (unsigned char)(100 + i);
    }
    ot_folder_put("cifar10/data_batch_1.bin", b, 2 * RECORD);
    ot_folder_put("cifar10/data_batch_2.bin", b + RECORD, 2 * RECORD);
    ot_folder_put("cifar10/test_batch.bin", b, RECORD);
    ot_dataset *d = open_set("cifar10", OT_SPLIT_TRAIN, OT_OK, &e);
    const uint8_t *y = d->array[1].t.data, *x = d->array[0].t.data;
    assert_true(d->samples == 4 && y[0] == 7 && y[1] == 8 && y[2] == 8 && y[3] == 9);
    assert_true(x[0] == 100 && x[3072] == 101 && x[3 * 3072] == 102 && d->array[0].picture);
    assert_string_equal(d->class_name[y[0]], "horse");
    ot_dataset_free(d);
    d = open_set("cifar10", OT_SPLIT_TEST, OT_OK, &e);
    assert_int_equal(d->samples, 1);
    ot_dataset_free(d);
    ot_folder_put("cifar10/data_batch_2.bin", b, RECORD - 1);
    assert_null(open_set("cifar10", OT_SPLIT_TRAIN, OT_E_DATA, &e));
    b[0] = 1, b[1] = 99, b[3074] = 2, b[3075] = 42; /* CIFAR-100: coarse and fine */
    ot_folder_put("cifar100/train.bin", b, 2 * (RECORD + 1));
    d = open_set("cifar100", OT_SPLIT_TRAIN, OT_OK, &e);
    y = d->array[1].t.data;
    assert_true(d->samples == 2 && d->n_classes == 100 && y[0] == 99 && y[1] == 42);
    ot_dataset_free(d);
    free(b);
}

/* ---- samples -------------------------------------------------------------------- */

typedef struct spec {
    const char *name;
    int rank;
    int64_t dim0;
} spec;

static ot_dataset *make_npz(const spec *row, int n)
{
    static int64_t zeros[64];
    ot_tensor t[8];
    char path[128];
    ot_error e = { 0 };
    ot_dataset *d;
    for (int i = 0; i < n; i++)
        t[i] = (ot_tensor){
            .name = row[i].name, .dtype = OT_I64, .rank = row[i].rank, .dim = { row[i].dim0, 2 }, .data = zeros
        };
    snprintf(path, sizeof path, "%s/s.npz", ot_test_folder);
    assert_int_equal(ot_npz_write(path, t, n, &e), OT_OK);
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e)) fail_msg("%s", e.text);
    return d;
}

static void sample_count(void **state)
{
    (void)state;
    ot_dataset *d =
        make_npz((spec[]){ { "a", 2, 9 }, { "target_y", 1, 7 }, { "target", 1, 5 }, { "b", 2, 5 }, { "c", 0, 0 } }, 5);
    assert_int_equal(d->samples, 5); /* the target's; `target` before the others */
    assert_true(d->array[0].whole && d->array[1].whole && !d->array[2].whole && !d->array[3].whole &&
                d->array[4].whole);
    assert_true(d->array[1].role == OT_ARRAY_TARGET && d->array[3].role == OT_ARRAY_INPUT);
    ot_error e = { 0 };
    assert_int_equal(ot_dataset_target(d, "a", &e), OT_OK);
    assert_true(d->samples == 9 && !d->array[0].whole && d->array[2].whole);
    assert_true(d->array[0].role == OT_ARRAY_TARGET && d->array[2].role == OT_ARRAY_INPUT);
    assert_int_equal(ot_dataset_target(d, "z", &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "target_y"));
    ot_dataset_free(d);
    d = make_npz((spec[]){ { "table", 2, 30 }, { "x", 2, 4 }, { "y", 1, 4 } }, 3);
    assert_true(d->samples == 4 && d->array[0].whole && !d->array[1].whole);
    ot_dataset_free(d);
    d = make_npz((spec[]){ { "x", 2, 0 }, { "target", 1, 0 } }, 2);
    assert_true(d->samples == 0 && !d->array[0].whole);
    ot_dataset_free(d);
    d = make_npz((spec[]){ { "x", 0, 0 } }, 1);
    assert_true(d->samples == 0 && d->array[0].whole);
    ot_dataset_free(d);
}

/* One rule for NaN and infinity, in every float type, at every position. */
static void only_finite_values(void **state)
{
    (void)state;
    static const ot_dtype type[] = { OT_F32, OT_F64, OT_F16, OT_BF16 };
    static const double value[] = { NAN, INFINITY, -INFINITY };
    static double room[4000];
    for (int i = 0; i < OT_LEN(type); i++) {
        ot_array a = { .t = { .name = "x", .dtype = type[i], .rank = 2, .dim = { 1000, 3 }, .data = room } };
        ot_dataset d = { .name = "set", .samples = 1000, .n = 1, .array = &a };
        for (int k = 0; k < 3000; k++) ot_set_f64(room, type[i], k, k % 7 ? 1 : -1);
        ot_error e = { 0 };
        assert_int_equal(ot_dataset_check(&d, &e), OT_OK);
        for (int at = 0; at < 3000 * OT_LEN(value); at += 577) {
            double v = value[at / 3000];
            int place = at % 3000;
            double was = ot_get_f64(room, type[i], place);
            char want[32];
            e = (ot_error){ 0 };
            ot_set_f64(room, type[i], place, v);
            assert_int_equal(ot_dataset_check(&d, &e), OT_E_DATA);
            snprintf(want, sizeof want, "set: x: sample %d ", place / 3);
            assert_non_null(strstr(e.text, want));
            assert_non_null(strstr(e.text, isnan(v) ? "NaN" : v > 0 ? "infinity" : "negative infinity"));
            ot_set_f64(room, type[i], place, was);
        }
    }
}

/* What is added to scores before a softmax may forbid by negative infinity; nothing else may hold one. */
static void masks_are_meant(void **state)
{
    (void)state;
    float m[6] = { 0, -INFINITY, 0, 0, -INFINITY, -INFINITY };
    ot_array a = { .t = { .name = "mask", .dtype = OT_F32, .rank = 2, .dim = { 2, 3 }, .data = m } };
    ot_dataset d = { .name = "set", .samples = 2, .n = 1, .array = &a };
    ot_error e = { 0 };
    assert_int_equal(ot_dataset_check(&d, &e), OT_OK);
    a.role = OT_ARRAY_TARGET;
    assert_int_equal(ot_dataset_check(&d, &e), OT_E_DATA);
    a.role = OT_ARRAY_INPUT;
    m[5] = 0.5f;
    e = (ot_error){ 0 };
    assert_int_equal(ot_dataset_check(&d, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "mask: sample 0 contains negative infinity"));
    assert_non_null(strstr(e.text, "masks of 0 and negative infinity"));
    m[5] = INFINITY;
    e = (ot_error){ 0 };
    assert_int_equal(ot_dataset_check(&d, &e), OT_E_DATA);
}

static bool fits(ot_dtype from, double v, ot_dtype to)
{
    double room[3] = { 0 };
    ot_array a = { .t = { .name = "x", .dtype = from, .rank = 1, .dim = { 3 }, .data = room } };
    ot_error e = { 0 };
    ot_set_f64(room, from, 2, v);
    ot_status s = ot_array_fits(&a, to, &e);
    if (s) assert_true(s == OT_E_DATA && strstr(e.text, "sample 2"));
    return s == OT_OK;
}

static void values_that_fit(void **state)
{
    (void)state;
    assert_true(fits(OT_I64, 127, OT_I8) && !fits(OT_I64, 128, OT_I8));
    assert_true(fits(OT_I64, -128, OT_I8) && !fits(OT_I64, -129, OT_I8));
    assert_true(fits(OT_I64, 255, OT_U8) && !fits(OT_I64, -1, OT_U8) && !fits(OT_I64, 256, OT_U8));
    assert_true(fits(OT_U64, 0x1p62, OT_I64) && !fits(OT_U64, 0x1p63, OT_I64));
    assert_true(fits(OT_F32, 65519, OT_F16) && !fits(OT_F32, 65520, OT_F16) && !fits(OT_I32, -70000, OT_F16));
    assert_true(fits(OT_F64, 3.4e38, OT_F32) && !fits(OT_F64, -3.5e38, OT_F32) && !fits(OT_F64, 1e300, OT_F32));
    assert_true(fits(OT_F64, (double)-INFINITY, OT_F32) && fits(OT_F64, 1e300, OT_F64));
    assert_true(fits(OT_I64, 1, OT_BOOL) && !fits(OT_I64, 2, OT_BOOL) && !fits(OT_U8, 2, OT_BOOL));
    assert_true(fits(OT_F32, 3, OT_I32) && !fits(OT_F32, 3.5, OT_I32) && !fits(OT_F64, (double)NAN, OT_I32));
    assert_true(!fits(OT_F64, 0x1p63, OT_I64) && fits(OT_F64, -0x1p63, OT_I64) && fits(OT_F64, 0x1p63, OT_U64));
    assert_true(fits(OT_I64, 1e18, OT_F32) && fits(OT_I32, -5, OT_I64) && fits(OT_U32, 4e9, OT_I64));
    assert_true(!fits(OT_I8, -5, OT_U64) && fits(OT_I8, 5, OT_U64));
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, ot_folder_make, ot_folder_remove)

int ot_test_sets(void)
{
    const struct CMUnitTest sets[] = {
        IN_FOLDER(named_set),
        IN_FOLDER(a_set_without_test_part),
        IN_FOLDER(sets_that_are_not_there),
        IN_FOLDER(environment),
        cmocka_unit_test(mnist_of_the_source_tree),
        IN_FOLDER(cifar),
        IN_FOLDER(sample_count),
        cmocka_unit_test(only_finite_values),
        cmocka_unit_test(masks_are_meant),
        cmocka_unit_test(values_that_fit),
    };
    return cmocka_run_group_tests(sets, NULL, NULL);
}
