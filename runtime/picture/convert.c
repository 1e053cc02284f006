/* convert.c - converts pixels to bytes of one, three or four channels, and applies the orientation. */
#include "runtime/picture/internal.h"

#include <stdlib.h>
#include <string.h>

static uint8_t sample(const ot_pixels *p, int64_t i)
{
    return p->bits == 16 ? (uint8_t)(((const uint16_t *)p->data)[i] >> 8) : ((const uint8_t *)p->data)[i];
}

static uint8_t luma(uint8_t r, uint8_t g, uint8_t b)
{
    return (uint8_t)((r * 19595u + g * 38470u + b * 7471u + 0x8000u) >> 16);
}

ot_status ot_pixels_to_bytes(ot_pixels *p, int channels, ot_error *err)
{
    int64_t pixels = p->height * p->width;
    bool grey = p->channels < 3;
    if (p->bits == 8 && p->channels == channels) return OT_OK;
    uint8_t *to = malloc((size_t)(pixels * channels));
    if (!to)
        return ot_fail(err, OT_E_NOMEM, "%s: no memory for %lld x %lld pixels", p->format, (long long)p->width,
                       (long long)p->height);
    for (int64_t i = 0; i < pixels; i++) {
        int64_t at = i * p->channels;
        uint8_t r = sample(p, at), g = grey ? r : sample(p, at + 1), b = grey ? r : sample(p, at + 2);
        uint8_t *q = to + i * channels;
        *q = channels > 1 || grey ? r : luma(r, g, b);
        if (channels > 1) q[1] = g, q[2] = b;
        if (channels > 3) q[3] = p->channels % 2 ? UINT8_MAX : sample(p, at + p->channels - 1);
    }
    free(p->data);
    p->data = to;
    p->channels = channels;
    p->bits = 8;
    return OT_OK;
}

ot_status ot_pixels_turn(ot_pixels *p, ot_error *err)
{
    int64_t H = p->height, W = p->width, size = p->channels * (p->bits / 8);
    int o = p->orientation;
    bool across = o >= 5, flip_y = o == 3 || o == 4 || o == 6 || o == 7, flip_x = o == 2 || o == 3 || o == 7 || o == 8;
    if (o == 1) return OT_OK;
    char *to = malloc((size_t)(H * W * size)), *at = to;
    if (!to)
        return ot_fail(err, OT_E_NOMEM, "%s: no memory for %lld x %lld pixels", p->format, (long long)W, (long long)H);
    p->height = across ? W : H;
    p->width = across ? H : W;
    for (int64_t y = 0; y < p->height; y++) {
        for (int64_t x = 0; x < p->width; x++, at += size) {
            int64_t sy = across ? x : y, sx = across ? y : x;
            sy = flip_y ? H - 1 - sy : sy;
            sx = flip_x ? W - 1 - sx : sx;
            memcpy(at, (const char *)p->data + (sy * W + sx) * size, (size_t)size);
        }
    }
    free(p->data);
    p->data = to;
    p->orientation = 1;
    return OT_OK;
}

static uint8_t multiply(uint32_t a, uint32_t b)
{
    uint32_t t = a * b + 128;
    return (uint8_t)(((t >> 8) + t) >> 8);
}

void ot_cmyk_to_rgb(const uint8_t cmyk[4], uint8_t rgb[3])
{
    uint8_t light = (uint8_t)(255 - cmyk[3]);
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(light - multiply(cmyk[c], light));
}
