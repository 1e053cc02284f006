/* external.c - data beside the model: allowed locations and sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"

static const float numbers[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* A model whose initializer 'w' of 4 floats is in another file. */
static bytes model_at(const char *location, const char *offset, const char *length)
{
    bytes g = small_graph(), t = tensor_begin("w", OT_F32, 1, (int64_t[]){ 4 });
    tensor_outside(&t, location, offset, length);
    graph_tensor(&g, t);
    return model_of(&g, 8, 17);
}

static void reads(const char *location, const char *offset, const char *length, const float *want)
{
    bytes m = model_at(location, offset, length);
    ot_imported *i = accepted(&m);
    assert_memory_equal(i->sources[0].data, want, 16);
    assert_true(i->sources[0].external);
    assert_int_equal((uintptr_t)i->sources[0].data % 64, 0);
    ot_import_free(i);
}

#define REFUSED(location, offset, length, status, ...)           \
    do {                                                         \
        bytes m_ = model_at(location, offset, length);           \
        refused(&m_, status, __VA_ARGS__, NULL);                 \
    } while (0)

static int prepare(void **unused)
{
    (void)unused;
    write_file("w.data", numbers, sizeof numbers);
    mkdir(path_of("sub"), 0700);
    write_file("sub/w.data", numbers, sizeof numbers);
    mkdir(path_of("other"), 0700);
    write_file("other/secret", numbers, sizeof numbers);
    return 0;
}

static void ranges(void **unused)
{
    (void)unused;
    reads("w.data", NULL, NULL, numbers);
    reads("w.data", "0", "16", numbers);
    reads("w.data", "16", NULL, numbers + 4);
    reads("w.data", "4", "16", numbers + 1);
    reads("sub/w.data", "4", "16", numbers + 1);
    reads("./w.data", "4", "16", numbers + 1);
    REFUSED("w.data", "17", NULL, OT_E_MODEL, "tensor 'w'", "bytes 17 to 33 of 'w.data', but the file has 32");
    REFUSED("w.data", "9223372036854775807", NULL, OT_E_MODEL, "the file has 32");
    REFUSED("w.data", "9223372036854775808", NULL, OT_E_MODEL, "invalid offset '9223372036854775808'");
    REFUSED("w.data", "-4", NULL, OT_E_MODEL, "invalid offset '-4'");
    REFUSED("w.data", "+4", NULL, OT_E_MODEL, "external data: invalid");
    REFUSED("w.data", " 4", NULL, OT_E_MODEL, "external data: invalid");
    REFUSED("w.data", "0x10", NULL, OT_E_MODEL, "external data: invalid");
    REFUSED("w.data", "", NULL, OT_E_MODEL, "external data: invalid");
    REFUSED("w.data", "0", "-1", OT_E_MODEL, "invalid length '-1'");
    REFUSED("w.data", "0", "15", OT_E_MODEL, "external data has length 15, but [4] of type float32 needs 16");
    REFUSED("w.data", "0", "1125899906842624", OT_E_MODEL, "needs 16");
    REFUSED(NULL, "0", NULL, OT_E_MODEL, "has no location");
}

static void places(void **unused)
{
    (void)unused;
    char absolute[4096];
    assert_non_null(getcwd(absolute, sizeof absolute / 2));
    strcat(absolute, "/w.data");
    REFUSED("", NULL, NULL, OT_E_MODEL, "must not be empty", "'w'");
    REFUSED(absolute, NULL, NULL, OT_E_MODEL, "must not be absolute");
    REFUSED("/etc/passwd", NULL, NULL, OT_E_MODEL, "must not be absolute");
    REFUSED("../w.data", NULL, NULL, OT_E_MODEL, "must not leave the folder of the model");
    REFUSED("..", NULL, NULL, OT_E_MODEL, "must not leave the folder of the model");
    REFUSED("sub/../w.data", NULL, NULL, OT_E_MODEL, "must not leave the folder of the model");
    REFUSED("sub/../../w.data", NULL, NULL, OT_E_MODEL, "must not leave the folder of the model");
    REFUSED("sub/..", NULL, NULL, OT_E_MODEL, "must not leave the folder of the model");
    REFUSED("absent.data", NULL, NULL, OT_E_IO, "'absent.data'", "cannot be opened", "tensor 'w'");
    REFUSED("sub", NULL, NULL, OT_E_MODEL, "is a folder");
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    REFUSED("pipe", NULL, NULL, OT_E_MODEL, "is not a regular file");
    static char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    REFUSED(longest, NULL, NULL, OT_E_IO, "cannot be opened");
    write_file("..data", numbers, sizeof numbers);
    reads("..data", NULL, NULL, numbers); /* a name, not a parent */
    if (geteuid() != 0) {
        write_file("closed", numbers, sizeof numbers);
        chmod(path_of("closed"), 0);
        REFUSED("closed", NULL, NULL, OT_E_IO, "cannot be opened");
    }
}

static void link_to(const char *target, const char *name)
{
    unlink(path_of(name));
    assert_int_equal(symlink(target, path_of(name)), 0);
}

static void links(void **unused)
{
    (void)unused;
    link_to("sub/w.data", "inside");
    reads("inside", NULL, NULL, numbers);
    link_to("sub", "way");
    reads("way/w.data", NULL, NULL, numbers);
    link_to("../..", "up");
    REFUSED("up/anything", NULL, NULL, OT_E_MODEL, "must not lead out of the folder of the model");
    link_to("/dev/zero", "zero");
    REFUSED("zero", NULL, NULL, OT_E_MODEL, "must not lead out of the folder of the model");
    link_to("/proc/self/exe", "magic");
    REFUSED("magic", NULL, NULL, OT_E_MODEL, "must not lead out of the folder of the model");
    link_to("nowhere", "dangling");
    REFUSED("dangling", NULL, NULL, OT_E_IO, "cannot be opened");
    link_to("circle", "circle");
    REFUSED("circle", NULL, NULL, OT_E_IO, "cannot be opened");
    unlink(path_of("hard"));
    assert_int_equal(link(path_of("w.data"), path_of("hard")), 0);
    reads("hard", NULL, NULL, numbers);
}

static ot_status import_at(const char *name, ot_error *err)
{
    ot_imported *i;
    *err = (ot_error){ 0 };
    ot_status s = ot_import(path_of(name), &i, err);
    ot_import_free(s == OT_OK ? i : NULL);
    return s;
}

/* A model store: requested files are links to files that are all in one other folder. */
static void stores(void **unused)
{
    (void)unused;
    ot_error err;
    bytes m = model_at("w.data", NULL, NULL);
    mkdir(path_of("blobs"), 0700);
    mkdir(path_of("snapshot"), 0700);
    write_file("blobs/1111", m.p, m.n);
    write_file("blobs/2222", numbers, sizeof numbers);
    link_to("../blobs/1111", "snapshot/model.onnx");
    link_to("../blobs/2222", "snapshot/w.data");
    assert_int_equal(import_at("snapshot/model.onnx", &err), OT_OK);
    /* The same data link beside a model that is no link leads out. */
    write_file("snapshot/plain.onnx", m.p, m.n);
    assert_int_equal(import_at("snapshot/plain.onnx", &err), OT_E_MODEL);
    assert_non_null(strstr(err.text, "must not lead out of the folder of the model"));
    /* A link beside a linked model into a third place. */
    link_to("../other/secret", "snapshot/w.data");
    assert_int_equal(import_at("snapshot/model.onnx", &err), OT_E_MODEL);
    assert_non_null(strstr(err.text, "must not lead out of the folder of the model"));
    /* The model alone is a link; its data stayed with it. */
    mkdir(path_of("whole"), 0700);
    write_file("whole/real.onnx", m.p, m.n);
    write_file("whole/w.data", numbers, sizeof numbers);
    mkdir(path_of("alone"), 0700);
    link_to("../whole/real.onnx", "alone/model.onnx");
    assert_int_equal(import_at("alone/model.onnx", &err), OT_OK);
    bytes_free(&m);
}

/* A missing file is reported once, with the number of tensors in it. */
static void missing_once(void **unused)
{
    (void)unused;
    bytes g = small_graph();
    for (char name[] = "a"; *name <= 'e'; ++*name) {
        bytes t = tensor_begin(name, OT_F32, 1, (int64_t[]){ 4 });
        tensor_outside(&t, "gone.data", NULL, NULL);
        graph_tensor(&g, t);
    }
    bytes m = model_of(&g, 8, 17);
    refused(&m, OT_E_IO, "'gone.data'", "tensor 'a' and 4 more", NULL);
}

/* Equal ranges are one; ranges that overlap a file many times over are a bomb. */
static void overlap(void **unused)
{
    (void)unused;
    for (int apart = 0; apart <= 1; apart++) {
        bytes g = small_graph();
        for (int i = 0; i < 16; i++) {
            char name[16], offset[16];
            snprintf(name, sizeof name, "t%d", i);
            snprintf(offset, sizeof offset, "%d", apart ? i : 0);
            bytes t = tensor_begin(name, OT_F32, 1, (int64_t[]){ 4 });
            tensor_outside(&t, "w.data", offset, NULL);
            graph_tensor(&g, t);
        }
        bytes m = model_of(&g, 8, 17);
        if (apart) {
            refused(&m, OT_E_MODEL, "overlap", NULL);
        } else {
            ot_imported *i = accepted(&m);
            assert_ptr_equal(i->sources[0].data, i->sources[15].data);
            ot_import_free(i);
        }
    }
}

static void two_kinds(void **unused)
{
    (void)unused;
    bytes g = small_graph(), t = tensor_begin("w", OT_F32, 1, (int64_t[]){ 4 });
    put_data(&t, 9, numbers, 16);
    tensor_outside(&t, "w.data", NULL, NULL);
    graph_tensor(&g, t);
    bytes m = model_of(&g, 8, 17);
    refused(&m, OT_E_MODEL, "has both external data and its own data", NULL);
    g = small_graph();
    t = tensor_begin("w", OT_F32, 1, (int64_t[]){ 4 });
    tensor_outside(&t, "w.data", NULL, NULL);
    tensor_outside(&t, "sub/w.data", NULL, NULL);
    graph_tensor(&g, t);
    m = model_of(&g, 8, 17);
    refused(&m, OT_E_MODEL, "external data has duplicate entry 'location'", NULL);
}

int test_external(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),    cmocka_unit_test(places),       cmocka_unit_test(links),
        cmocka_unit_test(stores),    cmocka_unit_test(missing_once), cmocka_unit_test(overlap),
        cmocka_unit_test(two_kinds),
    };
    return cmocka_run_group_tests_name("importer.external", tests, prepare, NULL);
}
