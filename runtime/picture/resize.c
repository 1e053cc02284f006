/* resize.c - resizes 8-bit images as Pillow does, bit for bit; stretched, cropped or padded to a size.
 *
 * Source  Pillow's Resample.c (HPND): filters, their support, coefficients of 22 bits, rounding; torchvision's Resize and
 *         CenterCrop, Pillow's ImageOps.pad: the sizes and places of CROP and PAD.
 *
 * The horizontal pass works on blocks of 8 rows, transposed so that the same element of all 8 is contiguous: a tap of a
 * filter is then one multiplication of vectors, for any number of channels.  Only what the target shows is computed. */
#include "runtime/picture/image.h"
#include "runtime/picture/wide.h"

#include <math.h>
#include <string.h>

enum { BITS = 22, HALF = 1 << (BITS - 1), ROWS = 8, CHUNK = 32 };

/* ---- filters ------------------------------------------------------------------------- */

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x)
{
    x *= 3.14159265358979323846;
    return x == 0 ? 1 : sin(x) / x;
}

static double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const struct {
    double (*at)(double x);
    double support;
} filters[] = {
    [OT_BOX] = { box, 0.5 }, [OT_BILINEAR] = { triangle, 1 }, [OT_BICUBIC] = { cubic, 2 }, [OT_LANCZOS] = { lanczos, 3 }
};

/* ---- coefficients of one axis -------------------------------------------------------- */

/* Result elements first ... first + n - 1 of `out`, of which each reads `count` elements of `in` from `begin`. */
typedef struct axis {
    int64_t in, out, first, n, taps;
    int32_t *begin, *count; /* n */
    int32_t *k;             /* (n, taps); NULL: one element, as it is */
} axis;

static bool is_copy(const axis *x) { return x->in == x->out; }

static double stretch_of(int64_t in, int64_t out)
{
    double scale = (double)in / (double)out;
    return scale < 1 ? 1 : scale;
}

static int64_t taps_of(ot_resample filter, int64_t in, int64_t out)
{
    return filter == OT_NEAREST ? 0 : (int64_t)ceil(filters[filter].support * stretch_of(in, out)) * 2 + 1;
}

static int32_t fixed(double k) { return (int32_t)(k * (1 << BITS) + (k < 0 ? -0.5 : 0.5)); }

/* Coefficients of result element i; w: room for the taps. */
static void weigh(axis *x, ot_resample filter, int64_t i, double *w)
{
    double scale = (double)x->in / (double)x->out, stretch = stretch_of(x->in, x->out), sum = 0;
    double support = filters[filter].support * stretch, center = ((double)(x->first + i) + 0.5) * scale;
    int64_t begin = (int64_t)(center - support + 0.5), end = (int64_t)(center + support + 0.5);
    int32_t *k = x->k + i * x->taps;
    begin = begin < 0 ? 0 : begin;
    end = end > x->in ? x->in : end;
    for (int64_t t = 0; t < end - begin; t++) {
        w[t] = filters[filter].at(((double)(t + begin) - center + 0.5) * (1 / stretch));
        sum += w[t];
    }
    for (int64_t t = 0; t < end - begin; t++) k[t] = fixed(sum != 0 ? w[t] / sum : w[t]);
    x->begin[i] = (int32_t)begin;
    x->count[i] = (int32_t)(end - begin);
}

/* Nearest: Pillow adds the step up element by element, and so does this. */
static void find_nearest(axis *x)
{
    double step = (double)x->in / (double)x->out, at = step * 0.5;
    for (int64_t i = 0; i < x->first + x->n; i++, at += step)
        if (i >= x->first) x->begin[i - x->first] = (int32_t)(at < (double)x->in ? at : (double)(x->in - 1));
}

/* ---- scratch ------------------------------------------------------------------------- */

static bool add_bytes(int64_t *sum, int64_t n, int64_t m, int64_t each)
{
    int64_t bytes;
    return ot_mul(n, m, &bytes) && ot_mul(bytes, each, &bytes) && ot_add(bytes, 63, &bytes) &&
           ot_add(*sum, bytes / 64 * 64, sum);
}

static void *take(char **at, int64_t n, int64_t each)
{
    void *p = *at;
    *at += (n * each + 63) / 64 * 64;
    return p;
}

/* Whatever the size `in` is resized to before a part of `n` is shown: n taps_of() of them at most. */
static bool axis_bytes(int64_t *sum, ot_resample filter, int64_t in, int64_t n)
{
    int64_t wide = filter == OT_NEAREST ? 0 : (int64_t)(2 * filters[filter].support), all, k;
    return ot_mul(wide, in, &all) && ot_mul(n, wide + 3, &k) && ot_add(k, all, &k) && add_bytes(sum, n, 1, 4) &&
           add_bytes(sum, n, 1, 4) && add_bytes(sum, k, 1, 4) && add_bytes(sum, all, 1, 8) &&
           add_bytes(sum, wide + 3, 1, 8);
}

size_t ot_image_fit_scratch(const ot_fit *fit, int64_t height, int64_t width, const ot_image *to)
{
    int64_t n = 64, c = to->channels;
    bool good = axis_bytes(&n, fit->filter, width, to->width) && axis_bytes(&n, fit->filter, height, to->height) &&
                add_bytes(&n, width + 8, c, ROWS) &&     /* a block of rows, there and back */
                add_bytes(&n, to->width + 8, c, ROWS) && /* all of them between the passes */
                add_bytes(&n, height, to->width, c) && add_bytes(&n, to->height, width, c);
    return good ? (size_t)n : SIZE_MAX;
}

static axis axis_make(ot_resample filter, int64_t in, int64_t out, int64_t first, int64_t n, char **at)
{
    axis x = { .in = in, .out = out, .first = first, .n = n, .taps = taps_of(filter, in, out) };
    if (is_copy(&x)) return x;
    x.begin = take(at, n, 4);
    x.count = take(at, n, 4);
    if (filter == OT_NEAREST) {
        find_nearest(&x);
        return x;
    }
    x.k = take(at, n * x.taps, 4);
    char *here = *at; /* the weights in double are needed here alone */
    double *w = take(&here, x.taps, 8);
    for (int64_t i = 0; i < n; i++) weigh(&x, filter, i, w);
    return x;
}

/* ---- horizontal ---------------------------------------------------------------------- */

typedef uint8_t v16 __attribute__((vector_size(16)));

INLINE v16 low(v16 a, v16 b)
{
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

INLINE v16 high(v16 a, v16 b)
{
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* 8 rows of 8 bytes, `from` and `to` bytes apart, to columns. */
INLINE void transpose8(const uint8_t *x, int64_t from, uint8_t *y, int64_t to)
{
    v16 r[8] = { 0 }, z[4], w[4];
    for (int i = 0; i < 8; i++) memcpy(&r[i], x + i * from, 8);
    for (int i = 0; i < 4; i++) z[i] = low(r[i], r[i + 4]);
    for (int i = 0; i < 2; i++) {
        w[2 * i] = low(z[i], z[i + 2]);
        w[2 * i + 1] = high(z[i], z[i + 2]);
    }
    for (int i = 0; i < 2; i++) {
        v16 a = low(w[i], w[i + 2]), b = high(w[i], w[i + 2]);
        memcpy(y + 4 * i * to, &a, 8);
        memcpy(y + (4 * i + 1) * to, (char *)&a + 8, 8);
        memcpy(y + (4 * i + 2) * to, &b, 8);
        memcpy(y + (4 * i + 3) * to, (char *)&b + 8, 8);
    }
}

/* `rows` rows of n bytes to (n, ROWS); rows that are missing are anything. */
WIDE static void gather_rows(const uint8_t *x, int64_t stride, int64_t rows, int64_t n, uint8_t *y)
{
    int64_t i = 0;
    if (rows == ROWS)
        for (; i + 8 <= n; i += 8) transpose8(x + i, stride, y + i * ROWS, ROWS);
    for (; i < n; i++)
        for (int64_t r = 0; r < rows; r++) y[i * ROWS + r] = x[r * stride + i];
}

WIDE static void scatter_rows(const uint8_t *x, int64_t rows, int64_t n, uint8_t *y, int64_t stride)
{
    int64_t i = 0;
    if (rows == ROWS)
        for (; i + 8 <= n; i += 8) transpose8(x + i * ROWS, ROWS, y + i, stride);
    for (; i < n; i++)
        for (int64_t r = 0; r < rows; r++) y[r * stride + i] = x[i * ROWS + r];
}

INLINE uint8_t clip(int32_t v)
{
    v >>= BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* x: (in, channels, ROWS); y: (n, channels, ROWS). */
INLINE void filter_block(const axis *a, const uint8_t *restrict x, uint8_t *restrict y, int channels)
{
    int wide = channels * ROWS;
    for (int64_t i = 0; i < a->n; i++, y += wide) {
        const int32_t *k = a->k + i * a->taps;
        const uint8_t *from = x + (int64_t)a->begin[i] * wide;
        int32_t sum[OT_IMAGE_CHANNELS * ROWS];
        for (int j = 0; j < wide; j++) sum[j] = HALF;
        for (int32_t t = 0; t < a->count[i]; t++, from += wide)
            for (int j = 0; j < wide; j++) sum[j] += from[j] * k[t];
        for (int j = 0; j < wide; j++) y[j] = clip(sum[j]);
    }
}

WIDE static void filter_rows(const axis *a, const uint8_t *x, uint8_t *y, int channels)
{
    switch (channels) {
    case 1: filter_block(a, x, y, 1); break;
    case 2: filter_block(a, x, y, 2); break;
    case 3: filter_block(a, x, y, 3); break;
    default: filter_block(a, x, y, 4); break;
    }
}

/* Rows of x filtered to rows of y, which is a->n wide. */
static void across(const axis *a, const ot_image *x, const ot_image *y, char *scratch)
{
    int c = x->channels;
    uint8_t *in = take(&scratch, (x->width + 8) * c, ROWS), *out = take(&scratch, (a->n + 8) * c, ROWS);
    for (int64_t r = 0; r < x->height; r += ROWS) {
        int64_t rows = x->height - r < ROWS ? x->height - r : ROWS;
        if (rows < ROWS) memset(in, 0, (size_t)(x->width * c * ROWS));
        gather_rows(x->data + r * x->stride, x->stride, rows, x->width * c, in);
        filter_rows(a, in, out, c);
        scatter_rows(out, rows, a->n * c, y->data + r * y->stride, y->stride);
    }
}

/* ---- vertical ------------------------------------------------------------------------ */

INLINE void filter_chunk(const int32_t *k, int32_t taps, const uint8_t *x, int64_t stride, uint8_t *y, int64_t n)
{
    int32_t sum[CHUNK];
    for (int64_t j = 0; j < n; j++) sum[j] = HALF;
    for (int32_t t = 0; t < taps; t++, x += stride)
        for (int64_t j = 0; j < n; j++) sum[j] += x[j] * k[t];
    for (int64_t j = 0; j < n; j++) y[j] = clip(sum[j]);
}

/* n bytes of one row, from `taps` rows of x. */
WIDE static void filter_column(const int32_t *k, int32_t taps, const uint8_t *x, int64_t stride, uint8_t *y, int64_t n)
{
    int64_t i = 0;
    for (; i + CHUNK <= n; i += CHUNK) filter_chunk(k, taps, x + i, stride, y + i, CHUNK);
    if (i < n) filter_chunk(k, taps, x + i, stride, y + i, n - i);
}

static void copy_rows(const ot_image *x, const ot_image *y)
{
    for (int64_t i = 0; i < y->height; i++)
        memcpy(y->data + i * y->stride, x->data + i * x->stride, (size_t)(y->width * y->channels));
}

/* ---- both ---------------------------------------------------------------------------- */

INLINE void pick(const axis *h, const axis *w, const ot_image *x, const ot_image *y, int channels)
{
    for (int64_t i = 0; i < y->height; i++) {
        const uint8_t *from = x->data + (is_copy(h) ? i + h->first : h->begin[i]) * x->stride;
        uint8_t *to = y->data + i * y->stride;
        for (int64_t j = 0; j < y->width; j++, to += channels)
            memcpy(to, from + (is_copy(w) ? j + w->first : w->begin[j]) * channels, (size_t)channels);
    }
}

static void pick_nearest(const axis *h, const axis *w, const ot_image *x, const ot_image *y)
{
    switch (x->channels) {
    case 1: pick(h, w, x, y, 1); break;
    case 2: pick(h, w, x, y, 2); break;
    case 3: pick(h, w, x, y, 3); break;
    default: pick(h, w, x, y, 4); break;
    }
}

static void filter_columns(const axis *h, const uint8_t *x, int64_t stride, const ot_image *y)
{
    for (int64_t i = 0; i < y->height; i++)
        filter_column(h->k + i * h->taps, h->count[i], x + h->begin[i] * stride, stride, y->data + i * y->stride,
                      y->width * y->channels);
}

/* Which pass is first changes results by a few grey levels; this is the rule of Pillow since 13.0. */
static bool is_vertical_first(const axis *h, const axis *w)
{
    return h->in > h->out && h->in - h->out > 2 * (w->in - w->out);
}

/* x resized to the sizes of the axes, neither of which is a copy; y is the part that they have of it. */
static void resize_both(const axis *h, const axis *w, const ot_image *x, const ot_image *y, char *scratch)
{
    ot_image in = *x, mid = *y;
    if (is_vertical_first(h, w)) {
        mid.width = x->width;
        mid.stride = x->width * x->channels;
        mid.data = take(&scratch, mid.height, mid.stride);
        filter_columns(h, x->data, x->stride, &mid);
        across(w, &mid, y, scratch);
        return;
    }
    int64_t top = h->begin[0];
    in.data += top * in.stride;
    mid.height = in.height = h->begin[h->n - 1] + h->count[h->n - 1] - top;
    mid.stride = y->width * y->channels;
    mid.data = take(&scratch, mid.height, mid.stride);
    across(w, &in, &mid, scratch);
    filter_columns(h, mid.data - top * mid.stride, mid.stride, y);
}

static void resize(const axis *h, const axis *w, const ot_image *x, const ot_image *y, char *scratch)
{
    ot_image in = *x;
    if (is_copy(h)) in.data += h->first * in.stride, in.height = y->height;
    if (is_copy(w)) in.data += w->first * in.channels, in.width = y->width;
    if (is_copy(h) && is_copy(w)) copy_rows(&in, y);
    else if (is_copy(h)) across(w, &in, y, scratch);
    else if (is_copy(w)) filter_columns(h, in.data, in.stride, y);
    else resize_both(h, w, x, y, scratch);
}

/* fill: a value per channel. */
static void fill_image(const ot_image *to, const uint8_t *fill)
{
    for (int64_t i = 0; i < to->height; i++) {
        uint8_t *p = to->data + i * to->stride;
        for (int64_t j = 0; j < to->width * to->channels; j++) p[j] = fill[j % to->channels];
    }
}

/* ---- fitting ------------------------------------------------------------------------- */

static int64_t whole(double x) { return x < 1 ? 1 : x > OT_IMAGE_SIDE ? OT_IMAGE_SIDE : (int64_t)x; }

/* Half of what is too much, ties to even as Python's round; of what is missing, rounded down. */
static int64_t middle(int64_t more) { return more < 0 ? -(-more / 2) : (int64_t)nearbyint((double)more / 2); }

static ot_fitted place_crop(int64_t shorter, double h, double w, double th, double tw)
{
    ot_fitted p;
    if (shorter)
        p = h <= w ? (ot_fitted){ shorter, whole((double)shorter * w / h), 0, 0 }
                   : (ot_fitted){ whole((double)shorter * h / w), shorter, 0, 0 };
    else
        p = th * w >= tw * h ? (ot_fitted){ (int64_t)th, whole(th * w / h), 0, 0 }
                             : (ot_fitted){ whole(tw * h / w), (int64_t)tw, 0, 0 };
    p.top = middle(p.height - (int64_t)th);
    p.left = middle(p.width - (int64_t)tw);
    return p;
}

static ot_fitted place_pad(double h, double w, double th, double tw)
{
    ot_fitted p = { (int64_t)th, (int64_t)tw, 0, 0 };
    if (w / h > tw / th) p.height = whole(nearbyint(h / w * tw));
    else if (w / h < tw / th) p.width = whole(nearbyint(w / h * th));
    if (p.height > (int64_t)th) p.height = (int64_t)th;
    if (p.width > (int64_t)tw) p.width = (int64_t)tw;
    p.top = -(int64_t)nearbyint((th - (double)p.height) * 0.5);
    p.left = -(int64_t)nearbyint((tw - (double)p.width) * 0.5);
    return p;
}

ot_fitted ot_fit_place(const ot_fit *fit, int64_t height, int64_t width, int64_t to_height, int64_t to_width)
{
    double h = (double)height, w = (double)width, th = (double)to_height, tw = (double)to_width;
    if (fit->mode == OT_FIT_CROP) return place_crop(fit->shorter, h, w, th, tw);
    if (fit->mode == OT_FIT_PAD) return place_pad(h, w, th, tw);
    return (ot_fitted){ to_height, to_width, 0, 0 };
}

void ot_image_fit(const ot_fit *fit, const ot_image *from, const ot_image *to, void *scratch)
{
    ot_fitted p = ot_fit_place(fit, from->height, from->width, to->height, to->width);
    int64_t top = p.top < 0 ? 0 : p.top, left = p.left < 0 ? 0 : p.left; /* of the resized image, what is seen */
    int64_t y = top - p.top, x = left - p.left;                          /* and where */
    ot_image part = *to;
    char *at = (char *)(((uintptr_t)scratch + 63) / 64 * 64);
    part.height = to->height - y < p.height - top ? to->height - y : p.height - top;
    part.width = to->width - x < p.width - left ? to->width - x : p.width - left;
    part.data += y * to->stride + x * to->channels;
    if (part.height < to->height || part.width < to->width) fill_image(to, fit->fill);
    axis h = axis_make(fit->filter, from->height, p.height, top, part.height, &at);
    axis w = axis_make(fit->filter, from->width, p.width, left, part.width, &at);
    if (fit->filter == OT_NEAREST) pick_nearest(&h, &w, from, &part);
    else resize(&h, &w, from, &part, at);
}
