/* misuse.c - wrong calls of the library: a status, never a crash. */

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "tests/train/train.h"

static ot_model *model;
static ot_options *none;
static float pictures[4 * 784];
static int64_t classes[4];

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

/* OT_E_USAGE that names the argument; and the same without a place for the error. */
#define REFUSED(what, call)                                                                        \
    do {                                                                                           \
        ot_error e_ = { 0 }, *err = &e_;                                                           \
        assert_int_equal(call, OT_E_USAGE);                                                        \
        assert_int_equal(e_.status, OT_E_USAGE);                                                   \
        assert_says(e_, what);                                                                     \
        err = NULL;                                                                                \
        assert_int_equal(call, OT_E_USAGE);                                                        \
    } while (0)

static void objects(void **state)
{
    (void)state;
    ot_model *m = NULL;
    ot_trainer *t = NULL;
    ot_tensors out;
    ot_tensor x = { .name = "input" };
    double a, b;
    char *text = NULL;
    REFUSED("path is NULL", ot_model_load(NULL, &m, err));
    REFUSED("out is NULL", ot_model_load(LENET, NULL, err));
    REFUSED("o is NULL", ot_options_set(NULL, "lr", "1", err));
    REFUSED("name is NULL", ot_options_set(none, NULL, "1", err));
    REFUSED("value is NULL", ot_options_set(none, "lr", NULL, err));
    REFUSED("o is NULL", ot_options_check(NULL, OT_CMD_TRAIN, err));
    REFUSED("m is NULL", ot_trainer_new(NULL, none, NULL, &t, err));
    REFUSED("o is NULL", ot_trainer_new(model, NULL, NULL, &t, err));
    REFUSED("out is NULL", ot_trainer_new(model, none, NULL, NULL, err));
    REFUSED("t is NULL", ot_trainer_run(NULL, err));
    REFUSED("t is NULL", ot_trainer_step(NULL, &x, 1, NULL, err));
    REFUSED("t is NULL", ot_trainer_evaluate(NULL, &a, &b, err));
    REFUSED("t is NULL", ot_trainer_weight_set(NULL, &x, err));
    REFUSED("t is NULL", ot_trainer_export(NULL, "x.onnx", err));
    REFUSED("m is NULL", ot_run(NULL, none, &x, 1, &out, err));
    REFUSED("o is NULL", ot_run(model, NULL, &x, 1, &out, err));
    assert_null(out.t);
    REFUSED("out is NULL", ot_run(model, none, &x, 1, NULL, err));
    REFUSED("m is NULL", ot_run_file(NULL, none, NULL, err));
    REFUSED("o is NULL", ot_run_file(model, NULL, NULL, err));
    REFUSED("m is NULL", ot_grad_file(NULL, none, NULL, err));
    REFUSED("o is NULL", ot_grad_file(model, NULL, NULL, err));
    REFUSED("m is NULL", ot_export_file(NULL, none, NULL, err));
    REFUSED("o is NULL", ot_export_file(model, NULL, NULL, err));
    REFUSED("t is NULL", ot_trainer_check_export(NULL, "x.onnx", err));
    REFUSED("t is NULL", ot_trainer_deploy(NULL, "x.onnx", err));
    REFUSED("m is NULL", ot_eval_text(NULL, none, NULL, &text, err));
    REFUSED("o is NULL", ot_eval_text(model, NULL, NULL, &text, err));
    REFUSED("text is NULL", ot_eval_text(model, none, NULL, NULL, err));
    REFUSED("runs is NULL", ot_compare_text(2, NULL, &text, err));
    REFUSED("text is NULL", ot_compare_text(2, (const char *[]){ "a", "b" }, NULL, err));
    REFUSED("run folder 1 is NULL", ot_compare_text(2, (const char *[]){ "a", NULL }, &text, err));
    REFUSED("m is NULL", ot_series_text(NULL, none, false, NULL, &text, err));
    REFUSED("o is NULL", ot_series_text(model, NULL, false, NULL, &text, err));
    REFUSED("text is NULL", ot_series_text(model, none, false, NULL, NULL, err));
    REFUSED("run_dir is NULL", ot_series_open(NULL, none, &text, err));
    REFUSED("o is NULL", ot_series_open("/tmp", NULL, &text, err));
    REFUSED("model is NULL", ot_series_open("/tmp", none, NULL, err));
    REFUSED("run_dir is NULL", ot_eval_run_text(NULL, none, NULL, &text, err));
    REFUSED("o is NULL", ot_eval_run_text("/tmp", NULL, NULL, &text, err));
    REFUSED("text is NULL", ot_eval_run_text("/tmp", none, NULL, NULL, err));
    ot_status (*const texts[])(const ot_model *, const ot_options *, char **,
                               ot_error *) = { ot_check_text, ot_inspect_text, ot_plan_text };
    for (int i = 0; i < OT_LEN(texts); i++) {
        REFUSED("m is NULL", texts[i](NULL, none, &text, err));
        REFUSED("o is NULL", texts[i](model, NULL, &text, err));
        REFUSED("text is NULL", texts[i](model, none, NULL, err));
    }
    REFUSED("o is NULL", ot_ops_text(NULL, &text, err));
    REFUSED("text is NULL", ot_ops_text(none, NULL, err));
    REFUSED("o is NULL", ot_env_text(NULL, &text, err));
    REFUSED("text is NULL", ot_env_text(none, NULL, err));
    REFUSED("text is NULL", ot_help_about(NULL, NULL, false, NULL, err));
    REFUSED("text is NULL", ot_help_text(false, NULL, err));
    REFUSED("kind is NULL", ot_new_file(NULL, none, NULL, err));
    REFUSED("o is NULL", ot_new_file("lenet", NULL, NULL, err));
    assert_null(text);
    assert_null(t);
    assert_null(m);
}

static void answers(void **state)
{
    (void)state;
    ot_tensor x;
    ot_result r;
    char buf[4];
    assert_false(ot_model_input(NULL, 0, &x) || ot_model_output(NULL, 0, &x) || ot_model_initializer(NULL, 0, &x));
    assert_false(ot_model_input(model, 0, NULL) || ot_model_output(model, 0, NULL) ||
                 ot_model_initializer(model, 0, NULL));
    const int negative[] = { -1, INT_MIN };
    for (int i = 0; i < OT_LEN(negative); i++)
        assert_false(ot_model_input(model, negative[i], &x) || ot_model_output(model, negative[i], &x) ||
                     ot_model_initializer(model, negative[i], &x));
    assert_null(ot_option_at(-1));
    assert_null(ot_option_find(NULL));
    assert_null(ot_option_nearest(NULL));
    assert_null(ot_options_get(NULL, "lr"));
    assert_null(ot_options_get(none, NULL));
    assert_null(ot_options_nth(NULL, "lr", 0));
    assert_null(ot_options_nth(none, NULL, 0));
    assert_null(ot_options_nth(none, "lr", -1));
    assert_int_equal(ot_trainer_weight_count(NULL), 0);
    assert_false(ot_trainer_weight_at(NULL, 0, &x) || ot_trainer_weight_get(NULL, "w", &x));
    ot_trainer_result(NULL, &r);
    assert_string_equal(r.reason, "not started");
    ot_trainer_result(NULL, NULL);
    ot_trainer_cancel(NULL);
    ot_trainer_free(NULL);
    ot_model_free(NULL);
    ot_options_free(NULL);
    ot_tensors_free(NULL);
    ot_tensors_free(&(ot_tensors){ 0 });
    assert_string_equal(ot_shown(NULL, buf, sizeof buf), "");
    assert_non_null(ot_status_text((ot_status)12345));
}

/* Tensors that cannot be read, for a step, for a run, as a weight. */
static void tensors(void **state)
{
    (void)state;
    const ot_tensor good[2] = {
        { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { 4, 1, 28, 28 }, .data = pictures },
        { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { 4 }, .data = classes }
    };
    struct {
        const char *says;
        ot_tensor t;
    } bad[] = {
        { "has no name", { .dtype = OT_F32, .rank = 4, .dim = { 4, 1, 28, 28 }, .data = pictures } },
        { "has no data", { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { 4, 1, 28, 28 } } },
        { "has rank -1", { .name = "input", .dtype = OT_F32, .rank = -1, .data = pictures } },
        { "has rank 9", { .name = "input", .dtype = OT_F32, .rank = 9, .data = pictures } },
        { "dimension 0 is -4",
          { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { -4, 1, 28, 28 }, .data = pictures } },
        { "unknown element type 0", { .name = "input", .rank = 4, .dim = { 4, 1, 28, 28 }, .data = pictures } },
        { "unknown element type 77",
          { .name = "input", .dtype = (ot_dtype)77, .rank = 4, .dim = { 4, 1, 28, 28 }, .data = pictures } },
        { "is too large", { .name = "input", .dtype = OT_F32, .rank = 2, .dim = { INT64_MAX, 2 }, .data = pictures } },
        { "string 0 is NULL",
          { .name = "input", .dtype = OT_STRING, .rank = 1, .dim = { 1 }, .data = (char *[]){ NULL } } },
    };
    ot_trainer *t = NULL;
    ot_error err0 = { 0 };
    ot_tensors out;
    double loss;
    assert_ok(ot_trainer_new(model, none, NULL, &t, &err0), err0);
    REFUSED("tensors is NULL", ot_trainer_step(t, NULL, 2, &loss, err));
    REFUSED("tensors is NULL", ot_trainer_step(t, good, -1, &loss, err));
    REFUSED("tensors is NULL", ot_run(model, none, NULL, 1, &out, err));
    REFUSED("tensors is NULL", ot_trainer_weight_set(t, NULL, err));
    for (int round = 0; round < 2; round++) { /* before the first step, and after it */
        for (int i = 0; i < OT_LEN(bad); i++) {
            ot_tensor pair[2] = { bad[i].t, good[1] };
            REFUSED(bad[i].says, ot_trainer_step(t, pair, 2, &loss, err));
            REFUSED(bad[i].says, ot_run(model, none, &bad[i].t, 1, &out, err));
            REFUSED(bad[i].says, ot_trainer_weight_set(t, &bad[i].t, err));
        }
        assert_int_equal(ot_trainer_step(t, NULL, 0, &loss, NULL) == OT_OK, 0);
        assert_ok(ot_trainer_step(t, good, 2, round ? NULL : &loss, &err0), err0);
    }
    assert_false(ot_trainer_weight_get(t, NULL, NULL) || ot_trainer_weight_at(t, -1, &bad[0].t) ||
                 ot_trainer_weight_at(t, 0, NULL));
    assert_int_equal(ot_trainer_evaluate(t, NULL, NULL, NULL), OT_E_DATA); /* there is no set */
    ot_trainer_free(t);
}

/* Before the first step nothing is planned, and with the option "loss" nothing says for how many classes it is. */
static void early_export(void **state)
{
    (void)state;
    ot_error err0 = { 0 };
    ot_options *o = ot_options_new();
    ot_trainer *t = NULL;
    assert_ok(ot_options_set(o, "loss", "cross_entropy", &err0), err0);
    assert_ok(ot_trainer_new(model, o, NULL, &t, &err0), err0);
    REFUSED("nothing has been trained", ot_trainer_export(t, "never.onnx", err));
    assert_int_equal(access("never.onnx", F_OK), -1);
    ot_trainer_free(t);
    ot_options_free(o);
}

/* A device that is not there: its status from everything that would run on it, and no memory stays behind, which the
 * address sanitizer says at the end. */
static void devices(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_options *o = ot_options_new();
    ot_trainer *t = NULL;
    ot_tensors out;
    char *text = NULL;
    ot_tensor x = { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { 4, 1, 28, 28 }, .data = pictures };
    const char *const pairs[][2] = {
        { "device", "cuda:4095" }, { "data", "devices.npz" }, { "o", "never.npz" }, { "run-dir", "none" }
    };
    assert_ok(ot_npz_write("devices.npz", &x, 1, &err), err);
    for (int i = 0; i < OT_LEN(pairs); i++) assert_ok(ot_options_set(o, pairs[i][0], pairs[i][1], &err), err);
#define NO_DEVICE(call)                                                                            \
    do {                                                                                           \
        err = (ot_error){ 0 };                                                                     \
        assert_int_equal(call, OT_E_DEVICE);                                                       \
        assert_says(err, "cuda");                                                                  \
    } while (0)
    NO_DEVICE(ot_run(model, o, &x, 1, &out, &err));
    assert_null(out.t);
    NO_DEVICE(ot_run_file(model, o, NULL, &err));
    NO_DEVICE(ot_grad_file(model, o, NULL, &err));
    NO_DEVICE(ot_eval_text(model, o, NULL, &text, &err));
    NO_DEVICE(ot_plan_text(model, o, &text, &err));
    NO_DEVICE(ot_trainer_new(model, o, NULL, &t, &err));
    assert_null(t);
    assert_null(text);
    ot_options_free(o);
    unlink("devices.npz");
}

/* A good call is good, and a bad one has its own status and text, whatever the last call left in err. */
static void an_error_belongs_to_one_call(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_model *m = NULL;
    char *text = NULL;
    assert_int_equal(ot_model_load(NULL, &m, &err), OT_E_USAGE);
    assert_ok(ot_model_load(LENET, &m, &err), err);
    assert_int_equal(err.status, OT_OK);
    assert_string_equal(err.text, "");
    ot_model_free(m);
    assert_int_equal(ot_options_set(none, "no such", "1", &err), OT_E_USAGE);
    assert_int_equal(ot_model_load("no such file", &m, &err), OT_E_IO);
    assert_int_equal(err.status, OT_E_IO);
    assert_says(err, "no such file");
    assert_ok(ot_inspect_text(model, none, &text, &err), err);
    free(text);
}

int test_misuse(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(objects), cmocka_unit_test(answers),
                                        cmocka_unit_test(tensors), cmocka_unit_test(early_export),
                                        cmocka_unit_test(devices), cmocka_unit_test(an_error_belongs_to_one_call) };
    return cmocka_run_group_tests_name("misuse", tests, open_model, close_model);
}
