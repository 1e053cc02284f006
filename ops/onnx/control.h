/* control.h - attributes of control flow. */
#ifndef OT_CONTROL_H
#define OT_CONTROL_H

#include "ops/op.h"

/* The element type of an output of a subgraph: inferred, else as declared in the file; OT_UNDEFINED: unknown. */
static inline ot_dtype ot_declared(const ot_value *v) { return v->dtype != OT_UNDEFINED ? v->dtype : v->declared; }

typedef struct ot_if {
    ot_graph *then_branch, *else_branch;
} ot_if;

/* While iterations are unrolled one by one, the node represents the rest of the loop: it continues where the last
 * one ended. */
typedef struct ot_loop_attrs {
    ot_graph *body;
    int64_t done;            /* number of unrolled iterations */
    int64_t room;            /* iterations that `scanned` has space for */
    ot_value **scanned;      /* done x scan outputs, by iteration */
    const ot_dtype *carried; /* initial types of the carried values; NULL: no iteration is unrolled */
} ot_loop_attrs;

/* Directions: 0 forward, 1 backward; axes count from the first axis of each tensor. */
typedef struct ot_scan_attrs {
    ot_graph *body;
    int64_t num_scan_inputs;
    int64_t batched; /* as in opset 8 (importer/upgrade.c): a batch axis before all others */
    ot_ints scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions;
} ot_scan_attrs;

#endif
