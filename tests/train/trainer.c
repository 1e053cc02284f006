/* trainer.c - the public interface: steps by tensors, whole runs, weights, order, errors. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/train/train.h"

static ot_model *model;
static float pictures[8 * 784];
static int64_t classes[8];

static int open_model(void **state)
{
    (void)state;
    ot_error err = { 0 };
    for (int i = 0; i < 8 * 784; i++) pictures[i] = (float)((int64_t)i * i * 37 % 101) / 101;
    for (int i = 0; i < 8; i++) classes[i] = i % 10;
    return ot_model_load(LENET, &model, &err);
}

static int close_model(void **state)
{
    (void)state;
    ot_model_free(model);
    return 0;
}

static ot_options *options(const char *const (*pairs)[2])
{
    ot_options *o = ot_options_new();
    ot_error err = { 0 };
    for (; pairs && (*pairs)[0]; pairs++) assert_ok(ot_options_set(o, (*pairs)[0], (*pairs)[1], &err), err);
    return o;
}

static void batch(ot_tensor t[2])
{
    t[0] = (ot_tensor){ .name = "input", .dtype = OT_F32, .rank = 4, .dim = { 8, 1, 28, 28 }, .data = pictures };
    t[1] = (ot_tensor){ .name = "target", .dtype = OT_I64, .rank = 1, .dim = { 8 }, .data = classes };
}

static void steps_learn(void **state)
{
    (void)state;
    const char *const pairs[][2] = { { "optimizer", "adam:lr=1e-3" }, { "threads", "1" }, { NULL, NULL } };
    ot_options *o = options(pairs);
    ot_trainer *t = NULL;
    ot_error err = { 0 };
    ot_tensor x[2], w;
    double first = 0, loss = 0;
    batch(x);
    assert_ok(ot_trainer_new(model, o, NULL, &t, &err), err);
    for (int i = 0; i < 30; i++) {
        assert_ok(ot_trainer_step(t, x, 2, &loss, &err), err);
        if (!i) first = loss;
    }
    assert_near(first, log(10), 0.5);
    assert_true(loss < first * 0.7);
    assert_int_equal(ot_trainer_weight_count(t), 8);
    assert_true(ot_trainer_weight_get(t, "fc2.bias", &w));
    assert_int_equal(w.dim[0], 10);

    /* Weights set come back; a wrong shape is refused and a wrong name too. */
    float ten[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    ot_tensor mine = { .name = "fc2.bias", .dtype = OT_F32, .rank = 1, .dim = { 10 }, .data = ten };
    assert_ok(ot_trainer_weight_set(t, &mine, &err), err);
    assert_true(ot_trainer_weight_get(t, "fc2.bias", &w));
    assert_memory_equal(w.data, ten, sizeof ten);
    mine.dim[0] = 9;
    assert_int_equal(ot_trainer_weight_set(t, &mine, &err), OT_E_USAGE);
    mine.name = "nothing";
    err = (ot_error){ 0 };
    assert_int_equal(ot_trainer_weight_set(t, &mine, &err), OT_E_USAGE);

    /* Tensors of one batch have as many samples. */
    x[0].dim[0] = 4;
    assert_int_equal(ot_trainer_step(t, x, 2, &loss, &err), OT_E_DATA);
    err = (ot_error){ 0 };
    assert_int_equal(ot_trainer_run(t, &err), OT_E_USAGE);
    ot_trainer_free(t);
    ot_options_free(o);
}

static void bad_batches(void **state)
{
    (void)state;
    ot_options *o = options(NULL);
    ot_trainer *t = NULL;
    ot_error err = { 0 };
    ot_tensor x[2];
    double loss;
    batch(x);
    assert_ok(ot_trainer_new(model, o, NULL, &t, &err), err);
    classes[3] = 10;
    assert_int_equal(ot_trainer_step(t, x, 2, &loss, &err), OT_E_DATA);
    assert_says(err, "class 10");
    classes[3] = 3;
    err = (ot_error){ 0 };
    assert_ok(ot_trainer_step(t, x, 2, &loss, &err), err); /* nothing had changed */
    pictures[5] = NAN;
    assert_int_equal(ot_trainer_step(t, x, 2, &loss, &err), OT_E_DIVERGED);
    pictures[5] = 0;
    ot_trainer_free(t);
    ot_options_free(o);
}

static void rates_of_zero_change_nothing(void **state)
{
    (void)state;
    const char *const pairs[][2] = { { "optimizer", "adamw:lr=0" }, { "threads", "1" }, { NULL, NULL } };
    ot_options *o = options(pairs);
    ot_trainer *t = NULL;
    ot_error err = { 0 };
    ot_tensor x[2], w, file;
    batch(x);
    assert_ok(ot_trainer_new(model, o, NULL, &t, &err), err);
    assert_ok(ot_trainer_step(t, x, 2, NULL, &err), err);
    for (int i = 0; ot_model_initializer(model, i, &file); i++) {
        assert_true(ot_trainer_weight_get(t, file.name, &w));
        size_t n = sizeof(float);
        for (int d = 0; d < w.rank; d++) n *= (size_t)w.dim[d];
        assert_memory_equal(w.data, file.data, n);
    }
    ot_trainer_free(t);
    ot_options_free(o);
}

static void whole_runs(void **state)
{
    (void)state;
    ot_options *o = options(NULL);
    ot_error err = { 0 };
    ot_tensor x[2];
    ot_tensors y;
    batch(x);
    assert_ok(ot_run(model, o, x, 1, &y, &err), err);
    assert_int_equal(y.n, 1);
    assert_string_equal(y.t[0].name, "output");
    assert_int_equal(y.t[0].dim[0], 8);
    assert_int_equal(y.t[0].dim[1], 10);
    ot_tensors_free(&y);
    x[0].dim[1] = 2;
    assert_int_equal(ot_run(model, o, x, 1, &y, &err), OT_E_DATA);
    ot_options_free(o);
}

static void the_model_describes_itself(void **state)
{
    (void)state;
    ot_tensor t;
    assert_true(ot_model_input(model, 0, &t));
    assert_string_equal(t.name, "input");
    assert_int_equal(t.rank, 4);
    assert_int_equal(t.dim[0], -1);
    assert_false(ot_model_input(model, 1, &t));
    assert_true(ot_model_output(model, 0, &t));
    assert_false(ot_model_output(model, 1, &t));
    assert_true(ot_model_initializer(model, 7, &t));
    assert_false(ot_model_initializer(model, 8, &t));
}

static void texts(void **state)
{
    (void)state;
    ot_options *o = options(NULL);
    ot_error err = { 0 };
    char *text = NULL;
    assert_ok(ot_inspect_text(model, o, &text, &err), err);
    assert_non_null(strstr(text, "conv1.weight"));
    assert_non_null(strstr(text, "431080 of 431080 float parameters train"));
    free(text);
    assert_ok(ot_check_text(model, o, &text, &err), err);
    assert_non_null(strstr(text, "trainable: 431080"));
    free(text);
    assert_ok(ot_plan_text(model, o, &text, &err), err);
    assert_non_null(strstr(text, "Convolve"));
    free(text);
    assert_ok(ot_ops_text(o, &text, &err), err);
    static const char *const listed[] = { "\nMaxPool ", "\nUpsample ", "\nScatter ", "\nai.onnx.ml.TreeEnsemble ",
                                          "\nai.onnx.preview.training.Adagrad " };
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) assert_non_null(strstr(text, listed[i]));
    free(text);
    assert_ok(ot_help_text(true, &text, &err), err);
    for (int i = 0; ot_option_at(i); i++) assert_non_null(strstr(text, ot_option_at(i)->help));
    free(text);
    ot_options_free(o);
}

int test_trainer(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_learn),
        cmocka_unit_test(bad_batches),
        cmocka_unit_test(rates_of_zero_change_nothing),
        cmocka_unit_test(whole_runs),
        cmocka_unit_test(the_model_describes_itself),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests_name("trainer", tests, open_model, close_model);
}
