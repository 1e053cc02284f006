/* convolve_weights.h - kernels of our own for the weights' gradient of a convolution. */
#ifndef OT_CPU_CONVOLVE_WEIGHTS_H
#define OT_CPU_CONVOLVE_WEIGHTS_H

#include "ops/cpu/onednn.h"

typedef struct ot_dw_kernel {
    const char *name;
    bool (*pays)(const ot_conv_call *c); /* is it one that is computed faster here than by oneDNN? */

    /* For a convolution for which it pays, and an instruction set that this machine has (OT_CPU_*).  The workspace is added to p->work.
     * free() releases *state.  Errors: OT_E_NOMEM. */
    ot_status (*prepare)(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, void **state);
    void (*run)(const void *state, const ot_call *c);
} ot_dw_kernel;

/* Pictures so tiny that most of a window is padding; depthwise; few weights, or few channels of y. */
extern const ot_dw_kernel ot_dw_pixels, ot_dw_depthwise, ot_dw_lines;

#endif
