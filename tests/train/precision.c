/* precision.c - the log of a run in 16 bits, on the mlp and eight generated samples. */

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "tests/train/train.h"

#define MLP OT_SOURCE_ROOT "/models/mlp.onnx"

enum { SAMPLES = 8, STEPS = 16 };

typedef struct bed {
    char folder[32], data[64];
    ot_model *model;
    /* what the log said */
    char precision[16], reason[32];
    int steps, skipped; /* skipped: with a norm that was no number */
    double loss[STEPS];
} bed;

static void on_log(void *user, const char *line, size_t n)
{
    bed *b = user;
    json_t *e = json_loadb(line, n, 0, NULL);
    const char *event = json_string_value(json_object_get(e, "event"));
    assert_non_null(event);
    if (!strcmp(event, "start"))
        snprintf(b->precision, sizeof b->precision, "%s", json_string_value(json_object_get(e, "precision")));
    if (!strcmp(event, "step") && b->steps < STEPS) {
        json_t *norm = json_object_get(e, "grad_norm"), *bad = json_object_get(e, "nonfinite");
        assert_non_null(norm);
        assert_int_equal(json_is_null(norm), json_object_get(bad, "grad_norm") != NULL);
        b->skipped += json_is_null(norm);
        b->loss[b->steps++] = json_number_value(json_object_get(e, "loss"));
    }
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
    return write_digits(b.data, SAMPLES, 2, 100) || ot_model_load(MLP, &b.model, &err);
}

static int close_bed(void **state)
{
    bed *b = *state;
    ot_model_free(b->model);
    return close_folder(b->folder);
}

static void train(bed *b, const char *precision)
{
    char run_dir[64];
    ot_trainer *t = NULL;
    ot_error err = { 0 };
    ot_options *o = ot_options_new();
    ot_callbacks cb = { .user = b, .log = on_log };
    b->steps = b->skipped = 0;
    snprintf(run_dir, sizeof run_dir, "%s/run", b->folder);
    const char *const given[][2] = { { "data", b->data }, { "run-dir", run_dir },    { "threads", "1" },
                                     { "device", "cpu" }, { "batch-size", "4" },     { "steps", "16" },
                                     { "lr", "1e-4" },    { "precision", precision } };
    for (int i = 0; i < OT_LEN(given); i++) assert_ok(ot_options_set(o, given[i][0], given[i][1], &err), err);
    assert_ok(ot_trainer_new(b->model, o, &cb, &t, &err), err);
    assert_ok(ot_trainer_run(t, &err), err);
    ot_trainer_free(t);
    ot_options_free(o);
    assert_int_equal(b->steps, STEPS);
    assert_string_equal(b->reason, "finished");
}

/* Both train on the CPU: fp16 in float32, whose gradients do not overflow by inputs of 100. */
static void sixteen_bits_train(void **state)
{
    static const char *const names[] = { "fp16", "bf16" };
    bed *b = *state;
    for (int k = 0; k < OT_LEN(names); k++) {
        train(b, names[k]);
        assert_string_equal(b->precision, names[k]);
        assert_int_equal(b->skipped, 0);
        for (int i = 0; i < STEPS; i++)
            assert_true(isfinite(b->loss[i]) && b->loss[i] > 0 && b->loss[i] < 1000); /* not the scaled one */
    }
}

/* No product of four samples is faster in bf16. */
static void auto_is_fp32_of_a_small_batch(void **state)
{
    bed *b = *state;
    double loss[STEPS];
    train(b, "fp32");
    memcpy(loss, b->loss, sizeof loss);
    train(b, "auto");
    assert_string_equal(b->precision, "fp32");
    assert_memory_equal(loss, b->loss, sizeof loss);
    train(b, "tf32"); /* says that it has no effect, and has none */
    assert_string_equal(b->precision, "tf32");
    assert_memory_equal(loss, b->loss, sizeof loss);
}

int test_precision(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sixteen_bits_train),
                                        cmocka_unit_test(auto_is_fp32_of_a_small_batch) };
    return cmocka_run_group_tests_name("precision", tests, open_bed, close_bed);
}
