/* copydx.cuh - arguments that copydx.c passes to copydx.cu. */
#include "divide.cuh"

enum {
    OT_COPYADD_AXES = 8,
    OT_COPYADD_FEW = 4 /* boxes that travel with the launch; more lie in a table */
};

/* An axis of a box: its strides along dx (never negative; `by` divides by it) and dy, its extent, and how far the
 * axes behind it reach along dx. */
typedef struct ot_copyadd_axis { ot_divider by; long long t, f, extent, reach; } ot_copyadd_axis;

/* Longest strides first; unused axes, last, have extent 1 and stride 0. */
typedef struct ot_copyadd_box {
    long long       to, from, end; /* of its first element; the last element of dx that it adds to */
    ot_copyadd_axis axis[OT_COPYADD_AXES];
} ot_copyadd_box;

typedef struct ot_copyadd_args {
    const void           *dy;
    void                 *dx;
    const ot_copyadd_box *table;
    long long             elements; /* of dx */
    int                   n;        /* boxes */
    ot_copyadd_box        box[OT_COPYADD_FEW];
} ot_copyadd_args;
