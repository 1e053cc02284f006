/* report_samples.h - the parts of a report about classes and single samples, from the run folder's evaluation.json. */
#ifndef OT_REPORT_SAMPLES_H
#define OT_REPORT_SAMPLES_H

#include <jansson.h>

#include "runtime/picture/draw.h"

/* *out NULL: there is none, or none that can be read.  Errors: OT_E_NOMEM. */
ot_status ot_samples_read(int folder, const char *shown, json_t **out, ot_error *err);

/* Whether it has a confusion matrix that can be drawn: of two classes at least, and not of many. */
bool ot_samples_has_confusion(const json_t *evaluation);

/* The matrix to draw.  Borrows the evaluation and room, which it fills. */
typedef struct ot_confusion {
    const json_t *of;
    size_t n;            /* classes */
    int cell, left, top; /* pixels */
} ot_confusion;
ot_sketch ot_samples_confusion(const json_t *evaluation, ot_confusion *room);

/* Confusion matrix, table of the classes, worst samples, each with a head. */
void ot_samples_print(const json_t *evaluation, FILE *f);

#endif
