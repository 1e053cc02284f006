/* convolvedw.cuh - arguments that convolvedw.c passes to convolvedw.cu.
 *
 * The table: per column {x: offset in x, at[3]: its tap relative to a window's origin}, then its offset in dw, of type IDX.  One column
 * more, behind these, sums dy alone: db. */
typedef struct ot_convolvedw_args {
    const void *dy, *x, *tap, *weight;
    void       *dw, *db, *work;      /* work: `splits` partial sums; NULL: dw and db are written at once */
    long long   G, M, taps, columns; /* per group: filters, columns of dw, of them and db */
    long long   pixels;              /* positions of y, all samples' */
    long long   in[3], out[3];       /* spatial extents of x and y */
    long long   stride[3], pad[3];
    long long   xn, xg, xs, yn, yc, ys, wm; /* steps by sample, group, position, channel, filter */
    long long   share;               /* steps of BK positions in one part */
    int         splits;
} ot_convolvedw_args;
