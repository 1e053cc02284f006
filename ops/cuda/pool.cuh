/* pool.cuh - arguments that pool.c passes to pool.cu. */
typedef struct ot_pool_args {
    const void *x;     /* dy */
    void       *y;     /* dx */
    const void *relu;  /* with RELU, PoolMaxDx: like dy, which counts where this is > 0 */
    void       *where; /* PoolMax writes it, PoolMaxDx reads it */
    long long  *indices;
    long long   N, C;
    int         in[3], out[3];  /* extents of x and y, or dx and dy */
    int         pad_lo[3], edge[3]; /* edge: in + pad_hi, up to where an average counts */
    int         column_major;
} ot_pool_args;
