/* predict_outputs.h - what each output of a model predicts for a sample. */
#ifndef OT_PREDICT_OUTPUTS_H
#define OT_PREDICT_OUTPUTS_H

#include "runtime/train/commands/predict_text.h"
#include "runtime/train/run/trainer.h"

/* How predictions are written.  OT_FORM_LINES: JSON lines; OT_FORM_MASKS: an image for each sample, in a folder. */
typedef enum ot_prediction_form {
    OT_FORM_CSV,
    OT_FORM_JSON,
    OT_FORM_LINES,
    OT_FORM_NPZ,
    OT_FORM_MASKS
} ot_prediction_form;

ot_task ot_task_asked(const ot_options *o); /* --task */

/* Sets x->list and x->n to the outputs with a value for each sample, and x->most; x->top is set.  Warns about the others.  t: its
 * prediction is open; its arena has the results.  runs: for the command run, which has neither --task nor --top.
 * Errors: OT_E_MODEL: there are none; OT_E_USAGE: --task or --top do not fit them, or a sample has too many values for the form;
 * OT_E_NOMEM. */
ot_status ot_predictions_open(ot_trainer *t, ot_prediction_form form, const ot_options *o, bool runs,
                              ot_prediction_lines *x, ot_error *err);

/* Sets a->unit if the model learnt a standardised target, so that values are written in the unit of the data.  npz: they are written as
 * the model computes them, and a message names the unit. */
void ot_prediction_find_unit(ot_trainer *t, bool npz, ot_prediction *a);

/* The feeder of the first input of images; NULL: there is none. */
const ot_feeder *ot_prediction_images(const ot_trainer *t);

#endif
