/* attend.h - attributes of Attend and AttendDx: attention without its matrix of scores in memory.
 *
 * Attend   (q, k, v[, mask]) -> y, top, sum
 *          q: (B, H, T, D)  k: (B, H, S, D)  v: (B, H, S, E)  y: (B, H, T, E)
 *          score[t, s] = scale q[t].k[s]; + mask[t, s] for a float mask; `hidden` where a bool mask is false and,
 *          with `causal`, where s > t
 *          y[t] = sum over s of softmax(score[t])[s] v[s]
 *          top[t] = the largest score, sum[t] = sum of exp(score[t] - top[t]): (B, H, T), f32 (f64 for f64).  Two numbers,
 *          since top + log(sum) loses the second where all of a row is hidden
 *          mask: bool or float, broadcasts to (B, H, T, S)
 * AttendDx (dy, q, k, v, y, top, sum[, mask]) -> dq, dk, dv
 * A mask has no gradient: what trains goes another way (passes/recognise.c sees to that). */
#ifndef OT_ATTEND_H
#define OT_ATTEND_H

#include "ops/op.h"

/* The extents of either node. */
typedef struct ot_attend_sizes { int64_t B, H, T, S, D, E; } ot_attend_sizes;

/* Element (b, h, t, d) of an operand lies at src + b stride[0] + h / heads stride[1] + t stride[2] + d stride[3] of a
 * value: heads are `heads` together one of the value (grouped queries). */
typedef struct ot_attend_lie { int64_t src, stride[4], heads; } ot_attend_lie;

/* Where the inputs and outputs of a node lie that reads and writes through strides (passes/fuse_attend.c). */
typedef struct ot_attend_places {
    ot_attend_sizes s;
    ot_attend_lie   in[8], out[3];
    ot_shape        shape[3]; /* of the outputs as values */
} ot_attend_places;

typedef struct ot_attend {
    double  scale;
    int64_t causal;
    double  hidden;
    const ot_attend_places *at; /* arena memory; NULL: everything is dense, as above */
} ot_attend;

/* Where q stands among the inputs of either node: dy is in front of it in AttendDx; and the mask, if there is one. */
static inline int ot_attend_q(const ot_node *n) { return n->n_in >= 7; }
static inline const ot_value *ot_attend_mask(const ot_node *n)
{
    int at = ot_attend_q(n) ? 7 : 3;
    return n->n_in > at ? n->in[at] : NULL;
}

void ot_attend_sizes_of(const ot_node *n, ot_attend_sizes *s);

/* Where q, k, v, y, dy and their gradients lie. */
ot_attend_lie ot_attend_in(const ot_node *n, int i);
ot_attend_lie ot_attend_out(const ot_node *n, int i);

/* Element (t, d) of head h of the B H. */
static inline int64_t ot_attend_at(const ot_attend_lie *l, int64_t H, int64_t h, int64_t t, int64_t d)
{
    return l->src + h / H * l->stride[0] + h % H / l->heads * l->stride[1] + t * l->stride[2] + d * l->stride[3];
}

/* Element strides of the mask along (B, H, T, S); 0 where it is repeated. */
void ot_attend_mask_strides(const ot_shape *mask, int64_t stride[4]);

#endif
