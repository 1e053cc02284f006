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
    int64_t sample;      /* elements of a sample */
    int64_t runs;        /* a strip has so many contiguous pieces in a sample: 1 with channels last, else one per channel */
    int64_t run, plane;  /* from one to the next: elements in memory, vectors in the workspace */
    int64_t row;         /* elements of one row of a piece */
    int64_t vectors;     /* of a strip */
    const int32_t *at;   /* the vector of each element of a piece */
} ot_strip_side;

typedef struct ot_strip_job {
    int64_t N, C, M;
    int64_t in, out, width; /* rows of x and y; columns of y */
    int64_t stride, pad;    /* of rows */
    int64_t rows, x_rows;   /* of a strip; of a strip of x */
    bool padded;
    ot_strip_side x, y;
    int64_t taps;         /* elements of a window in all channels */
    const int32_t *tap;   /* where they are in a strip of x; vectors */
    const int32_t *pixel; /* where the window of each pixel of a strip begins */
} ot_strip_job;

/* Channels (and taps) are computed in tiles of at most so many, of nearly equal sizes; at most 8. */
typedef struct ot_strip_tiles {
    int lanes;            /* samples of a strip */
    int channels, across; /* the largest tile: channels of y; pixels of y or taps of a window */

    /* y of the strip whose first row is `row`, of samples from `sample` on.  w: tiles of channels; in each for every tap the
     * weights of its channels.  b: bias by channel, or NULL.  work: the strips of x and y. */
    void (*convolve)(const ot_strip_job *j, int64_t sample, int64_t row, const float *w, const float *b, float *work);

    /* Adds the weights' gradient of a strip to `sums`, M taps + M vectors; the last ones are the bias's if `bias`. */
    void (*weights)(const ot_strip_job *j, int64_t sample, int64_t row, float *sums, bool bias, float *work);

    /* Adds up the lanes of n vectors, a multiple of lanes; in place. */
    void (*add_lanes)(float *sums, int64_t n);
} ot_strip_tiles;

extern const ot_strip_tiles ot_strip_tiles_base, ot_strip_tiles_avx2, ot_strip_tiles_avx512;

/* Tile i of n elements in tiles of at most `most`: its first element and its size. */
static inline int64_t ot_tile_count(int64_t n, int64_t most) { return (n + most - 1) / most; }
static inline int64_t ot_tile_start(int64_t n, int64_t tiles, int64_t i)
{
    return n / tiles * i + (i < n % tiles ? i : n % tiles);
}

#endif
