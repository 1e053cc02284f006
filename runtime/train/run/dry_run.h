/* dry_run.h - plans a model without its data: assumes open sizes, and a loss that fits the outputs. */
#ifndef OT_DRY_RUN_H
#define OT_DRY_RUN_H

#include "runtime/train/run/session.h"

typedef struct ot_dry_run {
    ot_plan *plan; /* owned; free with ot_plan_free */
    int64_t batch;
    const char *assumed; /* lines for the user: the assumptions */
    int n_feeds;
    const ot_feed *feeds; /* its inputs and targets; of the arena */
    int64_t bytes;        /* planned; on the CPU with the file */
    int64_t unlimited;    /* the same without recomputation, which --memory-limit may have caused */
} ot_dry_run;

/* Plans a training with the options and inputs of the file's sizes: an open batch is --batch-size (or OT_DEFAULT_BATCH), other
 * open sizes are tried from 32.  Without --loss it assumes the default loss of the first float output.
 *   d  the device; NULL: the CPU; outlives the plan
 * Errors: those of the plan. */
ot_status ot_dry_run_plan(const ot_model *m, const ot_settings *s, ot_device *d, ot_arena *a, ot_dry_run *out,
                          ot_error *err);

/* together.c: ot_trainer_try_together without data.  Does nothing if the file has no fixed batch size. */
ot_status ot_dry_run_together(const ot_model *m, ot_settings *s, ot_arena *a, ot_findings *out, ot_error *err);

/* The file's graph with inferred types and shapes; a dimension that depends on an open batch is open (-1); other open sizes
 * are assumed to be *open.  NULL: it cannot be inferred.  Free with ot_graph_free; err must outlive it. */
ot_graph *ot_dry_run_shapes(const ot_model *m, int64_t *open, ot_error *err);

bool ot_leaves_open(const ot_graph *g); /* does an input have an open size besides the batch? */

/* The inputs of ot_dry_run_plan: *n feeds, of the arena. */
ot_status ot_dry_run_inputs(const ot_model *m, const ot_settings *s, int64_t batch, ot_arena *a, ot_feed **feeds,
                            int *n, ot_error *err);

/* Generates a batch without data: floats between 0 and 1, which every loss accepts; integers, which may be classes or rows of
 * tables, 0.  Equal seeds give equal numbers. */
void ot_dry_run_fill(void *p, ot_dtype t, int64_t n, uint64_t seed);

/* The model's graph with every initializer classified as the options say.  Free p->graph. */
ot_status ot_classified(const ot_model *m, const ot_settings *s, ot_plan *p, ot_error *err);

#endif
