/* convolve_depthwise.h - the weights' gradient of a depthwise convolution. */
#ifndef OT_CPU_CONVOLVE_DEPTHWISE_H
#define OT_CPU_CONVOLVE_DEPTHWISE_H

#include "ops/cpu/onednn.h"

typedef struct ot_depthwise_dw ot_depthwise_dw;

/* Is it one that is computed here, with channels last? */
bool ot_depthwise_dw_can(const ot_conv_call *c);

/* For an instruction set that this machine has (OT_CPU_*).  free() releases *out.  Errors: OT_E_NOMEM. */
ot_status ot_depthwise_dw_new(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, ot_depthwise_dw **out);

void ot_depthwise_dw_run(const ot_depthwise_dw *s, const ot_call *c);

#endif
