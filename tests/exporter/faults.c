/* faults.c - the program killed, or a system call failed, at every call of an export.
 *
 * strace injects the fault into `test_exporter scale K IN OUT`, which multiplies the weights of a model with
 * external data: over itself, and over an earlier result, whose own data file goes with it.  Afterwards the model
 * at OUT is the old one or the new one, whole; the input's data file is untouched; and unless the process was killed
 * nothing is left beside them. */
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 24, MOST_CALLS = 200 };

/* The other side. */
int scale_weights(float by, const char *in, const char *out)
{
    ot_imported *m;
    ot_error err = { 0 };
    ot_status s = ot_import(in, &m, &err);
    if (s != OT_OK) return s;
    ot_export_tensor t[4];
    float data[4][N];
    for (int i = 0; i < m->n_sources && i < 4; i++) {
        for (int k = 0; k < N; k++) data[i][k] = by * ((const float *)m->sources[i].data)[k];
        t[i] = (ot_export_tensor){ i, data[i] };
    }
    s = ot_export(m, out, m->n_sources, t, NULL, &err);
    ot_import_free(m);
    return s;
}

/* Two tensors in w.bin, one in the model. */
static void model_put(bytes *model, const float *data)
{
    bytes *m = calloc(4, sizeof *m);
    for (int i = 0; i < 3; i++) {
        put_head(&m[i], i ? i > 1 ? "c" : "b" : "a", OT_F32, 1, (const int64_t[]){ N });
        if (i < 2) {
            put_int(&m[i], 14, 1);
            put_external(&m[i], "location", "w.bin");
            put_external(&m[i], "offset", i ? "96" : "0");
        } else {
            for (int k = 0; k < N; k++) put_f32(&m[i], 4, data[k]);
        }
        put_message(&m[3], 5, &m[i]);
    }
    put_model(model, &m[3]);
    free(m);
}

static void folder_fill(const bytes *model, const float *data)
{
    folder_empty();
    file_put(in_folder("in.onnx"), model->b, model->n);
    file_put(in_folder("w.bin"), data, 2 * N * sizeof *data);
}

/* An earlier result: the weights three times, with a data file of its own. */
static void result_put(void)
{
    if (scale_weights(3, in_folder("in.onnx"), in_folder("out.onnx")) != OT_OK) fail_msg("the earlier result cannot be made");
}

/* Runs it under strace; its exit code, 128 + signal when it was killed. */
static int run(const char *options, const char *out, bool *injected)
{
    char command[1200], line[400];
    snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 strace -o %s.strace %s /proc/%d/exe scale 2 %s %s 2>/dev/null",
             in_folder("."), options, (int)getpid(), in_folder("in.onnx"), in_folder(out));
    int status = system(command);
    char path[300];
    snprintf(path, sizeof path, "%s.strace", in_folder("."));
    FILE *f = fopen(path, "r");
    *injected = false;
    if (!f) return 127; /* no strace */
    while (fgets(line, sizeof line, f)) *injected |= strstr(line, "INJECTED") || strstr(line, "killed by SIGKILL");
    fclose(f);
    unlink(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* By what all weights are multiplied; anything mixed fails. */
static int factor_now(const char *name, const float *data)
{
    ot_imported *m;
    ot_error err = { 0 };
    if (ot_import(in_folder(name), &m, &err) != OT_OK) fail_msg("%s", err.text);
    int by = 0;
    for (int i = 0; i < 3; i++) {
        const ot_source *s = &m->sources[source_of(m, i ? i > 1 ? "c" : "b" : "a")];
        const float *is = s->data, *was = i == 1 ? data + N : data;
        if (!by) by = (int)(is[0] / was[0]);
        for (int k = 0; k < N; k++) assert_true(is[k] == (float)by * was[k]);
    }
    ot_import_free(m);
    return by;
}

/* One scenario: every call of every kind, killed or failed.  again: over an earlier result.  Returns how many. */
static int every_call_of(const bytes *model, const float *data, bool again)
{
    static const char *const calls[] = { "openat", "newfstatat", "pread64",  "write",    "fsync", "fchmod",
                                         "close",  "linkat",     "renameat", "unlinkat", "getdents64" };
    static const char *const acts[] = { "signal=KILL", "error=ENOSPC", "error=EIO" };
    const char *out = again ? "out.onnx" : "in.onnx";
    const int was = again ? 3 : 1, files = again ? 4 : 2; /* in.onnx, w.bin; out.onnx and its data */
    int injections = 0, left = 0;
    bool injected;
    for (int c = 0; c < OT_LEN(calls); c++)
        for (int a = 0; a < OT_LEN(acts); a++)
            for (int k = 1; k < MOST_CALLS; k++) {
                char options[200];
                snprintf(options, sizeof options, "-e trace=%s -e inject=%s:%s:when=%d", calls[c], calls[c], acts[a], k);
                folder_fill(model, data);
                if (again) result_put();
                int rc = run(options, out, &injected);
                if (!injected) break;
                injections++;
                int by = factor_now(out, data);
                assert_true(by == 2 || by == was);
                assert_file_is(in_folder("w.bin"), data, 2 * N * sizeof *data);
                if (again) assert_int_equal(factor_now("in.onnx", data), 1);
                if (rc == 0) assert_int_equal(by, 2);
                /* What cannot be looked through or removed stays; and a kill may come between two names. */
                bool clearing = by == 2 && again && folder_count() == files + 1;
                if (a > 0 && !clearing) assert_int_equal(folder_count(), by == 2 && !again ? files + 1 : files);
                if (a == 0) left += folder_count() > files + (by == 2 && !again);
                assert_true(folder_count() <= files + 2);
            }
    print_message("%d injections; files left by %d kills\n", injections, left);
    return injections;
}

static void every_call(void **state)
{
    (void)state;
    float data[2 * N];
    bool injected;
    bytes *model = calloc(1, sizeof *model);
    for (int i = 0; i < 2 * N; i++) data[i] = (float)i + 1;
    model_put(model, data);
    folder_fill(model, data);
    if (run("", "in.onnx", &injected) != 0) {
        print_message("strace does not run here\n");
        free(model);
        skip();
    }
    assert_int_equal(factor_now("in.onnx", data), 2);
    folder_fill(model, data);
    result_put();
    assert_int_equal(run("", "out.onnx", &injected), 0);
    assert_int_equal(factor_now("out.onnx", data), 2);
    assert_int_equal(folder_count(), 4); /* the earlier result's data is gone */
    int n = every_call_of(model, data, false);
    assert_true(n > 100);
    assert_true(every_call_of(model, data, true) > n);
    free(model);
}

int ot_test_faults(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(every_call, folder_make, folder_remove) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
