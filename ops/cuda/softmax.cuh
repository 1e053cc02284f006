/* softmax.cuh - arguments that softmax.c passes to softmax.cu. */
typedef struct ot_softmax_axis_args {
    const void *x, *dy; /* the gradient has y for x */
    void       *y;      /* dx */
    long long   samples, n, step;
} ot_softmax_axis_args;
