/* topkindex.cuh - arguments that topkindex.c passes to topkindex.cu. */
enum { OT_ARG_CHUNK = 2048 }; /* elements sorted by a block */

/* x: (outer, n, inner)  y: (outer, k, inner) */
typedef struct ot_topk_index_args {
    const void *x;
    long long  *y;
    long long   lines, n, inner, k;
    long long   runs;               /* sorted runs of each line, of `span` elements of x */
    long long   span;
    const void *key, *place;        /* input runs; run r of line l begins at (l * runs + r) * min(k, span) */
    void       *to_key, *to_place;  /* output runs; NULL: the best are written to y */
} ot_topk_index_args;
