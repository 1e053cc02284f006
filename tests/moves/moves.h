/* moves.h - functions that the tests of moving kernels share (main.c). */
#ifndef OT_TEST_MOVES_H
#define OT_TEST_MOVES_H

#include "tests/ops/harness.h"

typedef struct trials {
    ot_device *device; /* NULL: the CPU */
    bool described;    /* kernels are only prepared */
    int runs, failed;
} trials;

int64_t pick(dice *d, int64_t n);                 /* 0 to n - 1 */
int64_t between(dice *d, int64_t lo, int64_t hi); /* both included */
ot_shape vector(int64_t n);

/* A graph of one node; try_node frees it. */
ot_graph *graph_new(void);

/* A constant of random numbers in [lo, hi), of integers whole ones. */
ot_value *numbers(ot_graph *g, dice *d, ot_dtype t, ot_shape s, double lo, double hi);

/* Runs op on `in` by the reference and by every kernel, and compares. */
void try_node(trials *t, const char *name, ot_graph *g, const ot_op *op, const void *attrs, ot_value *const *in,
              int n_in);

/* The same with an index out of range: every kernel must report it and write nothing elsewhere. */
void must_report(trials *t, const char *name, ot_graph *g, const ot_op *op, const void *attrs, ot_value *const *in,
                 int n_in);

void test_boxes(trials *t);
void test_indices(trials *t);

#endif
