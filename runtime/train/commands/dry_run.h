/* dry_run.h - a plan for a model without its data: shapes where the file leaves them open, and a
 * loss that fits. */
#ifndef OT_DRY_RUN_H
#define OT_DRY_RUN_H

#include "runtime/train/run/session.h"

typedef struct ot_rehearsal {
    ot_plan *plan; /* owned; free with ot_plan_free */
    int64_t batch;
    const char *assumed; /* lines: what was assumed */
    int n_feeds;
    const ot_feed *feeds; /* that it was planned for; of the arena */
    int64_t bytes;        /* planned, on the CPU with the file */
    int64_t unlimited;    /* the same without recomputation, which --memory-limit may have caused */
} ot_rehearsal;

/* Plans `want` as the options say with inputs of the file's sizes: an open batch is --batch-size
 * (or a training's 32), other open sizes are tried from 32.  A loss left out is what a training on data
 * that fits the first float output would probably take, and is told.
 *   d  what it shall run on; NULL: the CPU; outlives the plan
 * Errors: those of the plan. */
ot_status ot_rehearse(const ot_model *m, const ot_settings *s, ot_want want, ot_device *d, ot_arena *a,
                      ot_rehearsal *out, ot_error *err);

/* ot_trainer_try_together without data.  Nothing where no batch is baked in.  together.c */
ot_status ot_rehearse_together(const ot_model *m, ot_settings *s, ot_arena *a, ot_findings *out, ot_error *err);

/* The file's graph with the type and shape of every value that they can be known of; a dimension that
 * follows an open batch is open (-1), other open sizes are taken as *open.  NULL: it cannot be inferred.
 * Free with ot_graph_free; err must outlive it. */
ot_graph *ot_rehearse_shapes(const ot_model *m, int64_t *open, ot_error *err);

bool ot_leaves_open(const ot_graph *g); /* does the file leave a size of its inputs open, apart from the batch? */

/* Inputs of the sizes that ot_rehearse would take: *n feeds, of the arena. */
ot_status ot_rehearse_inputs(const ot_model *m, const ot_settings *s, int64_t batch, ot_arena *a, ot_feed **feeds,
                             int *n, ot_error *err);

/* Numbers of a batch without data: floats between 0 and 1, which every loss takes; integers, which may be classes and rows of
 * tables, 0.  The same for the same seed. */
void ot_rehearse_fill(void *p, ot_dtype t, int64_t n, uint64_t seed);

#endif
