/* cumulate.cuh - what cumulate.c hands to cumulate.cu. */
typedef struct ot_cumulate_args {
    const void *x;
    void       *y;
    long long   lines, n, inner; /* line l begins at l / inner * n * inner + l % inner, in steps of inner */
    int         exclusive, reverse;
} ot_cumulate_args;
