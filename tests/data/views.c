/* views.c - arrays whose rows overlap or are listed: batches, checks, splits, fingerprints. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "runtime/data/internal.h"

enum { TOKENS = 12, LENGTH = 4, STEP = 2, WINDOWS = (TOKENS - LENGTH) / STEP + 1 };

/* Windows of LENGTH tokens, one every STEP, over 0, 1, 2 ... */
static ot_dataset *windows(uint16_t *tokens)
{
    ot_dataset *d = ot_dataset_new("windows");
    ot_array *a = d ? ot_dataset_add(d, "x") : NULL;
    assert_non_null(a);
    for (int i = 0; i < TOKENS; i++) tokens[i] = (uint16_t)i;
    a->t.dtype = OT_U16;
    a->t.rank = 2;
    a->t.dim[0] = WINDOWS;
    a->t.dim[1] = LENGTH;
    a->t.data = tokens;
    a->stride = STEP;
    ot_dataset_arrange(d);
    assert_int_equal(ot_dataset_finish(d, NULL), OT_OK);
    assert_int_equal(d->samples, WINDOWS);
    return d;
}

static void expect_windows(const ot_array *a, const int64_t *first, int64_t n)
{
    int64_t index[WINDOWS] = { 0 }, got[WINDOWS * LENGTH];
    ot_gather g = { .src = a, .dtype = OT_I64, .elements = LENGTH, .channels = 1, .inner = 1 };
    for (int64_t i = 0; i < n; i++) index[i] = n - 1 - i;
    ot_gather_run(&g, index, n, got, 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < LENGTH; k++) assert_int_equal(got[i * LENGTH + k], first[n - 1 - i] + k);
    for (int64_t i = 0; i < n * LENGTH; i++)
        assert_int_equal(ot_get_i64(a->t.data, OT_U16, ot_array_at(a, i)), first[i / LENGTH] + i % LENGTH);
}

static void overlapping_rows(void **state)
{
    (void)state;
    uint16_t tokens[TOKENS];
    int64_t first[WINDOWS];
    ot_dataset *d = windows(tokens);
    for (int i = 0; i < WINDOWS; i++) first[i] = i * STEP;
    expect_windows(&d->array[0], first, WINDOWS);
    ot_dataset_free(d);
}

/* A split leaves overlapping rows where they are: both parts list their own. */
static void split_rows(void **state)
{
    (void)state;
    uint16_t tokens[TOKENS];
    ot_dataset *d = windows(tokens), *v;
    ot_error e = { 0 };
    int classes;
    if (ot_dataset_split(d, 0.4, 7, &v, &classes, &e)) fail_msg("%s", e.text);
    assert_int_equal(v->samples, 2);
    assert_int_equal(d->samples, WINDOWS - 2);
    assert_ptr_equal(v->array[0].t.data, tokens);
    for (int part = 0; part < 2; part++) {
        const ot_dataset *x = part ? v : d;
        int64_t first[WINDOWS];
        for (int64_t i = 0; i < x->samples; i++) first[i] = ot_dataset_origin(x, i) * STEP;
        expect_windows(&x->array[0], first, x->samples);
    }
    ot_dataset_free(v);
    ot_dataset_free(d);
}

/* The fingerprint and the check follow the rows, not the bytes in between. */
static void only_rows_count(void **state)
{
    (void)state;
    float x[6] = { 1, 2, NAN, 4, 5, INFINITY };
    int64_t rows[2] = { 1, 0 };
    ot_error e = { 0 };
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        ot_dataset *d = ot_dataset_new("rows");
        ot_array *a = d ? ot_dataset_add(d, "x") : NULL;
        assert_non_null(a);
        a->t.dtype = OT_F32;
        a->t.rank = 2;
        a->t.dim[0] = a->t.dim[1] = 2;
        a->t.data = x;
        a->stride = 3;
        a->row = i ? rows : NULL;
        x[2] = i == 2 ? 7 : NAN;
        ot_dataset_arrange(d);
        assert_int_equal(ot_dataset_finish(d, &e), OT_OK);
        hash[i] = d->hash;
        if (ot_dataset_check(d, &e)) fail_msg("%s", e.text);
        ot_dataset_free(d);
    }
    assert_true(hash[0] != hash[1]);
    assert_true(hash[1] == hash[2]);
}

int ot_test_views(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_rows),
        cmocka_unit_test(split_rows),
        cmocka_unit_test(only_rows_count),
    };
    return cmocka_run_group_tests_name("views", tests, NULL, NULL);
}
