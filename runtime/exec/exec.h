/* exec.h - walks a finished plan; decides nothing. */
#ifndef OT_EXEC_H
#define OT_EXEC_H

#include <signal.h>

#include "runtime/passes/passes.h"

/* ---- memory ------------------------------------------------------------------ */

/* Memory of plans that run one after the other: the state slab that the first laid out, and one scratch slab,
 * the largest of all.  On a device it is one allocation that holds everything: each distinct constant once, the
 * tables of kernels, and room for what is fed. */
typedef struct ot_memory ot_memory;

/* plans[0] laid the state out; plans are borrowed.  room: bytes for what is fed, on a device; 0 on the CPU.
 * Errors: OT_E_NOMEM with what is needed and what is there. */
ot_status ot_memory_new(const ot_plan *const *plans, int n, int64_t room, ot_memory **out, ot_error *err);
void ot_memory_free(ot_memory *m);
void *ot_memory_room(const ot_memory *m);
int64_t ot_memory_bytes(const ot_memory *m); /* of all */

/* ---- plans that run ---------------------------------------------------------- */

typedef struct ot_exec ot_exec;

/* m: made for this plan among others, borrowed; NULL: memory of its own.  p is borrowed until ot_exec_free.
 * With memory of its own, and with m for the first plan, the state slab gets its starting values. */
ot_status ot_exec_new(const ot_plan *p, ot_memory *m, ot_exec **out, ot_error *err);
void ot_exec_free(ot_exec *x);

/* Where a fed input lies from now on; on a device, in the device's memory.  Borrowed until the next run ends. */
void ot_exec_feed(ot_exec *x, const ot_value *input, const void *bytes);

/* CPU: where a value lies; scratch values: until overwritten. */
void *ot_exec_bytes(ot_exec *x, const ot_value *v);

/* A value to and from row-major bytes of the host, whatever its layout; waits for the device. */
ot_status ot_exec_read(ot_exec *x, const ot_value *v, void *to, ot_error *err);
ot_status ot_exec_write(ot_exec *x, const ot_value *v, const void *from, ot_error *err);
ot_status ot_exec_zero(ot_exec *x, const ot_value *v, ot_error *err);

/* Forward and backward of one batch, with its assignments; the optimizer; both.  On a device they give work and return:
 * the first time step by step, the second time it is recorded, from then on the recording is replayed. */
ot_status ot_exec_batch(ot_exec *x, ot_error *err);
ot_status ot_exec_update(ot_exec *x, ot_error *err);
ot_status ot_exec_step(ot_exec *x, ot_error *err);

/* What a run has come to; NaN: the plan has no such value. */
typedef struct ot_numbers {
    double loss, grad_norm, correct, counted;
    double head[OT_HEADS]; /* the plan's, n_heads of them */
    double right[OT_HEADS], of[OT_HEADS];
} ot_numbers;

/* On a device: gives the work of copying what the last run has come to into `outbox`, OT_OUTBOX pinned bytes. */
ot_status ot_exec_report(ot_exec *x, void *outbox, ot_error *err);

/* Reads the numbers: from an outbox that has arrived, or (CPU, outbox NULL) from where they lie.  Errors: what a kernel
 * found while running (OT_E_DATA), with the node's name. */
ot_status ot_exec_numbers(ot_exec *x, const void *outbox, ot_numbers *out, ot_error *err);

/* CPU: from now on ot_exec_batch looks at *stop between two operators, and where it is set ends there: but only as long as
 * nothing of the state was written, so that a run that ended early has changed nothing.  Returns OT_OK then, too, and
 * ot_exec_stopped says it.  NULL: no longer.  Borrowed. */
void ot_exec_stop(ot_exec *x, const volatile sig_atomic_t *stop);
bool ot_exec_stopped(const ot_exec *x);

/* From now on adds the seconds of every kernel to spent[0 .. n_batch_steps + n_update_steps), in schedule order;
 * NULL: no longer.  Borrowed. */
void ot_exec_measure(ot_exec *x, double *spent);

#endif
