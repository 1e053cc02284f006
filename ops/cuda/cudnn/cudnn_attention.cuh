/* cudnn_attention.cuh - arguments that attention.c passes to cudnn_attention.cu. */
typedef struct ot_attention_beside_args {
    const void *mask;      /* MT (n) */
    const float *top, *sum; /* (n) */
    float      *bias, *lse; /* (n): of attention_bias, of attention_lse */
    long long   n;
} ot_attention_beside_args;
