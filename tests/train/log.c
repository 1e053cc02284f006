/* log.c - lines of the log are JSON, whatever the numbers. */

#include <jansson.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>

#include "runtime/train/run/log.h"
#include "tests/train/train.h"

typedef struct lines {
    int n;
    json_t *last;
} lines;

static void take(void *user, const char *line, size_t n)
{
    lines *l = user;
    json_decref(l->last);
    assert_int_equal(line[n - 1], '\n');
    l->last = json_loadb(line, n, 0, NULL);
    assert_non_null(l->last);
    l->n++;
}

static void steps(void **state)
{
    (void)state;
    lines got = { 0 };
    ot_log l = { .user = &got, .line = take };
    ot_log_step s = { .step = 7,
                      .epoch = 2,
                      .samples = 64,
                      .loss = 0.25,
                      .lr = 1e-3,
                      .grad_norm = 3.5,
                      .seconds = 1.25,
                      .has_norm = true };
    ot_log_write_step(&l, &s);
    assert_int_equal(json_integer_value(json_object_get(got.last, "step")), 7);
    assert_near(json_real_value(json_object_get(got.last, "loss")), 0.25, 0);
    assert_near(json_number_value(json_object_get(got.last, "grad_norm")), 3.5, 0);
    assert_null(json_object_get(got.last, "nonfinite"));
    s.loss = NAN;
    s.grad_norm = -INFINITY;
    ot_log_write_step(&l, &s);
    assert_true(json_is_null(json_object_get(got.last, "loss")));
    json_t *bad = json_object_get(got.last, "nonfinite");
    assert_string_equal(json_string_value(json_object_get(bad, "loss")), "nan");
    assert_string_equal(json_string_value(json_object_get(bad, "grad_norm")), "-inf");
    s = (ot_log_step){
        .loss = 1.7976931348623157e308, .lr = 5e-324, .seconds = 1e300, .grad_norm = -1e-300, .has_norm = true
    };
    ot_log_write_step(&l, &s); /* the longest numbers fit */
    assert_int_equal(got.n, 3);
    json_t *e = json_object();
    ot_json_real(&e, "loss", INFINITY);
    ot_json_real(&e, "accuracy", 0.5);
    ot_log_write(&l, e);
    assert_true(json_is_null(json_object_get(got.last, "loss")));
    assert_near(json_real_value(json_object_get(got.last, "accuracy")), 0.5, 0);
    json_decref(got.last);
}

static void a_full_disk_is_told(void **state)
{
    (void)state;
    ot_log l = { .flushed = 0 };
    ot_error err = { 0 };
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) skip();
    assert_ok(ot_log_add(&l, full, "/dev/full", &err), err);
    ot_log_write(&l, json_object());
    assert_int_equal(ot_log_close(&l, &err), OT_E_IO);
    assert_says(err, "/dev/full");
    err = (ot_error){ 0 };
    assert_ok(ot_log_close(&l, &err), err);
}

int test_log(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(steps), cmocka_unit_test(a_full_disk_is_told) };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
