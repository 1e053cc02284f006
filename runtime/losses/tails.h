/* tails.h - finds the Softmax, LogSoftmax or Sigmoid of an output, through operators that only move elements, and
 * the class axis of the output. */
#ifndef OT_TAILS_H
#define OT_TAILS_H

#include "ops/op.h"

typedef enum ot_tail_kind { OT_TAIL_NONE, OT_TAIL_SOFTMAX, OT_TAIL_LOG_SOFTMAX, OT_TAIL_SIGMOID } ot_tail_kind;

enum { OT_TAIL_MOVES = 16 };

typedef struct ot_tail {
    ot_tail_kind kind;
    ot_value *x; /* the input of the Softmax or Sigmoid; NULL: there is none */
    bool shares; /* Sigmoids that sum to 1: the Softmax of their logarithms */
    bool probs; /* x itself has probabilities that sum to 1, however they are computed: the Softmax of its logarithms */
    const ot_node
        *pair; /* of those: the Concat of a Sigmoid, its input `of`, and 1 minus that; NULL: x has all of them */
    int of;
    int axis; /* of the output: the only normalised axis, contained as a whole; -1: there is none */
    int n;    /* operators between it and the output, from the output back */
    const ot_node *move[OT_TAIL_MOVES];
} ot_tail;

/* How v is computed.  Shapes need not be known; axis is -1 then. */
ot_tail ot_tail_find(const ot_value *v);

/* "Softmax"; for a line to the user. */
const char *ot_tail_name(const ot_tail *t);

/* v without its tail: the operators after the tail are applied to x.  A Clip of probabilities and a rounding are omitted. */
ot_value *ot_tail_undo(ot_build *b, const ot_tail *t);

/* The operators after the tail in parentheses, for a message; "": none. */
const char *ot_tail_moves(const ot_tail *t, char *buf, size_t size);

/* The axis of v that is the feature axis of the linear layer or convolution that computes it; -1: not found.  *by:
 * that node. */
int ot_made_axis(const ot_value *v, const ot_node **by);

/* Do the values of v come from a HardSigmoid?  They are probabilities as those of a Sigmoid, but no loss is combined with it. */
bool ot_made_hard_sigmoid(const ot_value *v);

/* Is v what a linear layer or a convolution gives, with a bias at most: can it be any number?  Shapes need not be known. */
bool ot_made_linear(const ot_value *v);

#endif
