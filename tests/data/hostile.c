/* hostile.c - files truncated at every byte, with every bit flipped, and with forged headers. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "runtime/base/io.h"

static const char *const fixture[] = {
    "little-f4.npy",
    "big-i8.npy",
    "byte-b1.npy",
    "fortran.npy",
    "version2.npy",
    "scalar.npy",
    "packed.npy.gz",
    "plain-images-idx3-ubyte",
    "packed-images-idx3-ubyte.gz",
    "vector-f8.idx",
    "stored.npz",
    "deflated.npz",
    "streamed.npz",
    "savez.npz",
    "none.npz",
    "odd.safetensors",
    "every.safetensors",
    "packed.safetensors.gz",
    "one.tfrecord",
    "one.tfrecord.gz",
};

/* An error has a status and a text; a success a data set.  Returns the set. */
static ot_dataset *try_open(const memory_file *m, ot_error *e)
{
    ot_dataset *d;
    *e = (ot_error){ 0 };
    ot_status s = ot_dataset_open(m->path, OT_SPLIT_TRAIN, NULL, &d, e);
    assert_int_equal(s, e->status);
    assert_int_equal(s == OT_OK, d != NULL);
    if (s) assert_true(s == OT_E_DATA && strstr(e->text, m->path));
    return d;
}

/* Every format of files is among them; a part of a table, of tokens or of a text is one too (csv.c, tokens.c); archives of
 * images: pictures.c; recordings: sounds.c. */
static void every_format(void **state)
{
    (void)state;
    for (const ot_entry *const *e = ot_data_sources.entries; *e; e++) {
        static const char *const elsewhere[] = { "csv", "jsonl", "conll", "tokens", "text", "tar", "zip", "audio" };
        bool found = ot_registry_find(&ot_data_sets, (*e)->name) != NULL;
        for (int i = 0; i < OT_LEN(elsewhere); i++) found |= !strcmp((*e)->name, elsewhere[i]);
        for (int i = 0; i < OT_LEN(fixture); i++) found |= strstr(fixture[i], (*e)->name) != NULL;
        if (!found) fail_msg("no fixture of format %s is cut at every byte", (*e)->name);
    }
}

static void cut_anywhere(void **state)
{
    (void)state;
    memory_file m;
    ot_memory_begin(&m);
    for (int i = 0; i < OT_LEN(fixture); i++) {
        size_t n;
        ot_error e;
        unsigned char *p = ot_fixture_load(fixture[i], &n);
        ot_memory_set(&m, p, n);
        ot_dataset *whole = try_open(&m, &e);
        if (!whole) fail_msg("%s: %s", fixture[i], e.text);
        ot_dataset_free(whole);
        for (size_t keep = 0; keep < n; keep += OT_SPARSE) {
            ot_memory_set(&m, p, keep);
            ot_dataset *d = try_open(&m, &e);
            if (d) fail_msg("%s cut to %zu bytes was accepted", fixture[i], keep);
        }
        free(p);
    }
    ot_memory_end(&m);
}

static void followed_by_more(void **state)
{
    (void)state;
    memory_file m;
    ot_memory_begin(&m);
    for (int i = 0; i < OT_LEN(fixture); i++) {
        size_t n;
        ot_error e;
        unsigned char *p = ot_fixture_load(fixture[i], &n);
        if (strstr(fixture[i], ".gz") || strstr(fixture[i], ".npz")) { /* these may be followed by anything */
            free(p);
            continue;
        }
        p = realloc(p, n + 1);
        p[n] = 0;
        ot_memory_set(&m, p, n + 1);
        assert_null(try_open(&m, &e));
        free(p);
    }
    ot_memory_end(&m);
}

static bool same_arrays(const ot_dataset *a, const ot_dataset *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const ot_tensor *x = &a->array[i].t, *y = &b->array[i].t;
        ot_shape s = { .rank = x->rank };
        memcpy(s.dim, x->dim, sizeof s.dim);
        if (x->dtype != y->dtype || x->rank != y->rank || memcmp(x->dim, y->dim, sizeof s.dim) ||
            memcmp(x->data, y->data, ot_bytes(&s, x->dtype)))
            return false;
    }
    return true;
}

/* No flipped bit crashes; with a checksum over the elements none is unnoticed. */
static void every_bit_turned(void **state)
{
    (void)state;
    memory_file m;
    ot_memory_begin(&m);
    for (int i = 0; i < OT_LEN(fixture); i++) {
        size_t n;
        ot_error e;
        unsigned char *p = ot_fixture_load(fixture[i], &n);
        ot_memory_set(&m, p, n);
        ot_dataset *whole = try_open(&m, &e);
        if (!whole) fail_msg("%s: %s", fixture[i], e.text);
        bool checked = strstr(fixture[i], ".npz") || strstr(fixture[i], ".gz") || strstr(fixture[i], ".tfrecord");
        for (size_t bit = 0; bit < 8 * n; bit += OT_SPARSE_BITS) {
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
            ot_memory_set(&m, p, n);
            ot_dataset *d = try_open(&m, &e);
            if (d && checked && d->n && !same_arrays(d, whole))
                fail_msg("%s: bit %zu was turned and other elements accepted", fixture[i], bit);
            ot_dataset_free(d);
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        ot_dataset_free(whole);
        free(p);
    }
    ot_memory_end(&m);
}

/* ---- headers that lie ----------------------------------------------------------- */

static void assert_npy_refused(const memory_file *m, const char *dict, const char *why)
{
    unsigned char file[4096] = "\x93NUMPY\x01";
    size_t n = strlen(dict);
    ot_error e;
    file[8] = (unsigned char)n;
    file[9] = (unsigned char)(n >> 8);
    memcpy(file + 10, dict, n);
    ot_memory_set(m, file, 10 + n + 16);
    assert_null(try_open(m, &e));
    if (!strstr(e.text, why)) fail_msg("%s: no '%s' in '%s'", dict, why, e.text);
}

static void lying_npy_headers(void **state)
{
    (void)state;
    static const struct {
        const char *dict, *why;
    } row[] = {
        { "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "Python objects" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "records" },
        { "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "'<c8'" },
        { "{'descr': '<U0', 'fortran_order': False, 'shape': (1,), }", "'<U0'" },
        { "{'descr': '<U99999999999', 'fortran_order': False, 'shape': (1,), }", "'<U99999999999'" },
        { "{'descr': '<U4', 'fortran_order': False, 'shape': (1000000000000,), }", "strings are too large" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }", "not a non-negative integer" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551620,), }", "64 bits" },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "too large" },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807,), }", "too large" },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0), }", "too large" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", "the limit is" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", "the limit is" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "more bytes" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,4), }", "more than 8" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4), }", "not a tuple" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': 4, }", "not a tuple" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }", "a comma is missing" },
        { "{'descr': '<f4', 'fortran_order': 0, 'shape': (4,), }", "is not True or False" },
        { "{'descr': '<f4', 'shape': (4,), }", "not exactly descr" },
        { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", "not exactly descr" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}", "not exactly descr" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), } + f()", "text after the dict" },
        { "{'descr': '<f4\\x00', 'fortran_order': False, 'shape': (4,), }", "has escapes" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)", "malformed" },
        { "{'descr': 'f4', 'fortran_order': False, 'shape': (4,), }", "'f4'" },
        { "{'descr': '', 'fortran_order': False, 'shape': (4,), }", "''" },
        { "", "not a dict" },
        { "{", "malformed" },
        { "{'descr", "not terminated" },
    };
    memory_file m;
    ot_memory_begin(&m);
    for (int i = 0; i < OT_LEN(row); i++) assert_npy_refused(&m, row[i].dict, row[i].why);
    ot_memory_end(&m);
}

static void lying_idx_headers(void **state)
{
    (void)state;
    static const struct {
        unsigned char b[24];
        size_t n;
        const char *why;
    } row[] = {
        { { 0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 }, 16, "too large" },
        { { 0, 0, 8, 2, 0, 1, 0, 0, 0, 1, 0, 0 }, 12, "the limit is" },
        { { 0, 0, 14, 1, 0, 0, 0, 1, 1, 2, 3, 4 }, 12, "the limit is" },
        { { 0, 0, 10, 1, 0, 0, 0, 1, 7 }, 9, "not an idx file" },
        { { 0, 0, 8, 200, 0, 0, 0, 1 }, 8, "rank 200" },
        { { 0, 0, 8, 1, 0, 0, 0, 2, 7 }, 9, "the limit is" },
        { { 0, 0, 8, 1, 0, 0, 0, 1, 7, 8 }, 10, "more bytes" },
        { { 1, 2, 3, 4 }, 4, "unknown file format" },
        { { 0 }, 0, "unknown file format" },
    };
    memory_file m;
    ot_memory_begin(&m);
    for (int i = 0; i < OT_LEN(row); i++) {
        ot_error e;
        ot_memory_set(&m, row[i].b, row[i].n);
        assert_null(try_open(&m, &e));
        if (!strstr(e.text, row[i].why)) fail_msg("no '%s' in '%s'", row[i].why, e.text);
    }
    ot_memory_end(&m);
}

static void lying_safetensors(void **state)
{
    (void)state;
    static const struct {
        const char *json, *why;
    } row[] = {
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,17]}}", "not those of its shape" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}",
          "says 12 bytes of elements, but it contains 16" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]}}", "leaves a gap" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},\"y\":{\"dtype\":\"F32\",\"shape\":[4],"
          "\"data_offsets\":[0,16]}}",
          "overlaps" },
        { "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"y\":{\"dtype\":\"U8\",\"shape\":[12],"
          "\"data_offsets\":[3,15]}}",
          "overlaps" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,16]}}", "too large" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,0]}}",
          "too large" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[1000000000],\"data_offsets\":[0,4000000000]}}", "contains 16" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", "not a whole number" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[0,16]}}", "not a whole number" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,16]}}", "not a list" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", "9 dimensions" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[-16,0]}}", "not those of its shape" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16,16]}}", "two whole numbers" },
        { "{\"x\":{\"dtype\":\"F32\",\"shape\":[4]}}", "two whole numbers" },
        { "{\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[16],\"data_offsets\":[0,16]}}",
          "unsupported element type F8_E4M3" },
        { "{\"x\":{\"shape\":[4],\"data_offsets\":[0,16]}}", "no dtype" },
        { "{\"x\":3}", "no dtype" },
        { "{}", "contains 16" },
        { "{\"x\"", "not a JSON object" },
    };
    memory_file m;
    ot_memory_begin(&m);
    for (int i = 0; i < OT_LEN(row) + 2; i++) {
        unsigned char file[400] = { 0 };
        ot_error e;
        const char *json = i < OT_LEN(row) ? row[i].json : "{", *why = i < OT_LEN(row) ? row[i].why : "header has";
        size_t n = strlen(json);
        memcpy(file, &(uint64_t){ i < OT_LEN(row) ? n : i == OT_LEN(row) ? 1000 : 16777215 }, 8);
        memcpy(file + 8, json, n);
        ot_memory_set(&m, file, 8 + n + 16);
        assert_null(try_open(&m, &e));
        if (!strstr(e.text, why)) fail_msg("%s: no '%s' in '%s'", json, why, e.text);
    }
    ot_memory_end(&m);
}

/* Megabytes of nothing after a header that does not declare them: only the memory for the header is used. */
static void packed_bomb(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    unsigned char *raw = calloc(1, N), *packed = malloc(N);
    memcpy(raw, "\0\0\x08\x01\0\0\0\x02", 8);
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = raw;
    z.avail_in = N;
    z.next_out = packed;
    z.avail_out = N;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = N - z.avail_out;
    deflateEnd(&z);
    memory_file m;
    ot_error e;
    ot_memory_begin(&m);
    ot_memory_set(&m, packed, n);
    assert_null(try_open(&m, &e));
    assert_non_null(strstr(e.text, "more bytes"));
    ot_memory_end(&m);
    free(raw);
    free(packed);
}

static size_t gzip(const void *raw, size_t n, unsigned char *packed, size_t room)
{
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)raw;
    z.avail_in = (unsigned)n;
    z.next_out = packed;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

/* Text has no header: its unpacked size is counted before memory is allocated. */
static void packed_table(void **state)
{
    (void)state;
    enum { N = 90 << 20, ROOM = 1 << 20 };
    char *raw = malloc(N), path[128];
    unsigned char *packed = malloc(ROOM);
    for (size_t i = 0; i < N; i += 4) memcpy(raw + i, "0,0\n", 4);
    size_t n = gzip(raw, N, packed, ROOM);
    ot_dataset *d;
    ot_error e = { 0 };
    ot_folder_put("t.csv.gz", packed, n);
    snprintf(path, sizeof path, "%s/t.csv.gz", ot_test_folder);
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_E_NOMEM);
    assert_non_null(strstr(e.text, "would unpack to more than"));
    n = gzip(raw, 4000, packed, ROOM);
    e = (ot_error){ 0 };
    ot_folder_put("t.csv.gz", packed, n);
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e)) fail_msg("%s", e.text);
    assert_int_equal(d->samples, 1000);
    ot_dataset_free(d);
    free(raw);
    free(packed);
}

/* Text says nowhere how much of it there is: what tells that a packed table is cut is the packing alone, in its first
   member, in a later one, and where the packed bytes are read in several pieces. */
static void cut_table(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *raw = malloc(N), path[128];
    unsigned char *packed = malloc(2 * N);
    snprintf(path, sizeof path, "%s/t.csv.gz", ot_test_folder);
    size_t first = gzip("1,2\n3,4\n", 8, packed, N), n = first + gzip("5,6\n", 4, packed + first, N);
    for (int large = 0; large < 2; large++) {
        ot_dataset *d;
        ot_error e = { 0 };
        size_t step = 1;
        if (large) { /* digits that hardly pack: the file is longer than one read */
            uint32_t r = 1;
            for (size_t i = 0; i < N; i++)
                raw[i] = (char)(i % 8 == 7   ? '\n'
                                : i % 8 == 3 ? ','
                                             : '0' + (r = r * 1664525u + 1013904223u) / 429496730u);
            first = n = gzip(raw, N, packed, 2 * N);
            assert_true(n > 300000);
            step = 4093;
        }
        ot_folder_put("t.csv.gz", packed, n);
        if (ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e)) fail_msg("%s", e.text);
        assert_int_equal(d->samples, large ? N / 8 : 3);
        ot_dataset_free(d);
        for (size_t keep = n - 1; keep >= 2 && keep < n; keep -= step) {
            if (keep == first) continue; /* a whole file of one member */
            e = (ot_error){ 0 };
            ot_folder_put("t.csv.gz", packed, keep);
            assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_E_DATA);
            if (!strstr(e.text, "truncated")) fail_msg("%zu of %zu bytes: %s", keep, n, e.text);
        }
    }
    free(raw);
    free(packed);
}

/* Labels of another number are found by the headers, before the pictures are unpacked. */
static void headers_first(void **state)
{
    (void)state;
    static const unsigned char images[] = { 0, 0, 8, 3, 0, 32, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32 };
    static const unsigned char labels[20] = { 0, 0, 8, 1, 0, 0, 0, 12 };
    unsigned char packed[400];
    char path[128];
    ot_dataset *d;
    ot_error e = { 0 };
    size_t n = gzip(images, sizeof images, packed, sizeof packed); /* none of its 2 GiB is there */
    ot_folder_put("t-images-idx3-ubyte.gz", packed, n);
    ot_folder_put("t-labels-idx1-ubyte", labels, sizeof labels);
    snprintf(path, sizeof path, "%s/t-images-idx3-ubyte.gz", ot_test_folder);
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_E_DATA);
    if (!strstr(e.text, "has 12 labels")) fail_msg("%s", e.text);
}

/* A central directory in which many entries refer to the same bytes. */
static void overlapping_members(void **state)
{
    (void)state;
    enum { N = 3000, ZEROS = 100000 };
    size_t room = 400 + ZEROS + N * 60, at = 0;
    unsigned char *file = calloc(1, room);
    ot_tensor t = { .name = "a", .dtype = OT_U8, .rank = 1, .dim = { ZEROS }, .data = file };
    char path[128];
    size_t n;
    void *p;
    ot_error e = { 0 };
    snprintf(path, sizeof path, "%s/a.npz", ot_test_folder);
    assert_int_equal(ot_npz_write(path, &t, 1, &e), OT_OK);
    assert_int_equal(ot_read_file(path, room, &p, &n, &e), OT_OK);
    const unsigned char *whole = p;
    size_t entry = 46 + 5, begin = n - 22 - entry;
    memcpy(file, whole, begin);
    at = begin;
    for (int i = 0; i < N; i++, at += entry) {
        memcpy(file + at, whole + begin, entry);
        file[at + 20] = 200; /* claims to be packed into 200 bytes … */
        file[at + 21] = file[at + 22] = 0;
        file[at + 27] = 0x7F; /* … and to be of 2 GiB */
    }
    memcpy(file + at, whole + n - 22, 22);
    file[at + 8] = file[at + 10] = (unsigned char)(N & 255);
    file[at + 9] = file[at + 11] = (unsigned char)(N >> 8);
    uint32_t size = (uint32_t)(N * entry);
    memcpy(file + at + 12, &size, 4);
    memory_file m;
    ot_memory_begin(&m);
    ot_memory_set(&m, file, at + 22);
    assert_null(try_open(&m, &e));
    ot_memory_end(&m);
    free(p);
    free(file);
}

int ot_test_hostile(void)
{
    const struct CMUnitTest hostile[] = {
        cmocka_unit_test(every_format),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(followed_by_more),
        cmocka_unit_test(every_bit_turned),
        cmocka_unit_test(lying_npy_headers),
        cmocka_unit_test(lying_idx_headers),
        cmocka_unit_test(lying_safetensors),
        cmocka_unit_test(packed_bomb),
        cmocka_unit_test_setup_teardown(packed_table, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(cut_table, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(headers_first, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(overlapping_members, ot_folder_make, ot_folder_remove),
    };
    return cmocka_run_group_tests(hostile, NULL, NULL);
}
