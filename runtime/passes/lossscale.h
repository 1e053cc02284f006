/* lossscale.h - the loss scale of fp16 training, shared by autodiff and optimizer. */
#ifndef OT_LOSSSCALE_H
#define OT_LOSSSCALE_H

#include "ops/op.h"
#include "runtime/passes/passes.h"

/* dL/dL: 1, or the scale.  Sets p->loss_scale where it is state. */
ot_value *ot_loss_seed(ot_plan *p, const ot_config *c, ot_build *b);

/* Divides gradients that `onnxtrain grad` returns by the scale of the loss. */
void ot_loss_unscale_all(ot_plan *p, const ot_config *c, ot_build *b);

/* The next scale.  ok: all gradients are finite. */
void ot_loss_scale_update(ot_plan *p, ot_build *b, ot_value *ok);

#endif
