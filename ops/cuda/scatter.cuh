/* scatter.cuh - arguments that scatter.c passes to scatter.cu. */
#include "divide.cuh"

enum { OT_SCATTER_CHUNK = 32 }; /* updates processed by one thread */

/* x: (outer, m, inner)  y: (outer, n, inner) */
typedef struct ot_scatter_args {
    const void *x, *key, *position;
    void       *y, *part;
    long long   threads;  /* outer * chunks * inner */
    long long   m, n;
    ot_divider  chunks, inner;
} ot_scatter_args;
