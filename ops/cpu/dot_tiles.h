/* dot_tiles.h - the parts of a matrix product of packed operands, built once per instruction set. */
#ifndef OT_DOT_TILES_H
#define OT_DOT_TILES_H

#include "runtime/base/base.h"

/* y = a . b + add, of (M, K) and (K, N); strides in elements. */
typedef struct ot_dot_job {
    int64_t M, N, K;
    const float *a, *b, *add; /* add: row i at add[i * add_row]; NULL: zeros */
    int64_t a_row, a_column, b_row, b_column, add_row;
    float *y; /* rows of N */
    float *pack_a,
        *pack_b; /* of a block: panels of `down` rows, strips of `across` columns, each with its k in order */
} ot_dot_job;

/* Rows m to m_end, columns n to n_end, and a part of the sums. */
typedef struct ot_dot_block {
    int64_t m, m_end, n, n_end, k, k_end;
} ot_dot_block;

typedef struct ot_dot_tiles {
    const char *name; /* "avx2" */
    int down, across;
    /* Rows of the last panel that are not there are zeros, and columns of the last strip. */
    void (*pack_a)(const ot_dot_job *j, const ot_dot_block *at, int64_t panel, int64_t panel_end);
    void (*pack_b)(const ot_dot_job *j, const ot_dot_block *at, int64_t strip, int64_t strip_end);
    /* These panels and strips of the block: y, or from the second k on y plus it. */
    void (*multiply)(const ot_dot_job *j, const ot_dot_block *at, int64_t panel, int64_t panel_end, int64_t strip,
                     int64_t strip_end);
} ot_dot_tiles;

extern const ot_dot_tiles ot_dot_tiles_base, ot_dot_tiles_avx2, ot_dot_tiles_avx512;

#endif
