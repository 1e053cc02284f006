/* resample.cuh - arguments that resample.c passes to resample.cu. */
#include "divide.cuh"

enum { OT_INTERP_AXES = 8 };

typedef struct ot_interp_args {
    const void *x;
    void       *y;
    const void *start, *from, *weight, *add; /* the table; `from` in elements of x */
    long long   words;                       /* of y */
    ot_divider  n[OT_INTERP_AXES];           /* y's axes in memory order, in words; leading ones have extent 1 */
    long long   stride[OT_INTERP_AXES];      /* of x along them, in elements */
} ot_interp_args;
