/* meter.h - metrics of the predictions of one output, accumulated batch by batch. */
#ifndef OT_METER_H
#define OT_METER_H

#include "runtime/base/base.h"

/* What an output predicts: scores of classes along an axis, a binary decision per element, or values. */
typedef enum ot_meter_kind { OT_METER_CLASSES, OT_METER_BINARY, OT_METER_VALUES } ot_meter_kind;

/* The scale of its scores. */
typedef enum ot_meter_scale { OT_SCALE_LOGITS, OT_SCALE_PROBABILITIES, OT_SCALE_LOGS } ot_meter_scale;

enum { OT_MOST_CONFUSED = 100 }; /* classes of a confusion matrix */

typedef struct ot_meter {
    ot_meter_kind kind;
    ot_meter_scale scale;
    int64_t classes, inner; /* CLASSES: an output is (rows, classes, inner), its target (rows, inner) */
    int64_t columns;        /* VALUES: an output is (rows, columns) */
    int64_t labels;     /* BINARY: an output is (rows, labels), each label separate; 1: all elements are one label */
    const double *unit; /* VALUES: of column c, unit[c % units] is 1 in the unit of the data; NULL: 1 */
    int units;
    bool exponential;           /* VALUES: the prediction is exp of the output */
    bool mask, text;            /* one class per pixel; one per element of a sequence */
    int64_t n;                  /* predictions with a valid label, or rows */
    int64_t odd, odd_yes;       /* those with a score of NaN; BINARY: those of them whose target is class 1 */
    int64_t *right, *said, *is; /* by class: correct predictions, predictions, targets.  BINARY: of class 1, by label */
    int64_t *confusion; /* CLASSES: (classes, classes), [target][prediction]; NULL: more than OT_MOST_CONFUSED */
    int64_t in_five;    /* CLASSES: the label is among the five highest scores */
    int64_t shares;     /* CLASSES: predictions whose scores are from 0 to 1 and add up to 1 */
    double log_loss;    /* sum */
    /* By column: sums of |y - t| and (y - t)^2, mean of t, sum of its squared deviations. */
    double *off, *square, *mean, *spread;
    double *score; /* (n, classes) probabilities, for AUC; BINARY: (n) */
    int64_t *label, room;
    struct ot_ranked *ranked; /* (n) scratch: the scores of one class, sorted */
    bool ranks;               /* score and label are kept */
} ot_meter;

/* One prediction compared with its target. */
typedef struct ot_judged {
    int64_t label, best; /* classes: of the target, with the highest score; BINARY: 0 or 1 */
    int64_t above;       /* CLASSES: number of scores above that of `label` */
    int64_t at;          /* CLASSES: element of the first score; the others follow by `inner` */
    double most, sum;    /* CLASSES: the highest score; the divisor that turns scores into probabilities */
    double probability;  /* of `best` */
    double loss;         /* minus the logarithm of the probability of `label` */
    bool shares;         /* CLASSES: the scores are from 0 to 1 and add up to 1 */
    bool odd;            /* a score is NaN: the prediction is wrong, and CLASSES have no `best` */
} ot_judged;

/* Compares element i of the targets t with its scores in y; CLASSES and BINARY only.  false: its label is not a class, and the
 * element is ignored. */
bool ot_meter_judge(const ot_meter *m, const void *y, ot_dtype type, const void *t, ot_dtype target, int64_t i,
                    ot_judged *out);

/* m has kind, scale, classes, inner, columns, labels, mask, text; the rest is zero.  Errors: OT_E_NOMEM. */
ot_status ot_meter_open(ot_meter *m, ot_error *err);
void ot_meter_close(ot_meter *m);

/* Adds predictions y and targets t of `rows` samples.  Labels that are not classes are ignored.  Errors: OT_E_NOMEM. */
ot_status ot_meter_add(ot_meter *m, const void *y, ot_dtype type, const void *t, ot_dtype target, int64_t rows,
                       ot_error *err);

/* VALUES: the prediction for an output of y. */
double ot_meter_prediction(const ot_meter *m, double y);

/* Whether predictions of this kind have metric OT_METRIC_... (loss and accuracy are measured elsewhere). */
bool ot_meter_gives(const ot_meter *m, int metric);

/* Metric OT_METRIC_...; NaN: predictions of this kind have none.  The value does not depend on the division into batches. */
double ot_meter_value(const ot_meter *m, int metric);

/* Number of labels or columns with metrics of their own (0: none); a metric of one of them (NaN: it exists for all together
 * only). */
int64_t ot_meter_parts(const ot_meter *m);
double ot_meter_part(const ot_meter *m, int64_t part, int metric);

/* Precision, recall, F1 of a class, from its correct predictions, predictions and targets; 0 if a divisor is 0. */
void ot_meter_scores(int64_t right, int64_t said, int64_t is, double out[3]);

#endif
