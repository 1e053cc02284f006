/* best.c - validation samples decide which epoch is the best and when to stop; the test set decides nothing. */

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/data/data.h"
#include "runtime/onnxtrain.h"
#include "tests/train/train.h"

enum { SAMPLES = 24, WIDTH = 16, MOST = 64 };

typedef struct bed {
    char folder[32], data[64], other[64], model[64];
    /* what the log said */
    int vals, tests;
    double val[MOST], test[MOST], mean[MOST]; /* losses; the training loss by epoch */
    int64_t n_val, n_test, test_epoch;
    int updates[MOST];
    ot_result result;
    char best_metric[32], selected[16];
} bed;

static void on_log(void *user, const char *line, size_t n)
{
    bed *b = user;
    json_t *e = json_loadb(line, n, 0, NULL);
    const char *event = json_string_value(json_object_get(e, "event")),
               *split = json_string_value(json_object_get(e, "split"));
    double loss = json_number_value(json_object_get(e, "loss"));
    int64_t epoch = json_integer_value(json_object_get(e, "epoch"));
    if (epoch >= MOST) { /* the run with a time limit has as many epochs as it has time for */
        json_decref(e);
        return;
    }
    if (!strcmp(event, "step")) b->mean[epoch] += loss, b->updates[epoch]++;
    if (!strcmp(event, "eval") && !strcmp(split, "val"))
        b->val[++b->vals] = loss, b->n_val = json_integer_value(json_object_get(e, "samples"));
    if (!strcmp(event, "eval") && !strcmp(split, "test")) {
        b->test[++b->tests] = loss;
        b->test_epoch = epoch;
        b->n_test = json_integer_value(json_object_get(e, "samples"));
    }
    if (!strcmp(event, "end"))
        snprintf(b->selected, sizeof b->selected, "%s", json_string_value(json_object_get(e, "selected")));
    json_decref(e);
}

static int open_bed(void **state)
{
    static bed b;
    static float x[SAMPLES * WIDTH];
    static int64_t y[SAMPLES];
    ot_error err = { 0 };
    ot_options *o = ot_options_new();
    *state = &b;
    if (open_folder(b.folder)) return 1;
    snprintf(b.data, sizeof b.data, "%s/d.npz", b.folder);
    snprintf(b.other, sizeof b.other, "%s/t.npz", b.folder);
    snprintf(b.model, sizeof b.model, "%s/m.onnx", b.folder);
    for (int i = 0; i < SAMPLES * WIDTH; i++) x[i] = (float)((int64_t)i * i * 37 % 101) / 101;
    for (int i = 0; i < SAMPLES; i++) y[i] = i * 7 % 3;
    ot_tensor t[] = { { "input", OT_F32, 2, { SAMPLES, WIDTH }, x }, { "target", OT_I64, 1, { SAMPLES }, y } };
    if (ot_npz_write(b.data, t, 2, &err)) return 1;
    for (int i = 0; i < SAMPLES; i++) y[i] = (i * 7 + 1) % 3; /* what is right there is wrong here */
    if (ot_npz_write(b.other, t, 2, &err)) return 1;
    const char *const pairs[][2] = { { "o", b.model }, { "input", "1x4x4" }, { "hidden", "8" }, { "classes", "3" } };
    ot_status s = OT_OK;
    for (int i = 0; i < OT_LEN(pairs) && !s; i++) s = ot_options_set(o, pairs[i][0], pairs[i][1], &err);
    if (!s) s = ot_new_file("mlp", o, NULL, &err);
    ot_options_free(o);
    return s;
}

static int close_bed(void **state) { return close_folder(((bed *)*state)->folder); }

/* Options as "name=value" up to NULL; the model goes to out.onnx. */
static ot_status run(bed *b, ot_error *err, ...)
{
    char text[3][90];
    ot_trainer *t = NULL;
    ot_model *m = NULL;
    ot_options *o = ot_options_new();
    ot_callbacks cb = { .user = b, .log = on_log };
    va_list ap;
    b->vals = b->tests = 0;
    memset(b->mean, 0, sizeof b->mean);
    memset(b->updates, 0, sizeof b->updates);
    *err = (ot_error){ 0 };
    snprintf(text[0], sizeof *text, "data=%s", b->data);
    snprintf(text[1], sizeof *text, "run-dir=%s/run", b->folder);
    snprintf(text[2], sizeof *text, "o=%s/out.onnx", b->folder);
    ot_status s = ot_model_load(b->model, &m, err);
    const char *pair = text[0];
    va_start(ap, err);
    for (int i = 0; !s && pair; pair = ++i < 3 ? text[i] : va_arg(ap, const char *)) s = set_pair(o, pair, err);
    va_end(ap);
    if (!s) s = ot_trainer_new(m, o, &cb, &t, err);
    if (!s) s = ot_trainer_run(t, err);
    if (!s) s = ot_trainer_export(t, NULL, err);
    ot_trainer_result(t, &b->result);
    snprintf(b->best_metric, sizeof b->best_metric, "%s", b->result.best_metric ? b->result.best_metric : "none");
    ot_trainer_free(t);
    ot_model_free(m);
    ot_options_free(o);
    return s;
}

#define ROUGH "optimizer=sgd:lr=2,momentum=0.9", "epochs=8", "batch-size=6"

static int least(const double *v, int n)
{
    int at = 1;
    for (int i = 2; i <= n; i++)
        if (v[i] < v[at]) at = i;
    return at;
}

static bool same_files(const bed *b)
{
    char command[200];
    snprintf(command, sizeof command, "cmp -s %s/out.onnx %s/run/best.onnx", b->folder, b->folder);
    return system(command) == 0;
}

static void validation_decides(void **state)
{
    bed *b = *state;
    ot_error err;
    char test[80];
    snprintf(test, sizeof test, "test=%s", b->other);
    assert_ok(run(b, &err, ROUGH, test, "val-split=0.25", "monitor=loss", NULL), err);
    assert_int_equal(b->vals, 8);
    assert_int_equal(b->n_val, 6);
    assert_int_equal(b->n_test, SAMPLES);
    assert_int_equal(b->updates[1], 3); /* of 18 samples */
    assert_int_equal(b->tests, 1);
    assert_int_equal(b->test_epoch, 8);
    assert_string_equal(b->best_metric, "val loss");
    assert_int_equal(b->result.best_epoch, least(b->val, 8));
    assert_true(b->result.best_epoch < 8); /* else this case shows nothing */
    assert_near(b->result.best, b->val[b->result.best_epoch], 1e-9);
    assert_string_equal(b->selected, "last");
    assert_false(same_files(b));
}

static void the_best_is_written(void **state)
{
    bed *b = *state;
    ot_error err;
    char test[80];
    snprintf(test, sizeof test, "test=%s", b->data);
    assert_ok(run(b, &err, ROUGH, test, "val-split=0.25", "monitor=loss", NULL), err);
    double last = b->test[1];
    assert_ok(run(b, &err, ROUGH, test, "val-split=0.25", "monitor=loss", "select=best", NULL), err);
    assert_true(same_files(b));
    assert_string_equal(b->selected, "best");
    assert_int_equal(b->test_epoch, b->result.best_epoch);
    assert_true(fabs(b->test[1] - last) > 1e-6); /* of the weights that were written */
    assert_near(b->result.loss, b->test[1], 1e-9);
}

/* A test set is evaluated after each epoch where nothing is kept back, and decides nothing. */
static void the_test_set_decides_nothing(void **state)
{
    bed *b = *state;
    ot_error err;
    char test[80];
    snprintf(test, sizeof test, "test=%s", b->other);
    assert_ok(run(b, &err, "optimizer=adam:lr=0.01", "epochs=8", "batch-size=6", test, NULL), err);
    assert_int_equal(b->tests, 8);
    assert_int_equal(b->vals, 0);
    for (int i = 1; i <= 8; i++) b->mean[i] /= b->updates[i];
    assert_string_equal(b->best_metric, "training loss");
    assert_int_equal(b->result.best_epoch, least(b->mean, 8));
    assert_int_not_equal(b->result.best_epoch, least(b->test, 8));
    assert_near(b->result.best, b->mean[b->result.best_epoch], 1e-8);
    assert_ok(run(b, &err, ROUGH, NULL), err);
    assert_int_equal(b->tests, 0);
    assert_string_equal(b->best_metric, "none");
    assert_ok(run(b, &err, ROUGH, "select=best", NULL), err);
    assert_string_equal(b->best_metric, "training loss");
    assert_true(same_files(b));
}

static void it_stops(void **state)
{
    bed *b = *state;
    ot_error err;
    assert_ok(run(b, &err, "epochs=50", "batch-size=6", "val-split=0.25", "patience=3", "min-delta=9", NULL), err);
    assert_string_equal(b->result.reason, "early stop");
    assert_int_equal(b->vals, 4); /* the first, and three without a gain */
    assert_ok(run(b, &err, "optimizer=sgd:lr=0.05", "monitor=loss", "epochs=50", "batch-size=6", "val-split=0.25",
                  "patience=3", "min-delta=9", NULL),
              err);
    assert_int_equal(b->vals, 4);
    assert_true(least(b->val, 4) > 1); /* gains below --min-delta do not count, but are the best */
    assert_int_equal(b->result.best_epoch, least(b->val, 4));
    assert_near(b->result.best, b->val[b->result.best_epoch], 1e-8);
    assert_ok(run(b, &err, "epochs=50", "batch-size=6", "patience=2", "min-delta=9", NULL), err);
    assert_string_equal(b->result.reason, "early stop");
    assert_int_equal(b->result.epochs, 3);
    assert_ok(run(b, &err, "epochs=100000000", "val-split=0.25", "time-limit=0.2s", NULL), err);
    assert_string_equal(b->result.reason, "time limit");
    assert_true(b->result.steps > 0);
    char command[200];
    snprintf(command, sizeof command, "ls %s/run/checkpoint-%09lld.npz >/dev/null", b->folder,
             (long long)b->result.steps);
    assert_int_equal(system(command), 0);
}

static void refused(void **state)
{
    bed *b = *state;
    ot_error err;
    char val[80];
    snprintf(val, sizeof val, "val=%s", b->data);
    assert_int_equal(run(b, &err, "val-split=0.2", val, NULL), OT_E_USAGE);
    assert_says(err, "--val and --val-split");
    assert_int_equal(run(b, &err, "val-split=1", NULL), OT_E_USAGE);
    assert_says(err, "fraction");
    assert_int_equal(run(b, &err, "monitor=accuracy", NULL), OT_E_USAGE);
    assert_says(err, "--val-split 0.1");
    assert_int_equal(run(b, &err, "monitor=beauty", NULL), OT_E_USAGE);
    assert_says(err, "help metric");
    assert_int_equal(run(b, &err, "val-split=0.2", "monitor=top5", NULL), OT_E_USAGE); /* of three classes */
    assert_says(err, "it has loss, accuracy, precision, recall, f1, auc, log_loss");
    assert_int_equal(b->vals + b->updates[1], 0); /* before the first update */
    static const char *const limits[] = { "time-limit=3steps", "time-limit=3" };
    for (int i = 0; i < OT_LEN(limits); i++) {
        assert_int_equal(run(b, &err, limits[i], NULL), OT_E_USAGE);
        assert_says(err, "expected a time (30s, 5min, 1h) or none");
    }
    assert_int_equal(run(b, &err, "val-split=0.2", "monitor=accuracy", "loss=output=mse", NULL) == OT_OK, 0);
}

int test_best(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validation_decides),
        cmocka_unit_test(the_best_is_written),
        cmocka_unit_test(the_test_set_decides_nothing),
        cmocka_unit_test(it_stops),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests_name("best", tests, open_bed, close_bed);
}
