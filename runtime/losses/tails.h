/* tails.h - how a graph ends: the Softmax, LogSoftmax or Sigmoid of an output, found through operators that only move
 * elements, and which axis of the output holds the classes. */
#ifndef OT_TAILS_H
#define OT_TAILS_H

#include "ops/op.h"

typedef enum ot_tail_kind { OT_TAIL_NONE, OT_TAIL_SOFTMAX, OT_TAIL_LOG_SOFTMAX, OT_TAIL_SIGMOID } ot_tail_kind;

enum { OT_TAIL_MOVES = 16 };

typedef struct ot_tail {
    ot_tail_kind kind;
    ot_value *x; /* what the Softmax or Sigmoid takes; NULL: there is none */
    bool shares; /* Sigmoids that sum to 1: the Softmax of their logarithms */
    const ot_node
        *pair; /* of those: the Concat of a Sigmoid, its input `of`, and what it leaves of 1; NULL: x has all of them */
    int of;
    int axis; /* of the output: it alone is normalised, and is there as a whole; -1: there is no such axis */
    int n;    /* operators between it and the output, from the output back */
    const ot_node *move[OT_TAIL_MOVES];
} ot_tail;

/* How v is made.  Shapes need not be known; axis is -1 then. */
ot_tail ot_tail_find(const ot_value *v);

/* "Softmax"; for a line to the user. */
const char *ot_tail_name(const ot_tail *t);

/* What v would be without its tail: the operators behind it moved over to x.  A Clip of probabilities is left out. */
ot_value *ot_tail_undo(ot_build *b, const ot_tail *t);

/* " (behind it: Squeeze, Clip; ...)", what stands behind the tail, for a line to the user; "": nothing. */
const char *ot_tail_moves(const ot_tail *t, char *buf, size_t size);

/* The axis of v that the linear layer or convolution which makes it gives its outputs; -1: none is found.  *by: its node. */
int ot_made_axis(const ot_value *v, const ot_node **by);

#endif
