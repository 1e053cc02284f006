/* exec.h - walks a finished plan; decides nothing. */
#ifndef OT_EXEC_H
#define OT_EXEC_H

#include "runtime/passes/passes.h"

typedef struct ot_exec ot_exec;

/* Allocates the scratch slab and, when `state` is NULL, the state slab (filled from the values'
 * starting data).  p is borrowed until ot_exec_free.  `state`, `scratch`: memory of another exec to
 * share (a trainer's plans run one after the other), or NULL. */
ot_status ot_exec_new(const ot_plan *p, void *state, void *scratch, ot_exec **out, ot_error *err);
void      ot_exec_free(ot_exec *x);

void *ot_exec_state(ot_exec *x);                            /* the state slab */
void *ot_exec_bytes(ot_exec *x, const ot_value *v);         /* where a value lies; scratch values: until overwritten */
void  ot_exec_feed(ot_exec *x, const ot_value *input, const void *bytes); /* borrowed until the next run ends */

/* From now on adds the seconds of every kernel to spent[0 .. n_every + n_update), in schedule order;
 * NULL: no longer.  Borrowed. */
void ot_exec_measure(ot_exec *x, double *spent);

ot_status ot_exec_every(ot_exec *x, ot_error *err);         /* forward and backward of one batch; carries out its assignments */
ot_status ot_exec_update(ot_exec *x, ot_error *err);        /* the optimizer */

#endif
