/* sample.h - samples of a tensor at fractional coordinates, for GridSample, RoiAlign and DeformConv.
 *
 * The tensor is given as rows (R, C): row `first` + the flat position among axes of n[0], n[1], ... elements
 * contains the C values there.  Coordinates count elements: 0 is the middle of the first.  Gradients flow to the
 * rows and to the coordinates. */
#ifndef OT_SAMPLE_H
#define OT_SAMPLE_H

#include "ops/op.h"

enum { OT_SAMPLE_LINEAR, OT_SAMPLE_NEAREST, OT_SAMPLE_CUBIC };
enum { OT_SAMPLE_ZEROS, OT_SAMPLE_BORDER, OT_SAMPLE_REFLECTION };

enum { OT_SAMPLE_AXES = OT_MAX_RANK - 2 };

typedef struct ot_sample {
    int r; /* axes */
    int64_t mode, padding;
    bool corners; /* the border is at the centres of the outermost elements, not at their edges */
    int64_t n[OT_SAMPLE_AXES];
    ot_value *at[OT_SAMPLE_AXES]; /* coordinates, (M) each, float32 or float64 */
} ot_sample;

/* The taps of each sample, times their weights: (taps of axis 0, .., taps of axis r-1, M, C), float32 or float64.
 * rows: any float type; first: (M) int64, or one. */
ot_value *ot_sample_taps(ot_build *b, const ot_sample *s, ot_value *rows, ot_value *first);

/* Their sum, the samples: (M, C). */
ot_value *ot_sample_rows(ot_build *b, const ot_sample *s, ot_value *rows, ot_value *first);

/* x (N, C, d..) as rows (N * product of d.., C). */
ot_value *ot_sample_x(ot_build *b, ot_value *x);

#endif
