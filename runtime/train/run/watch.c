/* watch.c - epochs.csv, a row per epoch.
 *
 * The columns are those of the first evaluation: "val_loss", "val_accuracy", "val_losses/OUTPUT".  A resumed run continues
 * with the columns of the file. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/history.h"
#include "runtime/train/run/watch.h"

enum { NAME = 600, FIXED_BEFORE = 4, LARGEST = 1 << 26 };

/* ---- the numbers of an evaluation ---------------------------------------------------- */

/* A field of CSV: in quotes where it holds a comma, a quote or a line's end. */
static void quote(const char *text, char out[2 * NAME + 3])
{
    char *to = out;
    bool needs = text[strcspn(text, ",\"\n\r")];
    if (needs) *to++ = '"';
    for (; *text; text++) {
        if (*text == '"') *to++ = '"';
        *to++ = *text;
    }
    if (needs) *to++ = '"';
    *to = '\0';
}

typedef struct naming {
    const char *split;
    void (*each)(void *user, const char *name, double v);
    void *user;
} naming;

static void name_it(void *user, const char *name, double v)
{
    naming *n = user;
    char whole[NAME], field[2 * NAME + 3];
    snprintf(whole, sizeof whole, "%s_%s", n->split, name);
    quote(whole, field);
    n->each(n->user, field, v);
}

/* Calls each for every number of an evaluation, by the name of its column. */
static void each_of(json_t *eval, void (*each)(void *, const char *, double), void *user)
{
    const char *split = json_string_value(json_object_get(eval, "split"));
    ot_history_numbers(eval, name_it, &(naming){ split ? split : "eval", each, user });
}

/* ---- the header ------------------------------------------------------------------------ */

static bool add_column(ot_epoch_table *w, const char *from, size_t n)
{
    char **more = realloc(w->column, (size_t)(w->n + 1) * sizeof *more), *own = more ? strndup(from, n) : NULL;
    if (more) w->column = more;
    if (own) w->column[w->n++] = own;
    else ot_fail(&w->err, OT_E_NOMEM, "%s: no memory", w->path);
    return own;
}

static void new_column(void *user, const char *name, double v)
{
    (void)v;
    add_column(user, name, strlen(name));
}

/* End of the field at s: a comma outside of quotes, or the line's end. */
static const char *field_end(const char *s, const char *end)
{
    for (bool quoted = false; s < end && (quoted || *s != ','); s++)
        if (*s == '"') quoted = !quoted;
    return s;
}

static void read_header(ot_epoch_table *w, const char *line, const char *end)
{
    int at = 0;
    for (const char *s = line; s <= end && !w->err.status; at++) {
        const char *stop = field_end(s, end);
        if (at >= FIXED_BEFORE && stop < end) add_column(w, s, (size_t)(stop - s)); /* the last one is the seconds */
        s = stop + 1;
    }
    w->headed = true;
}

/* Drops the rows of epochs after `after`, and a row that is not complete. */
static ot_status keep_rows(ot_epoch_table *w, int64_t after, ot_error *err)
{
    void *bytes = NULL;
    size_t n = 0, keep = 0;
    OT_TRY(ot_read_open(w->fd, w->path, LARGEST, &bytes, &n, err));
    const char *text = bytes;
    for (size_t at = 0; at < n;) {
        const char *stop = memchr(text + at, '\n', n - at);
        if (!stop) break;
        if (at == 0) read_header(w, text, stop);
        else if (strtoll(text + at, NULL, 10) > after) break;
        at = keep = (size_t)(stop - text) + 1;
    }
    free(bytes);
    if (ot_truncate(w->fd, (int64_t)keep) || lseek(w->fd, 0, SEEK_END) < 0)
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be truncated: %s", w->path, strerror(errno));
    return OT_OK;
}

/* ---- the file ----------------------------------------------------------------------------- */

ot_status ot_epoch_table_open(ot_epoch_table *w, int folder, const char *shown, int64_t after, ot_error *err)
{
    int fresh = after ? 0 : O_TRUNC;
    *w =
        (ot_epoch_table){ .fd = openat(folder, "epochs.csv", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | fresh, 0666) };
    if (w->fd < 0)
        return ot_fail(err, ot_failed_call(errno), "%s/epochs.csv: cannot be opened: %s", shown, strerror(errno));
    if (asprintf(&w->path, "%s/epochs.csv", shown) < 0) {
        w->path = NULL;
        close(w->fd);
        return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    }
    return after ? keep_rows(w, after, err) : OT_OK;
}

typedef struct cell {
    const char *name;
    double value;
} cell;

static void find_value(void *user, const char *name, double v)
{
    cell *c = user;
    if (!strcmp(c->name, name)) c->value = v;
}

static void print_number(FILE *f, double v)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", v);
    for (char *c = text; *c; c++)
        if (*c == ',') *c = '.'; /* of the locale */
    fprintf(f, ",%s", isnan(v) ? "" : text);
}

void ot_epoch_table_row(ot_epoch_table *w, int64_t epoch, int64_t step, double lr, double train_loss, json_t *eval,
                        double seconds)
{
    char *text = NULL;
    size_t size = 0;
    if (!w->path || w->err.status) return;
    FILE *f = open_memstream(&text, &size);
    if (!w->headed) each_of(eval, new_column, w);
    if (f && !w->headed) {
        fputs("epoch,step,lr,train_loss", f);
        for (int i = 0; i < w->n; i++) fprintf(f, ",%s", w->column[i]);
        fputs(",seconds\n", f);
    }
    w->headed = true;
    if (f) {
        fprintf(f, "%lld,%lld", (long long)epoch, (long long)step);
        print_number(f, lr);
        print_number(f, train_loss);
        for (int i = 0; i < w->n; i++) {
            cell c = { w->column[i], NAN };
            each_of(eval, find_value, &c);
            print_number(f, c.value);
        }
        print_number(f, seconds);
        fputc('\n', f);
    }
    if (!f || !ot_memstream_close(f)) ot_fail(&w->err, OT_E_NOMEM, "%s: no memory", w->path);
    for (size_t at = 0; at < size && !w->err.status;) {
        ssize_t done = write(w->fd, text + at, size - at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) ot_fail(&w->err, ot_failed_call(errno), "%s: cannot be written: %s", w->path, strerror(errno));
        else at += (size_t)done;
    }
    free(text);
}

ot_status ot_epoch_table_close(ot_epoch_table *w, ot_error *err)
{
    if (!w->path) return OT_OK;
    if (close(w->fd) && errno != EINTR)
        ot_fail(&w->err, ot_failed_call(errno), "%s: cannot be written: %s", w->path, strerror(errno));
    ot_status s = w->err.status ? ot_fail(err, w->err.status, "%s", w->err.text) : OT_OK;
    for (int i = 0; i < w->n; i++) free(w->column[i]);
    free(w->column);
    free(w->path);
    *w = (ot_epoch_table){ .fd = -1 };
    return s;
}
