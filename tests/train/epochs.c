/* epochs.c - how epochs are divided into updates, on LeNet and ten generated images. */

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "tests/train/train.h"

enum { SAMPLES = 10, MOST = 64 };

typedef struct bed {
    char folder[32], data[64];
    ot_model *model;
    /* what the log said */
    int steps, evals;
    int64_t samples[MOST], epoch[MOST];
    double loss[MOST];
    char reason[32];
} bed;

static void on_log(void *user, const char *line, size_t n)
{
    bed *b = user;
    json_t *e = json_loadb(line, n, 0, NULL);
    const char *event = json_string_value(json_object_get(e, "event"));
    assert_non_null(event);
    if (!strcmp(event, "step") && b->steps < MOST) {
        b->samples[b->steps] = json_integer_value(json_object_get(e, "samples"));
        b->epoch[b->steps] = json_integer_value(json_object_get(e, "epoch"));
        b->loss[b->steps++] = json_number_value(json_object_get(e, "loss"));
    }
    if (!strcmp(event, "eval")) b->evals++;
    if (!strcmp(event, "end"))
        snprintf(b->reason, sizeof b->reason, "%s", json_string_value(json_object_get(e, "reason")));
    json_decref(e);
}

static int open_bed(void **state)
{
    static bed b;
    ot_error err = { 0 };
    *state = &b;
    if (open_folder(b.folder)) return 1;
    snprintf(b.data, sizeof b.data, "%s/d.npz", b.folder);
    return write_digits(b.data, SAMPLES, 4, 1) || ot_model_load(LENET, &b.model, &err);
}

static int close_bed(void **state)
{
    bed *b = *state;
    ot_model_free(b->model);
    return close_folder(b->folder);
}

/* Options as "name=value" up to NULL. */
static ot_status run(bed *b, ot_error *err, ...)
{
    char run_dir[64];
    ot_trainer *t = NULL;
    ot_options *o = ot_options_new();
    ot_callbacks cb = { .user = b, .log = on_log };
    const char *pair;
    va_list ap;
    b->steps = b->evals = 0;
    *b->reason = '\0';
    *err = (ot_error){ 0 };
    snprintf(run_dir, sizeof run_dir, "%s/run", b->folder);
    ot_status s = ot_options_set(o, "data", b->data, err);
    if (!s) s = ot_options_set(o, "run-dir", run_dir, err);
    if (!s) s = ot_options_set(o, "threads", "1", err);
    va_start(ap, err);
    while (!s && (pair = va_arg(ap, const char *))) s = set_pair(o, pair, err);
    va_end(ap);
    if (!s) s = ot_trainer_new(b->model, o, &cb, &t, err);
    if (!s) s = ot_trainer_run(t, err);
    ot_trainer_free(t);
    ot_options_free(o);
    return s;
}

static void assert_samples(const bed *b, int n, const int64_t *expected)
{
    assert_int_equal(b->steps, n);
    for (int i = 0; i < n; i++) assert_int_equal(b->samples[i], expected[i]);
}

static void the_last_batch_is_short(void **state)
{
    bed *b = *state;
    ot_error err;
    assert_ok(run(b, &err, "batch-size=4", "epochs=2", NULL), err);
    assert_samples(b, 6, (int64_t[]){ 4, 4, 2, 4, 4, 2 });
    assert_int_equal(b->epoch[2], 1);
    assert_int_equal(b->epoch[3], 2);
    assert_string_equal(b->reason, "finished");
    assert_ok(run(b, &err, "batch-size=4", "epochs=1", "drop-last=true", NULL), err);
    assert_samples(b, 2, (int64_t[]){ 4, 4 });
    assert_ok(run(b, &err, "batch-size=100", "epochs=1", NULL), err);
    assert_samples(b, 1, (int64_t[]){ 10 });
}

static void unshuffled_wraps_around(void **state)
{
    bed *b = *state;
    ot_error err;
    assert_ok(run(b, &err, "batch-size=4", "epochs=1", "no-shuffle=true", NULL), err);
    assert_samples(b, 3, (int64_t[]){ 4, 4, 4 });
    /* Five batches of four are two rounds: with a rate of 0 the sixth is the first again. */
    assert_ok(run(b, &err, "batch-size=4", "steps=6", "no-shuffle=true", "optimizer=sgd:lr=0", NULL), err);
    assert_near(b->loss[5], b->loss[0], 0);
    assert_true(b->loss[2] != b->loss[0]);
    assert_ok(run(b, &err, "batch-size=20", "steps=1", "no-shuffle=true", "optimizer=sgd:lr=0", NULL), err);
    assert_samples(b, 1, (int64_t[]){ 20 });
}

static void batches_accumulate(void **state)
{
    bed *b = *state;
    ot_error err;
    double whole[3];
    assert_ok(run(b, &err, "batch-size=4", "accumulate=2", "epochs=1", NULL), err);
    assert_samples(b, 2, (int64_t[]){ 8, 2 });
    assert_ok(run(b, &err, "batch-size=3", "accumulate=3", "epochs=1", NULL), err);
    assert_samples(b, 2, (int64_t[]){ 9, 1 });
    assert_ok(run(b, &err, "batch-size=3", "accumulate=4", "epochs=1", NULL), err);
    assert_samples(b, 1, (int64_t[]){ 10 });

    /* Two halves are the whole: the loss is a mean of means of equal size. */
    assert_ok(run(b, &err, "batch-size=10", "steps=3", "no-shuffle=true", "optimizer=sgd:lr=0.1", NULL), err);
    memcpy(whole, b->loss, sizeof whole);
    assert_ok(run(b, &err, "batch-size=5", "accumulate=2", "steps=3", "no-shuffle=true", "optimizer=sgd:lr=0.1", NULL),
              err);
    for (int i = 0; i < 3; i++) assert_near(b->loss[i], whole[i], 1e-5);
    assert_true(fabs(whole[2] - whole[0]) > 1e-3);
}

static void steps_and_epochs_end_it(void **state)
{
    bed *b = *state;
    ot_error err;
    assert_ok(run(b, &err, "batch-size=5", "steps=5", NULL), err);
    assert_int_equal(b->steps, 5);
    assert_ok(run(b, &err, "batch-size=5", "steps=5", "epochs=1", NULL), err);
    assert_int_equal(b->steps, 2);
    assert_ok(run(b, &err, "batch-size=5", "steps=1", "epochs=9", NULL), err);
    assert_int_equal(b->steps, 1);
    assert_ok(run(b, &err, "batch-size=5", NULL), err);
    assert_int_equal(b->steps, 20); /* ten epochs */
}

static void seeds_decide_the_order(void **state)
{
    bed *b = *state;
    ot_error err;
    double first[6];
    assert_ok(run(b, &err, "batch-size=4", "epochs=2", "seed=5", NULL), err);
    memcpy(first, b->loss, sizeof first);
    assert_ok(run(b, &err, "batch-size=4", "epochs=2", "seed=5", NULL), err);
    assert_memory_equal(b->loss, first, sizeof first);
    assert_ok(run(b, &err, "batch-size=4", "epochs=2", "seed=6", NULL), err);
    assert_memory_not_equal(b->loss, first, sizeof first);
}

static void evaluation_and_best(void **state)
{
    bed *b = *state;
    ot_error err;
    char val[80], best[80];
    snprintf(val, sizeof val, "val=%s", b->data);
    snprintf(best, sizeof best, "%s/run/best.onnx", b->folder);
    assert_ok(run(b, &err, "batch-size=4", "epochs=3", val, NULL), err);
    assert_int_equal(b->evals, 3);
    assert_int_equal(access(best, F_OK), 0);
    assert_ok(run(b, &err, "batch-size=4", "epochs=1", NULL), err);
    assert_int_equal(b->evals, 0);
}

static void divergence_ends_it(void **state)
{
    bed *b = *state;
    ot_error err;
    assert_int_equal(run(b, &err, "batch-size=5", "steps=30", "optimizer=sgd:lr=1e30", NULL), OT_E_DIVERGED);
    assert_says(err, "step ");
    assert_string_equal(b->reason, "diverged");
    assert_ok(run(b, &err, "batch-size=5", "steps=8", "optimizer=sgd:lr=1e30", "on-nonfinite=skip", NULL), err);
    assert_int_equal(b->steps, 8);
}

/* ---- stopping ---------------------------------------------------------------------------- */

static ot_trainer *volatile stopped;

static void stop_it(int signal)
{
    (void)signal;
    ot_trainer_cancel(stopped);
}

typedef struct stop {
    int steps;
} stop;

/* The first step is about to begin: it is stopped a little later. */
static void stop_soon(void *user, const char *line, size_t n)
{
    const struct itimerval soon = { .it_value = { .tv_usec = 30000 } };
    stop *s = user;
    (void)n;
    if (strstr(line, "\"event\":\"start\"")) setitimer(ITIMER_REAL, &soon, NULL);
    s->steps += strstr(line, "\"event\":\"step\"") != NULL;
}

/* One batch of 5,000 images takes half a second or more; stopped within it, it has no effect. */
static void a_long_step_is_dropped(void **state)
{
    enum { MANY = 5000 };
    bed *b = *state;
    ot_error err = { 0 };
    char path[80];
    stop seen = { 0 };
    float *x = calloc(MANY * 784, sizeof *x);
    int64_t *y = calloc(MANY, sizeof *y);
    assert_true(x && y);
    for (int i = 0; i < MANY * 784; i++) x[i] = (float)(i % 101) / 101;
    ot_tensor t[2] = { { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { MANY, 1, 28, 28 }, .data = x },
                       { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { MANY }, .data = y } };
    snprintf(path, sizeof path, "%s/many.npz", b->folder);
    assert_ok(ot_npz_write(path, t, 2, &err), err);
    ot_options *o = ot_options_new();
    const char *const given[][2] = {
        { "data", path }, { "run-dir", "none" }, { "threads", "1" }, { "batch-size", "5000" }, { "device", "cpu" }
    };
    for (int i = 0; i < OT_LEN(given); i++) assert_ok(ot_options_set(o, given[i][0], given[i][1], &err), err);
    ot_callbacks cb = { .user = &seen, .log = stop_soon };
    ot_trainer *trainer = NULL;
    assert_ok(ot_trainer_new(b->model, o, &cb, &trainer, &err), err);
    ot_result r;
    stopped = trainer;
    signal(SIGALRM, stop_it);
    assert_ok(ot_trainer_run(trainer, &err), err);
    signal(SIGALRM, SIG_DFL);
    ot_trainer_result(trainer, &r);
    assert_string_equal(r.reason, "cancelled");
    assert_int_equal(r.steps, 0);
    assert_int_equal(seen.steps, 0);
    snprintf(path, sizeof path, "%s/stopped.onnx", b->folder);
    assert_ok(ot_trainer_export(trainer, path, &err), err);
    char command[200];
    snprintf(command, sizeof command, "cmp -s %s %s", path, LENET); /* as it was, bit for bit */
    assert_int_equal(system(command), 0);
    ot_trainer_free(trainer);
    ot_options_free(o);
    free(x);
    free(y);
}

static void note_reason(void *user, const ot_progress *p)
{
    bed *b = user;
    ot_result r;
    (void)p;
    ot_trainer_result(stopped, &r);
    snprintf(b->reason, sizeof b->reason, "%s", r.reason);
}

/* In a current folder where no file can be made, not even by root.  Without the option o the caller decides what is written. */
static void nothing_is_written_there(void **state)
{
    bed *b = *state;
    ot_error err;
    char here[512], path[80];
    ot_options *o = ot_options_new();
    ot_callbacks cb = { .user = b, .progress = note_reason };
    ot_trainer *t = NULL;
    ot_result r;
    const char *const given[][2] = {
        { "data", b->data }, { "run-dir", "none" }, { "threads", "1" }, { "epochs", "1" }
    };
    for (int i = 0; i < OT_LEN(given); i++) assert_ok(ot_options_set(o, given[i][0], given[i][1], &err), err);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir("/proc"), 0);
    assert_ok(ot_trainer_new(b->model, o, &cb, &t, &err), err);
    stopped = t;
    ot_trainer_result(t, &r);
    assert_string_equal(r.reason, "not started");
    assert_ok(ot_trainer_run(t, &err), err);
    assert_string_equal(b->reason, "running");
    assert_int_equal(ot_trainer_check_export(t, NULL, &err), OT_E_IO);
    assert_int_equal(ot_trainer_export(t, NULL, &err), OT_E_IO);
    snprintf(path, sizeof path, "%s/there.onnx", b->folder);
    assert_ok(ot_trainer_check_export(t, path, &err), err);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_ok(ot_trainer_export(t, path, &err), err);
    ot_trainer_free(t);
    assert_ok(ot_options_set(o, "o", "out.onnx", &err), err);
    assert_int_equal(ot_trainer_new(b->model, o, &cb, &t, &err), OT_E_IO);
    assert_int_equal(chdir(here), 0);
    ot_options_free(o);
}

int test_epochs(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_batch_is_short),  cmocka_unit_test(unshuffled_wraps_around),
        cmocka_unit_test(batches_accumulate),       cmocka_unit_test(steps_and_epochs_end_it),
        cmocka_unit_test(seeds_decide_the_order),   cmocka_unit_test(evaluation_and_best),
        cmocka_unit_test(divergence_ends_it),       cmocka_unit_test(a_long_step_is_dropped),
        cmocka_unit_test(nothing_is_written_there),
    };
    return cmocka_run_group_tests_name("epochs", tests, open_bed, close_bed);
}
