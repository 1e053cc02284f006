/* image_resize.c - pictures of another size or number of channels than the model wants.
 *
 * Spec    a few missing pixels (at most an eighth of the wanted side, on both axes) are zeros
 * around the picture, as LeNet-5 has its digits; else bilinear, pixel centres aligned (half_pixel),
 * edges repeated.  Colour to grey: 0.299 R + 0.587 G + 0.114 B. */

#include <math.h>

#include "runtime/train/feed/bind_inputs.h"

bool ot_is_pad(const ot_picture *from, const ot_picture *to)
{
    int64_t dh = to->h - from->h, dw = to->w - from->w;
    return dh >= 0 && dw >= 0 && dh * 8 <= to->h && dw * 8 <= to->w;
}

static double pixel(const uint8_t *x, const ot_picture *p, int64_t c, int64_t i, int64_t j)
{
    return p->channels_last ? x[(i * p->w + j) * p->c + c] : x[(c * p->h + i) * p->w + j];
}

/* Channel c of the result at a position of the source. */
static double colour(const uint8_t *x, const ot_picture *from, const ot_picture *to, int64_t c, int64_t i, int64_t j)
{
    if (from->c == to->c) return pixel(x, from, c, i, j);
    if (from->c == 1) return pixel(x, from, 0, i, j);
    return 0.299 * pixel(x, from, 0, i, j) + 0.587 * pixel(x, from, 1, i, j) + 0.114 * pixel(x, from, 2, i, j);
}

static int64_t within(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

static uint8_t resized(const uint8_t *x, const ot_picture *from, const ot_picture *to, int64_t c, int64_t i, int64_t j)
{
    double y = ((double)i + 0.5) * (double)from->h / (double)to->h - 0.5;
    double z = ((double)j + 0.5) * (double)from->w / (double)to->w - 0.5;
    int64_t i0 = (int64_t)floor(y), j0 = (int64_t)floor(z);
    double a = y - (double)i0, b = z - (double)j0;
    int64_t i1 = within(i0 + 1, from->h), j1 = within(j0 + 1, from->w);
    i0 = within(i0, from->h);
    j0 = within(j0, from->w);
    double v = (1 - a) * ((1 - b) * colour(x, from, to, c, i0, j0) + b * colour(x, from, to, c, i0, j1)) +
               a * ((1 - b) * colour(x, from, to, c, i1, j0) + b * colour(x, from, to, c, i1, j1));
    return (uint8_t)(v + 0.5);
}

void ot_redraw(const uint8_t *x, const ot_picture *from, const ot_picture *to, uint8_t *y)
{
    bool pad = ot_is_pad(from, to);
    int64_t top = (to->h - from->h) / 2, left = (to->w - from->w) / 2;
    for (int64_t c = 0; c < to->c; c++)
        for (int64_t i = 0; i < to->h; i++)
            for (int64_t j = 0; j < to->w; j++) {
                int64_t u = i - top, v = j - left;
                bool inside = u >= 0 && u < from->h && v >= 0 && v < from->w;
                *y++ = !pad     ? resized(x, from, to, c, i, j)
                       : inside ? (uint8_t)(colour(x, from, to, c, u, v) + 0.5)
                                : 0;
            }
}
