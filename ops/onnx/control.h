/* control.h - attributes of control flow. */
#ifndef OT_CONTROL_H
#define OT_CONTROL_H

#include "ops/op.h"

/* The element type of an output of a subgraph: as inferred, else as the file tells it; OT_UNDEFINED: neither. */
static inline ot_dtype ot_declared(const ot_value *v) { return v->dtype != OT_UNDEFINED ? v->dtype : v->declared; }

typedef struct ot_if {
    ot_graph *then_branch, *else_branch;
} ot_if;

/* While the iterations are spelled out one by one, the node stands for the rest of the loop: it carries on
 * where the last one ended. */
typedef struct ot_loop_attrs {
    ot_graph *body;
    int64_t done;            /* iterations spelled out so far */
    int64_t room;            /* iterations that `scanned` has room for */
    ot_value **scanned;      /* done x scan outputs, by iteration */
    const ot_dtype *carried; /* types that the carried values began with; NULL: none is done */
} ot_loop_attrs;

/* Directions: 0 forwards, 1 backwards; axes count from the front of each tensor. */
typedef struct ot_scan_attrs {
    ot_graph *body;
    int64_t num_scan_inputs;
    int64_t batched; /* the form of opset 8 (importer/upgrade.c): a batch axis before all others */
    ot_ints scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions;
} ot_scan_attrs;

#endif
