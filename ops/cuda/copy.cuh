/* copy.cuh - arguments that copy.c passes to copy.cu, transpose.cu and packed.cu. */
#include "divide.cuh"

enum {
    OT_COPY_AXES = 8,
    OT_COPY_INPUTS = 48, /* of one launch */
    OT_COPY_FEW = 6      /* boxes that travel with the launch; more lie in a table */
};

/* An axis of a box: its extent, the strides of y and x along it. */
typedef struct ot_copy_axis { ot_divider n; long long t, f; } ot_copy_axis;

/* Everything in words of the launch.  Innermost axis last; unused ones in front have extent 1. */
typedef struct ot_copy_box {
    long long    unit;      /* number of its first unit of work */
    long long    count;     /* words */
    long long    to, from;  /* of its first word */
    int          in;        /* of the launch's inputs; -1: `fill` */
    ot_copy_axis axis[OT_COPY_AXES];
} ot_copy_box;

typedef struct ot_copy_args {
    void              *y;
    const ot_copy_box *table; /* NULL: box */
    long long          units; /* of all boxes */
    int                n;     /* boxes */
    unsigned char      fill[16];
    const void        *in[OT_COPY_INPUTS];
    ot_copy_box        box[OT_COPY_FEW];
} ot_copy_args;

/* Tiles of rows (dense in x) by columns (dense in y), and the axes outside of them. */
typedef struct ot_transpose_args {
    const void  *x;
    void        *y;
    long long    tiles;
    long long    to, from, t, f;  /* t: y's stride along the rows, f: x's along the columns */
    int          rows, columns;
    ot_divider   down, across;    /* tiles along rows and columns */
    int          n;               /* axes outside */
    ot_copy_axis outer[OT_COPY_AXES];
} ot_transpose_args;

/* A box of elements of less than a byte, in logical coordinates. */
typedef struct ot_packed_box {
    int       in;
    long long from, dst[OT_COPY_AXES], extent[OT_COPY_AXES], f[OT_COPY_AXES];
} ot_packed_box;

typedef struct ot_packed_args {
    void                *y;
    const ot_packed_box *table;
    long long            n;        /* boxes */
    long long            elements; /* of y */
    int                  first;    /* boxes of inputs first, first + 1, ... are this launch's */
    int                  bits;
    int                  fill;     /* code of what no box writes; -1: unchanged */
    long long            shape[OT_COPY_AXES];
    const void          *in[OT_COPY_INPUTS];
} ot_packed_args;
