/* augment_internal.h - what the files of augmentation share. */
#ifndef OT_AUGMENT_INTERNAL_H
#define OT_AUGMENT_INTERNAL_H

#include "runtime/picture/augment.h"

enum { OT_STEP_VALUES = 10, OT_BLUR_SIDE = 256 };

/* Numbers drawn for one step of one sample. */
typedef struct ot_draws {
    uint64_t key, sample, next;
    uint32_t spare[4];
    int left;
} ot_draws;

double ot_draw_unit(ot_draws *d); /* in [0, 1) */
double ot_draw_from(ot_draws *d, double low, double high);
double ot_draw_normal(ot_draws *d);            /* of mean 0 and deviation 1 */
int64_t ot_draw_below(ot_draws *d, int64_t n); /* 0 .. n - 1 */

typedef struct ot_change ot_change;

/* The image as a step finds it, rows without gaps, and room for what it makes of it. */
typedef struct ot_canvas {
    uint8_t *now, *spare; /* NULL: only the geometry is wanted */
    int64_t height, width;
    int channels;
    bool still;               /* values do not change */
    int32_t *map, *spare_map; /* NULL: not wanted */
    double *matrix;           /* of ot_augment_geometry; NULL: not wanted */
    void *scratch;            /* part of ot_augment_scratch() */
} ot_canvas;

typedef struct ot_change_kind {
    ot_entry entry;
    ot_status (*read)(const ot_spec *spec, ot_change *s,
                      ot_error *err); /* fills v and mode (augment.c: read_fill has filled fill); NULL: nothing */
    void (*run)(const ot_change *s, ot_draws *d, ot_canvas *c);
    bool moves; /* pixels change their place */
} ot_change_kind;

struct ot_change {
    const ot_change_kind *kind;
    double p; /* how often it is applied */
    double v[OT_STEP_VALUES];
    int mode; /* padding, interpolation */
    bool automatic;
    uint8_t fill[OT_IMAGE_CHANNELS];
};

/* augment_geometry.c */
typedef enum ot_padding { OT_PAD_CONSTANT, OT_PAD_EDGE, OT_PAD_REFLECT, OT_PAD_SYMMETRIC } ot_padding;

void ot_run_flip(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_vertical_flip(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_crop(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_rotate(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_affine(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_perspective(const ot_change *s, ot_draws *d, ot_canvas *c);

/* The part of an image of height x width that resized_crop takes. */
void ot_draw_crop(const ot_change *s, ot_draws *d, int64_t height, int64_t width, int64_t box[4]);

/* torchvision's affine: angle and shear in degrees, translation in pixels, scale; around (cx, cy), measured from the middle. */
typedef struct ot_affine {
    double angle, tx, ty, scale, shear_x, shear_y, cx, cy;
} ot_affine;

void ot_canvas_affine(ot_canvas *c, const ot_affine *a, ot_resample filter, const uint8_t *fill);

/* matrix: result to source. */
void ot_canvas_warp(ot_canvas *c, const double matrix[9], ot_resample filter, const uint8_t *fill);

/* The matrix that brings four corners `from` to corners `to`, (x, y) each; false: there is none. */
bool ot_perspective(const double from[8], const double to[8], double m[9]);

/* augment_color.c; each changes c->now alone */
void ot_run_jitter(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_grey(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_blur(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_noise(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_erase(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_cutout(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_invert(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_posterize(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_solarize(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_sharpness(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_autocontrast(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_equalize(const ot_change *s, ot_draws *d, ot_canvas *c);

void ot_canvas_brightness(ot_canvas *c, double factor);
void ot_canvas_contrast(ot_canvas *c, double factor);
void ot_canvas_saturation(ot_canvas *c, double factor);
void ot_canvas_hue(ot_canvas *c, double factor);
void ot_canvas_sharpness(ot_canvas *c, double factor);
void ot_canvas_posterize(ot_canvas *c, int bits);
void ot_canvas_solarize(ot_canvas *c, double threshold);
void ot_canvas_blur(ot_canvas *c, int side, double sigma);

/* augment_random.c */
void ot_run_rand_augment(const ot_change *s, ot_draws *d, ot_canvas *c);
void ot_run_trivial_augment(const ot_change *s, ot_draws *d, ot_canvas *c);

#endif
