/* predict_text.h - predictions of samples as lines of CSV and JSON. */
#ifndef OT_PREDICT_TEXT_H
#define OT_PREDICT_TEXT_H

#include <stdio.h>

#include "runtime/losses/tails.h"
#include "runtime/train/feed/preprocess.h"

/* What an output predicts: classes that exclude each other, labels that do not, values; AUTO: not decided yet. */
typedef enum ot_task { OT_TASK_AUTO, OT_TASK_CLASSES, OT_TASK_LABELS, OT_TASK_VALUES } ot_task;

/* One output of the model, sample by sample. */
typedef struct ot_prediction {
    const char *name;
    int output, axis;      /* index in the graph; the axis of the samples */
    int64_t samples, each; /* number of samples; elements of one */
    int64_t places;        /* positions of a sample with a class each; 0: none */
    int64_t classes;       /* scores of a position */
    int64_t inner;         /* positions after the class axis */
    bool by_word;          /* positions are the tokens of a text whose words are known */
    ot_dtype dtype;
    ot_tail_kind tail;
    ot_task task;
    const char *const *class_name; /* NULL: unknown */
    const char *const *column;     /* of values: the columns of the table that were their targets; NULL: unknown */
    bool known;                    /* the elements of a sample are scores of classes, whether these have names or not */
    bool distinct;                 /* no two of the names are equal */
    void *bytes;                   /* of a batch */
    char *all;                     /* NPZ: of all samples */
    ot_shape shape;                /* of all samples, which come first */
    double *v;                     /* of a sample: `each` of them; of classes those of a place after another */
    int64_t *whole;    /* the same of integers and booleans, whose digits a double may not have; else NULL */
    ot_normalize unit; /* of values: of a standardised target; its kind is OT_NORMALIZE_NONE if it is none */
    int64_t *best;     /* the `top` most probable classes of a sample */
} ot_prediction;

/* What lines are made of. */
typedef struct ot_prediction_lines {
    FILE *f;
    ot_prediction *list; /* v has the sample */
    int n;
    int64_t top;              /* classes of a sample */
    const int32_t *word;      /* the place of each word of the sample; -1: it has none */
    int64_t words, most;      /* how many it has, and the sample with the most */
    ot_copied_columns copied; /* columns of the table that come first; none: n is 0 */
    bool to_file;             /* their texts are written as they are; else without control characters */
    const char *sought;       /* NULL: names of columns are written; else it is only noted in *found if one is this */
    bool *found;
} ot_prediction_lines;

/* Gives columns of --copy that have the name of one of the outputs' columns, or of before[0..n), which are written first, the name
 * "copied.NAME".  Errors: OT_E_NOMEM. */
ot_status ot_prediction_name_copies(ot_prediction_lines *x, const char *const *before, int n, ot_arena *a,
                                    ot_error *err);

/* The columns of --copy and of the outputs, each after a comma, and their values; sample: its row in the table.  Classes of equal
 * probability come in their order. */
void ot_prediction_head(const ot_prediction_lines *x);
void ot_prediction_row(const ot_prediction_lines *x, int64_t sample);

/* An object of the sample, with its line (0: none) and its file (NULL: none).  The caller frees *text.  Errors: OT_E_NOMEM. */
ot_status ot_prediction_json(const ot_prediction_lines *x, int64_t sample, int64_t line, const char *file, char **text,
                             ot_error *err);

#endif
