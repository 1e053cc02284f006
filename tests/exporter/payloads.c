/* payloads.c - every encoding of a tensor: an unchanged tensor keeps its bytes, and changing one changes nothing else.
 * */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/patch.h"

/* ---- the corpus ------------------------------------------------------------------ */

static const int64_t four[] = { 4 };
static const float floats[] = { 1.5f, -0.0f, 1e-41f, -3.25f };
static const double doubles[] = { 1.5, -0.0, 5e-324, -3.25 };
static const uint16_t halves[] = { 0x3E00, 0x8000, 0x0001, 0xC280 }; /* the same; the third denormal */
static const int64_t longs[] = { 1, -1, INT64_MIN, 300 };

static void packed(bytes *t, int field, const void *p, size_t n)
{
    bytes *m = calloc(1, sizeof *m);
    put_bytes(m, p, n);
    put_message(t, field, m);
    free(m);
}

/* Four varints, each padded to `width`, packed or not. */
static void varints(bytes *t, int field, const uint64_t v[4], size_t width, bool pack)
{
    bytes *m = calloc(1, sizeof *m);
    for (int i = 0; i < 4; i++) {
        if (!pack) put_varint(t, (uint64_t)field << 3);
        put_long_varint(pack ? m : t, v[i], width);
    }
    if (pack) put_message(t, field, m);
    free(m);
}

static const uint64_t as_int32[] = { 0x3E00, 0x8000, 1, 0xC280 };
static const uint64_t bytes_of_8[] = { 1, (uint64_t)-1, (uint64_t)-128, 127 };

static void f32_raw(bytes *t) { packed(t, 9, floats, 16); }
static void f32_packed(bytes *t) { packed(t, 4, floats, 16); }
static void f32_single(bytes *t)
{
    for (int i = 0; i < 4; i++) put_f32(t, 4, floats[i]);
}
static void f32_mixed(bytes *t)
{
    put_f32(t, 4, floats[0]);
    packed(t, 4, floats + 1, 8);
    put_unknown(t);
    packed(t, 4, floats, 0);
    put_f32(t, 4, floats[3]);
}
static void f32_twice(bytes *t)
{
    packed(t, 9, doubles, 16); /* the last raw_data counts */
    packed(t, 9, floats, 16);
}
static void f64_raw(bytes *t) { packed(t, 9, doubles, 32); }
static void f64_packed(bytes *t) { packed(t, 10, doubles, 32); }
static void f64_single(bytes *t)
{
    for (int i = 0; i < 4; i++) put_f64(t, 10, doubles[i]);
}
static void f16_raw(bytes *t) { packed(t, 9, halves, 8); }
static void f16_packed(bytes *t) { varints(t, 5, as_int32, 1, true); }
static void f16_single(bytes *t) { varints(t, 5, as_int32, 1, false); }
static void f16_overlong(bytes *t) { varints(t, 5, as_int32, 6, true); }
static void i8_packed(bytes *t) { varints(t, 5, bytes_of_8, 1, true); }
static void i64_raw(bytes *t) { packed(t, 9, longs, 32); }
static void i64_packed(bytes *t) { varints(t, 7, (const uint64_t *)longs, 1, true); }
static void i64_single(bytes *t) { varints(t, 7, (const uint64_t *)longs, 1, false); }
static void u32_packed(bytes *t) { varints(t, 11, (const uint64_t[]){ 1, UINT32_MAX, 0, 300 }, 1, true); }
static void i4_raw(bytes *t) { packed(t, 9, "\x21\x87", 2); }

static const struct encoding {
    const char *name;
    ot_dtype type;
    void (*put)(bytes *t);
    bool longest; /* its varints are overlong: changed ones come out shorter */
} corpus[] = {
    { "f32_raw", OT_F32, f32_raw, false },
    { "f32_packed", OT_F32, f32_packed, false },
    { "f32_single", OT_F32, f32_single, false },
    { "f32_mixed", OT_F32, f32_mixed, false },
    { "f32_twice", OT_F32, f32_twice, false },
    { "f64_raw", OT_F64, f64_raw, false },
    { "f64_packed", OT_F64, f64_packed, false },
    { "f64_single", OT_F64, f64_single, false },
    { "f16_raw", OT_F16, f16_raw, false },
    { "f16_packed", OT_F16, f16_packed, false },
    { "f16_single", OT_F16, f16_single, false },
    { "f16_overlong", OT_F16, f16_overlong, true },
    { "bf16_packed", OT_BF16, f16_packed, false },
    { "i8_packed", OT_I8, i8_packed, false },
    { "i64_raw", OT_I64, i64_raw, false },
    { "i64_packed", OT_I64, i64_packed, false },
    { "i64_single", OT_I64, i64_single, false },
    { "u32_packed", OT_U32, u32_packed, false },
    { "i4_raw", OT_I4, i4_raw, false },
};

static void put_tensor(bytes *o, const char *prefix, const struct encoding *e)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, e->name);
    put_head(o, name, e->type, 1, four);
    put_unknown(o);
    e->put(o);
    put_text(o, 12, "after the payload");
}

/* Every encoding twice: as an initializer and in a Constant node; lengths of two widths. */
static void corpus_model(bytes *model)
{
    bytes *m = calloc(5, sizeof *m);
    for (int i = 0; i < OT_LEN(corpus); i++) {
        memset(m, 0, 4 * sizeof *m);
        put_tensor(&m[0], "", &corpus[i]);
        put_long_message(&m[4], 5, &m[0], i % 3 + 1);
        put_tensor(&m[1], "inside_", &corpus[i]);
        put_text(&m[2], 1, "value");
        put_long_message(&m[2], 5, &m[1], i % 2 ? 4 : 1);
        put_int(&m[2], 20, 4);
        char name[64];
        snprintf(name, sizeof name, "constant_%s", corpus[i].name);
        put_text(&m[3], 2, name);
        put_message(&m[3], 5, &m[2]);
        put_text(&m[3], 4, "Constant");
        put_unknown(&m[3]);
        put_message(&m[4], 1, &m[3]);
    }
    put_model(model, &m[4]);
    free(m);
}

typedef struct fixture {
    bytes *model;
    ot_imported *m;
    ot_error err;
} fixture;

static fixture begin(void)
{
    fixture f = { .model = calloc(1, sizeof(bytes)) };
    corpus_model(f.model);
    file_put(in_folder("in.onnx"), f.model->b, f.model->n);
    if (ot_import(in_folder("in.onnx"), &f.m, &f.err) != OT_OK) fail_msg("%s", f.err.text);
    assert_int_equal(f.m->n_sources, 2 * OT_LEN(corpus));
    return f;
}

static void end(fixture *f)
{
    ot_import_free(f->m);
    free(f->model);
}

static size_t size_of(const ot_source *s) { return ot_bytes(&s->shape, s->dtype); }

/* ---- unchanged ----------------------------------------------------------------------- */

static void nothing_given(void **state)
{
    (void)state;
    fixture f = begin();
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), 0, NULL, NULL, &f.err), OT_OK);
    assert_file_is(in_folder("out.onnx"), f.model->b, f.model->n);
    end(&f);
}

static void equal_elements(void **state)
{
    (void)state;
    fixture f = begin();
    ot_export_tensor t[2 * OT_LEN(corpus)];
    unsigned char data[2 * OT_LEN(corpus)][32];
    for (int i = 0; i < f.m->n_sources; i++) {
        const ot_source *s = &f.m->sources[i];
        memcpy(data[i], s->data, size_of(s));
        t[i] = (ot_export_tensor){ i, data[i] };
        /* 0 is equal to -0, which then keeps its sign. */
        if (ot_is_float(s->dtype) && s->dtype != OT_BF16) {
            assert_true(signbit(ot_get_f64(data[i], s->dtype, 1)));
            ot_set_f64(data[i], s->dtype, 1, 0.0);
            assert_false(signbit(ot_get_f64(data[i], s->dtype, 1)));
        }
    }
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), f.m->n_sources, t, NULL, &f.err), OT_OK);
    assert_file_is(in_folder("out.onnx"), f.model->b, f.model->n);
    /* Also over the file itself. */
    assert_int_equal(ot_export(f.m, in_folder("in.onnx"), f.m->n_sources, t, NULL, &f.err), OT_OK);
    assert_file_is(in_folder("in.onnx"), f.model->b, f.model->n);
    end(&f);
}

/* ---- changed ----------------------------------------------------------------------------- */

static void change(const ot_source *s, void *data, int64_t k)
{
    if (ot_is_float(s->dtype)) ot_set_f64(data, s->dtype, k, 20.5 + (double)k);
    else ot_set_i64(data, s->dtype, k, ot_get_i64(data, s->dtype, k) == 5 ? -7 : 5);
}

/* Everything but source i equals the original; source i equals `data`. */
static void assert_only(const ot_imported *was, const char *path, int i, const void *data)
{
    ot_imported *is;
    ot_error err = { 0 };
    if (ot_import(path, &is, &err) != OT_OK) fail_msg("%s", err.text);
    assert_int_equal(is->n_sources, was->n_sources);
    for (int k = 0; k < is->n_sources; k++)
        assert_memory_equal(is->sources[k].data, k == i ? data : was->sources[k].data, size_of(&was->sources[k]));
    ot_import_free(is);
}

/* The number of bytes of the new file between the common prefix and suffix. */
static size_t middle(const bytes *a, const char *path)
{
    size_t n, head = 0, tail = 0;
    unsigned char *b = file_get(path, &n);
    size_t least = n < a->n ? n : a->n;
    while (head < least && a->b[head] == b[head]) head++;
    while (tail < least - head && a->b[a->n - 1 - tail] == b[n - 1 - tail]) tail++;
    free(b);
    return n - head - tail;
}

static void export_back(const char *path, int i, const void *data, const bytes *want)
{
    ot_imported *m;
    ot_error err = { 0 };
    assert_int_equal(ot_import(path, &m, &err), OT_OK);
    assert_int_equal(ot_export(m, in_folder("back.onnx"), 1, &(ot_export_tensor){ i, data }, NULL, &err), OT_OK);
    assert_file_is(in_folder("back.onnx"), want->b, want->n);
    ot_import_free(m);
}

static void one_element(void **state)
{
    (void)state;
    fixture f = begin();
    for (int i = 0; i < f.m->n_sources; i++) {
        const ot_source *s = &f.m->sources[i];
        const struct encoding *e = NULL;
        const char *plain = strncmp(s->name, "constant_", 9) ? s->name : s->name + 9;
        for (int k = 0; k < OT_LEN(corpus); k++)
            if (!strcmp(corpus[k].name, plain)) e = &corpus[k];
        assert_non_null(e);
        for (int64_t k = 0; k < 4; k++) {
            unsigned char data[32];
            memcpy(data, s->data, size_of(s));
            change(s, data, k);
            if (ot_export(f.m, in_folder("out.onnx"), 1, &(ot_export_tensor){ i, data }, NULL, &f.err) != OT_OK)
                fail_msg("%s", f.err.text);
            assert_only(f.m, in_folder("out.onnx"), i, data);
            size_t m = middle(f.model, in_folder("out.onnx"));
            assert_true(m >= 1);
            bool varint = strstr(e->name, "raw") == NULL && !(s->dtype == OT_F32 || s->dtype == OT_F64);
            if (!varint) assert_true(m <= (ot_dtype_bits(s->dtype) + 7u) / 8);
            if (!e->longest) export_back(in_folder("out.onnx"), i, s->data, f.model);
        }
    }
    end(&f);
}

static void all_elements(void **state)
{
    (void)state;
    fixture f = begin();
    ot_export_tensor t[2 * OT_LEN(corpus)];
    unsigned char data[2 * OT_LEN(corpus)][32];
    for (int i = 0; i < f.m->n_sources; i++) {
        memcpy(data[i], f.m->sources[i].data, size_of(&f.m->sources[i]));
        for (int64_t k = 0; k < 4; k++) change(&f.m->sources[i], data[i], k);
        t[i] = (ot_export_tensor){ i, data[i] };
    }
    if (ot_export(f.m, in_folder("out.onnx"), f.m->n_sources, t, NULL, &f.err) != OT_OK) fail_msg("%s", f.err.text);
    ot_imported *is;
    assert_int_equal(ot_import(in_folder("out.onnx"), &is, &f.err), OT_OK);
    for (int i = 0; i < is->n_sources; i++) assert_memory_equal(is->sources[i].data, data[i], size_of(&is->sources[i]));
    ot_import_free(is);
    end(&f);
}

/* A packed list that grows past 127 bytes needs a longer length, and so may all around it. */
static void lengths_grow(void **state)
{
    (void)state;
    enum { N = 100 };
    bytes *m = calloc(4, sizeof *m);
    ot_imported *was, *is;
    ot_error err = { 0 };
    for (int i = 0; i < N; i++) put_varint(&m[0], 1);
    put_head(&m[1], "w", OT_F16, 1, (const int64_t[]){ N });
    put_message(&m[1], 5, &m[0]);
    put_message(&m[2], 5, &m[1]);
    put_model(&m[3], &m[2]);
    file_put(in_folder("in.onnx"), m[3].b, m[3].n);
    assert_int_equal(ot_import(in_folder("in.onnx"), &was, &err), OT_OK);
    uint16_t data[N];
    for (int i = 0; i < N; i++) data[i] = 0xBC00; /* -1: three bytes each instead of one */
    assert_int_equal(ot_export(was, in_folder("out.onnx"), 1, &(ot_export_tensor){ 0, data }, NULL, &err), OT_OK);
    assert_int_equal(ot_import(in_folder("out.onnx"), &is, &err), OT_OK);
    assert_memory_equal(is->sources[0].data, data, sizeof data);
    size_t n;
    free(file_get(in_folder("out.onnx"), &n));
    assert_int_equal(n, m[3].n + 2 * N + 2); /* the list's and the tensor's length take a byte more */
    ot_import_free(is);
    ot_import_free(was);
    free(m);
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void not_finite(void **state)
{
    (void)state;
    fixture f = begin();
    float data[4];
    memcpy(data, floats, sizeof data);
    file_put(in_folder("out.onnx"), "old", 3);
    for (int k = 0; k < 2; k++) {
        data[3] = k ? INFINITY : NAN;
        ot_error err = { 0 };
        int i = source_of(f.m, "f32_packed");
        assert_int_equal(ot_export(f.m, in_folder("out.onnx"), 1, &(ot_export_tensor){ i, data }, NULL, &err),
                         OT_E_DIVERGED);
        assert_non_null(strstr(err.text, "f32_packed: element 3"));
    }
    assert_file_is(in_folder("out.onnx"), "old", 3);
    assert_int_equal(folder_count(), 2);
    end(&f);
}

/* Values that are not finite in the user's file may stay: masks of -inf are valid. */
static void was_not_finite(void **state)
{
    (void)state;
    bytes *m = calloc(3, sizeof *m);
    ot_imported *was;
    ot_error err = { 0 };
    uint32_t bits[4] = { 0xFF800000, 0x7FC12345, 0x3F800000, 0x40000000 };
    put_head(&m[0], "w", OT_F32, 1, four);
    packed(&m[0], 9, bits, 16);
    put_message(&m[1], 5, &m[0]);
    put_model(&m[2], &m[1]);
    file_put(in_folder("in.onnx"), m[2].b, m[2].n);
    assert_int_equal(ot_import(in_folder("in.onnx"), &was, &err), OT_OK);
    bits[1] = 0x7FC00000; /* a NaN without the payload is still no number */
    assert_int_equal(ot_export(was, in_folder("out.onnx"), 1, &(ot_export_tensor){ 0, bits }, NULL, &err), OT_OK);
    assert_file_is(in_folder("out.onnx"), m[2].b, m[2].n);
    bits[2] = 0x40A00000;
    assert_int_equal(ot_export(was, in_folder("out.onnx"), 1, &(ot_export_tensor){ 0, bits }, NULL, &err), OT_OK);
    assert_int_equal(middle(&m[2], in_folder("out.onnx")), 2);
    ot_import_free(was);
    free(m);
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void named_tensor(bytes *o, int field, const char *name)
{
    bytes *t = calloc(1, sizeof *t);
    put_text(t, 8, name);
    put_message(o, field, t);
    free(t);
}

/* Order is the importer's: a graph's initializers, then its nodes, wherever they stand on the wire. */
static void walk_order(void **state)
{
    (void)state;
    static const char *const want[] = { "init0",    "init1",      "node0.t", "node0.tensors",
                                        "sub.init", "sub.node.t", "node1.t", "function.t" };
    bytes *m = calloc(8, sizeof *m);
    bytes *sub = &m[0], *attribute = &m[1], *node = &m[2], *graph = &m[3], *model = &m[4], *inner = &m[5],
          *sparse = &m[6];
    named_tensor(attribute, 5, "sub.node.t");
    put_message(inner, 5, attribute);
    put_message(sub, 1, inner);
    named_tensor(sub, 5, "sub.init"); /* after the node on the wire */
    memset(attribute, 0, sizeof *attribute);
    put_message(attribute, 6, sub);
    named_tensor(attribute, 10, "node0.tensors");
    named_tensor(attribute, 5, "node0.t");
    put_message(node, 5, attribute);
    put_message(graph, 1, node);
    named_tensor(graph, 5, "init0");
    named_tensor(sparse, 1, "sparse.values");
    put_message(graph, 15, sparse);
    memset(node, 0, sizeof *node);
    memset(attribute, 0, sizeof *attribute);
    named_tensor(attribute, 5, "node1.t");
    put_message(node, 5, attribute);
    put_message(graph, 1, node);
    named_tensor(graph, 5, "init1");
    memset(node, 0, sizeof *node);
    memset(attribute, 0, sizeof *attribute);
    named_tensor(attribute, 5, "function.t");
    put_message(node, 5, attribute);
    memset(inner, 0, sizeof *inner);
    put_message(inner, 7, node);
    put_message(model, 25, inner); /* before the graph */
    put_message(model, 7, graph);
    ot_patch p;
    ot_error err = { 0 };
    ot_file file = { .bytes = model->b, .n = model->n };
    assert_int_equal(ot_patch_begin(&p, &file, &err), OT_OK);
    ot_patch_walk(&p);
    assert_int_equal(p.n_tensor, OT_LEN(want));
    assert_int_equal(p.n_other, 1);
    for (int i = 0; i < OT_LEN(want); i++) {
        ot_field f;
        assert_true(ot_field_last(&p, p.tensor[i], 8, &f));
        assert_int_equal(f.end - f.body, strlen(want[i]));
        assert_memory_equal(model->b + f.body, want[i], f.end - f.body);
    }
    ot_patch_free(&p);
    free(m);
}

/* ---- metadata ---------------------------------------------------------------------------------- */

static void metadata(void **state)
{
    (void)state;
    fixture f = begin();
    ot_export_metadata a[] = { { .key = "onnxtrain.version", .value = "1" },
                               { .key = "names", .value = "{0: 'cat'}" } };
    ot_export_metadata b[] = { { .key = "onnxtrain.version", .value = "22" },
                               { .key = "names", .value = "{0: 'dog'}" } };
    ot_export_options o = { .n_metadata = 2, .metadata = a };
    size_t n, again;
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), 0, NULL, &o, &f.err), OT_OK);
    unsigned char *p = file_get(in_folder("out.onnx"), &n);
    assert_true(n > f.model->n);
    assert_memory_equal(p, f.model->b, f.model->n); /* appended */
    ot_imported *m;
    assert_int_equal(ot_import(in_folder("out.onnx"), &m, &f.err), OT_OK);
    assert_int_equal(ot_export(m, in_folder("same.onnx"), 0, NULL, &o, &f.err), OT_OK);
    assert_file_is(in_folder("same.onnx"), p, n);
    o.metadata = b;
    assert_int_equal(ot_export(m, in_folder("out.onnx"), 0, NULL, &o, &f.err), OT_OK);
    unsigned char *q = file_get(in_folder("out.onnx"), &again);
    assert_int_equal(again, n + 1); /* ours replaced, the other kept */
    assert_non_null(memmem(q, again,
                           "onnxtrain.version\x12\x02"
                           "22",
                           21));
    assert_non_null(memmem(q, again, "cat", 3));
    assert_null(memmem(q, again, "dog", 3));
    ot_import_free(m);
    free(p);
    free(q);
    end(&f);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

int ot_test_payloads(void)
{
    const struct CMUnitTest tests[] = {
        ROW(nothing_given), ROW(equal_elements), ROW(one_element), ROW(all_elements), ROW(lengths_grow),
        ROW(not_finite),    ROW(was_not_finite), ROW(walk_order),  ROW(metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
