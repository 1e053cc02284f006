/* session.h - a few plans over one set of weights, their memory, and batches fed to them.
 *
 *     ot_session_open -> ot_session_plan ... -> ot_session_allocate -> ot_session_batch ... */
#ifndef OT_SESSION_H
#define OT_SESSION_H

#include "runtime/exec/exec.h"
#include "runtime/train/adapt.h"
#include "runtime/train/model.h"

typedef struct ot_slot {
    ot_want want;
    int64_t batch;
    int accumulate;
    ot_plan *plan;
    ot_exec *exec;
    ot_feeders *feeders; /* borrowed */
} ot_slot;

enum { OT_SLOTS = 12 };

typedef struct ot_session {
    const ot_model *model;
    const ot_settings *s;
    ot_arena *a;
    int n;
    ot_slot slot[OT_SLOTS];
    int lead; /* the slot whose plan laid the state out */
    void *scratch;
    int64_t state_bytes, scratch_bytes, const_bytes;
    /* what the knobs of every plan point at */
    double lr, momentum, t;
    uint64_t seed, counter;
    int threads;
    bool moves_momentum; /* the schedule does */
} ot_session;

/* The parts of a plan's configuration that the options say. */
ot_config ot_session_config(const ot_settings *s, ot_want want, int threads);

ot_status ot_session_open(ot_session *x, const ot_model *m, const ot_settings *s, ot_error *err);
void ot_session_close(ot_session *x);

/* Plans one more kind of run; *out is its slot.  The first plan of a session lays out the state.
 * Asking again for what there is gives the same slot. */
ot_status ot_session_plan(ot_session *x, ot_want want, ot_feeders *fs, int64_t batch,
                          int accumulate, int *out, ot_error *err);

/* Bytes of everything ot_session_allocate will allocate. */
int64_t ot_session_bytes(const ot_session *x);

/* Allocates the slabs and batch buffers and binds them; whole arrays are taken once, here. */
ot_status ot_session_allocate(ot_session *x, ot_error *err);

/* Cuts samples index[0..n) into the slot's batch (n is the slot's), and runs it. */
ot_status ot_session_batch(ot_session *x, int slot, const int64_t *index, ot_error *err);

double ot_session_scalar(ot_session *x, int slot, const ot_value *v); /* NaN: v is NULL */

/* Outputs of the graph for `batch` samples of fs; *n of them, of the session's arena. */
ot_status ot_session_outputs(ot_session *x, const ot_feeders *fs, int64_t batch, ot_output **out,
                             int *n, ot_error *err);

#endif
