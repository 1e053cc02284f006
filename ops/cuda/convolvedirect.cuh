/* convolvedirect.cuh - arguments that convolvedirect.c passes to convolvedirect.cu.
 *
 * x, y and w as the node has them; for ConvolveDx y is read and x written, for ConvolveDw w is written. */
typedef struct ot_direct_args {
    const void *from, *with, *bias;   /* what is read: x w b, dy w, or dy x */
    void       *to, *db, *work;       /* y, dx, or dw with db; work: `splits` partial sums of dw and db */
    long long   items;                /* y, dx: runs of PX outputs; dw: sums, db's included */
    long long   N, G;
    long long   in[3], out[3];
    long long   xn, xc, xs, yn, yc, ys, wm, wc, wf; /* element steps; spatial axes are one */
    long long   share;                /* dw: positions in one part */
    int         splits;
} ot_direct_args;
