/* train.c - compares commands on the emulated GPU and on the CPU: losses, weights, outputs and gradients.
 *
 * Numerics  Both compute in f32 in different orders: losses differ by rounding, which training amplifies. */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/kernels/host.h"
#include "runtime/data/data.h"

enum { SAMPLES = 22, MOST = 64 };

typedef struct bed {
    char folder[32], data[64], others[64], planes[64], mlp[64]; /* data: flat samples */
    ot_model *model;
    ot_options *borrowed[64]; /* by the trainers */
    int runs;
    /* what the last run said */
    int steps;
    double loss[MOST], norm[MOST], eval_loss, accuracy;
    char device[32], said[8192];
} bed;

static bed the_bed;

#define assert_ok(call, err)                                 \
    do {                                                     \
        if ((call) != OT_OK) fail_msg("%s", (err).text);     \
    } while (0)

/* ---- running ------------------------------------------------------------------------ */

static void on_log(void *user, const char *line, size_t n)
{
    bed *b = user;
    json_t *e = json_loadb(line, n, 0, NULL);
    const char *event = json_string_value(json_object_get(e, "event"));
    assert_non_null(event);
    if (!strcmp(event, "start"))
        snprintf(b->device, sizeof b->device, "%s", json_string_value(json_object_get(e, "device")));
    if (!strcmp(event, "step") && b->steps < MOST) {
        assert_int_equal(json_integer_value(json_object_get(e, "step")), b->steps + 1);
        b->norm[b->steps] = json_number_value(json_object_get(e, "grad_norm"));
        b->loss[b->steps++] = json_number_value(json_object_get(e, "loss"));
    }
    if (!strcmp(event, "eval")) {
        b->eval_loss = json_number_value(json_object_get(e, "loss"));
        b->accuracy = json_number_value(json_object_get(e, "accuracy"));
    }
    json_decref(e);
}

static void on_message(void *user, ot_level level, const char *text)
{
    bed *b = user;
    size_t n = strlen(b->said);
    (void)level;
    snprintf(b->said + n, sizeof b->said - n, "%s\n", text);
}

static ot_options *options(const bed *b, const char *device, const char *const *pairs)
{
    char run_dir[64];
    ot_error err = { 0 };
    ot_options *o = ot_options_new();
    snprintf(run_dir, sizeof run_dir, "%s/run", b->folder);
    assert_ok(ot_options_set(o, "device", device, &err), err);
    assert_ok(ot_options_set(o, "threads", "2", &err), err);
    for (; pairs && pairs[0]; pairs += 2) assert_ok(ot_options_set(o, pairs[0], pairs[1], &err), err);
    return o;
}

static ot_status train(bed *b, const char *device, const char *const *pairs, ot_trainer **t, ot_error *err)
{
    char run_dir[64];
    ot_callbacks cb = { .user = b, .log = on_log, .message = on_message };
    ot_options *o = options(b, device, pairs);
    snprintf(run_dir, sizeof run_dir, "%s/run-%s", b->folder, device);
    b->steps = 0;
    b->said[0] = 0;
    b->eval_loss = b->accuracy = NAN;
    assert_ok(ot_options_set(o, "run-dir", run_dir, err), *err);
    if (!ot_options_get(o, "data")) assert_ok(ot_options_set(o, "data", b->data, err), *err);
    ot_status s = ot_trainer_new(b->model, o, &cb, t, err);
    if (!s) s = ot_trainer_run(*t, err);
    assert_true(b->runs < OT_LEN(b->borrowed));
    b->borrowed[b->runs++] = o;
    return s;
}

static void near(const char *what, int at, double x, double y, double tolerance)
{
    if (fabs(x - y) <= tolerance * (1 + fabs(y))) return;
    if (isnan(x) && isnan(y)) return;
    fail_msg("%s %d: %.9g on the device, %.9g on the CPU", what, at, x, y);
}

static void compare_weights(ot_trainer *x, ot_trainer *y, double tolerance)
{
    ot_tensor v, w;
    for (int i = 0; ot_trainer_weight_at(y, i, &w); i++) {
        int64_t n = 1;
        assert_true(ot_trainer_weight_at(x, i, &v));
        for (int d = 0; d < w.rank; d++) n *= w.dim[d];
        assert_int_equal(v.dtype, w.dtype);
        for (int64_t k = 0; k < n; k++)
            near(w.name, (int)k, ot_get_f64(v.data, v.dtype, k), ot_get_f64(w.data, w.dtype, k), tolerance);
    }
}

/* The same run on both; loss, norm and weights within `tolerance`. */
static void alike(bed *b, double tolerance, const char *const *pairs)
{
    ot_trainer *x, *y;
    ot_error err = { 0 };
    bed *cpu = malloc(sizeof *cpu);
    char file[64];
    assert_ok(train(b, "cpu", pairs, &y, &err), err);
    assert_string_equal(b->device, "cpu");
    *cpu = *b;
    assert_ok(train(b, "cuda", pairs, &x, &err), err);
    assert_string_equal(b->device, "cuda:0");
    assert_int_equal(b->steps, cpu->steps);
    for (int i = 0; i < b->steps; i++) {
        near("loss", i, b->loss[i], cpu->loss[i], tolerance);
        near("norm", i, b->norm[i], cpu->norm[i], 10 * tolerance);
    }
    near("eval loss", 0, b->eval_loss, cpu->eval_loss, tolerance);
    near("accuracy", 0, b->accuracy, cpu->accuracy, 1e-9);
    compare_weights(x, y, tolerance);
    snprintf(file, sizeof file, "%s/out.onnx", b->folder);
    assert_ok(ot_trainer_export(x, file, &err), err);
    ot_trainer_free(x);
    ot_trainer_free(y);
    free(cpu);
}

static void load(bed *b, const char *path)
{
    ot_error err = { 0 };
    ot_model_free(b->model);
    b->model = NULL;
    assert_ok(ot_model_load(path, &b->model, &err), err);
}

#define OPTIONS(...) ((const char *const[]){ __VA_ARGS__, NULL, NULL })

/* ---- training ------------------------------------------------------------------------ */

static void dense(void **state)
{
    bed *b = *state;
    load(b, b->mlp);
    alike(b, 1e-4, OPTIONS("batch-size", "4", "epochs", "2")); /* a short last batch */
    assert_non_null(strstr(b->said, "the data set is on the GPU"));
    alike(b, 1e-4,
          OPTIONS("batch-size", "8", "steps", "9", "accumulate", "3", "no-shuffle", "true", "optimizer",
                  "sgd:lr=0.1,momentum=0.9"));
    alike(b, 1e-4, OPTIONS("batch-size", "5", "steps", "12", "clip-norm", "0.5", "schedule", "onecycle:max_lr=0.01"));
    alike(b, 1e-4, OPTIONS("batch-size", "5", "steps", "8", "val", b->others, "schedule", "plateau"));
    alike(b, 1e-4, OPTIONS("batch-size", "5", "steps", "8", "schedule", "plateau:patience=0"));
    alike(b, 1e-4, OPTIONS("batch-size", "5", "steps", "6", "on-nonfinite", "skip"));
}

static void pictures(void **state)
{
    bed *b = *state;
    load(b, b->mlp);
    alike(b, 1e-4,
          OPTIONS("data", "mnist", "val", b->data, "test", b->data, "batch-size", "4", "steps", "6", "optimizer",
                  "sgd:lr=0.05,momentum=0.9"));
    alike(b, 1e-4,
          OPTIONS("data", "mnist", "val", b->data, "test", b->data, "batch-size", "4", "steps", "6", "normalize",
                  "0.13,0.31"));
    load(b, OT_SOURCE_ROOT "/models/lenet.onnx");
    alike(b, 1e-3,
          OPTIONS("data", "mnist", "val", b->planes, "test", b->planes, "batch-size", "4", "steps", "3", "optimizer",
                  "sgd:lr=0.05,momentum=0.9"));
}

/* Times by the device's events: every node of the file, and files in the run folder. */
static void profile(void **state)
{
    bed *b = *state;
    ot_trainer *t;
    ot_error err = { 0 };
    char file[96];
    load(b, b->mlp);
    alike(b, 1e-4, OPTIONS("batch-size", "5", "steps", "8", "profile", "4"));
    assert_ok(train(b, "cuda", OPTIONS("batch-size", "5", "steps", "8", "profile", "4"), &t, &err), err);
    assert_non_null(strstr(b->said, "profile of 4 updates:"));
    snprintf(file, sizeof file, "%s/run-cuda/profile.json", b->folder);
    json_t *p = json_load_file(file, 0, NULL), *nodes = json_object_get(p, "nodes"), *n;
    double sum = 0;
    size_t k, products = 0;
    json_array_foreach(nodes, k, n)
    {
        const char *op = json_string_value(json_object_get(n, "operator"));
        bool product = !strcmp(op, "Gemm") || !strcmp(op, "MatMul");
        sum += json_number_value(json_object_get(n, "ms"));
        products += product;
        if (!product) continue;
        assert_true(json_number_value(json_object_get(n, "forward_ms")) > 0);
        assert_true(json_number_value(json_object_get(n, "backward_ms")) > 0);
        assert_true(json_number_value(json_object_get(n, "update_ms")) > 0);
    }
    assert_true(products >= 2);
    assert_true(sum > 0 && sum <= json_number_value(json_object_get(p, "update_ms")));
    json_decref(p);
    ot_trainer_free(t);
}

/* Rows of the CPU and of the device, with the ratio. */
static void bench_both(void **state)
{
    bed *b = *state;
    ot_error err = { 0 };
    char *text = NULL;
    size_t k, devices = 0;
    json_t *row;
    load(b, b->mlp);
    ot_options *o = options(b, "auto", OPTIONS("batch-sizes", "4", "steps", "3", "json", "true"));
    assert_ok(ot_bench_text(b->model, o, NULL, &text, &err), err);
    json_t *all = json_loads(text, 0, NULL), *list = json_object_get(all, "measurements");
    assert_int_equal(json_array_size(list), 4);
    json_array_foreach(list, k, row)
    {
        bool device = !strcmp(json_string_value(json_object_get(row, "device")), "cuda:0");
        devices += device;
        assert_true(json_number_value(json_object_get(row, "samples_per_second")) > 0);
        assert_int_equal(json_is_number(json_object_get(row, "ratio_to_cpu")), device);
    }
    assert_int_equal(devices, 2);
    json_decref(all);
    free(text);
    ot_options_free(o);
}

static void put(FILE *f, int n, ...)
{
    va_list ap;
    va_start(ap, n);
    while (n--) fputc(va_arg(ap, int), f);
    va_end(ap);
}

/* 22 pictures of (5,6,3) bytes in idx files, channels last. */
static void write_pictures(const bed *b, char *images, size_t n)
{
    char labels[64];
    snprintf(images, n, "%s/t-images-idx3-ubyte", b->folder);
    snprintf(labels, sizeof labels, "%s/t-labels-idx1-ubyte", b->folder);
    FILE *x = fopen(images, "wb"), *y = fopen(labels, "wb");
    assert_non_null(x);
    assert_non_null(y);
    put(x, 20, 0, 0, 8, 4, 0, 0, 0, SAMPLES, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 3);
    put(y, 8, 0, 0, 8, 1, 0, 0, 0, SAMPLES);
    for (int i = 0; i < SAMPLES * 90; i++) fputc(i * i * 7 % 251, x);
    for (int i = 0; i < SAMPLES; i++) fputc(i * 3 % 10, y);
    assert_int_equal(fclose(x) | fclose(y), 0);
}

/* Channels last to planes, each channel scaled separately; resized, and in grey.  Training cuts them from
 * the set on the device, the proof of the export gets them sent: both must agree. */
static void pictures_converted(void **state)
{
    bed *b = *state;
    static const char *const inputs[][2] = { { "3x5x6", "mean,std" }, { "3x8x8", "imagenet" }, { "1x8x8", "0.3,0.2" } };
    char images[64], file[64];
    ot_error err = { 0 };
    write_pictures(b, images, sizeof images);
    for (int i = 0; i < OT_LEN(inputs); i++) {
        ot_options *o = ot_options_new();
        snprintf(file, sizeof file, "%s/pictures.onnx", b->folder);
        assert_ok(ot_options_set(o, "input", inputs[i][0], &err), err);
        assert_ok(ot_options_set(o, "hidden", "8", &err), err);
        assert_ok(ot_options_set(o, "o", file, &err), err);
        assert_ok(ot_new_file("mlp", o, NULL, &err), err);
        ot_options_free(o);
        load(b, file);
        alike(b, 1e-4, OPTIONS("data", images, "batch-size", "4", "epochs", "2", "normalize", inputs[i][1]));
        assert_non_null(strstr(b->said, "the data set is on the GPU"));
    }
}

/* Data that does not fit on the device, and is uploaded with every batch. */
static void sent(void **state)
{
    bed *b = *state;
    load(b, b->mlp);
    setenv("ONNXTRAIN_EMULATOR_MEMORY", "64", 1); /* an eighth is less than MNIST */
    alike(b, 1e-4, OPTIONS("data", "mnist", "val", b->data, "batch-size", "4", "steps", "5"));
    unsetenv("ONNXTRAIN_EMULATOR_MEMORY");
    assert_null(strstr(b->said, "the data set is on the GPU"));
}

static void repeats(void **state)
{
    bed *b = *state;
    ot_trainer *x, *y;
    ot_error err = { 0 };
    load(b, b->mlp);
    assert_ok(train(b, "cuda", OPTIONS("batch-size", "4", "epochs", "2"), &x, &err), err);
    assert_ok(train(b, "cuda", OPTIONS("batch-size", "4", "epochs", "2"), &y, &err), err);
    compare_weights(x, y, 0);
    ot_trainer_free(x);
    ot_trainer_free(y);
}

static void diverges(void **state)
{
    bed *b = *state;
    ot_trainer *x = NULL;
    ot_error err = { 0 };
    load(b, b->mlp);
    assert_int_equal(train(b, "cpu", OPTIONS("batch-size", "4", "steps", "60", "optimizer", "sgd:lr=1e20"), &x, &err),
                     OT_E_DIVERGED);
    ot_trainer_free(x);
    ot_error found = { 0 };
    int steps = b->steps;
    assert_int_equal(
        train(b, "cuda", OPTIONS("batch-size", "4", "steps", "60", "optimizer", "sgd:lr=1e20"), &x, &found),
        OT_E_DIVERGED);
    assert_string_equal(found.text, err.text); /* names the same step */
    assert_int_equal(b->steps, steps);
    ot_trainer_free(x);
}

/* ---- by host tensors -------------------------------------------------------------------- */

static void single_steps(void **state)
{
    bed *b = *state;
    ot_trainer *t[2];
    ot_error err = { 0 };
    float x[3 * 784];
    int64_t y[3] = { 1, 4, 7 };
    load(b, b->mlp);
    for (int i = 0; i < 3 * 784; i++) x[i] = (float)(i % 13) / 13;
    ot_tensor batch[2] = { { .name = "input", .dtype = OT_F32, .rank = 2, .dim = { 3, 784 }, .data = x },
                           { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { 3 }, .data = y } };
    double loss[2];
    for (int i = 0; i < 2; i++) {
        ot_options *o = options(b, i ? "cuda" : "cpu", NULL);
        assert_ok(ot_trainer_new(b->model, o, NULL, &t[i], &err), err);
        ot_options_free(o);
    }
    for (int k = 0; k < 5; k++) {
        x[k] += 1; /* the caller's memory changes between steps */
        for (int i = 0; i < 2; i++) assert_ok(ot_trainer_step(t[i], batch, 2, &loss[i], &err), err);
        near("loss", k, loss[1], loss[0], 1e-5);
    }
    compare_weights(t[1], t[0], 1e-4);
    ot_tensor w;
    assert_true(ot_trainer_weight_at(t[0], 1, &w));
    char name[64];
    snprintf(name, sizeof name, "%s", w.name);
    for (int i = 0; i < w.dim[0]; i++) ((float *)w.data)[i] = (float)i;
    assert_ok(ot_trainer_weight_set(t[1], &w, &err), err);
    assert_true(ot_trainer_weight_get(t[1], name, &w));
    for (int i = 0; i < w.dim[0]; i++) assert_float_equal(((float *)w.data)[i], i, 0);
    for (int i = 0; i < 2; i++) assert_ok(ot_trainer_step(t[i], batch, 2, &loss[i], &err), err);
    near("loss", 5, loss[1], loss[0], 1e-4);
    y[1] = 99; /* labels are looked at on the device */
    for (int i = 0; i < 2; i++) {
        ot_error found = { 0 };
        assert_int_equal(ot_trainer_step(t[i], batch, 2, &loss[i], &found), OT_E_DATA);
        assert_non_null(strstr(found.text, "label 99"));
        ot_trainer_free(t[i]);
    }
}

/* ---- run, grad, eval ------------------------------------------------------------------------ */

typedef ot_status file_command(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

static ot_dataset *by_file(bed *b, file_command *command, const char *data, const char *device,
                           const char *const *pairs)
{
    char out[64];
    ot_error err = { 0 };
    ot_dataset *d;
    ot_options *o = options(b, device, pairs);
    snprintf(out, sizeof out, "%s/%s.npz", b->folder, device);
    assert_ok(ot_options_set(o, "data", data, &err), err);
    assert_ok(ot_options_set(o, "o", out, &err), err);
    assert_ok(command(b->model, o, NULL, &err), err);
    ot_options_free(o);
    assert_ok(ot_dataset_open(out, OT_SPLIT_TRAIN, NULL, &d, &err), err);
    return d;
}

static void files_alike(bed *b, file_command *command, const char *data, const char *const *pairs)
{
    ot_dataset *x = by_file(b, command, data, "cuda", pairs), *y = by_file(b, command, data, "cpu", pairs);
    assert_int_equal(x->n, y->n);
    for (int i = 0; i < y->n; i++) {
        const ot_tensor *v = &x->array[i].t, *w = &y->array[i].t;
        int64_t n = 1;
        for (int d = 0; d < w->rank; d++) n *= w->dim[d];
        assert_string_equal(v->name, w->name);
        for (int64_t k = 0; k < n; k++)
            near(w->name, (int)k, ot_get_f64(v->data, v->dtype, k), ot_get_f64(w->data, w->dtype, k), 1e-5);
    }
    ot_dataset_free(x);
    ot_dataset_free(y);
}

static void arrays(void **state)
{
    bed *b = *state;
    load(b, b->mlp);
    files_alike(b, ot_run_file, b->data, NULL);
    files_alike(b, ot_grad_file, b->data, OPTIONS("batch-size", "5", "accumulate", "3"));
    load(b, OT_SOURCE_ROOT "/models/lenet.onnx");
    files_alike(b, ot_run_file, b->planes, NULL);
    files_alike(b, ot_grad_file, b->planes, OPTIONS("batch-size", "4"));
}

static void evaluation(void **state)
{
    bed *b = *state;
    char *text[2];
    ot_error err = { 0 };
    load(b, b->mlp);
    for (int i = 0; i < 2; i++) {
        ot_options *o = options(b, i ? "cuda" : "cpu", OPTIONS("data", b->data, "batch-size", "4"));
        assert_ok(ot_eval_text(b->model, o, NULL, &text[i], &err), err);
        ot_options_free(o);
    }
    assert_string_equal(text[0], text[1]); /* with the confusion matrix; the loss to six digits */
    free(text[0]);
    free(text[1]);
}

/* ---- devices and threads ---------------------------------------------------------------------- */

typedef struct job {
    ot_trainer *trainer;
    ot_status status;
    ot_error err;
} job;

static void *run_job(void *what)
{
    job *j = what;
    j->status = ot_trainer_run(j->trainer, &j->err);
    return NULL;
}

/* A trainer of the second device that another thread runs: the same steps as on the first one. */
static void second_device(void **state)
{
    bed *b = *state;
    job j = { 0 };
    ot_trainer *first;
    pthread_t thread;
    setenv("ONNXTRAIN_EMULATOR_DEVICES", "2", 1);
    load(b, b->mlp);
    ot_options *o = options(b, "cuda:1", OPTIONS("data", b->data, "run-dir", "none", "batch-size", "4"));
    assert_ok(ot_trainer_new(b->model, o, NULL, &j.trainer, &j.err), j.err);
    assert_int_equal(pthread_create(&thread, NULL, run_job, &j), 0);
    pthread_join(thread, NULL);
    ot_options_free(o);
    assert_ok(j.status, j.err);
    assert_ok(train(b, "cuda", OPTIONS("batch-size", "4"), &first, &j.err), j.err);
    compare_weights(j.trainer, first, 0);
    ot_trainer_free(first);
    ot_trainer_free(j.trainer);
    unsetenv("ONNXTRAIN_EMULATOR_DEVICES");
}

/* A device newer than NVRTC: kernels as PTX, or of an older device of the same major number. */
static void new_device(void **state)
{
    bed *b = *state;
    const char *const newest[] = { "80", "90" }, *const compiled[] = { "compute_80", "sm_90a" };
    ot_error err = { 0 };
    for (int i = 0; i < 2; i++) {
        ot_device *d = NULL;
        ot_device_info info;
        setenv("ONNXTRAIN_EMULATOR_ARCH", newest[i], 1);
        const ot_backend *backend = ot_backend_find(&err);
        assert_non_null(backend);
        assert_ok(backend->open(0, NULL, &d, &err), err);
        backend->info(d, &info);
        assert_memory_equal(info.key, compiled[i], strlen(compiled[i]));
        backend->close(d);
        ot_trainer *t;
        load(b, b->mlp);
        assert_ok(train(b, "cuda", OPTIONS("batch-size", "4"), &t, &err), err);
        ot_trainer_free(t);
    }
    unsetenv("ONNXTRAIN_EMULATOR_ARCH");
}

/* ---- what is not there ------------------------------------------------------------------------ */

static void refused(void **state)
{
    bed *b = *state;
    ot_trainer *t = NULL;
    ot_error err = { 0 };
    load(b, b->mlp);
    assert_int_equal(train(b, "cuda:3", NULL, &t, &err), OT_E_DEVICE);
    assert_non_null(strstr(err.text, "cuda:3 does not exist"));
    ot_error full = { 0 };
    setenv("ONNXTRAIN_EMULATOR_MEMORY", "1", 1);
    load(b, OT_SOURCE_ROOT "/models/lenet.onnx");
    assert_int_equal(train(b, "cuda", OPTIONS("data", b->planes), &t, &full), OT_E_NOMEM);
    unsetenv("ONNXTRAIN_EMULATOR_MEMORY");
    assert_non_null(strstr(full.text, "MiB are needed, but 0 MiB are available"));
}

/* ---- the bed ------------------------------------------------------------------------------------ */

static ot_status write_data(const char *path, int first, int rank, ot_error *err)
{
    static float x[SAMPLES * 784];
    static int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES * 784; i++) x[i] = (float)((int64_t)(i + first) * i * 37 % 101) / 101;
    for (int i = 0; i < SAMPLES; i++) y[i] = (i * 7 + first) % 10;
    ot_tensor t[2] = {
        { .name = "input", .dtype = OT_F32, .rank = rank, .dim = { SAMPLES, rank == 2 ? 784 : 1, 28, 28 }, .data = x },
        { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { SAMPLES }, .data = y }
    };
    return ot_npz_write(path, t, 2, err);
}

static int open_bed(void **state)
{
    bed *b = &the_bed;
    ot_error err = { 0 };
    strcpy(b->folder, "/tmp/ot_cuda_XXXXXX");
    const char *in = mkdtemp(b->folder);
    if (!in) return 1;
    snprintf(b->data, sizeof b->data, "%s/d.npz", in);
    snprintf(b->others, sizeof b->others, "%s/v.npz", in);
    snprintf(b->planes, sizeof b->planes, "%s/p.npz", in);
    snprintf(b->mlp, sizeof b->mlp, "%s/mlp.onnx", in);
    ot_options *o = ot_options_new();
    *state = b;
    int bad = write_data(b->data, 0, 2, &err) || write_data(b->others, 3, 2, &err) ||
              write_data(b->planes, 1, 4, &err) || ot_options_set(o, "o", b->mlp, &err) ||
              ot_options_set(o, "hidden", "12", &err) || ot_options_set(o, "input", "1x28x28", &err) ||
              ot_new_file("mlp", o, NULL, &err);
    if (bad) fprintf(stderr, "%s\n", err.text);
    ot_options_free(o);
    return bad;
}

static int close_bed(void **state)
{
    bed *b = *state;
    char command[64];
    ot_model_free(b->model);
    while (b->runs) ot_options_free(b->borrowed[--b->runs]);
    snprintf(command, sizeof command, "rm -rf %s", b->folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense),         cmocka_unit_test(pictures),     cmocka_unit_test(profile),
        cmocka_unit_test(bench_both),    cmocka_unit_test(sent),         cmocka_unit_test(repeats),
        cmocka_unit_test(diverges),      cmocka_unit_test(single_steps), cmocka_unit_test(arrays),
        cmocka_unit_test(evaluation),    cmocka_unit_test(refused),      cmocka_unit_test(pictures_converted),
        cmocka_unit_test(second_device), cmocka_unit_test(new_device),
    };
    return cmocka_run_group_tests_name("cuda", tests, open_bed, close_bed);
}
