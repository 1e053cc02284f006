/* window.h - a window that slides over one to three spatial axes: the common part of convolution and pooling.
 *
 * Spatial axis j of x has extent i, of y extent o.  Window element k of output position q reads
 * x at q*stride + k*dilation - pad_lo; positions outside of x are padding. */
#ifndef OT_WINDOW_H
#define OT_WINDOW_H

#include "ops/op.h"

enum { OT_WINDOW_AXES = 3 };

typedef enum ot_auto_pad { OT_PAD_NOTSET, OT_PAD_SAME_UPPER, OT_PAD_SAME_LOWER, OT_PAD_VALID } ot_auto_pad;
extern const char *const ot_auto_pads[];

/* Resolved: every field is given for axes 0 .. nd-1.  A negative pad_hi means that the last elements
 * of x are never read. */
typedef struct ot_window {
    int64_t nd;
    int64_t kernel[OT_WINDOW_AXES], stride[OT_WINDOW_AXES], dilation[OT_WINDOW_AXES];
    int64_t pad_lo[OT_WINDOW_AXES], pad_hi[OT_WINDOW_AXES];
} ot_window;

/* The attributes of Conv, ConvTranspose and the pooling operators in ONNX. */
typedef struct ot_window_attrs {
    ot_ints kernel, strides, dilations, pads;
    int64_t auto_pad, ceil_mode;
} ot_window_attrs;

/* Resolves a, whose kernel extents are `kernel`, for x (N, C, i1 .. id) and returns the extents of y's spatial axes.
 * Fails with the node's name if a list has a wrong length, a value is out of range or the window does not fit. */
ot_status ot_window_resolve(const ot_node *n, const ot_window_attrs *a, const int64_t *kernel, const ot_shape *x,
                            ot_window *w, int64_t *out, ot_error *err);

/* Checks the lists of a and writes them to w, without pads, for ConvTranspose, which computes these by its own rule. */
ot_status ot_window_lists(const ot_node *n, const ot_window_attrs *a, const int64_t *kernel, int nd, ot_window *w,
                          ot_error *err);

/* Extent of an output axis; 0 or less: the window does not fit.  No rounding up. */
int64_t ot_window_out(const ot_window *w, int axis, int64_t in);

/* The same window with leading axes of extent 1, so that loops over three axes suffice. */
void ot_window_3d(const ot_window *w, ot_window *out);
void ot_spatial_3d(const ot_shape *s, int64_t out[OT_WINDOW_AXES]); /* extents of axes 2.., with leading ones */

/* The text about a window for ot_op.words. */
void ot_window_words(FILE *f, const ot_window *w);

#endif
