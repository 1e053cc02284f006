/* target_scale.h - targets that are values, standardised (--normalize-target). */
#ifndef OT_TARGET_SCALE_H
#define OT_TARGET_SCALE_H

#include "runtime/train/feed/bind_inputs.h"

/* Is it what a linear layer gives: can it be any number? */
bool ot_target_any_number(const ot_adapt_env *e, const ot_output *output);

/* f: a target of values; sets its gather and normalize if it is scaled, and says so.  Errors: OT_E_USAGE: it cannot be. */
ot_status ot_target_scale(const ot_adapt_env *e, const ot_dataset *d, const ot_spec *loss, const ot_output *output,
                          ot_feeder *f, ot_error *err);

#endif
