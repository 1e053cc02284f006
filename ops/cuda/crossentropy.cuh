/* crossentropy.cuh - arguments that crossentropy.c passes to crossentropy.cu. */
typedef struct ot_cross_entropy_args {
    const void *x, *target, *weight, *dloss;
    void       *logp, *dx;
    void       *loss;             /* one per sample, of type TP; WHOLE: the loss itself, of type TL */
    const double *count;          /* what the mean divides by; NULL: the number of samples */
    long long   samples, n, step; /* n classes */
    long long   row;              /* PADDED: elements from one sample to the next */
    long long   ignore;
    double      share, rest;      /* of every class, smoothing / n; what remains, 1 - smoothing */
    void       *fault;
    int         step_number;
} ot_cross_entropy_args;

/* Sums of a chunk of samples: loss, and the weights of those that count. */
typedef struct ot_cross_entropy_sum { double loss, count; } ot_cross_entropy_sum;

typedef struct ot_cross_entropy_fold_args {
    const void                 *each;   /* losses of samples (NULL: 0), or sums of chunks */
    const void                 *target, *weight;
    long long                   n, classes, ignore; /* n: samples, or sums */
    ot_cross_entropy_sum       *sums;   /* out, one per block */
    void                       *loss;   /* out, of type TL, from the only block; NULL: none */
    double                      count;  /* what the mean divides by; 0: the sum of the weights */
} ot_cross_entropy_fold_args;
