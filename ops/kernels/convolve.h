/* convolve.h - attributes of Convolve and its two gradients.
 *
 * Convolve   (x, w[, b]) -> y          x: (N, C, i1..id)  w: (M, C/group, k1..kd)  b: (M)
 * ConvolveDx (dy, w) -> dx             shape `like`; ConvTranspose is this one
 * ConvolveDw (dy, x) -> dw[, db]       shape `like`; db: (M)
 * window.kernel is the extent of w. */
#ifndef OT_CONVOLVE_H
#define OT_CONVOLVE_H

#include "ops/kernels/window.h"

typedef struct ot_convolve {
    ot_window window;
    int64_t group;
    ot_shape like; /* ConvolveDx: shape of x; ConvolveDw: shape of w; Convolve: unused */
} ot_convolve;

/* All sizes of a convolution, for each of the three nodes; three spatial axes. */
typedef struct ot_conv_sizes {
    int64_t N, G, C, M; /* C, M: channels per group */
    int64_t in[OT_WINDOW_AXES], out[OT_WINDOW_AXES];
    ot_window w; /* three axes */
} ot_conv_sizes;

/* The same of at most two spatial axes, without what depends on channels: rows and columns. */
typedef struct ot_conv_plane {
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2]; /* pad: before the first row, column */
} ot_conv_plane;

/* Conv's attributes, which ConvInteger shares (conv.c). */
typedef struct ot_conv {
    ot_window_attrs window;
    int64_t group;
} ot_conv;
extern const ot_attr ot_conv_rows[];

/* The convolution defined by n's attributes (ot_conv) and the shapes of its x and w, inputs 0 and 1; and y's shape. */
ot_status ot_conv_resolve(const ot_node *n, ot_convolve *c, ot_shape *y, ot_error *err);

void ot_conv_sizes_of(const ot_convolve *a, const ot_shape *x, const ot_shape *y, ot_conv_sizes *s);
void ot_conv_plane_of(const ot_convolve *a, const ot_shape *x, const ot_shape *y, ot_conv_plane *p);

#endif
