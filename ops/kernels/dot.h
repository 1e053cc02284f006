/* dot.h - attributes of Dot, the matrix product kernel.
 *
 * y = op(a) . op(b) + bias     op(x): x, or its last two axes swapped
 * a: (..., M, K)  b: (..., K, N)  y: (..., M, N), leading axes broadcast; bias: (N), optional third input.
 * Both operands have rank >= 2. */
#ifndef OT_DOT_H
#define OT_DOT_H

#include "ops/op.h"

typedef struct ot_dot {
    int64_t ta, tb;
} ot_dot;

#endif
