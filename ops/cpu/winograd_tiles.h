/* winograd_tiles.h - the transforms and products of Winograd convolution F(4x4, 3x3) and F(2x2, 5x5), built once per instruction set.
 *
 * Source  Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015. */
#ifndef OT_WINOGRAD_TILES_H
#define OT_WINOGRAD_TILES_H

#include "ops/cpu/vector.h"
#include "runtime/base/base.h"

/* A tile of 4 x 4 pixels of y is computed from 6 x 6 of x by 36 products instead of 144; with a window of 5 x 5 one of 2 x 2, instead
 * of 100. */
enum { OT_WINOGRAD_X = 6, OT_WINOGRAD_POINTS = 36 };

/* Channels last: (N, high, wide, C). */
typedef struct ot_winograd_picture {
    float *p;
    int64_t high, wide, C;
} ot_winograd_picture;

/* y[i, j, m] = bias[m] + sum over r, s, c of x[i + r - top, j + s - left, c] w(r, s, c, m).
 * The gradient of x is this too, with dy in place of x, w turned and its channels exchanged; or with `spread`, where pictures of y
 * have fewer tiles than those of x, the transposed algorithm: y[i + r - top, j + s - left, m] += x[i, j, c] w(r, s, c, m). */
typedef struct ot_winograd_job {
    int window; /* 3 or 5 pixels each way */
    int64_t N;
    ot_winograd_picture x, y;
    int64_t top, left;
    bool spread;
    int64_t down, across; /* tiles of a picture: of y, with `spread` of x */
    int64_t block;        /* tiles that are computed together */
    float *w; /* the consecutive elements of a window per pair of channels, at c step_c + m step_m; or its gradient */
    int64_t step_c, step_m;
    bool turned;       /* w is read backwards */
    const float *bias; /* NULL: none; none with `spread` */
    float *u;          /* w transformed: OT_WINOGRAD_POINTS matrices (C, M), in panels of columns */
    int64_t sets;      /* of u, which are sums over parts of the tiles */
    double *db;        /* a row of M per set; NULL: not needed */
} ot_winograd_job;

/* Tiles `from` to `to` (of all pictures; with `spread` of whole ones), columns m to m_end of u; m is a multiple of
 * OT_WINOGRAD_COLUMNS. */
enum { OT_WINOGRAD_COLUMNS = 64 };
typedef struct ot_winograd_part {
    int64_t from, to, m, m_end, set;
} ot_winograd_part;

typedef struct ot_winograd_tiles {
    const char *name;                                                      /* "avx2" */
    void (*transform)(const ot_winograd_job *j, int64_t c, int64_t c_end); /* these rows of u, from w */
    void (*forward)(const ot_winograd_job *j, const ot_winograd_part *at, float *work);
    void (*gradient)(const ot_winograd_job *j, const ot_winograd_part *at, float *work); /* of w: a set of u, and db */
    void (*inverse)(const ot_winograd_job *j, int64_t c, int64_t c_end);                 /* w, from all sets of u */
} ot_winograd_tiles;

extern const ot_winograd_tiles ot_winograd_tiles_base, ot_winograd_tiles_avx2, ot_winograd_tiles_avx512;

/* Pixels of y along a side of a tile. */
static inline int ot_winograd_side(int window) { return OT_WINOGRAD_X + 1 - window; }

static inline int64_t ot_winograd_u_step(const ot_winograd_job *j)
{
    return ot_floats_apart(j->x.C * ot_floats_up(j->y.C));
}
static inline int64_t ot_winograd_x_step(const ot_winograd_job *j)
{
    return ot_floats_apart(j->block * ot_floats_apart(j->x.C));
}
static inline int64_t ot_winograd_y_step(const ot_winograd_job *j, int64_t columns)
{
    return ot_floats_apart(j->block * ot_floats_up(columns));
}

/* Floats of workspace for a part of so many columns. */
static inline int64_t ot_winograd_work(const ot_winograd_job *j, int64_t columns)
{
    return OT_WINOGRAD_POINTS * (ot_winograd_x_step(j) + ot_winograd_y_step(j, columns)) + ot_floats_up(columns);
}

#endif
