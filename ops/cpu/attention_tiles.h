/* attention_tiles.h - the blocks of FusedAttention and its gradient, built once per instruction set. */
#ifndef OT_ATTENTION_TILES_H
#define OT_ATTENTION_TILES_H

#include "ops/cpu/vector.h"
#include "ops/kernels/attention.h"

/* Queries and keys per block: their scores, 16 KiB, and the operands of the products stay in the L1 and L2 caches. */
enum { OT_ATTEND_ROWS = 64, OT_ATTEND_KEYS = 64 };

typedef struct ot_attention_operand {
    float *p;
    ot_attention_lie at;
} ot_attention_operand;

typedef struct ot_attention_job {
    ot_attention_sizes s;
    ot_attention a;
    const void *mask;
    bool truth; /* it is bool, else float */
    int64_t mask_stride[4];
    ot_attention_operand q, k, v, y, dy, dq, dk, dv; /* p NULL: not needed */
    float *top, *sum;                                /* (B, H, T); NULL: not needed */
} ot_attention_job;

/* Queries t to t_end and keys s to s_end of one head (of B H), from the start of a block. */
typedef struct ot_attention_part {
    int64_t head, t, t_end, s, s_end;
    bool queries, keys; /* backward: compute dq, compute dk and dv */
} ot_attention_part;

typedef struct ot_attention_tiles {
    const char *name; /* "avx2" */
    void (*forward)(const ot_attention_job *j, const ot_attention_part *at,
                    float *work); /* all keys, whatever the part */
    /* dq: of these queries from these keys; dk, dv: of these keys from these queries. */
    void (*backward)(const ot_attention_job *j, const ot_attention_part *at, float *work);
} ot_attention_tiles;

extern const ot_attention_tiles ot_attention_tiles_base, ot_attention_tiles_avx2, ot_attention_tiles_avx512;

/* Floats of workspace per thread, as the two functions divide them. */
static inline int64_t ot_attention_work(const ot_attention_sizes *z, bool gradient)
{
    int64_t D = ot_floats_up(z->D), E = ot_floats_up(z->E), T = (z->T + 63) / 64 * 64, S = (z->S + 63) / 64 * 64;
    if (!gradient) return S * (D + E) + OT_ATTEND_ROWS * (D + E + OT_ATTEND_KEYS);
    return T * (2 * D + E + 2) + OT_ATTEND_KEYS * (3 * D + 2 * E) + 2 * OT_ATTEND_ROWS * OT_ATTEND_KEYS;
}

#endif
