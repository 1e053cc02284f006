/* meter.h - what the answers of an output are worth, by their targets, collected batch by batch. */
#ifndef OT_METER_H
#define OT_METER_H

#include "runtime/base/base.h"

/* What an output says: scores of classes along an axis, a yes or no per element, or values. */
typedef enum ot_meter_kind { OT_METER_CLASSES, OT_METER_BINARY, OT_METER_VALUES } ot_meter_kind;

/* How its scores are meant. */
typedef enum ot_meter_scale { OT_SCALE_LOGITS, OT_SCALE_PROBABILITIES, OT_SCALE_LOGS } ot_meter_scale;

typedef struct ot_meter {
    ot_meter_kind kind;
    ot_meter_scale scale;
    int64_t classes, inner; /* CLASSES: an output is (rows, classes, inner), its target (rows, inner) */
    int64_t columns;        /* VALUES: an output is (rows, columns) */
    int64_t labels;         /* BINARY: an output is (rows, labels), each a task of its own; 1: all elements are one */
    const double *unit;     /* VALUES: of column c, unit[c % units] is 1 in the unit of the data; NULL: 1 */
    int units;
    bool exponential;           /* VALUES: the prediction is exp of the output */
    bool mask, text;            /* one class per pixel; one per place of a sequence */
    int64_t n;                  /* answers that count, or rows */
    int64_t odd, odd_yes;       /* of them those with a score that is NaN; BINARY: of these the targets of class 1 */
    int64_t *right, *said, *is; /* by class: right answers, answers, targets.  BINARY: of the class 1, by label */
    int64_t in_five;
    int64_t shares;  /* CLASSES: answers whose scores are from 0 to 1 and add up to 1 */
    double log_loss; /* sum */
    double *off, *square, *mean,
        *spread;   /* by column: sums of |y - t| and (y - t)^2, mean of t, sum of its squared deviations */
    double *score; /* (n, classes) probabilities, for AUC; BINARY: (n) */
    int64_t *label, room;
    struct ot_ranked *ranked; /* (n) scratch: the scores of one class, sorted */
    bool ranks;               /* they are kept */
} ot_meter;

/* One answer by its target. */
typedef struct ot_judged {
    int64_t label, best; /* classes: the right one, that with the highest score; BINARY: 0 or 1 */
    int64_t above;       /* CLASSES: how many scores are above the right one's */
    int64_t at;          /* CLASSES: element of the first score; the others follow by `inner` */
    double most, sum;    /* CLASSES: the highest score; what divides the scores into probabilities */
    double probability;  /* of `best` */
    double loss;         /* minus the logarithm of the right one's probability */
    bool shares;         /* CLASSES: the scores are from 0 to 1 and add up to 1 */
    bool odd;            /* a score is NaN: the answer is wrong, and CLASSES have none */
} ot_judged;

/* Element i of the targets t, with its scores in y; CLASSES and BINARY alone.  false: its label is no class, and does not
 * count. */
bool ot_meter_judge(const ot_meter *m, const void *y, ot_dtype type, const void *t, ot_dtype target, int64_t i,
                    ot_judged *out);

/* m has kind, scale, classes, inner, columns, labels, mask, text; the rest is zero.  Errors: OT_E_NOMEM. */
ot_status ot_meter_open(ot_meter *m, ot_error *err);
void ot_meter_close(ot_meter *m);

/* Answers y to targets t, of `rows` samples each.  Labels that are no class do not count. */
ot_status ot_meter_add(ot_meter *m, const void *y, ot_dtype type, const void *t, ot_dtype target, int64_t rows,
                       ot_error *err);

/* VALUES: what an output of y predicts. */
double ot_meter_prediction(const ot_meter *m, double y);

/* Whether such answers have a metric of OT_METRIC_ (loss and accuracy are not measured here). */
bool ot_meter_gives(const ot_meter *m, int metric);

/* One of OT_METRIC_; NaN: it says nothing of such answers.  Any batches give the same number. */
double ot_meter_value(const ot_meter *m, int metric);

/* Labels or columns of values that have metrics of their own: how many (0: there are none); a metric of one of them, NaN if
 * that metric is not of a single one. */
int64_t ot_meter_parts(const ot_meter *m);
double ot_meter_part(const ot_meter *m, int64_t part, int metric);

/* Precision, recall, F1 of a class: of its right answers, answers and targets; 0 where nothing was said or is. */
void ot_meter_scores(int64_t right, int64_t said, int64_t is, double out[3]);

#endif
