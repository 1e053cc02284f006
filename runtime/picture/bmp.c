/* bmp.c - BMP: the headers of OS/2 and of Windows to version 5; palettes, 16 to 32 bits, masks, runs.
 *
 * Spec  Microsoft: BITMAPFILEHEADER, BITMAPCOREHEADER, BITMAPINFOHEADER … BITMAPV5HEADER; little-endian, rows of whole
 *       32-bit words, the lowest row first unless the height is negative.  Pixels that runs skip have colour 0. */
#include "runtime/picture/internal.h"

#include <string.h>

enum { RGB = 0, RLE8 = 1, RLE4 = 2, FIELDS = 3, ALPHA_FIELDS = 6 };

typedef struct bmp {
    ot_reading *r;
    int64_t width, height;
    bool down; /* the first row is the uppermost */
    int bits, how;
    uint32_t mask[4]; /* R, G, B, alpha */
    const uint8_t *palette;
    int colours, each; /* of the palette; bytes of an entry */
    size_t at;         /* the pixels */
} bmp;

static ot_status read_palette(bmp *b, size_t at, uint32_t claimed)
{
    size_t there = b->r->n > at ? (b->r->n - at) / (size_t)b->each : 0, most = (size_t)1 << b->bits;
    size_t n = claimed && claimed < most ? claimed : most;
    if (b->at > at && (b->at - at) / (size_t)b->each < n)
        n = (b->at - at) / (size_t)b->each; /* the pixels would begin earlier */
    if (!n || n > there) return ot_picture_bad(b->r, "truncated after %zu bytes, in the palette", b->r->n);
    b->palette = b->r->p + at;
    b->colours = (int)n;
    return OT_OK;
}

static ot_status check_masks(bmp *b)
{
    for (int c = 0; c < 4; c++) {
        uint32_t m = b->mask[c], low = m & (~m + 1);
        bool gap = m && ((m / low) & (m / low + 1)) != 0;
        if (gap || (!m && c < 3) || (b->bits == 16 && m >> 16))
            return ot_picture_bad(b->r,
                                  "the colour mask %08x is not a single "
                                  "run of bits",
                                  m);
    }
    return OT_OK;
}

/* Masks: after the header of 40 bytes, or in longer headers. */
static ot_status read_masks(bmp *b, uint32_t header)
{
    size_t at = 14 + 40, n = header >= 56 || b->how == ALPHA_FIELDS ? 4 : 3;
    if (b->how == RGB) {
        memcpy(b->mask, b->bits == 16 ? (uint32_t[4]){ 0x7c00, 0x3e0, 0x1f } : (uint32_t[4]){ 0xff0000, 0xff00, 0xff },
               sizeof b->mask);
        return OT_OK;
    }
    if (b->r->n < at + 4 * n) return ot_picture_bad(b->r, "truncated after %zu bytes, in the header", b->r->n);
    for (size_t c = 0; c < n; c++) b->mask[c] = ot_le32(b->r->p + at + 4 * c);
    return check_masks(b);
}

static ot_status read_header(bmp *b)
{
    const uint8_t *p = b->r->p;
    size_t n = b->r->n;
    if (n < 26) return ot_picture_bad(b->r, "truncated after %zu bytes, in the header", n);
    uint32_t header = ot_le32(p + 14), colours = 0;
    bool old = header == 12;
    b->at = ot_le32(p + 10);
    b->each = old ? 3 : 4;
    if (!old && (header < 40 || header > 124)) return ot_picture_bad(b->r, "unsupported header of %u bytes", header);
    if (n < 14 + (size_t)header) return ot_picture_bad(b->r, "truncated after %zu bytes, in the header", n);
    b->width = old ? (int64_t)ot_le16(p + 18) : (int32_t)ot_le32(p + 18);
    b->height = old ? (int64_t)ot_le16(p + 20) : (int32_t)ot_le32(p + 22);
    b->bits = (int)ot_le16(p + (old ? 24 : 28));
    b->how = old ? RGB : (int)(ot_le32(p + 30) & 0xff);
    if (!old && ot_le32(p + 30) > 0xff) b->how = -1;
    if (!old) colours = ot_le32(p + 46);
    b->down = b->height < 0;
    if (b->down) b->height = -b->height;
    bool few = b->bits == 1 || b->bits == 2 || b->bits == 4 || b->bits == 8, wide = b->bits == 16 || b->bits == 32;
    bool known = b->how == RGB    ? few || wide || b->bits == 24
                 : b->how == RLE8 ? b->bits == 8
                 : b->how == RLE4 ? b->bits == 4
                                  : (b->how == FIELDS || b->how == ALPHA_FIELDS) && wide;
    if (!known) return ot_picture_bad(b->r, "%d bits per pixel with compression %d are not supported", b->bits, b->how);
    if (few) return read_palette(b, 14 + header, colours);
    return wide ? read_masks(b, header) : OT_OK;
}

static uint8_t *row_of(const bmp *b, int64_t y)
{
    return (uint8_t *)b->r->out->data + (b->down ? y : b->height - 1 - y) * b->width * b->r->out->channels;
}

/* Palette entries are B, G, R; a missing one is black, as in other readers. */
static void put_colour(const bmp *b, uint8_t *to, int index)
{
    const uint8_t *e = b->palette + index * b->each;
    bool there = index < b->colours;
    for (int c = 0; c < 3; c++) to[c] = there ? e[2 - c] : 0;
}

static uint8_t field(uint32_t v, uint32_t mask)
{
    uint32_t low = mask & (~mask + 1), most = mask / low;
    return (uint8_t)(((uint64_t)((v & mask) / low) * 255 + most / 2) / most);
}

static void plain_row(const bmp *b, const uint8_t *p, uint8_t *to)
{
    int channels = b->r->out->channels, n = b->bits;
    for (int64_t x = 0; x < b->width; x++, to += channels) {
        if (n <= 8) put_colour(b, to, p[x * n / 8] >> (8 - n - x * n % 8) & ((1 << n) - 1));
        else if (n == 24)
            for (int c = 0; c < 3; c++) to[c] = p[3 * x + 2 - c];
        else
            for (int c = 0; c < channels; c++)
                to[c] = field(n == 16 ? ot_le16(p + 2 * x) : ot_le32(p + 4 * x), b->mask[c]);
    }
}

static ot_status read_plain(const bmp *b)
{
    const ot_reading *r = b->r;
    int64_t stride = (b->width * b->bits + 31) / 32 * 4;
    for (int64_t y = 0; y < b->height; y++) plain_row(b, r->p + b->at + y * stride, row_of(b, y));
    return OT_OK;
}

/* Runs: (n, colour), or 0 and: 0 end of row · 1 end of image · 2 a move · n literal pixels, padded to a whole word. */
static ot_status read_runs(const bmp *b)
{
    const uint8_t *p = b->r->p;
    size_t n = b->r->n, at = b->at;
    int64_t x = 0, y = 0;
    bool half = b->how == RLE4;
    for (uint8_t *row = (uint8_t *)b->r->out->data, *end = row + b->width * b->height * 3; row < end; row += 3)
        put_colour(b, row, 0);
    for (;;) {
        if (n - at < 2)
            return ot_picture_bad(b->r, "truncated after %zu bytes, in row %lld of %lld", n, (long long)y,
                                  (long long)b->height);
        int count = p[at], second = p[at + 1];
        bool plain = !count && second > 2;
        at += 2;
        if (!count && second == 1) return OT_OK;
        if (!count && second == 0) {
            x = 0;
            y++;
            continue;
        }
        size_t bytes = plain ? (size_t)(half ? (second + 1) / 2 : second) : 0,
               taken = !count && second == 2 ? 2 : bytes + (bytes & 1);
        if (n - at < taken)
            return ot_picture_bad(b->r, "truncated after %zu bytes, in row %lld of %lld", n, (long long)y,
                                  (long long)b->height);
        if (!count && second == 2) {
            x += p[at];
            y += p[at + 1];
        }
        int run = count ? count : plain ? second : 0;
        if (run && (y >= b->height || x + run > b->width))
            return ot_picture_bad(b->r, "a run goes beyond row %lld", (long long)y);
        for (int i = 0; i < run; i++, x++) {
            int v = plain ? p[at + (size_t)(half ? i / 2 : i)] : second;
            put_colour(b, row_of(b, y) + 3 * x, !half ? v : i % 2 ? v & 15 : v >> 4);
        }
        at += taken;
    }
}

ot_status ot_bmp_read(ot_reading *r)
{
    bmp b = { .r = r };
    OT_TRY(read_header(&b));
    bool runs = b.how == RLE8 || b.how == RLE4;
    int64_t stride = (b.width * b.bits + 31) / 32 * 4, most;
    if (b.width > 0 && b.height > 0 &&
        (!ot_mul(stride, b.height, &most) || b.at > r->n || (!runs && (uint64_t)most > r->n - b.at)))
        return ot_picture_bad(r, "truncated after %zu bytes, before the end of %lld x %lld pixels", r->n,
                              (long long)b.width, (long long)b.height);
    OT_TRY(ot_picture_begin(r, b.width, b.height, b.mask[3] ? 4 : 3, 8));
    if (!r->out->data) return OT_OK;
    return runs ? read_runs(&b) : read_plain(&b);
}
