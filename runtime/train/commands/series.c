/* series.c - trainings one after another: the folds of --folds, the combinations of sweep.
 *
 * The series has a folder as a run has: options.conf, log.jsonl (start, a line for each training, end), a table as CSV, and a
 * run folder for each training.  Those that are over are not repeated when the series continues; one that was stopped
 * continues from its checkpoint, and at a resume so does one that a time limit ended. */

#include "runtime/train/commands/series.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/run/checkpoint.h"
#include "runtime/train/options/metrics.h"
#include "runtime/train/run/trainer.h"

enum { MOST_RUNS = 1000 };

#define TRAINED "trained.onnx" /* the model of a training, in its folder */

typedef struct series {
    const ot_model *m;
    const ot_options *o;
    ot_callbacks cb;
    ot_arena *a;
    ot_settings s;
    const char *what; /* "fold", "run" */
    bool sweep, resumes;
    bool validates; /* the trainings have validation samples */
    ot_member *member;
    int n;
    ot_folder folder;
    ot_log log;
    bool cancelled;
    int n_failed;   /* trainings of this sweep without a result */
    ot_error first; /* of these the first one's error */
    int n_columns;  /* numbers of the evaluations */
    const char **column;
    bool lost; /* no memory for a column */
} series;

static void say(const series *x, ot_level level, const char *fmt, ...) OT_PRINTF(3, 4);
static void say(const series *x, ot_level level, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    if (!x->cb.message) return;
    va_start(ap, fmt);
    ot_vtext(line, sizeof line, fmt, ap);
    va_end(ap);
    x->cb.message(x->cb.user, level, line);
}

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for a series of trainings"); }

/* ---- options ------------------------------------------------------------------------------- */

/* The options of one training: those of the series, and over them its own. */
static ot_status options_of(const series *x, const ot_member *b, ot_options **out, ot_error *err)
{
    const ot_option_info *row;
    ot_status s = OT_OK;
    ot_options *o = *out = ot_options_new();
    if (!o) return no_memory(err);
    for (int i = 0; !s && (row = ot_option_at(i)); i++) {
        bool own = ot_series_option(row->name) & OT_SERIES_OWN;
        for (int k = 0; k < b->n; k++) own |= !strcmp(b->pair[k][0], row->name);
        for (int k = 0; !s && !own && k < ot_options_count(x->o, row->name); k++)
            s = ot_options_set(o, row->name, ot_options_nth(x->o, row->name, k), err);
    }
    for (int k = 0; !s && k < b->n; k++) s = ot_options_set(o, b->pair[k][0], b->pair[k][1], err);
    const char *events = s ? NULL : ot_options_get(o, "tensorboard");
    if (events && strcmp(events, "true") && strcmp(events, "false")) { /* a named folder: one below it for each */
        const char *own = ot_arena_printf(x->a, "%s/%s", events, b->name);
        s = own ? ot_options_set(o, "tensorboard", own, err) : no_memory(err);
    }
    if (s) ot_options_free(o), *out = NULL;
    return s;
}

/* Checks every option of every training before the first one begins. */
static ot_status check_options(series *x, ot_error *err)
{
    const char *log = ot_options_get(x->o, "log");
    const ot_option_info *row;
    for (int i = 0; (row = ot_option_at(i)); i++)
        if ((ot_series_option(row->name) & OT_SERIES_REFUSED) && ot_options_nth(x->o, row->name, 0))
            return ot_fail(err, OT_E_USAGE,
                           "%s%s: %s trains several models; each is trained.onnx in a folder of its own below the run "
                           "folder, so remove this option",
                           strlen(row->name) > 1 ? "--" : "-", row->name, x->sweep ? "sweep" : "--folds");
    if (log && strcmp(log, "-"))
        return ot_fail(err, OT_E_USAGE, "--log: each of several trainings has its log.jsonl; remove this option");
    if (x->s.run_dir && !strcmp(x->s.run_dir, "none"))
        return ot_fail(err, OT_E_USAGE, "--run-dir none: several trainings need a folder");
    if (x->s.overfit) return ot_fail(err, OT_E_USAGE, "--overfit-batch is for a single training");
    for (int i = 0; i < x->n; i++) {
        ot_options *o;
        ot_settings s;
        ot_arena *a = ot_arena_new();
        if (!a) return no_memory(err);
        ot_status r = options_of(x, &x->member[i], &o, err);
        if (!r) r = ot_settings_read(o, x->m->outputs, a, &s, err);
        ot_options_free(o);
        ot_arena_free(a);
        if (r) return r;
    }
    return OT_OK;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Removes the options that do not change results. */
static json_t *that_matter(json_t *options)
{
    const ot_option_info *row;
    for (int i = 0; (row = ot_option_at(i)); i++)
        if (ot_series_option(row->name) & OT_SERIES_SHOWS) (void)json_object_del(options, row->name);
    return options;
}

/* Whether the folder at that path has a series of the same command. */
static bool is_same(const series *x, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    json_t *start = fd < 0 ? NULL : ot_series_start(fd), *now = start ? that_matter(ot_options_json(x->o)) : NULL;
    json_t *then = start ? that_matter(json_object_get(start, "options")) : NULL;
    const char *model = json_string_value(json_object_get(start, "model"));
    bool same =
        then && now && json_equal(then, now) && model && !strcmp(model, x->m->file->path) && ot_series_is_here(start);
    if (fd >= 0) close(fd);
    json_decref(start);
    json_decref(now);
    return same;
}

/* The folder of an earlier series of the same command; NULL: there is none. */
static const char *find_same(series *x)
{
    if (x->s.run_dir) return is_same(x, x->s.run_dir) ? x->s.run_dir : NULL;
    const char *stem = ot_stem(x->m->file->path, x->a);
    for (int n = 1; stem && n <= MOST_RUNS; n++) {
        const char *path = ot_arena_printf(x->a, "runs/%s-%d", stem, n);
        if (path && is_same(x, path)) return path;
    }
    return NULL;
}

static ot_status write_options(const series *x, ot_error *err)
{
    char *lines = ot_options_lines(x->o), *text = NULL;
    int n = lines ? asprintf(&text, OT_FOLDER_MARK OT_VERSION "; model: %s\n%s", x->m->file->path, lines) : -1;
    ot_status s =
        n < 0 ? no_memory(err) : ot_replace_file(x->folder.fd, x->folder.path, "options.conf", text, (size_t)n, err);
    free(lines);
    if (n >= 0) free(text);
    return s;
}

static ot_status open_log(series *x, const ot_inputs *in, const char *shown, bool again, ot_error *err)
{
    char here[PATH_MAX] = "";
    int fd;
    OT_TRY(ot_output_open_log(in, x->folder.fd, "log.jsonl", again, shown, &fd, err));
    if (again && lseek(fd, 0, SEEK_END) < 0) {
        ot_status s = ot_fail(err, ot_failed_call(errno), "%s: cannot be continued: %s", shown, strerror(errno));
        close(fd);
        return s;
    }
    x->log.user = x->cb.user;
    x->log.line = x->cb.log;
    OT_TRY(ot_log_add(&x->log, fd, shown, err));
    if (again) return OT_OK;
    if (!getcwd(here, sizeof here)) *here = '\0';
    ot_log_write(&x->log, json_pack("{s:s, s:s, s:o, s:o, s:s, s:o, s:i}", "event", "start", "version", OT_VERSION,
                                    "model", ot_json_text(x->m->file->path), "folder", ot_json_text(here), "series",
                                    x->sweep ? "sweep" : "folds", "options", ot_options_json(x->o), "trainings", x->n));
    ot_log_sync(&x->log);
    return OT_OK;
}

static ot_status open_series(series *x, ot_error *err)
{
    ot_inputs in = { .model = x->m->file,
                     .configs = ot_options_configs(x->o, x->a),
                     .named = { x->s.data, x->s.val, x->s.test } };
    const char *log, *same = x->resumes ? x->s.run_dir : x->sweep ? find_same(x) : NULL;
    OT_TRY(same ? ot_folder_reopen(same, x->a, &x->folder, err)
                : ot_folder_open(x->s.run_dir, &in, x->a, &x->folder, err));
    if (x->folder.moved)
        say(x, OT_INFO, "%s contained an older run, which was renamed to %s", x->folder.path, x->folder.moved);
    if (!(log = ot_arena_printf(x->a, "%s/log.jsonl", x->folder.path))) return no_memory(err);
    if (!same) OT_TRY(ot_output_check(&in, x->folder.fd, "log.jsonl", OT_FILE_LOG, log, err));
    if (!same) OT_TRY(write_options(x, err));
    return open_log(x, &in, log, same != NULL, err);
}

/* ---- one training ------------------------------------------------------------------------------ */

/* Did the training end as intended, so that its results count? */
static bool is_finished(const char *state)
{
    static const char *const finished[] = { "finished", "early stop", "time limit" };
    for (int i = 0; state && i < OT_LEN(finished); i++)
        if (!strcmp(state, finished[i])) return true;
    return false;
}

static bool has_diverged(const char *state) { return state && !strcmp(state, "diverged"); }

static bool has_model(const series *x, const ot_member *b)
{
    char path[NAME_MAX];
    snprintf(path, sizeof path, "%s/" TRAINED, b->name);
    return !faccessat(x->folder.fd, path, F_OK, 0);
}

/* Is b not trained again?  The command resume continues a training that a time limit ended.  A training that was killed after its last
 * update, before its model was written, is not over: it writes the model from its last checkpoint. */
static bool is_over(const series *x, const ot_member *b)
{
    if (x->resumes && b->state && !strcmp(b->state, "time limit")) return false;
    return (is_finished(b->state) && has_model(x, b)) || has_diverged(b->state);
}

static int count_finished(const series *x)
{
    int n = 0;
    for (int i = 0; i < x->n; i++) n += is_finished(x->member[i].state);
    return n;
}

/* Counts a training without a result; the first one's error is kept. */
static void count_failed(series *x, const char *name, ot_status s, const char *text)
{
    if (!x->n_failed++) (void)ot_fail(&x->first, s, "%s: %-s", name, text);
}

/* A string of a log, made printable: other programs may have written the log. */
static const char *text_of(series *x, const json_t *object, const char *key)
{
    char shown[64];
    const char *v = json_string_value(json_object_get(object, key));
    return v ? ot_arena_strdup(x->a, ot_shown(v, shown, sizeof shown)) : NULL;
}

/* The evaluation on validation samples (else on the test set) of the epoch that counts: the best one in a sweep, else the one
 * whose weights are written. */
static json_t *numbers_of(const series *x, const ot_history *h, int64_t *epoch)
{
    bool best = x->sweep || !strcmp(ot_options_get(x->o, "select"), "best");
    int64_t wanted = best ? json_integer_value(json_object_get(h->end, "best_epoch")) : 0;
    json_t *found = NULL, *e;
    size_t i;
    const char *split = json_string_value(json_object_get(json_array_get(h->evals, 0), "split"));
    json_array_foreach(h->evals, i, e)
    {
        const char *own = json_string_value(json_object_get(e, "split"));
        int64_t at = json_integer_value(json_object_get(e, "epoch"));
        if (!split || !own || strcmp(own, split) || (wanted && at != wanted)) continue;
        found = e;
        *epoch = at;
    }
    return json_incref(found);
}

static void add_column(void *user, const char *name, double v)
{
    series *x = user;
    (void)v;
    for (int i = 0; i < x->n_columns; i++)
        if (!strcmp(x->column[i], name)) return;
    if (x->n_columns == OT_MOST_NUMBERS) return;
    if (!(x->n_columns & (x->n_columns - 1))) { /* room for twice as many at 0, 1, 2, 4 ... */
        const char **more = ot_arena_alloc(x->a, sizeof *more * (size_t)(2 * x->n_columns + 1));
        if (more && x->n_columns) memcpy(more, x->column, sizeof *more * (size_t)x->n_columns);
        x->lost |= !more;
        if (more) x->column = more;
    }
    char *own = x->lost ? NULL : ot_arena_strdup(x->a, name);
    if (own) x->column[x->n_columns++] = own;
    else x->lost = true;
}

/* Is a larger value of the monitored metric better?  Of losses and errors it is not. */
static bool rises(const char *monitor)
{
    const char *point = monitor ? strrchr(monitor, '.') : NULL; /* OUTPUT.METRIC */
    if (point) monitor = point + 1;
    for (int k = 0; monitor && k < OT_METRIC_COUNT; k++)
        if (!strcmp(monitor, ot_metrics.entries[k]->name)) return ot_metric_rises(k);
    return false;
}

/* Reads the results of a training from its log; b->state stays NULL if there is no log. */
static ot_status read_member(series *x, ot_member *b, ot_error *err)
{
    ot_history h = { 0 };
    ot_error e = { 0 };
    int fd = openat(x->folder.fd, b->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return OT_OK;
    ot_status s = ot_history_read(&h, fd, b->name, &e);
    close(fd);
    if (!s && h.end) {
        b->state = text_of(x, h.end, "reason");
        b->metric = text_of(x, h.end, "best_metric");
        b->rises = rises(json_string_value(json_object_get(h.end, "monitor")));
        const json_t *best = json_object_get(h.end, "best");
        b->best = json_is_number(best) ? json_number_value(best) : (double)NAN;
        b->seconds = json_number_value(json_object_get(h.end, "seconds"));
        b->epoch = json_integer_value(json_object_get(h.end, "best_epoch"));
        json_decref(b->numbers);
        b->numbers = numbers_of(x, &h, &b->epoch);
        ot_history_numbers(b->numbers, add_column, x);
    }
    ot_history_free(&h);
    if (x->lost) return no_memory(err);
    return s == OT_E_NOMEM ? ot_fail(err, s, "%-s", e.text) : OT_OK;
}

/* The checkpoint of a training that was stopped; NULL: there is none, and it starts again.  Its folder exists; without an options.conf
 * in it the training has not begun. */
static ot_checkpoint *checkpoint_of(const series *x, const char *path)
{
    ot_checkpoint *c = NULL;
    ot_error why = { 0 };
    const char *begun = ot_arena_printf(x->a, "%s/options.conf", path);
    if (!begun || access(begun, F_OK) || !ot_checkpoint_find(path, &x->cb, &c, &(bool){ false }, &why)) return c;
    if (x->cb.message) {
        char line[OT_ERROR_TEXT];
        snprintf(line, sizeof line, "this training starts from its beginning: %.900s", why.text);
        x->cb.message(x->cb.user, OT_WARNING, line);
    }
    return NULL;
}

static void announce(const series *x, ot_trainer *t)
{
    if (x->cb.trains) x->cb.trains(x->cb.user, t);
}

static ot_status train_with(series *x, ot_options *o, const char *path, ot_error *err)
{
    ot_trainer *t = NULL;
    ot_checkpoint *c = checkpoint_of(x, path);
    ot_result r = { 0 };
    ot_status s = c ? ot_checkpoint_options(c, o, err) : OT_OK;
    if (!s && c) s = ot_checkpoint_check(c, x->m, err);
    if (!s) s = ot_trainer_new(x->m, o, &x->cb, &t, err);
    if (!s && c) s = ot_trainer_resume(t, c, err);
    ot_checkpoint_free(c);
    if (!s) {
        announce(x, t);
        s = ot_trainer_run(t, err);
        ot_trainer_result(t, &r);
        x->cancelled |= !strcmp(r.reason, "cancelled");
        if (!s && !x->cancelled) s = ot_trainer_export(t, NULL, err);
        announce(x, NULL);
    }
    ot_trainer_free(t);
    return s;
}

static ot_status train_member(series *x, ot_member *b, ot_error *err)
{
    ot_options *o = NULL;
    const char *path = ot_arena_printf(x->a, "%s/%s", x->folder.path, b->name),
               *out = path ? ot_arena_printf(x->a, "%s/" TRAINED, path) : NULL;
    if (!out) return no_memory(err);
    OT_TRY(ot_folder_make(path, "--run-dir", err)); /* the trained model is written into it */
    OT_TRY(options_of(x, b, &o, err));
    ot_status s = ot_options_set(o, "run-dir", path, err);
    if (!s) s = ot_options_set(o, "o", out, err);
    if (!s && x->sweep && !x->validates) /* the training loss decides which epoch is the best */
        s = ot_options_set(o, "select", "best", err);
    if (!s) s = train_with(x, o, path, err);
    ot_options_free(o);
    return s;
}

static void log_member(series *x, const ot_member *b)
{
    json_t *e = json_pack("{s:s, s:s, s:s*, s:I}", "event", x->what, "name", b->name, "reason", b->state, "epoch",
                          (json_int_t)b->epoch),
           *own = json_object();
    for (int k = 0; k < b->n; k++) ot_json_set(&own, b->pair[k][0], ot_json_text(b->pair[k][1]));
    ot_json_set(&e, "options", own);
    if (b->metric) ot_json_set(&e, "best_metric", ot_json_text(b->metric));
    if (!isnan(b->best)) ot_json_real(&e, "best", b->best);
    if (b->numbers) ot_json_set(&e, "evaluation", json_incref(b->numbers));
    ot_log_write(&x->log, e);
    ot_log_sync(&x->log);
}

/* A combination of a sweep that fails by itself is a row of its table; what would fail for the others too ends it. */
static bool is_its_own(const series *x, ot_status s)
{
    return x->sweep && (s == OT_E_DIVERGED || s == OT_E_NOMEM || s == OT_E_MODEL || s == OT_E_DATA || s == OT_E_USAGE);
}

static ot_status run_member(series *x, int i, ot_error *err)
{
    ot_member *b = &x->member[i];
    char own[400] = "";
    OT_TRY(read_member(x, b, err));
    for (int k = 0, at = 0; k < b->n && x->sweep && at < 300; k++)
        at += snprintf(own + at, sizeof own - (size_t)at, "%s--%s %.60s", k ? " " : ": ", b->pair[k][0], b->pair[k][1]);
    bool over = is_over(x, b);
    say(x, OT_INFO, "%s %d of %d%s%s", x->what, i + 1, x->n, own, over ? ": was trained before" : "");
    if (over && has_diverged(b->state)) count_failed(x, b->name, OT_E_DIVERGED, "diverged");
    if (over) return OT_OK;
    ot_error e = { 0 };
    ot_status s = train_member(x, b, &e);
    OT_TRY(read_member(x, b, err));
    if (s && !is_its_own(x, s)) return ot_fail(err, s, "%s: %-s", b->name, e.text);
    if (s) {
        say(x, OT_WARNING, "%s: %s", b->name, e.text);
        count_failed(x, b->name, s, e.text);
        if (!has_diverged(b->state)) b->state = "failed";
    }
    log_member(x, b);
    return OT_OK;
}

/* ---- results ------------------------------------------------------------------------------ */

/* Mean and standard deviation (of a sample: n - 1) over the finished folds that have the number. */
static int spread(const series *x, const char *name, double *mean, double *deviation)
{
    double middle = 0, square = 0;
    int n = 0;
    for (int i = 0; i < x->n; i++) {
        double v = is_finished(x->member[i].state) ? ot_history_number(x->member[i].numbers, name) : (double)NAN;
        if (!isfinite(v)) continue;
        double step = v - middle; /* Welford's sums: equal numbers have exactly this mean, and deviation 0 */
        middle += step / ++n;
        square += step * (v - middle);
    }
    *mean = n ? middle : (double)NAN;
    *deviation = n > 1 ? sqrt(square / (n - 1)) : (double)NAN;
    return n;
}

static bool is_better(const ot_member *a, const ot_member *b)
{
    if (isnan(a->best) || isnan(b->best)) return isnan(b->best) && !isnan(a->best);
    return a->rises ? a->best > b->best : a->best < b->best;
}

/* Sorts the trainings, the best first; those without a result come last, in their order. */
static void sort(series *x)
{
    for (int i = 1; i < x->n; i++) {
        ot_member b = x->member[i];
        int k = i;
        for (; k > 0 && is_better(&b, &x->member[k - 1]); k--) x->member[k] = x->member[k - 1];
        x->member[k] = b;
    }
}

static void print_csv_number(FILE *f, double v)
{
    if (isnan(v)) fputc(',', f);
    else fprintf(f, ",%.9g", v);
}

static void print_csv(const series *x, FILE *f)
{
    const ot_member *first = &x->member[0];
    fprintf(f, "%s", x->what);
    for (int k = 0; k < first->n && x->sweep; k++) {
        fputc(',', f);
        ot_csv_text(first->pair[k][0], f);
    }
    fputs(",state,epoch,best_metric,best", f);
    for (int c = 0; c < x->n_columns; c++) {
        fputc(',', f);
        ot_csv_text(x->column[c], f);
    }
    fputs(",seconds\n", f);
    for (int i = 0; i < x->n; i++) {
        const ot_member *b = &x->member[i];
        fputs(b->name, f);
        for (int k = 0; k < b->n && x->sweep; k++) {
            fputc(',', f);
            ot_csv_text(b->pair[k][1], f);
        }
        fputc(',', f), ot_csv_text(b->state ? b->state : "", f);
        fprintf(f, ",%lld,", (long long)b->epoch), ot_csv_text(b->metric ? b->metric : "", f);
        print_csv_number(f, b->best);
        for (int c = 0; c < x->n_columns; c++) print_csv_number(f, ot_history_number(b->numbers, x->column[c]));
        print_csv_number(f, b->seconds);
        fputc('\n', f);
    }
}

/* Below the name of column c. */
static void print_cell(const series *x, int c, FILE *f, double v)
{
    int n = (int)strlen(x->column[c]), width = n > 12 ? n : 12;
    if (isnan(v)) fprintf(f, "  %*s", width, "-");
    else fprintf(f, "  %*.6g", width, v);
}

static void print_members(const series *x, FILE *f)
{
    const char *metric = NULL;
    for (int i = 0; i < x->n && !metric; i++) metric = x->member[i].metric;
    fprintf(f, "%-8s", x->what);
    for (int k = 0; k < x->member[0].n && x->sweep; k++) ot_print(f, "  %-14s", x->member[0].pair[k][0]);
    if (x->sweep) fprintf(f, "  %14s", metric ? metric : "best");
    fprintf(f, "  %6s", "epoch");
    for (int c = 0; c < x->n_columns; c++) ot_print(f, "  %12s", x->column[c]);
    fprintf(f, "  %9s  state\n", "seconds");
    for (int i = 0; i < x->n; i++) {
        const ot_member *b = &x->member[i];
        fprintf(f, "%-8s", b->name);
        for (int k = 0; k < b->n && x->sweep; k++) ot_print(f, "  %-14s", b->pair[k][1]);
        if (x->sweep && isnan(b->best)) fprintf(f, "  %14s", "-");
        else if (x->sweep) fprintf(f, "  %14.6g", b->best);
        fprintf(f, "  %6lld", (long long)b->epoch);
        for (int c = 0; c < x->n_columns; c++) print_cell(x, c, f, ot_history_number(b->numbers, x->column[c]));
        fprintf(f, "  %9.1f  %s\n", b->seconds, b->state ? b->state : "not trained");
    }
}

static void print_spread(const series *x, FILE *f)
{
    static const char *const row[] = { "mean", "std" };
    int n = count_finished(x);
    for (int k = 0; k < OT_LEN(row); k++) {
        fprintf(f, "%-8s  %6s", row[k], "");
        for (int c = 0; c < x->n_columns; c++) {
            double v[2];
            (void)spread(x, x->column[c], &v[0], &v[1]);
            print_cell(x, c, f, v[k]);
        }
        fputc('\n', f);
    }
    if (n < x->n) fprintf(f, "\nmean and std include %d of %d folds; the other folds did not finish\n", n, x->n);
}

/* The last weights or the best, by --select, which the grid may vary; without validation samples the best (train_member). */
static void print_weights(const series *x, FILE *f)
{
    const char *select = x->validates ? ot_options_get(x->o, "select") : "best";
    for (int k = 0; k < x->member[0].n; k++)
        if (!strcmp(x->member[0].pair[k][0], "select")) select = x->member[0].pair[k][1];
    if (!strcmp(select, "best"))
        ot_print(f, "weights: %s/%s/trained.onnx, of that epoch\n", x->folder.path, x->member[0].name);
    else
        ot_print(
            f,
            "weights: %s/%s/best.onnx, of that epoch; trained.onnx has the last epoch's (--select best: the best's)\n",
            x->folder.path, x->member[0].name);
}

static void print_text(const series *x, FILE *f)
{
    print_members(x, f);
    if (!x->sweep) {
        print_spread(x, f);
        return;
    }
    const ot_member *best = &x->member[0];
    if (isnan(best->best)) return;
    ot_print(f, "\nbest: %s/%s (%s %.6g):", x->folder.path, best->name, best->metric, best->best);
    for (int k = 0; k < best->n; k++) ot_print(f, " --%s %s", best->pair[k][0], best->pair[k][1]);
    fputc('\n', f);
    print_weights(x, f);
}

static void log_end(series *x)
{
    json_t *e = json_pack("{s:s, s:s, s:s}", "event", "end", "reason", x->cancelled ? "cancelled" : "finished",
                          "series", x->sweep ? "sweep" : "folds"),
           *means = json_object(), *deviations = json_object();
    for (int c = 0; c < x->n_columns && !x->sweep; c++) {
        double mean, deviation;
        if (!spread(x, x->column[c], &mean, &deviation)) continue;
        ot_json_real(&means, x->column[c], mean);
        if (isfinite(deviation)) ot_json_real(&deviations, x->column[c], deviation); /* of two folds at least */
    }
    if (!x->sweep) {
        ot_json_set(&e, "mean", means);
        ot_json_set(&e, "std", deviations);
        ot_json_set(&e, "finished", json_integer(count_finished(x)));
    } else {
        json_decref(means);
        json_decref(deviations);
        if (!isnan(x->member[0].best)) ot_json_set(&e, "best", json_string(x->member[0].name));
    }
    ot_log_write(&x->log, e);
}

/* The table, in the folder and for the caller. */
static ot_status write_table(series *x, char **text, ot_error *err)
{
    char *csv = NULL;
    size_t n = 0, size = 0;
    if (x->sweep) sort(x);
    FILE *f = open_memstream(&csv, &n);
    if (f) print_csv(x, f);
    ot_status s = f && ot_memstream_close(f)
                      ? ot_replace_file(x->folder.fd, x->folder.path, x->sweep ? "sweep.csv" : "folds.csv", csv, n, err)
                      : no_memory(err);
    free(csv);
    if (s) return s;
    f = open_memstream(text, &size);
    if (f) print_text(x, f);
    if (f && ot_memstream_close(f)) return OT_OK;
    free(*text);
    *text = NULL;
    return no_memory(err);
}

/* A sweep without any result has failed; one with some has rows without. */
static ot_status judge(const series *x, ot_error *err)
{
    if (!x->n_failed) return OT_OK;
    if (!x->cancelled && !count_finished(x))
        return ot_fail(err, x->first.status, "sweep: all %d trainings failed or diverged; the first of them: %-s", x->n,
                       x->first.text);
    say(x, OT_WARNING, "sweep: %d of %d trainings failed or diverged", x->n_failed, x->n);
    return OT_OK;
}

/* Folds whose first could not begin, as with more folds than samples, leave no folder: that of the first is empty. */
static void drop_folder(const series *x)
{
    if (x->sweep || x->resumes || unlinkat(x->folder.fd, x->member[0].name, AT_REMOVEDIR)) return;
    (void)unlinkat(x->folder.fd, "log.jsonl", 0);
    (void)unlinkat(x->folder.fd, "options.conf", 0);
    (void)rmdir(x->folder.path);
}

static bool varies(const series *x, const char *name)
{
    for (int k = 0; k < x->member[0].n; k++)
        if (!strcmp(x->member[0].pair[k][0], name)) return true;
    return false;
}

/* By an option, of all or of the grid, or by a part of the data for it.  A set that cannot be opened is an error of the
 * trainings. */
static bool have_validation(const series *x)
{
    ot_data_options o = ot_sets_options(&x->s);
    ot_dataset *d = NULL;
    ot_error ignored = { 0 };
    bool have = x->s.val || x->s.val_split > 0 || varies(x, "val") || varies(x, "val-split");
    if (have || !x->sweep || ot_adapt_wanted(x->m->file->graph, x->a, &o, &ignored)) return have;
    if (!ot_dataset_open(x->s.data, OT_SPLIT_VAL, &o, &d, &ignored)) have = d != NULL;
    ot_dataset_free(d);
    return have;
}

static ot_status run_all(series *x, char **text, ot_error *err)
{
    OT_TRY(check_options(x, err));
    x->validates = have_validation(x);
    if (x->sweep && !x->validates && !varies(x, "monitor")) OT_TRY(ot_sets_check_monitor(&x->s, err));
    OT_TRY(open_series(x, err));
    if (x->sweep && x->n < ot_options_int(x->o, "random"))
        say(x, OT_INFO, "sweep: --grid has %d combinations; each is trained once", x->n);
    if (x->sweep && !x->validates)
        say(x, OT_WARNING, "sweep: no validation samples: the training loss decides; use --val-split 0.1 or --val");
    ot_status s = OT_OK;
    for (int i = 0; i < x->n && !x->cancelled && !s; i++) s = run_member(x, i, err);
    if (s) drop_folder(x);
    for (int i = 0; i < x->n && x->cancelled && !s; i++)
        if (!x->member[i].state) s = read_member(x, &x->member[i], err);
    if (!s) s = write_table(x, text, err);
    if (!s) log_end(x);
    if (!s) say(x, OT_INFO, "run folder:    %s", x->folder.path);
    if (!s && x->cancelled) say(x, OT_INFO, "to continue:   onnxtrain resume %s", x->folder.path);
    return s ? s : judge(x, err);
}

/* ---- the interface ------------------------------------------------------------------------------------ */

static ot_status fold_members(series *x, ot_error *err)
{
    x->n = x->s.folds;
    x->member = ot_arena_alloc(x->a, (size_t)x->n * sizeof *x->member);
    if (!x->member) return no_memory(err);
    for (int k = 0; k < x->n; k++) {
        ot_member *b = &x->member[k];
        *b = (ot_member){ .name = ot_arena_printf(x->a, "fold-%d", k + 1),
                          .n = 1,
                          .pair = ot_arena_alloc(x->a, sizeof *b->pair),
                          .best = NAN };
        if (!b->name || !b->pair) return no_memory(err);
        b->pair[0][0] = "folds";
        if (!(b->pair[0][1] = ot_arena_printf(x->a, "%d/%d", k + 1, x->n))) return no_memory(err);
    }
    return OT_OK;
}

static ot_status make(series *x, ot_error *err)
{
    x->sweep = ot_options_count(x->o, "grid") > 0;
    x->what = x->sweep ? "run" : "fold";
    if (!x->m->outputs) return ot_fail(err, OT_E_INTERNAL, "the model has no list of outputs");
    OT_TRY(ot_settings_read(x->o, x->m->outputs, x->a, &x->s, err));
    if (!x->s.data) return ot_fail(err, OT_E_USAGE, "--data is missing: name a data set such as mnist, or a file");
    if (x->sweep && x->s.folds) return ot_fail(err, OT_E_USAGE, "sweep: --folds is not supported; use --val-split");
    if (x->sweep) return ot_sweep_members(x->o, x->a, &x->member, &x->n, err);
    if (x->s.folds && !x->s.fold) return fold_members(x, err);
    return ot_fail(err, OT_E_USAGE, "sweep needs --grid NAME=VALUE,VALUE");
}

ot_status ot_series_text(const ot_model *m, const ot_options *o, bool resumes, const ot_callbacks *cb, char **text,
                         ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    *text = NULL;
    OT_GIVEN(m);
    OT_GIVEN(o);
    series x = { .m = m, .o = o, .resumes = resumes, .a = ot_arena_new(), .folder = { .fd = -1 } };
    ot_error first = { 0 }, io = { 0 };
    if (!x.a) return no_memory(err);
    if (cb) x.cb = *cb;
    x.log.lr = NAN;
    ot_status s = make(&x, &first);
    if (!s) s = run_all(&x, text, &first);
    if (ot_log_close(&x.log, &io) && !s) s = ot_fail(&first, io.status, "%-s", io.text);
    ot_folder_close(&x.folder);
    for (int i = 0; x.member && i < x.n; i++) json_decref(x.member[i].numbers);
    ot_arena_free(x.a);
    if (s) free(*text), *text = NULL;
    return s ? ot_fail(err, s, "%-s", first.text) : OT_OK;
}
