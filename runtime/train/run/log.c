/* log.c - the log of a run: JSON lines.
 *
 * A step's line is written without building an object, and files are flushed at most once a second,
 * so that a run of a hundred microseconds a step does not notice its log. */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/events.h"
#include "runtime/train/run/log.h"

enum { BUFFER = 64 << 10 };

#define REASON(number) strerror_r((number), (char[128]){ 0 }, 128)

ot_status ot_log_add(ot_log *l, int fd, const char *path, ot_error *err)
{
    ot_log_file *f = &l->file[l->file[0].path ? 1 : 0];
    ot_status s = f->path ? ot_fail(err, OT_E_INTERNAL, "internal error: a log has at most two files") : OT_OK;
    ot_log_file own = { .path = s ? NULL : strdup(path), .buffer = s ? NULL : malloc(BUFFER), .fd = fd };
    if (!s && own.path && own.buffer) {
        *f = own;
        return OT_OK;
    }
    free(own.path);
    free(own.buffer);
    close(fd);
    return s ? s : ot_fail(err, OT_E_NOMEM, "no memory for the log");
}

static void write_out(ot_log *l, ot_log_file *f, const char *p, size_t n)
{
    while (n && !f->bad) {
        ssize_t done = write(f->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            f->bad = true;
            ot_fail(&l->err, ot_failed_call(done < 0 ? errno : ENOSPC), "%s: cannot be written: %s", f->path,
                    REASON(done < 0 ? errno : ENOSPC));
            return;
        }
        p += done;
        n -= (size_t)done;
    }
}

static void flush(ot_log *l, ot_log_file *f)
{
    write_out(l, f, f->buffer, f->n);
    f->n = 0;
}

ot_status ot_log_close(ot_log *l, ot_error *err)
{
    for (int i = 0; i < 2; i++) {
        ot_log_file *f = &l->file[i];
        if (!f->path) continue;
        flush(l, f);
        if (close(f->fd) && errno != EINTR)
            ot_fail(&l->err, ot_failed_call(errno), "%s: cannot be written: %s", f->path, REASON(errno));
        free(f->path);
        free(f->buffer);
        *f = (ot_log_file){ .path = NULL };
    }
    json_decref(ot_log_take_eval(l));
    ot_events_close(l->events, &l->err);
    l->events = NULL;
    for (int i = 0; i < l->n_heads; i++) free(l->head[i]);
    free(l->head);
    free(l->room);
    l->head = NULL;
    l->room = NULL;
    l->n_heads = 0;
    ot_status s = l->err.status ? ot_fail(err, l->err.status, "%s", l->err.text) : OT_OK;
    l->err = (ot_error){ 0 };
    return s;
}

static void put(ot_log *l, const char *line, size_t n)
{
    for (int i = 0; i < 2; i++) {
        ot_log_file *f = &l->file[i];
        if (!f->path) continue;
        if (n > BUFFER - f->n) flush(l, f);
        if (n > BUFFER) {
            write_out(l, f, line, n);
            continue;
        }
        memcpy(f->buffer + f->n, line, n);
        f->n += n;
    }
    if (l->line) l->line(l->user, line, n);
}

static void flush_all(ot_log *l)
{
    for (int i = 0; i < 2; i++)
        if (l->file[i].path) flush(l, &l->file[i]);
    if (l->events) ot_events_flush(l->events);
}

void ot_log_sync(ot_log *l)
{
    flush_all(l);
    for (int i = 0; i < 2; i++)
        if (l->file[i].path) (void)fdatasync(l->file[i].fd); /* pipes and devices have nothing to sync */
}

int64_t ot_log_position(const ot_log *l, int i)
{
    return l->file[i].path ? (int64_t)lseek(l->file[i].fd, 0, SEEK_CUR) : -1;
}

/* A line that is being formatted. */
typedef struct writer {
    char *text;
    size_t n, size;
} writer;

enum { STEP_LINE = 640, NUMBER = 32 }; /* the longest "%.9f" has 320 characters, "%.9g" 16 */

static void add(writer *w, const char *fmt, ...) OT_PRINTF(2, 3);

static void add(writer *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(w->text + w->n, w->size - w->n, fmt, ap);
    va_end(ap);
    w->n += n > 0 ? (size_t)n : 0;
    if (w->n >= w->size) w->n = w->size - 1;
}

static const char *nonfinite(double v) { return isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"; }

/* v in C's notation whatever the locale, or null. */
static void add_value(writer *w, bool fixed, int digits, double v)
{
    size_t from = w->n;
    if (!isfinite(v)) add(w, "null");
    else if (fixed) add(w, "%.*f", digits, v);
    else add(w, "%.*g", digits, v);
    for (; from < w->n; from++)
        if (w->text[from] == ',') w->text[from] = '.';
}

static void add_number(writer *w, const char *key, bool fixed, int digits, double v)
{
    add(w, ",\"%s\":", key);
    add_value(w, fixed, digits, v);
}

void ot_log_name_heads(ot_log *l, int n, const char *const *names)
{
    size_t size = STEP_LINE;
    l->head = n ? calloc((size_t)n, sizeof *l->head) : NULL;
    for (int i = 0; l->head && i < n; i++) {
        json_t *name = ot_json_text(names[i]);
        l->head[i] = ot_json_dump(name, JSON_ENCODE_ANY);
        json_decref(name);
        if (!l->head[i]) break;
        size += strlen(l->head[i]) + NUMBER;
        l->n_heads++;
    }
    l->room = malloc(l->room_size = size);
    if (l->n_heads < n || !l->room) ot_fail(&l->err, OT_E_NOMEM, "no memory for the log");
}

void ot_log_write_step(ot_log *l, const ot_log_step *s)
{
    char small[STEP_LINE];
    bool heads = s->head && l->n_heads && l->room;
    writer w = { .text = heads ? l->room : small, .size = heads ? l->room_size : sizeof small };
    add(&w, "{\"event\":\"step\",\"step\":%lld,\"epoch\":%lld", (long long)s->step, (long long)s->epoch);
    add_number(&w, "loss", false, 9, s->loss);
    for (int i = 0; heads && i < l->n_heads; i++) {
        add(&w, "%s%s:", i ? "," : ",\"losses\":{", l->head[i]);
        add_value(&w, false, 9, s->head[i]);
    }
    if (heads) add(&w, "}");
    add_number(&w, "lr", false, 12, s->lr);
    if (s->has_norm) add_number(&w, "grad_norm", false, 9, s->grad_norm);
    add(&w, ",\"samples\":%lld", (long long)s->samples);
    add_number(&w, "seconds", true, 9, s->seconds);
    bool bad_loss = !isfinite(s->loss), bad_norm = s->has_norm && !isfinite(s->grad_norm);
    if (bad_loss || bad_norm) {
        add(&w, ",\"nonfinite\":{");
        if (bad_loss) add(&w, "\"loss\":\"%s\"", nonfinite(s->loss));
        if (bad_norm) add(&w, "%s\"grad_norm\":\"%s\"", bad_loss ? "," : "", nonfinite(s->grad_norm));
        add(&w, "}");
    }
    add(&w, "}\n");
    put(l, w.text, w.n);
    l->lr = s->lr;
    if (l->events) ot_events_step(l->events, s, heads ? l->n_heads : 0, l->head);
    if (s->seconds - l->flushed < 1) return;
    l->flushed = s->seconds;
    flush_all(l);
}

void ot_csv_text(const char *text, FILE *f)
{
    size_t n = strlen(text);
    bool blanks = n && (text[0] == ' ' || text[n - 1] == ' '); /* readers trim what is not quoted */
    bool quotes = blanks || text[strcspn(text, ",\"\n\r")];
    if (quotes) fputc('"', f);
    for (; *text; text++) {
        if (*text == '"') fputc('"', f);
        fputc(*text, f);
    }
    if (quotes) fputc('"', f);
}

json_t *ot_log_take_eval(ot_log *l)
{
    json_t *e = l->eval;
    l->eval = NULL;
    return e;
}

void ot_log_write(ot_log *l, json_t *event)
{
    char *text = ot_json_dump(event, JSON_COMPACT | JSON_REAL_PRECISION(12)), *line = NULL;
    int n = text ? asprintf(&line, "%s\n", text) : -1;
    if (n >= 0 && l->events) ot_events_line(l->events, event);
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (kind && !strcmp(kind, "eval")) {
        json_decref(l->eval);
        l->eval = json_incref(event);
    }
    json_decref(event);
    free(text);
    if (n < 0) {
        ot_fail(&l->err, OT_E_NOMEM, "no memory for the log");
        return;
    }
    put(l, line, (size_t)n);
    free(line);
    flush_all(l);
}
