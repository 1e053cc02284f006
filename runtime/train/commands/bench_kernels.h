/* bench_kernels.h - bench --kernels: what every kernel of an update or of a prediction takes, beside what the device can do. */
#ifndef OT_BENCH_KERNELS_H
#define OT_BENCH_KERNELS_H

#include <jansson.h>
#include <stdio.h>

#include "runtime/train/run/ceilings.h"
#include "runtime/train/run/trainer.h"

/* Equal kernels of a run: the same operator, kernel, engine, types, shapes and stage. */
typedef struct ot_kernel_row {
    const char *op, *kernel; /* "Dot", "cublaslt" */
    const char *how;         /* engine or algorithm; "": there is one */
    const char *values;      /* "bfloat16[8,768] bfloat16[768,64] -> bfloat16[8,64]" */
    const char *node;        /* the first one's node of the file, or "(loss)" ... */
    const char *stage;       /* "forward" */
    int count;
    double flops, bytes, seconds, floor; /* of a run, all of them; floor: seconds, by the ceilings */
} ot_kernel_row;

typedef struct ot_kernel_table {
    const char *what; /* "an update", "a prediction": a run */
    int n, runs;
    ot_kernel_row *row;    /* by the seconds above the floor, the most first */
    double eager;          /* seconds of a run, kernel by kernel, including gaps */
    double replay;         /* seconds of a run as captured graphs; 0: there are none */
    double kernels, floor; /* sums of the kernels */
    ot_ceilings ceilings;
} ot_kernel_table;

/* Of the training's full batches, or of its evaluation; everything in a.  It has run before: libraries have loaded their code.
 * Changes the training's state only as updates with its present knobs do. */
ot_status ot_kernel_table_new(ot_trainer *t, bool updates, ot_arena *a, ot_kernel_table *out, ot_error *err);

void ot_kernel_table_print(const ot_kernel_table *k, FILE *f);
json_t *ot_kernel_table_json(const ot_kernel_table *k); /* NULL: no memory */

#endif
