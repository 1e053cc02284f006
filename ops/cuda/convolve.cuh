/* convolve.cuh - arguments that convolve.c passes to convolve.cu.
 *
 * Both Convolve and ConvolveDx gather: y is summed from x, and for ConvolveDx the names mean y = dx, x = dy.  Positions of
 * y that meet the same taps make a phase: one for Convolve, one per residue of the stride for ConvolveDx. */

/* Position i of y along an axis is first + i * y_step; tap p reads x there at origin + i * x_step + p.at. */
typedef struct ot_conv_phase {
    long long block;  /* the first that works on it */
    long long pixels; /* all samples' */
    long long tap, steps; /* of its taps; tap is a multiple of BK */
    long long extent[3], origin[3], first[3];
} ot_conv_phase;

/* The table: phases; then per term {x: offset in x, at[3]}, {offset in w}, {its place in the step}, all of type IDX.  Offsets
 * in w stand sorted within a step, so that neighbours are loaded together; -1: a term that pads the step. */
typedef struct ot_convolve_args {
    const void *x, *w, *bias; /* bias: NULL for none */
    void       *y, *work;     /* work: `splits` partial sums of y; NULL: y is written at once */
    const void *phase, *tap, *weight, *term;
    int         phases, splits;
    long long   G, C, elements;     /* groups, channels of y per group, elements of y */
    long long   in[3];              /* of x */
    long long   out[3];             /* of y */
    long long   xn, xg, xs;         /* steps in x by sample, group, position */
    long long   yn, yc, ys;
    long long   wg, wc;             /* steps in w by group and channel of y */
    long long   x_step[3], y_step[3];
} ot_convolve_args;
