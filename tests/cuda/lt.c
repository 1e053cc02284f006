/* lt.c - Dot by cuBLASLt in plans that run on the emulator: requested precision, equal bits step by step and captured,
 * files on disk.  The rows of tests/ops compare each algorithm with the reference. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernels/host.h"
#include "ops/kernel.h"
#include "tests/passes/build.h"

enum { M = 96, K = 200, N = 80 }; /* more than a million multiply-adds: the library's */

static char folder[] = "/tmp/ot-lt-XXXXXX", cache[512];
static const ot_backend *backend;
static ot_device *device;
static float x[M * K], y[3][M * N];

typedef struct outcome {
    char kernel[32], how[48];
    double error;
} outcome; /* error: the largest against sums in f64 */

static double largest_error(const float *w, const float *got)
{
    double worst = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += (double)x[m * K + k] * (double)w[k * N + n];
            worst = fmax(worst, fabs(sum - (double)got[m * N + n]));
        }
    return worst;
}

static void must(ot_status s, const ot_error *e)
{
    if (s != OT_OK) fail_msg("%s", e->text);
}

/* x . w on the device, three times: step by step, during capture, launched from the graph. */
static outcome multiply(ot_precision precision)
{
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    ot_memory *memory;
    ot_exec *run;
    outcome out = { "", "", 0 };
    model_new(&m);
    ot_value *w = model_weight(&m, "w", SHAPE(K, N));
    model_output(&m, model_node(&m, "MatMul", OT_IN(model_input(&m, "input", OT_F32, SHAPE(M, K)), w)), "output");
    ot_feed f = { .name = "input", .dtype = OT_F32, .shape = SHAPE(M, K) };
    ot_config c = { .want = OT_WANT_RUN,
                    .n_feeds = 1,
                    .feeds = &f,
                    .threads = 1,
                    .accumulate = 1,
                    .device = device,
                    .options.precision = precision };
    must(ot_plan_new(m.g, &c, NULL, &p, &e), &e);
    must(ot_memory_new((const ot_plan *const *)&p, 1, sizeof x, NULL, &memory, &e), &e);
    must(ot_exec_new(p, memory, &run, &e), &e);
    must(backend->upload(device, ot_memory_room(memory), x, sizeof x, &e), &e);
    ot_exec_feed(run, p->graph->inputs[0], ot_memory_room(memory));
    for (int i = 0; i < 3; i++) {
        must(ot_exec_batch(run, &e), &e);
        must(ot_exec_read(run, p->graph->outputs[0], y[i], &e), &e);
    }
    for (int i = 0; i < p->n_batch_steps; i++) {
        if (p->batch_steps[i].node->op != &ot_op_Dot) continue;
        snprintf(out.kernel, sizeof out.kernel, "%s", p->batch_steps[i].kernel->name);
        snprintf(out.how, sizeof out.how, "%s", p->batch_steps[i].how);
    }
    out.error = largest_error(w->data, y[0]);
    ot_exec_free(run);
    ot_memory_free(memory);
    ot_plan_free(p);
    model_free(&m);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(y[0], y[2], sizeof y[0]);
    return out;
}

/* Sums of 200 terms of about 0.3: f32 rounds at 1e-6, operands of 11 bits at 1e-3. */
static void precision_is_as_asked_for(void **state)
{
    (void)state;
    outcome strict = multiply(OT_FP32), rounded = multiply(OT_TF32);
    assert_string_equal(strict.kernel, "cublaslt");
    assert_string_equal(rounded.kernel, "cublaslt");
    assert_true(strict.error < 1e-5);
    assert_true(rounded.error > 1e-4 && rounded.error < 1e-1);
}

enum { REMOVED = -1, WHOLE, CUT, OVERWRITTEN, HALF, ALGORITHM, WAYS };

/* Damages the files on disk; returns their number. */
static int kept(int spoil)
{
    DIR *d = opendir(cache);
    struct dirent *f;
    int n = 0;
    assert_non_null(d);
    while ((f = readdir(d))) {
        char path[1024], bytes[4096];
        if (!strstr(f->d_name, ".lt")) continue;
        snprintf(path, sizeof path, "%s/%s", cache, f->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        assert_true(size > 1000 && size < sizeof bytes);
        if (spoil == REMOVED) assert_int_equal(remove(path), 0);
        if (spoil == CUT) size = 17;
        if (spoil == OVERWRITTEN) memset(bytes, 0xFF, size);
        if (spoil == HALF) memset(bytes + size / 16, 0xFF, size - size / 16);
        if (spoil == ALGORITHM) memset(bytes + 120, 0x5A, 8); /* the head of the first one */
        n++;
        if (spoil == REMOVED) continue;
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        fclose(file);
    }
    closedir(d);
    return n;
}

static void spoiled_files_are_made_anew(void **state)
{
    (void)state;
    kept(REMOVED);
    outcome first = multiply(OT_FP32);
    assert_int_equal(kept(WHOLE), 1);
    for (int spoil = REMOVED; spoil < WAYS; spoil++) {
        assert_int_equal(kept(spoil), 1);
        outcome again = multiply(OT_FP32);
        assert_string_equal(first.kernel, again.kernel);
        assert_string_equal(first.how, again.how);
        assert_true(again.error < 1e-5);
    }
}

static int open_device(void **state)
{
    ot_error e = { 0 };
    ot_device_info i;
    (void)state;
    backend = ot_backend_find(&e);
    if (!backend || backend->open(0, NULL, &device, &e) != OT_OK) {
        printf("%s\n", e.text);
        return -1;
    }
    backend->info(device, &i);
    snprintf(cache, sizeof cache, "%s/onnxtrain/%s", folder, i.key);
    for (int k = 0; k < M * K; k++) x[k] = (float)sin(0.37 * k) * 0.3f;
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    backend->close(device);
    return 0;
}

int main(void)
{
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(precision_is_as_asked_for),
        cmocka_unit_test(spoiled_files_are_made_anew),
    };
    int bad = cmocka_run_group_tests(tests, open_device, close_device);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return bad + (system(command) != 0);
}
