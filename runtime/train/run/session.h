/* session.h - a few plans that share weights, their memory, and the batches that they run.
 *
 *     ot_session_open -> ot_session_plan ... -> ot_session_allocate -> ot_session_submit, ot_session_collect ...
 *
 * Runs are collected in the order in which they were submitted.  On the CPU a run is complete when ot_session_submit
 * returns, and at most one is not collected; on a device many runs may be in flight. */
#ifndef OT_SESSION_H
#define OT_SESSION_H

#include "runtime/exec/exec.h"
#include "runtime/train/feed/bind_inputs.h"
#include "runtime/train/run/model.h"

/* How an array is passed to a plan. */
typedef enum ot_way {
    OT_WAY_BATCH, /* as a batch in its final form */
    OT_WAY_RAW,   /* as the samples of a batch in the form of the set; the plan converts them */
    OT_WAY_SET,   /* the whole set is on the device; the plan selects samples */
    OT_WAY_WHOLE  /* whole, once */
} ot_way;

/* How the arrays of one set of feeders are passed to their plans. */
typedef struct ot_supply {
    ot_feeders *feeders; /* borrowed */
    ot_way *way;         /* by feeder */
    ot_feed_set *set;    /* RAW, SET */
    int64_t *offset;     /* SET, WHOLE: in the session's memory on the device */
    bool loads;          /* the session owns the feeders' loader */
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
    int64_t inbox_bytes; /* device: bytes sent with every batch */
    /* Data-dependent graphs: a plan for each decision that has occurred (variants.c), of which `plan` and `exec` are the current
     * one.  NULL: one plan. */
    ot_variant *variant;
    int n_variants;
    int64_t chosen; /* number of choices so far */
} ot_slot;

enum { OT_SLOTS = 32, OT_RUNS = 32 };

/* Device: the head of the inbox, which is copied to the device for every run; the index or the batches follow. */
typedef struct ot_inbox {
    double lr, momentum, t;
    uint64_t seed, counter;
    uint64_t unused[3]; /* to 64 bytes: what follows is aligned */
} ot_inbox;

/* Runs in flight.  On a device an event is recorded after every `span` runs, which ends a part; at most two parts are
 * complete, so that the device works on one while the host waits for the other. */
typedef struct ot_queue {
    int most;                      /* runs in flight */
    int64_t given, arrived, taken; /* runs that were submitted, completed, collected */
    struct {
        int64_t end; /* number of runs up to the event */
        void *mark;  /* the event */
    } part[2];
    int parts, first; /* number of closed parts; index of the older one */
    int64_t closed;   /* runs before the open part */
    int span;
    double when;  /* when the last part was completed, by the clock */
    char *pinned; /* `most` entries: an outbox, an inbox */
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
    const char *device_line; /* the device and why it was chosen, for the user; of the arena */
    int n;
    ot_slot slot[OT_SLOTS];
    int lead; /* the slot whose plan determines the layout of the state */
    int n_supplies;
    ot_supply supply[OT_SLOTS];
    ot_memory *memory;
    ot_queue queue;
    int64_t state_bytes, scratch_bytes, const_bytes;
    int64_t scratch_limit; /* of every plan; plans of trainings recompute values to keep it; 0: none */
    int64_t inbox_bytes;   /* device: of the largest batch */
    int64_t sets_limit;    /* device: bytes that are left for whole sets */
    /* Inputs of every plan: learning rate, momentum, number of the update, state of the random numbers. */
    double lr, momentum, t;
    uint64_t seed, counter;
    int64_t samples;      /* used by the training before the batch: ot_feeder_take's `given` */
    int64_t position;     /* number of the batch, for its loader (ot_ahead) */
    int64_t images_limit; /* bytes left for decoded images that are kept from epoch to epoch */
    double waited;        /* seconds in which the training waited for batches; on the CPU also those for making them */
    int threads, made;    /* threads to use; threads that OpenMP has started for the calling thread */
    /* CPU: bytes that must be available when a run begins (ot_threads_room); 0: no check, because allocations do not fail. */
    int64_t room;
    bool moves_momentum;   /* the schedule changes the momentum */
    int64_t epoch_updates; /* updates of an epoch */
    /* Plans omit outputs that cannot be computed; else a plan that fails because of them is made again without them. */
    bool partial;
    /* CPU: a session whose scratch slab this one uses while that one is idle; set after opening; NULL: none. */
    const struct ot_session *lender;
    bool fixed;   /* CPU: no weight changes; they stay in the memory of the model */
    bool settled; /* fixed, and there are many batches: what depends on weights alone is computed once */
    const volatile sig_atomic_t *stop; /* CPU: checked within a batch (ot_exec_stop); borrowed; NULL: none */
    bool stopped;                      /* the last run ended early, and changed nothing */
} ot_session;

int ot_session_threads(const ot_settings *s); /* --threads, or the number that the machine has */

/* The parts of a plan's configuration that depend on the options.  It is for the CPU. */
ot_config ot_session_config(const ot_settings *s, ot_want want, int threads);

/* beside: a session whose device and threads this one shares, while that one is idle; NULL: opens the device
 * of the options.  After an error nothing is allocated, and ot_session_close does nothing.  Errors: OT_E_DEVICE. */
ot_status ot_session_open(ot_session *x, const ot_model *m, const ot_settings *s, const ot_session *beside,
                          ot_error *err);
void ot_session_close(ot_session *x);

/* Plans another kind of run; *out is its slot, which is an existing one if the arguments are equal.  The first plan of a session
 * determines the layout of the state. */
ot_status ot_session_plan(ot_session *x, ot_want want, ot_feeders *fs, int64_t batch, int accumulate, int *out,
                          ot_error *err);

/* Limits the scratch bytes of plans of trainings: they recompute values, as far as that helps.  Call it before memory is
 * allocated. */
ot_status ot_session_limit(ot_session *x, int64_t scratch, ot_error *err);

/* Sets *c to the configuration of a plan of the slot; feeds: has an element for each of its feeders, and one more. */
void ot_session_configure(ot_session *x, ot_slot *q, ot_config *c, ot_feed *feeds);

/* longest.c: if the plan of c failed because of the length of the samples, adds to err how long they may be.  Returns
 * `failed`. */
ot_status ot_session_explain_length(const ot_session *x, const ot_config *c, ot_status failed, ot_error *err);

/* Allocates the slabs and binds every plan to them, with the weights and states of the file; releases all of it. */
ot_status ot_session_bind(ot_session *x, ot_error *err);
void ot_session_unbind(ot_session *x);

/* Bytes of everything ot_session_allocate will allocate, on the device where there is one. */
int64_t ot_session_bytes(const ot_session *x);
int64_t ot_session_inbox_bytes(const ot_session *x);                /* of what is sent with every batch */
int64_t ot_session_set_bytes(const ot_session *x);                  /* of whole sets on the device */
bool ot_session_has_set(const ot_session *x, const ot_feeders *fs); /* all samples of fs are on the device */

/* On a device: where a batch of these bytes waits while the previous run is executed.  NULL: the batch is so small that copying
 * it in advance costs more than it saves. */
void *ot_session_ahead(const ot_session *x, int64_t bytes);

/* Allocates the slabs and batch buffers and binds them; copies whole arrays. */
ot_status ot_session_allocate(ot_session *x, ot_error *err);

/* Allocates memory for plans that were added to an allocated session; the state is kept.  No run may be in flight.  After
 * an error the session is as it was before the plans from slot n on were added. */
ot_status ot_session_grow(ot_session *x, int n, ot_error *err);

/* Call it when the arrays of fs's data set have moved to other addresses: updates fs, and copies whole arrays again. */
ot_status ot_session_renew(ot_session *x, ot_feeders *fs, ot_error *err);

/* ---- running: queue.c ------------------------------------------------------------------ */

typedef enum ot_run_kind { OT_RUN_BATCH, OT_RUN_UPDATE, OT_RUN_STEP } ot_run_kind;

/* Whether a run can be submitted; else one must be collected first. */
bool ot_session_has_room(const ot_session *x);
int64_t ot_session_in_flight(const ot_session *x); /* runs submitted and not collected */

/* Submits a run of the slot with samples index[0..batch) (NULL: the buffers are not filled; UPDATE reads no samples).  Samples
 * that cannot be read are replaced in index (ot_loader_take). */
ot_status ot_session_submit(ot_session *x, int slot, ot_run_kind kind, int64_t *index, ot_error *err);

/* Waits for the oldest run and collects it: its slot (or NULL) and its numbers. */
ot_status ot_session_collect(ot_session *x, int *slot, ot_numbers *out, ot_error *err);

/* Submits a batch and collects it. */
ot_status ot_session_batch(ot_session *x, int slot, int64_t *index, ot_numbers *out, ot_error *err);

ot_status ot_queue_open(ot_session *x, ot_error *err);
void ot_queue_close(ot_session *x);

/* What the *n outputs of the graph look like for `batch` samples of fs; in the session's arena. */
ot_status ot_session_outputs(ot_session *x, const ot_feeders *fs, int64_t batch, ot_output **out, int *n,
                             ot_error *err);

#endif
