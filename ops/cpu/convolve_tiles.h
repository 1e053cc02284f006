/* convolve_tiles.h - convolutions with one sample in each vector lane: the work on a strip, built once per instruction set.
 *
 * A strip is some rows of y of as many samples as a vector has lanes.  Its part of x and y is turned in the workspace: (channel,
 * row, column, sample), x with its padding.  All channels, widths and windows then use whole vectors. */
#ifndef OT_CONVOLVE_TILES_H
#define OT_CONVOLVE_TILES_H

#include "runtime/base/base.h"

/* A strip of x or y in memory and in the workspace, which consists of vectors. */
typedef struct ot_strip_side {
    float *p;
    int64_t sample; /* elements of a sample */
    int64_t runs;   /* a strip has so many contiguous pieces in a sample: 1 with channels last, else one per channel */
    int64_t run, plane; /* from one to the next: elements in memory, vectors in the workspace */
    int64_t row;        /* elements of one row of a piece */
    int64_t vectors;    /* of a strip */
    const int32_t *at;  /* the vector of each element of a piece */
} ot_strip_side;

typedef struct ot_strip_job {
    int64_t N, C, M;
    int64_t in, out, width; /* rows of x and y; columns of y */
    int64_t stride, pad;    /* of rows */
    int64_t strips;         /* of a sample */
    int64_t rows, x_rows;   /* of a strip of y; of x that it reads.  dx: x_rows of x that need at most so many of y */
    int64_t behind;         /* dx: the first of these, counted from the strip's row / stride */
    int64_t x_width;        /* columns of x in the workspace */
    bool padded;
    ot_strip_side x, y;
    int64_t window, taps;   /* elements of a window in one channel, in all */
    const int32_t *tap;     /* where they are in a strip of x; vectors */
    const int32_t *pixel;   /* where the window of each pixel of a strip begins */
    const int32_t *dense;   /* 0, 1, 2, ... pixels */
    const int32_t *channel; /* where channels of a strip of y begin */
} ot_strip_job;

/* Channels, and pixels or taps, are computed in tiles of at most so many, of nearly equal sizes. */
typedef struct ot_strip_tiles {
    int lanes;            /* samples of a strip */
    int channels, across; /* the largest tile: channels; pixels or taps */

    /* Strip k of all samples.  work: strips of x and y.  b: bias by channel, or NULL.
     * w of convolve: tiles of channels of y; in each for every tap the weights of its channels.
     * w of spread: for every tap tiles of channels of x; in each for every channel of y the weights of its channels. */
    void (*convolve)(const ot_strip_job *j, int64_t k, const float *w, const float *b, float *work);
    void (*spread)(const ot_strip_job *j, int64_t k, const float *w, float *work);

    /* Adds the weights' gradient of strip k to `sums`: tiles of channels of y, in each tiles of taps; then M of the bias, if
     * wanted. */
    void (*weights)(const ot_strip_job *j, int64_t k, float *sums, bool bias, float *work);
} ot_strip_tiles;

extern const ot_strip_tiles ot_strip_tiles_base, ot_strip_tiles_avx2, ot_strip_tiles_avx512;

/* Tile i of n elements in tiles of at most `most`: its first element and its size. */
static inline int64_t ot_tile_count(int64_t n, int64_t most) { return (n + most - 1) / most; }
static inline int64_t ot_tile_start(int64_t n, int64_t tiles, int64_t i)
{
    return n / tiles * i + (i < n % tiles ? i : n % tiles);
}

#endif
