/* external.c - tensors in data files: new files for changed tensors, the old ones never touched. */
#include "test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DATA = 256 };

/* A tensor of four floats at `offset` of location; offset NULL: none is said. */
static void put_outside(bytes *graph, const char *name, const char *location, const char *offset)
{
    bytes *t = calloc(1, sizeof *t);
    put_head(t, name, OT_F32, 1, (const int64_t[]){ 4 });
    put_int(t, 14, 1);
    put_external(t, "location", location);
    if (offset) put_external(t, "offset", offset);
    put_external(t, "length", "16");
    put_external(t, "checksum", "0123456789");
    put_message(graph, 5, t);
    free(t);
}

typedef struct fixture {
    bytes *model;
    float data[DATA / 4];
    ot_imported *m;
    ot_error err;
} fixture;

static fixture begin(const char *a, const char *b)
{
    fixture f = { .model = calloc(1, sizeof(bytes)) };
    bytes *graph = calloc(1, sizeof *graph);
    put_outside(graph, "a", "w.bin", a);
    put_outside(graph, "b", "w.bin", b);
    put_outside(graph, "c", "other.bin", "0");
    put_model(f.model, graph);
    free(graph);
    for (int i = 0; i < DATA / 4; i++) f.data[i] = (float)i + 1;
    file_put(in_folder("in.onnx"), f.model->b, f.model->n);
    file_put(in_folder("w.bin"), f.data, DATA);
    file_put(in_folder("other.bin"), f.data, DATA);
    if (ot_import(in_folder("in.onnx"), &f.m, &f.err) != OT_OK) fail_msg("%s", f.err.text);
    return f;
}

static void end(fixture *f)
{
    /* In every case the input's data is unchanged. */
    assert_file_is(in_folder("w.bin"), f->data, DATA);
    assert_file_is(in_folder("other.bin"), f->data, DATA);
    ot_import_free(f->m);
    free(f->model);
}

static ot_status export(fixture *f, const char *path, const float *a, const float *b)
{
    ot_export_tensor t[2];
    int n = 0;
    if (a) t[n++] = (ot_export_tensor){ source_of(f->m, "a"), a };
    if (b) t[n++] = (ot_export_tensor){ source_of(f->m, "b"), b };
    ot_status s = ot_export(f->m, path, n, t, NULL, &f->err);
    if (s != OT_OK) print_message("%s\n", f->err.text);
    return s;
}

static void assert_reads(const char *path, const float *a, const float *b, const float *c)
{
    ot_imported *m;
    ot_error err = { 0 };
    if (ot_import(path, &m, &err) != OT_OK) fail_msg("%s", err.text);
    assert_memory_equal(m->sources[source_of(m, "a")].data, a, 16);
    assert_memory_equal(m->sources[source_of(m, "b")].data, b, 16);
    assert_memory_equal(m->sources[source_of(m, "c")].data, c, 16);
    ot_import_free(m);
}

/* The data files named <stem>-<hash>.onnx.data in the folder; the last one's name. */
static int fresh_files(const char *folder, char name[256])
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".onnx.data")) {
            snprintf(name, 256, "%s", e->d_name);
            n++;
        }
    closedir(d);
    return n;
}

static const float one[] = { 10, 20, 30, 40 }, two[] = { 50, 60, 70, 80 };

static void unchanged(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    assert_int_equal(export(&f, in_folder("out.onnx"), f.data + 4, f.data + 16), OT_OK);
    assert_file_is(in_folder("out.onnx"), f.model->b, f.model->n);
    assert_int_equal(folder_count(), 4);
    end(&f);
}

static void same_folder(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char name[256];
    struct stat st;
    assert_int_equal(export(&f, in_folder("out.onnx"), one, NULL), OT_OK);
    assert_reads(in_folder("out.onnx"), one, f.data + 16, f.data);
    assert_int_equal(folder_count(), 5);
    assert_int_equal(fresh_files(in_folder("."), name), 1);
    assert_int_equal(strncmp(name, "out-", 4), 0);
    assert_int_equal(lstat(in_folder(name), &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_size == DATA);
    /* A second export reuses the existing file. */
    assert_int_equal(export(&f, in_folder("out.onnx"), one, NULL), OT_OK);
    assert_int_equal(folder_count(), 5);
    size_t n;
    unsigned char *p = file_get(in_folder("out.onnx"), &n);
    assert_null(memmem(p, n, "w.bin\x1a", 6));
    assert_non_null(memmem(p, n, "other.bin", 9));
    /* A checksum of bytes that changed would be wrong; other.bin's stays. */
    unsigned char *first = memmem(p, n, "0123456789", 10);
    assert_non_null(first);
    assert_null(memmem(first + 1, n - (size_t)(first + 1 - p), "0123456789", 10));
    free(p);
    end(&f);
}

static void over_itself(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    assert_int_equal(export(&f, in_folder("in.onnx"), one, two), OT_OK);
    assert_reads(in_folder("in.onnx"), one, two, f.data);
    end(&f);
}

static void other_folder(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char name[256];
    size_t n;
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    assert_int_equal(export(&f, in_folder("sub/out.onnx"), f.data + 4, f.data + 16), OT_OK);
    assert_file_is(in_folder("sub/out.onnx"), f.model->b, f.model->n); /* names are free: nothing to edit */
    assert_file_is(in_folder("sub/w.bin"), f.data, DATA);
    assert_file_is(in_folder("sub/other.bin"), f.data, DATA);
    assert_int_equal(export(&f, in_folder("sub/out.onnx"), one, f.data + 16), OT_OK);
    assert_reads(in_folder("sub/out.onnx"), one, f.data + 16, f.data);
    assert_file_is(in_folder("sub/w.bin"), f.data, DATA); /* not ours to overwrite */
    assert_int_equal(fresh_files(in_folder("sub"), name), 1);
    char path[300];
    snprintf(path, sizeof path, "sub/%s", name);
    unsigned char *p = file_get(in_folder(path), &n);
    assert_int_equal(n, DATA);
    assert_memory_equal(p + 16, one, 16);
    free(p);
    end(&f);
}

/* The model takes no data file's name. */
static void name_of_the_model(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    assert_int_equal(export(&f, in_folder("sub/w.bin"), one, NULL), OT_OK);
    assert_reads(in_folder("sub/w.bin"), one, f.data + 16, f.data);
    end(&f);
}

/* A link from the new folder is not the file itself: readers refuse links. */
static void through_a_link(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char name[256];
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    assert_int_equal(symlink("../w.bin", in_folder("sub/w.bin")), 0);
    assert_int_equal(export(&f, in_folder("sub/out.onnx"), NULL, NULL), OT_OK);
    assert_reads(in_folder("sub/out.onnx"), f.data + 4, f.data + 16, f.data);
    assert_int_equal(fresh_files(in_folder("sub"), name), 1);
    end(&f);
}

/* The output is a link: its data goes beside what it leads to, and is read through the link. */
static void out_through_a_link(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char name[256];
    struct stat st;
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    assert_int_equal(symlink("sub/real.onnx", in_folder("out.onnx")), 0);
    for (int i = 0; i < 2; i++) { /* the second time it replaces the model and its data */
        const float *first = i ? two : one;
        assert_int_equal(export(&f, in_folder("out.onnx"), first, NULL), OT_OK);
        assert_reads(in_folder("out.onnx"), first, f.data + 16, f.data);
        assert_reads(in_folder("sub/real.onnx"), first, f.data + 16, f.data);
        assert_int_equal(fresh_files(in_folder("sub"), name), 1);
        assert_memory_equal(name, "real-", 5);
        assert_int_equal(fresh_files(in_folder("."), name), 0);
    }
    assert_int_equal(lstat(in_folder("out.onnx"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    end(&f);
}

static void shared_range(void **state)
{
    (void)state;
    static const char *const offsets[][2] = { { "16", "16" }, { NULL, NULL }, { "16", "24" }, { NULL, "8" } };
    for (int i = 0; i < OT_LEN(offsets); i++) {
        fixture f = begin(offsets[i][0], offsets[i][1]);
        const float *a = f.m->sources[source_of(f.m, "a")].data, *b = f.m->sources[source_of(f.m, "b")].data;
        assert_int_equal(export(&f, in_folder("out.onnx"), one, NULL), OT_OK);
        assert_reads(in_folder("out.onnx"), one, b, f.data);
        assert_int_equal(export(&f, in_folder("out.onnx"), NULL, two), OT_OK);
        assert_reads(in_folder("out.onnx"), a, two, f.data);
        assert_int_equal(export(&f, in_folder("out.onnx"), one, two), OT_OK);
        assert_reads(in_folder("out.onnx"), one, two, f.data);
        assert_int_equal(export(&f, in_folder("out.onnx"), one, one), OT_OK);
        assert_reads(in_folder("out.onnx"), one, one, f.data);
        end(&f);
    }
}

/* Tied tensors with equal values stay in one place. */
static void shared_and_equal(void **state)
{
    (void)state;
    fixture f = begin("16", "16");
    char name[256];
    struct stat st;
    assert_int_equal(export(&f, in_folder("out.onnx"), one, one), OT_OK);
    assert_int_equal(fresh_files(in_folder("."), name), 1);
    assert_int_equal(stat(in_folder(name), &st), 0);
    assert_int_equal(st.st_size, DATA);
    end(&f);
}

static ot_status refuse(const ot_imported *written, void *user, ot_error *err)
{
    (void)written;
    (void)user;
    return ot_fail(err, OT_E_INTERNAL, "refused");
}

static void refused(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    ot_export_options o = { .check = refuse };
    ot_export_tensor t = { source_of(f.m, "a"), one };
    assert_int_equal(ot_export(f.m, in_folder("in.onnx"), 1, &t, &o, &f.err), OT_E_INTERNAL);
    assert_file_is(in_folder("in.onnx"), f.model->b, f.model->n);
    assert_int_equal(folder_count(), 3); /* no model, no data file */
    end(&f);
}

/* The disk is full at every size of the data file. */
static void disk_full(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    ot_export_tensor t = { source_of(f.m, "a"), one };
    struct rlimit was, now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t limit = 0; limit < f.model->n - 64; limit += 13) { /* the model is the larger of the two */
        ot_error err = { 0 };
        now = (struct rlimit){ limit, was.rlim_max };
        setrlimit(RLIMIT_FSIZE, &now);
        ot_status s = ot_export(f.m, in_folder("in.onnx"), 1, &t, NULL, &err);
        setrlimit(RLIMIT_FSIZE, &was);
        assert_int_equal(s, OT_E_IO);
        assert_file_is(in_folder("in.onnx"), f.model->b, f.model->n);
        assert_int_equal(folder_count(), 3);
    }
    assert_true(f.model->n - 64 > DATA);
    end(&f);
}

/* A model that is replaced takes its own data file along, and nothing else. */
static void superseded(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char first[256], second[256];
    assert_int_equal(export(&f, in_folder("out.onnx"), one, NULL), OT_OK);
    assert_int_equal(fresh_files(in_folder("."), first), 1);
    file_put(in_folder("out-00000000.onnx.data"), "x", 1); /* the pattern, but no model refers to it */
    file_put(in_folder("other-12345678.onnx.data"), "x", 1);
    assert_int_equal(export(&f, in_folder("out.onnx"), two, NULL), OT_OK);
    assert_reads(in_folder("out.onnx"), two, f.data + 16, f.data);
    assert_int_not_equal(access(in_folder(first), F_OK), 0);
    assert_int_equal(access(in_folder("out-00000000.onnx.data"), F_OK), 0);
    assert_int_equal(access(in_folder("other-12345678.onnx.data"), F_OK), 0);
    assert_int_equal(fresh_files(in_folder("."), second), 3);
    assert_int_equal(folder_count(), 7);
    /* Weights that are the file's again: w.bin serves, and no data file of its own is left. */
    assert_int_equal(unlink(in_folder("out-00000000.onnx.data")), 0);
    assert_int_equal(unlink(in_folder("other-12345678.onnx.data")), 0);
    assert_int_equal(export(&f, in_folder("out.onnx"), NULL, NULL), OT_OK);
    assert_int_equal(fresh_files(in_folder("."), second), 0);
    end(&f);
}

/* The model that is replaced names a file of our pattern whose number is not that of its bytes: not ours, it stays. */
static void superseded_by_name_alone(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char first[256];
    size_t n;
    assert_int_equal(export(&f, in_folder("out.onnx"), one, NULL), OT_OK);
    assert_int_equal(fresh_files(in_folder("."), first), 1);
    unsigned char *data = file_get(in_folder(first), &n);
    data[0] ^= 1;
    file_put(in_folder(first), data, n);
    free(data);
    assert_int_equal(export(&f, in_folder("out.onnx"), two, NULL), OT_OK);
    assert_int_equal(access(in_folder(first), F_OK), 0);
    end(&f);
}

/* A copy of the model in that folder names the same data; so does the input, which may be gone. */
static void superseded_but_needed(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char first[256], name[256];
    size_t n;
    assert_int_equal(export(&f, in_folder("out.onnx"), one, NULL), OT_OK);
    assert_int_equal(fresh_files(in_folder("."), first), 1);
    unsigned char *copy = file_get(in_folder("out.onnx"), &n);
    file_put(in_folder("kept"), copy, n);
    assert_int_equal(export(&f, in_folder("out.onnx"), two, NULL), OT_OK);
    assert_reads(in_folder("kept"), one, f.data + 16, f.data);
    assert_reads(in_folder("out.onnx"), two, f.data + 16, f.data);
    assert_int_equal(fresh_files(in_folder("."), name), 2);
    assert_int_equal(unlink(in_folder("out.onnx")), 0);
    file_put(in_folder("out.onnx"), copy, n);
    free(copy);

    fixture again = { 0 };
    if (ot_import(in_folder("kept"), &again.m, &again.err) != OT_OK) fail_msg("%s", again.err.text);
    assert_int_equal(unlink(in_folder("kept")), 0);
    assert_int_equal(export(&again, in_folder("out.onnx"), two, NULL), OT_OK);
    assert_int_equal(access(in_folder(first), F_OK), 0);
    ot_import_free(again.m);
    end(&f);
}

/* Two data files that come to hold the same bytes: one new file serves both. */
static void twins(void **state)
{
    (void)state;
    fixture f = begin("16", "64");
    char name[256];
    float moved[DATA / 4];
    memcpy(moved, f.data, DATA);
    memcpy(moved + 4, one, 16);
    memcpy(moved, two, 16);
    file_put(in_folder("other.bin"), moved, DATA); /* c, at 0, is all that differs once a is `one` */
    ot_import_free(f.m);
    if (ot_import(in_folder("in.onnx"), &f.m, &f.err) != OT_OK) fail_msg("%s", f.err.text);
    ot_export_tensor t[2] = { { source_of(f.m, "a"), one }, { source_of(f.m, "c"), f.data } };
    assert_int_equal(ot_export(f.m, in_folder("out.onnx"), 2, t, NULL, &f.err), OT_OK);
    assert_reads(in_folder("out.onnx"), one, f.data + 16, f.data);
    assert_int_equal(fresh_files(in_folder("."), name), 1);
    file_put(in_folder("other.bin"), f.data, DATA);
    end(&f);
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

int ot_test_external(void)
{
    const struct CMUnitTest tests[] = {
        ROW(unchanged),
        ROW(same_folder),
        ROW(over_itself),
        ROW(other_folder),
        ROW(name_of_the_model),
        ROW(through_a_link),
        ROW(out_through_a_link),
        ROW(shared_range),
        ROW(shared_and_equal),
        ROW(refused),
        ROW(disk_full),
        ROW(superseded),
        ROW(superseded_but_needed),
        ROW(twins),
        ROW(superseded_by_name_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
