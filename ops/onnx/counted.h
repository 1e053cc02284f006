/* counted.h - operators that are computed while shapes are inferred, because how large their results are depends on elements
 * of the inputs. */
#ifndef OT_COUNTED_H
#define OT_COUNTED_H

#include "ops/op.h"

/* Takes `work` elements' worth of what folding may cost for n's graph; false: there is not that much left. */
bool ot_counted_afford(const ot_node *n, int64_t work);
ot_status ot_counted_too_long(const ot_node *n, ot_error *err);

/* Makes output i a constant of that type and shape and returns its bytes, which the caller fills.  NULL: the output
 * is not read, or *s is the reason; does nothing if *s is an error already. */
void *ot_counted_output(ot_node *n, int i, ot_dtype t, const ot_shape *y, ot_status *s, ot_error *err);

/* ot_op.lower: the outputs are constants already. */
void ot_counted_lower(ot_build *b);

#endif
