/* several.c - data sets of several files; arrays that are mapped. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/io.h"

enum { N = 12, EACH = 5 };

/* Writes a .npy of n rows of EACH floats (each 0: of n integers) as numpy does. */
static void put_npy(const char *name, int n, int each)
{
    unsigned char file[128 + N * EACH * 8] = "\x93NUMPY\x01";
    int k = snprintf((char *)file + 10, 119,
                     each ? "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }"
                          : "{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }",
                     n, each);
    memset(file + 10 + k, ' ', (size_t)(118 - k));
    file[8] = 118;
    for (int i = 0; i < n * (each ? each : 1); i++) {
        if (each) memcpy(file + 128 + 4 * i, &(float){ (float)i / 2 }, 4);
        else memcpy(file + 128 + 8 * i, &(int64_t){ i % 3 }, 8);
    }
    ot_folder_put(name, file, 128 + (size_t)n * (size_t)(each ? 4 * each : 8));
}

static ot_dataset *open_spec(const char *fmt, const ot_data_options *o, ot_status want, ot_error *e)
{
    char spec[600], *to = spec;
    ot_dataset *d;
    for (const char *p = fmt; *p; p++) /* $ is the folder */
        to += *p == '$' ? sprintf(to, "%s/", ot_test_folder) : (*to = *p, 1);
    *to = '\0';
    *e = (ot_error){ 0 };
    ot_status s = ot_dataset_open(spec, OT_SPLIT_TRAIN, o, &d, e);
    if (s != want) fail_msg("%s: status %d: %s", spec, (int)s, e->text);
    assert_int_equal(s == OT_OK, d != NULL);
    return d;
}

static void files_are_put_together(void **state)
{
    (void)state;
    ot_error e;
    put_npy("x.npy", N, EACH);
    put_npy("y=1.npy", N, 0);
    ot_dataset *d = open_spec("a/b:0=$x.npy\ntarget=$y=1.npy", NULL, OT_OK, &e);
    assert_int_equal(d->n, 2);
    assert_int_equal(d->samples, N);
    assert_int_equal(ot_dataset_find(d, "a/b:0")->t.dim[1], EACH);
    assert_int_equal(ot_dataset_find(d, "target")->role, OT_ARRAY_TARGET);
    assert_non_null(strstr(d->name, "x.npy + "));
    uint64_t hash = d->hash;
    ot_dataset_free(d);
    d = open_spec("a/b:0=$x.npy\ntarget=$y=1.npy", NULL, OT_OK, &e);
    assert_true(d->hash == hash);
    ot_dataset_free(d);
    d = open_spec("a=$x.npy\ntarget=$y=1.npy", NULL, OT_OK, &e);
    assert_true(d->hash != hash);
    ot_dataset_free(d);
    d = open_spec("$x.npy\ntarget=$y=1.npy", NULL, OT_OK, &e); /* the input without a name */
    assert_string_equal(d->array[0].t.name, "");
    ot_dataset_free(d);
    d = open_spec("input=$x.npy", NULL, OT_OK, &e);
    assert_string_equal(d->array[0].t.name, "input");
    ot_dataset_free(d);
    d = open_spec("$y=1.npy", NULL, OT_OK, &e); /* the name of a file */
    assert_string_equal(d->array[0].t.name, "");
    ot_dataset_free(d);
    d = open_spec(FIXTURES "savez.npz\nmore=$x.npy", NULL, OT_OK, &e);
    assert_true(d->n > 1 && ot_dataset_find(d, "more"));
    ot_dataset_free(d);
}

static void what_cannot_be_put_together(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *why;
        ot_status s;
    } row[] = {
        { "a=$x.npy\na=$x.npy", "two arrays are named 'a'", OT_E_DATA },
        { "$x.npy\n$y.npy", "name them: --data INPUT=FILE", OT_E_DATA },
        { "a=$none.npy", "none.npy: cannot be opened", OT_E_IO },
        { "a=$x.npy\n$t.csv", "t.csv: only files of arrays", OT_E_DATA },
        { "a=$t.csv", "t.csv: only files of arrays", OT_E_DATA },
        { "a=$x.npy\nb=$", "is not a file", OT_E_DATA },
        { "a=$x.npy\nb=mnist", "cannot be opened", OT_E_IO },
        { "a=" FIXTURES "savez.npz", "which keep their names: give it without 'a='", OT_E_DATA },
        { FIXTURES "savez.npz\n" FIXTURES "savez.npz", "two arrays are named", OT_E_DATA },
        { "a=$x.npy\n", "cannot be opened", OT_E_IO },
    };
    put_npy("x.npy", N, EACH);
    put_npy("y.npy", N, 0);
    ot_folder_put("t.csv", "a,b\n1,2\n", 8);
    for (int i = 0; i < OT_LEN(row); i++) {
        ot_error e;
        open_spec(row[i].spec, NULL, row[i].s, &e);
        if (!strstr(e.text, row[i].why)) fail_msg("%s: no '%s' in '%s'", row[i].spec, row[i].why, e.text);
    }
}

/* ---- mapped arrays ---------------------------------------------------------------- */

static const ot_data_options mapping = { .map_from = 1 };

static void mapped_is_what_is_read(void **state)
{
    (void)state;
    static const char *const whole[] = { "little-f4", "little-i8", "byte-u1", "version2", "little-f2" };
    static const char *const read[] = { "big-i8", "byte-b1", "fortran" };
    ot_error e;
    for (int i = 0; i < OT_LEN(whole) + OT_LEN(read); i++) {
        char spec[300];
        bool maps = i < OT_LEN(whole);
        snprintf(spec, sizeof spec, FIXTURES "%s.npy", maps ? whole[i] : read[i - OT_LEN(whole)]);
        ot_dataset *a = open_spec(spec, NULL, OT_OK, &e), *b = open_spec(spec, &mapping, OT_OK, &e);
        ot_shape s = ot_array_shape(a->array), q = ot_array_shape(b->array);
        assert_int_equal(b->array[0].mapped, maps);
        assert_true(!a->array[0].mapped && ot_shape_eq(&s, &q) && a->array[0].t.dtype == b->array[0].t.dtype);
        assert_memory_equal(a->array[0].t.data, b->array[0].t.data, ot_bytes(&s, a->array[0].t.dtype));
        assert_int_equal(ot_dataset_bytes(b), maps ? 0 : ot_dataset_bytes(a));
        ot_dataset_free(a);
        ot_dataset_free(b);
    }
}

static void mapped_samples_are_split(void **state)
{
    (void)state;
    ot_error e = { 0 };
    int classes;
    put_npy("x.npy", N, EACH);
    put_npy("y.npy", N, 0);
    ot_dataset *v, *d = open_spec("a=$x.npy\ntarget=$y.npy", &mapping, OT_OK, &e);
    assert_int_equal(ot_dataset_split(d, 0.25, 1, &v, &classes, &e), OT_OK);
    assert_int_equal(d->samples + v->samples, N);
    for (int k = 0; k < 2; k++) {
        const ot_dataset *of = k ? v : d;
        float row[EACH];
        int64_t label;
        for (int64_t i = 0; i < of->samples; i++) {
            ot_gather g = { .src = &of->array[0], .dtype = OT_F32, .elements = EACH, .channels = 1, .inner = 1 };
            ot_gather_run(&g, &i, 1, row, 1);
            assert_true(row[2] == (float)(ot_dataset_origin(of, i) * EACH + 2) / 2);
            label = ot_get_i64(of->array[1].t.data, OT_I64, ot_array_at(&of->array[1], i));
            assert_int_equal(label, ot_dataset_origin(of, i) % 3);
        }
    }
    ot_dataset_free(v);
    ot_dataset_free(d);
}

/* A mapped array is said to be good as a whole; a batch of it is looked at. */
static void mapped_samples_are_checked(void **state)
{
    (void)state;
    ot_error e = { 0 };
    char path[128];
    put_npy("x.npy", N, EACH);
    snprintf(path, sizeof path, "%s/x.npy", ot_test_folder);
    FILE *f = fopen(path, "r+b");
    float bad[] = { (float)NAN, 1e30f };
    assert_true(f && !fseek(f, 128 + 4 * (7 * EACH + 3), SEEK_SET) && fwrite(bad, 4, 1, f) == 1);
    assert_true(!fseek(f, 128 + 4 * 9 * EACH, SEEK_SET) && fwrite(bad + 1, 4, 1, f) == 1 && !fclose(f));
    ot_dataset *d = open_spec("a=$x.npy", &mapping, OT_OK, &e);
    assert_int_equal(ot_dataset_check(d, &e), OT_OK);
    assert_int_equal(ot_array_check_sample(d->array, 6, 6, OT_F16, &e), OT_OK);
    assert_int_equal(ot_array_check_sample(d->array, 7, 77, OT_F32, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "a: sample 77 contains NaN"));
    e = (ot_error){ 0 };
    assert_int_equal(ot_array_check_sample(d->array, 9, 9, OT_F32, &e), OT_OK);
    assert_int_equal(ot_array_check_sample(d->array, 9, 9, OT_F16, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "sample 9 has value 1.00000002e+30, which does not fit into float16"));
    ot_dataset_free(d);
}

static void mapped_files_cut_and_turned(void **state)
{
    (void)state;
    ot_error e;
    void *p;
    size_t n;
    char path[128];
    memory_file m;
    put_npy("x.npy", N, EACH);
    snprintf(path, sizeof path, "%s/x.npy", ot_test_folder);
    e = (ot_error){ 0 };
    assert_int_equal(ot_read_file(path, 1 << 20, &p, &n, &e), OT_OK);
    ot_memory_begin(&m);
    for (size_t keep = 0; keep < n; keep += OT_SPARSE) {
        ot_memory_set(&m, p, keep);
        open_spec(m.path, &mapping, OT_E_DATA, &e);
    }
    for (size_t bit = 0; bit < 8 * n; bit += OT_SPARSE_BITS) {
        unsigned char *b = p;
        ot_dataset *d;
        b[bit / 8] ^= (unsigned char)(1u << bit % 8);
        ot_memory_set(&m, p, n);
        e = (ot_error){ 0 };
        ot_status s = ot_dataset_open(m.path, OT_SPLIT_TRAIN, &mapping, &d, &e);
        assert_true(s == e.status && (!s || s == OT_E_DATA));
        if (d && d->samples && d->array[0].t.rank) {
            ot_error bad = { 0 };
            for (int64_t i = 0; i < d->samples; i++) (void)ot_array_check_sample(d->array, i, i, OT_F32, &bad);
        }
        ot_dataset_free(d);
        b[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    ot_memory_end(&m);
    free(p);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, ot_folder_make, ot_folder_remove)

int ot_test_several(void)
{
    const struct CMUnitTest several[] = {
        IN_FOLDER(files_are_put_together),        IN_FOLDER(what_cannot_be_put_together),
        cmocka_unit_test(mapped_is_what_is_read), IN_FOLDER(mapped_samples_are_split),
        IN_FOLDER(mapped_samples_are_checked),    IN_FOLDER(mapped_files_cut_and_turned),
    };
    return cmocka_run_group_tests(several, NULL, NULL);
}
