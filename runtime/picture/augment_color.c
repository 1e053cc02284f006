/* augment_color.c - augmentation that changes values and leaves pixels where they are.
 *
 * Source    torchvision.transforms.v2.functional on uint8: computed in f32, truncated (blur and sharpness: rounded).  Hue,
 *           saturation and grey change images of 3 channels only. */
#include "runtime/picture/augment_internal.h"
#include "runtime/picture/wide.h"

#include <math.h>
#include <string.h>

static int64_t pixels(const ot_canvas *c) { return c->height * c->width; }

static uint8_t cut(float v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* x + factor * y, rounded once, as PyTorch adds with a factor. */
static float plus(float x, float factor, float y) { return (float)((double)factor * (double)y + (double)x); }

/* Luma before it is truncated. */
static float luma(const uint8_t *p) { return (float)p[0] * 0.2989f + (float)p[1] * 0.587f + (float)p[2] * 0.114f; }

/* ---- tables of 256 values ------------------------------------------------------------- */

static void look_up(ot_canvas *c, const uint8_t table[256])
{
    for (int64_t i = 0; i < pixels(c) * c->channels; i++) c->now[i] = table[c->now[i]];
}

static void look_up_channel(ot_canvas *c, int channel, const uint8_t table[256])
{
    for (int64_t i = 0; i < pixels(c); i++) {
        uint8_t *p = c->now + i * c->channels + channel;
        *p = table[*p];
    }
}

static void count(const ot_canvas *c, int channel, int64_t n[256])
{
    memset(n, 0, 256 * sizeof *n);
    for (int64_t i = 0; i < pixels(c); i++) n[c->now[i * c->channels + channel]]++;
}

void ot_canvas_brightness(ot_canvas *c, double factor)
{
    uint8_t t[256];
    for (int i = 0; i < 256; i++) t[i] = cut((float)i * (float)factor);
    look_up(c, t);
}

void ot_canvas_contrast(ot_canvas *c, double factor)
{
    uint8_t t[256];
    int64_t sum = 0, n = pixels(c), each = c->channels == 3 ? 1 : c->channels;
    for (int64_t i = 0; i < n * each; i++) sum += c->channels == 3 ? (int64_t)luma(c->now + 3 * i) : c->now[i];
    float mean = (float)((double)sum / (double)(n * each));
    for (int i = 0; i < 256; i++) t[i] = cut(plus((float)i * (float)factor, (float)(1 - factor), mean));
    look_up(c, t);
}

void ot_canvas_posterize(ot_canvas *c, int bits)
{
    uint8_t t[256];
    for (int i = 0; i < 256; i++) t[i] = (uint8_t)(i & (0xff00 >> bits));
    look_up(c, t);
}

void ot_canvas_solarize(ot_canvas *c, double threshold)
{
    uint8_t t[256];
    for (int i = 0; i < 256; i++) t[i] = (uint8_t)(i >= threshold ? 255 - i : i);
    look_up(c, t);
}

void ot_run_invert(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    (void)s;
    (void)d;
    if (c->now) ot_canvas_solarize(c, 0);
}

void ot_run_posterize(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    (void)d;
    if (c->now) ot_canvas_posterize(c, (int)s->v[0]);
}

void ot_run_solarize(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    (void)d;
    if (c->now) ot_canvas_solarize(c, s->v[0]);
}

void ot_run_autocontrast(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    int64_t n[256];
    uint8_t t[256];
    (void)s;
    (void)d;
    for (int k = 0; c->now && k < c->channels; k++) {
        int low = 0, high = 255;
        count(c, k, n);
        while (!n[low]) low++;
        while (!n[high]) high--;
        if (low == high) continue;
        float scale = (float)(high - low) * (float)(1 / 255.);
        for (int i = 0; i < 256; i++) t[i] = cut((float)(i - low) / scale);
        look_up_channel(c, k, t);
    }
}

void ot_run_equalize(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    int64_t n[256];
    uint8_t t[256];
    (void)s;
    (void)d;
    for (int k = 0; c->now && k < c->channels; k++) {
        int high = 255;
        count(c, k, n);
        while (!n[high]) high--;
        int64_t step = (pixels(c) - n[high]) / 255, sum = 0;
        if (!step) continue;
        for (int i = 0; i < 256; sum += n[i++]) {
            int64_t v = i ? (sum + step / 2) / step : 0;
            t[i] = (uint8_t)(v > 255 ? 255 : v);
        }
        look_up_channel(c, k, t);
    }
}

/* ---- colours -------------------------------------------------------------------------- */

WIDE static void saturate(uint8_t *p, int64_t n, float keep, float add)
{
    for (int64_t i = 0; i < n; i++, p += 3) {
        float grey = (float)(int)luma(p);
        for (int k = 0; k < 3; k++) p[k] = cut(plus((float)p[k] * keep, add, grey));
    }
}

void ot_canvas_saturation(ot_canvas *c, double factor)
{
    if (c->channels == 3) saturate(c->now, pixels(c), (float)factor, (float)(1 - factor));
}

void ot_run_grey(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    (void)s;
    (void)d;
    for (int64_t i = 0; c->now && i < pixels(c) && c->channels == 3; i++) {
        uint8_t *p = c->now + 3 * i;
        memset(p, (uint8_t)luma(p), 3);
    }
}

/* Hue in [0, 1), saturation, value of a pixel in [0, 1]. */
static void to_hsv(const uint8_t *p, float hsv[3])
{
    float r = (float)p[0] / 255, g = (float)p[1] / 255, b = (float)p[2] / 255;
    float high = fmaxf(r, fmaxf(g, b)), low = fminf(r, fminf(g, b)), range = high - low;
    float by = range > 0 ? range : 1, rc = (high - r) / by, gc = (high - g) / by, bc = (high - b) / by;
    float h = high == r ? bc - gc : high == g ? rc + 2 - bc : gc + 4 - rc;
    hsv[0] = fmodf(h * (1 / 6.f) + 1, 1);
    hsv[1] = range > 0 ? range / high : 0;
    hsv[2] = high;
}

static float unit(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

static void from_hsv(const float hsv[3], uint8_t *p)
{
    static const uint8_t select[3][6] = { { 0, 2, 1, 1, 3, 0 }, { 3, 0, 0, 2, 1, 1 }, { 1, 1, 3, 0, 0, 2 } };
    float h6 = hsv[0] * 6, s = hsv[1], v = hsv[2], whole = floorf(h6), f = h6 - whole;
    float vpqt[4] = { v, unit((1 - s) * v), unit((1 - s * f) * v), unit((s * f + (1 - s)) * v) };
    int i = (int)whole % 6;
    for (int k = 0; k < 3; k++) p[k] = (uint8_t)(vpqt[select[k][i]] * 255.999f);
}

void ot_canvas_hue(ot_canvas *c, double factor)
{
    for (int64_t i = 0; i < pixels(c) && c->channels == 3; i++) {
        float hsv[3];
        to_hsv(c->now + 3 * i, hsv);
        float h = hsv[0] + (float)factor;
        hsv[0] = h - floorf(h);
        from_hsv(hsv, c->now + 3 * i);
    }
}

/* v: from, to of brightness, contrast, saturation, hue; in an order that is drawn too. */
void ot_run_jitter(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    static void (*const change[])(ot_canvas *c, double factor) = { ot_canvas_brightness, ot_canvas_contrast,
                                                                   ot_canvas_saturation, ot_canvas_hue };
    int order[4] = { 0, 1, 2, 3 };
    double factor[4];
    for (int i = 3; i > 0; i--) {
        int k = (int)ot_draw_below(d, i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (int i = 0; i < 4; i++) factor[i] = ot_draw_from(d, s->v[2 * i], s->v[2 * i + 1]);
    for (int i = 0; i < 4 && c->now; i++) {
        const double *range = s->v + 2 * order[i], none = order[i] == 3 ? 0 : 1;
        if (range[0] != none || range[1] != none) change[order[i]](c, factor[order[i]]);
    }
}

/* ---- neighbourhoods ------------------------------------------------------------------- */

static int64_t mirrored(int64_t i, int64_t n)
{
    if (n == 1) return 0;
    i = i < 0 ? -i : i;
    i %= 2 * n - 2;
    return i < n ? i : 2 * n - 2 - i;
}

void ot_canvas_sharpness(ot_canvas *c, double factor)
{
    int64_t h = c->height, w = c->width, n = c->channels;
    float add = (float)(1 - factor);
    if (h <= 2 || w <= 2) return;
    memcpy(c->spare, c->now, (size_t)(h * w * n));
    for (int64_t i = 1; i + 1 < h; i++)
        for (int64_t k = n; k < (w - 1) * n; k++) {
            const uint8_t *p = c->spare + i * w * n + k, *up = p - w * n, *down = p + w * n;
            int sum = up[-n] + up[0] + up[n] + p[-n] + p[n] + down[-n] + down[0] + down[n];
            float blurred = nearbyintf((float)(sum + 5 * p[0]) / 13);
            c->now[i * w * n + k] = cut(plus((float)p[0], add, blurred - (float)p[0]));
        }
}

void ot_run_sharpness(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    (void)d;
    if (c->now) ot_canvas_sharpness(c, s->v[0]);
}

enum { LANES = 32 };

/* to[0..m) = the sum over t of k[t] * x[t][0..m), in the order of t. */
INLINE void add_rows(const float *k, int side, const uint8_t *const *x, int64_t at, int64_t m, float *to)
{
    float sum[LANES] = { 0 };
    for (int t = 0; t < side; t++)
        for (int64_t i = 0; i < m; i++) sum[i] += k[t] * (float)x[t][at + i];
    memcpy(to + at, sum, (size_t)m * sizeof *sum);
}

WIDE static void blur_down(const float *k, int side, const uint8_t *const *x, int64_t n, float *to)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) add_rows(k, side, x, i, LANES, to);
    if (i < n) add_rows(k, side, x, i, n - i, to);
}

/* The same along a row, whose next pixel is `step` values later, rounded to even. */
INLINE void add_pixels(const float *k, int side, const float *x, int64_t step, int64_t m, uint8_t *to)
{
    const float shift = 12582912; /* 1.5 * 2^23: its last bit is 1 */
    float sum[LANES] = { 0 };
    for (int t = 0; t < side; t++)
        for (int64_t i = 0; i < m; i++) sum[i] += k[t] * x[t * step + i];
    for (int64_t i = 0; i < m; i++) {
        float v = sum[i] < 0 ? 0 : sum[i] > 255 ? 255 : sum[i];
        to[i] = (uint8_t)(int)((v + shift) - shift);
    }
}

WIDE static void blur_across(const float *k, int side, const float *x, int64_t step, int64_t n, uint8_t *to)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) add_pixels(k, side, x + i, step, LANES, to + i);
    if (i < n) add_pixels(k, side, x + i, step, n - i, to + i);
}

/* Both passes in f32, mirrored at the edges, row by row. */
void ot_canvas_blur(ot_canvas *c, int side, double sigma)
{
    int64_t h = c->height, w = c->width, n = c->channels, half = side / 2;
    const uint8_t *from[OT_BLUR_SIDE];
    float *k = c->scratch, *row = k + OT_BLUR_SIDE, *middle = row + half * n, sum = 0;
    for (int i = 0; i < side; i++) {
        double x = (double)(i - half) / sigma;
        k[i] = (float)exp(-0.5 * x * x);
        sum += k[i];
    }
    for (int i = 0; i < side; i++) k[i] /= sum;
    for (int64_t i = 0; i < h; i++) {
        for (int t = 0; t < side; t++) from[t] = c->now + mirrored(i + t - half, h) * w * n;
        blur_down(k, side, from, w * n, middle);
        for (int64_t j = 1; j <= half; j++) {
            memcpy(middle - j * n, middle + mirrored(-j, w) * n, (size_t)n * sizeof *row);
            memcpy(middle + (w - 1 + j) * n, middle + mirrored(w - 1 + j, w) * n, (size_t)n * sizeof *row);
        }
        blur_across(k, side, row, n, w * n, c->spare + i * w * n);
    }
    uint8_t *was = c->now;
    c->now = c->spare;
    c->spare = was;
}

/* v: kernel size, sigma from, to. */
void ot_run_blur(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    double sigma = ot_draw_from(d, s->v[1], s->v[2]);
    if (c->now) ot_canvas_blur(c, (int)s->v[0], sigma);
}

/* v: deviation, of values from 0 to 1. */
void ot_run_noise(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    int64_t n = c->now ? c->height * c->width * c->channels : 0;
    for (int64_t i = 0; i < n; i++) {
        double v = nearbyint(c->now[i] + 255 * s->v[0] * ot_draw_normal(d));
        c->now[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

/* ---- holes ---------------------------------------------------------------------------- */

static void erase(const ot_change *s, ot_draws *d, ot_canvas *c, const int64_t box[4])
{
    for (int64_t i = box[0]; i < box[0] + box[2]; i++)
        for (int64_t j = box[1]; j < box[1] + box[3]; j++)
            for (int k = 0; k < c->channels; k++)
                c->now[(i * c->width + j) * c->channels + k] =
                    s->automatic ? (uint8_t)ot_draw_below(d, 256) : s->fill[k]; /* automatic: noise */
}

/* v: scale from, to, ratio from, to. */
void ot_run_erase(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    double area = (double)c->height * (double)c->width;
    for (int i = 0; i < 10; i++) {
        double target = area * ot_draw_from(d, s->v[0], s->v[1]);
        double ratio = exp(ot_draw_from(d, log(s->v[2]), log(s->v[3])));
        int64_t h = (int64_t)nearbyint(sqrt(target * ratio)), w = (int64_t)nearbyint(sqrt(target / ratio));
        if (h >= c->height || w >= c->width) continue;
        int64_t top = ot_draw_below(d, c->height - h + 1), left = ot_draw_below(d, c->width - w + 1);
        if (c->now) erase(s, d, c, (int64_t[]){ top, left, h, w });
        return;
    }
}

/* v: side of the square, 0: half of the shorter one. */
void ot_run_cutout(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    int64_t shorter = c->height < c->width ? c->height : c->width;
    int64_t side = s->v[0] > 0 ? (int64_t)s->v[0] : (shorter + 1) / 2;
    int64_t top = ot_draw_below(d, c->height) - side / 2, left = ot_draw_below(d, c->width) - side / 2;
    int64_t bottom = top + side < c->height ? top + side : c->height;
    int64_t right = left + side < c->width ? left + side : c->width;
    top = top < 0 ? 0 : top;
    left = left < 0 ? 0 : left;
    if (c->now && bottom > top && right > left) erase(s, d, c, (int64_t[]){ top, left, bottom - top, right - left });
}
