/* base.c - errors, arenas, shapes. */
#include "test.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------- */

static void first_cause_wins(void **state)
{
    (void)state;
    ot_error e = { 0 };
    assert_int_equal(ot_fail(&e, OT_E_DATA, "row %d: is bad", 3), OT_E_DATA);
    assert_int_equal(ot_fail(&e, OT_E_IO, "later"), OT_E_DATA);
    assert_int_equal(e.status, OT_E_DATA);
    assert_string_equal(e.text, "row 3: is bad");
    assert_int_equal(ot_fail(NULL, OT_E_IO, "nobody listens"), OT_E_IO);
    assert_int_equal(ot_fail_more(NULL, OT_E_IO, "nobody listens"), OT_E_IO);
}

static void findings_are_listed(void **state)
{
    (void)state;
    ot_error e = { 0 };
    assert_int_equal(ot_fail_more(&e, OT_E_MODEL, "a"), OT_E_MODEL);
    assert_int_equal(ot_fail_more(&e, OT_E_DATA, "b %d", 1), OT_E_MODEL);
    assert_string_equal(e.text, "a\nb 1");
}

/* A text of any length is complete or ends in an ellipsis, never within a character. */
static void full_text_ends_in_ellipsis(void **state)
{
    (void)state;
    static char long_text[2 * OT_ERROR_TEXT];
    for (int shift = 0; shift < 4; shift++) {
        for (size_t i = 0; i + 2 < sizeof long_text; i += 2) memcpy(long_text + i, "é", 2);
        memset(long_text, 'x', (size_t)shift);
        if (shift % 2) long_text[shift] = 'x';
        ot_error e = { 0 };
        ot_fail(&e, OT_E_DATA, "%s", long_text);
        size_t n = strlen(e.text);
        assert_true(n >= OT_ERROR_TEXT - 8 && n < OT_ERROR_TEXT);
        assert_string_equal(e.text + n - 3, "…");
        assert_true((unsigned char)e.text[n - 4] != 0xC3);
        ot_error before = e;
        ot_fail_more(&e, OT_E_DATA, "more");
        assert_string_equal(e.text, before.text);
    }
    ot_error e = { 0 };
    for (int i = 0; i < 3000; i++) ot_fail_more(&e, OT_E_DATA, "line %d", i);
    size_t n = strlen(e.text);
    assert_true(n < OT_ERROR_TEXT);
    assert_string_equal(e.text + n - 3, "…");
    assert_null(strstr(e.text, "…\n"));
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    for (int s = 0; s <= 9; s++) assert_string_not_equal(ot_status_text((ot_status)s), "unknown status");
    assert_string_equal(ot_status_text((ot_status)77), "unknown status");
    assert_string_equal(ot_version(), OT_VERSION);
}

int ot_test_errors(void)
{
    const struct CMUnitTest errors[] = {
        cmocka_unit_test(first_cause_wins),
        cmocka_unit_test(findings_are_listed),
        cmocka_unit_test(full_text_ends_in_ellipsis),
        cmocka_unit_test(every_status_has_a_text),
    };
    return cmocka_run_group_tests(errors, NULL, NULL);
}

/* ---- arena ----------------------------------------------------------------- */

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    ot_arena *a = ot_arena_new();
    assert_non_null(a);
    static unsigned char *piece[600];
    static size_t size[600];
    size_t sum = 0;
    for (int i = 0; i < 600; i++) {
        size[i] = i % 7 == 0 ? (size_t)i * 401 : (size_t)i % 130;
        piece[i] = i % 3 ? ot_arena_alloc(a, size[i]) : ot_arena_struct(a, size[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % (i % 3 ? 64 : 16), 0);
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], 0);
        memset(piece[i], i & 255, size[i]);
        sum += size[i];
    }
    for (int i = 0; i < 600; i++)
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], i & 255);
    assert_true(ot_arena_used(a) >= sum);
    ot_arena_free(a);
    ot_arena_free(NULL);
}

static void texts_are_copied(void **state)
{
    (void)state;
    ot_arena *a = ot_arena_new();
    char text[] = "graph";
    char *s = ot_arena_strdup(a, text), *p = ot_arena_printf(a, "%s/%d", text, 7);
    int *numbers = ot_arena_copy(a, (int[]){ 1, 2, 3 }, 3 * sizeof(int));
    text[0] = 'x';
    assert_string_equal(s, "graph");
    assert_string_equal(p, "graph/7");
    assert_int_equal(numbers[2], 3);
    assert_int_equal((uintptr_t)numbers % 64, 0);
    assert_non_null(ot_arena_copy(a, NULL, 0));
    ot_arena_free(a);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    ot_arena *a = ot_arena_new();
    volatile size_t huge = SIZE_MAX;
    assert_null(ot_arena_alloc(a, huge));
    assert_null(ot_arena_alloc(a, huge - 64));
    assert_null(ot_arena_alloc(a, huge - 200));
    assert_non_null(ot_arena_alloc(a, 10));
    ot_arena_free(a);
}

int ot_test_arena(void)
{
    const struct CMUnitTest arena[] = {
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(texts_are_copied),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(arena, NULL, NULL);
}

/* ---- shapes ---------------------------------------------------------------- */

#define SHAPE(n, ...) (&(ot_shape){.rank = (n), .dim = {__VA_ARGS__}})

static void sizes(void **state)
{
    (void)state;
    assert_int_equal(ot_numel(&OT_SCALAR), 1);
    assert_int_equal(ot_numel(SHAPE(3, 2, 3, 4)), 24);
    assert_int_equal(ot_numel(SHAPE(2, 5, 0)), 0);
    assert_true(ot_shape_known(SHAPE(1, 0)));
    assert_false(ot_shape_known(SHAPE(2, 3, -1)));
    assert_false(ot_shape_known(SHAPE(-1, 0)));
    assert_true(ot_bytes(SHAPE(1, 3), OT_I4) == 2 && ot_bytes(SHAPE(1, 5), OT_U2) == 2);
    assert_int_equal(ot_bytes(SHAPE(2, 3, 4), OT_F64), 96);
    int64_t stride[OT_MAX_RANK];
    ot_strides(SHAPE(3, 2, 3, 4), stride);
    assert_true(stride[0] == 12 && stride[1] == 4 && stride[2] == 1);
}

static void too_large_shapes_do_not_fit(void **state)
{
    (void)state;
    const int64_t big = INT64_C(1) << 31;
    assert_true(ot_shape_fits(SHAPE(2, big, big / 2), OT_F32) == false);
    assert_true(ot_shape_fits(SHAPE(2, big, big / 4), OT_F32));
    assert_false(ot_shape_fits(SHAPE(3, big, big, big), OT_U8));
    assert_false(ot_shape_fits(SHAPE(4, big, big, big, 0), OT_U8)); /* strides must exist */
    assert_false(ot_shape_fits(SHAPE(1, INT64_MAX), OT_U8));
    assert_false(ot_shape_fits(SHAPE(1, -2), OT_U8));
    assert_true(ot_shape_fits(SHAPE(2, -1, 7), OT_F64));
}

static void texts(void **state)
{
    (void)state;
    char b[128];
    assert_string_equal(ot_shape_text(&OT_SCALAR, b), "[]");
    assert_string_equal(ot_shape_text(SHAPE(3, 2, 3, -1), b), "[2,3,?]");
    assert_string_equal(ot_shape_text(SHAPE(-1, 0), b), "[unknown rank]");
    const int64_t m = INT64_MAX;
    ot_shape_text(SHAPE(8, m, m, m, m, m, m, m, m), b);
    assert_true(strlen(b) < 128);
    assert_string_equal(b + strlen(b) - 4, "…]");
}

static void broadcasting(void **state)
{
    (void)state;
    ot_shape y;
    assert_true(ot_broadcast(SHAPE(3, 2, 1, 4), SHAPE(2, 3, 1), &y));
    assert_true(ot_shape_eq(&y, SHAPE(3, 2, 3, 4)));
    assert_true(ot_broadcast(SHAPE(1, 0), SHAPE(2, 5, 1), &y));
    assert_true(ot_shape_eq(&y, SHAPE(2, 5, 0)));
    assert_false(ot_broadcast(SHAPE(1, 0), SHAPE(1, 2), &y));
    assert_false(ot_broadcast(SHAPE(1, 3), SHAPE(1, 2), &y));
    assert_true(ot_broadcast(SHAPE(1, -1), SHAPE(1, 2), &y) && y.dim[0] == 2);
    assert_true(ot_broadcast(SHAPE(1, -1), SHAPE(1, 1), &y) && y.dim[0] == -1);
    assert_true(ot_broadcast(SHAPE(-1, 0), SHAPE(1, 1), &y) && y.rank == -1);
    ot_shape a = *SHAPE(2, 3, 1); /* the result may be one of the operands */
    assert_true(ot_broadcast(&a, SHAPE(1, 4), &a) && ot_shape_eq(&a, SHAPE(2, 3, 4)));
}

int ot_test_shape(void)
{
    const struct CMUnitTest shape[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(too_large_shapes_do_not_fit),
        cmocka_unit_test(texts),
        cmocka_unit_test(broadcasting),
    };
    return cmocka_run_group_tests(shape, NULL, NULL);
}
