/* trial.h - what `check` finds out by doing: memory at batch sizes, what is slow, a step and an export. */
#ifndef OT_TRIAL_H
#define OT_TRIAL_H

#include "runtime/train/run/dry_run.h"
#include "runtime/train/run/trainer.h"

enum { OT_TRIED_SIZES = 3 };

typedef struct ot_tried {
    struct {
        int64_t batch, bytes;
    } memory[OT_TRIED_SIZES]; /* planned, the data set apart */
    int n_memory;
    int slow;             /* hundredths of the work that reference kernels do */
    const char *slow_ops; /* their operators, the most work first: "Einsum, GridSample"; "": none */
    bool step, exported;  /* one of each went well */
    double loss;          /* of the step */
    const char *why_not;  /* one of them was not tried: the reason; "": both were */
} ot_tried;

/* Bytes of a plan and of the files of model and teacher. */
int64_t ot_tried_bytes(const ot_trainer *t, const ot_plan *p);

/* r: where t has no data; else what t has planned.  Nothing is left behind: the file is written without a name.
 * Errors: the step's or the export's. */
ot_status ot_try(ot_trainer *t, const ot_dry_run *r, ot_tried *out, ot_error *err);

#endif
