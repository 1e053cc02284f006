/* elementwise.h - what the element-wise operators of ONNX share: shapes, types, and the lowering to Map. */
#ifndef OT_ELEMENTWISE_H
#define OT_ELEMENTWISE_H

#include "ops/kernels/map.h"

/* Attributes as functions.h knows them. */
typedef struct ot_fn_attrs {
    double p, q;
} ot_fn_attrs;

/* y: the broadcast shape of all inputs.  Strings are refused. */
ot_status ot_elementwise_infer(ot_node *n, ot_error *err);       /* y: type of the first input; all alike */
ot_status ot_elementwise_infer_truth(ot_node *n, ot_error *err); /* y: bool; inputs alike */

/* The lowering of an operator that is one row: all inputs, parameters from ot_fn_attrs if it has any. */
void ot_elementwise_lower(ot_build *b, int row);

#endif
