/* report_samples.h - the parts of a report about classes and single samples, from the run folder's evaluation.json. */
#ifndef OT_REPORT_SAMPLES_H
#define OT_REPORT_SAMPLES_H

#include <jansson.h>
#include <stdio.h>

#include "runtime/base/base.h"

/* *out NULL: there is none, or none that can be read.  Errors: OT_E_NOMEM. */
ot_status ot_samples_read(int folder, const char *shown, json_t **out, ot_error *err);

void ot_samples_confusion(const json_t *evaluation, bool file,
                          FILE *f); /* one <svg>; nothing: there are no classes, or many */
bool ot_samples_has_confusion(const json_t *evaluation);

/* Confusion matrix, table of the classes, worst samples, each with a head. */
void ot_samples_print(const json_t *evaluation, FILE *f);

#endif
