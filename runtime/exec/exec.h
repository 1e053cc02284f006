/* exec.h - runs a finished plan; makes no decisions. */
#ifndef OT_EXEC_H
#define OT_EXEC_H

#include <signal.h>

#include "runtime/passes/passes.h"

/* ---- memory ------------------------------------------------------------------ */

/* Memory of plans that run one after the other: the state slab that the first laid out, and one scratch slab,
 * the largest of all.  On a device it is one allocation: each distinct constant once, the
 * tables of kernels, and space for fed inputs. */
typedef struct ot_memory ot_memory;

/* plans[0] lays the state out; plans are borrowed.  room: bytes for fed inputs, on a device; 0 on the CPU.
 * lender: on the CPU, a memory whose scratch slab is used where it is large enough; it outlives the new one, and what its
 * own plans left in it is lost.  NULL: none.  Errors: OT_E_NOMEM with the bytes needed and available. */
ot_status ot_memory_new(const ot_plan *const *plans, int n, int64_t room, const ot_memory *lender, ot_memory **out,
                        ot_error *err);
/* m's state slab gets what is in that of `from`, which has the same lead. */
ot_status ot_memory_take_state(ot_memory *m, const ot_memory *from, ot_error *err);
int64_t ot_memory_lends(const ot_memory *m); /* bytes of its scratch slab; 0: on a device */
void ot_memory_idle(ot_memory *m); /* CPU: its scratch slab takes no memory until the next run; values in it are lost */
void ot_memory_free(ot_memory *m);
void *ot_memory_room(const ot_memory *m);

/* ---- plans that run ---------------------------------------------------------- */

typedef struct ot_exec ot_exec;

/* m: made for several plans, this one included; borrowed; NULL: memory of its own.  p is borrowed until ot_exec_free.
 * With memory of its own, and with m for the first plan, the state slab gets its initial values. */
ot_status ot_exec_new(const ot_plan *p, ot_memory *m, ot_exec **out, ot_error *err);
void ot_exec_free(ot_exec *x);

/* Sets the address of a fed input; on a device, in device memory.  Borrowed until the next run ends. */
void ot_exec_feed(ot_exec *x, const ot_value *input, const void *bytes);

/* CPU: the address of a value; scratch values are valid until overwritten. */
void *ot_exec_bytes(ot_exec *x, const ot_value *v);

/* Reads or writes a value as row-major bytes of the host, whatever its layout; waits for the device. */
ot_status ot_exec_read(ot_exec *x, const ot_value *v, void *to, ot_error *err);
ot_status ot_exec_write(ot_exec *x, const ot_value *v, const void *from, ot_error *err);

/* Forward and backward of one batch, with its assignments; the optimizer; both.  On a device they submit work and
 * return: the first run submits step by step, the second captures a graph, later ones launch it. */
ot_status ot_exec_batch(ot_exec *x, ot_error *err);
ot_status ot_exec_update(ot_exec *x, ot_error *err);
ot_status ot_exec_step(ot_exec *x, ot_error *err);

/* Results of a run; NaN: the plan has no such value. */
typedef struct ot_numbers {
    double loss, grad_norm, correct, counted, divisor;
    double head[OT_HEADS]; /* the plan's, n_heads of them */
    double right[OT_HEADS], of[OT_HEADS], divisors[OT_HEADS];
} ot_numbers;

/* On a device: submits the copy of the last run's results into `outbox`, OT_OUTBOX pinned bytes. */
ot_status ot_exec_report(ot_exec *x, void *outbox, ot_error *err);

/* Reads the results: from an outbox whose copy has completed, or (CPU, outbox NULL) from the values.  Errors: faults
 * of kernels (OT_E_DATA), with the node's name. */
ot_status ot_exec_numbers(ot_exec *x, const void *outbox, ot_numbers *out, ot_error *err);

/* CPU: makes ot_exec_batch test *stop between two operators and return early if it is set, but only while no state
 * has been written, so that a run that ends early changes nothing.  It then returns OT_OK too, and ot_exec_stopped
 * is true.  NULL: no more.  Borrowed. */
void ot_exec_stop(ot_exec *x, const volatile sig_atomic_t *stop);
bool ot_exec_stopped(const ot_exec *x);

/* Times of kernels, by number of the step: n_batch_steps, then n_update_steps of them. */
typedef struct ot_timing {
    double *spent;            /* seconds, added up over runs */
    double *began;            /* seconds from the start of the phase to the kernel, in its last run; NULL: not asked */
    int64_t batches, updates; /* runs of the two phases */
} ot_timing;

/* From now on every run adds to *t; NULL: no more.  Borrowed.  On a device kernels are submitted one by one, between
 * events, while the device is kept busy, so that a time is that of the kernel and not of its submission; a run waits
 * for them. */
ot_status ot_exec_measure(ot_exec *x, ot_timing *t, ot_error *err);

#endif
