/* convolve_pixels.h - the weights' gradient of a convolution of pictures so tiny that most of a window is padding. */
#ifndef OT_CPU_CONVOLVE_PIXELS_H
#define OT_CPU_CONVOLVE_PIXELS_H

#include "ops/cpu/onednn.h"

typedef struct ot_pixels_dw ot_pixels_dw;

/* For a convolution that ot_rows_pixels_pay() names, and an instruction set that this machine has (OT_CPU_*).  The workspace is added to
 * p->work.  free() releases *out.  Errors: OT_E_NOMEM. */
ot_status ot_pixels_dw_new(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, ot_pixels_dw **out);

void ot_pixels_dw_run(const ot_pixels_dw *s, const ot_call *c);

#endif
