/* history.c - reads the log of a run, for reports and comparisons. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/history.h"
#include "runtime/train/run/log.h"

enum { PART = 1 << 20 }; /* bytes read at once; no line is longer */

/* Halves a full curve: every two points become one. */
static void halve(ot_curve *c)
{
    for (int i = 0; i < OT_CURVE_POINTS / 2; i++) {
        c->x[i] = (c->x[2 * i] + c->x[2 * i + 1]) / 2;
        c->y[i] = (c->y[2 * i] + c->y[2 * i + 1]) / 2;
    }
    c->n = OT_CURVE_POINTS / 2;
    c->stride *= 2;
}

/* A NaN y is skipped. */
static void add_point(ot_curve *c, double x, double y)
{
    if (!isfinite(y)) return;
    if (!c->stride) c->stride = 1;
    c->sum_x += x;
    c->sum_y += y;
    if (++c->count < c->stride) return;
    if (c->n == OT_CURVE_POINTS) halve(c);
    c->x[c->n] = c->sum_x / (double)c->count;
    c->y[c->n++] = c->sum_y / (double)c->count;
    c->sum_x = c->sum_y = 0;
    c->count = 0;
}

static double number_of(json_t *line, const char *key)
{
    const json_t *v = json_object_get(line, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static void keep(json_t **to, json_t *line)
{
    json_decref(*to);
    *to = json_incref(line);
}

/* Adds a point of samples per second every half second, without the time of evaluations. */
static void add_speed(ot_history *h, double samples)
{
    enum { PER_SECOND = 2 };
    double span = h->seconds - h->since;
    if (isnan(span)) {
        h->since = h->seconds;
        h->samples = 0;
        return;
    }
    h->samples += samples;
    if (span * PER_SECOND < 1) return;
    add_point(&h->speed, (double)h->step, h->samples / span);
    h->since = h->seconds;
    h->samples = 0;
}

/* Reads the event of a resumed run, whose options and device may differ. */
static void take_resume(ot_history *h, json_t *line)
{
    static const char *const changed[] = { "options", "device", "threads", "steps" };
    keep(&h->end, NULL);
    for (int i = 0; h->start && i < OT_LEN(changed); i++) {
        json_t *now = json_object_get(line, changed[i]);
        if (now) (void)json_object_set(h->start, changed[i], now);
    }
}

static void take_line(ot_history *h, json_t *line)
{
    const char *kind = json_string_value(json_object_get(line, "event"));
    if (!kind) return;
    if (!strcmp(kind, "step")) {
        h->step = json_integer_value(json_object_get(line, "step"));
        h->epoch = json_integer_value(json_object_get(line, "epoch"));
        h->seconds = number_of(line, "seconds");
        add_point(&h->loss, (double)h->step, number_of(line, "loss"));
        add_point(&h->rate, (double)h->step, number_of(line, "lr"));
        add_point(&h->norm, (double)h->step, number_of(line, "grad_norm"));
        add_speed(h, number_of(line, "samples"));
    } else {
        h->since = NAN; /* what follows took time, too */
    }
    if (!strcmp(kind, "start")) keep(&h->start, line);
    if (!strcmp(kind, "eval")) (void)json_array_append(h->evals, line);
    if (!strcmp(kind, "end")) keep(&h->end, line);
    if (!strcmp(kind, "resume")) take_resume(h, line);
}

static ot_status take_lines(ot_history *h, const char *text, size_t n, size_t *used, ot_error *err)
{
    *used = 0;
    for (const char *stop; *used < n && (stop = memchr(text + *used, '\n', n - *used));) {
        json_t *line;
        if (ot_json_parse(text + *used, (size_t)(stop - text) - *used, &line))
            return ot_fail(err, OT_E_NOMEM, "no memory for the log of the run");
        if (line) take_line(h, line); /* a line of another program is none of the log's */
        json_decref(line);
        *used = (size_t)(stop - text) + 1;
    }
    return OT_OK;
}

/* Only regular files: opening a pipe blocks, and a device may have no end. */
static ot_status open_log(int folder, const char *shown, int *fd, ot_error *err)
{
    struct stat st;
    *fd = openat(folder, "log.jsonl", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 && errno == ENOENT)
        return ot_fail(err, OT_E_USAGE, "%s: is not the folder of a run; it has no log.jsonl", shown);
    if (*fd < 0 || fstat(*fd, &st))
        return ot_fail(err, ot_failed_call(errno), "%s/log.jsonl: %s", shown, strerror(errno));
    return S_ISREG(st.st_mode) ? OT_OK : ot_fail(err, OT_E_IO, "%s/log.jsonl: is not a regular file", shown);
}

ot_status ot_history_read(ot_history *h, int folder, const char *shown, ot_error *err)
{
    if (!h->evals) h->evals = json_array();
    char *text = h->evals ? malloc(PART) : NULL;
    int fd;
    ot_status s = open_log(folder, shown, &fd, err);
    if (!s && !text) s = ot_fail(err, OT_E_NOMEM, "no memory for the log of the run");
    for (size_t used = 1; !s && used;) {
        int64_t n = ot_read_at(fd, text, PART, h->at);
        if (n < 0) s = ot_fail(err, ot_failed_call(errno), "%s/log.jsonl: cannot be read: %s", shown, strerror(errno));
        else s = take_lines(h, text, (size_t)n, &used, err);
        if (!s && !used && n == PART)
            s = ot_fail(err, OT_E_IO, "%s/log.jsonl: is not the log of a run; it has a line of more than %d bytes",
                        shown, PART);
        if (!s) h->at += (int64_t)used;
    }
    if (fd >= 0) close(fd);
    free(text);
    return s;
}

bool ot_history_is_empty(const ot_history *h) { return !h->start && !h->end && !h->step && !json_array_size(h->evals); }

void ot_history_free(ot_history *h)
{
    json_decref(h->start);
    json_decref(h->end);
    json_decref(h->evals);
    *h = (ot_history){ .at = 0 };
}

typedef struct visit {
    void (*each)(void *, const char *, double);
    void *user;
    int left; /* calls */
} visit;

static void numbers(const char *prefix, json_t *object, visit *to)
{
    const char *key;
    json_t *v;
    char name[512];
    json_object_foreach(object, key, v)
    {
        if (!strcmp(key, "step") || !strcmp(key, "epoch") || !strcmp(key, "samples") || !strcmp(key, "nonfinite"))
            continue;
        snprintf(name, sizeof name, "%s%s", prefix, key);
        bool number = json_is_number(v) || json_is_null(v);
        if (number && to->left-- <= 0) return;
        if (number) to->each(to->user, name, json_is_number(v) ? json_number_value(v) : (double)NAN);
        snprintf(name, sizeof name, "%s%s/", prefix, key);
        if (json_is_object(v)) numbers(name, v, to);
    }
}

void ot_history_numbers(json_t *eval, void (*each)(void *, const char *, double), void *user)
{
    if (eval) numbers("", eval, &(visit){ each, user, OT_MOST_NUMBERS });
}

typedef struct wanted {
    const char *name;
    double value;
} wanted;

static void take_value(void *user, const char *name, double v)
{
    wanted *w = user;
    if (!strcmp(w->name, name)) w->value = v;
}

double ot_history_number(json_t *eval, const char *name)
{
    wanted w = { name, NAN };
    ot_history_numbers(eval, take_value, &w);
    return w.value;
}

const json_t *ot_history_best(const ot_history *h)
{
    for (size_t i = json_array_size(h->evals); i-- > 0;) {
        const json_t *e = json_array_get(h->evals, i);
        if (json_object_get(e, "best")) return e;
    }
    return NULL;
}
