/* order.cuh - arguments that order.c passes to order.cu. */
typedef struct ot_order_args {
    const void *index;
    const void *from, *from_order; /* the pass before; NULL: the indices */
    void       *to, *to_order;
    int        *count;             /* of every digit, block after block */
    void       *fault;
    long long   m, n;              /* indices; places that they name */
    long long   tile;              /* indices per block, a multiple of 256 */
    int         blocks, shift, step;
} ot_order_args;
