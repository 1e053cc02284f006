/* session.h - a few plans over one set of weights, their memory, and batches fed to them.
 *
 *     ot_session_open -> ot_session_plan ... -> ot_session_allocate -> ot_session_submit, _take ...
 *
 * Runs are given and, later, taken in the same order.  On the CPU a run is done when ot_session_submit returns, and one
 * is between the two at most; a device may be many runs behind. */
#ifndef OT_SESSION_H
#define OT_SESSION_H

#include "runtime/exec/exec.h"
#include "runtime/train/feed/bind_inputs.h"
#include "runtime/train/run/model.h"

/* How an array reaches a plan. */
typedef enum ot_way {
    OT_WAY_BATCH, /* as a finished batch */
    OT_WAY_RAW,   /* as the batch's samples in the set's own form; the plan converts them */
    OT_WAY_SET,   /* the whole set lies on the device, the plan picks */
    OT_WAY_WHOLE  /* whole, once */
} ot_way;

/* How the arrays of one set of feeders reach their plans. */
typedef struct ot_supply {
    ot_feeders *feeders; /* borrowed */
    ot_way *way;         /* by feeder */
    ot_feed_set *set;    /* RAW, SET */
    int64_t *offset;     /* SET, WHOLE: in the session's room on the device */
    bool loads;          /* the feeders' loader is the session's */
} ot_supply;

typedef struct ot_variant ot_variant;

typedef struct ot_slot {
    ot_want want;
    int64_t batch;
    int accumulate;
    ot_plan *plan;
    ot_exec *exec;
    ot_feeders *feeders; /* borrowed */
    ot_supply *supply;
    int64_t *offset;     /* device: by feeder, of BATCH and RAW in the inbox */
    int64_t inbox_bytes; /* device: what is sent with every batch */
    ot_variant
        *variant; /* what data decides: a plan for each way that was met (variants.c); plan and exec are one of them.
                          * NULL: there is one plan */
    int n_variants;
    int64_t chosen; /* how often one was */
} ot_slot;

enum { OT_SLOTS = 32, OT_RUNS = 32 };

/* Runs that were given and not taken.  A device's are closed by a mark every `span` runs; two closed parts may be there,
 * one that is waited for while the device does the other. */
typedef struct ot_queue {
    int most; /* runs */
    int64_t given, arrived, taken;
    struct {
        int64_t end;
        void *mark;
    } part[2];
    int parts, first; /* closed ones; the older */
    int64_t closed;   /* runs in front of the open part */
    int span;
    double when;  /* the last part came, by the clock */
    char *pinned; /* most entries: an outbox, an inbox */
    int64_t entry_bytes;
    int slot[OT_RUNS];
    ot_numbers numbers[OT_RUNS]; /* CPU */
} ot_queue;

typedef struct ot_session {
    const ot_model *model;
    const ot_settings *s;
    ot_arena *a, *scratch; /* scratch: while a plan is chosen; else NULL */
    ot_device *device;     /* NULL: the CPU */
    bool borrows_device;
    const char *device_line; /* what it runs on, and why; of the arena */
    int n;
    ot_slot slot[OT_SLOTS];
    int lead; /* the slot whose plan laid the state out */
    int n_supplies;
    ot_supply supply[OT_SLOTS];
    ot_memory *memory;
    ot_queue queue;
    int64_t state_bytes, scratch_bytes, const_bytes;
    int64_t scratch_limit; /* of every plan; those of trainings compute values again to keep it; 0: none */
    int64_t inbox_bytes;   /* device: of the largest batch */
    int64_t sets_limit;    /* device: bytes of sets that may still come to lie there */
    /* what the knobs of every plan read */
    double lr, momentum, t;
    uint64_t seed, counter;
    int64_t samples;      /* that the training was given before the batch: ot_feeder_take's `given` */
    int64_t position;     /* of the batch, for its loader (ot_ahead) */
    int64_t images_limit; /* bytes for decoded images that are kept from epoch to epoch; what is left of them */
    double waited; /* seconds in which the training waited for batches; on the CPU also those in which they were made */
    int threads, made; /* made: OpenMP has so many for the calling thread */
    int64_t
        room; /* the CPU: bytes that have to be free when a run begins (ot_threads_room); 0: allocations do not fail */
    bool moves_momentum;   /* the schedule does */
    int64_t epoch_updates; /* updates of an epoch */
    bool
        partial; /* outputs that cannot be computed are left out; else a plan may fail for them, and is made once more so */
    const struct ot_session
        *lender;  /* CPU: a session whose scratch slab is used, while it has no work; set after opening; NULL: none */
    bool fixed;   /* CPU: no weight changes; they stay in the memory of the model */
    bool settled; /* and there are many batches: work on weights alone is done once */
    const volatile sig_atomic_t *stop; /* CPU: looked at within a batch (ot_exec_stop); borrowed; NULL: none */
    bool stopped;                      /* the last run ended early, and changed nothing */
} ot_session;

int ot_session_threads(const ot_settings *s); /* --threads, or what the machine has */

/* The parts of a plan's configuration that the options say.  It is for the CPU. */
ot_config ot_session_config(const ot_settings *s, ot_want want, int threads);

/* beside: a session whose device and threads this one shares, while that one gives them no work; NULL: it opens the device
 * that the options name.  After an error nothing is held, and ot_session_close changes nothing.  Errors: OT_E_DEVICE. */
ot_status ot_session_open(ot_session *x, const ot_model *m, const ot_settings *s, const ot_session *beside,
                          ot_error *err);
void ot_session_close(ot_session *x);

/* Plans one more kind of run; *out is its slot.  The first plan of a session lays out the state.
 * Asking again for what there is gives the same slot. */
ot_status ot_session_plan(ot_session *x, ot_want want, ot_feeders *fs, int64_t batch, int accumulate, int *out,
                          ot_error *err);

/* Plans of trainings that need more scratch bytes compute values again, as far as that helps; before memory is allocated. */
ot_status ot_session_limit(ot_session *x, int64_t scratch, ot_error *err);

/* How a plan of the slot is made, for the feeders that it has; feeds: room for each of them, and one more. */
void ot_session_configure(ot_session *x, ot_slot *q, ot_config *c, ot_feed *feeds);

/* The slabs, and every plan bound to them, with weights and states as the file has them; and all of it given back. */
ot_status ot_session_bind(ot_session *x, ot_error *err);
void ot_session_unbind(ot_session *x);

/* Bytes of everything ot_session_allocate will allocate, on the device where there is one. */
int64_t ot_session_bytes(const ot_session *x);
int64_t ot_session_inbox_bytes(const ot_session *x);                /* of what is sent with every batch */
int64_t ot_session_set_bytes(const ot_session *x);                  /* of sets that will lie on the device */
bool ot_session_has_set(const ot_session *x, const ot_feeders *fs); /* all of fs's samples are among them */

/* On a device: where a batch of these bytes waits while the run before is executed.  NULL: the copy takes no longer than
 * what that costs. */
void *ot_session_ahead(const ot_session *x, int64_t bytes);

/* Allocates the slabs and batch buffers and binds them; whole arrays are taken once, here. */
ot_status ot_session_allocate(ot_session *x, ot_error *err);

/* Plans that were added to an allocated session get their memory; what the state slab holds stays.  No run may be in flight.  After
 * an error the session is as it was before the plans from slot n on were added. */
ot_status ot_session_grow(ot_session *x, int n, ot_error *err);

/* The arrays of fs's data set are at other addresses now: fs follows, and whole arrays are taken once more. */
ot_status ot_session_renew(ot_session *x, ot_feeders *fs, ot_error *err);

/* ---- running: queue.c ------------------------------------------------------------------ */

typedef enum ot_run_kind { OT_RUN_BATCH, OT_RUN_UPDATE, OT_RUN_STEP } ot_run_kind;

/* Whether a run can be given; else one must be taken first. */
bool ot_session_has_room(const ot_session *x);
int64_t ot_session_in_flight(const ot_session *x); /* runs given and not taken */

/* Gives a run of the slot: of samples index[0..batch) (NULL: none are cut; UPDATE reads none).  Samples that cannot be read
 * are replaced in index (ot_loader_take). */
ot_status ot_session_submit(ot_session *x, int slot, ot_run_kind kind, int64_t *index, ot_error *err);

/* Takes the oldest run, waiting for it: its slot (NULL: not asked) and numbers. */
ot_status ot_session_collect(ot_session *x, int *slot, ot_numbers *out, ot_error *err);

/* Gives a batch and takes it. */
ot_status ot_session_batch(ot_session *x, int slot, int64_t *index, ot_numbers *out, ot_error *err);

ot_status ot_queue_open(ot_session *x, ot_error *err);
void ot_queue_close(ot_session *x);

/* Outputs of the graph for `batch` samples of fs; *n of them, of the session's arena. */
ot_status ot_session_outputs(ot_session *x, const ot_feeders *fs, int64_t batch, ot_output **out, int *n,
                             ot_error *err);

#endif
