/* log.h - the log of a run: JSON lines. */
#ifndef OT_LOG_H
#define OT_LOG_H

#include "runtime/base/json.h"

/* One of the files that get every line, as the callback does.  The first error is kept; the other files are still
 * written. */
typedef struct ot_log_file {
    char *path;   /* NULL: none */
    char *buffer; /* lines that are not written yet */
    size_t n;
    int fd;
    bool bad; /* a write failed: the rest would begin in the middle of a line */
} ot_log_file;

struct ot_events;

typedef struct ot_log {
    ot_log_file file[2];
    double flushed; /* seconds at which the files were last flushed */
    void *user;
    void (*line)(void *user, const char *line, size_t n);
    int n_heads; /* single losses of every step */
    char **head; /* their names, as JSON */
    char *room;  /* for a line of a step with them */
    size_t room_size;
    json_t *eval;             /* the last evaluation, until ot_log_take_eval; NULL: none */
    double lr;                /* of the last step; NaN: none */
    struct ot_events *events; /* for TensorBoard; NULL: none; ot_log_close closes it */
    ot_error err;
} ot_log;

typedef struct ot_log_step {
    int64_t step, epoch, samples;
    double loss, lr, grad_norm, seconds; /* grad_norm: omitted without has_norm */
    bool has_norm;
    const double *head; /* single losses, as many as were named; NULL: none */
} ot_log_step;

ot_status ot_log_add(ot_log *l, int fd, const char *path, ot_error *err); /* adds a file, open and empty; takes fd */
ot_status ot_log_close(ot_log *l, ot_error *err);                         /* also reports earlier errors */

void ot_log_sync(ot_log *l);                     /* writes all lines to the disk */
int64_t ot_log_position(const ot_log *l, int i); /* bytes of file i; -1: none, or not a regular file */

void ot_log_name_heads(ot_log *l, int n, const char *const *names); /* once, before the first step; names are copied */
void ot_log_write_step(ot_log *l, const ot_log_step *s);
json_t *ot_log_take_eval(ot_log *l);         /* the caller owns it; NULL: none */
void ot_log_write(ot_log *l, json_t *event); /* takes the reference; NULL: no memory, recorded */

/* Writes a field of CSV: in quotes if it has a comma, a quote or a line break. */
void ot_csv_text(const char *text, FILE *f);

#endif
