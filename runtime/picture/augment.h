/* augment.h - augmentation (--augment): random changes of the samples of a training.
 *
 * Formulas, names of parameters and defaults are those of torchvision.transforms.v2 on uint8 images.  An image is fitted
 * to the model's size first (`resized_crop` replaces that), then the steps follow in the order in which they were given.
 *
 * Random   every draw is a function of (seed, epoch, sample, step) alone: the same with any number of threads, on every
 *          device, and in a run that was resumed.
 * Memory   running allocates nothing: the caller gives a scratch.
 * Threads  an ot_augment is never changed: any thread may run it, with a scratch of its own. */
#ifndef OT_AUGMENT_H
#define OT_AUGMENT_H

#include "runtime/base/registry.h"
#include "runtime/picture/image.h"

extern const ot_registry ot_augmentations;

typedef struct ot_augment ot_augment;

/* A list of n steps, of the arena, which has to outlive it.  `auto` becomes what fits images of height x width with so many channels;
 * `none` nothing.  Errors: OT_E_USAGE (values that contradict each other), OT_E_NOMEM. */
ot_status ot_augment_make(const ot_spec *spec, int n, int64_t height, int64_t width, int channels, ot_arena *a,
                          ot_augment **out, ot_error *err);

/* The steps of g that move pixels, with the same random numbers.  Errors: OT_E_NOMEM. */
ot_status ot_augment_still(const ot_augment *g, ot_arena *a, ot_augment **out, ot_error *err);

int ot_augment_steps(const ot_augment *g);         /* of images */
bool ot_augment_needs_images(const ot_augment *g); /* some step is for nothing else */
bool ot_augment_resizes(const ot_augment *g);      /* has resized_crop */
bool ot_augment_moves(const ot_augment *g);        /* a step moves pixels: geometry below is not the identity */
const char *ot_augment_text(const ot_augment *g);  /* the steps as a user would write them: "flip, crop:padding=4" */

typedef struct ot_augment_key {
    uint64_t seed, epoch, sample;
} ot_augment_key;

/* mixup, cutmix: sample i of a batch and sample i - 1 (of the first: the last) become one. */
typedef struct ot_mix {
    double kept;    /* part of sample i; the other's is 1 - kept */
    bool cut;       /* `box` is of the other, the rest of sample i; else every value is their mean by these parts */
    int64_t box[4]; /* top, left, height, width */
} ot_mix;

bool ot_augment_mixes(const ot_augment *g);
bool ot_augment_cuts(const ot_augment *g); /* cutmix is among them: for images alone */

/* How a batch of samples of height x width is mixed; key->sample: any number of the batch. */
ot_mix ot_augment_mix(const ot_augment *g, int64_t height, int64_t width, const ot_augment_key *key);

double ot_augment_noise(const ot_augment *g); /* standard deviation of what is added to inputs of floats; 0: nothing */

/* Random bits, number i of a sample. */
void ot_augment_bits(const ot_augment_key *key, uint64_t i, uint32_t out[4]);

/* Standard normal number i of a sample. */
double ot_augment_normal(const ot_augment_key *key, uint64_t i);

/* What follows the geometry of an image: masks and boxes.  Coordinates are of pixels: 0 is the left edge of the first, the
 * width the right edge of the last. */
typedef struct ot_augment_geometry {
    int32_t *map;     /* (height, width) of the result: the pixel of the source that is there, row * width + column; -1:
                       * none.  NULL: not wanted */
    double matrix[9]; /* result (x, y, 1) to source, row by row, to be divided by the third */
} ot_augment_geometry;

/* Bytes of scratch for sources of at most height x width; SIZE_MAX: more than can be counted. */
size_t ot_augment_scratch(const ot_augment *g, const ot_fit *fit, int64_t height, int64_t width, const ot_image *to);

/* Fits `from` into `to` (of as many channels, rows without gaps) and applies the steps; geometry may be NULL.  to->data NULL:
 * the geometry alone, from->data is not read. */
void ot_augment_run(const ot_augment *g, const ot_fit *fit, const ot_image *from, const ot_image *to,
                    ot_augment_geometry *geometry, const ot_augment_key *key, void *scratch);

/* A box (x1, y1, x2, y2) of the source as the smallest box that holds it in the result of height x width, cut off at its
 * edges.  false: nothing of it is left. */
bool ot_augment_box(const double matrix[9], int64_t height, int64_t width, const double from[4], double to[4]);

#endif
