/* main.c - checks that a step of training allocates nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/data/data.h"

enum { SAMPLES = 64 };

/* ---- the counters -------------------------------------------------------------------- */

static long calls;

#define COUNTED(result, name, params, args) \
    result __real_##name params;            \
    result __wrap_##name params;            \
    result __wrap_##name params             \
    {                                       \
        __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED); \
        return __real_##name args;          \
    }
COUNTED(void *, malloc, (size_t n), (n))
COUNTED(void *, calloc, (size_t n, size_t m), (n, m))
COUNTED(void *, realloc, (void *p, size_t n), (p, n))
COUNTED(void *, aligned_alloc, (size_t a, size_t n), (a, n))
COUNTED(int, posix_memalign, (void **p, size_t a, size_t n), (p, a, n))
COUNTED(char *, strdup, (const char *s), (s))

/* ---- training --------------------------------------------------------------------------- */

typedef struct watch {
    int step;    /* seen so far */
    long before; /* calls up to the last one */
    long extra;  /* calls within steps that should have none */
    int quiet;   /* such steps */
} watch;

static void on_log(void *user, const char *line, size_t n)
{
    watch *w = user;
    (void)n;
    if (!strncmp(line, "{\"event\":\"step\"", 15)) {
        if (++w->step > 2) { /* the first plans' last preparations are over */
            w->extra += calls - w->before;
            w->quiet++;
        }
    }
    w->before = calls;
}

/* The end of an epoch, which allocates, is no step. */
static void on_epoch(void *user, const ot_epoch *e)
{
    watch *w = user;
    (void)e;
    w->before = calls;
}

static void on_progress(void *user, const ot_progress *p) { (void)user, (void)p; }

static void set(ot_options *o, const char *name, const char *value)
{
    ot_error err = { 0 };
    if (ot_options_set(o, name, value, &err)) fail_msg("%s", err.text);
}

static void write_data(const char *path, int rank)
{
    static float x[SAMPLES * 784];
    static int64_t y[SAMPLES];
    ot_error err = { 0 };
    for (int i = 0; i < SAMPLES * 784; i++) x[i] = (float)((int64_t)i * i * 37 % 101) / 101;
    for (int i = 0; i < SAMPLES; i++) y[i] = i % 10;
    ot_tensor t[2] = {
        { .name = "input", .dtype = OT_F32, .rank = rank, .dim = { SAMPLES, rank == 2 ? 784 : 1, 28, 28 }, .data = x },
        { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { SAMPLES }, .data = y }
    };
    if (ot_npz_write(path, t, 2, &err)) fail_msg("%s", err.text);
}

static void train(const char *model, int rank, const char *const *pairs)
{
    char folder[] = "/tmp/ot_allocations_XXXXXX", run_dir[64], data[64], command[64];
    watch w = { 0 };
    ot_error err = { 0 };
    ot_model *m = NULL;
    ot_trainer *t = NULL;
    ot_callbacks cb = { .user = &w, .log = on_log, .progress = on_progress, .epoch = on_epoch };
    ot_options *o = ot_options_new();
    assert_non_null(mkdtemp(folder));
    snprintf(run_dir, sizeof run_dir, "%s/run", folder);
    snprintf(data, sizeof data, "%s/d.npz", folder);
    write_data(data, rank);
    set(o, "data", data);
    set(o, "run-dir", run_dir);
    set(o, "threads", "2");
    for (; pairs[0]; pairs += 2) set(o, pairs[0], pairs[1]);
    if (ot_model_load(model, &m, &err) || ot_trainer_new(m, o, &cb, &t, &err)) fail_msg("%s", err.text);
    assert_true(calls > 100); /* the counters count */
    if (ot_trainer_run(t, &err)) fail_msg("%s", err.text);
    ot_trainer_free(t);
    ot_model_free(m);
    ot_options_free(o);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_true(w.quiet >= 4);
    if (w.extra) fail_msg("%ld allocations in %d steps", w.extra, w.quiet);
}

#define TRAIN(model, rank, ...) train(OT_SOURCE_ROOT "/models/" model, rank, (const char *const[]){ __VA_ARGS__, NULL, NULL })

static void dense(void **state)
{
    (void)state;
    TRAIN("mlp.onnx", 2, "steps", "12", "batch-size", "8");
    TRAIN("mlp.onnx", 2, "steps", "8", "batch-size", "8", "accumulate", "3", "clip-norm", "1", "optimizer",
          "sgd:momentum=0.9");
    TRAIN("mlp.onnx", 2, "steps", "8", "batch-size", "8", "schedule", "cosine:warmup=2", "no-shuffle", "true");
}

static void convolutions(void **state)
{
    (void)state;
    TRAIN("lenet.onnx", 4, "steps", "8", "batch-size", "8");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dense), cmocka_unit_test(convolutions) };
    return cmocka_run_group_tests_name("allocations", tests, NULL, NULL);
}
