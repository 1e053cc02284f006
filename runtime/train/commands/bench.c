/* bench.c - the command bench: how long training steps and predictions take, over batch sizes, threads, devices.
 *
 * Without data the inputs are random, in the sizes that the file has, and the targets fit the loss.  Updates have a learning
 * rate of 0, so that nothing diverges.  Each time is that of one update or prediction from an idle machine to its end; samples
 * per second are measured without waits in between, on a device by its own clock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/host.h"
#include "runtime/train/commands/bench_kernels.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/options/cpus.h"
#include "runtime/train/options/specs.h"
#include "runtime/train/run/device.h"
#include "runtime/train/run/file_training.h"
#include "runtime/train/run/unfold.h"

enum { MOST_SIZES = 16, WARM = 3, FEWEST = 5, MOST = 1000 };

static const double enough = 1; /* seconds of a measurement */

typedef enum what { TRAINING, PREDICTION, WHATS } what;

static const char *const what_names[WHATS] = { "training", "prediction" };

/* A row of the table: one measurement. */
typedef struct figure {
    const char *device;
    int threads;
    int64_t batch;
    what what;
    int n;
    double p50, p90, p99, mean; /* seconds */
    double rate;                /* samples per second */
    double ratio;               /* to the CPU's rate with the same batch and the most threads; NaN: there is none */
    ot_kernel_table *kernels;   /* --kernels; NULL: not given */
} figure;

typedef struct bench {
    const ot_model *m;
    const ot_options *given;
    const ot_callbacks *cb;
    ot_arena *a;
    int64_t size[MOST_SIZES], threads[MOST_SIZES];
    int n_sizes, n_threads;
    what from, to; /* --measure */
    int runs;      /* --steps; 0: as many as fit a second */
    double *time;
    figure *row;
    int n, room;
} bench;

/* ---- options -------------------------------------------------------------------------- */

/* "1,8,32" */
static ot_status read_list(const ot_options *o, const char *name, int64_t most, int64_t *list, int *n, ot_error *err)
{
    const char *text = ot_options_get(o, name);
    for (*n = 0; text && *text && *n < MOST_SIZES; ++*n) {
        char one[24] = "";
        double v;
        size_t k = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)(k < sizeof one ? k : sizeof one - 1), text);
        if (k >= sizeof one || !ot_number(one, &v) || v < 1 || v > (double)most || v != floor(v)) break;
        list[*n] = (int64_t)v;
        text += k + (text[k] == ',' && text[k + 1]);
    }
    if (text && *text)
        return ot_fail(err, OT_E_USAGE, "--%s: invalid value '%s'; expected up to %d numbers from 1, such as 1,8,32",
                       name, ot_options_get(o, name), MOST_SIZES);
    return OT_OK;
}

static ot_status read_options(bench *b, ot_error *err)
{
    OT_TRY(read_list(b->given, "batch-sizes", 1000000000, b->size, &b->n_sizes, err));
    OT_TRY(read_list(b->given, "threads-list", 4096, b->threads, &b->n_threads, err));
    if (!b->n_threads) {
        int64_t given = ot_options_int(b->given, "threads");
        b->threads[b->n_threads++] = given ? given : ot_cpus_read().threads;
    }
    const char *measure = ot_options_get(b->given, "measure");
    b->from = strcmp(measure, what_names[PREDICTION]) ? TRAINING : PREDICTION;
    b->to = strcmp(measure, what_names[TRAINING]) ? PREDICTION : TRAINING;
    b->runs = (int)fmin((double)ot_options_int(b->given, "steps"), 1e6);
    b->room = WHATS * b->n_sizes * (b->n_threads + 1);
    b->row = ot_arena_alloc(b->a, sizeof *b->row * (size_t)b->room);
    b->time = ot_arena_alloc(b->a, sizeof *b->time * (size_t)(b->runs > MOST ? b->runs : MOST));
    return b->row && b->time ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the measurements");
}

/* The options of one measurement: those of the command with this device, number of threads and batch size. */
static ot_status options_for(const bench *b, const char *device, int64_t threads, int64_t batch, ot_options **out,
                             ot_error *err)
{
    char text[2][24];
    snprintf(text[0], sizeof text[0], "%lld", (long long)threads);
    snprintf(text[1], sizeof text[1], "%lld", (long long)batch);
    const char *const own[][2] = { { "device", device }, { "threads", text[0] },   { "batch-size", text[1] },
                                   { "lr", "0" },        { "no-shuffle", "true" }, { "epochs", "1000000" } };
    const char *value;
    const ot_option_info *row;
    ot_options *o = *out = ot_options_new();
    if (!o) return ot_fail(err, OT_E_NOMEM, "no memory for the options");
    for (int i = 0; (row = ot_option_at(i)); i++) {
        bool other = !(row->commands & OT_CMD_TRAIN) || !strcmp(row->name, "steps") || !strcmp(row->name, "config");
        for (int k = 0; k < OT_LEN(own); k++) other |= !strcmp(row->name, own[k][0]);
        for (int k = 0; !other && (value = ot_options_nth(b->given, row->name, k)); k++)
            OT_TRY(ot_options_set(o, row->name, value, err));
    }
    for (int k = 0; k < OT_LEN(own); k++) OT_TRY(ot_options_set(o, own[k][0], own[k][1], err));
    return OT_OK;
}

/* ---- data ----------------------------------------------------------------------------- */

static ot_status make_set(const ot_model *m, const ot_dry_run *r, int64_t samples, ot_dataset **out, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    ot_dataset *d = *out = a ? ot_arena_alloc(a, sizeof *d) : NULL;
    ot_array *list = d ? ot_arena_alloc(a, sizeof *list * (size_t)(r->n_feeds + 1)) : NULL;
    if (!list) {
        if (a) ot_arena_free(a);
        *out = NULL;
        return ot_fail(err, OT_E_NOMEM, "no memory for random inputs");
    }
    *d = (ot_dataset){ .arena = a, .name = "random inputs", .samples = samples, .n = r->n_feeds, .array = list };
    for (int i = 0; i < r->n_feeds; i++) {
        const ot_feed *f = &r->feeds[i];
        ot_array *x = &list[i];
        ot_shape s = f->shape;
        bool input = false;
        for (int k = 0; k < m->file->graph->n_inputs; k++) input |= !strcmp(m->file->graph->inputs[k]->name, f->name);
        x->whole = f->whole || !s.rank || s.dim[0] != r->batch;
        x->role = input ? OT_ARRAY_INPUT : OT_ARRAY_TARGET;
        if (!x->whole) s.dim[0] = samples;
        x->t = (ot_tensor){ .name = ot_arena_strdup(a, f->name), .dtype = f->dtype, .rank = s.rank };
        memcpy(x->t.dim, s.dim, sizeof x->t.dim);
        x->t.data = ot_arena_alloc(a, ot_bytes(&s, f->dtype) + 64);
        if (!x->t.name || !x->t.data) return ot_fail(err, OT_E_NOMEM, "no memory for random inputs");
        ot_dry_run_fill(x->t.data, f->dtype, ot_numel(&s), (uint64_t)i + 1);
    }
    return OT_OK;
}

/* ---- measuring -------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double percentile(const double *sorted, int n, double p)
{
    int i = (int)ceil(p * n) - 1;
    return sorted[i < 0 ? 0 : i];
}

static ot_status run_once(ot_trainer *t, what w, int64_t k, ot_error *err)
{
    ot_numbers ignored;
    if (w == TRAINING) return ot_trainer_update(t, k % t->updates, err);
    const ot_slot *q = &t->x.slot[t->eval.slot];
    for (int64_t i = 0; i < q->batch; i++) t->index[i] = i;
    return ot_session_batch(&t->x, t->eval.slot, t->index, &ignored, err);
}

/* Runs that are given one after the other, at least n of them and, unless their number was given, for a second; predictions
 * are waited for in any case. */
static ot_status give_runs(const bench *b, ot_trainer *t, what w, int n, int64_t *k, int64_t *given, ot_error *err)
{
    double begun = ot_seconds();
    for (*given = 0; *given < n || (!b->runs && ot_seconds() - begun < enough); ++*given)
        OT_TRY(run_once(t, w, (*k)++, err));
    return OT_OK;
}

/* The same between two events: seconds of the device, without submitting the first run and copying back the last. */
static ot_status give_between(const bench *b, ot_trainer *t, what w, int n, int64_t *k, int64_t *given, double *seconds,
                              ot_error *err)
{
    void *event[2] = { NULL };
    ot_device *d = t->x.device;
    ot_status s = d->backend->event_new(d, &event[0], err);
    if (!s) s = d->backend->event_new(d, &event[1], err);
    if (!s) s = d->backend->event_record(d, event[0], err);
    if (!s) s = give_runs(b, t, w, n, k, given, err);
    if (!s) s = d->backend->event_record(d, event[1], err);
    if (!s) s = d->backend->event_seconds(d, event[0], event[1], seconds, err);
    for (int i = 0; i < 2; i++) d->backend->event_free(d, event[i]);
    return s ? s : ot_trainer_settle(t, err);
}

/* Measures samples per second. */
static ot_status find_rate(const bench *b, ot_trainer *t, what w, int n, int64_t *k, double *rate, ot_error *err)
{
    double seconds = 0, begun = ot_seconds();
    int64_t given, batch = w == TRAINING ? t->batch * t->s.accumulate : t->x.slot[t->eval.slot].batch;
    if (t->x.device) {
        OT_TRY(give_between(b, t, w, n, k, &given, &seconds, err));
    } else {
        OT_TRY(give_runs(b, t, w, n, k, &given, err));
        OT_TRY(ot_trainer_settle(t, err));
        seconds = ot_seconds() - begun;
    }
    *rate = seconds > 0 ? (double)given * (double)batch / seconds : 0;
    return OT_OK;
}

/* Warms up: caches fill, libraries load their code, and a device reaches its clock rate. */
static ot_status warm_up(const bench *b, ot_trainer *t, what w, int64_t *k, ot_error *err)
{
    double begun = ot_seconds();
    for (int i = 0; i < WARM || (t->x.device && !b->runs && ot_seconds() - begun < enough); i++)
        OT_TRY(run_once(t, w, (*k)++, err));
    return ot_trainer_settle(t, err);
}

static ot_status measure_one(bench *b, ot_trainer *t, what w, int64_t *k, figure *f, ot_error *err)
{
    double all = 0;
    OT_TRY(warm_up(b, t, w, k, err));
    while (b->runs ? f->n < b->runs : f->n < MOST && (f->n < FEWEST || all < enough)) {
        double begun = ot_seconds();
        OT_TRY(run_once(t, w, (*k)++, err));
        OT_TRY(ot_trainer_settle(t, err));
        all += b->time[f->n++] = ot_seconds() - begun;
    }
    qsort(b->time, (size_t)f->n, sizeof *b->time, by_time);
    f->p50 = percentile(b->time, f->n, 0.5);
    f->p90 = percentile(b->time, f->n, 0.9);
    f->p99 = percentile(b->time, f->n, 0.99);
    f->mean = all / f->n;
    f->what = w;
    OT_TRY(find_rate(b, t, w, f->n, k, &f->rate, err));
    if (!ot_options_flag(b->given, "kernels")) return OT_OK;
    f->kernels = ot_arena_alloc(b->a, sizeof *f->kernels);
    if (!f->kernels) return ot_fail(err, OT_E_NOMEM, "no memory for the table of kernels");
    return ot_kernel_table_new(t, w == TRAINING, b->a, f->kernels, err);
}

/* Makes two sets: a training set and an evaluation set. */
static ot_status open_sets(ot_trainer *t, ot_error *err)
{
    ot_dry_run r = { 0 };
    t->has_val = true;
    t->eval.split = "val";
    t->test.split = "test";
    if (t->s.data) {
        if (!t->s.val) t->s.val = t->s.data; /* the whole set again */
        t->s.test = NULL;
        t->s.val_split = 0;
        OT_TRY(ot_trainer_open(t, err));
        ot_dataset_free(t->test.data);
        t->test.data = NULL;
        return OT_OK;
    }
    OT_TRY(ot_dry_run_plan(t->m, &t->s, NULL, t->a, &r, err));
    int64_t samples = t->s.batch > r.batch ? t->s.batch : r.batch;
    ot_status s = make_set(t->m, &r, samples, &t->data, err);
    if (!s) s = make_set(t->m, &r, samples, &t->eval.data, err);
    ot_plan_free(r.plan);
    return s;
}

static ot_status open(ot_trainer *t, ot_error *err)
{
    OT_TRY(ot_trainer_open_teacher(t, err));
    OT_TRY(ot_trainer_use_file_training(t, err));
    if (t->file_training.used)
        return ot_fail(err, OT_E_USAGE,
                       "bench: the training algorithm in the file (TrainingInfoProto) is not measured; use --loss or "
                       "--optimizer to train with the options instead");
    OT_TRY(ot_trainer_review(t, false, err));
    OT_TRY(open_sets(t, err));
    return ot_trainer_prepare(t, err);
}

static ot_status measure_with(bench *b, ot_trainer *t, what from, what to, ot_error *err)
{
    int64_t k = 0;
    for (int w = (int)from; w <= (int)to; w++) {
        figure *f = &b->row[b->n];
        *f = (figure){ .threads = t->x.threads, .batch = t->batch, .ratio = NAN };
        f->device = ot_device_name(&t->s, t->x.device, b->a);
        if (!f->device) return ot_fail(err, OT_E_NOMEM, "no memory for a name");
        OT_TRY(measure_one(b, t, (what)w, &k, f, err));
        b->n++;
    }
    return OT_OK;
}

/* Predictions as predict computes them, in a session that trains nothing.  Without a data set, arrays for the training are made
 * up, and predictions are its evaluation, with loss and metrics. */
static ot_status measure_predictions(bench *b, const ot_options *o, ot_error *err)
{
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    OT_TRY(ot_trainer_begin(b->m, o, NULL, &t, err));
    t->eval.split = "val";
    ot_status s = ot_trainer_open_prediction(t, &first);
    if (!s) s = measure_with(b, t, PREDICTION, PREDICTION, &first);
    if (s) s = ot_trainer_explain(t, s, &first);
    ot_trainer_free(t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}

static ot_status measure_on(bench *b, const ot_options *o, ot_error *err)
{
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    OT_TRY(ot_trainer_begin(b->m, o, NULL, &t, err));
    bool apart = t->s.data != NULL;
    ot_status s = open(t, &first);
    apart = apart && !(t->data && t->data->table &&
                       t->data->preprocess); /* an evaluation alone would not know what was measured */
    if (!s) s = measure_with(b, t, b->from, apart ? TRAINING : b->to, &first);
    if (s) s = ot_trainer_explain(t, s, &first);
    ot_trainer_free(t);
    if (s) return ot_fail(err, s, "%s", first.text);
    return apart && b->to == PREDICTION ? measure_predictions(b, o, err) : OT_OK;
}

static void say(const bench *b, const char *text)
{
    if (b->cb && b->cb->message) b->cb->message(b->cb->user, OT_INFO, text);
}

static ot_status measure_size(bench *b, const char *device, int64_t threads, int64_t batch, ot_error *err)
{
    ot_options *o = NULL;
    char line[160];
    snprintf(line, sizeof line, "measuring: %s, %lld thread%s, batch size %lld", device, (long long)threads,
             threads == 1 ? "" : "s", (long long)batch);
    say(b, line);
    ot_status s = options_for(b, device, threads, batch, &o, err);
    if (!s) s = measure_on(b, o, err);
    ot_options_free(o);
    return s;
}

/* Measures the CPU with each number of threads, and a device with the largest. */
static ot_status measure_all(bench *b, ot_error *err)
{
    const char *named = ot_options_get(b->given, "device");
    ot_error none = { 0 };
    const ot_backend *usable = strcmp(named, "cpu") ? ot_backend_usable(&none) : NULL;
    bool cpu = !strncmp(named, "cuda", 4) ? false : true, device = !cpu || (usable && usable->count(&none) > 0);
    int64_t most = 0;
    for (int k = 0; k < b->n_threads; k++) most = b->threads[k] > most ? b->threads[k] : most;
    for (int i = 0; i < b->n_sizes; i++) {
        for (int k = 0; k < b->n_threads && cpu; k++) OT_TRY(measure_size(b, "cpu", b->threads[k], b->size[i], err));
        if (device) OT_TRY(measure_size(b, cpu ? "cuda" : named, most, b->size[i], err));
    }
    return OT_OK;
}

static void find_ratios(bench *b)
{
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->n && strcmp(b->row[i].device, "cpu"); k++) {
            const figure *c = &b->row[k];
            if (!strcmp(c->device, "cpu") && c->batch == b->row[i].batch && c->what == b->row[i].what &&
                c->threads == b->row[i].threads && c->rate > 0)
                b->row[i].ratio = b->row[i].rate / c->rate;
        }
}

/* ---- the table ----------------------------------------------------------------------------- */

static void print_text(const bench *b, FILE *f)
{
    fprintf(f, "%-8s %7s %6s %-10s %6s %10s %10s %10s %12s\n", "device", "threads", "batch", "what", "runs", "p50 ms",
            "p90 ms", "p99 ms", "samples/s");
    for (int i = 0; i < b->n; i++) {
        const figure *r = &b->row[i];
        fprintf(f, "%-8s %7d %6lld %-10s %6d %10.3f %10.3f %10.3f %12.1f", r->device, r->threads, (long long)r->batch,
                what_names[r->what], r->n, r->p50 * 1e3, r->p90 * 1e3, r->p99 * 1e3, r->rate);
        if (!isnan(r->ratio)) fprintf(f, "  %.2f x CPU", r->ratio);
        fputc('\n', f);
    }
    for (int i = 0; i < b->n; i++) {
        const figure *r = &b->row[i];
        if (!r->kernels) continue;
        fprintf(f, "\n%s, %d thread%s, batch size %lld", r->device, r->threads, r->threads == 1 ? "" : "s",
                (long long)r->batch);
        ot_kernel_table_print(r->kernels, f);
    }
}

static void print_csv(const bench *b, FILE *f)
{
    fputs("device,threads,batch_size,what,runs,p50_ms,p90_ms,p99_ms,mean_ms,samples_per_second,ratio_to_cpu\n", f);
    for (int i = 0; i < b->n; i++) {
        const figure *r = &b->row[i];
        fprintf(f, "%s,%d,%lld,%s,%d,%.6g,%.6g,%.6g,%.6g,%.6g,", r->device, r->threads, (long long)r->batch,
                what_names[r->what], r->n, r->p50 * 1e3, r->p90 * 1e3, r->p99 * 1e3, r->mean * 1e3, r->rate);
        if (!isnan(r->ratio)) fprintf(f, "%.4g", r->ratio);
        fputc('\n', f);
    }
}

static void fill_json(const bench *b, ot_page *p)
{
    json_t *list = json_array();
    for (int i = 0; i < b->n; i++) {
        const figure *r = &b->row[i];
        json_t *one = json_pack("{s:s, s:i, s:I, s:s, s:i}", "device", r->device, "threads", r->threads, "batch_size",
                                (json_int_t)r->batch, "what", what_names[r->what], "runs", r->n);
        ot_json_real(&one, "p50_ms", r->p50 * 1e3);
        ot_json_real(&one, "p90_ms", r->p90 * 1e3);
        ot_json_real(&one, "p99_ms", r->p99 * 1e3);
        ot_json_real(&one, "mean_ms", r->mean * 1e3);
        ot_json_real(&one, "samples_per_second", r->rate);
        ot_json_set(&one, "ratio_to_cpu", ot_json_number(r->ratio));
        if (r->kernels) ot_json_set(&one, "kernels", ot_kernel_table_json(r->kernels));
        ot_json_add(&list, one);
    }
    ot_json_set(&p->json, "model", ot_json_text(b->m->file->path));
    ot_json_set(&p->json, "measurements", list);
}

static ot_status bench_all(bench *b, char **text, ot_error *err)
{
    ot_page p;
    OT_TRY(read_options(b, err));
    OT_TRY(measure_all(b, err));
    find_ratios(b);
    OT_TRY(ot_page_open(&p, ot_options_flag(b->given, "json"), err));
    if (!p.f) fill_json(b, &p);
    else if (ot_options_flag(b->given, "csv")) print_csv(b, p.f);
    else print_text(b, p.f);
    return ot_page_close(&p, text, err);
}

ot_status ot_bench_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    OT_GIVEN(m);
    OT_GIVEN(o);
    bench b = { .m = m, .given = o, .cb = cb, .a = ot_arena_new() };
    *text = NULL;
    if (!b.a) return ot_fail(err, OT_E_NOMEM, "no memory for the measurements");
    ot_status s = bench_all(&b, text, err);
    ot_arena_free(b.a);
    return s;
}
