/* runs.c - the commands report and compare: what logs of runs tell. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/commands/inspect.h"
#include "runtime/train/commands/series.h"
#include "runtime/train/options/options.h"
#include "runtime/train/run/log.h"
#include "runtime/train/options/metrics.h"
#include "runtime/train/run/report.h"

enum { MOST_RUNS = 16, CELL = 40, FIRST = 22, WIDTH = 20 };

static ot_status open_run(const char *path, int *fd, ot_error *err)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0) return OT_OK;
    if (errno == ENOENT || errno == ENOTDIR)
        return ot_fail(err, OT_E_USAGE, "%s: is not the folder of a run; expected one such as runs/lenet-1", path);
    return ot_fail(err, ot_failed_call(errno), "%s: %s", path, strerror(errno));
}

/* The log of a run, which has a line of it at least. */
static ot_status read_run(ot_history *h, int fd, const char *run, ot_error *err)
{
    OT_TRY(ot_history_read(h, fd, run, err));
    if (!ot_history_is_empty(h)) return OT_OK;
    return ot_fail(err, OT_E_IO, "%s/log.jsonl: is not the log of a run; it has no line of one", run);
}

ot_status ot_report_file(const char *run, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(run);
    OT_GIVEN(o);
    int fd;
    ot_history h = { 0 };
    ot_plots plots;
    OT_TRY(ot_series_refuse(run, "report", err));
    OT_TRY(ot_plots_read(o, &plots, err));
    OT_TRY(open_run(run, &fd, err));
    ot_status s = read_run(&h, fd, run, err);
    if (!s) s = ot_report_write(&h, fd, run, &plots, err);
    close(fd);
    ot_history_free(&h);
    char text[OT_ERROR_TEXT], name[OT_ERROR_TEXT - 64];
    snprintf(text, sizeof text, "report: %s/report.html", ot_shown(run, name, sizeof name));
    if (!s && cb && cb->message) cb->message(cb->user, OT_INFO, text);
    return s;
}

/* ---- compare ------------------------------------------------------------------------------- */

typedef struct column {
    ot_history h;
    const json_t *best; /* the evaluation of the best epoch */
    const json_t *last; /* the last evaluation of that set */
    const json_t *test; /* the evaluation of the test set at the end */
    int width;
} column;

/* A value of the log in less than CELL bytes, without control characters; "-": there is none. */
static const char *cell(const json_t *v, char out[CELL])
{
    char *list = json_is_array(v) || json_is_object(v) || json_is_boolean(v)
                     ? ot_json_dump(v, JSON_COMPACT | JSON_ENCODE_ANY)
                     : NULL;
    if (json_is_integer(v)) snprintf(out, CELL, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v)) snprintf(out, CELL, "%.5g", json_real_value(v));
    else ot_shown(json_is_string(v) ? json_string_value(v) : list ? list : "-", out, CELL);
    free(list);
    return out;
}

static void print_row(const char *name, const column *c, int n, const json_t *(*of)(const column *, const char *),
                      const char *key, bool if_different, FILE *f)
{
    char text[MOST_RUNS][CELL];
    bool same = true;
    for (int i = 0; i < n; i++) {
        cell(of(&c[i], key), text[i]);
        same &= !strcmp(text[0], text[i]);
    }
    if (same && (if_different || !strcmp(text[0], "-"))) return;
    ot_print(f, "%-*s", FIRST, name);
    for (int i = 0; i < n; i++) ot_print(f, "  %-*s", c[i].width, text[i]);
    fputc('\n', f);
}

static const json_t *of_start(const column *c, const char *key) { return json_object_get(c->h.start, key); }
static const json_t *of_end(const column *c, const char *key) { return json_object_get(c->h.end, key); }
static const json_t *of_best(const column *c, const char *key) { return json_object_get(c->best, key); }
static const json_t *of_last(const column *c, const char *key) { return json_object_get(c->last, key); }

static const json_t *of_test(const column *c, const char *key) { return json_object_get(c->test, key); }

/* What decided about the best. */
static const json_t *of_watched(const column *c, const char *key)
{
    const char *monitor = json_string_value(json_object_get(c->best, key));
    return monitor ? json_object_get(c->best, monitor) : NULL;
}

static const json_t *of_options(const column *c, const char *key)
{
    return json_object_get(json_object_get(c->h.start, "options"), key);
}

/* Those of a kind of evaluation, without its loss. */
static void print_metrics(const char *which, const column *c, int n, const json_t *(*of)(const column *, const char *),
                          FILE *f)
{
    for (int k = 0; k < OT_METRIC_COUNT; k++) {
        char name[64];
        const char *metric = ot_metrics.entries[k]->name;
        snprintf(name, sizeof name, "%s %s", which, metric);
        if (k != OT_METRIC_LOSS) print_row(name, c, n, of, metric, false, f);
    }
}

static void print_runs(const column *c, int n, const char *const *runs, FILE *f)
{
    static const char *const starts[] = {
        "model", "device", "threads", "precision", "batch_size", "trained", "samples"
    };
    /* Where files are and what is shown: no difference between the trainings. */
    static const char *const aside[] = { "o",          "run-dir",   "log",  "deploy",           "quiet",
                                         "verbose",    "log-every", "keep", "checkpoint-every", "plots",
                                         "tensorboard" };
    const ot_option_info *row;
    fprintf(f, "%-*s", FIRST, "");
    for (int i = 0; i < n; i++) ot_print(f, "  %-*s", c[i].width, runs[i]);
    fputc('\n', f);
    print_row("state", c, n, of_end, "reason", false, f);
    print_row("steps", c, n, of_end, "steps", false, f);
    print_row("seconds", c, n, of_end, "seconds", false, f);
    print_row("samples per second", c, n, of_end, "samples_per_second", false, f);
    print_row("best epoch", c, n, of_best, "epoch", false, f);
    print_row("best by", c, n, of_best, "best", false, f);
    print_row("best value", c, n, of_watched, "monitor", false, f);
    print_row("best loss", c, n, of_best, "loss", false, f);
    print_metrics("best", c, n, of_best, f);
    print_row("last epoch", c, n, of_last, "epoch", false, f);
    print_row("last loss", c, n, of_last, "loss", false, f);
    print_metrics("last", c, n, of_last, f);
    print_row("test loss", c, n, of_test, "loss", false, f);
    print_metrics("test", c, n, of_test, f);
    for (int i = 0; i < OT_LEN(starts); i++) print_row(starts[i], c, n, of_start, starts[i], true, f);
    for (int i = 0; (row = ot_option_at(i)); i++) {
        char name[64];
        bool file = false;
        for (int k = 0; k < OT_LEN(aside); k++) file |= !strcmp(aside[k], row->name);
        snprintf(name, sizeof name, "--%s", row->name);
        if (!file) print_row(name, c, n, of_options, row->name, true, f);
    }
}

/* The first evaluation is of the set that epochs are evaluated on. */
static void find_last(column *c)
{
    const char *set = json_string_value(json_object_get(json_array_get(c->h.evals, 0), "split"));
    for (size_t i = 0; i < json_array_size(c->h.evals); i++) {
        const json_t *e = json_array_get(c->h.evals, i);
        const char *own = json_string_value(json_object_get(e, "split"));
        if (set && own && !strcmp(set, own)) c->last = e;
        else c->test = e;
    }
}

/* The runs that a command names. */
typedef struct named {
    ot_arena *a;
    const char **path;
    int n;
    const char *skipped; /* the first path that is a plain file; NULL: none is */
} named;

static ot_status add_run(named *x, const char *path, ot_error *err)
{
    const char **list = ot_arena_alloc(x->a, (size_t)(x->n + 1) * sizeof *list);
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory for the runs");
    if (x->n) memcpy(list, x->path, (size_t)x->n * sizeof *list);
    list[x->n++] = path;
    x->path = list;
    return OT_OK;
}

/* Adds the run at a path, or each of a series.  A plain file is none: the shell's pattern for all in the
 * folder of a series names the files beside the runs too. */
static ot_status add_runs(named *x, const char *path, ot_error *err)
{
    struct stat st;
    const char **list;
    int n;
    if (!stat(path, &st) && S_ISREG(st.st_mode)) {
        if (!x->skipped) x->skipped = path;
        return OT_OK;
    }
    OT_TRY(ot_series_runs(path, x->a, &list, &n, err));
    if (!list) return add_run(x, path, err);
    for (int i = 0; i < n; i++) OT_TRY(add_run(x, list[i], err));
    return OT_OK;
}

static ot_status name_runs(named *x, int n, const char *const *paths, ot_error *err)
{
    for (int i = 0; i < n; i++) {
        if (!paths[i]) return ot_fail(err, OT_E_USAGE, "compare: run folder %d is NULL", i);
        OT_TRY(add_runs(x, paths[i], err));
    }
    if (x->n >= 2 && x->n <= MOST_RUNS) return OT_OK;
    ot_fail(err, OT_E_USAGE, "compare: expected the folders of 2 to %d runs, got %d", MOST_RUNS, x->n);
    if (x->n > MOST_RUNS)
        ot_fail_more(err, OT_E_USAGE, "sweep.csv and folds.csv in the folder of several trainings compare all of them");
    else if (x->skipped)
        ot_fail_more(err, OT_E_USAGE, "%s: is a file, not the folder of a run such as runs/lenet-1", x->skipped);
    return OT_E_USAGE;
}

static ot_status compare(const named *x, column *c, char **text, ot_error *err)
{
    size_t size = 0;
    for (int i = 0, fd; i < x->n; i++) {
        OT_TRY(open_run(x->path[i], &fd, err));
        ot_status s = read_run(&c[i].h, fd, x->path[i], err);
        close(fd);
        if (s) return s;
        c[i].best = ot_history_best(&c[i].h);
        c[i].width = (int)strlen(x->path[i]) > WIDTH ? (int)strlen(x->path[i]) : WIDTH;
        find_last(&c[i]);
    }
    FILE *f = open_memstream(text, &size);
    if (f) print_runs(c, x->n, x->path, f);
    if (f && ot_memstream_close(f)) return OT_OK;
    free(*text);
    *text = NULL;
    return ot_fail(err, OT_E_NOMEM, "no memory for the table");
}

ot_status ot_compare_text(int n, const char *const *runs, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(runs);
    OT_GIVEN(text);
    *text = NULL;
    column c[MOST_RUNS] = { 0 };
    named x = { .a = ot_arena_new() };
    ot_status s = x.a ? name_runs(&x, n, runs, err) : ot_fail(err, OT_E_NOMEM, "no memory for the runs");
    if (!s) s = compare(&x, c, text, err);
    for (int i = 0; i < MOST_RUNS; i++) ot_history_free(&c[i].h);
    ot_arena_free(x.a);
    return s;
}
