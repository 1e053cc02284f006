/* main.c - a run that is stopped and continued leaves the bytes of one that was not: exported model, best model, log.
 *
 * Every case trains three times: to the end; stopped twice and continued; and, in the damaged case, with the newest
 * checkpoint broken.  Seconds in the log are the only thing that may differ. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/io.h"
#include "runtime/data/data.h"
#include "runtime/optimizers/optimizers.h"
#include "runtime/train/options/schedules.h"
#include "runtime/train/run/checkpoint.h"

enum { SAMPLES = 23, WIDTH = 16, CLASSES = 3, MOST_OPTIONS = 16 };

#define assert_ok(expr, err)                                       \
    do {                                                           \
        if ((expr) != OT_OK) fail_msg("%s", (err).text);           \
    } while (0)

static const char *device = "cpu";
static char folder[] = "/tmp/onnxtrain-resume-XXXXXX";
static char flat[64], images[64], mlp[64], other[64], cnn[64];

/* ---- a model and data ----------------------------------------------------------------------- */

static ot_status new_model(const char *kind, const char *path, const char *const *pairs)
{
    ot_error err = { 0 };
    ot_options *o = ot_options_new();
    ot_status s = ot_options_set(o, "o", path, &err);
    for (; !s && *pairs; pairs += 2) s = ot_options_set(o, pairs[0], pairs[1], &err);
    if (!s) s = ot_new_file(kind, o, NULL, &err);
    if (s) print_error("%s\n", err.text);
    ot_options_free(o);
    return s;
}

static int setup(void **state)
{
    (void)state;
    static float x[SAMPLES * WIDTH];
    static int64_t y[SAMPLES];
    ot_error err = { 0 };
    if (!mkdtemp(folder)) return 1;
    snprintf(flat, sizeof flat, "%s/flat.npz", folder);
    snprintf(images, sizeof images, "%s/images.npz", folder);
    snprintf(mlp, sizeof mlp, "%s/mlp.onnx", folder);
    snprintf(other, sizeof other, "%s/other.onnx", folder);
    snprintf(cnn, sizeof cnn, "%s/cnn.onnx", folder);
    for (int i = 0; i < SAMPLES * WIDTH; i++) x[i] = (float)((int64_t)i * i * 37 % 101) / 101;
    for (int i = 0; i < SAMPLES; i++) y[i] = i * 7 % CLASSES;
    ot_tensor t[] = { { "input", OT_F32, 2, { SAMPLES, WIDTH }, x }, { "target", OT_I64, 1, { SAMPLES }, y } };
    if (ot_npz_write(flat, t, 2, &err)) return 1;
    t[0] = (ot_tensor){ "input", OT_F32, 4, { SAMPLES, 1, 4, 4 }, x };
    if (ot_npz_write(images, t, 2, &err)) return 1;
    if (new_model("mlp", other,
                  (const char *[]){ "input", "1x4x4", "hidden", "8,6", "classes", "3", "seed", "5", NULL }))
        return 1;
    return new_model("mlp", mlp, (const char *[]){ "input", "1x4x4", "hidden", "8,6", "classes", "3", NULL }) ||
           new_model("resnet18", cnn, (const char *[]){ "input", "1x4x4", "scale", "0.0625", "classes", "3", NULL });
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* ---- runs ------------------------------------------------------------------------------------- */

typedef struct stop {
    ot_trainer *t;
    int64_t at; /* cancelled after this update; 0: never */
} stop;

static void on_progress(void *user, const ot_progress *p)
{
    const stop *s = user;
    if (s->at && p->step >= s->at && !p->evaluating) ot_trainer_cancel(s->t);
}

static const char *stops_at; /* a message with this text; NULL: none */

static void on_message(void *user, ot_level level, const char *text)
{
    const stop *s = user;
    (void)level;
    if (stops_at && strstr(text, stops_at)) ot_trainer_cancel(s->t);
}

static void set_pairs(ot_options *o, const char *const *pairs)
{
    ot_error err = { 0 };
    for (; *pairs; pairs += 2) assert_ok(ot_options_set(o, pairs[0], pairs[1], &err), err);
}

static const char *path_of(const char *name, const char *end)
{
    static char buf[8][128];
    static int at;
    char *p = buf[at++ % 8];
    snprintf(p, sizeof *buf, "%s/%s%s", folder, name, end);
    return p;
}

static void finish(ot_trainer *t, stop *s, const char *reason)
{
    ot_error err = { 0 };
    ot_result r;
    s->t = t;
    assert_ok(ot_trainer_run(t, &err), err);
    ot_trainer_result(t, &r);
    assert_string_equal(r.reason, reason);
    if (!s->at) assert_ok(ot_trainer_export(t, NULL, &err), err);
    ot_trainer_free(t);
}

static bool stops_early;

static void start(const char *model, const char *name, const char *const *pairs, int64_t at)
{
    ot_error err = { 0 };
    ot_model *m;
    ot_trainer *t;
    stop s = { .at = at };
    ot_callbacks cb = { .user = &s, .progress = on_progress, .message = on_message };
    ot_options *o = ot_options_new();
    set_pairs(o, (const char *[]){ "data", strcmp(model, cnn) ? flat : images, "run-dir", path_of(name, ""), "o",
                                   path_of(name, ".onnx"), "threads", "2", "epochs", "4", "batch-size", "5", "seed",
                                   "7", NULL });
    set_pairs(o, pairs);
    assert_ok(ot_model_load(model, &m, &err), err);
    assert_ok(ot_trainer_new(m, o, &cb, &t, &err), err);
    finish(t, &s, at ? "cancelled" : stops_early ? "early stop" : "finished");
    ot_model_free(m);
    ot_options_free(o);
}

static void resume(const char *name, const char *const *pairs, int64_t at, const char *reason)
{
    ot_error err = { 0 };
    ot_model *m;
    ot_trainer *t;
    ot_checkpoint *c;
    stop s = { .at = at };
    ot_callbacks cb = { .user = &s, .progress = on_progress, .message = on_message };
    ot_options *o = ot_options_new();
    if (pairs) set_pairs(o, pairs);
    assert_ok(ot_checkpoint_open(path_of(name, ""), &cb, &c, &err), err);
    assert_ok(ot_checkpoint_options(c, o, &err), err);
    assert_ok(ot_model_load(ot_checkpoint_model(c), &m, &err), err);
    assert_ok(ot_trainer_new(m, o, &cb, &t, &err), err);
    assert_ok(ot_trainer_resume(t, c, &err), err);
    ot_checkpoint_free(c);
    finish(t, &s, reason);
    ot_model_free(m);
    ot_options_free(o);
}

/* ---- comparing ---------------------------------------------------------------------------------- */

static char *content(const char *path, size_t *n)
{
    ot_error err = { 0 };
    void *p;
    assert_ok(ot_read_file(path, 1 << 26, &p, n, &err), err);
    return p;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *p = content(a, &n), *q = content(b, &m);
    if (n != m || memcmp(p, q, n)) fail_msg("%s and %s differ", a, b);
    free(p);
    free(q);
}

/* The lines of steps and evaluations, without their seconds. */
static char *lines_of(const char *path)
{
    size_t n;
    char *text = content(path, &n), *out = calloc(1, n + 1), *to = out;
    for (char *p = text, *end = text + n; p < end;) {
        char *line_end = memchr(p, '\n', (size_t)(end - p)), *stop_at = line_end ? line_end : end;
        *stop_at = '\0';
        if (strstr(p, "\"event\":\"step\"") || strstr(p, "\"event\":\"eval\"")) {
            char *seconds = strstr(p, ",\"seconds\"");
            if (seconds) *seconds = '\0';
            to += sprintf(to, "%s\n", p);
        }
        p = stop_at + 1;
    }
    free(text);
    return out;
}

static void assert_same_log(const char *a, const char *b)
{
    char *p = lines_of(a), *q = lines_of(b);
    assert_string_equal(p, q);
    assert_non_null(strstr(p, "\"step\":20"));
    free(p);
    free(q);
}

/* Every row of epochs.csv, without its seconds, which are last; none of its cells is empty. */
static char *rows_of(const char *path)
{
    size_t n;
    char *text = content(path, &n), *out = calloc(1, n + 1), *to = out;
    for (char *p = text, *stop_at; *p && (stop_at = strchr(p, '\n')); p = stop_at + 1) {
        *stop_at = '\0';
        if (strstr(p, ",,")) fail_msg("%s: a cell is empty: %s", path, p);
        *strrchr(p, ',') = '\0';
        to += sprintf(to, "%s\n", p);
    }
    free(text);
    return out;
}

static void assert_same_epochs(void)
{
    char *p = rows_of(path_of("whole", "/epochs.csv")), *q = rows_of(path_of("parts", "/epochs.csv"));
    assert_string_equal(p, q);
    free(p);
    free(q);
}

static void assert_same_run(void)
{
    assert_same_epochs();
    assert_same_file(path_of("whole", ".onnx"), path_of("parts", ".onnx"));
    assert_same_log(path_of("whole", "/log.jsonl"), path_of("parts", "/log.jsonl"));
    bool best =
        !access(path_of("whole", "/best.onnx"), F_OK); /* where an epoch is evaluated, or an option needs the best */
    assert_int_equal(best, !access(path_of("parts", "/best.onnx"), F_OK));
    if (best) assert_same_file(path_of("whole", "/best.onnx"), path_of("parts", "/best.onnx"));
}

static void clear(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/whole* %s/parts*", folder, folder);
    assert_int_equal(system(command), 0);
}

/* Steps at which the run is stopped: within an epoch, at its end, at the first update, at the last. */
static void compare(const char *model, const char *const *pairs, int64_t first, int64_t second)
{
    clear();
    start(model, "whole", pairs, 0);
    start(model, "parts", pairs, first);
    resume("parts", NULL, second, "cancelled");
    resume("parts", NULL, 0, "finished");
    assert_same_run();
}

/* ---- cases ----------------------------------------------------------------------------------------- */

/* Every entry of the registry is among the cases, which begin with a name. */
static void assert_all(const ot_registry *r, const char *const *cases, int n)
{
    for (const ot_entry *const *e = r->entries; *e; e++) {
        size_t len = strlen((*e)->name);
        bool there = false;
        for (int i = 0; i < n; i++)
            there |= !strncmp(cases[i], (*e)->name, len) && (!cases[i][len] || cases[i][len] == ':');
        if (!there) fail_msg("%s '%s' has no case here", r->sort, (*e)->name);
    }
}

static void every_optimizer(void **state)
{
    (void)state;
    static const char *const names[] = { "sgd:momentum=0.9",
                                         "adam",
                                         "adamw",
                                         "adamw:amsgrad=true",
                                         "adagrad",
                                         "adadelta",
                                         "rmsprop:momentum=0.5,centered=true",
                                         "adamax",
                                         "nadam",
                                         "radam",
                                         "lamb",
                                         "lars:momentum=0.9",
                                         "lion",
                                         "muon" };
    assert_all(&ot_optimizers, names, OT_LEN(names));
    for (int i = 0; i < OT_LEN(names); i++) {
        print_message("%s\n", names[i]);
        compare(mlp, (const char *[]){ "optimizer", names[i], NULL }, 1 + i % 9, 11 + i % 8);
    }
}

static void every_schedule(void **state)
{
    (void)state;
    static const char *const names[] = { "step:step_size=3,gamma=0.5",
                                         "multistep:milestones=[4,9]",
                                         "exponential:gamma=0.9",
                                         "cosine",
                                         "cosine-restarts:T_0=6",
                                         "linear:warmup=3",
                                         "polynomial",
                                         "onecycle:max_lr=0.1",
                                         "plateau:patience=1,factor=0.5,threshold=0.5",
                                         "constant:warmup=12" };
    assert_all(&ot_schedules, names, OT_LEN(names));
    for (int i = 0; i < OT_LEN(names); i++) {
        print_message("%s\n", names[i]);
        compare(mlp, (const char *[]){ "schedule", names[i], "optimizer", "sgd:lr=0.1,momentum=0.9", NULL }, 2 + i % 7,
                10 + i % 9);
        compare(mlp,
                (const char *[]){ "schedule", names[i], "optimizer", "sgd:lr=0.1,momentum=0.9", "test", flat, NULL }, 5,
                15);
    }
}

static void every_option(void **state)
{
    (void)state;
    const char *const cases[][7] = {
        { "accumulate", "2", "epochs", "7" },
        { "clip-norm", "0.1" },
        { "clip-value", "0.01" },
        { "add-dropout", "0.4" },
        { "no-shuffle", "true" },
        { "drop-last", "true", "epochs", "5" },
        { "batch-size", "7", "epochs", "5" },
        { "steps", "22" },
        { "weight-decay", "0.1", "no-decay", "biases" },
        { "precision", "bf16" },
        { "precision", "auto" },
        { "on-nonfinite", "skip" },
        { "no-shuffle", "true", "steps", "21" },
        { "ema", "0.9", "on-nonfinite", "skip" },
        { "unfreeze", "*.weight@3", "ema", "0.7", "layer-decay", "0.5" },
        { "ema", "0.8", "accumulate", "2", "epochs", "7" },
        { "swa", "2", "epochs", "4" },
        { "lookahead", "4", "optimizer", "adamw", "ema", "0.9" },
        { "swa", "0.3:per=update", "accumulate", "2", "epochs", "7" },
        { "swa", "0.5:per=update", "on-nonfinite", "skip" },
        { "teacher", other, "accumulate", "2", "epochs", "7" },
    };
    for (int i = 0; i < OT_LEN(cases); i++) {
        print_message("%s %s\n", cases[i][0], cases[i][1]);
        compare(mlp, cases[i], 3, 13);
    }
}

static void norms_and_dropout(void **state)
{
    (void)state;
    compare(cnn, (const char *[]){ "add-dropout", "0.3", "optimizer", "adamw", "schedule", "cosine", NULL }, 3, 12);
    compare(cnn, (const char *[]){ "test", images, "bn-variance", "unbiased", NULL }, 10, 15);
    compare(cnn, (const char *[]){ "test", images, "ema", "0.9", NULL }, 1, 12);
}

/* The samples that are kept back, the best epoch and its weights, epochs without a gain: all of it survives. */
static void splits_and_best(void **state)
{
    (void)state;
    const char *const sgd = "sgd:lr=0.5,momentum=0.9"; /* it overshoots: the last epoch is not the best */
    compare(mlp, (const char *[]){ "val-split", "0.1", "optimizer", sgd, NULL }, 2, 13);
    compare(mlp, (const char *[]){ "val-split", "0.1", "optimizer", sgd, "select", "best", "test", flat, NULL }, 11,
            17);
    compare(mlp, (const char *[]){ "val", flat, "monitor", "loss", "optimizer", sgd, "select", "best", NULL }, 6, 16);
    compare(mlp, (const char *[]){ "select", "best", "optimizer", sgd, "schedule", "plateau", NULL }, 4, 19);
    compare(cnn, (const char *[]){ "val-split", "0.1", "schedule", "plateau:patience=0", "select", "best", NULL }, 5,
            12);
}

/* Epochs without a gain are counted through a stop; a run that stopped early has nothing left to do. */
static void early_stop(void **state)
{
    (void)state;
    const char *const pairs[] = { "patience", "2", "min-delta", "100", "epochs", "9", NULL };
    clear();
    stops_early = true; /* the first epoch is the best, and the third without another ends it: 15 updates, then 20 */
    start(mlp, "whole", pairs, 0);
    start(mlp, "parts", pairs, 7);
    resume("parts", NULL, 0, "early stop");
    resume("parts", NULL, 0, "early stop");
    resume("whole", (const char *[]){ "patience", "3", NULL }, 0, "early stop");
    resume("parts", (const char *[]){ "patience", "3", NULL }, 0, "early stop");
    stops_early = false;
    assert_same_run();
    char *log = lines_of(path_of("whole", "/log.jsonl"));
    assert_null(strstr(log, "\"step\":21"));
    free(log);
}

/* At the end of an epoch, where the evaluation is still to come; before the first and after the last update. */
static void ends_of_epochs(void **state)
{
    (void)state;
    compare(mlp, (const char *[]){ "test", flat, NULL }, 5, 10);
    compare(mlp, (const char *[]){ "test", flat, NULL }, 1, 2);
    compare(mlp, (const char *[]){ NULL }, 18, 19);
}

/* An evaluation that is complete when the run is stopped is not repeated: within the run, and after the last update. */
static void after_an_evaluation(void **state)
{
    enum { NEVER = 1000 };
    (void)state;
    const char *const pairs[] = { "val", flat, "schedule", "plateau:patience=0", "select", "best", NULL };
    for (int i = 0; i < 2; i++) {
        clear();
        start(mlp, "whole", pairs, 0);
        stops_at = i ? "epoch 4: val: loss" : "epoch 2: val: loss";
        start(mlp, "parts", pairs, i ? 0 : NEVER);
        stops_at = NULL;
        resume("parts", NULL, 0, "finished");
        assert_same_run();
    }
}

/* A named log that something else has written since: the run continues after a whole line. */
static void foreign_log(void **state)
{
    (void)state;
    const char *log = path_of("whole", ".jsonl");
    char name[128];
    size_t n;
    snprintf(name, sizeof name, "%s", log);
    clear();
    start(mlp, "parts", (const char *[]){ "log", name, NULL }, 7);
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (int i = 0; i < 40; i++) fprintf(f, "{\"event\":\"other\",\"text\":\"%0*d\"}\n", 83 * (i + 1), i);
    assert_int_equal(fclose(f), 0);
    resume("parts", NULL, 0, "finished");
    char *text = content(name, &n);
    assert_non_null(strstr(text, "\"other\""));
    assert_non_null(strstr(text, "\"step\":20"));
    for (char *p = text, *end; *p; p = end + 1) {
        assert_non_null(end = strchr(p, '\n'));
        *end = '\0';
        if (*p != '{' || end[-1] != '}' || strstr(p + 1, "{\"event\"")) fail_msg("a broken line: %s", p);
    }
    free(text);
}

/* A finished run that is given more epochs is the longer run. */
static void more_epochs(void **state)
{
    (void)state;
    const char *const pairs[] = { "optimizer", "adamw", "schedule", "step:step_size=7", "test", flat, NULL };
    clear();
    start(mlp, "whole",
          (const char *[]){ "optimizer", "adamw", "schedule", "step:step_size=7", "test", flat, "epochs", "6", NULL },
          0);
    start(mlp, "parts", pairs, 0);
    resume("parts", NULL, 0, "finished"); /* nothing is left to do */
    resume("parts", (const char *[]){ "epochs", "6", NULL }, 0, "finished");
    assert_same_run();
    char *log = lines_of(path_of("parts", "/log.jsonl"));
    assert_non_null(strstr(log, "\"step\":30"));
    free(log);
}

static void break_newest(long at)
{
    char command[256];
    snprintf(command, sizeof command, "ls %s/parts/checkpoint-*.npz | tail -n 1", folder);
    FILE *p = popen(command, "r");
    char path[128];
    assert_non_null(p);
    assert_non_null(fgets(path, sizeof path, p));
    pclose(p);
    path[strcspn(path, "\n")] = '\0';
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    if (at < 0) assert_int_equal(ftruncate(fileno(f), 1000), 0);
    else {
        fseek(f, at, SEEK_SET);
        int c = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(c ^ 0x40, f);
    }
    fclose(f);
}

/* A damaged checkpoint: the one before it is used; without one the run cannot continue. */
static void damaged(void **state)
{
    (void)state;
    const char *const pairs[] = { "checkpoint-every", "3steps", NULL };
    const long where[] = { -1, 200, 3000 };
    for (int i = 0; i < OT_LEN(where); i++) {
        clear();
        start(mlp, "whole", pairs, 0);
        start(mlp, "parts", pairs, 11);
        break_newest(where[i]);
        resume("parts", NULL, 0, "finished");
        assert_same_run();
    }
    ot_checkpoint *c = NULL;
    ot_error err = { 0 };
    clear();
    start(mlp, "parts", (const char *[]){ "checkpoint-every", "none", NULL }, 2);
    break_newest(-1);
    assert_int_equal(ot_checkpoint_open(path_of("parts", ""), NULL, &c, &err), OT_E_IO);
    assert_non_null(strstr(err.text, "can be used"));
}

/* Counters that no run leaves: what continues must not compute with them. */
static void impossible_counters(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int64_t value;
    } cases[] = { { "epoch", INT64_MAX }, { "epoch", -1 }, { "step", INT64_MIN }, { "epoch", 9 } };
    for (int i = 0; i < OT_LEN(cases); i++) {
        ot_error err = { 0 };
        ot_dataset *d;
        ot_checkpoint *c;
        ot_model *m;
        ot_trainer *t;
        ot_options *o = ot_options_new();
        clear();
        start(mlp, "parts", (const char *[]){ NULL }, 6);
        const char *path = path_of("parts", "/checkpoint-000000006.npz");
        assert_ok(ot_npz_read(path, &d, &err), err);
        ot_tensor *all = calloc((size_t)d->n, sizeof *all);
        for (int k = 0; k < d->n; k++) {
            all[k] = d->array[k].t;
            if (!strcmp(all[k].name, cases[i].name)) memcpy(all[k].data, &cases[i].value, 8);
        }
        assert_ok(ot_npz_write(path, all, d->n, &err), err);
        free(all);
        ot_dataset_free(d);
        assert_ok(ot_checkpoint_open(path_of("parts", ""), NULL, &c, &err), err);
        assert_ok(ot_checkpoint_options(c, o, &err), err);
        assert_ok(ot_model_load(ot_checkpoint_model(c), &m, &err), err);
        assert_ok(ot_trainer_new(m, o, NULL, &t, &err), err);
        assert_int_equal(ot_trainer_resume(t, c, &err), OT_E_IO);
        assert_non_null(strstr(err.text, "counters"));
        ot_trainer_free(t);
        ot_checkpoint_free(c);
        ot_model_free(m);
        ot_options_free(o);
    }
}

static int count(const char *name)
{
    char command[256], text[16] = "";
    snprintf(command, sizeof command, "ls %s/%s | grep -c checkpoint", folder, name);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(text, sizeof text, p));
    pclose(p);
    return atoi(text);
}

static void as_many_as_asked_for(void **state)
{
    (void)state;
    clear();
    start(mlp, "parts", (const char *[]){ "checkpoint-every", "2steps", NULL }, 0);
    assert_int_equal(count("parts"), 2);
    clear();
    start(mlp, "parts", (const char *[]){ "checkpoint-every", "1epoch", "keep", "10", NULL }, 0);
    assert_int_equal(count("parts"), 4);
}

/* The next fsyncs that are counted fail with this number. */
static int sync_error, sync_errors;

int fsync(int fd);
int fsync(int fd)
{
    if (sync_errors && sync_errors--) {
        errno = sync_error;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static bool has_checkpoint(const char *name, int step)
{
    char end[64];
    snprintf(end, sizeof end, "/checkpoint-%09d.npz", step);
    return !access(path_of(name, end), F_OK);
}

/* A trainer whose folder has the checkpoints of a whole run of three epochs (5 updates each), after 3 more updates. */
static void fail_to_write(int number, int errors)
{
    ot_error err = { 0 };
    clear();
    start(mlp, "parts", (const char *[]){ "checkpoint-every", "1epoch", "keep", "10", "epochs", "3", NULL }, 0);
    assert_int_equal(count("parts"), 3);
    ot_model *m;
    ot_trainer *t;
    ot_checkpoint *c;
    ot_options *o = ot_options_new();
    assert_ok(ot_checkpoint_open(path_of("parts", ""), NULL, &c, &err), err);
    assert_ok(ot_checkpoint_options(c, o, &err), err);
    assert_ok(ot_model_load(mlp, &m, &err), err);
    assert_ok(ot_trainer_new(m, o, NULL, &t, &err), err);
    assert_ok(ot_trainer_resume(t, c, &err), err);
    ot_checkpoint_free(c);
    t->step = 18;
    t->result.best = 1, t->result.best_epoch = 1;
    sync_error = number, sync_errors = errors;
    ot_status s = ot_trainer_checkpoint(t, &err);
    assert_int_equal(sync_errors, 0);
    assert_int_equal(s, errors == 1 && number != EIO ? OT_OK : OT_E_IO);
    ot_trainer_free(t);
    ot_model_free(m);
    ot_options_free(o);
}

/* Only a full disk costs older checkpoints, and never the newest or that of the best epoch. */
static void full_disk(void **state)
{
    (void)state;
    static const int full[] = { ENOSPC, EDQUOT };
    for (int i = 0; i < 2; i++) {
        fail_to_write(full[i], 1);
        assert_true(has_checkpoint("parts", 5) && !has_checkpoint("parts", 10) && has_checkpoint("parts", 15));
        assert_true(has_checkpoint("parts", 18));
        fail_to_write(full[i], 2);
        assert_true(has_checkpoint("parts", 5) && !has_checkpoint("parts", 10) && has_checkpoint("parts", 15));
        assert_false(has_checkpoint("parts", 18));
    }
    fail_to_write(EIO, 1);
    assert_true(has_checkpoint("parts", 5) && has_checkpoint("parts", 10) && has_checkpoint("parts", 15));
    assert_false(has_checkpoint("parts", 18));
}

/* The first checkpoint is due after 30 seconds, the others after the interval. */
static void first_comes_early(void **state)
{
    (void)state;
    char path[] = "r";
    ot_trainer t = { .folder = { .path = path, .fd = -1 }, .step = 5, .s.checkpoint.seconds = 300 };
    t.written.checkpoint = ot_seconds() - 29;
    assert_false(ot_checkpoint_due(&t, false));
    t.written.checkpoint = ot_seconds() - 31;
    assert_true(ot_checkpoint_due(&t, false));
    t.written.checkpoint_step = 4;
    assert_false(ot_checkpoint_due(&t, false));
    t.written.checkpoint = ot_seconds() - 301;
    assert_true(ot_checkpoint_due(&t, false));
    t.written.checkpoint_step = 0;
    t.s.checkpoint = (ot_interval){ .seconds = 2 };
    t.written.checkpoint = ot_seconds() - 3;
    assert_true(ot_checkpoint_due(&t, false));
    t.s.checkpoint = (ot_interval){ .steps = 100 };
    t.written.checkpoint = ot_seconds() - 1000;
    assert_false(ot_checkpoint_due(&t, true));
}

/* Another model, other data, a run in use. */
static void refused(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_checkpoint *c = NULL, *second = NULL;
    ot_trainer *t = NULL;
    ot_model *m = NULL;
    ot_options *o = ot_options_new();
    clear();
    start(mlp, "parts", (const char *[]){ NULL }, 3);
    assert_ok(ot_checkpoint_open(path_of("parts", ""), NULL, &c, &err), err);
    assert_int_equal(ot_checkpoint_open(path_of("parts", ""), NULL, &second, &err), OT_E_USAGE);
    assert_non_null(strstr(err.text, "in progress"));
    err = (ot_error){ 0 };
    assert_ok(ot_checkpoint_options(c, o, &err), err);
    assert_ok(ot_model_load(other, &m, &err), err);
    assert_ok(ot_trainer_new(m, o, NULL, &t, &err), err);
    assert_int_equal(ot_trainer_resume(t, c, &err), OT_E_MODEL);
    ot_trainer_free(t);
    ot_model_free(m);
    ot_options_free(o);
    ot_checkpoint_free(c);
    clear();
    start(mlp, "parts", (const char *[]){ "val-split", "0.2", NULL }, 3);
    o = ot_options_new();
    err = (ot_error){ 0 };
    assert_ok(ot_options_set(o, "seed", "8", &err), err); /* other samples would be kept back */
    assert_ok(ot_checkpoint_open(path_of("parts", ""), NULL, &c, &err), err);
    assert_ok(ot_checkpoint_options(c, o, &err), err);
    assert_ok(ot_model_load(mlp, &m, &err), err);
    assert_ok(ot_trainer_new(m, o, NULL, &t, &err), err);
    assert_int_equal(ot_trainer_resume(t, c, &err), OT_E_USAGE);
    ot_trainer_free(t);
    ot_model_free(m);
    ot_options_free(o);
    ot_checkpoint_free(c);
    err = (ot_error){ 0 };
    assert_int_equal(ot_checkpoint_open(folder, NULL, &c, &err), OT_E_USAGE);
    err = (ot_error){ 0 };
    assert_int_equal(ot_checkpoint_open(flat, NULL, &c, &err), OT_E_USAGE);
}

/* On a device: states go through its memory, and a run stops some updates later, because many are in flight. */
static void on_a_device(void **state)
{
    (void)state;
    compare(mlp, (const char *[]){ "optimizer", "adamw", "epochs", "40", "test", flat, NULL }, 3, 90);
    compare(mlp, (const char *[]){ "precision", "fp16", "optimizer", "adam", "epochs", "40", NULL }, 7, 90);
    compare(mlp, (const char *[]){ "accumulate", "2", "epochs", "60", "add-dropout", "0.4", NULL }, 4, 90);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest device_tests[] = { cmocka_unit_test(on_a_device) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer),
        cmocka_unit_test(every_schedule),
        cmocka_unit_test(every_option),
        cmocka_unit_test(norms_and_dropout),
        cmocka_unit_test(ends_of_epochs),
        cmocka_unit_test(more_epochs),
        cmocka_unit_test(damaged),
        cmocka_unit_test(as_many_as_asked_for),
        cmocka_unit_test(first_comes_early),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(refused),
        cmocka_unit_test(impossible_counters),
        cmocka_unit_test(splits_and_best),
        cmocka_unit_test(early_stop),
        cmocka_unit_test(after_an_evaluation),
        cmocka_unit_test(foreign_log),
    };
    if (argc > 1) {
        device = argv[1];
        return cmocka_run_group_tests_name("resume on a device", device_tests, setup, teardown);
    }
    return cmocka_run_group_tests_name("resume", tests, setup, teardown);
}
