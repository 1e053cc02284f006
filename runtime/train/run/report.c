/* report.c - a run as one page of HTML that needs nothing else, made from its log. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/chart.h"
#include "runtime/train/run/log.h"
#include "runtime/train/run/profile.h"
#include "runtime/train/run/report.h"
#include "runtime/train/run/report_samples.h"

enum { MOST_METRICS = 24, MOST_CHARTS = MOST_METRICS + 4, MOST_ROWS = 200 };

/* A metric of the evaluations, over their steps. */
typedef struct metric {
    char name[128]; /* "val loss" */
    size_t own;     /* where the metric's begins */
    double *x, *y;
    int n;
} metric;

typedef struct report {
    ot_history *h;
    metric m[MOST_METRICS];
    int n_metrics, room; /* points in each */
    const char *split;   /* of the evaluation that is being read */
    double step;
    double *steps;      /* of all evaluations */
    bool lost;          /* no memory */
    json_t *evaluation; /* evaluation.json; NULL: there is none */
} report;

/* ---- metrics ----------------------------------------------------------------------------- */

static void add_point(void *user, const char *key, double v)
{
    report *r = user;
    char name[128];
    int i = 0;
    snprintf(name, sizeof name, "%s %s", r->split, key);
    while (i < r->n_metrics && strcmp(r->m[i].name, name)) i++;
    if (i == MOST_METRICS) return;
    metric *m = &r->m[i];
    if (i == r->n_metrics) {
        m->x = calloc((size_t)r->room, sizeof *m->x);
        m->y = calloc((size_t)r->room, sizeof *m->y);
        r->n_metrics++;
        snprintf(m->name, sizeof m->name, "%s", name);
        m->own = strlen(r->split) + 1 < sizeof m->name ? strlen(r->split) + 1 : sizeof m->name - 1;
        r->lost |= !m->x || !m->y;
    }
    if (r->lost || m->n == r->room) return;
    m->x[m->n] = r->step;
    m->y[m->n++] = v;
}

static json_int_t epoch_of(const json_t *eval) { return json_integer_value(json_object_get(eval, "epoch")); }

/* The steps of the evaluations: of each that of the first one of its epoch.  The test set is looked at once at the end, where
 * the weights may be those of an earlier epoch. */
static void find_steps(report *r)
{
    size_t n = json_array_size(r->h->evals), i, top = 0;
    json_t *e;
    size_t *first = calloc(n + 1, sizeof *first); /* of epochs that may occur again: a stack of rising ones */
    r->steps = calloc(n + 1, sizeof *r->steps);
    r->lost |= !first || !r->steps;
    json_array_foreach(r->h->evals, i, e)
    {
        if (r->lost) break;
        json_int_t epoch = epoch_of(e);
        while (top && epoch_of(json_array_get(r->h->evals, first[top - 1])) > epoch) top--;
        if (!top || epoch_of(json_array_get(r->h->evals, first[top - 1])) < epoch) first[top++] = i;
        r->steps[i] = json_number_value(json_object_get(json_array_get(r->h->evals, first[top - 1]), "step"));
    }
    free(first);
}

static void gather(report *r)
{
    size_t i;
    json_t *e;
    find_steps(r);
    r->room = (int)json_array_size(r->h->evals);
    json_array_foreach(r->h->evals, i, e)
    {
        const char *split = json_string_value(json_object_get(e, "split"));
        if (r->lost) return;
        r->split = split ? split : "eval";
        r->step = r->steps[i];
        ot_history_numbers(e, add_point, r);
    }
}

/* ---- charts ------------------------------------------------------------------------------ */

typedef struct drawing {
    char title[160], file[40];
    ot_chart_line line[1 + MOST_METRICS];
    int n;
} drawing;

static const char *const colours[] = { "#d9480f", "#2b8a3e", "#862e9c", "#0b7285", "#e67700", "#5c940d" };

static ot_chart_line curve_line(const char *name, const ot_curve *c)
{
    return (ot_chart_line){ .name = name, .colour = "#1971c2", .x = c->x, .y = c->y, .n = c->n };
}

static void add_metric(drawing *d, const metric *m)
{
    d->line[d->n] = (ot_chart_line){ m->name, colours[d->n % OT_LEN(colours)], m->x, m->y, m->n, m->n <= 100 };
    d->n++;
}

static const char *metric_of(const metric *m) { return m->name + m->own; }

/* One chart for the loss, one per other metric (of all splits), one for the learning rate, one for the norm. */
static int draw(const report *r, drawing d[MOST_CHARTS])
{
    int n = 1;
    d[0] = (drawing){ .title = "Loss", .file = "loss", .n = 1 };
    d[0].line[0] = curve_line("train loss", &r->h->loss);
    for (int i = 0; i < r->n_metrics; i++) {
        const metric *m = &r->m[i];
        int k = 1;
        if (!strcmp(metric_of(m), "loss")) {
            add_metric(&d[0], m);
            continue;
        }
        while (k < n && strcmp(d[k].title, metric_of(m))) k++;
        if (k == n) {
            d[n] = (drawing){ .n = 0 };
            snprintf(d[n].title, sizeof d[n].title, "%s", metric_of(m));
            snprintf(d[n].file, sizeof d[n].file, "metric-%d", n);
            n++;
        }
        add_metric(&d[k], m);
    }
    d[n] = (drawing){ .title = "Learning rate", .file = "lr", .n = 1 };
    d[n++].line[0] = curve_line("lr", &r->h->rate);
    if (r->h->norm.n) {
        d[n] = (drawing){ .title = "Gradient norm", .file = "grad_norm", .n = 1 };
        d[n++].line[0] = curve_line("before clipping", &r->h->norm);
    }
    if (r->h->speed.n) {
        d[n] = (drawing){ .title = "Samples per second", .file = "speed", .n = 1 };
        d[n].line[0] = curve_line("training", &r->h->speed);
        d[n++].line[0].colour = "#5f3dc4";
    }
    return n;
}

static ot_chart chart_of(const report *r, const drawing *d)
{
    return (ot_chart){ .title = d->title, .x_name = "step", .line = d->line, .n = d->n, .most_x = (double)r->h->step };
}

/* ---- tables ------------------------------------------------------------------------------- */

static void print_value(const json_t *v, FILE *f)
{
    char *text =
        json_is_string(v) || !v ? NULL : ot_json_dump(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    ot_html_text(json_is_string(v) ? json_string_value(v) : text ? text : "", f);
    free(text);
}

static void print_pair(const char *key, const json_t *v, FILE *f)
{
    if (!v) return;
    fputs("<tr><th>", f), ot_html_text(key, f), fputs("</th><td>", f), print_value(v, f), fputs("</td></tr>\n", f);
}

static void print_bytes(const char *key, const json_t *v, FILE *f)
{
    if (json_is_number(v)) fprintf(f, "<tr><th>%s</th><td>%.1f MB</td></tr>\n", key, json_number_value(v) / 1e6);
}

static void print_best(const ot_history *h, FILE *f)
{
    const json_t *best = ot_history_best(h);
    const char *watched = json_string_value(json_object_get(best, "best"));
    if (!best) return;
    fputs("<tr><th>best epoch</th><td>", f), print_value(json_object_get(best, "epoch"), f), fputs(" (by ", f);
    ot_html_text(watched ? watched : "", f);
    const char *monitor = json_string_value(json_object_get(best, "monitor"));
    const json_t *v = monitor ? json_object_get(best, monitor) : NULL;
    if (v) fputs(": ", f), print_value(v, f);
    fputs(")</td></tr>\n", f);
}

static void print_summary(const ot_history *h, FILE *f)
{
    static const char *const of_start[] = { "model",   "device",  "threads",    "precision", "parameters",
                                            "trained", "samples", "batch_size", "version" };
    const json_t *reason = json_object_get(h->end, "reason"), *total = json_object_get(h->start, "steps");
    fputs("<table class=\"pairs\">\n<tr><th>state</th><td>", f);
    if (h->end) print_value(reason, f);
    else fputs("in progress, or stopped without an end", f);
    fprintf(f, "</td></tr>\n<tr><th>steps</th><td>%lld of ", (long long)h->step);
    print_value(total, f);
    fprintf(f, " (epoch %lld)</td></tr>\n<tr><th>seconds</th><td>%.1f</td></tr>\n", (long long)h->epoch, h->seconds);
    print_pair("samples per second", json_object_get(h->end, "samples_per_second"), f);
    if (json_is_number(json_object_get(h->end, "data_wait")))
        fprintf(f, "<tr><th>waiting for data</th><td>%.1f %%</td></tr>\n",
                100 * json_number_value(json_object_get(h->end, "data_wait")));
    print_best(h, f);
    for (int i = 0; i < OT_LEN(of_start); i++) print_pair(of_start[i], json_object_get(h->start, of_start[i]), f);
    print_bytes("planned memory", json_object_get(h->start, "planned_bytes"), f);
    print_bytes("used of it", json_object_get(h->end, "peak_bytes"), f);
    print_bytes("peak of the process", json_object_get(h->end, "rss_peak"), f);
    fputs("</table>\n", f);
}

static void print_options(const ot_history *h, FILE *f)
{
    const char *key;
    json_t *v;
    fputs("<h2>Options</h2>\n<table class=\"pairs\">\n", f);
    json_object_foreach(json_object_get(h->start, "options"), key, v) print_pair(key, v, f);
    fputs("</table>\n", f);
}

/* The evaluations, the newest MOST_ROWS of them; a row has all numbers of its epoch. */
static void print_evaluations(const report *r, FILE *f)
{
    size_t n = json_array_size(r->h->evals), from = n > MOST_ROWS ? n - MOST_ROWS : 0;
    if (!n) return;
    fputs("<h2>Evaluations</h2>\n<div class=\"wide\"><table>\n<tr><th>epoch</th><th>step</th>", f);
    for (int k = 0; k < r->n_metrics; k++) fputs("<th>", f), ot_html_text(r->m[k].name, f), fputs("</th>", f);
    fputs("</tr>\n", f);
    for (size_t i = from; i < n; i++) {
        const json_t *e = json_array_get(r->h->evals, i);
        double step = r->steps[i];
        if (i > from && r->steps[i - 1] >= step) continue; /* of an epoch that has a row */
        fputs("<tr><td>", f), print_value(json_object_get(e, "epoch"), f), fputs("</td><td>", f);
        print_value(json_object_get(e, "step"), f), fputs("</td>", f);
        for (int k = 0; k < r->n_metrics; k++) {
            const metric *m = &r->m[k];
            int at = 0;
            while (at < m->n && m->x[at] < step) at++;
            if (at < m->n && m->x[at] <= step) fprintf(f, "<td>%.5g</td>", m->y[at]);
            else fputs("<td></td>", f);
        }
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

/* A row: its name, its megabytes, a bar for its share. */
static void print_share(const char *name, const char *more, double bytes, double all, FILE *f)
{
    fputs("<tr><th>", f), ot_html_text(name, f);
    if (*more) fputs("</th><td>", f), ot_html_text(more, f);
    fprintf(f, "</%s><td class=\"number\">%.3g MB</td><td class=\"bar\"><div style=\"width:%d%%\"></div></td></tr>\n",
            *more ? "td" : "th", bytes / 1e6, (int)fmin(100, ceil(100 * bytes / all)));
}

/* What the planned memory is for. */
static void print_memory(const ot_history *h, FILE *f)
{
    const char *key;
    json_t *v, *kinds = json_object_get(h->start, "memory");
    double all = 0;
    json_object_foreach(kinds, key, v) all += json_is_integer(v) ? json_number_value(v) : 0;
    if (!(all > 0)) return;
    fputs("<h2>Memory</h2>\n<table class=\"pairs\">\n", f);
    json_object_foreach(kinds, key, v)
    {
        double bytes = json_is_integer(v) ? json_number_value(v) : 0;
        if (bytes > 0) print_share(key, "", bytes, all, f);
    }
    fputs("</table>\n", f);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* What is live where most is: by the node of the file that computed it. */
static void print_peak(const ot_history *h, FILE *f)
{
    const json_t *peak = json_object_get(h->start, "memory_at_peak"), *list = json_object_get(peak, "nodes");
    double all = json_number_value(json_object_get(peak, "bytes")), shown = 0;
    json_int_t count = json_integer_value(json_object_get(peak, "count"));
    size_t i;
    json_t *v;
    if (!(all > 0) || !json_array_size(list)) return;
    fprintf(f, "<h2>Memory at the peak</h2>\n<p>%.3g MB of activations, gradients and workspaces, in ", all / 1e6);
    ot_html_text(text_of(peak, "stage"), f), fputs(" of ", f), ot_html_text(text_of(peak, "node"), f);
    fputs("; by the node whose results they are.</p>\n<table class=\"pairs\">\n", f);
    json_array_foreach(list, i, v)
    {
        double bytes = json_number_value(json_object_get(v, "bytes"));
        if (!(bytes > 0)) continue;
        const char *op = text_of(v, "operator");
        print_share(text_of(v, "node"), *op ? op : "-", bytes, all, f);
        shown += bytes;
    }
    if (count > (json_int_t)json_array_size(list) && all > shown) print_share("others", "-", all - shown, all, f);
    fputs("</table>\n", f);
}

/* ---- the page ------------------------------------------------------------------------------ */

static const char style[] =
    "body{font:14px sans-serif;margin:2em auto;max-width:1360px;padding:0 1em;color:#212529;background:#fff}\n"
    "table{border-collapse:collapse;margin:.5em 0}th,td{padding:3px 10px;border-bottom:1px solid #dee2e6;text-align:right}\n"
    ".pairs th{text-align:left;font-weight:normal;color:#495057}.pairs td{text-align:left;overflow-wrap:anywhere}\n"
    ".pairs .number{text-align:right;white-space:nowrap}.bar{width:240px}.bar div{height:12px;background:#1971c2}\n"
    ".wide{overflow-x:auto}.values{text-align:left}svg{max-width:100%;height:auto;margin:8px}\n"
    ".samples{display:flex;flex-wrap:wrap;gap:14px}figure{margin:0;width:120px;font-size:12px;overflow-wrap:anywhere}\n"
    "img{width:96px;image-rendering:pixelated;border:1px solid #dee2e6}\n"
    "@media(prefers-color-scheme:dark){body{background:#1a1b1e;color:#dee2e6}.pairs th{color:#adb5bd}th,td,img{border-color:#495057}}\n";

static void print_page(const report *r, const drawing *d, int n, int folder, const char *shown, FILE *f)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width\"/>\n",
          f);
    if (!r->h->end) fputs("<meta http-equiv=\"refresh\" content=\"5\"/>\n", f);
    fputs("<title>", f), ot_html_text(shown, f),
        fprintf(f, "</title>\n<style>\n%s</style></head>\n<body>\n<h1>", style);
    ot_html_text(shown, f), fputs("</h1>\n", f);
    print_summary(r->h, f);
    fputs("<h2>Curves</h2>\n<div>\n", f);
    for (int i = 0; i < n; i++) {
        ot_chart c = chart_of(r, &d[i]);
        ot_sketch k = ot_chart_sketch(&c);
        ot_sketch_svg(&k, false, f);
    }
    fputs("</div>\n", f);
    ot_samples_print(r->evaluation, f);
    print_evaluations(r, f);
    print_memory(r->h, f);
    print_peak(r->h, f);
    ot_profile_html(folder, f);
    print_options(r->h, f);
    fputs("</body></html>\n", f);
}

/* plots/NAME.svg, plots/NAME.png. */
static ot_status write_sketch(const ot_sketch *k, const char *name, int folder, const char *shown,
                              const ot_plots *plots, ot_error *err)
{
    char path[64];
    if (plots->svg) {
        snprintf(path, sizeof path, "plots/%s.svg", name);
        OT_TRY(ot_sketch_write(k, 0, folder, shown, path, err));
    }
    if (!(plots->png > 0)) return OT_OK;
    snprintf(path, sizeof path, "plots/%s.png", name);
    return ot_sketch_write(k, plots->png, folder, shown, path, err);
}

static ot_status write_plots(const report *r, const drawing *d, int n, int folder, const char *shown,
                             const ot_plots *plots, ot_error *err)
{
    char *within = NULL;
    if (asprintf(&within, "%s/plots", shown) < 0) return ot_fail(err, OT_E_NOMEM, "no memory for the plots");
    ot_status made = ot_folder_within(folder, "plots", within, err);
    free(within);
    OT_TRY(made);
    for (int i = 0; i < n; i++) {
        ot_chart c = chart_of(r, &d[i]);
        ot_sketch k = ot_chart_sketch(&c);
        OT_TRY(write_sketch(&k, d[i].file, folder, shown, plots, err));
    }
    if (!ot_samples_has_confusion(r->evaluation)) return OT_OK;
    ot_confusion confusion;
    ot_sketch k = ot_samples_confusion(r->evaluation, &confusion);
    return write_sketch(&k, "confusion", folder, shown, plots, err);
}

ot_status ot_report_write(ot_history *h, int folder, const char *shown, const ot_plots *plots, ot_error *err)
{
    char *text = NULL;
    size_t size = 0;
    OT_TRY(ot_history_read(h, folder, shown, err));
    report r = { .h = h };
    OT_TRY(ot_samples_read(folder, shown, &r.evaluation, err));
    if (json_integer_value(json_object_get(r.evaluation, "step")) > h->step) { /* of updates that a resume has undone */
        json_decref(r.evaluation);
        r.evaluation = NULL;
    }
    drawing *d = calloc(MOST_CHARTS, sizeof *d);
    FILE *f = d ? open_memstream(&text, &size) : NULL;
    gather(&r);
    int n = d ? draw(&r, d) : 0;
    if (f && !r.lost) print_page(&r, d, n, folder, shown, f);
    ot_status s = f && ot_memstream_close(f) && !r.lost ? ot_replace_file(folder, shown, "report.html", text, size, err)
                                                        : ot_fail(err, OT_E_NOMEM, "no memory for the report");
    if (!s && (plots->svg || plots->png > 0)) s = write_plots(&r, d, n, folder, shown, plots, err);
    json_decref(r.evaluation);
    for (int i = 0; i < r.n_metrics; i++) free(r.m[i].x), free(r.m[i].y);
    free(r.steps);
    free(d);
    free(text);
    return s;
}
