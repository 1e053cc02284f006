/* tensors.c - every element type in every encoding, and what does not fit. */
#include <stdio.h>
#include <string.h>

#include "bytes.h"

/* The initializer alone in a model; t is consumed. */
static bytes holding(bytes t)
{
    bytes g = small_graph();
    graph_tensor(&g, t);
    return model_of(&g, 10, 21);
}

static bytes tensor1(int dtype, int64_t n) { return tensor_begin("w", dtype, 1, &n); }

static void holds(bytes t, ot_dtype type, const void *want, size_t n)
{
    bytes m = holding(t);
    ot_imported *i = accepted(&m);
    assert_int_equal(i->n_sources, 1);
    assert_int_equal(i->sources[0].dtype, type);
    assert_int_equal(ot_bytes(&i->sources[0].shape, type), n);
    assert_memory_equal(i->sources[0].data, want, n);
    assert_int_equal((uintptr_t)i->sources[0].data % 8, 0);
    ot_import_free(i);
}

static void raw(void **unused)
{
    (void)unused;
    static const uint8_t some[64] = { 1, 0, 1, 1, 200, 3, 77 };
    for (int type = 1; type <= OT_I2; type++) {
        if (!ot_dtype_bits((ot_dtype)type)) continue;
        size_t n = (size_t)(5 * ot_dtype_bits((ot_dtype)type) + 7) / 8;
        const uint8_t *p = type == OT_BOOL ? (const uint8_t *)"\1\0\1\1\0" : some;
        for (int wrong = -1; wrong <= 1; wrong++) {
            bytes t = tensor1(type, 5);
            put_data(&t, 9, p, (size_t)((int64_t)n + wrong));
            if (!wrong) {
                holds(t, (ot_dtype)type, p, n);
                continue;
            }
            char text[80];
            snprintf(text, sizeof text, "raw_data has %zu bytes, but [5] of type %s needs %zu",
                     (size_t)((int64_t)n + wrong), ot_dtype_name((ot_dtype)type), n);
            bytes m = holding(t);
            /* Nothing in raw_data is the same as no raw_data. */
            if (n + (size_t)wrong) refused(&m, OT_E_MODEL, "initializer 'w'", text, NULL);
            else refused(&m, OT_E_MODEL, "initializer 'w'", "needs", NULL);
        }
    }
}

/* Entries of a typed field, packed, as varints. */
static bytes typed(int dtype, int64_t n, int field, int entries, const int64_t *v)
{
    bytes t = tensor1(dtype, n), packed = { 0 };
    for (int i = 0; i < entries; i++) put_varint(&packed, (uint64_t)v[i]);
    put_message(&t, field, &packed);
    return t;
}

static void typed_fields(void **unused)
{
    (void)unused;
    holds(typed(OT_I8, 2, 5, 2, (int64_t[]){ -1, 127 }), OT_I8, "\xff\x7f", 2);
    holds(typed(OT_U8, 2, 5, 2, (int64_t[]){ 255, 1 }), OT_U8, "\xff\x01", 2);
    holds(typed(OT_I16, 2, 5, 2, (int64_t[]){ -2, 258 }), OT_I16, "\xfe\xff\x02\x01", 4);
    holds(typed(OT_F16, 1, 5, 1, (int64_t[]){ 0x3c00 }), OT_F16, "\x00\x3c", 2);
    holds(typed(OT_BF16, 1, 5, 1, (int64_t[]){ 0x3f80 }), OT_BF16, "\x80\x3f", 2);
    holds(typed(OT_BOOL, 3, 5, 3, (int64_t[]){ 1, 0, 7 }), OT_BOOL, "\1\0\1", 3);
    holds(typed(OT_F8E5M2, 1, 5, 1, (int64_t[]){ 0x3c }), OT_F8E5M2, "\x3c", 1);
    holds(typed(OT_I4, 3, 5, 2, (int64_t[]){ 0x21, 0x3 }), OT_I4, "\x21\x03", 2);
    holds(typed(OT_U2, 5, 5, 2, (int64_t[]){ 0xe4, 0x1 }), OT_U2, "\xe4\x01", 2);
    holds(typed(OT_I32, 1, 5, 1, (int64_t[]){ -5 }), OT_I32, (int32_t[]){ -5 }, 4);
    holds(typed(OT_I64, 1, 7, 1, (int64_t[]){ INT64_MIN }), OT_I64, (int64_t[]){ INT64_MIN }, 8);
    holds(typed(OT_U32, 1, 11, 1, (int64_t[]){ 0xffffffff }), OT_U32, (uint32_t[]){ 0xffffffff }, 4);
    holds(typed(OT_U64, 1, 11, 1, (int64_t[]){ -1 }), OT_U64, (uint64_t[]){ UINT64_MAX }, 8);
    bytes t = tensor1(OT_F32, 2);
    put_float(&t, 4, 1.5f); /* not packed: two fields */
    put_float(&t, 4, -2);
    holds(t, OT_F32, (float[]){ 1.5f, -2 }, 8);
    t = tensor1(OT_F64, 1);
    put_data(&t, 10, (double[]){ 0.1 }, 8);
    holds(t, OT_F64, (double[]){ 0.1 }, 8);
    t = tensor1(OT_BOOL, 3);
    put_data(&t, 9, "\1\xff\0", 3);
    holds(t, OT_BOOL, "\1\1\0", 3);
}

static void empty(void **unused)
{
    (void)unused;
    bytes t = tensor1(OT_F32, 0), m = holding(t);
    ot_imported *i = accepted(&m);
    assert_non_null(i->sources[0].data);
    ot_import_free(i);
    t = tensor_begin("w", OT_F32, 0, NULL);
    put_float(&t, 4, 3);
    holds(t, OT_F32, (float[]){ 3 }, 4);
}

static void does_not_fit(bytes t, const char *text)
{
    bytes m = holding(t);
    refused(&m, OT_E_MODEL, "initializer 'w'", text, NULL);
}

static void faults(void **unused)
{
    (void)unused;
    does_not_fit(typed(OT_I64, 2, 7, 1, (int64_t[]){ 1 }), "int64_data has 1 entries, but [2] of type int64 needs 2");
    does_not_fit(typed(OT_I64, 2, 5, 2, (int64_t[]){ 1, 2 }), "int64_data has 0 entries");
    does_not_fit(typed(99, 1, 5, 1, (int64_t[]){ 1 }), "invalid element type 99");
    does_not_fit(typed(0, 1, 5, 1, (int64_t[]){ 1 }), "invalid element type 0");
    does_not_fit(typed(-1, 1, 5, 1, (int64_t[]){ 1 }), "invalid element type -1");
    does_not_fit(typed(15, 1, 5, 1, (int64_t[]){ 1 }), "element type COMPLEX128 is not supported");
    does_not_fit(tensor1(OT_F32, -1), "invalid dimension 0: -1");
    does_not_fit(tensor1(OT_F32, INT64_MAX), "is too large");
    does_not_fit(tensor_begin("w", OT_F32, 3, (int64_t[]){ 1ll << 31, 1ll << 31, 4 }), "is too large");
    does_not_fit(tensor_begin("w", OT_F32, 2, (int64_t[]){ 1ll << 62, 4 }), "is too large");
    does_not_fit(tensor_begin("w", OT_F32, 9, (int64_t[9]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }), "9 dimensions; at most 8");
    bytes t = tensor1(OT_F32, 1);
    put_float(&t, 4, 1);
    put_data(&t, 9, "abcd", 4);
    does_not_fit(t, "has data in 2 fields");
    t = tensor1(OT_STRING, 1);
    put_data(&t, 9, "abcd", 4);
    does_not_fit(t, "strings cannot be in raw_data");
    t = tensor1(OT_F32, 1);
    put_data(&t, 9, "abcd", 4);
    put_message(&t, 3, &(bytes){ 0 });
    does_not_fit(t, "segments");
}

/* Zero times something is zero; the something must not overflow on the way. */
static void zero_times_huge(void **unused)
{
    (void)unused;
    bytes m = holding(tensor_begin("w", OT_F32, 3, (int64_t[]){ INT64_MAX, INT64_MAX, 0 }));
    ot_imported *i;
    ot_error err = { 0 };
    ot_status s = import_model(&m, &i, &err);
    bytes_free(&m);
    if (s == OT_OK) ot_import_free(i);
    else assert_int_equal(s, OT_E_MODEL);
}

static bytes constant(const char *out) { return node_begin("Constant", "", "", out); }

static void constants(void **unused)
{
    (void)unused;
    bytes g = small_graph(), n = constant("a"), t = tensor1(OT_I64, 1), a = { 0 };
    put_data(&t, 9, (int64_t[]){ 7 }, 8);
    attr_tensor(&n, "value", &t);
    graph_node(&g, n);
    n = constant("b");
    attr_float(&n, "value_float", 2.5f);
    graph_node(&g, n);
    n = constant("c");
    attr_ints(&n, "value_ints", 2, (int64_t[]){ 3, -4 });
    graph_node(&g, n);
    n = constant("d");
    put_text(&a, 1, "value_string");
    put_int(&a, 20, 3);
    put_text(&a, 4, "word");
    put_message(&n, 5, &a);
    graph_node(&g, n);
    for (const char *name = "abcd"; *name; name++) graph_output(&g, (char[]){ *name, 0 });
    bytes m = model_of(&g, 8, 17);
    ot_imported *i = accepted(&m);
    ot_value *const *v = i->graph->outputs + 1;
    assert_int_equal(i->n_sources, 2);
    assert_int_equal(i->sources[0].kind, OT_FROM_CONSTANT);
    assert_string_equal(i->sources[0].name, "a");
    assert_int_equal(v[0]->source, 0);
    assert_int_equal(i->sources[1].kind, OT_FROM_ATTRIBUTE);
    assert_string_equal(i->sources[1].name, "b");
    assert_int_equal(v[1]->source, 1);
    assert_int_equal(*(const int64_t *)v[0]->data, 7);
    assert_int_equal(v[1]->shape.rank, 0);
    assert_true(*(const float *)v[1]->data == 2.5f);
    assert_int_equal(((const int64_t *)v[2]->data)[1], -4);
    assert_string_equal(*(const char *const *)v[3]->data, "word");
    for (int k = 0; k < 4; k++) assert_int_equal(v[k]->role, OT_CONST);
    ot_import_free(i);
    g = small_graph();
    graph_node(&g, constant("e"));
    m = model_of(&g, 8, 17);
    refused(&m, OT_E_MODEL, "constant 'e': has 0 values", NULL);
}

/* values at indices in a tensor of 2 by 3. */
static bytes sparse(int64_t rank, int64_t first, int64_t second)
{
    int64_t list[] = { first, second }, rows[] = { first / 3, first % 3, second / 3, second % 3 };
    bytes s = { 0 }, v = tensor_begin("w", OT_F32, 1, (int64_t[]){ 2 }),
          k = tensor_begin("", OT_I64, (int)rank, (int64_t[]){ 2, 2 });
    put_data(&v, 9, (float[]){ 5, 6 }, 8);
    put_data(&k, 9, rank == 1 ? list : rows, rank == 1 ? 16 : 32);
    put_message(&s, 1, &v);
    put_message(&s, 2, &k);
    put_int(&s, 3, 2);
    put_int(&s, 3, 3);
    bytes g = small_graph();
    put_message(&g, 15, &s);
    graph_output(&g, "w");
    return model_of(&g, 8, 17);
}

static void sparse_tensors(void **unused)
{
    (void)unused;
    for (int rank = 1; rank <= 2; rank++) {
        bytes m = sparse(rank, 1, 5);
        ot_imported *i = accepted(&m);
        assert_memory_equal(i->graph->outputs[1]->data, ((float[]){ 0, 5, 0, 0, 0, 6 }), 24);
        assert_int_equal(i->n_sources, 0);
        ot_import_free(i);
        m = sparse(rank, 1, 6);
        refused(&m, OT_E_MODEL, "index of entry 1 of a sparse tensor is out of range", NULL);
    }
    bytes m = sparse(1, -1, 2);
    refused(&m, OT_E_MODEL, "entry 0 of a sparse tensor", NULL);
}

static void single(void **unused)
{
    (void)unused;
    ot_arena *a = ot_arena_new();
    ot_tensor x;
    ot_error err = { 0 };
    bytes t = tensor_begin("w", OT_I32, 2, (int64_t[]){ 1, 2 });
    put_data(&t, 9, (int32_t[]){ 3, 4 }, 8);
    write_file("t.pb", t.p, t.n);
    assert_int_equal(ot_import_tensor(path_of("t.pb"), a, &x, &err), OT_OK);
    assert_int_equal(x.rank, 2);
    assert_int_equal(((int32_t *)x.data)[1], 4);
    assert_string_equal(x.name, "w");
    for (size_t n = 0; n < t.n; n++) {
        err = (ot_error){ 0 };
        write_file("t.pb", t.p, n);
        assert_int_equal(ot_import_tensor(path_of("t.pb"), a, &x, &err), OT_E_MODEL);
        assert_non_null(strstr(err.text, "t.pb"));
    }
    bytes_free(&t);
    t = tensor_begin("w", OT_I32, 0, NULL);
    tensor_outside(&t, "m.onnx", NULL, NULL);
    write_file("t.pb", t.p, t.n);
    bytes_free(&t);
    err = (ot_error){ 0 };
    assert_int_equal(ot_import_tensor(path_of("t.pb"), a, &x, &err), OT_E_MODEL);
    assert_non_null(strstr(err.text, "external data is not allowed here"));
    ot_arena_free(a);
}

int test_tensors(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw),
        cmocka_unit_test(typed_fields),
        cmocka_unit_test(empty),
        cmocka_unit_test(faults),
        cmocka_unit_test(zero_times_huge),
        cmocka_unit_test(constants),
        cmocka_unit_test(sparse_tensors),
        cmocka_unit_test(single),
    };
    return cmocka_run_group_tests_name("importer.tensors", tests, NULL, NULL);
}
