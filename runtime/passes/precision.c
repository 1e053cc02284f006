/* precision.c - casts by policy.
 *
 * fp32 computes everything in the type the file says: f64 stays f64, f16 and bf16 stay too, with
 * arithmetic in f32 inside the kernels.  Other policies insert casts here. */
#include "runtime/passes/passes.h"

ot_status ot_pass_precision(ot_plan *p, const ot_config *c)
{
    (void)c;
    return p->graph->err->status;
}
