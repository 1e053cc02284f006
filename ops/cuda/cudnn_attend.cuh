/* cudnn_attend.cuh - what cudnn_attend.c hands to cudnn_attend.cu. */
typedef struct ot_attend_beside_args {
    const void *mask;      /* MT (n) */
    const float *top, *sum; /* (n) */
    float      *bias, *lse; /* (n): of attend_bias, of attend_lse */
    long long   n;
} ot_attend_beside_args;
