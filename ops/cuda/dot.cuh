/* dot.cuh - arguments that dot.c passes to dot.cu and dotvector.cu. */
enum { OT_DOT_AXES = 8, OT_DOT_OPERANDS = 4 };

/* Element (m, k) of a is at m * lda + k or, transposed, at k * lda + m; the same for (n, k) of b. */
typedef struct ot_dot_args {
    const void *a, *b, *bias; /* bias: NULL for none */
    void       *y, *work;     /* work: the sums of `splits` parts of the terms; NULL: y is written at once */
    long long   M, N, K, lda, ldb;
    long long   batch, dim[OT_DOT_AXES], a_step[OT_DOT_AXES], b_step[OT_DOT_AXES]; /* leading axes of y, the last one first */
    int         axes, splits;
    long long   share; /* steps of BK terms in one part */

    /* Of a Map behind the product: its result, and its operands other than y, which is then NULL if it is not stored. */
    void       *mapped;
    const void *other[OT_DOT_OPERANDS];
} ot_dot_args;

/* A matrix (lines x K) times a vector. */
typedef struct ot_dotvector_args {
    const void *matrix, *vector, *bias;
    void       *y;
    long long   lines, K, line, k; /* strides of the matrix */
    long long   batch, dim[OT_DOT_AXES], matrix_step[OT_DOT_AXES], vector_step[OT_DOT_AXES];
    int         axes, one_bias; /* one_bias: the same for all lines */
} ot_dotvector_args;
