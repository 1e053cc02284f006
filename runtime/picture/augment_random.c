/* augment_random.c - RandAugment and TrivialAugment: operations and magnitudes that are drawn.
 *
 * Source  torchvision.transforms.v2: RandAugment, TrivialAugmentWide. */
#include "runtime/picture/augment_internal.h"

#include <math.h>

typedef enum operation {
    IDENTITY,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOUR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    OPERATIONS
} operation;

/* The magnitude of bin i of n: at the last bin. */
typedef struct space {
    double most[OPERATIONS];
    double bits;  /* POSTERIZE: taken from 8 */
    bool by_size; /* translations are of the image's size */
} space;

static const space rand_space = { .most = { [SHEAR_X] = 0.3,
                                            [SHEAR_Y] = 0.3,
                                            [TRANSLATE_X] = 150. / 331,
                                            [TRANSLATE_Y] = 150. / 331,
                                            [ROTATE] = 30,
                                            [BRIGHTNESS] = 0.9,
                                            [COLOUR] = 0.9,
                                            [CONTRAST] = 0.9,
                                            [SHARPNESS] = 0.9 },
                                  .bits = 4,
                                  .by_size = true };

static const space trivial_space = { .most = { [SHEAR_X] = 0.99,
                                               [SHEAR_Y] = 0.99,
                                               [TRANSLATE_X] = 32,
                                               [TRANSLATE_Y] = 32,
                                               [ROTATE] = 135,
                                               [BRIGHTNESS] = 0.99,
                                               [COLOUR] = 0.99,
                                               [CONTRAST] = 0.99,
                                               [SHARPNESS] = 0.99 },
                                     .bits = 6 };

static void shear(const ot_change *s, ot_canvas *c, double x, double y)
{
    const double degrees = 180 / 3.14159265358979323846; /* around the corner of the image */
    ot_affine a = { .scale = 1, .shear_x = atan(x) * degrees, .shear_y = atan(y) * degrees };
    a.cx = -(double)c->width / 2;
    a.cy = -(double)c->height / 2;
    ot_canvas_affine(c, &a, (ot_resample)s->mode, s->fill);
}

static void moved(const ot_change *s, ot_canvas *c, double x, double y)
{
    ot_affine a = { .scale = 1, .tx = trunc(x), .ty = trunc(y) };
    ot_canvas_affine(c, &a, (ot_resample)s->mode, s->fill);
}

static void move_pixels(const ot_change *s, ot_canvas *c, operation o, double v)
{
    ot_affine turn = { .angle = -v, .scale = 1 };
    switch (o) {
    case SHEAR_X: shear(s, c, v, 0); break;
    case SHEAR_Y: shear(s, c, 0, v); break;
    case TRANSLATE_X: moved(s, c, v, 0); break;
    case TRANSLATE_Y: moved(s, c, 0, v); break;
    default: ot_canvas_affine(c, &turn, (ot_resample)s->mode, s->fill); break;
    }
}

static void change_values(const ot_change *s, ot_draws *d, ot_canvas *c, operation o, double v)
{
    switch (o) {
    case BRIGHTNESS: ot_canvas_brightness(c, 1 + v); break;
    case COLOUR: ot_canvas_saturation(c, 1 + v); break;
    case CONTRAST: ot_canvas_contrast(c, 1 + v); break;
    case SHARPNESS: ot_canvas_sharpness(c, 1 + v); break;
    case POSTERIZE: ot_canvas_posterize(c, (int)v); break;
    case SOLARIZE: ot_canvas_solarize(c, v); break;
    case AUTOCONTRAST: ot_run_autocontrast(s, d, c); break;
    default: ot_run_equalize(s, d, c); break;
    }
}

/* One operation at bin `at` of `bins`. */
static void apply(const ot_change *s, ot_draws *d, ot_canvas *c, const space *z, operation o, double at, double bins)
{
    double part = at / (bins - 1), v = z->most[o] * part;
    if (o == TRANSLATE_X && z->by_size) v *= (double)c->width;
    if (o == TRANSLATE_Y && z->by_size) v *= (double)c->height;
    if (o == POSTERIZE) v = nearbyint(8 - at / ((bins - 1) / z->bits));
    if (o == SOLARIZE) v = 255 * (1 - part);
    if (o >= SHEAR_X && o <= SHARPNESS && ot_draw_below(d, 2)) v = -v;
    if (o >= SHEAR_X && o <= ROTATE) move_pixels(s, c, o, v);
    else if (o != IDENTITY && c->now && !c->still) change_values(s, d, c, o, v);
}

/* v: operations, magnitude, bins. */
void ot_run_rand_augment(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    for (int i = 0; i < (int)s->v[0]; i++)
        apply(s, d, c, &rand_space, (operation)ot_draw_below(d, OPERATIONS), s->v[1], s->v[2]);
}

/* v: bins. */
void ot_run_trivial_augment(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    operation o = (operation)ot_draw_below(d, OPERATIONS);
    apply(s, d, c, &trivial_space, o, (double)ot_draw_below(d, (int64_t)s->v[0]), s->v[0]);
}
