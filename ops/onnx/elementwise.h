/* elementwise.h - shapes, types and lowering to Map of ONNX's element-wise operators. */
#ifndef OT_ELEMENTWISE_H
#define OT_ELEMENTWISE_H

#include "ops/kernels/map.h"

/* Parameters of functions.h. */
typedef struct ot_fn_attrs {
    double p, q;
} ot_fn_attrs;

/* y: the broadcast shape of all inputs.  Strings are refused. */
ot_status ot_elementwise_infer(ot_node *n, ot_error *err);       /* y: type of the first input; all alike */
ot_status ot_elementwise_infer_truth(ot_node *n, ot_error *err); /* y: bool; inputs have one type */

/* The lowering of an operator that is one function: all inputs, and parameters from ot_fn_attrs if it has any. */
void ot_elementwise_lower(ot_build *b, int row);

#endif
