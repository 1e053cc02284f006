/* prefixsum.cuh - arguments that prefixsum.c passes to prefixsum.cu. */
typedef struct ot_prefix_sum_args {
    const void *x;
    void       *y;
    long long   lines, n, inner; /* line l begins at l / inner * n * inner + l % inner, in steps of inner */
    int         exclusive, reverse;
} ot_prefix_sum_args;
