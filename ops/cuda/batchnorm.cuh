/* batchnorm.cuh - arguments that batchnorm.c passes to batchnorm.cu. */
typedef struct ot_batch_norm_args {
    const void *x, *dy, *scale, *bias; /* scale, bias and the statistics: of type TS */
    const void *mean_in, *inv_in;      /* what the gradient reads */
    void       *y;                     /* dx */
    void       *mean, *var, *inv;      /* out */
    void       *dscale, *dbias;        /* out */
    void       *sums;                  /* (chunks, 2, C) of ACC: mean and squared deviations, or sums of dy and dy (x - mean) */
    void       *factors;               /* (3, C) of ACC: what the last launch multiplies by */
    long long   C, P, rows;            /* rows = N P elements of a channel, P of a sample */
    long long   chunk;                 /* elements of a channel that one block takes */
    int         chunks;
    double      epsilon;
} ot_batch_norm_args;
