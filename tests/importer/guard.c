/* guard.c - bytes that are not a model, or a model made to exhaust stack, memory or time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "importer/internal.h"

static size_t peak_kib(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (size_t)r.ru_maxrss;
}

static void not_a_file(void **unused)
{
    (void)unused;
    refused_file(path_of("nothing.onnx"), OT_E_IO, "cannot be opened", NULL);
    mkdir(path_of("folder.onnx"), 0700);
    refused_file(path_of("folder.onnx"), OT_E_IO, "folder", NULL);
    assert_int_equal(mkfifo(path_of("pipe.onnx"), 0600), 0);
    refused_file(path_of("pipe.onnx"), OT_E_IO, "regular file", NULL);
    write_file("empty.onnx", NULL, 0);
    refused_file(path_of("empty.onnx"), OT_E_MODEL, "empty", NULL);
}

/* Attributes inside nodes inside graphs, far beyond what protobuf-c's recursion survives. */
static void deep(void **unused)
{
    (void)unused;
    bytes g = { 0 };
    for (int i = 0; i < 4000; i++) {
        bytes node = { 0 }, outer = { 0 };
        attr_graph(&node, "body", &g);
        put_message(&outer, 1, &node);
        g = outer;
    }
    bytes m = model_of(&g, 8, 17);
    refused(&m, OT_E_MODEL, "nested deeper than 100", "byte", NULL);
}

/* The deepest that is allowed must work: types of types. */
static void deep_enough(void **unused)
{
    (void)unused;
    for (int levels = 40; levels <= 60; levels += 20) {
        bytes type = { 0 }, g = small_graph(), info = { 0 };
        for (int i = 0; i < levels; i++) { /* TypeProto.Sequence.elem_type: two messages a level */
            bytes sequence = { 0 }, outer = { 0 };
            put_message(&sequence, 1, &type);
            put_message(&outer, 4, &sequence);
            type = outer;
        }
        put_text(&info, 1, "unread");
        put_message(&info, 2, &type);
        put_message(&g, 13, &info);
        bytes m = model_of(&g, 8, 17);
        if (levels == 40) ot_import_free(accepted(&m));
        else refused(&m, OT_E_MODEL, "nested deeper", NULL);
    }
}

/* Millions of empty fields in a graph or in the model itself. */
static void amplified(int field, bool model)
{
    bytes g = { 0 }, m = { 0 };
    for (int i = 0; i < 4 << 20; i++) put_data(&g, field, NULL, 0);
    if (model) m = g;
    else m = model_of(&g, 8, 17);
    size_t before = peak_kib();
    refused(&m, OT_E_MODEL, "MiB", NULL);
    assert_true(peak_kib() - before < 64 << 10);
}

static void amplification(void **unused)
{
    (void)unused;
    amplified(1, false);  /* nodes */
    amplified(5, false);  /* initializers */
    amplified(13, false); /* value_info */
    amplified(8, true);   /* opset_import */
    amplified(25, true);  /* functions */
    amplified(15, true);  /* an unknown field */
}

static void wire_faults(void **unused)
{
    (void)unused;
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } fault[] = {
        { "\x02\x00", 2, "field number 0" },
        { "\x82\x80\x00\x00", 4, "field number 0" },
        { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "number of more than 10 bytes" },
        { "\x88\x80\x80\x80\x80\x80\x01\x01", 8, "number of more than 5 bytes" },
        { "\x08\xff", 2, "truncated" },
        { "\x3a\x7f\x0a", 3, "only 1 are left" },
        { "\x0b\x0c", 2, "wire type" },
        { "\x0a\x01\x01", 3, "'ir_version' of ModelProto has wire type 2, expected 0" },
        { "\x12\x03"
          "a\0b",
          5, "zero byte" },
        { "\xfd\x07\x01", 3, "truncated" },
        { "\x3a\x00\x3a\x00", 4, "duplicate field 'graph'" },
        { "\x3a\x06\x2a\x04\x22\x02\x00\x00", 8, "expected a multiple of 4" },
        { "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "number of more than 5 bytes" },
        { "PK\x03\x04", 4, "byte" },
    };
    for (int i = 0; i < OT_LEN(fault); i++) {
        bytes m = { 0 };
        put(&m, fault[i].bytes, fault[i].n);
        refused(&m, OT_E_MODEL, fault[i].text, NULL);
    }
}

/* Success, or a message and a status that says whose fault it is; never a crash. */
static bool survives(const bytes *m)
{
    ot_imported *i;
    ot_error err = { 0 };
    ot_status s = import_model(m, &i, &err);
    if (s != OT_OK) {
        if ((s != OT_E_MODEL && s != OT_E_IO) || !strstr(err.text, "m.onnx")) fail_msg("status %d: %s", s, err.text);
        return false;
    }
    ot_error bad = { 0 };
    if (ot_graph_verify(i->graph, false, &bad) != OT_OK) fail_msg("%s", bad.text);
    ot_import_free(i);
    return true;
}

/* The number of prefixes of m, m itself excluded, that are models too. */
static int models_before(bytes m)
{
    int whole = 0;
    assert_true(survives(&m));
    for (size_t n = m.n; n-- > 0;) whole += survives(&(bytes){ m.p, n, n });
    bytes_free(&m);
    return whole;
}

static void every_prefix(void **unused)
{
    (void)unused;
    assert_int_equal(models_before(rich_model()),
                     3); /* cut between two of the things behind the graph, the last of which is a function: its
                                                       * call is then an unknown operator, and an output that does not need it is left */
    bytes g = small_graph();
    assert_int_equal(models_before(model_of(&g, 8, 17)), 1); /* the opset comes last, and is guessed */
}

static void every_bit(void **unused)
{
    (void)unused;
    bytes m = rich_model();
    int whole = 0;
    for (size_t i = 0; i < 8 * m.n; i++) {
        m.p[i / 8] ^= (uint8_t)(1u << i % 8);
        whole += survives(&m);
        m.p[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    assert_true(whole >= 1 && (size_t)whole < 8 * m.n);
    bytes_free(&m);
}

enum { MANY = 40000 };

static void put_array(bytes *t, int field, float first)
{
    float v[MANY];
    for (int i = 0; i < MANY; i++) v[i] = first + (float)i;
    put_data(t, field, v, sizeof v);
}

static void holds(const ot_imported *m, int source, float first)
{
    const float *v = m->sources[source].data;
    for (int i = 0; i < MANY; i++) assert_true(v[i] == first + (float)i);
}

/* Large tensors leave the bytes of the file, which can be read as before. */
static void payloads_once(void **unused)
{
    (void)unused;
    int64_t n = MANY;
    bytes g = small_graph(), a = tensor_begin("a", 1, 1, &n), b = tensor_begin("b", 1, 1, &n),
          c = tensor_begin("c", 1, 1, &n);
    char text[MANY * 2] = "";
    put_array(&a, 9, 1);
    put_array(&b, 4, 2); /* float_data, of the same size */
    put_array(&c, 9, 3); /* the last raw_data counts; this one is given back when the text below is unpacked */
    memset(text, 'x', sizeof text - 1);
    put_text(&c, 12, text);
    put_array(&c, 9, 4);
    graph_tensor(&g, a);
    graph_tensor(&g, b);
    graph_tensor(&g, c);
    graph_floats(&g, "few", 1, &(float){ 5 });
    bytes m = model_of(&g, 10, 21);
    ot_imported *i;
    ot_error err = { 0 };
    assert_int_equal(import_model(&m, &i, &err), OT_OK);
    holds(i, 0, 1);
    holds(i, 1, 2);
    holds(i, 2, 4);
    const ot_file *f = i->file;
    assert_int_equal(f->n, m.n);
    assert_int_equal(f->payloads.n, 2);
    assert_true(f->payloads.released > 2 * (sizeof(float[MANY]) - 2 * 4096) || sysconf(_SC_PAGESIZE) > 4096);
    int pieces = 0;
    for (size_t at = 0, k; at < f->n; at += k, pieces++) {
        k = f->n - at;
        const uint8_t *piece = ot_file_piece(f, at, &k);
        assert_memory_equal(piece, m.p + at, k);
    }
    assert_int_equal(pieces, 5);
    for (size_t at = 0, k; at < f->n; at += 997) { /* from anywhere */
        k = f->n - at < 3000 ? f->n - at : 3000;
        const uint8_t *piece = ot_file_piece(f, at, &k);
        assert_true(k > 0);
        assert_memory_equal(piece, m.p + at, k);
    }
    ot_import_free(i);
    bytes_free(&m);
}

int test_guard(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_a_file),    cmocka_unit_test(deep),          cmocka_unit_test(deep_enough),
        cmocka_unit_test(amplification), cmocka_unit_test(wire_faults),   cmocka_unit_test(every_prefix),
        cmocka_unit_test(every_bit),     cmocka_unit_test(payloads_once),
    };
    return cmocka_run_group_tests_name("importer.guard", tests, NULL, NULL);
}
