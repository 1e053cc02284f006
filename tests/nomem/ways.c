/* ways.c - the ways through the library on which every allocation fails once.  A new one is a function and a row.
 *
 * They run in a folder of their own; files that `prepare` made there are only read. */
#include "nomem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/data/sound.h"
#include "runtime/base/io.h"
#include "runtime/picture/draw.h"
#include "runtime/picture/picture.h"
#include "runtime/text/text.h"
#include "tests/importer/bytes.h"

#define EXPORTS OT_SOURCE_ROOT "/tests/exports/"

/* ---- options and models ------------------------------------------------------------ */

typedef struct job { /* what nearly every path has */
    ot_options *o;
    ot_model *m;
} job;

/* pairs: names and values, NULL-ended.  close_job() in any case. */
static ot_status open_job(job *j, const char *model, const char *const *pairs, ot_error *err)
{
    *j = (job){ .o = ot_options_new() };
    if (!j->o) return ot_fail(err, OT_E_NOMEM, "no options");
    for (; *pairs; pairs += 2) OT_TRY(ot_options_set(j->o, pairs[0], pairs[1], err));
    return model ? ot_model_load(model, &j->m, err) : OT_OK;
}

static void close_job(job *j)
{
    ot_model_free(j->m);
    ot_options_free(j->o);
}

#define PAIRS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- import ------------------------------------------------------------------------------ */

/* A model with most features, and a weight in a file beside it. */
static ot_status rich(ot_error *err)
{
    bytes g = small_graph(), outside = tensor_begin("out", OT_F32, 1, (int64_t[]){ 3 }), rich = rich_model(), m;
    tensor_outside(&outside, "rich.bin", NULL, NULL);
    graph_tensor(&g, outside);
    m = model_of(&g, 8, 17);
    ot_status s = put_file("rich.onnx", rich.p, rich.n, err);
    if (!s) s = put_file("outside.onnx", m.p, m.n, err);
    if (!s) s = put_file("rich.bin", (float[]){ 1, 2, 3 }, 12, err);
    bytes_free(&rich);
    bytes_free(&m);
    return s;
}

static ot_status import(char **text, ot_error *err)
{
    const char *const files[] = { "rich.onnx", "outside.onnx", EXPORTS "quantised-static.onnx" };
    (void)text;
    for (int i = 0; i < OT_LEN(files); i++) {
        ot_imported *m;
        OT_TRY(ot_import(files[i], &m, err));
        ot_error bad = { 0 };
        ot_status s = ot_graph_verify(m->graph, false, &bad);
        ot_import_free(m);
        if (s) return ot_fail(err, s, "what was imported: %s", bad.text);
    }
    return OT_OK;
}

/* ---- texts -------------------------------------------------------------------------------- */

typedef ot_status describer(const ot_model *m, const ot_options *o, char **text, ot_error *err);

static ot_status describe(describer *of, const char *model, const char *const *pairs, char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, model, pairs, err);
    if (!s) s = of(j.m, j.o, text, err);
    close_job(&j);
    return s;
}

static ot_status check(char **text, ot_error *err)
{
    return describe(ot_check_text, EXPORTS "norms-kept.onnx", PAIRS("data", "train.npz", "threads", "1"), text, err);
}

static ot_status check_json(char **text, ot_error *err)
{
    return describe(ot_check_text, EXPORTS "quantised-dynamic.onnx",
                    PAIRS("json", "true", "threads", "1", "batch-size", "2"), text, err);
}

static ot_status check_untied(char **text, ot_error *err)
{
    return describe(ot_check_text, EXPORTS "norms-shared.onnx",
                    PAIRS("data", "train.npz", "untie", "auto", "threads", "1"), text, err);
}

static ot_status check_unfolded(char **text, ot_error *err)
{
    return describe(ot_check_text, EXPORTS "folded-dynamo.onnx",
                    PAIRS("data", "train.npz", "unfold-bn", "true", "add-dropout", "0.1", "threads", "1"), text, err);
}

static ot_status check_classes(char **text, ot_error *err)
{
    return describe(ot_check_text, EXPORTS "norms-kept.onnx",
                    PAIRS("data", "train.npz", "classes", "12", "freeze-backbone", "true", "threads", "1"), text, err);
}

static ot_status check_lora(char **text, ot_error *err)
{
    return describe(ot_check_text, EXPORTS "norms-kept.onnx",
                    PAIRS("data", "train.npz", "lora", "rank=2,targets=*", "classes", "auto", "threads", "1"), text,
                    err);
}

static ot_status inspect(char **text, ot_error *err)
{
    return describe(ot_inspect_text, EXPORTS "norms-shared.onnx", PAIRS("graph", "true"), text, err);
}

static ot_status plan(char **text, ot_error *err)
{
    return describe(ot_plan_text, EXPORTS "folded-dynamo.onnx",
                    PAIRS("data", "train.npz", "why", "true", "batch-size", "2", "threads", "1"), text, err);
}

static ot_status bench(char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, EXPORTS "folded-dynamo.onnx",
                           PAIRS("steps", "1", "batch-sizes", "2", "threads", "1", "device", "cpu"), err);
    if (!s) s = ot_bench_text(j.m, j.o, NULL, text, err);
    close_job(&j);
    return s;
}

static ot_status env(char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, NULL, PAIRS("threads", "1"), err);
    if (!s) s = ot_env_text(j.o, text, err);
    close_job(&j);
    return s;
}

static ot_status ops(char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, NULL, PAIRS("json", "true"), err);
    if (!s) s = ot_ops_text(j.o, text, err);
    close_job(&j);
    return s;
}

static ot_status help(char **text, ot_error *err) { return ot_help_text(true, text, err); }
static ot_status man(char **text, ot_error *err) { return ot_man_text(text, err); }
static ot_status completion(char **text, ot_error *err) { return ot_completion_text("fish", text, err); }
static ot_status help_about(char **text, ot_error *err) { return ot_help_about("optimizer", "lars", false, text, err); }

/* ---- training ------------------------------------------------------------------------------- */

static void hear(void *user, ot_level level, const char *text) { (void)user, (void)level, (void)text; }
static void hear_log(void *user, const char *line, size_t n) { (void)user, (void)line, (void)n; }

static ot_status train_with(const char *model, const char *const *pairs, bool deploys, ot_error *err)
{
    ot_callbacks cb = { .message = hear, .log = hear_log };
    ot_trainer *t = NULL;
    job j;
    ot_status s = open_job(&j, model, pairs, err);
    if (!s) s = ot_trainer_new(j.m, j.o, &cb, &t, err);
    if (!s) s = ot_trainer_run(t, err);
    if (!s) s = ot_trainer_export(t, NULL, err);
    if (!s && deploys) s = ot_trainer_deploy(t, NULL, err);
    ot_trainer_free(t);
    close_job(&j);
    return s;
}

static ot_status train(char **text, ot_error *err)
{
    (void)text;
    return train_with(EXPORTS "norms-training.onnx",
                      PAIRS("data", "train.npz", "val", "val.npz", "batch-size", "4", "epochs", "1", "threads", "1",
                            "run-dir", "run", "log", "log.jsonl", "o", "out.onnx", "deploy", "deployed.onnx", "fold",
                            "true", "clip-norm", "1"),
                      true, err);
}

static ot_status augmented(char **text, ot_error *err)
{
    (void)text;
    return train_with(EXPORTS "norms-training.onnx",
                      PAIRS("data", "train.npz", "normalize", "1/255", "augment", "resized_crop:scale=[0.5,1]",
                            "augment", "rand_augment", "augment", "blur", "epochs", "1", "threads", "1", "run-dir",
                            "none", "o", "out.onnx"),
                      false, err);
}

static ot_status open_masks(char **text, ot_error *err)
{
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = { .rank = 4, .dim = { -1, 1, 28, 28 } } };
    const ot_data_options o = { .input = &in, .n_inputs = 1 };
    ot_dataset *d = NULL;
    (void)text;
    for (int i = 0; i < 2; i++) {
        OT_TRY(ot_dataset_open(i ? "set" : "masks.csv", OT_SPLIT_TRAIN, &o, &d, err));
        const ot_array *y = ot_dataset_find(d, "target");
        bool good = d->samples == 2 && y && y->source;
        ot_dataset_free(d);
        if (!good) return ot_fail(err, OT_E_INTERNAL, "masks are lost");
    }
    return OT_OK;
}

static ot_status hear_all(char **text, ot_error *err)
{
    ot_sound_want w = { .channels = 1, .length = 20, .place = -1, .rate = 8000 };
    ot_dataset *d = NULL;
    ot_image_room room = { 0 };
    float x[20];
    (void)text;
    OT_TRY(ot_dataset_open("spoken", OT_SPLIT_TRAIN, NULL, &d, err));
    const ot_array *a = ot_dataset_find(d, "");
    ot_status s = a->source->read_sound(a->source, 0, &w, &room, x, err);
    if (!s) s = a->source->read_sound(a->source, 1, &w, &room, x, err);
    ot_image_room_free(&room);
    ot_dataset_free(d);
    return s;
}

static ot_status listed(char **text, ot_error *err)
{
    (void)text;
    return train_with(EXPORTS "norms-training.onnx",
                      PAIRS("data", "list.csv", "workers", "0", "augment", "crop:padding=2", "epochs", "2",
                            "batch-size", "2", "val-split", "0.5", "threads", "1", "run-dir", "none", "o", "out.onnx",
                            "classes", "auto"),
                      false, err);
}

static ot_status parts(char **text, ot_error *err)
{
    (void)text;
    return train_with(EXPORTS "norms-training.onnx",
                      PAIRS("data", "x.npz", "data", "y.npz", "normalize", "auto", "inputs", "input=x", "permute",
                            "x=0,3,1,2", "epochs", "1", "threads", "1", "run-dir", "none", "o", "out.onnx"),
                      false, err);
}

static ot_status mixed(char **text, ot_error *err)
{
    (void)text;
    return train_with(EXPORTS "norms-training.onnx",
                      PAIRS("data", "train.npz", "normalize", "1/255", "augment", "mixup", "augment", "cutmix",
                            "epochs", "1", "threads", "1", "run-dir", "none", "o", "out.onnx"),
                      false, err);
}

static ot_status sheet(char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, NULL, PAIRS("augment", "auto", "augment", "erase", "preview", "out.png"), err);
    if (!s) s = ot_data_text("train.npz", j.o, text, err);
    close_job(&j);
    return s;
}

static ot_status small_net(ot_error *err)
{
    job j;
    ot_status s = open_job(&j, NULL, PAIRS("o", "net.onnx", "input", "1x1x2", "hidden", "4", "classes", "2"), err);
    if (!s) s = ot_new_file("mlp", j.o, NULL, err);
    close_job(&j);
    return s ? s : tables(err);
}

/* A table, whose classes are texts: the model that comes out knows them, and is read again. */
static ot_status table(char **text, ot_error *err)
{
    ot_status s = train_with(
        "net.onnx", PAIRS("data", "table.csv", "steps", "1", "threads", "1", "run-dir", "none", "o", "out.onnx"), false,
        err);
    job j;
    if (!s) {
        s = open_job(&j, "out.onnx", PAIRS("data", "table.csv", "threads", "1"), err);
        if (!s) s = ot_eval_text(j.m, j.o, NULL, text, err);
        close_job(&j);
    }
    return s;
}

/* Two losses, one of them on a tensor inside the graph. */
static ot_status heads(char **text, ot_error *err)
{
    ot_status s = train_with("net.onnx",
                             PAIRS("data", "table.csv", "val", "table.csv", "steps", "1", "threads", "1", "run-dir",
                                   "none", "o", "out.onnx", "log", "log.jsonl", "output", "relu1.out", "loss",
                                   "focal:class_weights=[1,2,1,1]", "classes", "4"),
                             false, err);
    if (!s)
        s = describe(ot_check_text, "net.onnx",
                     PAIRS("output", "relu1.out", "loss", "dice", "data", "table.csv", "threads", "1", "classes", "4"),
                     text, err);
    return s;
}

/* A model that learns from another one. */
static ot_status taught(char **text, ot_error *err)
{
    (void)text;
    return train_with("net.onnx",
                      PAIRS("data", "table.csv", "teacher", "net.onnx:temperature=3", "steps", "1", "threads", "1",
                            "run-dir", "run", "o", "out.onnx"),
                      false, err);
}

static ot_status small_run(ot_error *err)
{
    ot_status s = small_net(err);
    return s ? s
             : train_with("net.onnx",
                          PAIRS("data", "table.csv", "val-split", "0.3", "steps", "1", "threads", "1", "run-dir", "run",
                                "o", "out.onnx"),
                          false, err);
}

static ot_status eval_run(char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, NULL, PAIRS("json", "true"), err);
    if (!s) s = ot_eval_run_text("run", j.o, NULL, text, err);
    close_job(&j);
    return s;
}

/* The page of a run again, with its charts in both forms. */
static ot_status report(char **text, ot_error *err)
{
    job j;
    (void)text;
    ot_status s = open_job(&j, NULL, PAIRS("plots", "svg"), err);
    if (!s && !ot_sketch_png_missing()) s = ot_options_set(j.o, "plots", "png:scale=0.5", err);
    if (!s) s = ot_report_file("run", j.o, NULL, err);
    close_job(&j);
    return s;
}

/* A batch size that is found, and equal averages. */
static ot_status found(char **text, ot_error *err)
{
    (void)text;
    return train_with("net.onnx",
                      PAIRS("data", "table.csv", "batch-size", "auto", "memory-limit", "1GiB", "swa", "1", "steps", "1",
                            "threads", "1", "run-dir", "run", "o", "out.onnx"),
                      false, err);
}

/* A training that computes values again. */
static char limit[16];

static ot_status limited(char **text, ot_error *err)
{
    return describe(ot_plan_text, EXPORTS "norms-training.onnx",
                    PAIRS("data", "train.npz", "batch-size", "6", "memory-limit", limit, "threads", "1"), text, err);
}

/* The limit depends on the layouts of the machine's kernels. */
static ot_status find_limit(ot_error *err)
{
    OT_TRY(pictures(err));
    for (int kib = 600; kib > 200; kib -= 10) {
        char *text = NULL;
        snprintf(limit, sizeof limit, "%dKiB", kib);
        ot_status s = limited(&text, err);
        bool found = !s && strstr(text, "recomputed in");
        free(text);
        if (s || found) return s;
    }
    return ot_fail(err, OT_E_INTERNAL, "nothing is computed again");
}

/* One update by tensors, weights taken and given. */
static ot_status step(char **text, ot_error *err)
{
    static float x[2 * PIXELS], ten[10];
    static int64_t y[2] = { 1, 2 };
    ot_tensor batch[2] = { { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { 2, 1, 28, 28 }, .data = x },
                           { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { 2 }, .data = y } };
    ot_tensor mine = { .name = "fc2.bias", .dtype = OT_F32, .rank = 1, .dim = { 10 }, .data = ten }, w;
    ot_trainer *t = NULL;
    job j;
    (void)text;
    ot_status s =
        open_job(&j, OT_SOURCE_ROOT "/models/lenet.onnx", PAIRS("threads", "1", "optimizer", "sgd:lr=0.1"), err);
    if (!s) s = ot_trainer_new(j.m, j.o, NULL, &t, err);
    for (int i = 0; !s && i < 2; i++) {
        s = ot_trainer_step(t, batch, 2, NULL, err);
        if (s) s = ot_trainer_step(t, batch, 2, NULL, err); /* a step without memory can be made again */
    }
    if (!s && !ot_trainer_weight_get(t, "fc1.weight", &w)) s = ot_fail(err, OT_E_NOMEM, "the weight is not told");
    if (!s) s = ot_trainer_weight_set(t, &mine, err);
    if (!s) s = ot_trainer_export(t, "out.onnx", err);
    ot_trainer_free(t);
    close_job(&j);
    return s;
}

static ot_status eval(char **text, ot_error *err)
{
    ot_callbacks cb = { .message = hear };
    job j;
    ot_status s =
        open_job(&j, EXPORTS "norms-training.onnx", PAIRS("data", "train.npz", "threads", "1", "json", "true"), err);
    if (!s) s = ot_eval_text(j.m, j.o, &cb, text, err);
    close_job(&j);
    return s;
}

static ot_status predict(char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, EXPORTS "norms-training.onnx",
                           PAIRS("data", "train.npz", "threads", "1", "task", "classes", "o", "out.npz"), err);
    if (!s) s = ot_predict_text(j.m, j.o, NULL, text, err);
    close_job(&j);
    if (!s)
        s = open_job(&j, EXPORTS "norms-training.onnx",
                     PAIRS("data", "train.npz", "threads", "1", "task", "classes", "json", "true"), err);
    else return s;
    if (!s) s = ot_predict_text(j.m, j.o, NULL, text, err);
    close_job(&j);
    return s;
}

static ot_status language_model(ot_error *err)
{
    job j;
    ot_status s =
        open_job(&j, NULL, PAIRS("o", "lm.onnx", "input", "4", "classes", "256", "layers", "1", "scale", "0.03"), err);
    if (!s) s = ot_new_file("gpt2", j.o, NULL, err);
    close_job(&j);
    return s;
}

static void count_bytes(void *user, const char *text, size_t n)
{
    (void)text;
    *(size_t *)user += n;
}

static ot_status generate(char **text, ot_error *err)
{
    job j;
    size_t n = 0;
    (void)text;
    ot_status s = open_job(
        &j, "lm.onnx", PAIRS("prompt", "abcdef", "tokens", "2", "text", "bytes", "top-k", "5", "threads", "1"), err);
    if (!s) s = ot_generate(j.m, j.o, NULL, count_bytes, &n, err);
    if (!s && n < 8) s = ot_fail(err, OT_E_INTERNAL, "%zu bytes of text", n);
    close_job(&j);
    return s;
}

static ot_status describe_data(char **text, ot_error *err)
{
    char *page = NULL;
    ot_options *o = ot_options_new();
    ot_status s = o ? ot_options_set(o, "val", "table.csv", err) : ot_fail(err, OT_E_NOMEM, "no memory for options");
    if (!s) s = ot_data_text("table.csv", o, &page, err);
    free(page);
    if (!s) s = ot_options_set(o, "json", "true", err);
    if (!s) s = ot_data_text("table.csv", o, text, err);
    ot_options_free(o);
    return s;
}

/* ---- files in, files out ----------------------------------------------------------------------- */

typedef ot_status worker(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

static ot_status work(worker *of, const char *model, const char *const *pairs, ot_error *err)
{
    ot_callbacks cb = { .message = hear };
    job j;
    ot_status s = open_job(&j, model, pairs, err);
    if (!s) s = of(j.m, j.o, &cb, err);
    close_job(&j);
    return s;
}

static ot_status run(char **text, ot_error *err)
{
    bool image = text && !stat("a.pgm", &(struct stat){ 0 });
    return work(ot_run_file, image ? EXPORTS "norms-training.onnx" : EXPORTS "quantised-static.onnx",
                PAIRS("data", image ? "a.pgm" : "inputs.npz", "o", "out.npz", "threads", "1", "workers", "0"), err);
}

/* Planned, run with other values, and planned for another shape. */
static ot_status runner(char **text, ot_error *err)
{
    float x[2 * 784] = { 0 };
    ot_tensor in = { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { 1, 1, 28, 28 }, .data = x };
    job j;
    ot_runner *r = NULL;
    (void)text;
    ot_status s = open_job(&j, OT_SOURCE_ROOT "/models/lenet.onnx", PAIRS("threads", "1"), err);
    if (!s) s = ot_runner_new(j.m, j.o, &r, err);
    for (int i = 0; i < 3 && !s; i++) {
        ot_tensors out;
        in.dim[0] = 1 + i / 2;
        s = ot_runner_run(r, &in, 1, &out, err);
        ot_tensors_free(&out);
    }
    ot_runner_free(r);
    close_job(&j);
    return s;
}

static ot_status grad(char **text, ot_error *err)
{
    (void)text;
    return work(ot_grad_file, EXPORTS "folded-torchscript.onnx",
                PAIRS("data", "train.npz", "o", "out.npz", "threads", "1"), err);
}

static ot_status export_folded(char **text, ot_error *err)
{
    (void)text;
    return work(ot_export_file, EXPORTS "norms-kept.onnx",
                PAIRS("o", "out.onnx", "fold", "true", "metadata", "a=b", "threads", "1"), err);
}

static ot_status export_half(char **text, ot_error *err)
{
    (void)text;
    return work(ot_export_file, EXPORTS "plain-dynamo.onnx", PAIRS("o", "out.onnx", "fp16", "true", "threads", "1"),
                err);
}

static ot_status fresh(char **text, ot_error *err)
{
    job j;
    (void)text;
    ot_status s = open_job(&j, NULL, PAIRS("o", "out.onnx", "input", "1x8x8", "scale", "0.25"), err);
    if (!s) s = ot_new_file("resnet18", j.o, NULL, err);
    close_job(&j);
    return s;
}

/* ---- data ------------------------------------------------------------------------------------------ */

/* Text, dates and missing values become inputs, and once more from the record of them. */
static ot_status mapped_table(char **text, ot_error *err)
{
    const ot_data_input in[] = { { .name = "x", .dtype = OT_F32, .shape = { .rank = -1 } },
                                 { .name = "job", .dtype = OT_STRING, .shape = { 2, { -1, 1 } } } };
    ot_data_options o = { .input = in, .n_inputs = 2, .columns = "x=age,job,since;job=job" };
    ot_dataset *d = NULL, *again = NULL;
    OT_TRY(ot_dataset_open("mixed.csv", OT_SPLIT_TRAIN, &o, &d, err));
    o.preprocess = d->preprocess;
    o.columns = NULL;
    ot_status s = ot_dataset_open("mixed.csv", OT_SPLIT_TRAIN, &o, &again, err);
    if (!s && again->n != d->n) s = ot_fail(err, OT_E_INTERNAL, "mixed.csv: arrays are lost");
    (void)text;
    ot_dataset_free(again);
    ot_dataset_free(d);
    return s;
}

/* Several files, one of them mapped. */
static ot_status several(ot_error *err)
{
    ot_dataset *d = NULL;
    const ot_data_options o = { .map_from = 1 };
    OT_TRY(ot_dataset_open("a=" FIXTURES "little-f4.npy\ntarget=" FIXTURES "big-i8.npy\nb=inputs.npz\n" FIXTURES
                           "every.safetensors",
                           OT_SPLIT_TRAIN, &o, &d, err));
    if (d->n != 16 || !d->array[0].mapped) ot_fail(err, OT_E_INTERNAL, "arrays are lost");
    ot_dataset_free(d);
    return err->status;
}

/* Texts become characters, and once more by the record of them. */
static ot_status labelled_texts(const char *file, ot_error *err)
{
    const ot_data_input in[] = { { .name = "ids", .dtype = OT_I64, .shape = { 2, { -1, -1 } } },
                                 { .name = "attention_mask", .dtype = OT_I64, .shape = { 2, { -1, -1 } } } };
    ot_data_options o = { .input = in, .n_inputs = 2, .text = "chars" };
    ot_dataset *d = NULL, *again = NULL;
    OT_TRY(ot_dataset_open(file, OT_SPLIT_TRAIN, &o, &d, err));
    o.preprocess = d->preprocess;
    o.text = NULL;
    ot_status s = ot_dataset_open(file, OT_SPLIT_TRAIN, &o, &again, err);
    if (!s && again->hash != d->hash) s = ot_fail(err, OT_E_INTERNAL, "%s: tokens are others", file);
    ot_dataset_free(again);
    ot_dataset_free(d);
    return s;
}

static ot_status data(char **text, ot_error *err)
{
    const char *const specs[] = { FIXTURES "savez.npz",
                                  FIXTURES "deflated.npz",
                                  FIXTURES "streamed.npz",
                                  FIXTURES "images-deflated.zip",
                                  FIXTURES "fortran-big.npy",
                                  FIXTURES "packed.npy.gz",
                                  FIXTURES "packed.safetensors.gz",
                                  FIXTURES "odd.safetensors",
                                  FIXTURES "four.tfrecord",
                                  FIXTURES "images.tfrecord.gz",
                                  FIXTURES "images.tfrecord-00000-of-00002",
                                  FIXTURES "vector-f8.idx",
                                  FIXTURES "packed-images-idx3-ubyte.gz",
                                  "table.csv" };
    OT_TRY(mapped_table(text, err));
    OT_TRY(several(err));
    OT_TRY(labelled_texts("texts.jsonl", err));
    OT_TRY(labelled_texts("tags.jsonl", err));
    OT_TRY(labelled_texts("tags.conll", err));
    for (int i = 0; i < OT_LEN(specs); i++) {
        ot_dataset *d = NULL;
        OT_TRY(ot_dataset_open(specs[i], OT_SPLIT_TRAIN, NULL, &d, err));
        ot_file_id id;
        const char *name;
        if (strncmp(strrchr(specs[i], '/') ? strrchr(specs[i], '/') + 1 : specs[i], "packed-images", 13) &&
            (!ot_file_of(AT_FDCWD, specs[i], &id) || !ot_dataset_reads(d, id, &name)))
            ot_fail(err, OT_E_INTERNAL, "%s: it is not noted that it was read", specs[i]);
        ot_dataset_free(d);
        OT_TRY(err->status);
    }
    return OT_OK;
}

static ot_status tokenizers(char **text, ot_error *err)
{
    static const char *const files[][2] = { { "word", "ab b" },
                                            { OT_SOURCE_ROOT "/tests/text/fixtures/sp-bpe.model", "ab b" },
                                            { "bert", "AB b" }, /* its configuration says that letters are small */
                                            { "gpt", "ab b" } };
    (void)text;
    for (int i = 0; i < OT_LEN(files); i++) {
        json_t *config = NULL;
        ot_tokenizer *t = NULL;
        ot_ids ids = { 0 };
        ot_status s = ot_tokenizer_load(files[i][0], &config, err);
        if (!s) s = ot_tokenizer_new(config, files[i][0], &t, err);
        if (!s) s = ot_tokenizer_encode(t, files[i][1], 4, true, &ids, err);
        if (!s && i >= 2 && (ids.n != 4 || ids.id[1] != 5))
            s = ot_fail(err, OT_E_INTERNAL, "%s: %d tokens, not 4, or others", files[i][0], (int)ids.n);
        free(ids.id);
        ot_tokenizer_free(t);
        json_decref(config);
        OT_TRY(s);
    }
    return OT_OK;
}

/* What the readers make themselves; the libraries' own memory is theirs. */
static ot_status picture(char **text, ot_error *err)
{
    const char *const files[] = { "turned6.jpg", "palette_alpha.png", "lossy.webp", "rle8.bmp",
                                  "grey16.pgm",  "premultiplied.tif", "jpeg.tif",   "rgb.jp2" };
    (void)text;
    for (int i = 0; i < OT_LEN(files); i++) {
        char path[512];
        void *p = NULL;
        size_t n = 0;
        ot_pixels x = { 0 };
        snprintf(path, sizeof path, OT_SOURCE_ROOT "/tests/picture/fixtures/%s", files[i]);
        ot_status s = ot_read_file(path, 1 << 20, &p, &n, err);
        bool skipped = !s && ot_picture_missing(p, n);
        if (!s && !skipped) s = ot_picture_decode(p, n, 1 << 20, &x, err);
        if (!s && !skipped) s = ot_pixels_turn(&x, err);
        if (!s && !skipped) s = ot_pixels_to_bytes(&x, 1, err);
        ot_pixels_free(&x);
        free(p);
        OT_TRY(s);
    }
    return OT_OK;
}

static ot_status write_npz(char **text, ot_error *err)
{
    (void)text;
    return write_pictures("out.npz", 3, true, err);
}

static ot_status config(char **text, ot_error *err)
{
    job j;
    ot_status s = open_job(&j, NULL, PAIRS("config", "run.conf", "seed", "3"), err);
    (void)text;
    if (!s && (strcmp(ot_options_get(j.o, "lr"), "0.1") || !ot_options_nth(j.o, "freeze", 0)))
        s = ot_fail(err, OT_E_INTERNAL, "a line of the file is lost");
    close_job(&j);
    return s;
}

const way ways[] = {
    { .name = "import", .prepare = rich, .go = import },
    { .name = "check", .prepare = pictures, .go = check },
    { .name = "check --json", .go = check_json },
    { .name = "check --untie", .prepare = pictures, .go = check_untied },
    { .name = "check --unfold-bn", .prepare = pictures, .go = check_unfolded },
    { .name = "check --classes", .prepare = pictures, .go = check_classes },
    { .name = "check --lora", .prepare = pictures, .go = check_lora },
    { .name = "inspect", .go = inspect, .varies = true }, /* without the shapes, if there is no memory to infer them */
    { .name = "plan", .prepare = pictures, .go = plan },
    { .name = "plan --memory-limit", .prepare = find_limit, .go = limited },
    { .name = "ops", .go = ops },
    { .name = "bench", .go = bench, .varies = true },
    { .name = "env", .go = env, .varies = true }, /* how much memory is free */
    { .name = "help", .go = help },
    { .name = "help about", .go = help_about },
    { .name = "help --man", .go = man },
    { .name = "completion", .go = completion },
    { .name = "config", .prepare = tables, .go = config },
    { .name = "data", .prepare = tables, .go = data },
    { .name = "tokenizers", .prepare = vocabularies, .go = tokenizers },
    { .name = "picture", .go = picture },
    { .name = "npz", .go = write_npz, .out = "out.npz" },
    { .name = "new", .go = fresh, .out = "out.onnx" },
    { .name = "run", .prepare = pictures, .go = run, .out = "out.npz" },
    { .name = "runner", .go = runner },
    { .name = "grad", .prepare = pictures, .go = grad, .out = "out.npz" },
    { .name = "eval", .prepare = pictures, .go = eval },
    { .name = "predict", .prepare = pictures, .go = predict, .out = "out.npz" },
    { .name = "predict --prompt", .prepare = language_model, .go = generate },
    { .name = "eval RUN", .prepare = small_run, .go = eval_run },
    { .name = "report", .prepare = small_run, .go = report },
    { .name = "step", .go = step, .out = "out.onnx" },
    { .name = "train", .prepare = pictures, .go = train, .out = "out.onnx" },
    { .name = "augment", .prepare = byte_pictures, .go = augmented, .out = "out.onnx" },
    { .name = "masks", .prepare = masks, .go = open_masks },
    { .name = "images", .prepare = image_list, .go = listed, .out = "out.onnx" },
    { .name = "run an image", .prepare = image_list, .go = run, .out = "out.npz" },
    { .name = "recordings", .prepare = recordings, .go = hear_all },
    { .name = "several files", .prepare = part_files, .go = parts, .out = "out.onnx" },
    { .name = "mixup", .prepare = byte_pictures, .go = mixed, .out = "out.onnx" },
    { .name = "data DATA", .prepare = small_net, .go = describe_data },
    { .name = "data --preview", .prepare = byte_pictures, .go = sheet, .out = "out.png" },
    { .name = "table", .prepare = small_net, .go = table, .out = "out.onnx" },
    { .name = "teacher", .prepare = small_net, .go = taught, .out = "out.onnx" },
    { .name = "batch size", .prepare = small_net, .go = found, .out = "out.onnx" },
    { .name = "heads", .prepare = small_net, .go = heads, .out = "out.onnx" },
    { .name = "export --fold", .go = export_folded, .out = "out.onnx" },
    { .name = "export --fp16", .go = export_half, .out = "out.onnx" },
};
const int n_ways = OT_LEN(ways);
