/* lossscale.h - the scale of the loss under fp16: where autodiff and the optimizer meet it. */
#ifndef OT_LOSSSCALE_H
#define OT_LOSSSCALE_H

#include "ops/op.h"
#include "runtime/passes/passes.h"

/* dL/dL: 1, or the scale.  Sets p->loss_scale where it is state. */
ot_value *ot_loss_seed(ot_plan *p, const ot_config *c, ot_build *b);

/* Gradients that are looked at are divided by the scale that the loss had. */
void ot_loss_unscale_all(ot_plan *p, const ot_config *c, ot_build *b);

/* The next scale.  ok: every gradient is finite. */
void ot_loss_scale_update(ot_plan *p, ot_build *b, ot_value *ok);

#endif
