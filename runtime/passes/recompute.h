/* recompute.h - chooses which values of the forward part are computed again in the backward part.
 *
 * A value that the backward part reads is kept from the forward part until then.  If it is dropped instead, the nodes that
 * lead to it from values that are kept (or from inputs and weights) run once more, right before its first reader there. */
#ifndef OT_RECOMPUTE_H
#define OT_RECOMPUTE_H

#include "runtime/passes/passes.h"

/* A step of the plan as it is without recomputation. */
typedef struct ot_again_step {
    ot_node *node;
    ot_value **in; /* of node, then: those of a late step are replaced */
    uint32_t inplace;
    int64_t work; /* bytes */
    double cost;
    bool forward, late; /* of the forward part; of the backward part, for every batch */
} ot_again_step;

/* A tensor in memory: a value and its views.  Of the two intervals [0] is that of the value that the forward part computes, [1]
 * that of the one computed again; in entries of the order, -1: there is none. */
typedef struct ot_again_store {
    int64_t bytes;
    bool temporary; /* computed in the plan */
    bool
        fixed; /* it cannot be dropped: the host, an assignment or an update reads it, or the backward part computes it */
    bool lasts; /* the host reads it after the run */
    bool late;  /* the backward part reads it */
    bool small; /* much smaller than what it is computed from: rather kept longer than computed again */
    bool dropped;
    int begin[2], end[2];
    int last_forward, first_late; /* entries that read it: the last in the forward part, the first after it */
    int up;                       /* dropped stores computed from one another: their union, as a forest */
    int64_t united;               /* bytes of the union, of a root of the forest */
} ot_again_store;

/* A step in the order that results from the choice. */
typedef struct ot_again_entry {
    int step;
    bool again;
} ot_again_entry;

typedef struct ot_again {
    int n_steps, n_values;
    ot_again_step *step;
    int *made;             /* by value id: the step that computes it; -1: none */
    int *store_of;         /* by value id */
    ot_again_store *store; /* by the id of the value that is no view */
    ot_again_entry *order;
    int n_order;
    double all, cost; /* of all steps without recomputation; of the recomputed ones */
    int64_t peak;     /* most bytes live at once, before they are placed */
    int at;           /* the entry with the peak */
    int *stamp, stamps, *list;
    int64_t *live;
    struct ot_again_choice *candidate;
    int *seen; /* by store */
    bool *best;
} ot_again;

/* p is scheduled and has no recomputed steps.  Free with ot_again_free. */
ot_status ot_again_new(const ot_plan *p, ot_again **out, ot_error *err);
void ot_again_free(ot_again *w);

/* Chooses the cheapest set of dropped values that was found whose peak is not above `limit`, and leaves its order in w.  false:
 * none was found; w then has the set with the lowest peak. */
bool ot_again_choose(ot_again *w, int64_t limit);

/* Chooses dropped values that together cost at most this part of the plan, those first that save the most for it, and leaves
 * their order in w.  Returns the peak without dropped values. */
int64_t ot_again_choose_cheap(ot_again *w, double part);

/* Do readers in the backward part, and recomputed steps, read v as computed again? */
bool ot_again_reads(const ot_again *w, const ot_value *v);

/* schedule.c: a step for n, a copy of first->node, with its kernel and variant. */
ot_status ot_schedule_again(ot_plan *p, const ot_config *c, const ot_step *first, const ot_node *n, ot_step *out);

#endif
