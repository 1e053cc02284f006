/* failures.c - after any failure the existing file is unchanged and nothing is left beside it. */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exporter/new.h"

static const char old[] = "what was there before";

/* A small network and all its weights doubled. */
typedef struct fixture {
    ot_imported *m;
    ot_export_tensor *t;
    int n;
    ot_error err;
} fixture;

static fixture begin(void)
{
    fixture f = { 0 };
    ot_new_options o = {
        .channels = 1, .height = 4, .width = 4, .classes = 3, .n_hidden = 1, .hidden = (const int64_t[]){ 5 }
    };
    assert_int_equal(ot_new_model("mlp", &o, in_folder("in.onnx"), &f.err), OT_OK);
    assert_int_equal(ot_import(in_folder("in.onnx"), &f.m, &f.err), OT_OK);
    f.t = calloc((size_t)f.m->n_sources, sizeof *f.t);
    for (int i = 0; i < f.m->n_sources; i++) {
        const ot_source *s = &f.m->sources[i];
        float *p = malloc(ot_bytes(&s->shape, s->dtype));
        for (int64_t k = 0; k < ot_numel(&s->shape); k++) p[k] = 2 * ((const float *)s->data)[k];
        f.t[f.n++] = (ot_export_tensor){ i, p };
    }
    file_put(in_folder("out.onnx"), old, sizeof old);
    return f;
}

static void end(fixture *f)
{
    for (int i = 0; i < f->n; i++) free((void *)(uintptr_t)f->t[i].bytes);
    free(f->t);
    ot_import_free(f->m);
}

static void disk_full(void **state)
{
    (void)state;
    fixture f = begin();
    struct rlimit was, now;
    size_t n;
    free(file_get(in_folder("in.onnx"), &n));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t limit = 0; limit < n; limit += limit < 64 ? 1 : 37) {
        ot_error err = { 0 };
        now = (struct rlimit){ limit, was.rlim_max };
        setrlimit(RLIMIT_FSIZE, &now);
        ot_status s = ot_export(f.m, in_folder("out.onnx"), f.n, f.t, NULL, &err);
        setrlimit(RLIMIT_FSIZE, &was);
        assert_int_equal(s, OT_E_IO);
        assert_non_null(strstr(err.text, "out.onnx"));
        assert_file_is(in_folder("out.onnx"), old, sizeof old);
        assert_int_equal(folder_count(), 2);
    }
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), f.n, f.t, NULL, &f.err), OT_OK);
    end(&f);
}

static void no_folder(void **state)
{
    (void)state;
    fixture f = begin();
    assert_int_equal(ot_export(f.m, in_folder("nowhere/out.onnx"), f.n, f.t, NULL, &f.err), OT_E_IO);
    assert_int_equal(folder_count(), 2);
    end(&f);
}

/* The comparison detects a wrong name, order or element. */
static void reads_back_other(void **state)
{
    (void)state;
    fixture f = begin();
    ot_source *s = &f.m->sources[0];
    ot_source keep = *s;
    ot_error err = { 0 };
    s->name = "another";
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), f.n, f.t, NULL, &err), OT_E_IO);
    assert_non_null(strstr(err.text, "differs when read back"));
    *s = keep;
    err = (ot_error){ 0 };
    float *p = (float *)(uintptr_t)f.m->sources[1].data, element = p[0];
    p[0] = 12345; /* the memory no longer says what the file does, and the tensor is not given */
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), 1, f.t, NULL, &err), OT_E_IO);
    p[0] = element;
    assert_file_is(in_folder("out.onnx"), old, sizeof old);
    assert_int_equal(folder_count(), 2);
    end(&f);
}

typedef struct seen {
    int calls, sources;
    bool stop;
} seen;

static ot_status look(const ot_imported *written, void *user, ot_error *err)
{
    seen *s = user;
    s->calls++;
    s->sources = written->n_sources;
    return s->stop ? ot_fail(err, OT_E_IO, "the batch differs") : OT_OK;
}

static void check_stops(void **state)
{
    (void)state;
    fixture f = begin();
    seen s = { .stop = true };
    ot_export_options o = { .check = look, .user = &s };
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), f.n, f.t, &o, &f.err), OT_E_IO);
    assert_string_equal(f.err.text, "the batch differs");
    assert_file_is(in_folder("out.onnx"), old, sizeof old);
    s.stop = false;
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), f.n, f.t, &o, NULL), OT_OK);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.sources, f.m->n_sources);
    assert_int_equal(folder_count(), 2);
    end(&f);
}

static void keeps_permissions(void **state)
{
    (void)state;
    fixture f = begin();
    struct stat st;
    assert_int_equal(chmod(in_folder("out.onnx"), 0640), 0);
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), f.n, f.t, NULL, &f.err), OT_OK);
    assert_int_equal(stat(in_folder("out.onnx"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    end(&f);
}

static void no_such_tensor(void **state)
{
    (void)state;
    fixture f = begin();
    ot_export_tensor t = { f.m->n_sources, f.t[0].bytes };
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), 1, &t, NULL, &f.err), OT_E_INTERNAL);
    assert_file_is(in_folder("out.onnx"), old, sizeof old);
    end(&f);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

int ot_test_failures(void)
{
    const struct CMUnitTest tests[] = {
        ROW(disk_full),   ROW(no_folder),         ROW(reads_back_other),
        ROW(check_stops), ROW(keeps_permissions), ROW(no_such_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
