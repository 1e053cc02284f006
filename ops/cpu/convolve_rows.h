/* convolve_rows.h - 1x1 convolution of stride 1, strided and depthwise convolution, that of tiny pictures, with channels last; and a
 * product of matrices, which is a 1x1 convolution too. */
#ifndef OT_CPU_CONVOLVE_ROWS_H
#define OT_CPU_CONVOLVE_ROWS_H

#include "ops/cpu/map.h"
#include "ops/cpu/onednn.h"

typedef struct ot_row_conv ot_row_conv;

/* Is it a product of matrices whose rows are pixels: 1x1, stride 1, channels last?  Of pictures of one pixel, both layouts are the same. */
bool ot_conv_is_product(const ot_conv_call *c);

/* Is it one of these?  Forward only. */
bool ot_rows_can(const ot_conv_call *c);

/* Is it a strided one that is faster here than with oneDNN, whatever follows it?  In any layout. */
bool ot_rows_windows_pay(const ot_conv_call *c);

/* Is it one of pictures so tiny that most of a window is padding, or its dw (convolve_pixels.h)?  Only products with pixels are
 * computed. */
bool ot_rows_pixels_pay(const ot_conv_call *c);

/* For an instruction set that this machine has (OT_CPU_*).  The workspace is added to p->work. */
ot_status ot_rows_new(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, ot_row_conv **out);

/* The Dot (rows, K) . b, of shape (K, N), or turned (N, K), and perhaps a bias. */
typedef struct ot_rows_dot {
    int64_t rows, K, N;
    const float *b;      /* its bytes, if they do not change while the plan lives; NULL: packed in every run */
    bool turned, mapped; /* mapped: a Map follows */
    int x_arg, b_arg, bias_arg, y_arg; /* bias: OT_ARG_NONE: none */
} ot_rows_dot;
ot_status ot_rows_product(const ot_node *n, const ot_rows_dot *d, int set, ot_prep *p, ot_row_conv **out);

void ot_rows_free(ot_row_conv *s);

/* map: NULL, or a Map of y that follows, part by part (cpu_map_range). */
ot_status ot_rows_run(const ot_row_conv *s, const ot_call *c, const ot_call *map);

#endif
