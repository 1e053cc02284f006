/* recurrent_steps.h - the steps of Recurrent and its gradient for some samples and units, built once per instruction set. */
#ifndef OT_RECURRENT_STEPS_H
#define OT_RECURRENT_STEPS_H

#include "ops/cpu/vector.h"
#include "ops/kernels/recurrent.h"

typedef struct ot_recurrent_job {
    ot_recurrent a;
    ot_recurrent_sizes z;
    const void *lens; /* NULL: every sample has T steps */
    ot_dtype lens_type;
    const float *r;
    const float *zeros; /* H of them */
    /* Forward; NULL: not needed. */
    const float *x, *inputs, *w; /* x, or inputs and w */
    const float *bias, *q_bias;  /* bias: (G H), added to x; q_bias: (H) GRU, to q */
    float *y, *h, *c, *gates, *cells;
    float *state; /* (2, N, H): where y cannot stand for it, step k reads k % 2 and writes the other */
    float *cell;  /* (N, H) LSTM */
    /* Gradient; NULL: zeros, or not needed. */
    const float *h0, *c0, *y_in, *gates_in, *cells_in, *dy, *dh, *dc;
    float *dx, *da, *before, *dh0, *dc0;
    float *spare; /* (2, N, G H): da of a step, where the gradient itself is not needed */
} ot_recurrent_job;

/* Samples n to n_end, units u to u_end. */
typedef struct ot_recurrent_part {
    int64_t n, n_end, u, u_end;
    const float
        *packed; /* w and r as the products read them: strips of columns, in each the rows of w before those of r */
    float *work;
} ot_recurrent_part;

typedef struct ot_recurrent_steps {
    const char *name; /* "avx2" */
    int strip;        /* columns of a packed strip: those of a tile, so that the strip is read in order */
    /* Packs strip s of the columns of these units: their gates, transposed; for the gradient the units themselves. */
    void (*pack)(const ot_recurrent_job *j, const ot_recurrent_part *p, int64_t s, float *to);
    void (*pack_gradient)(const ot_recurrent_job *j, const ot_recurrent_part *p, int64_t s, float *to);
    /* Steps k to k_end in the order of the computation.  Others parts' units of the same samples must have done step
     * k - 1.  forward: 0 .. T-1.  backward: 0 .. T, number 0 is the last step of the forward part; T gives dh0 and dc0. */
    void (*forward)(const ot_recurrent_job *j, const ot_recurrent_part *p, int64_t k, int64_t k_end);
    void (*backward)(const ot_recurrent_job *j, const ot_recurrent_part *p, int64_t k, int64_t k_end);
} ot_recurrent_steps;

extern const ot_recurrent_steps ot_recurrent_steps_base, ot_recurrent_steps_avx2, ot_recurrent_steps_avx512;

/* Strips of some columns; products write whole vectors of 16. */
static inline int64_t ot_recurrent_strips(const ot_recurrent_steps *s, int64_t columns)
{
    return (ot_floats_up(columns) + s->strip - 1) / s->strip;
}

/* Columns of sums for the gradient of the biases: of each gate, and one more for GRU's q. */
static inline int64_t ot_recurrent_sums(const ot_recurrent_sizes *z, int64_t units)
{
    return ot_floats_up((z->G + 1) * units);
}

/* Floats of a part's `work`.  The gradient's begins with the sums, in f64, and those of one step. */
static inline int64_t ot_recurrent_work(const ot_recurrent_sizes *z, int64_t rows, int64_t units, bool gradient)
{
    if (!gradient) return rows * (ot_floats_up(z->G * units) + ot_floats_apart(z->I + z->H));
    return 3 * ot_recurrent_sums(z, units) + rows * (3 * ot_floats_up(units) + ot_floats_apart(z->G * z->H));
}

#endif
