/* attention.cuh - arguments that attention.c passes to attention.cu. */

/* Element (t, d) of head h of sample b is at b batch + h / share head + t token + d channel of `at`. */
typedef struct ot_attention_operand {
    void       *at;              /* NULL: a gradient that is not wanted */
    long long   batch, head, token, channel, share;
} ot_attention_operand;

typedef struct ot_attention_args {
    ot_attention_operand q, k, v;
    ot_attention_operand y, dy;      /* of gradients: read, y by attention_delta only */
    ot_attention_operand dq, dk, dv;
    const void *mask;
    void       *top, *sum;       /* written by attend, read by the gradients */
    void       *delta;           /* sum of dy y per token of q, ACC */
    long long   T, S, heads;     /* heads: H, of a sample; a block works at one head of one sample */
    long long   mask_stride[4];
    double      scale, hidden;
    long long   rows;            /* attention_delta: B H T */
} ot_attention_args;
