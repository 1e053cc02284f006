/* steps.c - ot_trainer_step and ot_trainer_predict: batches of several shapes, refused batches, memory of the caller. */

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/train/train.h"

#define NORMS OT_SOURCE_ROOT "/tests/exports/norms-training.onnx"

enum { MOST = 12, OUT = 4 };

/* A batch in memory of its own, which is gone after the step. */
typedef struct given {
    ot_tensor t[2];
    float *x;
    int64_t *y;
} given;

static given batch(const ot_model *m, int n, int seed)
{
    given g;
    int64_t one = 1;
    assert_true(ot_model_input(m, 0, &g.t[0]));
    g.t[0].dim[0] = n;
    for (int i = 1; i < g.t[0].rank; i++) one *= g.t[0].dim[i];
    g.x = malloc((size_t)(n * one) * sizeof *g.x);
    g.y = malloc((size_t)n * sizeof *g.y);
    assert_true(g.x && g.y);
    for (int64_t i = 0; i < n * one; i++) g.x[i] = (float)((i * 37 + seed * 11) % 101) / 101;
    for (int i = 0; i < n; i++) g.y[i] = (i + seed) % OUT;
    g.t[0].data = g.x;
    g.t[1] = (ot_tensor){ .name = "target", .dtype = OT_I64, .rank = 1, .dim = { n }, .data = g.y };
    return g;
}

static void drop(given *g)
{
    free(g->x);
    free(g->y);
}

static void step(ot_trainer *t, const ot_model *m, int n, int seed)
{
    ot_error err = { 0 };
    double loss;
    given g = batch(m, n, seed);
    assert_ok(ot_trainer_step(t, g.t, 2, &loss, &err), err);
    assert_true(isfinite(loss));
    drop(&g);
}

static ot_trainer *trainer(const ot_model *m, ot_options **o, const char *optimizer)
{
    ot_trainer *t = NULL;
    ot_error err = { 0 };
    *o = ot_options_new();
    assert_ok(ot_options_set(*o, "threads", "1", &err), err);
    assert_ok(ot_options_set(*o, "optimizer", optimizer, &err), err);
    assert_ok(ot_trainer_new(m, *o, NULL, &t, &err), err);
    return t;
}

static ot_model *load(const char *path)
{
    ot_model *m = NULL;
    ot_error err = { 0 };
    assert_ok(ot_model_load(path, &m, &err), err);
    return m;
}

/* The name of a file in a new folder; and both gone. */
static void begin_file(char file[64])
{
    strcpy(file, "/tmp/onnxtrain-steps-XXXXXX");
    assert_non_null(mkdtemp(file));
    strcat(file, "/a.onnx");
}

static void end_file(char file[64])
{
    unlink(file);
    *strrchr(file, '/') = '\0';
    rmdir(file);
}

static size_t elements(const ot_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

static void same_weights(ot_trainer *a, ot_trainer *b, double eps)
{
    ot_tensor x, y;
    assert_true(ot_trainer_weight_count(a) > 3);
    for (int i = 0; ot_trainer_weight_at(a, i, &x); i++) {
        assert_true(ot_trainer_weight_get(b, x.name, &y));
        assert_int_equal(x.dtype, OT_F32);
        for (size_t k = 0; k < elements(&x); k++) assert_near(((float *)x.data)[k], ((float *)y.data)[k], eps);
    }
}

static void close_all(ot_trainer *t, ot_options *o)
{
    ot_trainer_free(t);
    ot_options_free(o);
}

/* A shorter batch after a long one trains the weights that the long one left. */
static void a_shorter_batch(void **state)
{
    (void)state;
    char file[64];
    begin_file(file);
    ot_error err = { 0 };
    ot_options *oa, *ob;
    ot_model *m = load(NORMS);
    ot_trainer *a = trainer(m, &oa, "sgd:lr=0.1");
    step(a, m, 8, 1);
    assert_ok(ot_trainer_export(a, file, &err), err); /* the batch is gone */
    step(a, m, 5, 2);
    ot_model *after = load(file);
    ot_trainer *b = trainer(after, &ob, "sgd:lr=0.1");
    step(b, after, 5, 2);
    same_weights(a, b, 1e-6);
    close_all(a, oa);
    close_all(b, ob);
    ot_model_free(after);
    ot_model_free(m);
    end_file(file);
}

/* Plans that come later leave weights, statistics and the optimizer's state as they are. */
static void other_shapes_between(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_options *oa, *ob;
    ot_model *m = load(NORMS);
    ot_trainer *a = trainer(m, &oa, "adam:lr=0.01"), *b = trainer(m, &ob, "adam:lr=0.01");
    for (int i = 0; i < 4; i++) {
        step(a, m, 8, i);
        step(b, m, 8, i);
        for (int n = 1; n < MOST; n++) {
            ot_tensors out;
            given g = batch(m, n, i);
            assert_ok(ot_trainer_predict(b, g.t, 1, &out, &err), err);
            assert_int_equal(out.n, 1);
            assert_int_equal(out.t[0].dim[0], n);
            ot_tensors_free(&out);
            drop(&g);
        }
    }
    same_weights(a, b, 0);
    close_all(a, oa);
    close_all(b, ob);
    ot_model_free(m);
}

static void refused_batches_change_nothing(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_options *oa, *ob;
    ot_model *m = load(NORMS);
    ot_trainer *a = trainer(m, &oa, "adam:lr=0.01"), *b = trainer(m, &ob, "adam:lr=0.01");
    for (int i = 0; i < 3; i++) {
        step(a, m, 8, i);
        step(b, m, 8, i);
        given g = batch(m, 8, i + 7);
        g.y[5] = 77;
        assert_int_equal(ot_trainer_step(b, g.t, 2, NULL, &err), OT_E_DATA);
        g.y[5] = 0;
        g.x[3] = NAN;
        assert_int_equal(ot_trainer_step(b, g.t, 2, NULL, &err), OT_E_DIVERGED);
        assert_says(err, "in the tensors of this step");
        ot_tensor twice[3] = { g.t[0], g.t[1], g.t[0] };
        assert_int_equal(ot_trainer_step(b, twice, 3, NULL, &err), OT_E_DATA);
        assert_says(err, "given twice");
        ot_tensor none[2] = { g.t[0], { .name = "target", .dtype = OT_U8, .rank = 2, .dim = { INT64_MAX / 4, 0 } } };
        assert_int_equal(ot_trainer_step(b, none, 2, NULL, &err), OT_E_DATA);
        g.t[0].dim[0] = g.t[1].dim[0] = 0;
        assert_int_equal(ot_trainer_step(b, g.t, 2, NULL, &err), OT_E_DATA);
        assert_says(err, "has no samples");
        drop(&g);
    }
    same_weights(a, b, 0);
    ot_result ra, rb;
    ot_trainer_result(a, &ra);
    ot_trainer_result(b, &rb);
    assert_int_equal(ra.steps, 3);
    assert_int_equal(rb.steps, 3);
    assert_string_equal(rb.reason, "running");
    close_all(a, oa);
    close_all(b, ob);
    ot_model_free(m);
}

/* What is predicted is what the written file gives. */
static void predictions_are_the_files(void **state)
{
    (void)state;
    char file[64];
    begin_file(file);
    ot_error err = { 0 };
    ot_options *o;
    ot_tensors out, again;
    ot_model *m = load(NORMS);
    ot_trainer *t = trainer(m, &o, "adam:lr=0.01");
    given g = batch(m, 6, 3);
    assert_int_equal(ot_trainer_predict(t, g.t, 1, &out, &err), OT_E_USAGE);
    for (int i = 0; i < 3; i++) step(t, m, 8, i);
    assert_ok(ot_trainer_predict(t, g.t, 1, &out, &err), err);
    assert_ok(ot_trainer_export(t, file, &err), err);
    ot_model *after = load(file);
    assert_ok(ot_options_set(o, "mode", "eval", &err), err);
    assert_ok(ot_run(after, o, g.t, 1, &again, &err), err);
    assert_int_equal(out.n, again.n);
    assert_string_equal(out.t[0].name, again.t[0].name);
    for (size_t i = 0; i < elements(&out.t[0]); i++)
        assert_near(((float *)out.t[0].data)[i], ((float *)again.t[0].data)[i], 1e-5);
    ot_tensors_free(&out);
    ot_tensors_free(&again);
    assert_int_equal(ot_trainer_predict(t, g.t, 0, &out, &err), OT_E_DATA);
    assert_null(out.t);
    drop(&g);
    close_all(t, o);
    ot_model_free(after);
    ot_model_free(m);
    end_file(file);
}

/* --normalize auto measures the first batch; other shapes and predictions are scaled as it was. */
static void scaled_as_the_first(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_tensors got, want;
    ot_trainer *t = NULL;
    ot_model *m = load(LENET);
    ot_options *o = ot_options_new(), *run = ot_options_new();
    assert_ok(ot_options_set(o, "threads", "1", &err), err);
    assert_ok(ot_options_set(o, "lr", "0", &err), err);
    assert_ok(ot_options_set(o, "normalize", "auto", &err), err);
    assert_ok(ot_trainer_new(m, o, NULL, &t, &err), err);
    given g = batch(m, 8, 1);
    double mean = 0, square = 0;
    size_t n = elements(&g.t[0]);
    for (size_t i = 0; i < n; i++) g.x[i] = 9 * g.x[i] + 40, mean += (double)g.x[i] / (double)n;
    for (size_t i = 0; i < n; i++) square += pow((double)g.x[i] - mean, 2) / (double)n;
    assert_ok(ot_trainer_step(t, g.t, 2, NULL, &err), err);
    drop(&g);
    step(t, m, 5, 2);
    g = batch(m, 3, 3);
    assert_ok(ot_trainer_predict(t, g.t, 1, &got, &err), err);
    for (size_t i = 0; i < elements(&g.t[0]); i++) g.x[i] = (float)(((double)g.x[i] - mean) / sqrt(square));
    assert_ok(ot_run(m, run, g.t, 1, &want, &err), err);
    for (size_t i = 0; i < elements(&want.t[0]); i++)
        assert_near(((float *)got.t[0].data)[i], ((float *)want.t[0].data)[i], 1e-3);
    ot_tensors_free(&got);
    ot_tensors_free(&want);
    drop(&g);
    ot_options_free(run);
    close_all(t, o);
    ot_model_free(m);
}

static void shapes_end(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_options *o;
    ot_model *m = load(LENET);
    ot_trainer *t = trainer(m, &o, "sgd:lr=0.01");
    int n = 0, s = OT_OK;
    while (n < 40 && !s) {
        n++;
        given g = batch(m, n, n);
        s = ot_trainer_step(t, g.t, 2, NULL, &err);
        drop(&g);
    }
    assert_int_equal(s, OT_E_USAGE);
    assert_says(err, "pad the tensors");
    step(t, m, 3, 1);
    close_all(t, o);
    ot_model_free(m);
}

int test_steps(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shorter_batch),
        cmocka_unit_test(other_shapes_between),
        cmocka_unit_test(refused_batches_change_nothing),
        cmocka_unit_test(predictions_are_the_files),
        cmocka_unit_test(scaled_as_the_first),
        cmocka_unit_test(shapes_end),
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
