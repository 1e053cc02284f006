/* image.h - 8-bit images in memory: resizing to the size that a model wants.
 *
 * Resizing is Pillow's: separable, antialiased filters with fixed-point coefficients of 22 bits; results equal those of
 * Pillow 13.0 bit for bit.  Every channel is resized on its own (Pillow multiplies colours by alpha first).
 *
 * Memory  functions allocate nothing: the caller gives a scratch of the size that the function beside returns.
 * Threads functions are pure; images may be resized side by side with a scratch each. */
#ifndef OT_IMAGE_H
#define OT_IMAGE_H

#include "runtime/base/base.h"

enum { OT_IMAGE_CHANNELS = 4 };

/* (height, width, channels) bytes; a row begins `stride` bytes after the one above.  Borrowed, so that a part of an
 * image is an image too. */
typedef struct ot_image {
    uint8_t *data;
    int64_t height, width; /* 1 to OT_IMAGE_SIDE */
    int channels;          /* 1 to OT_IMAGE_CHANNELS */
    int64_t stride;
} ot_image;

enum { OT_IMAGE_SIDE = 1 << 24 };

typedef enum ot_resample { OT_NEAREST, OT_BOX, OT_BILINEAR, OT_BICUBIC, OT_LANCZOS } ot_resample;

typedef enum ot_fit_mode {
    OT_FIT_STRETCH, /* both sides, the aspect ratio changes */
    OT_FIT_CROP,    /* the aspect ratio is kept; what exceeds the middle is cut off */
    OT_FIT_PAD      /* the aspect ratio is kept; what is missing is filled ("letterbox") */
} ot_fit_mode;

typedef struct ot_fit {
    ot_fit_mode mode;
    ot_resample filter;
    int64_t
        shorter; /* CROP: the shorter side is resized to so many pixels, as torchvision's Resize(256), CenterCrop(224);
                      * 0: so many that the target is just covered */
    uint8_t fill[OT_IMAGE_CHANNELS];
} ot_fit;

/* A fitted image is resized to height x width, of which pixel (top, left) is the target's first; negative ones are filled.
 * The coordinate y of the source becomes y * height / source height - top. */
typedef struct ot_fitted {
    int64_t height, width, top, left;
} ot_fitted;

ot_fitted ot_fit_place(const ot_fit *fit, int64_t height, int64_t width, int64_t to_height, int64_t to_width);

/* Bytes of scratch for any `from` of at most height x width; SIZE_MAX: more than can be counted. */
size_t ot_image_fit_scratch(const ot_fit *fit, int64_t height, int64_t width, const ot_image *to);

/* Fits `from` into `to`, which has as many channels and does not overlap it. */
void ot_image_fit(const ot_fit *fit, const ot_image *from, const ot_image *to, void *scratch);

#endif
