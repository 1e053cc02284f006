/* profile.h - --profile: where the time of updates goes, by nodes of the ONNX file. */
#ifndef OT_PROFILE_H
#define OT_PROFILE_H

#include <stdio.h>

#include "runtime/train/run/trainer.h"

/* Measures the machine; nothing without --profile. */
ot_status ot_profile_open(ot_trainer *t, ot_error *err);

/* ot_trainer_update, which is measured when its turn has come; the last one that is measured ends in a table, and in
 * profile.json, profile.csv and trace.json of the run folder. */
ot_status ot_profile_update(ot_trainer *t, int64_t u, ot_error *err);

/* The training ends: what was measured until now, if the table is not there yet. */
ot_status ot_profile_close(ot_trainer *t, ot_error *err);

/* profile_html.c: the section of report.html, from profile.json of the run folder; nothing where there is none. */
void ot_profile_html(int folder, FILE *f);

#endif
