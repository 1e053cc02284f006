/* augment_geometry.c - augmentation that moves pixels: image, map and matrix alike.
 *
 * Source    torchvision.transforms.v2: RandomCrop, RandomResizedCrop, RandomRotation, RandomAffine, RandomPerspective.
 * Numerics  coordinates in f64 (torchvision: f32); nearest rounds ties to even, bilinear rounds its result to even. */
#include "runtime/picture/augment_internal.h"
#include "runtime/picture/wide.h"

#include <math.h>
#include <string.h>

/* a = a b */
static void multiply_by(double a[9], const double b[9])
{
    double y[9];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) y[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
    memcpy(a, y, sizeof y);
}

/* The step has filled the spare halves. */
static void swap(ot_canvas *c, const double matrix[9])
{
    uint8_t *p = c->now;
    int32_t *m = c->map;
    c->now = c->spare;
    c->spare = p;
    c->map = c->spare_map;
    c->spare_map = m;
    if (c->matrix) multiply_by(c->matrix, matrix);
}

/* ---- whole pixels -------------------------------------------------------------------- */

/* Where an index outside 0 .. n - 1 is taken from; -1: nowhere. */
static int64_t padded(ot_padding mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n) return i;
    if (mode == OT_PAD_CONSTANT) return -1;
    if (mode == OT_PAD_EDGE) return i < 0 ? 0 : n - 1;
    int64_t period = mode == OT_PAD_REFLECT ? 2 * n - 2 : 2 * n;
    if (period == 0) return 0;
    i = (i % period + period) % period;
    return i < n ? i : period - (mode == OT_PAD_SYMMETRIC) - i;
}

INLINE void copy_channels(uint8_t *to, const uint8_t *from, int n)
{
    switch (n) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 3: to[0] = from[0], to[1] = from[1], to[2] = from[2]; break;
    default: memcpy(to, from, 4); break;
    }
}

INLINE void copy_pixel(const ot_canvas *c, int64_t to, int64_t from, const uint8_t *fill)
{
    int n = c->channels;
    if (c->now) copy_channels(c->spare + to * n, from < 0 ? fill : c->now + from * n, n);
    if (c->map) c->spare_map[to] = from < 0 ? -1 : c->map[from];
}

/* Row `to` of the result is row `from` of the image so far, from its end to its beginning. */
static void mirror_row(const ot_canvas *c, int64_t to, int64_t from)
{
    int64_t w = c->width, n = c->channels;
    const uint8_t *x = c->now ? c->now + (from + 1) * w * n : NULL;
    uint8_t *y = c->now ? c->spare + to * w * n : NULL;
    for (int64_t j = 0; c->now && j < w; j++) copy_channels(y + j * n, x -= n, c->channels);
    for (int64_t j = 0; c->map && j < w; j++) c->spare_map[to * w + j] = c->map[from * w + w - 1 - j];
}

/* Pixel (y, x) of the result is (top + y * down, left + x * across) of the image so far. */
static void move(ot_canvas *c, int64_t top, int64_t left, int down, int across, ot_padding mode, const uint8_t *fill)
{
    int64_t h = c->height, w = c->width, n = c->channels;
    int64_t first = across < 0 ? 0 : left < 0 ? -left : 0, last = across < 0 ? 0 : left > 0 ? w - left : w;
    for (int64_t i = 0; i < h; i++) {
        int64_t y = padded(mode, top + i * down, h);
        if (across < 0 && left == w - 1 && y >= 0) {
            mirror_row(c, i, y);
            continue;
        }
        for (int64_t j = 0; j < w; j++) {
            if (j == first && last > first && y >= 0) { /* inside, a row is one copy */
                if (c->now)
                    memcpy(c->spare + (i * w + j) * n, c->now + (y * w + left + j) * n, (size_t)((last - first) * n));
                if (c->map)
                    memcpy(c->spare_map + i * w + j, c->map + y * w + left + j,
                           (size_t)(last - first) * sizeof *c->map);
                j = last - 1;
                continue;
            }
            int64_t x = padded(mode, left + j * across, w);
            copy_pixel(c, i * w + j, x < 0 || y < 0 ? -1 : y * w + x, fill);
        }
    }
    double half_y = down < 0 ? 1 : 0, half_x = across < 0 ? 1 : 0; /* a mirrored pixel begins at its other edge */
    swap(c, (double[9]){ across, 0, (double)left + half_x, 0, down, (double)top + half_y, 0, 0, 1 });
}

void ot_run_flip(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    (void)d;
    move(c, 0, c->width - 1, 1, -1, OT_PAD_EDGE, s->fill);
}

void ot_run_vertical_flip(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    (void)d;
    move(c, c->height - 1, 0, -1, 1, OT_PAD_EDGE, s->fill);
}

void ot_run_crop(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    int64_t side = c->height < c->width ? c->height : c->width;
    int64_t by = s->automatic ? (side + 4) / 8 : (int64_t)s->v[0];
    int64_t top = ot_draw_below(d, 2 * by + 1) - by, left = ot_draw_below(d, 2 * by + 1) - by;
    move(c, top, left, 1, 1, (ot_padding)s->mode, s->fill);
}

/* v: scale from, to, ratio from, to. */
void ot_draw_crop(const ot_change *s, ot_draws *d, int64_t height, int64_t width, int64_t box[4])
{
    double area = (double)height * (double)width, in = (double)width / (double)height;
    for (int i = 0; i < 10; i++) {
        double target = area * ot_draw_from(d, s->v[0], s->v[1]);
        double ratio = exp(ot_draw_from(d, log(s->v[2]), log(s->v[3])));
        int64_t w = (int64_t)nearbyint(sqrt(target * ratio)), h = (int64_t)nearbyint(sqrt(target / ratio));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        int64_t top = ot_draw_below(d, height - h + 1), left = ot_draw_below(d, width - w + 1);
        memcpy(box, (int64_t[]){ top, left, h, w }, 4 * sizeof *box);
        return;
    }
    int64_t w = width, h = height;
    if (in < s->v[2]) h = (int64_t)nearbyint((double)w / s->v[2]);
    else if (in > s->v[3]) w = (int64_t)nearbyint((double)h * s->v[3]);
    h = h < 1 ? 1 : h > height ? height : h;
    w = w < 1 ? 1 : w > width ? width : w;
    memcpy(box, (int64_t[]){ (height - h) / 2, (width - w) / 2, h, w }, 4 * sizeof *box);
}

/* ---- warps --------------------------------------------------------------------------- */

/* Four neighbours, of which those outside are the fill. */
static void blend(const ot_canvas *c, double x, double y, const uint8_t *fill, uint8_t *to)
{
    int64_t w = c->width, h = c->height, x0 = (int64_t)floor(x), y0 = (int64_t)floor(y);
    float a = (float)(x - (double)x0), b = (float)(y - (double)y0);
    float weight[4] = { (1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b };
    const uint8_t *p[4];
    for (int k = 0; k < 4; k++) {
        int64_t i = y0 + k / 2, j = x0 + k % 2;
        p[k] = i < 0 || j < 0 || i >= h || j >= w ? fill : c->now + (i * w + j) * c->channels;
    }
    for (int k = 0; k < c->channels; k++) {
        float v = 0;
        for (int q = 0; q < 4; q++) v += weight[q] * (float)p[q][k];
        to[k] = (uint8_t)nearbyintf(v);
    }
}

/* To the nearest whole number, ties to even; |x| < 2^51. */
INLINE double nearest(double x)
{
    const double shift = 6755399441055744.; /* 1.5 * 2^52: its last bit is 1 */
    return (x + shift) - shift;
}

void ot_canvas_warp(ot_canvas *c, const double m[9], ot_resample filter, const uint8_t *fill)
{
    int64_t w = c->width, h = c->height;
    bool straight = m[6] == 0 && m[7] == 0;
    for (int64_t i = 0; i < h; i++) {
        double v = (double)i + 0.5, bx = m[1] * v + m[2], by = m[4] * v + m[5], bz = m[7] * v + m[8];
        for (int64_t j = 0; j < w; j++) {
            double u = (double)j + 0.5, z = m[6] * u + bz, x = m[0] * u + bx, y = m[3] * u + by;
            if (!straight) x /= z, y /= z;
            x -= 0.5;
            y -= 0.5;
            bool seen = x > -1 && y > -1 && x < (double)w && y < (double)h; /* false where z is 0, too */
            double rx = seen ? nearest(x) : -1, ry = seen ? nearest(y) : -1;
            bool in = rx >= 0 && ry >= 0 && rx < (double)w && ry < (double)h;
            int64_t from = in ? (int64_t)ry * w + (int64_t)rx : -1, at = i * w + j;
            if (filter == OT_NEAREST || !seen || !c->now) {
                copy_pixel(c, at, from, fill);
                continue;
            }
            if (c->map) c->spare_map[at] = from < 0 ? -1 : c->map[from];
            blend(c, x, y, fill, c->spare + at * c->channels);
        }
    }
    swap(c, m);
}

void ot_canvas_affine(ot_canvas *c, const ot_affine *t, ot_resample filter, const uint8_t *fill)
{
    const double degree = 3.14159265358979323846 / 180;
    double rot = t->angle * degree, sx = t->shear_x * degree, sy = t->shear_y * degree;
    double a = cos(rot - sy) / cos(sy), b = -(a * tan(sx) + sin(rot));
    double e = sin(rot - sy) / cos(sy), f = cos(rot) - e * tan(sx);
    double m[9] = { f / t->scale, -b / t->scale, 0, -e / t->scale, a / t->scale, 0, 0, 0, 1 };
    double w = (double)c->width / 2, h = (double)c->height / 2, dx = t->cx + t->tx, dy = t->cy + t->ty;
    m[2] = t->cx - m[0] * dx - m[1] * dy; /* around the middle ... */
    m[5] = t->cy - m[3] * dx - m[4] * dy;
    m[2] += w - m[0] * w - m[1] * h; /* ... and from the corner */
    m[5] += h - m[3] * w - m[4] * h;
    ot_canvas_warp(c, m, filter, fill);
}

/* v: degrees from, to. */
void ot_run_rotate(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    ot_affine a = { .angle = -ot_draw_from(d, s->v[0], s->v[1]), .scale = 1 };
    ot_canvas_affine(c, &a, (ot_resample)s->mode, s->fill);
}

/* v: degrees from, to, translate x, y, scale from, to, shear x from, to, y from, to. */
void ot_run_affine(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    ot_affine a = { .angle = ot_draw_from(d, s->v[0], s->v[1]) };
    double dx = s->v[2] * (double)c->width, dy = s->v[3] * (double)c->height;
    a.tx = nearbyint(ot_draw_from(d, -dx, dx));
    a.ty = nearbyint(ot_draw_from(d, -dy, dy));
    a.scale = ot_draw_from(d, s->v[4], s->v[5]);
    a.shear_x = ot_draw_from(d, s->v[6], s->v[7]);
    a.shear_y = ot_draw_from(d, s->v[8], s->v[9]);
    ot_canvas_affine(c, &a, (ot_resample)s->mode, s->fill);
}

/* ---- perspective --------------------------------------------------------------------- */

/* Solves 8 equations, with pivots; false: they have no single solution. */
static bool solve(double a[8][9], double x[8])
{
    for (int k = 0; k < 8; k++) {
        int best = k;
        for (int i = k + 1; i < 8; i++) best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        if (fabs(a[best][k]) < 1e-9) return false;
        for (int j = 0; j < 9; j++) {
            double v = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = v;
        }
        for (int i = 0; i < 8; i++) {
            double f = a[i][k] / a[k][k];
            for (int j = k; j < 9 && i != k; j++) a[i][j] -= f * a[k][j];
        }
    }
    for (int k = 0; k < 8; k++) x[k] = a[k][8] / a[k][k];
    return true;
}

bool ot_perspective(const double from[8], const double to[8], double m[9])
{
    double a[8][9] = { { 0 } };
    for (int i = 0; i < 4; i++) {
        double x = from[2 * i], y = from[2 * i + 1], u = to[2 * i], v = to[2 * i + 1];
        memcpy(a[2 * i], (double[9]){ x, y, 1, 0, 0, 0, -u * x, -u * y, u }, sizeof *a);
        memcpy(a[2 * i + 1], (double[9]){ 0, 0, 0, x, y, 1, -v * x, -v * y, v }, sizeof *a);
    }
    m[8] = 1;
    return solve(a, m);
}

/* v: distortion scale. */
void ot_run_perspective(const ot_change *s, ot_draws *d, ot_canvas *c)
{
    int64_t h = c->height, w = c->width;
    int64_t by = (int64_t)(s->v[0] * (double)(h / 2)) + 1, bx = (int64_t)(s->v[0] * (double)(w / 2)) + 1;
    double edge[8] = { 0, 0, (double)(w - 1), 0, (double)(w - 1), (double)(h - 1), 0, (double)(h - 1) }, to[8], m[9];
    for (int i = 0; i < 4; i++) { /* top left, top right, bottom right, bottom left */
        to[2 * i] = (double)((i == 1 || i == 2 ? w - bx : 0) + ot_draw_below(d, bx));
        to[2 * i + 1] = (double)((i > 1 ? h - by : 0) + ot_draw_below(d, by));
    }
    if (ot_perspective(to, edge, m)) ot_canvas_warp(c, m, (ot_resample)s->mode, s->fill);
}

/* ---- boxes --------------------------------------------------------------------------- */

static bool invert(const double m[9], double y[9])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int a = (j + 1) % 3, b = (j + 2) % 3, p = (i + 1) % 3, q = (i + 2) % 3;
            y[3 * i + j] = m[3 * a + p] * m[3 * b + q] - m[3 * a + q] * m[3 * b + p];
        }
    return fabs(m[0] * y[0] + m[1] * y[3] + m[2] * y[6]) > 1e-12;
}

static double within(double x, int64_t most) { return x<0 ? 0 : x>(double) most ? (double)most : x; }

bool ot_augment_box(const double matrix[9], int64_t height, int64_t width, const double from[4], double to[4])
{
    double m[9];
    if (!invert(matrix, m)) return false;
    for (int i = 0; i < 4; i++) {
        double x = from[i & 1 ? 2 : 0], y = from[i & 2 ? 3 : 1], z = m[6] * x + m[7] * y + m[8];
        double u = (m[0] * x + m[1] * y + m[2]) / z, v = (m[3] * x + m[4] * y + m[5]) / z;
        to[0] = i && to[0] < u ? to[0] : u;
        to[1] = i && to[1] < v ? to[1] : v;
        to[2] = i && to[2] > u ? to[2] : u;
        to[3] = i && to[3] > v ? to[3] : v;
    }
    for (int i = 0; i < 4; i++) to[i] = within(to[i], i & 1 ? height : width);
    return to[2] > to[0] && to[3] > to[1];
}
