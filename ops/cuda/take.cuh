/* take.cuh - arguments that take.c passes to take.cu. */
#include "divide.cuh"

/* x: (outer, n, row)  y: (outer, m, row), rows in words of 1 << word bytes */
typedef struct ot_take_call {
    const void *x, *index;
    void       *y;
    long long   words; /* of y */
    long long   n;
    ot_divider  m, row;
    int         word, step;
} ot_take_call;

/* A call; or several, whose units are pairs of a call and a number of a unit in it. */
typedef struct ot_take_args {
    const ot_take_call *calls; /* NULL: `one` */
    const unsigned     *chunks;
    void               *fault;
    long long           units; /* of 256 threads' words */
    ot_take_call        one;
} ot_take_args;
