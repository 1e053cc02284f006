/* row_tiles.h - convolutions of channels-last pictures, built once per instruction set: the matrix product of a 1x1 convolution, those of
 * a window's elements, row by row or pixel by pixel of tiny pictures, and depthwise convolutions.
 *
 * All write y in order, so that a function of it can follow while it is in the cache. */
#ifndef OT_ROW_TILES_H
#define OT_ROW_TILES_H

#include "ops/cpu/vector.h"
#include "ops/kernels/convolve.h"
#include "runtime/base/base.h"

typedef struct ot_rows_job {
    const float *x, *w, *bias; /* bias: M, or NULL */
    const float *packed;       /* w, as the kernel reads it */
    const float *zeros;        /* depthwise: C of them, read for padding */
    float *y;
    int64_t step, first; /* x: floats from pixel to pixel, and the number of its first; not of depthwise */
    int64_t C, M;        /* depthwise: equal */
    int64_t c, c_end;    /* product: the channels that are added; x begins with the first of them */
    ot_conv_plane p;     /* not of a product */
} ot_rows_job;

/* dw of tiny pictures, stride 1.  Operands are copied pixel by pixel, since a pixel's samples lie a whole picture apart. */
typedef struct ot_pixels_job {
    const float *x;  /* pixels by panels (ot_rows_tiles.columns, of C) by samples: rows of a panel */
    const float *dy; /* pixels by samples: step floats, of which M are used */
    int64_t N, C, M, step;
    ot_conv_plane p;
} ot_pixels_job;

enum { OT_DEPTH_WIDE = 7 }; /* elements along an axis of the window, at most */

/* x, or dy: floats from one to the next. */
typedef struct ot_lines_of {
    const float *p;
    int64_t channels, channel, pixel, line, sample;
} ot_lines_of;

/* dw by lines of y.  The channels of one operand are in vectors: at least 16, one next to the other. */
typedef struct ot_lines_job {
    ot_lines_of x, dy;
    bool x_wide; /* it is x */
    ot_conv_plane p;
} ot_lines_job;

/* dw of a depthwise convolution. */
typedef struct ot_depth_job {
    const float *x, *dy;
    float *dw, *db; /* (C, elements of the window); C, or NULL */
    int64_t N, C;
    ot_conv_plane p;
} ot_depth_job;

typedef struct ot_rows_tiles {
    int columns; /* of a panel of packed weights: consecutive columns m, by rows c (windows: by elements, then c); the last panel is a multiple of 16 wide */

    /* Pixels `from` to `to`; channels from c on are added to y, those from 0 on to the bias. work: 16 floats for each pixel, which last. */
    void (*product)(const ot_rows_job *j, int64_t from, int64_t to, float *work);

    /* Rows `from` to `to` of all samples, window by window: packed has the C of each of its elements, in order, as rows.  work: 16
     * floats for each pixel. */
    void (*windows)(const ot_rows_job *j, int64_t from, int64_t to, float *work);

    /* Samples `from` to `to`: a product for each pixel of y and each element of the window that is in the picture.  packed as for
     * windows; work: 16 floats for each pixel. */
    void (*pixels)(const ot_rows_job *j, int64_t from, int64_t to, float *work);

    /* dw of n channels of y from m on, and of the panel that begins with channel c of x: sums has n rows of `columns` floats for each
     * element of the window. */
    void (*weights)(const ot_pixels_job *j, int64_t m, int64_t n, int64_t c, float *sums);

    /* Lines `from` to `to` of all samples, added to sums, and the sums of dy to db (M; NULL: not needed).  sums: for each element of the
     * window one row for each channel of the narrow operand, of the channels of the wide one, filled up to a multiple of 16 with
     * channels that are there already: the last 16 floats are of the last 16 channels. */
    void (*line_weights)(const ot_lines_job *j, int64_t from, int64_t to, float *sums, float *db);

    /* Rows `from` to `to` of all samples. packed: by elements of the window, then by channels. */
    void (*depthwise)(const ot_rows_job *j, int64_t from, int64_t to);

    /* Channels c to c_end of dw and db; C is at least a vector. */
    void (*depthwise_weights)(const ot_depth_job *j, int64_t c, int64_t c_end);
} ot_rows_tiles;

extern const ot_rows_tiles ot_rows_tiles_base, ot_rows_tiles_avx2, ot_rows_tiles_avx512;

/* Of an instruction set that this machine has (OT_CPU_*). */
static inline const ot_rows_tiles *ot_rows_tiles_of(int set)
{
    const ot_rows_tiles *const sets[] = { &ot_rows_tiles_base, &ot_rows_tiles_avx2, &ot_rows_tiles_avx512 };
    return sets[set];
}

#endif
