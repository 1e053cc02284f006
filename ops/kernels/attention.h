/* attention.h - attributes of FusedAttention and FusedAttentionDx: attention that does not store its matrix of scores.
 *
 * FusedAttention   (q, k, v[, mask]) -> y, top, sum
 *          q: (B, H, T, D)  k: (B, H, S, D)  v: (B, H, S, E)  y: (B, H, T, E)
 *          score[t, s] = scale q[t].k[s]; + mask[t, s] for a float mask; `hidden` where a bool mask is false and,
 *          with `causal`, where s > t
 *          y[t] = sum over s of softmax(score[t])[s] v[s]
 *          top[t] = the largest score, sum[t] = sum of exp(score[t] - top[t]): (B, H, T), f32 (f64 for f64).  Two
 *          numbers, since top + log(sum) loses sum in rows that are entirely hidden
 *          mask: bool or float, broadcasts to (B, H, T, S)
 *          With `zero_rows` a row whose probabilities would be NaN, as where every score is minus infinity, has y 0, top 0,
 *          sum 1: what an IsNaN and a Where behind the Softmax make of it (PyTorch's exports of attention with a bool mask)
 * FusedAttentionDx (dy, q, k, v, y, top, sum[, mask]) -> dq, dk, dv
 * A mask has no gradient: attention with a mask that trains is not fused (passes/recognise.c). */
#ifndef OT_ATTENTION_H
#define OT_ATTENTION_H

#include "ops/op.h"

/* The sizes of either node. */
typedef struct ot_attention_sizes {
    int64_t B, H, T, S, D, E;
} ot_attention_sizes;

/* Element (b, h, t, d) of an operand is at src + b stride[0] + h / heads stride[1] + t stride[2] + d stride[3] of a
 * value: `heads` consecutive heads share one of the value (grouped queries). */
typedef struct ot_attention_lie {
    int64_t src, stride[4], heads;
} ot_attention_lie;

/* The positions of the inputs and results of a node that reads and writes with strides (passes/fuse_attention.c).  Inputs may be
 * parts of one value, and so may results: dq, dk and dv of a joint projection. */
typedef struct ot_attention_places {
    ot_attention_sizes s;
    ot_attention_lie in[8], out[3];
    int to[3]; /* the output that result i is a part of; outputs without a result are missing.  -1: not needed */
    ot_shape shape[3]; /* of the outputs as values */
} ot_attention_places;

typedef struct ot_attention {
    double scale;
    int64_t causal;
    double hidden;
    int64_t zero_rows;
    const ot_attention_places *at; /* arena memory; NULL: all operands are dense, as above */
} ot_attention;

/* The index of q among the inputs of either node (FusedAttentionDx has dy first); and the mask, if there is one. */
static inline int ot_attention_q(const ot_node *n) { return n->n_in >= 7; }
static inline const ot_value *ot_attention_mask(const ot_node *n)
{
    int at = ot_attention_q(n) ? 7 : 3;
    return n->n_in > at ? n->in[at] : NULL;
}

void ot_attention_sizes_of(const ot_node *n, ot_attention_sizes *s);

/* The positions of q, k, v, y, dy and their gradients; of a result in output ot_attention_to. */
ot_attention_lie ot_attention_in(const ot_node *n, int i);
ot_attention_lie ot_attention_out(const ot_node *n, int i);

/* The output that has y (i is 0), or dq, dk or dv; -1: it is not needed. */
int ot_attention_to(const ot_node *n, int i);

/* Element (t, d) of head h of the B H. */
static inline int64_t ot_attention_at(const ot_attention_lie *l, int64_t H, int64_t h, int64_t t, int64_t d)
{
    return l->src + h / H * l->stride[0] + h % H / l->heads * l->stride[1] + t * l->stride[2] + d * l->stride[3];
}

/* Element strides of the mask along (B, H, T, S); 0 on broadcast axes. */
void ot_attention_mask_strides(const ot_shape *mask, int64_t stride[4]);

#endif
