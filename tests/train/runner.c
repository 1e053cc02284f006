/* runner.c - ot_runner against ot_run, on LeNet: other values, other shapes, more shapes than are kept, and refused inputs between. */

#include <stdlib.h>

#include "tests/train/train.h"

enum { MOST = 12 };

static ot_model *model;
static ot_options *none;
static float pictures[MOST * 784];

static int open_model(void **state)
{
    (void)state;
    return open_lenet(&model, &none);
}

static int close_model(void **state)
{
    (void)state;
    ot_model_free(model);
    ot_options_free(none);
    return 0;
}

static ot_tensor images(int n, float seed)
{
    for (int i = 0; i < n * 784; i++) pictures[i] = (float)(i % 97) / 97 * seed;
    return (ot_tensor){ .name = "input", .dtype = OT_F32, .rank = 4, .dim = { n, 1, 28, 28 }, .data = pictures };
}

static ot_runner *runner(void)
{
    ot_runner *r = NULL;
    ot_error err = { 0 };
    assert_ok(ot_runner_new(model, none, &r, &err), err);
    return r;
}

static void runs_as_once(ot_runner *r, const ot_tensor *x)
{
    ot_tensors a, b;
    ot_error err = { 0 };
    assert_ok(ot_runner_run(r, x, 1, &a, &err), err);
    assert_ok(ot_run(model, none, x, 1, &b, &err), err);
    assert_int_equal(a.n, 1);
    assert_string_equal(a.t[0].name, "output");
    assert_int_equal(a.t[0].dim[0], x->dim[0]);
    assert_int_equal(a.t[0].dim[1], 10);
    const float *p = a.t[0].data, *q = b.t[0].data;
    for (int64_t i = 0; i < x->dim[0] * 10; i++) assert_near(p[i], q[i], 1e-5);
    ot_tensors_free(&a);
    ot_tensors_free(&b);
}

static void values_are_those_of_the_call(void **state)
{
    (void)state;
    ot_runner *r = runner();
    for (int i = 1; i < 4; i++) {
        ot_tensor x = images(2, (float)i);
        runs_as_once(r, &x);
    }
    ot_tensor x = images(2, 1);
    float *elsewhere = malloc(2 * 784 * sizeof *elsewhere);
    assert_non_null(elsewhere);
    memcpy(elsewhere, pictures, 2 * 784 * sizeof *elsewhere);
    elsewhere[300] = 9;
    x.data = elsewhere;
    runs_as_once(r, &x);
    free(elsewhere);
    ot_runner_free(r);
}

static void more_shapes_than_are_kept(void **state)
{
    (void)state;
    ot_runner *r = runner();
    for (int i = 0; i < 2 * MOST; i++) {
        ot_tensor x = images(1 + i % MOST, 1);
        runs_as_once(r, &x);
        x = images(1, 2);
        runs_as_once(r, &x);
    }
    ot_runner_free(r);
}

static void refused_inputs_leave_it_usable(void **state)
{
    (void)state;
    ot_runner *r = runner();
    ot_tensors out;
    ot_error err = { 0 };
    ot_tensor x = images(2, 1), wide = x;
    wide.dim[1] = 2;
    runs_as_once(r, &x);
    assert_int_equal(ot_runner_run(r, &wide, 1, &out, &err), OT_E_DATA);
    assert_null(out.t);
    err = (ot_error){ 0 };
    assert_int_equal(ot_runner_run(r, NULL, 0, &out, &err), OT_E_DATA);
    runs_as_once(r, &x);
    const ot_tensor twice[] = { x, x };
    assert_int_equal(ot_runner_run(r, twice, 2, &out, &err), OT_E_DATA);
    assert_says(err, "'input' is given twice");
    assert_int_equal(ot_run(model, none, twice, 2, &out, &err), OT_E_DATA);
    assert_says(err, "'input' is given twice");
    runs_as_once(r, &x);
    err = (ot_error){ 0 };
    assert_int_equal(ot_runner_run(NULL, &x, 1, &out, &err), OT_E_USAGE);
    assert_int_equal(ot_runner_run(r, &x, 1, NULL, NULL), OT_E_USAGE);
    ot_runner *none_of_it = r;
    assert_int_equal(ot_runner_new(NULL, none, &none_of_it, NULL), OT_E_USAGE);
    assert_null(none_of_it);
    ot_runner_free(NULL);
    ot_runner_free(r);
}

int test_runner(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_call),
        cmocka_unit_test(more_shapes_than_are_kept),
        cmocka_unit_test(refused_inputs_leave_it_usable),
    };
    return cmocka_run_group_tests_name("runner", tests, open_model, close_model);
}
