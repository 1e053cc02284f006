/* find_lr.c - the command find-lr: a short training whose learning rate rises exponentially, and what its losses suggest.
 *
 * Two suggestions over the smoothed loss: the rate at which it falls fastest by the logarithm of the rate, where it falls for good, and a
 * tenth of the rate at which it is lowest.  A smoothed loss is a mean over earlier ones: it falls after the loss does, at rates that are
 * several times as high.  The first suggestion is therefore the rate in the middle of what the steepest smoothed loss is a mean of.  The
 * sweep ends where the smoothed loss is four times its lowest value, or the loss is not finite.
 *
 * Source  Smith 2017 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/io.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/options/specs.h"
#include "runtime/train/run/chart.h"
#include "runtime/train/run/file_training.h"

enum { DEFAULT_UPDATES = 100, PNG_SCALE = 2 };

static const double smoothing = 0.9, diverged = 4;

typedef struct point {
    double rate, loss, smoothed;
    double centre; /* mean number of the points that it is a mean of, with the same weights */
} point;

typedef struct sweep {
    double from, to;
    int64_t n, most; /* points, and how many there may be */
    point *at;
    int64_t steepest, lowest; /* -1: the loss does not fall */
    bool ended;               /* before the last rate, because the loss grew */
} sweep;

/* "1e-7,10" */
static ot_status read_range(const ot_trainer *t, sweep *s, ot_error *err)
{
    const char *text = ot_options_get(t->o, "lr-range"), *comma = strchr(text, ',');
    char first[32] = "";
    if (comma && comma - text < (long)sizeof first) snprintf(first, sizeof first, "%.*s", (int)(comma - text), text);
    if (comma && ot_number(first, &s->from) && ot_number(comma + 1, &s->to) && s->from > 0 && s->to > s->from &&
        isfinite(s->to))
        return OT_OK;
    return ot_fail(err, OT_E_USAGE, "--lr-range: invalid value '%s'; expected two rates above 0, the smaller one first",
                   text);
}

/* Prepares a training without an evaluation set and without output files. */
static ot_status begin(ot_trainer *t, sweep *s, ot_error *err)
{
    OT_TRY(read_range(t, s, err));
    if (!t->s.data) return ot_fail(err, OT_E_USAGE, "--data is missing: name a data set such as mnist, or a file");
    OT_TRY(ot_trainer_open_teacher(t, err));
    OT_TRY(ot_trainer_use_file_training(t, err));
    if (t->file_training.used)
        return ot_fail(err, OT_E_USAGE,
                       "find-lr: the training algorithm in the file (TrainingInfoProto) has its own learning rate; use "
                       "--loss or --optimizer to train with the options instead");
    OT_TRY(ot_trainer_review(t, false, err));
    OT_TRY(ot_spec_set(&t->s.options.optimizer, "lr", s->from, t->a, err));
    if (!t->s.steps) t->s.steps = DEFAULT_UPDATES;
    OT_TRY(ot_trainer_open(t, err));
    ot_dataset_free(t->test.data);
    ot_dataset_free(t->eval.data);
    t->test.data = t->eval.data = NULL;
    t->has_val = false;
    t->searches = true;
    OT_TRY(ot_trainer_prepare(t, err));
    s->most = t->total;
    s->at = ot_arena_alloc(t->a, sizeof *s->at * (size_t)(s->most + 1));
    return s->at ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for %lld learning rates", (long long)s->most);
}

/* Has the loss grown too far?  Not tested at the first rates, whose smoothed losses are means of few values. */
static bool has_diverged(const sweep *s)
{
    double best = INFINITY;
    for (int64_t i = 0; i < s->n; i++) best = fmin(best, s->at[i].smoothed);
    return s->n > 10 && s->at[s->n - 1].smoothed > diverged * best;
}

static ot_status train(ot_trainer *t, sweep *s, ot_error *err)
{
    double average = 0, centre = 0;
    while (s->n < s->most && !s->ended) {
        int64_t k = s->n, u = k % t->updates;
        point *p = &s->at[s->n++];
        t->epoch = k / t->updates;
        if (t->s.shuffle && !u) ot_permutation_shuffle(&t->order, t->s.seed, (uint64_t)t->epoch);
        p->rate = t->schedule.base =
            s->from * pow(s->to / s->from, s->most > 1 ? (double)k / (double)(s->most - 1) : 0);
        ot_error e = { 0 };
        ot_status r = ot_trainer_update(t, u, &e);
        if (!r) r = ot_trainer_settle(t, &e);
        if (r && (r != OT_E_DIVERGED || !k)) return ot_fail(err, r, "%-s", e.text);
        p->loss = r ? (double)NAN : t->last_loss;
        average = smoothing * average + (1 - smoothing) * p->loss;
        centre = smoothing * centre + (1 - smoothing) * (double)k;
        double weights = 1 - pow(smoothing, (double)k + 1);
        p->smoothed = average / weights;
        p->centre = centre / weights;
        s->ended = r || has_diverged(s);
    }
    return OT_OK;
}

/* Where the loss falls for good: the last rate before the lowest loss at which less than a fifth of the fall was done.  Small rates
 * change nothing: there losses differ as batches do, and one may seem to fall steeply. */
static int64_t descent(const sweep *s, int64_t first)
{
    double level = 0;
    int64_t n = (s->lowest - first) / 3 + 1, from = first;
    for (int64_t i = first; i < first + n; i++) level += s->at[i].smoothed / (double)n;
    double least = level - (level - s->at[s->lowest].smoothed) / 5;
    for (int64_t i = first; i < s->lowest; i++)
        if (s->at[i].smoothed >= least) from = i;
    return from;
}

/* Over the rates after the first tenth. */
static void suggest(sweep *s)
{
    double slope = 0;
    s->steepest = s->lowest = -1;
    int64_t first = s->n / 10 + 1;
    for (int64_t i = first; i < s->n; i++)
        if (s->at[i].smoothed < s->at[s->lowest < 0 ? 0 : s->lowest].smoothed) s->lowest = i;
    for (int64_t i = s->lowest < 0 ? 0 : descent(s, first); i < s->lowest;
         i++) { /* equal distances in the logarithm of the rate */
        double falls = s->at[i + 1].smoothed - s->at[i - 1].smoothed;
        if (falls < slope) slope = falls, s->steepest = i;
    }
    if (s->steepest >= 0) s->steepest = llround(s->at[s->steepest].centre);
    else s->lowest = -1;
}

static void print_csv(const sweep *s, FILE *f)
{
    fputs("step,lr,loss,smoothed\n", f);
    for (int64_t i = 0; i < s->n; i++)
        fprintf(f, "%lld,%.9g,%.9g,%.9g\n", (long long)i + 1, s->at[i].rate, s->at[i].loss, s->at[i].smoothed);
}

static void print_text(const sweep *s, FILE *f)
{
    fprintf(f, "%6s  %10s  %12s  %12s\n", "step", "lr", "loss", "smoothed");
    for (int64_t i = 0; i < s->n; i++)
        fprintf(f, "%6lld  %10.3e  %12.6g  %12.6g%s\n", (long long)i + 1, s->at[i].rate, s->at[i].loss,
                s->at[i].smoothed,
                i == s->steepest ? "  steepest"
                : i == s->lowest ? "  lowest"
                                 : "");
    if (s->ended) fprintf(f, "\nstopped at %.3g, where the loss diverges\n", s->at[s->n - 1].rate);
    if (s->steepest < 0) {
        fprintf(f, "\nno suggestion: the loss does not fall between %.3g and %.3g; change --lr-range or --steps\n",
                s->from, s->at[s->n - 1].rate);
        return;
    }
    fprintf(f, "\nsuggestion: --lr %.2g (steepest descent), or %.2g (a tenth of the rate with the lowest loss)\n",
            s->at[s->steepest].rate, s->at[s->lowest].rate / 10);
}

static void fill_json(const ot_trainer *t, const sweep *s, ot_page *p)
{
    json_t *list = json_array();
    ot_json_set(&p->json, "model", ot_json_text(t->m->file->path));
    ot_json_set(&p->json, "optimizer", ot_json_text(t->s.options.optimizer.name));
    for (int64_t i = 0; i < s->n; i++) {
        json_t *one = json_pack("{s:I}", "step", (json_int_t)i + 1);
        ot_json_real(&one, "lr", s->at[i].rate);
        ot_json_real(&one, "loss", s->at[i].loss);
        ot_json_real(&one, "smoothed", s->at[i].smoothed);
        ot_json_add(&list, one);
    }
    ot_json_set(&p->json, "points", list);
    ot_json_set(&p->json, "diverged", json_boolean(s->ended));
    ot_json_set(&p->json, "steepest", s->steepest < 0 ? json_null() : json_real(s->at[s->steepest].rate));
    ot_json_set(&p->json, "tenth_of_lowest", s->lowest < 0 ? json_null() : json_real(s->at[s->lowest].rate / 10));
}

/* ---- the picture -------------------------------------------------------------------------- */

/* Is the chart a PNG, by the name's ending?  Otherwise it is an SVG. */
static bool is_png(const ot_trainer *t)
{
    size_t n = t->s.out ? strlen(t->s.out) : 0;
    return n > 4 && !strcmp(t->s.out + n - 4, ".png");
}

/* Writes the chart.  x, y, z: room for the points. */
static ot_status draw(const ot_trainer *t, const sweep *s, double *x, double *y, double *z, ot_error *err)
{
    double highest = 0;
    char steepest[64], tenth[64];
    for (int64_t i = 0; i < s->n; i++) {
        x[i] = s->at[i].rate, y[i] = s->at[i].loss, z[i] = s->at[i].smoothed;
        if (i <= (s->lowest > 0 ? s->lowest : s->n / 2) && z[i] > highest) highest = z[i]; /* where it falls */
    }
    ot_chart_line line[] = { { "loss", "#a5b1c2", x, y, (int)s->n, false },
                             { "smoothed", "#1971c2", x, z, (int)s->n, false } };
    ot_chart_mark mark[2] = { { .text = steepest, .colour = "#2b8a3e" }, { .text = tenth, .colour = "#d9480f" } };
    ot_chart c = { .title = "Loss by learning rate", .x_name = "learning rate", .line = line, .n = 2, .log_x = true };
    c.highest = 1.25 * highest;
    if (s->steepest >= 0) {
        mark[0].x = s->at[s->steepest].rate;
        mark[1].x = s->at[s->lowest].rate / 10;
        snprintf(steepest, sizeof steepest, "--lr %.2g, steepest descent", mark[0].x);
        snprintf(tenth, sizeof tenth, "--lr %.2g, a tenth of the lowest", mark[1].x);
        c.mark = mark;
        c.n_marks = 2;
    }
    ot_sketch k = ot_chart_sketch(&c);
    return ot_sketch_write(&k, is_png(t) ? PNG_SCALE : 0, AT_FDCWD, NULL, t->s.out, err);
}

static ot_status check_picture(const ot_trainer *t, ot_error *err)
{
    ot_inputs in = ot_trainer_inputs(t);
    if (is_png(t)) OT_TRY(ot_sketch_png_check("-o", err));
    return t->s.out ? ot_output_check(&in, AT_FDCWD, t->s.out, is_png(t) ? OT_FILE_PNG : OT_FILE_SVG, "-o", err)
                    : OT_OK;
}

/* -o: writes the curve as an image. */
static ot_status write_picture(const ot_trainer *t, const sweep *s, ot_error *err)
{
    double *room = ot_arena_alloc(t->a, 3 * sizeof *room * (size_t)(s->n + 1));
    if (!room) return ot_fail(err, OT_E_NOMEM, "no memory for the curve in %s", t->s.out);
    return draw(t, s, room, room + s->n, room + 2 * s->n, err);
}

static ot_status find(ot_trainer *t, char **text, ot_error *err)
{
    sweep s = { 0 };
    ot_page p;
    OT_TRY(begin(t, &s, err));
    OT_TRY(check_picture(t, err));
    OT_TRY(train(t, &s, err));
    suggest(&s);
    if (t->s.out) OT_TRY(write_picture(t, &s, err));
    OT_TRY(ot_page_open(&p, t->s.json, err));
    if (t->s.json) fill_json(t, &s, &p);
    else if (ot_options_flag(t->o, "csv")) print_csv(&s, p.f);
    else print_text(&s, p.f);
    return ot_page_close(&p, text, err);
}

ot_status ot_find_lr_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    OT_GIVEN(m);
    OT_GIVEN(o);
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    *text = NULL;
    OT_TRY(ot_trainer_begin(m, o, cb, &t, err));
    ot_status s = find(t, text, &first);
    if (s) s = ot_trainer_explain(t, s, &first);
    ot_trainer_free(t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
