/* layernorm.cuh - arguments that layernorm.c passes to layernorm.cu. */
typedef struct ot_layer_norm_args {
    const void *x, *dy, *scale, *bias; /* scale, bias: of type TS */
    const void *add;                   /* to dx, with ADD */
    void       *y;                     /* dx */
    void       *mean, *inv;            /* of type ACC; read by the gradient */
    void       *sums;                  /* of dscale and dbias: (chunks, 2, n) of ACC */
    long long   rows, n, chunk;        /* chunk: rows that one block adds up */
    double      epsilon;
} ot_layer_norm_args;

typedef struct ot_layer_norm_fold_args {
    const void *sums;
    void       *dscale, *dbias; /* of type TS; NULL: not needed */
    long long   chunks, n;
} ot_layer_norm_fold_args;
