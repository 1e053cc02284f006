/* decide.h - data-dependent decisions while a plan is made: the branch of an If, the iterations of a Loop, sizes.
 *
 * A plan is made for concrete shapes.  Where a shape needs a value that depends on the fed data, the nodes before it
 * are run on the host for one batch (CPU kernels, current weights), and the value becomes a constant of the plan: a
 * decision.  Results with data-dependent sizes (NonZero, Unique, NonMaxSuppression, ImageDecoder) become inputs that
 * the host computes for every batch; for these the decision is the shape only.
 *
 * Batches with equal decisions share a plan.  Decisions are made in the order of the nodes, so replaying the same
 * decisions gives the same graph without computing anything. */
#ifndef OT_PASSES_DECIDE_H
#define OT_PASSES_DECIDE_H

#include "runtime/passes/passes.h"

typedef struct ot_decision {
    bool made; /* an input of the plan with the `bytes` of one batch; else a constant */
    ot_dtype dtype;
    ot_shape shape;
    void *bytes; /* NULL: a replayed decision about a computed input */
} ot_decision;

typedef struct ot_decisions {
    bool complete; /* the decisions are replayed, and nothing is computed */
    bool wanted;   /* a plan needed one, even if none could be made */
    int n, cap;
    ot_decision *list; /* malloc */
} ot_decisions;

void ot_decisions_free(ot_decisions *d);
bool ot_decisions_same(const ot_decisions *a, const ot_decisions *b); /* Do two lists of decisions lead to one plan? */

/* ---- while shapes are inferred ------------------------------------------------ */

/* Starts deciding for g.  *out: freed with ot_decider_free when planning ends; NULL if c has no decisions. */
ot_status ot_decider_new(ot_plan *p, const ot_config *c, struct ot_decider **out);
void ot_decider_free(struct ot_decider *d);

/* Makes input i of n a constant.  Errors: OT_E_MODEL: decisions are unavailable here, or the input depends on random
 * numbers. */
ot_status ot_decide_input(ot_graph *g, ot_node *n, int i);

/* Called before the rule of n: if its results have a data-dependent size, they become inputs, and *over is set: n is
 * removed. */
ot_status ot_decide_outputs(ot_graph *g, ot_node *n, bool *over);

/* Called after n's rule has failed: inputs whose values it needs become constants; *some: there were such inputs. */
ot_status ot_decide_sizes(ot_graph *g, ot_node *n, bool *some);

#endif
