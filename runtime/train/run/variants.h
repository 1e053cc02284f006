/* variants.h - plans of one slot for what data decides (passes/decide.h): the batch that is cut picks one, or makes it. */
#ifndef OT_VARIANTS_H
#define OT_VARIANTS_H

#include "runtime/passes/decide.h"
#include "runtime/train/run/session.h"

/* A plan of the slot, for its first samples, where one that nothing of data decides is refused or would compute both
 * branches of an If.  The CPU's.  s, err: how making that went.  Errors: of the two, what says more. */
ot_status ot_variants_plan(ot_session *x, ot_slot *q, ot_config *c, ot_feed *feeds, ot_status s, ot_error *err);

/* The batch lies in the feeders' buffers: the slot's plan and exec are those for its decisions.  Nothing is done for a
 * slot without variants. */
ot_status ot_variants_choose(ot_session *x, ot_slot *q, ot_error *err);

void ot_variants_free(ot_slot *q); /* its plans */

/* Its plans, the first of which laid the state out where the slot is the session's lead; and where their runs are kept. */
int ot_variants_count(const ot_slot *q);
ot_plan *ot_variants_at(const ot_slot *q, int i);
ot_exec **ot_variants_exec(ot_slot *q, int i);

/* A plan without a session, of as many outputs as there can be: as it is, then with what data decides as the feeds' samples
 * have it (those that have none get numbers), then without the outputs that cannot be computed.  infer: the pipeline up to
 * infer alone.  Errors: of the ways, what says most. */
ot_status ot_plan_any(const ot_graph *g, ot_config *c, ot_feed *feeds, bool infer, ot_arena *a, ot_plan **out,
                      ot_error *err);

/* Fills the feeders' buffers with the first samples, and names them in feeds. */
ot_status ot_variants_sample(ot_session *x, ot_feeders *fs, int64_t batch, ot_feed *feeds, ot_error *err);

#endif
