/* faults.c - the program killed, or a system call failed, at every call of an export.
 *
 * strace injects the fault into `test_exporter double IN OUT`, which doubles the weights of a model
 * with external data over itself.  Afterwards the model is the old one or the new one, whole; its old
 * data file is untouched; and unless the process was killed nothing is left beside them. */
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 24, MOST_CALLS = 200 };

/* The other side: doubles every weight. */
int double_weights(const char *in, const char *out)
{
    ot_imported *m;
    ot_error err = { 0 };
    ot_status s = ot_import(in, &m, &err);
    if (s != OT_OK) return s;
    ot_export_tensor t[4];
    float data[4][N];
    for (int i = 0; i < m->n_sources && i < 4; i++) {
        for (int k = 0; k < N; k++) data[i][k] = 2 * ((const float *)m->sources[i].data)[k];
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

/* Runs it under strace; its exit code, 128 + signal when it was killed. */
static int run(const char *options, bool *injected)
{
    char command[1200], line[400];
    snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 strace -o %s.strace %s /proc/%d/exe double %s %s 2>/dev/null",
             in_folder("."), options, (int)getpid(), in_folder("in.onnx"), in_folder("in.onnx"));
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

/* 1: all doubled, 0: all as they were; anything else fails. */
static int weights_now(const float *data)
{
    ot_imported *m;
    ot_error err = { 0 };
    if (ot_import(in_folder("in.onnx"), &m, &err) != OT_OK) fail_msg("%s", err.text);
    int doubled = 0, same = 0;
    for (int i = 0; i < 3; i++) {
        const ot_source *s = &m->sources[source_of(m, i ? i > 1 ? "c" : "b" : "a")];
        const float *is = s->data, *was = i == 1 ? data + N : data;
        for (int k = 0; k < N; k++) {
            doubled += is[k] == 2 * was[k];
            same += is[k] == was[k];
        }
    }
    ot_import_free(m);
    assert_true(doubled == 3 * N || same == 3 * N);
    return doubled == 3 * N;
}

static void every_call(void **state)
{
    (void)state;
    static const char *const calls[] = { "openat", "newfstatat", "pread64", "write", "fsync", "fchmod", "close", "renameat" };
    static const char *const acts[] = { "signal=KILL", "error=ENOSPC", "error=EIO" };
    float data[2 * N];
    int injections = 0;
    bool injected;
    bytes *model = calloc(1, sizeof *model);
    for (int i = 0; i < 2 * N; i++) data[i] = (float)i + 1;
    model_put(model, data);
    folder_fill(model, data);
    if (run("", &injected) != 0) {
        print_message("strace does not run here\n");
        free(model);
        skip();
    }
    assert_int_equal(weights_now(data), 1);
    for (int c = 0; c < OT_LEN(calls); c++)
        for (int a = 0; a < OT_LEN(acts); a++)
            for (int k = 1; k < MOST_CALLS; k++) {
                char options[200];
                snprintf(options, sizeof options, "-e trace=%s -e inject=%s:%s:when=%d", calls[c], calls[c], acts[a], k);
                folder_fill(model, data);
                int rc = run(options, &injected);
                if (!injected) break;
                injections++;
                int is_new = weights_now(data);
                assert_file_is(in_folder("w.bin"), data, sizeof data);
                if (rc == 0) assert_true(is_new);
                if (a > 0) assert_int_equal(folder_count(), is_new ? 3 : 2);
            }
    print_message("%d injections\n", injections);
    assert_true(injections > 100);
    free(model);
}

int ot_test_faults(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(every_call, folder_make, folder_remove) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
