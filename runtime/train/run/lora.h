/* lora.h - --lora: adapters of low rank train, and are merged into the weights when the file is written. */
#ifndef OT_TRAIN_LORA_H
#define OT_TRAIN_LORA_H

#include "exporter/export.h"
#include "runtime/train/run/trainer.h"

/* t->m becomes a copy of the model with adapters (passes/lora.h); they train, with a new last layer of --classes, and nothing
 * else.  Does nothing without the option.  Errors: OT_E_USAGE: no layer gets one. */
ot_status ot_trainer_adapt(ot_trainer *t, ot_error *err);

/* In the list of what changes in the file: W + alpha / rank A B in place of A and B. */
ot_status ot_trainer_merge(const ot_trainer *t, ot_arena *a, ot_export_tensor *list, int *n, ot_error *err);

/* By how much outputs of the written file may differ from the trainer's, in parts of 1 + their size: merged, weights of 16 bits and
 * products of 16 bits are rounded otherwise. */
double ot_trainer_rounding(const ot_trainer *t);

#endif
