/* formats.c - reads files written by numpy and gzip; reads back our own files.
 *
 * The values of the fixtures follow the rule in make_fixtures.py. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"

static double value(ot_dtype t, int64_t i)
{
    if (t == OT_BOOL) return i % 3 == 0;
    if (!ot_is_signed(t)) return (double)(i * 3);
    return (double)(i * 3 - 10) / (ot_is_float(t) ? 2 : 1);
}

static void assert_array(const ot_array *a, ot_dtype t, int rank, const int64_t *dim)
{
    assert_non_null(a);
    assert_string_equal(ot_dtype_name(a->t.dtype), ot_dtype_name(t));
    assert_int_equal(a->t.rank, rank);
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        assert_int_equal(a->t.dim[i], dim[i]);
        n *= dim[i];
    }
    for (int64_t i = 0; i < n; i++)
        if (ot_get_f64(a->t.data, t, i) != value(t, i))
            fail_msg("%s: element %d is %g, not %g", ot_dtype_name(t), (int)i, ot_get_f64(a->t.data, t, i),
                     value(t, i));
}

static ot_dataset *open_fixture(const char *name)
{
    char path[512];
    ot_dataset *d;
    ot_error e = { 0 };
    snprintf(path, sizeof path, FIXTURES "%s", name);
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e)) fail_msg("%s", e.text);
    assert_string_equal(d->name, path);
    return d;
}

static void npy_types(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ot_dtype t;
    } row[] = {
        { "little-f2", OT_F16 }, { "little-f4", OT_F32 }, { "little-f8", OT_F64 }, { "big-f2", OT_F16 },
        { "big-f4", OT_F32 },    { "big-f8", OT_F64 },    { "little-i2", OT_I16 }, { "little-i4", OT_I32 },
        { "little-i8", OT_I64 }, { "big-i2", OT_I16 },    { "big-i4", OT_I32 },    { "big-i8", OT_I64 },
        { "little-u2", OT_U16 }, { "little-u4", OT_U32 }, { "little-u8", OT_U64 }, { "big-u2", OT_U16 },
        { "big-u4", OT_U32 },    { "big-u8", OT_U64 },    { "byte-i1", OT_I8 },    { "byte-u1", OT_U8 },
        { "byte-b1", OT_BOOL },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.npy", row[i].name);
        ot_dataset *d = open_fixture(name);
        assert_int_equal(d->n, 1);
        assert_int_equal(d->samples, 3);
        assert_false(d->array[0].picture);
        assert_array(&d->array[0], row[i].t, 2, (int64_t[]){ 3, 4 });
        ot_dataset_free(d);
    }
}

static void npy_forms(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ot_dtype t;
        int rank;
        int64_t dim[3];
    } row[] = {
        { "fortran.npy", OT_F32, 3, { 2, 3, 4 } }, { "fortran-big.npy", OT_I32, 2, { 3, 4 } },
        { "version2.npy", OT_F32, 2, { 3, 4 } },   { "version3.npy", OT_F32, 2, { 3, 4 } },
        { "scalar.npy", OT_F64, 0, { 0 } },        { "empty.npy", OT_F32, 2, { 0, 5 } },
        { "vector.npy", OT_I64, 1, { 5 } },        { "packed.npy.gz", OT_F32, 2, { 3, 4 } },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        ot_dataset *d = open_fixture(row[i].name);
        assert_array(&d->array[0], row[i].t, row[i].rank, row[i].dim);
        assert_int_equal(d->array[0].whole, row[i].rank == 0);
        ot_dataset_free(d);
    }
}

static void idx_files(void **state)
{
    (void)state;
    static const char *const image[] = { "plain-images-idx3-ubyte", "packed-images-idx3-ubyte.gz" };
    for (int i = 0; i < OT_LEN(image); i++) {
        ot_dataset *d = open_fixture(image[i]);
        assert_int_equal(d->n, 2);
        assert_int_equal(d->samples, 4);
        assert_array(&d->array[0], OT_U8, 3, (int64_t[]){ 4, 2, 3 });
        assert_array(&d->array[1], OT_U8, 1, (int64_t[]){ 4 });
        assert_true(d->array[0].picture && d->array[0].role == OT_ARRAY_INPUT);
        assert_true(!d->array[1].picture && d->array[1].role == OT_ARRAY_TARGET);
        ot_dataset_free(d);
    }
    static const struct {
        const char *name;
        ot_dtype t;
    } row[] = {
        { "vector-i1.idx", OT_I8 },  { "vector-i2.idx", OT_I16 }, { "vector-i4.idx", OT_I32 },
        { "vector-f4.idx", OT_F32 }, { "vector-f8.idx", OT_F64 },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        ot_dataset *d = open_fixture(row[i].name);
        assert_array(&d->array[0], row[i].t, 1, (int64_t[]){ 6 });
        ot_dataset_free(d);
    }
}

static void npz_archives(void **state)
{
    (void)state;
    static const char *const name[] = { "stored.npz", "deflated.npz", "streamed.npz" };
    for (int i = 0; i < OT_LEN(name); i++) {
        ot_dataset *d = open_fixture(name[i]);
        assert_int_equal(d->n, 4);
        assert_int_equal(d->samples, 4);
        assert_array(ot_dataset_find(d, "x"), OT_F32, 2, (int64_t[]){ 4, 3 });
        assert_array(ot_dataset_find(d, "target"), OT_I64, 1, (int64_t[]){ 4 });
        assert_array(ot_dataset_find(d, "/conv/gewïcht"), OT_F64, 2, (int64_t[]){ 2, 2 });
        assert_array(ot_dataset_find(d, "rate"), OT_F32, 0, NULL);
        assert_int_equal(ot_dataset_find(d, "target")->role, OT_ARRAY_TARGET);
        assert_int_equal(ot_dataset_find(d, "x")->role, OT_ARRAY_INPUT);
        assert_true(!ot_dataset_find(d, "x")->whole && ot_dataset_find(d, "/conv/gewïcht")->whole &&
                    ot_dataset_find(d, "rate")->whole);
        assert_null(ot_dataset_find(d, "y"));
        ot_dataset_free(d);
    }
    ot_dataset *d = open_fixture("savez.npz");
    assert_array(ot_dataset_find(d, "x"), OT_F32, 2, (int64_t[]){ 4, 3 });
    ot_dataset_free(d);
    d = open_fixture("none.npz");
    assert_true(d->n == 0 && d->samples == 0);
    ot_dataset_free(d);
}

static void safetensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ot_dtype t;
    } row[] = { { "F64", OT_F64 }, { "I64", OT_I64 }, { "U64", OT_U64 },   { "F32", OT_F32 }, { "I32", OT_I32 },
                { "U32", OT_U32 }, { "F16", OT_F16 }, { "BF16", OT_BF16 }, { "I16", OT_I16 }, { "U16", OT_U16 },
                { "I8", OT_I8 },   { "U8", OT_U8 },   { "BOOL", OT_BOOL } };
    for (int mapped = 0; mapped < 2; mapped++) { /* tensors at odd places and of BOOL are copied */
        const ot_data_options o = { .map_from = mapped };
        ot_dataset *d;
        ot_error e = { 0 };
        if (ot_dataset_open(FIXTURES "every.safetensors", OT_SPLIT_TRAIN, &o, &d, &e)) fail_msg("%s", e.text);
        assert_int_equal(d->n, OT_LEN(row));
        for (int i = 0; i < OT_LEN(row); i++) {
            assert_array(ot_dataset_find(d, row[i].name), row[i].t, 2, (int64_t[]){ 3, 4 });
            assert_int_equal(ot_dataset_find(d, row[i].name)->mapped, mapped && row[i].t != OT_BOOL);
        }
        ot_dataset_free(d);
        static const char *const odd[] = { "odd.safetensors", "packed.safetensors.gz" };
        for (int i = 0; i < OT_LEN(odd); i++) {
            char path[512];
            snprintf(path, sizeof path, FIXTURES "%s", odd[i]);
            if (ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e)) fail_msg("%s", e.text);
            assert_int_equal(d->n, 5);
            assert_int_equal(d->samples, 4);
            assert_array(ot_dataset_find(d, "labelé"), OT_U8, 1, (int64_t[]){ 3 });
            assert_array(ot_dataset_find(d, "target"), OT_I64, 1, (int64_t[]){ 4 });
            assert_array(ot_dataset_find(d, "x"), OT_F32, 2, (int64_t[]){ 4, 3 });
            assert_array(ot_dataset_find(d, "none"), OT_F32, 2, (int64_t[]){ 0, 5 });
            assert_array(ot_dataset_find(d, "scalar"), OT_F16, 0, NULL);
            ot_dataset_free(d);
        }
    }
}

static void refused_archives(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } row[] = {
        { "bad-lzma.npz", "lzma" },
        { "bad-text.npz", "readme.txt" },
        { "bad-twice.npz", "two arrays named 'x'" },
        { "short-images-idx3-ubyte", "3 labels" },
        { "nothing.npz", "No such file" },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        char path[512];
        ot_dataset *d;
        ot_error e = { 0 };
        snprintf(path, sizeof path, FIXTURES "%s", row[i].name);
        ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e);
        assert_int_equal(s, i == 4 ? OT_E_IO : OT_E_DATA);
        assert_null(d);
        if (!strstr(e.text, row[i].text)) fail_msg("no '%s' in '%s'", row[i].text, e.text);
    }
}

/* ---- what we write ------------------------------------------------------------ */

enum { N_TYPES = 14 };
static const ot_dtype written[N_TYPES] = { OT_F32, OT_F64, OT_F16, OT_I8,  OT_I16,  OT_I32, OT_I64,
                                           OT_U8,  OT_U16, OT_U32, OT_U64, OT_BOOL, OT_F32, OT_I64 };

static void written_archives_come_back(void **state)
{
    (void)state;
    static const char *const name[N_TYPES] = {
        "a", "/m/conv.1/weight", "größe", "x y", "..", "q\"'{}", "i", "", "日本", "1", "a/b\\c", "b", "scalar", "empty"
    };
    static double room[N_TYPES][24];
    ot_tensor t[N_TYPES];
    char path[128], twin[128];
    for (int i = 0; i < N_TYPES; i++) {
        t[i] = (ot_tensor){ .name = name[i], .dtype = written[i], .rank = 3, .dim = { 2, 3, 4 }, .data = room[i] };
        for (int k = 0; k < 24; k++) ot_set_f64(room[i], written[i], k, value(written[i], k));
    }
    t[12].rank = 0;
    t[13].dim[1] = 0;
    t[13].data = NULL;
    snprintf(path, sizeof path, "%s/out.npz", ot_test_folder);
    snprintf(twin, sizeof twin, "%s/twin.npz", ot_test_folder);
    ot_error e = { 0 };
    if (ot_npz_write(path, t, N_TYPES, &e) || ot_npz_write(twin, t, N_TYPES, &e)) fail_msg("%s", e.text);
    ot_dataset *d;
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e)) fail_msg("%s", e.text);
    assert_int_equal(d->n, N_TYPES);
    for (int i = 0; i < N_TYPES; i++) assert_array(ot_dataset_find(d, name[i]), written[i], t[i].rank, t[i].dim);
    ot_dataset_free(d);
    void *a, *b;
    size_t n, m;
    assert_int_equal(ot_read_file(path, 1 << 20, &a, &n, &e), OT_OK);
    assert_int_equal(ot_read_file(twin, 1 << 20, &b, &m, &e), OT_OK);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void small_floats_travel_raw(void **state)
{
    (void)state;
    uint16_t bits[2] = { 0x3F80, 0xC000 };
    uint8_t codes[2] = { 0x38, 0x7F };
    ot_tensor t[2] = { { .name = "b", .dtype = OT_BF16, .rank = 1, .dim = { 2 }, .data = bits },
                       { .name = "f", .dtype = OT_F8E4M3FN, .rank = 1, .dim = { 2 }, .data = codes } };
    char path[128];
    ot_error e = { 0 };
    ot_dataset *d;
    snprintf(path, sizeof path, "%s/out.npz", ot_test_folder);
    assert_int_equal(ot_npz_write(path, t, 2, &e), OT_OK);
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_OK);
    assert_int_equal(ot_dataset_find(d, "b")->t.dtype, OT_U16);
    assert_int_equal(ot_dataset_find(d, "f")->t.dtype, OT_U8);
    assert_memory_equal(ot_dataset_find(d, "b")->t.data, bits, sizeof bits);
    ot_dataset_free(d);
}

static void writing_refuses(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/out.npz", ot_test_folder);
    ot_tensor t = { .name = "s", .dtype = OT_U4, .rank = 0 };
    ot_error e = { 0 };
    assert_int_equal(ot_npz_write(path, &t, 1, &e), OT_E_DATA);
    assert_true(access(path, F_OK) != 0);
    e = (ot_error){ 0 };
    assert_int_equal(ot_npz_write(path, NULL, 0, &e), OT_OK);
    ot_dataset *d;
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_OK);
    assert_int_equal(d->n, 0);
    ot_dataset_free(d);
    e = (ot_error){ 0 };
    assert_int_equal(ot_npz_write("/nowhere/x.npz", NULL, 0, &e), OT_E_IO);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, ot_folder_make, ot_folder_remove)

int ot_test_formats(void)
{
    const struct CMUnitTest formats[] = {
        cmocka_unit_test(npy_types),           cmocka_unit_test(npy_forms),        cmocka_unit_test(idx_files),
        cmocka_unit_test(npz_archives),        cmocka_unit_test(safetensors),      cmocka_unit_test(refused_archives),
        IN_FOLDER(written_archives_come_back), IN_FOLDER(small_floats_travel_raw), IN_FOLDER(writing_refuses),
    };
    return cmocka_run_group_tests(formats, NULL, NULL);
}
