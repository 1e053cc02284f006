/* history.h - a run as its log tells it, for reports and comparisons. */
#ifndef OT_HISTORY_H
#define OT_HISTORY_H

#include <jansson.h>

#include "runtime/base/base.h"

enum { OT_CURVE_POINTS = 1000, OT_MOST_NUMBERS = 1000 };

/* At most that many points, each the mean of `stride` values one after another. */
typedef struct ot_curve {
    int n;
    int64_t stride, count; /* values in a point, and in the one that is not complete yet */
    double sum_x, sum_y;
    double x[OT_CURVE_POINTS], y[OT_CURVE_POINTS];
} ot_curve;

typedef struct ot_history {
    int64_t at;                  /* bytes of the log that are read */
    json_t *start, *end, *evals; /* NULL start, end: not yet there; evals: a list */
    ot_curve loss, rate, norm;   /* over steps */
    ot_curve speed;              /* samples per second of the updates, over steps */
    double since, samples;       /* the point of `speed` that is not complete: from that second on; NaN: not begun */
    int64_t step, epoch;
    double seconds;
} ot_history;

/* What has been added to log.jsonl of the open run folder since the last call; h begins as {0}.
 * Errors: OT_E_IO, OT_E_USAGE (no log), OT_E_NOMEM. */
ot_status ot_history_read(ot_history *h, int folder, const char *shown, ot_error *err);
void ot_history_free(ot_history *h);
bool ot_history_is_empty(const ot_history *h); /* nothing that was read is of a run */

/* Calls each for every number of an evaluation, OT_MOST_NUMBERS at most: "loss", "accuracy", "losses/OUTPUT". */
void ot_history_numbers(json_t *eval, void (*each)(void *user, const char *name, double v), void *user);

/* The number of that name; NaN: it has none. */
double ot_history_number(json_t *eval, const char *name);

/* The evaluation of the best epoch, whose "best" tells by what ("val accuracy"); NULL: there is none. */
const json_t *ot_history_best(const ot_history *h);

#endif
