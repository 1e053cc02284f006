/* nodes.h - the kernels of a plan by nodes of the ONNX file: what they compute, move, take, and hold in memory. */
#ifndef OT_NODES_H
#define OT_NODES_H

#include "runtime/exec/exec.h"

typedef struct ot_node_row {
    const char *name; /* of the node; "(loss)", "(data)", "(optimizer)" ... for kernels that belong to none */
    const char *op;   /* its operator; "": it is none of the file */
    char kernels[96]; /* "onednn Convolve, cpu Map" */
    int steps;
    double flops[OT_STAGES], bytes[OT_STAGES]; /* of a batch; UPDATE: of an update */
    double seconds[OT_STAGES];                 /* of an update, measured; 0: not yet */
    int64_t held;                              /* bytes of its results at the peak of the activations */
} ot_node_row;

typedef struct ot_node_table {
    int n, n_steps;
    ot_node_row *row; /* in the order of their first kernels */
    int *of;          /* row of each step: batch steps, then update steps */
    int64_t peak;     /* the most bytes of activations, gradients and workspaces that are live at once */
    int peak_step;    /* when */
} ot_node_table;

/* An update of a weight belongs to the first node of the file that reads the weight; a fused kernel to the last node of
 * those it computes.  In a; names are the plan's and the file's. */
ot_status ot_node_table_new(const ot_graph *file, const ot_plan *p, ot_arena *a, ot_node_table *out, ot_error *err);

/* Those of its rows that hold memory at the peak, the most first; of equal ones the first in the table.  *n: how many.  In a;
 * NULL: no memory. */
const ot_node_row **ot_node_table_held(const ot_node_table *t, ot_arena *a, int *n);

/* Fills seconds; the time of a group of steps is divided by their bytes. */
void ot_node_table_time(ot_node_table *t, const ot_plan *p, const ot_timing *m);

const ot_step *ot_plan_step(const ot_plan *p, int i); /* batch steps, then update steps */

double ot_node_sum(const double stage[OT_STAGES]);

extern const char *const ot_stage_names[OT_STAGES];

#endif
