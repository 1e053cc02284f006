/* augment.c - the registry of augmentations, lists of them, and how a list is run on one image. */
#include "runtime/picture/augment_internal.h"

#include <math.h>
#include <string.h>

#include "runtime/base/random.h"

enum { CROP = 1 << 30, MIX, NOISE, TOKENS }; /* numbers of steps that are not in the list */

struct ot_augment {
    int n;
    ot_change *step;
    const ot_change *crop; /* resized_crop, which is not among the steps; NULL: none */
    double mixup, cutmix;  /* alpha; 0: none */
    double noise;          /* standard deviation */
    bool still;            /* steps that only change values are skipped */
    const char *text;
};

/* ---- draws ---------------------------------------------------------------------------- */

static uint32_t draw(ot_draws *d)
{
    if (!d->left) {
        ot_philox(d->key, d->next++, d->sample, d->spare);
        d->left = 4;
    }
    return d->spare[--d->left];
}

double ot_draw_unit(ot_draws *d) { return (double)draw(d) * 0x1p-32; }

double ot_draw_from(ot_draws *d, double low, double high) { return low + (high - low) * ot_draw_unit(d); }

double ot_draw_normal(ot_draws *d)
{
    double u = 1 - ot_draw_unit(d), v = ot_draw_unit(d);
    return sqrt(-2 * log(u)) * cos(6.283185307179586476925 * v);
}

int64_t ot_draw_below(ot_draws *d, int64_t n)
{
    if (n < 2) return 0;
    uint64_t m = (uint64_t)draw(d) * (uint64_t)n, least = (UINT64_C(1) << 32) % (uint64_t)n;
    while ((uint32_t)m < least) m = (uint64_t)draw(d) * (uint64_t)n;
    return (int64_t)(m >> 32);
}

/* Every step has numbers of its own: one more step leaves the draws of the others as they are. */
static ot_draws draws_of(const ot_augment_key *key, int step)
{
    uint32_t r[4];
    ot_philox(key->seed, key->epoch, OT_STREAM_AUGMENT, r);
    return (ot_draws){ .key = (uint64_t)r[1] << 32 | r[0], .sample = key->sample, .next = (uint64_t)step << 32 };
}

/* ---- reading -------------------------------------------------------------------------- */

/* The numbers of a key, given or by default. */
static int numbers(const ot_spec *spec, const char *key, double *v, int most)
{
    const ot_param *p = ot_spec_find(spec, key);
    int n = 0;
    if (p && p->list)
        for (; n < p->n && n < most; n++) v[n] = p->list[n];
    if (p) return p->list ? p->n : (v[0] = p->num, 1);
    const char *s = ot_entry_key(spec->entry, key)->dflt;
    for (s += *s == '['; *s && n < most; s += strcspn(s, ",]"), s += *s != '\0') {
        char one[32] = "";
        strncat(one, s, strcspn(s, ",]") < 31 ? strcspn(s, ",]") : 31);
        (void)ot_number(one, &v[n++]);
    }
    return n;
}

static ot_status wrong(const ot_spec *spec, const char *key, const char *wants, ot_error *err)
{
    return ot_fail(err, OT_E_USAGE, "--augment %s: %s: expected %s", spec->name, key, wants);
}

/* [low, high]; one number r is [middle - r, middle + r], not below least. */
static ot_status range(const ot_spec *spec, const char *key, double middle, double least, double v[2], ot_error *err)
{
    int n = numbers(spec, key, v, 2);
    if (n == 1) {
        double r = v[0];
        v[0] = middle - r < least ? least : middle - r;
        v[1] = middle + r;
    } else if (n != 2 || v[1] < v[0]) {
        return wrong(spec, key, "a number, or [low,high] with low not above high", err);
    }
    return OT_OK;
}

static ot_status pair(const ot_spec *spec, const char *key, double v[2], ot_error *err)
{
    return numbers(spec, key, v, 2) == 2 && v[0] <= v[1] ? OT_OK
                                                         : wrong(spec, key, "[low,high] with low not above high", err);
}

static void read_filter(const ot_spec *spec, ot_change *s)
{
    static const char *const names[] = { "nearest", "box", "bilinear", "bicubic", "lanczos" };
    for (int i = 0; i < OT_LEN(names); i++)
        if (ot_spec_is(spec, "interpolation", names[i])) s->mode = i;
}

/* ---- one of each ---------------------------------------------------------------------- */

static ot_status read_crop(const ot_spec *spec, ot_change *s, ot_error *err)
{
    static const char *const names[] = { "constant", "edge", "reflect", "symmetric" };
    (void)err;
    for (int i = 0; i < OT_LEN(names); i++)
        if (ot_spec_is(spec, "padding_mode", names[i])) s->mode = i;
    s->automatic = !ot_spec_find(spec, "padding");
    if (!s->automatic) s->v[0] = ot_spec_num(spec, "padding");
    return OT_OK;
}

static ot_status read_resized_crop(const ot_spec *spec, ot_change *s, ot_error *err)
{
    read_filter(spec, s);
    OT_TRY(pair(spec, "scale", s->v, err));
    return pair(spec, "ratio", s->v + 2, err);
}

static ot_status read_rotate(const ot_spec *spec, ot_change *s, ot_error *err)
{
    read_filter(spec, s);
    return range(spec, "degrees", 0, -INFINITY, s->v, err);
}

static ot_status read_affine(const ot_spec *spec, ot_change *s, ot_error *err)
{
    double shear[4];
    read_filter(spec, s);
    OT_TRY(range(spec, "degrees", 0, -INFINITY, s->v, err));
    int n = numbers(spec, "translate", s->v + 2, 2);
    if (n == 1) s->v[3] = s->v[2];
    else if (n != 2) return wrong(spec, "translate", "a number, or [horizontally,vertically]", err);
    OT_TRY(pair(spec, "scale", s->v + 4, err));
    n = numbers(spec, "shear", shear, 4);
    if (n == 1) shear[1] = shear[0], shear[0] = -shear[0];
    else if ((n != 2 && n != 4) || shear[1] < shear[0] || (n == 4 && shear[3] < shear[2]))
        return wrong(spec, "shear", "a number, [low,high], or [x low,x high,y low,y high]", err);
    memcpy(s->v + 6, shear, (n == 4 ? 4 : 2) * sizeof *shear);
    return OT_OK;
}

static ot_status read_perspective(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    read_filter(spec, s);
    s->v[0] = ot_spec_num(spec, "distortion_scale");
    return OT_OK;
}

static ot_status read_jitter(const ot_spec *spec, ot_change *s, ot_error *err)
{
    OT_TRY(range(spec, "brightness", 1, 0, s->v, err));
    OT_TRY(range(spec, "contrast", 1, 0, s->v + 2, err));
    OT_TRY(range(spec, "saturation", 1, 0, s->v + 4, err));
    for (int i = 0; i < 6; i++)
        if (s->v[i] < 0) return wrong(spec, "brightness, contrast, saturation", "factors of at least 0", err);
    return range(spec, "hue", 0, -0.5, s->v + 6, err);
}

static ot_status read_blur(const ot_spec *spec, ot_change *s, ot_error *err)
{
    s->v[0] = ot_spec_num(spec, "kernel_size");
    if (fmod(s->v[0], 2) != 1) return wrong(spec, "kernel_size", "an odd number", err);
    int n = numbers(spec, "sigma", s->v + 1, 2);
    if (n == 1) s->v[2] = s->v[1];
    return n == 1 || (n == 2 && s->v[2] >= s->v[1]) ? OT_OK : wrong(spec, "sigma", "a number, or [low,high]", err);
}

static ot_status read_erase(const ot_spec *spec, ot_change *s, ot_error *err)
{
    OT_TRY(pair(spec, "scale", s->v, err));
    return pair(spec, "ratio", s->v + 2, err);
}

static ot_status read_cutout(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    s->v[0] = ot_spec_find(spec, "size") ? ot_spec_num(spec, "size") : 0;
    return OT_OK;
}

static ot_status read_posterize(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    s->v[0] = ot_spec_num(spec, "bits");
    return OT_OK;
}

static ot_status read_solarize(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    s->v[0] = ot_spec_num(spec, "threshold");
    return OT_OK;
}

static ot_status read_sharpness(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    s->v[0] = ot_spec_num(spec, "sharpness_factor");
    return OT_OK;
}

static ot_status read_rand_augment(const ot_spec *spec, ot_change *s, ot_error *err)
{
    read_filter(spec, s);
    s->v[0] = ot_spec_num(spec, "num_ops");
    s->v[1] = ot_spec_num(spec, "magnitude");
    s->v[2] = ot_spec_num(spec, "num_magnitude_bins");
    return s->v[1] < s->v[2] ? OT_OK : wrong(spec, "magnitude", "a number below num_magnitude_bins", err);
}

static ot_status read_trivial_augment(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    read_filter(spec, s);
    s->v[0] = ot_spec_num(spec, "num_magnitude_bins");
    return OT_OK;
}

static ot_status read_alpha(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    s->v[0] = ot_spec_num(spec, "alpha");
    return OT_OK;
}

static ot_status read_noise(const ot_spec *spec, ot_change *s, ot_error *err)
{
    (void)err;
    s->v[0] = ot_spec_num(spec, "std");
    return OT_OK;
}

/* ---- the registry --------------------------------------------------------------------- */

#define P(dflt) { "p", dflt, NULL, "probability", .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) }
#define FILL                                                                                                                       \
    { "fill", "0", NULL, "pixels outside of the image: a value, or one per channel", .kind = OT_KEY_WHOLE, .count = OT_KEY_EITHER, OT_KEY_FROM(0, 255) }
#define WARP(dflt) { "interpolation", dflt, NULL, "how pixels are interpolated", .kind = OT_KEY_WORD, .words = "nearest bilinear" }
#define EITHER(name, dflt, meaning, ...) { name, dflt, NULL, meaning, .kind = OT_KEY_NUMBER, .count = OT_KEY_EITHER, __VA_ARGS__ }
#define PAIR(name, dflt, meaning, ...)   { name, dflt, NULL, meaning, .kind = OT_KEY_NUMBER, .count = OT_KEY_LIST, __VA_ARGS__ }
#define VALUE                                                                                                                      \
    { "value", "0", NULL, "value of erased pixels: one, or one per channel; random: noise", .kind = OT_KEY_WHOLE, .count = OT_KEY_EITHER, OT_KEY_FROM(0, 255), .also = "random" }
#define BINS { "num_magnitude_bins", "31", NULL, "number of magnitudes", .kind = OT_KEY_WHOLE, OT_KEY_FROM(2, 1000) }

static const ot_key flip_keys[] = { P("0.5"), OT_KEYS_END };
static const ot_key crop_keys[] = { { "padding", NULL, "an eighth of the shorter side",
                                      "pixels added at every side before the crop", .kind = OT_KEY_WHOLE,
                                      OT_KEY_FROM(0, 65536) },
                                    { "padding_mode", "constant", NULL, "what the added pixels are",
                                      .kind = OT_KEY_WORD, .words = "constant edge reflect symmetric" },
                                    FILL,
                                    P("1"),
                                    OT_KEYS_END };
static const ot_key resized_crop_keys[] = {
    PAIR("scale", "[0.08,1]", "area of the crop, as a part of the image", .least = 0, .most = 1, .above = true),
    PAIR("ratio", "[0.75,1.3333333]", "width of the crop by its height", OT_KEY_ABOVE(0)),
    { "interpolation", "bilinear", NULL, "how pixels are interpolated", .kind = OT_KEY_WORD,
      .words = "nearest box bilinear bicubic lanczos" },
    OT_KEYS_END
};
static const ot_key rotate_keys[] = { EITHER("degrees", NULL, "angle, from -degrees to degrees, or [low,high]",
                                             OT_KEY_FROM(-360, 360)),
                                      WARP("nearest"), FILL, P("1"), OT_KEYS_END };
static const ot_key affine_keys[] = {
    EITHER("degrees", "0", "angle, from -degrees to degrees, or [low,high]", OT_KEY_FROM(-360, 360)),
    EITHER("translate", "0", "largest shift, as a part of the side; or [horizontal,vertical]", OT_KEY_FROM(0, 1)),
    PAIR("scale", "[1,1]", "factor on the size", OT_KEY_ABOVE(0)),
    EITHER("shear", "0",
           "angle of the shear in degrees, from -shear to shear; [low,high]; or [x low,x high,y low,y high]",
           OT_KEY_FROM(-89, 89)),
    WARP("nearest"),
    FILL,
    P("1"),
    OT_KEYS_END
};
static const ot_key perspective_keys[] = { { "distortion_scale", "0.5", NULL,
                                             "how far corners move, as a part of half of a side", .kind = OT_KEY_NUMBER,
                                             OT_KEY_FROM(0, 1) },
                                           WARP("bilinear"),
                                           FILL,
                                           P("0.5"),
                                           OT_KEYS_END };
static const ot_key jitter_keys[] = {
    EITHER("brightness", "0", "factor 1 - b to 1 + b, or [low,high]", OT_KEY_AT_LEAST(0)),
    EITHER("contrast", "0", "factor 1 - c to 1 + c, or [low,high]", OT_KEY_AT_LEAST(0)),
    EITHER("saturation", "0", "factor 1 - s to 1 + s, or [low,high]", OT_KEY_AT_LEAST(0)),
    EITHER("hue", "0", "shift -h to h, or [low,high]; 1 is the whole circle", OT_KEY_FROM(-0.5, 0.5)),
    P("1"),
    OT_KEYS_END
};
static const ot_key grey_keys[] = { P("0.1"), OT_KEYS_END };
static const ot_key blur_keys[] = {
    { "kernel_size", "3", NULL, "pixels of the kernel's side", .kind = OT_KEY_WHOLE, OT_KEY_FROM(1, 255) },
    EITHER("sigma", "[0.1,2]", "standard deviation in pixels, or [low,high]", OT_KEY_ABOVE(0)),
    P("1"),
    OT_KEYS_END
};
static const ot_key erase_keys[] = {
    PAIR("scale", "[0.02,0.33]", "area of the rectangle, as a part of the image", OT_KEY_FROM(0, 1)),
    PAIR("ratio", "[0.3,3.3]", "height of the rectangle by its width", OT_KEY_ABOVE(0)), VALUE, P("0.5"), OT_KEYS_END
};
static const ot_key cutout_keys[] = { { "size", NULL, "half of the shorter side", "side of the square, in pixels",
                                        .kind = OT_KEY_WHOLE, OT_KEY_COUNT_FROM(1) },
                                      VALUE,
                                      P("1"),
                                      OT_KEYS_END };
static const ot_key posterize_keys[] = {
    { "bits", NULL, NULL, "bits that are kept", .kind = OT_KEY_WHOLE, OT_KEY_FROM(0, 8) }, P("0.5"), OT_KEYS_END
};
static const ot_key solarize_keys[] = { { "threshold", NULL, NULL, "values from this one on are inverted",
                                          .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 255) },
                                        P("0.5"),
                                        OT_KEYS_END };
static const ot_key sharpness_keys[] = { { "sharpness_factor", NULL, NULL, "0: blurred, 1: unchanged, 2: sharper",
                                           .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
                                         P("0.5"),
                                         OT_KEYS_END };
static const ot_key rand_augment_keys[] = {
    { "num_ops", "2", NULL, "operations per image", .kind = OT_KEY_WHOLE, OT_KEY_FROM(0, 1000) },
    { "magnitude", "9", NULL, "magnitude of all operations", .kind = OT_KEY_WHOLE, OT_KEY_FROM(0, 999) },
    BINS,
    WARP("nearest"),
    FILL,
    P("1"),
    OT_KEYS_END
};
static const ot_key trivial_augment_keys[] = { BINS, WARP("nearest"), FILL, P("1"), OT_KEYS_END };

static const ot_key alpha_keys[] = { { "alpha", "1", NULL, "parameter of the Beta distribution of the parts",
                                       .kind = OT_KEY_NUMBER, OT_KEY_ABOVE(0) },
                                     OT_KEYS_END };
static const ot_key mask_keys[] = {
    { "p", "0.15", NULL, "probability of a token to be predicted", .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) },
    { "token", "-1", NULL, "number of the mask token; -1: the tokenizer's, or one more than the characters or bytes",
      .kind = OT_KEY_WHOLE, OT_KEY_AT_LEAST(-1) },
    OT_KEYS_END
};
static const ot_key noise_keys[] = {
    { "std", NULL, NULL, "standard deviation: of images, 1 is from black to white; else in the unit of the data",
      .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    OT_KEYS_END
};

/* A row per kind: K(name, meaning, keys, read, run, does it move pixels?). */
#define KINDS                                                                                                                               \
    K(flip, "flip horizontally", flip_keys, NULL, ot_run_flip, true)                                                                        \
    K(vertical_flip, "flip vertically", flip_keys, NULL, ot_run_vertical_flip, true)                                                        \
    K(crop, "pad, then cut out the size at a random place", crop_keys, read_crop, ot_run_crop, true)                                        \
    K(resized_crop, "resize a random part of the image", resized_crop_keys, read_resized_crop, NULL, true)                                  \
    K(rotate, "rotate", rotate_keys, read_rotate, ot_run_rotate, true)                                                                      \
    K(affine, "rotate, shift, scale and shear", affine_keys, read_affine, ot_run_affine, true)                                              \
    K(perspective, "change the perspective", perspective_keys, read_perspective, ot_run_perspective, true)                                  \
    K(jitter, "change brightness, contrast, saturation and hue, in random order", jitter_keys, read_jitter, ot_run_jitter, false)           \
    K(grey, "convert to grey", grey_keys, NULL, ot_run_grey, false)                                                                         \
    K(blur, "Gaussian blur", blur_keys, read_blur, ot_run_blur, false)                                                                      \
    K(sharpness, "change the sharpness", sharpness_keys, read_sharpness, ot_run_sharpness, false)                                           \
    K(invert, "invert the values", flip_keys, NULL, ot_run_invert, false)                                                                   \
    K(posterize, "reduce the bits per channel", posterize_keys, read_posterize, ot_run_posterize, false)                                    \
    K(solarize, "invert bright values", solarize_keys, read_solarize, ot_run_solarize, false)                                               \
    K(autocontrast, "stretch each channel to all values", flip_keys, NULL, ot_run_autocontrast, false)                                      \
    K(equalize, "equalize the histogram of each channel", flip_keys, NULL, ot_run_equalize, false)                                          \
    K(erase, "erase a random rectangle", erase_keys, read_erase, ot_run_erase, false)                                                       \
    K(cutout, "erase a square, which may reach over the edge", cutout_keys, read_cutout, ot_run_cutout, false)                              \
    K(rand_augment, "random operations of one magnitude (RandAugment)", rand_augment_keys, read_rand_augment, ot_run_rand_augment, true)    \
    K(trivial_augment, "one random operation of a random magnitude (TrivialAugment)", trivial_augment_keys, read_trivial_augment,           \
      ot_run_trivial_augment, true)                                                                                                         \
    K(mixup, "mean of two samples of a batch, and of their targets; with cutmix, one of the two for each batch", alpha_keys, read_alpha, NULL, false) \
    K(cutmix, "a rectangle of another image of the batch; targets are mixed by area", alpha_keys, read_alpha, NULL, false)                  \
    K(noise, "add normal noise, also to inputs of floats (tables, signals)", noise_keys, read_noise, ot_run_noise, false)                   \
    K(mask, "text: predict masked tokens instead of the next ones (BERT); 80 % become the mask token, 10 % a random one, 10 % stay", mask_keys, NULL, NULL, false) \
    K(auto, "what suits most images of the size: flip and crop, or resized_crop; for grey images crop", NULL, NULL, NULL, false)            \
    K(none, "no augmentation", NULL, NULL, NULL, false)

#define K(name, meaning, keys, read, run, moves) \
    static const ot_change_kind kind_##name = { { #name, meaning, keys }, read, run, moves };
KINDS
#undef K
#define K(name, ...) &kind_##name.entry,
static const ot_entry *const entries[] = { KINDS NULL };
#undef K

const ot_registry ot_augmentations = { "augment", "random changes of the samples of a training (--augment)", entries };

/* ---- lists ---------------------------------------------------------------------------- */

typedef struct making {
    ot_augment *g;
    int channels;
    ot_arena *a;
    ot_error *err;
} making;

/* `fill` or `value`, per channel. */
static ot_status read_fill(const making *m, const ot_spec *spec, const char *key, ot_change *s)
{
    double v[OT_IMAGE_CHANNELS] = { 0 };
    if (!spec->entry->keys || !ot_entry_key(spec->entry, key)) return OT_OK;
    s->automatic = ot_spec_is(spec, key, "random");
    int n = s->automatic ? 1 : numbers(spec, key, v, OT_IMAGE_CHANNELS);
    if (n != 1 && n != m->channels)
        return ot_fail(m->err, OT_E_USAGE, "--augment %s: %s: expected one value or one per channel (%d), got %d",
                       spec->name, key, m->channels, n);
    for (int k = 0; k < OT_IMAGE_CHANNELS; k++) s->fill[k] = (uint8_t)v[n == 1 ? 0 : k];
    return OT_OK;
}

static ot_status add_text(const making *m, const ot_spec *spec)
{
    const char *s = ot_arena_printf(m->a, "%s%s%s", m->g->text, *m->g->text ? ", " : "", spec->name);
    for (int i = 0; s && i < spec->n; i++)
        s = ot_arena_printf(m->a, "%s%s%s=%s", s, i ? "," : ":", spec->param[i].key, spec->param[i].text);
    m->g->text = s;
    return s ? OT_OK : ot_fail(m->err, OT_E_NOMEM, "no memory for options");
}

static ot_status add(const making *m, const ot_spec *spec)
{
    ot_change s = { .kind = (const ot_change_kind *)(const void *)spec->entry, .p = 1 };
    if (ot_entry_key(spec->entry, "p")) s.p = ot_spec_num(spec, "p");
    OT_TRY(read_fill(m, spec, "fill", &s));
    OT_TRY(read_fill(m, spec, "value", &s));
    if (s.kind->read) OT_TRY(s.kind->read(spec, &s, m->err));
    OT_TRY(add_text(m, spec));
    if (s.kind == &kind_noise) m->g->noise = s.v[0];
    if (s.kind->run) {
        m->g->step[m->g->n++] = s;
        return OT_OK;
    }
    if (s.kind == &kind_mixup) return m->g->mixup = s.v[0], OT_OK;
    if (s.kind == &kind_cutmix) return m->g->cutmix = s.v[0], OT_OK;
    if (s.kind == &kind_mask)
        return ot_fail(m->err, OT_E_USAGE, "--augment mask: needs a text or tokens (--data corpus.txt, tokens.bin)");
    if (m->g->crop) return ot_fail(m->err, OT_E_USAGE, "--augment: resized_crop is given twice");
    ot_change *crop = ot_arena_alloc(m->a, sizeof *crop);
    if (!crop) return ot_fail(m->err, OT_E_NOMEM, "no memory for options");
    *crop = s;
    m->g->crop = crop;
    return OT_OK;
}

/* What people do with such images: those of the size of CIFAR's are moved and mirrored, larger ones cropped; digits and
 * letters, which are grey, mean something else in a mirror. */
static ot_status add_auto(const making *m, int64_t height, int64_t width)
{
    enum { LARGE = 96 };
    static const ot_change_kind *const grey[] = { &kind_crop, NULL }, *const small[] = { &kind_flip, &kind_crop, NULL },
                                       *const large[] = { &kind_resized_crop, &kind_flip, NULL };
    bool big = height >= LARGE && width >= LARGE;
    for (const ot_change_kind *const *k = m->channels < 3 ? grey : big ? large : small; *k; k++) {
        ot_spec spec = { .name = (*k)->entry.name, .entry = &(*k)->entry };
        OT_TRY(add(m, &spec));
    }
    return OT_OK;
}

ot_status ot_augment_make(const ot_spec *spec, int n, int64_t height, int64_t width, int channels, ot_arena *a,
                          ot_augment **out, ot_error *err)
{
    ot_augment *g = ot_arena_alloc(a, sizeof *g);
    *out = g;
    if (!g) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    *g = (ot_augment){ .text = "", .step = ot_arena_alloc(a, sizeof *g->step * (size_t)(2 * n + 1)) };
    if (!g->step) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    making m = { g, channels, a, err };
    for (int i = 0; i < n; i++) {
        if (spec[i].entry == &kind_none.entry && n > 1)
            return ot_fail(err, OT_E_USAGE, "--augment: none and %s contradict each other", spec[!i].name);
        if (spec[i].entry == &kind_auto.entry) OT_TRY(add_auto(&m, height, width));
        else if (spec[i].entry != &kind_none.entry) OT_TRY(add(&m, &spec[i]));
    }
    return OT_OK;
}

ot_status ot_augment_still(const ot_augment *g, ot_arena *a, ot_augment **out, ot_error *err)
{
    if (!(*out = ot_arena_alloc(a, sizeof **out))) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    **out = *g;
    (*out)->still = true;
    return OT_OK;
}

int ot_augment_steps(const ot_augment *g) { return g->n + (g->crop != NULL); }

bool ot_augment_needs_images(const ot_augment *g)
{
    bool needs = g->crop;
    for (int i = 0; i < g->n; i++) needs |= g->step[i].kind != &kind_noise;
    return needs;
}

bool ot_augment_resizes(const ot_augment *g) { return g->crop; }
const char *ot_augment_text(const ot_augment *g) { return g->text; }

bool ot_augment_moves(const ot_augment *g)
{
    bool moves = g->crop;
    for (int i = 0; i < g->n; i++) moves |= g->step[i].kind->moves;
    return moves;
}

/* ---- batches and values ---------------------------------------------------------------- */

bool ot_augment_mixes(const ot_augment *g) { return g->mixup > 0 || g->cutmix > 0; }
bool ot_augment_cuts(const ot_augment *g) { return g->cutmix > 0; }
double ot_augment_noise(const ot_augment *g) { return g->noise; }

void ot_augment_bits(const ot_augment_key *key, uint64_t i, uint32_t out[4])
{
    ot_draws d = draws_of(key, TOKENS);
    ot_philox(d.key, i, key->sample, out);
}

double ot_augment_normal(const ot_augment_key *key, uint64_t i)
{
    ot_draws d = draws_of(key, NOISE);
    return ot_normal(d.key ^ key->sample * UINT64_C(0x9e3779b97f4a7c15), OT_STREAM_AUGMENT, i);
}

/* The logarithm of a Gamma variable (Marsaglia, Tsang: A simple method for generating gamma variables, 2000). */
static double draw_log_gamma(ot_draws *d, double alpha)
{
    double less = alpha < 1 ? log(1 - ot_draw_unit(d)) / alpha : 0, a = (alpha < 1 ? alpha + 1 : alpha) - 1 / 3.;
    for (;;) {
        double x = ot_draw_normal(d), v = 1 + x / sqrt(9 * a), u = 1 - ot_draw_unit(d);
        if (v <= 0) continue;
        v = v * v * v;
        if (log(u) < 0.5 * x * x + a - a * v + a * log(v)) return log(a * v) + less;
    }
}

static double draw_beta(ot_draws *d, double alpha)
{
    double x = draw_log_gamma(d, alpha), y = draw_log_gamma(d, alpha);
    return 1 / (1 + exp(y - x));
}

ot_mix ot_augment_mix(const ot_augment *g, int64_t height, int64_t width, const ot_augment_key *key)
{
    ot_draws d = draws_of(key, MIX);
    ot_mix m = { .cut = g->cutmix > 0 && (g->mixup <= 0 || ot_draw_below(&d, 2)) };
    m.kept = draw_beta(&d, m.cut ? g->cutmix : g->mixup);
    if (!m.cut) return m;
    double r = 0.5 * sqrt(1 - m.kept);
    int64_t x = ot_draw_below(&d, width), y = ot_draw_below(&d, height);
    int64_t dx = (int64_t)(r * (double)width), dy = (int64_t)(r * (double)height);
    int64_t left = x < dx ? 0 : x - dx, top = y < dy ? 0 : y - dy;
    int64_t right = x + dx > width ? width : x + dx, bottom = y + dy > height ? height : y + dy;
    memcpy(m.box, (int64_t[]){ top, left, bottom - top, right - left }, sizeof m.box);
    m.kept = 1 - (double)(m.box[2] * m.box[3]) / (double)(height * width);
    return m;
}

/* ---- running -------------------------------------------------------------------------- */

static size_t rounded(size_t n) { return (n + 63) / 64 * 64; }

size_t ot_augment_scratch(const ot_augment *g, const ot_fit *fit, int64_t height, int64_t width, const ot_image *to)
{
    int64_t pixels, bytes;
    ot_fit crop = { .filter = g->crop ? (ot_resample)g->crop->mode : OT_NEAREST };
    size_t a = ot_image_fit_scratch(fit, height, width, to), b = ot_image_fit_scratch(&crop, height, width, to);
    if (!ot_mul(to->height, to->width, &pixels) || !ot_mul(pixels, 16 * OT_IMAGE_CHANNELS, &bytes) ||
        bytes > INT64_MAX / 4)
        return SIZE_MAX;
    size_t row =
        (size_t)(to->width + OT_BLUR_SIDE) * (size_t)to->channels; /* of blur, with its edges; and its kernel */
    size_t blur = rounded((row + OT_BLUR_SIDE) * sizeof(float));
    size_t own = rounded((size_t)(pixels * to->channels)) + rounded((size_t)pixels * sizeof(int32_t));
    size_t most = a > b ? a : b;
    most = most > blur ? most : blur;
    return most > SIZE_MAX / 2 ? SIZE_MAX : most + own + 64;
}

/* The map of a fitted part of an image that is `width` wide: nearest pixels. */
static void fill_map(const ot_fitted *p, const int64_t box[4], int64_t width, ot_canvas *c)
{
    double sy = (double)box[2] / (double)p->height, sx = (double)box[3] / (double)p->width;
    for (int64_t i = 0; i < c->height; i++) {
        bool in = i + p->top >= 0 && i + p->top < p->height;
        int64_t y = in ? (int64_t)(((double)(i + p->top) + 0.5) * sy) + box[0] : 0;
        for (int64_t j = 0; j < c->width; j++) {
            int64_t u = j + p->left;
            int64_t x = (int64_t)(((double)u + 0.5) * sx) + box[1];
            c->map[i * c->width + j] = in && u >= 0 && u < p->width ? (int32_t)(y * width + x) : -1;
        }
    }
}

static void fit_image(const ot_augment *g, const ot_fit *fit, const ot_image *from, const ot_augment_key *key,
                      ot_canvas *c)
{
    int64_t box[4] = { 0, 0, from->height, from->width };
    ot_fit how = *fit;
    ot_image part = *from, to = { c->now, c->height, c->width, c->channels, c->width * c->channels };
    if (g->crop) {
        ot_draws d = draws_of(key, CROP);
        ot_draw_crop(g->crop, &d, from->height, from->width, box);
        how = (ot_fit){ .mode = OT_FIT_STRETCH, .filter = (ot_resample)g->crop->mode };
    }
    if (c->now) part.data += box[0] * part.stride + box[1] * part.channels;
    part.height = box[2];
    part.width = box[3];
    if (c->now) ot_image_fit(&how, &part, &to, c->scratch);
    ot_fitted p = ot_fit_place(&how, part.height, part.width, c->height, c->width);
    if (c->map) fill_map(&p, box, from->width, c);
    if (!c->matrix) return;
    double sy = (double)box[2] / (double)p.height, sx = (double)box[3] / (double)p.width;
    memcpy(
        c->matrix,
        (double[9]){ sx, 0, (double)p.left * sx + (double)box[1], 0, sy, (double)p.top * sy + (double)box[0], 0, 0, 1 },
        9 * sizeof *c->matrix);
}

void ot_augment_run(const ot_augment *g, const ot_fit *fit, const ot_image *from, const ot_image *to,
                    ot_augment_geometry *geometry, const ot_augment_key *key, void *scratch)
{
    size_t pixels = (size_t)(to->height * to->width), bytes = pixels * (size_t)to->channels;
    char *at = (char *)(((uintptr_t)scratch + 63) / 64 * 64);
    ot_canvas c = {
        .now = to->data, .height = to->height, .width = to->width, .channels = to->channels, .still = g->still
    };
    if (to->data) c.spare = (uint8_t *)at;
    at += rounded(bytes);
    if (geometry) c.matrix = geometry->matrix;
    if (geometry && geometry->map) c.map = geometry->map, c.spare_map = (int32_t *)(void *)at;
    c.scratch = at + rounded(pixels * sizeof(int32_t));
    fit_image(g, fit, from, key, &c);
    for (int i = 0; i < g->n; i++) {
        const ot_change *s = &g->step[i];
        ot_draws d = draws_of(key, i);
        if (g->still && !s->kind->moves) continue;
        if (s->p >= 1 || ot_draw_unit(&d) < s->p) s->kind->run(s, &d, &c);
    }
    if (c.now != to->data) memcpy(to->data, c.now, bytes);
    if (geometry && c.map != geometry->map) memcpy(geometry->map, c.map, pixels * sizeof *c.map);
}
