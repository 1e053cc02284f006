/* batching.h - computes one operator of a file's graph for several micro-batches at once: the interface between
 * rebatch.c, which walks the graph, and the operators' rules (ot_op.batch).  A rule of a single operator is in that
 * operator's file, those of families are in batchrules.c. */
#ifndef OT_BATCHING_H
#define OT_BATCHING_H

#include "ops/op.h"

/* The position of the micro-batches in a value (value->mark).  0: none, the value is the same for all of them.  1 +
 * a: on axis a, which has `count` times the elements of one micro-batch, one micro-batch after the other.  OT_ALONE:
 * a micro-batch has a scalar, and the value is a list of them. */
enum { OT_ALONE = 1 + OT_MAX_RANK };

static inline int ot_on_axis(int axis) { return axis + 1; }
static inline int ot_batch_axis(const ot_value *v) { return v->mark - 1; }

typedef struct ot_batching {
    ot_graph *g;
    int64_t count;    /* number of micro-batches, each of the file's own batch size; 0: row by row */
    int64_t from, to; /* row by row: batch sizes.  No operator may act along the batch axis, whose size changes */
    int *samples;     /* by output: the axis of the file's samples; -1: not known */
    bool apart;       /* no rules except for operators intended for a whole batch */
    int followed;     /* number of operators that a rule changed */
    int repeated;     /* number of operators without a rule: repeated for each micro-batch */
    char names[200];
    int mixing;                   /* number of operators that act along the file's batch, and so mix its samples */
    const char *mixed, *mixed_op; /* the first of them */
    const char *pairs; /* the first product of samples with each other, of a sample with itself here; NULL: none */
    ot_value ***parts; /* by value id: its micro-batches, one by one; NULL: not built yet */
    int n_parts;
} ot_batching;

enum { OT_BATCHED_OUTPUTS = 64 };

/* The replacement of a node by a rule: the same operator, or `op`, with other operands.
 *  explicit_at >= 0  the results have a separate axis for the micro-batches there, which is then merged with the
 *  next
 *  else mark[i]      the position of the micro-batches in output i */
typedef struct ot_batched {
    const ot_op *op;
    void *attrs;
    int n_in;
    ot_value **in;
    int explicit_at;
    int mark[OT_BATCHED_OUTPUTS];
} ot_batched;

/* The rule for n, of which some input has a batch; own: the shapes of its outputs for one micro-batch.  false: no
 * rule applies.  Helper nodes are inserted before n. */
bool ot_batch_rule(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r);

/* The shape of v for one micro-batch. */
ot_shape ot_own_shape(const ot_batching *b, const ot_value *v);

/* s with the elements of axis times the micro-batches; mark OT_ALONE: a list.  false: row by row, and the size is no
 * multiple. */
bool ot_joined_shape(const ot_batching *b, const ot_shape *s, int mark, ot_shape *out);

/* v with its micro-batches on another axis.  NULL: row by row, and elements would have to move; or a recorded error. */
ot_value *ot_batch_move(ot_batching *b, ot_value *v, int axis);

/* One output of a new node at the cursor, inferred; NULL: a recorded error. */
ot_value *ot_batch_emit(ot_batching *b, const char *op, ot_value *const *in, int n_in);
ot_value *ot_batch_reshape(ot_batching *b, ot_value *v, const ot_shape *s, int mark);
ot_value *ot_batch_ints(ot_batching *b, const int64_t *list, int n);

ot_value *ot_batch_shape(ot_batching *b, const ot_shape *s); /* as a constant */
ot_value *ot_batch_expand(ot_batching *b, ot_value *v, const ot_shape *s);

/* A batched v for operands that broadcast to `rank` axes: moves its batch to axis `axis`. */
ot_value *ot_batch_placed(ot_batching *b, ot_value *v, int rank, int axis);

/* A batched v, of own shape p, with a separate axis for the micro-batches before axis `at`. */
ot_value *ot_batch_apart(ot_batching *b, ot_value *v, const ot_shape *p, int at);

/* Any v with a leading axis for the micro-batches; with its batch on `axis`.  Repeated if it is the same for all. */
ot_value *ot_batch_full(ot_batching *b, ot_value *v);
ot_value *ot_batch_spread(ot_batching *b, ot_value *v, int axis);

/* s with an axis of n elements inserted before axis `at`; false: too many axes. */
bool ot_with_axis(const ot_shape *s, int at, int64_t n, ot_shape *out);

int64_t ot_elements(const ot_shape *s, int from, int to); /* of axes from .. to - 1 */

/* s with leading axes of one element, up to `rank`. */
ot_shape ot_padded_shape(const ot_shape *s, int rank);

/* ---- rules of families (ot_op.batch) ---- */

bool ot_batch_pointwise(ot_batching *b, const ot_node *n, const ot_shape *own,
                        ot_batched *r); /* element-wise, over operands that broadcast */
bool ot_batch_by_axis(ot_batching *b, const ot_node *n, const ot_shape *own,
                      ot_batched *r); /* along an attribute `axis` */
bool ot_batch_from_axis(ot_batching *b, const ot_node *n, const ot_shape *own,
                        ot_batched *r); /* along `axis` and all axes after it */
bool ot_batch_cumulated(ot_batching *b, const ot_node *n, const ot_shape *own,
                        ot_batched *r); /* along the axis in input 1 */
bool ot_batch_viewed(ot_batching *b, const ot_node *n, const ot_shape *own,
                     ot_batched *r); /* the same elements with another shape */
bool ot_batch_first(ot_batching *b, const ot_node *n, const ot_shape *own,
                    ot_batched *r); /* input 0 always has its batch on axis 0 */

/* ---- helpers for rules ---- */

bool ot_batch_given(const ot_node *n, int i); /* does input i exist, */
bool ot_batch_has(const ot_node *n, int i);   /* and does it have a batch? */

/* Is input 0 the only one with a batch, and not a list of scalars? */
bool ot_batch_first_alone(const ot_node *n);

/* Results of rules: all outputs have their micro-batches on `axis`; have a separate axis for them there. */
bool ot_batch_on(ot_batched *r, const ot_node *n, int axis);
bool ot_batch_explicit(ot_batched *r, int at);

/* Input 0 of an operator that acts along the axes `set` of it and removes the axes `gone`. */
bool ot_batch_along(ot_batching *b, const ot_node *n, int64_t set, int64_t gone, ot_batched *r);

/* The same for an operator whose results depend on all elements along these axes. */
bool ot_batch_mixed_along(ot_batching *b, const ot_node *n, int64_t set, int64_t gone, ot_batched *r);

/* n acts along axis `a` of input i: if that is the file's batch axis, it mixes samples. */
void ot_batch_mixes(ot_batching *b, const ot_node *n, int i, int a);

/* Replaces the operator by another one with default attributes. */
bool ot_batch_other_op(ot_batching *b, ot_batched *r, const ot_op *op);

/* The operand that determines the batch axis of the others: the largest. */
int ot_batch_leader(const ot_batching *b, const ot_node *n);

/* The axis of a result of y's rank on which operand `lead` has its batch when both broadcast. */
int ot_batch_axis_in(const ot_batching *b, const ot_value *lead, const ot_shape *y);

/* Can operands broadcast to y unchanged, with the batch on `axis`? */
bool ot_batch_meet(const ot_batching *b, const ot_node *n, const ot_shape *y, int axis, int operands);

/* Operands `set` (bit i: input i) have a batch on axis 0, and so do all results; other operands are the same for
 * every sample. */
bool ot_batch_operands_first(ot_batching *b, const ot_node *n, unsigned set, ot_batched *r);

#endif
