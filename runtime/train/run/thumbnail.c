/* thumbnail.c - a sample as a small picture: its values scaled to bytes, shrunk by whole factors, as a PNG in a data: URI. */

#include "runtime/train/run/thumbnail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/picture/picture.h"

enum { SIDE = 96, LEAST = 4, LEAST_GREY = 8, MOST = 1 << 14 };

/* Where a sample's values are, and how many; false: it is not a picture. */
static bool geometry(const ot_feeder *f, ot_picture *g)
{
    const ot_shape *s = &f->sample;
    if (s->rank == 3 && (s->dim[0] == 1 || s->dim[0] == 3))
        *g = (ot_picture){ .h = s->dim[1], .w = s->dim[2], .c = s->dim[0] };
    else if (s->rank == 3 && (s->dim[2] == 1 || s->dim[2] == 3))
        *g = (ot_picture){ .h = s->dim[0], .w = s->dim[1], .c = s->dim[2], .channels_last = s->dim[2] > 1 };
    else if (s->rank == 2 && s->dim[0] >= LEAST_GREY && s->dim[1] >= LEAST_GREY)
        *g = (ot_picture){ .h = s->dim[0], .w = s->dim[1], .c = 1 };
    else return false;
    return true;
}

/* Bytes of pictures in the set, however the model takes them: flat, in other axes. */
static bool is_bytes(const ot_feeder *f, ot_picture *g)
{
    ot_feed_set set;
    if (!f->src->picture || !ot_feeder_set(f, 1, &set) || set.dtype != OT_U8) return false;
    if (f->redraw) *g = (ot_picture){ .h = f->to.h, .w = f->to.w, .c = f->to.c };
    else if (!ot_picture_of(f->src, g)) return false;
    if (f->src->source) g->channels_last = g->c > 1;
    return (g->c == 1 || g->c == 3) && set.elements == g->h * g->w * g->c;
}

static bool is_drawable(const ot_picture *g)
{
    return g->h >= LEAST && g->w >= LEAST && g->h <= MOST && g->w <= MOST && g->h * g->w <= 1 << 24;
}

/* Mean of the pixels that become (x, y) of channel c. */
static double mean_of(const void *v, ot_dtype type, const ot_picture *g, int64_t by, int64_t x, int64_t y, int64_t c)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = y * by; i < (y + 1) * by && i < g->h; i++)
        for (int64_t k = x * by; k < (x + 1) * by && k < g->w; k++, n++)
            sum += ot_get_f64(v, type, g->channels_last ? (i * g->w + k) * g->c + c : (c * g->h + i) * g->w + k);
    return n ? sum / (double)n : 0;
}

/* (height, width, channels) bytes. */
static uint8_t *shrink(const void *v, ot_dtype type, const ot_picture *g, int64_t *w, int64_t *h)
{
    int64_t longer = g->h > g->w ? g->h : g->w, by = (longer + SIDE - 1) / SIDE;
    *w = (g->w + by - 1) / by, *h = (g->h + by - 1) / by;
    double low = 0, high = 255;
    for (int64_t i = 0; type != OT_U8 && i < g->h * g->w * g->c; i++) {
        double one = ot_get_f64(v, type, i);
        if (!i || one < low) low = one;
        if (!i || one > high) high = one;
    }
    uint8_t *p = malloc((size_t)(*w * *h * g->c));
    for (int64_t y = 0; p && y < *h; y++)
        for (int64_t x = 0; x < *w; x++)
            for (int64_t c = 0; c < g->c; c++) {
                double one = (mean_of(v, type, g, by, x, y, c) - low) / (high - low) * 255;
                p[(y * *w + x) * g->c + c] = !(one > 0) ? 0 : one > 255 ? 255 : (uint8_t)(one + 0.5);
            }
    return p;
}

static char *base64(const char *head, const uint8_t *p, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = strlen(head);
    char *text = malloc(at + (n + 2) / 3 * 4 + 1);
    if (!text) return NULL;
    memcpy(text, head, at);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0u);
        for (int k = 0; k < 4; k++) text[at++] = i + (size_t)k > n ? '=' : digit[v >> (18 - 6 * k) & 63];
    }
    text[at] = '\0';
    return text;
}

ot_status ot_thumbnail(ot_feeder *f, int64_t index, int threads, char **out, ot_error *err)
{
    ot_picture g = { 0 };
    int64_t w = 0, h = 0;
    *out = NULL;
    if (f->whole || f->dtype == OT_STRING || ot_dtype_bits(f->dtype) < 8) return OT_OK;
    bool bytes = is_bytes(f, &g);
    if ((!bytes && !geometry(f, &g)) || !is_drawable(&g)) return OT_OK;
    uint8_t *raw = bytes ? malloc((size_t)(g.h * g.w * g.c)) : NULL, *p = NULL, *png = NULL;
    size_t n = 0;
    ot_status taken = OT_OK;
    if (raw) taken = ot_feeder_take_raw(f, &index, 1, OT_NOT_AUGMENTED, raw, threads, err);
    if (!bytes) taken = ot_feeder_take(f, &index, 1, OT_NOT_AUGMENTED, f->buffer, threads, err);
    if (taken) {
        free(raw);
        return taken;
    }
    if (raw || !bytes) p = shrink(bytes ? raw : f->buffer, bytes ? OT_U8 : f->dtype, &g, &w, &h);
    ot_status s = p ? ot_picture_png(p, w, h, (int)g.c, &png, &n, err)
                    : ot_fail(err, OT_E_NOMEM, "no memory for a sample's image");
    if (!s && !(*out = base64("data:image/png;base64,", png, n)))
        s = ot_fail(err, OT_E_NOMEM, "no memory for a sample's image");
    free(raw);
    free(p);
    free(png);
    return s;
}
