/* take.cuh - arguments that take.c passes to take.cu. */
#include "divide.cuh"

/* x: (outer, n, row)  y: (outer, m, row), rows in words of the launch */
typedef struct ot_take_args {
    const void *x, *index;
    void       *y, *fault;
    long long   words; /* of y */
    long long   n;
    ot_divider  m, row;
    int         step;
} ot_take_args;
