/* flatindex.cuh - arguments that flatindex.c passes to flatindex.cu. */
enum { OT_PLACES_AXES = 8 };

typedef struct ot_flat_index_args {
    const void *index;
    long long  *place;
    void       *fault;
    long long   elements;                                   /* of place */
    long long   y[OT_PLACES_AXES], stride[OT_PLACES_AXES];  /* its shape; rows of x per step along its axes */
    int         rank;
    int         no_negative;
    int         q;                                          /* indices per place */
    long long   n[OT_PLACES_AXES], step_of[OT_PLACES_AXES]; /* of each: what it must be below, rows of x per step */
    int         step;
} ot_flat_index_args;
