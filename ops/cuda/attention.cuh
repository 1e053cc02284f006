/* attention.cuh - arguments that attention.c passes to attention.cu. */
typedef struct ot_attention_args {
    const void *q, *k, *v, *mask;
    const void *dy;              /* gradients: of y; y itself goes to attention_delta only */
    void       *y, *top, *sum;   /* written by attend, read by the gradients */
    void       *delta;           /* sum of dy y per token of q, ACC */
    void       *dq, *dk, *dv;    /* dk or dv NULL: not wanted */
    long long   T, S, heads;     /* heads: H, of a sample; a block works at one head of one sample */
    long long   mask_stride[4];
    double      scale, hidden;
    long long   rows;            /* attention_delta: B H T */
} ot_attention_args;
