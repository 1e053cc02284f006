/* channelsum.cuh - arguments that channelsum.c passes to channelsum.cu. */
typedef struct ot_channel_sum_args {
    const void *x;     /* (N, C, P) or, with LAST, (N P, C) */
    void       *parts; /* ACC (S, C): sums of the S parts of what is summed */
    void       *y;     /* (C) */
    long long   N, C, P, S;
} ot_channel_sum_args;
