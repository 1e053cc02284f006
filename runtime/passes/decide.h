/* decide.h - what data decides while a plan is made: the way of an If, the iterations of a Loop, sizes.
 *
 * A plan is made for concrete shapes.  Where one needs a value that depends on what is fed, the value is computed on the
 * host, for one batch, from the nodes in front of it (the CPU's kernels, the weights as they are), and the graph goes on
 * with it as a constant: a decision.  Results whose size is data's (NonZero, Unique, NonMaxSuppression, ImageDecoder) become inputs
 * that the host makes for every batch: of these the decision is the shape alone.
 *
 * Batches with equal decisions share a plan.  Nodes are asked in the order of the graph, so the same decisions, replayed,
 * give the same graph, without anything being computed. */
#ifndef OT_PASSES_DECIDE_H
#define OT_PASSES_DECIDE_H

#include "runtime/passes/passes.h"

typedef struct ot_decision {
    bool made; /* an input of the plan: `bytes` are those of one batch; else a constant */
    ot_dtype dtype;
    ot_shape shape;
    void *bytes; /* NULL: replayed, of a made input */
} ot_decision;

typedef struct ot_decisions {
    bool complete; /* they are replayed, and none is computed */
    int n, cap;
    ot_decision *list; /* malloc */
} ot_decisions;

void ot_decisions_free(ot_decisions *d);
bool ot_decisions_same(const ot_decisions *a, const ot_decisions *b); /* do they lead to one plan? */

/* ---- while shapes are inferred ------------------------------------------------ */

/* From here on g may ask.  *out: freed with ot_decider_free when it no longer does; NULL where c has no decisions. */
ot_status ot_decider_new(ot_plan *p, const ot_config *c, struct ot_decider **out);
void ot_decider_free(struct ot_decider *d);

/* Input i of n becomes a constant.  Errors: OT_E_MODEL: nobody decides here, or it depends on random numbers. */
ot_status ot_decide_input(ot_graph *g, ot_node *n, int i);

/* n in front of its rule: where its results have a size that data decides, they become inputs, and *over says that
 * nothing of it is left. */
ot_status ot_decide_outputs(ot_graph *g, ot_node *n, bool *over);

/* After n's rule has failed: inputs that it wants to know become constants; *some: there were any. */
ot_status ot_decide_sizes(ot_graph *g, ot_node *n, bool *some);

#endif
