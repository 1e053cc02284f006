/* reduce.h - attributes of the Reduce kernel: x, or the result of a Map, reduced over a set of axes.
 *
 * Sums and products accumulate in f32 or better for f16/bf16/f32, in f64 for f64, in int64 for integers, in
 * a fixed tree that does not depend on the threads.  SUMSQ is the sum of squares.  With keepdims the axes stay as 1.
 *
 * With a program the inputs are those of a Map of one output: its output is reduced without being stored. The fuse pass
 * makes such nodes if the device's kernel supports them. */
#ifndef OT_REDUCE_H
#define OT_REDUCE_H

#include "ops/kernels/map.h"

typedef enum ot_reduce_kind {
    OT_REDUCE_SUM,
    OT_REDUCE_MAX,
    OT_REDUCE_MIN,
    OT_REDUCE_PROD,
    OT_REDUCE_SUMSQ
} ot_reduce_kind;

typedef struct ot_reduce {
    int64_t kind; /* ot_reduce_kind */
    int64_t axes; /* bit d: axis d is reduced */
    int64_t keepdims;
    int64_t wide;              /* y is f32 if x has 16 bits */
    const ot_program *program; /* NULL: x itself.  In the graph's memory */
} ot_reduce;

/* The reduced operand: its shape and type. */
void ot_reduce_x(const ot_node *n, ot_shape *shape, ot_dtype *t);

/* sqrt(s) of sums of squares, as a norm or deviation is computed: where s is 0 its gradient is 0. */
ot_value *ot_sqrt_of_squares(ot_build *b, ot_value *s);

#endif
