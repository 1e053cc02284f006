/* control.h - functions that control.c and sequence.c share, for unrolling nodes while shapes are inferred. */
#ifndef OT_PASSES_CONTROL_H
#define OT_PASSES_CONTROL_H

#include "runtime/graph/graph.h"

/* Moves the nodes and values of a subgraph into g, before the cursor. */
ot_status ot_splice(ot_graph *g, ot_graph *sub);

/* Replaces output i of n by the result of `op` (of ONNX) over the given operands. */
ot_status ot_deliver(ot_graph *g, ot_node *n, int i, const char *op, ot_value *const *in, int n_in);

/* One more copy of a body, not yet in g; NULL: the copies exceed the graph's budget. */
ot_graph *ot_iteration(ot_graph *g, const ot_node *n, const ot_graph *body, ot_value *const *in);

/* A list of n times `each` values; NULL: over the graph's budget. */
ot_value **ot_value_list(ot_graph *g, int64_t n, int64_t each);

/* Replaces n, which reads or makes a sequence or an optional; *over: n is done.  Identity and Where count if they
 * read such values. */
ot_status ot_spell_sequence(ot_graph *g, ot_node *n, bool *over);
ot_status ot_spell_flex(ot_graph *g, ot_node *n, bool *over); /* flex.c: FlexAttention */
bool ot_reads_sequence(const ot_node *n);                     /* is it a FlexAttention? */

#endif
