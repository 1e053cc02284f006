/* nomem.c - every allocation of an import fails in turn, once alone and once with all that follow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);

static long left = -1;     /* allocations until one fails; -1: none will */
static bool ever_after;

static bool fails(void)
{
    if (left < 0) return false;
    if (left > 0) return left--, false;
    if (!ever_after) left = -1;
    return true;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }

/* Imports m.onnx with allocation number `at` failing; false: it has fewer. */
static bool import_without(long at, bool after)
{
    ot_imported *i;
    ot_error     err = { 0 };
    left = at;
    ever_after = after;
    ot_status s = ot_import(path_of("m.onnx"), &i, &err);
    bool reached = after ? left == 0 : left < 0;
    left = -1;
    if (s == OT_OK) {
        ot_error bad = { 0 };
        if (ot_graph_verify(i->graph, false, &bad) != OT_OK) fail_msg("%ld: %s", at, bad.text);
        ot_import_free(i);
    } else if (s != OT_E_NOMEM || !*err.text) {
        fail_msg("allocation %ld: status %d: %s", at, s, err.text);
    }
    if (!reached && s != OT_OK) fail_msg("%s", err.text);
    return reached;
}

static void each_fails(void **unused)
{
    (void)unused;
    bytes m = rich_model();
    write_file("m.onnx", m.p, m.n);
    bytes_free(&m);
    for (int after = 0; after <= 1; after++) {
        long n = 0;
        while (import_without(n, after)) n++;
        assert_true(n > 20);
    }
}

int test_nomem(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_fails) };
    return cmocka_run_group_tests_name("importer.nomem", tests, NULL, NULL);
}
