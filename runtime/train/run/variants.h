/* variants.h - several plans of one slot, for graphs that depend on the data (passes/decide.h): a batch selects one, or makes
 * it. */
#ifndef OT_VARIANTS_H
#define OT_VARIANTS_H

#include "runtime/passes/decide.h"
#include "runtime/train/run/session.h"

/* Makes a plan of the slot for its first samples, if the plan without data-dependent values failed (s, err) or computes both
 * branches of an If.  CPU only.  Errors: the more informative one of the two plans. */
ot_status ot_variants_plan(ot_session *x, ot_slot *q, ot_config *c, ot_feed *feeds, ot_status s, ot_error *err);

/* Sets the slot's plan and exec to those for the batch in the feeders' buffers.  Does nothing for a slot without variants. */
ot_status ot_variants_choose(ot_session *x, ot_slot *q, ot_error *err);

void ot_variants_free(ot_slot *q); /* frees its plans */

/* The plans of the slot and their runs.  The first plan of the session's lead slot determines the layout of the state. */
int ot_variants_count(const ot_slot *q);
ot_plan *ot_variants_at(const ot_slot *q, int i);
ot_exec **ot_variants_exec(ot_slot *q, int i);

/* A plan without a session and with as many outputs as possible.  Tries a plan without data-dependent values, then one for the
 * feeds' samples (feeds without a sample get a generated one), then these without the outputs that cannot be computed.  infer:
 * only the passes up to infer.  Errors: the most informative one. */
ot_status ot_plan_any(const ot_graph *g, ot_config *c, ot_feed *feeds, bool infer, ot_arena *a, ot_plan **out,
                      ot_error *err);

/* Fills the feeders' buffers with the first samples, and sets `sample` of the feeds to them. */
ot_status ot_variants_sample(ot_session *x, ot_feeders *fs, int64_t batch, ot_feed *feeds, ot_error *err);

#endif
