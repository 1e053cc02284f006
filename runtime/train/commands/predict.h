/* predict.h - what commands besides predict need of it. */
#ifndef OT_PREDICT_H
#define OT_PREDICT_H

#include "runtime/train/run/trainer.h"

/* `run` for data of which images are in files: batch by batch, all outputs with a value for each sample to the .npz that -o
 * names. */
ot_status ot_run_images(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

#endif
