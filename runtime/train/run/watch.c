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

enum { FIXED_BEFORE = 4, LARGEST = 1 << 26 };

/* ---- the header ------------------------------------------------------------------------ */

/* Takes ownership of name; NULL: no memory. */
static void add_column(ot_epoch_table *w, char *name)
{
    char **more = name ? realloc(w->column, (size_t)(w->n + 1) * sizeof *more) : NULL;
    if (more) w->column = more;
    if (more) w->column[w->n++] = name;
    else free(name), ot_fail(&w->err, OT_E_NOMEM, "%s: no memory", w->path);
}

static const char *split_of(const json_t *eval)
{
    const char *split = json_string_value(json_object_get(eval, "split"));
    return split ? split : "eval";
}

typedef struct naming {
    ot_epoch_table *w;
    const char *split;
} naming;

static void new_column(void *user, const char *name, double v)
{
    const naming *n = user;
    char *whole = NULL;
    (void)v;
    if (asprintf(&whole, "%s_%s", n->split, name) < 0) whole = NULL;
    add_column(n->w, whole);
}

/* End of the field at s: a comma outside of quotes, or the line's end. */
static const char *field_end(const char *s, const char *end)
{
    for (bool quoted = false; s < end && (quoted || *s != ','); s++)
        if (*s == '"') quoted = !quoted;
    return s;
}

/* The text of a field, malloc'ed: of two quotes one stays, of one none. */
static char *field_text(const char *s, const char *stop)
{
    char *text = malloc((size_t)(stop - s) + 1), *to = text;
    for (; text && s < stop; s++) {
        if (*s == '"' && s + 1 < stop && s[1] == '"') *to++ = *s++;
        else if (*s != '"') *to++ = *s;
    }
    if (text) *to = '\0';
    return text;
}

static void read_header(ot_epoch_table *w, const char *line, const char *end)
{
    int at = 0;
    for (const char *s = line; s <= end && !w->err.status; at++) {
        const char *stop = field_end(s, end);
        if (at == FIXED_BEFORE + OT_MOST_NUMBERS) break;
        if (at >= FIXED_BEFORE && stop < end) add_column(w, field_text(s, stop)); /* the last one is the seconds */
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

/* Of the evaluation, by the name of its column; NaN: it has none. */
static double value_of(json_t *eval, const char *column)
{
    const char *split = split_of(eval);
    size_t n = strlen(split);
    bool own = !strncmp(column, split, n) && column[n] == '_';
    return own ? ot_history_number(eval, column + n + 1) : (double)NAN;
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
    if (!w->headed) ot_history_numbers(eval, new_column, &(naming){ w, split_of(eval) });
    if (f && !w->headed) {
        fputs("epoch,step,lr,train_loss", f);
        for (int i = 0; i < w->n; i++) fputc(',', f), ot_csv_text(w->column[i], f);
        fputs(",seconds\n", f);
    }
    w->headed = true;
    if (f) {
        fprintf(f, "%lld,%lld", (long long)epoch, (long long)step);
        print_number(f, lr);
        print_number(f, train_loss);
        for (int i = 0; i < w->n; i++) print_number(f, value_of(eval, w->column[i]));
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
