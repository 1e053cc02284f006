/* counted.h - operators that are computed while shapes are inferred, because how large their results are depends on elements
 * of the inputs. */
#ifndef OT_COUNTED_H
#define OT_COUNTED_H

#include "ops/op.h"

/* Takes `work` elements' worth of what folding may cost for n's graph; false: there is not that much left. */
bool ot_counted_afford(const ot_node *n, int64_t work);
ot_status ot_counted_too_long(const ot_node *n, ot_error *err);

/* Output i becomes a constant of that type and shape; its bytes, which the caller fills.  NULL: nothing reads it, or *s says why not;
 * does nothing where *s is an error already. */
void *ot_counted_output(ot_node *n, int i, ot_dtype t, const ot_shape *y, ot_status *s, ot_error *err);

/* ot_op.lower: the outputs are constants already. */
void ot_counted_lower(ot_build *b);

#endif
