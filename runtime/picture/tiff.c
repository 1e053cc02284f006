/* tiff.c - TIFF through libtiff: the first picture, in strips or tiles.
 *
 * Grey, RGB, palettes and CMYK of integers are read here, 16 bits in full; other kinds (YCbCr, Lab, ...) libtiff
 * converts to RGB.  Error handlers belong to the open file: no global state is changed. */
#ifdef OT_HAVE_TIFF

#include "runtime/picture/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

enum { MOST_AT_ONCE = 64 << 20 }; /* limit on the bytes of a tag's value, unless the pixels need more */
enum { MOST_TILE = 1 << 20 };     /* pixels of a tile that may exceed the image */

typedef enum kind { PLAIN, PALETTE, INKS, SHOWN } kind;

typedef struct tiff {
    TIFF *t;
    ot_reading *r;
    uint64_t at;
    char said[200]; /* libtiff's first error message */
    bool strict;    /* treat warnings as errors */
    kind kind;
    uint32_t width, height;
    uint16_t bits, samples, planar, *colour[3];
    bool white;        /* 0 is white */
    int premultiplied; /* the alpha channel that the others are multiplied by; 0: none */
} tiff;

/* ---- the file -------------------------------------------------------------- */

static tmsize_t read_bytes(thandle_t h, void *to, tmsize_t n)
{
    tiff *f = h;
    uint64_t left = f->at < f->r->n ? f->r->n - f->at : 0;
    if (n < 0) return 0;
    if ((uint64_t)n > left) n = (tmsize_t)left;
    if (n) memcpy(to, f->r->p + f->at, (size_t)n);
    f->at += (uint64_t)n;
    return n;
}

static tmsize_t write_bytes(thandle_t h, void *from, tmsize_t n)
{
    (void)h, (void)from, (void)n;
    return 0;
}

static toff_t seek(thandle_t h, toff_t to, int whence)
{
    tiff *f = h;
    return f->at = whence == SEEK_SET ? to : whence == SEEK_CUR ? f->at + to : f->r->n + to;
}

static int close_nothing(thandle_t h)
{
    (void)h;
    return 0;
}

static toff_t size_of(thandle_t h) { return ((tiff *)h)->r->n; }

static int complain(TIFF *t, void *user, const char *module, const char *fmt, va_list ap)
{
    tiff *f = user;
    (void)t, (void)module;
    if (!f->said[0]) (void)ot_vtext(f->said, sizeof f->said, fmt, ap);
    return 1;
}

static int warn(TIFF *t, void *user, const char *module, const char *fmt, va_list ap)
{
    return ((tiff *)user)->strict ? complain(t, user, module, fmt, ap) : 1;
}

static TIFF *open_with(tiff *f)
{
    TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
    int64_t most = f->r->most, bytes;
    if (!o) return NULL;
    if (!ot_mul(most, 8, &bytes) || bytes < MOST_AT_ONCE) bytes = MOST_AT_ONCE;
    TIFFOpenOptionsSetMaxSingleMemAlloc(o, (tmsize_t)bytes);
    TIFFOpenOptionsSetErrorHandlerExtR(o, complain, f);
    TIFFOpenOptionsSetWarningHandlerExtR(o, warn, f);
    TIFF *t = TIFFClientOpenExt("", "rm", f, read_bytes, write_bytes, seek, close_nothing, size_of, NULL, NULL, o);
    TIFFOpenOptionsFree(o);
    return t;
}

static ot_status failed(const tiff *f, const char *where)
{
    return ot_picture_bad(f->r, "%s%s%s", where, f->said[0] ? ": " : "", f->said);
}

/* ---- what is in it ------------------------------------------------------------ */

/* Is there alpha after the colours?  *premultiplied: they are multiplied by it. */
static bool has_alpha(const tiff *f, int colours, bool *premultiplied)
{
    uint16_t n = 0, *what = NULL;
    *premultiplied = false;
    if (f->samples <= colours || !TIFFGetField(f->t, TIFFTAG_EXTRASAMPLES, &n, &what) || !n) return false;
    *premultiplied = what[0] == EXTRASAMPLE_ASSOCALPHA;
    return *premultiplied || what[0] == EXTRASAMPLE_UNASSALPHA;
}

static ot_status look(tiff *f, int *channels)
{
    uint16_t format, compression, photometric, orientation, ink = INKSET_CMYK;
    bool premultiplied = false, few, colour;
    if (!TIFFGetField(f->t, TIFFTAG_IMAGEWIDTH, &f->width) || !TIFFGetField(f->t, TIFFTAG_IMAGELENGTH, &f->height))
        return failed(f, "it has no size");
    TIFFGetFieldDefaulted(f->t, TIFFTAG_BITSPERSAMPLE, &f->bits);
    TIFFGetFieldDefaulted(f->t, TIFFTAG_SAMPLESPERPIXEL, &f->samples);
    TIFFGetFieldDefaulted(f->t, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted(f->t, TIFFTAG_PLANARCONFIG, &f->planar);
    TIFFGetFieldDefaulted(f->t, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted(f->t, TIFFTAG_ORIENTATION, &orientation);
    TIFFGetFieldDefaulted(f->t, TIFFTAG_INKSET, &ink);
    if (!TIFFGetField(f->t, TIFFTAG_PHOTOMETRIC, &photometric))
        photometric = f->samples < 3 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB;
    f->r->out->orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
        return ot_picture_bad(f->r, "the samples are not unsigned "
                                    "integers");
    if (f->bits > 16) return ot_picture_bad(f->r, "%u bits per sample; supported are 1 to 16", f->bits);
    if (photometric == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG && f->planar == PLANARCONFIG_CONTIG) {
        TIFFSetField(f->t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        photometric = PHOTOMETRIC_RGB;
    }
    f->strict = compression == COMPRESSION_JPEG; /* as in jpeg.c: lost pixels; other warnings are harmless */
    few = f->bits == 1 || f->bits == 2 || f->bits == 4 || f->bits == 8;
    colour = photometric == PHOTOMETRIC_RGB;
    f->white = photometric == PHOTOMETRIC_MINISWHITE;
    f->kind = SHOWN;
    *channels = 3;
    if (colour ? f->samples >= 3 && (f->bits == 8 || f->bits == 16)
               : (f->white || photometric == PHOTOMETRIC_MINISBLACK) && f->samples >= 1 && (few || f->bits == 16)) {
        f->kind = PLAIN;
        *channels = (colour ? 3 : 1) + has_alpha(f, colour ? 3 : 1, &premultiplied);
        f->premultiplied = premultiplied ? *channels - 1 : 0;
    } else if (photometric == PHOTOMETRIC_PALETTE && few && f->samples == 1) {
        f->kind = PALETTE;
        if (!TIFFGetField(f->t, TIFFTAG_COLORMAP, &f->colour[0], &f->colour[1], &f->colour[2]))
            return failed(f, "the palette is missing");
    } else if (photometric == PHOTOMETRIC_SEPARATED && ink == INKSET_CMYK && f->samples >= 4 && f->bits == 8 &&
               f->planar == PLANARCONFIG_CONTIG) {
        f->kind = INKS;
    }
    return OT_OK;
}

/* ---- pixels ------------------------------------------------------------------ */

static unsigned sample(const tiff *f, const uint8_t *row, uint64_t i)
{
    if (f->bits == 16) return ((const uint16_t *)(const void *)row)[i];
    if (f->bits == 8) return row[i];
    return (unsigned)row[i * f->bits / 8] >> (8 - f->bits - i * f->bits % 8) & ((1u << f->bits) - 1);
}

static void put(const tiff *f, uint64_t pixel, int c, unsigned v)
{
    const ot_pixels *o = f->r->out;
    uint64_t at = pixel * (uint64_t)o->channels + (uint64_t)c;
    if (o->bits == 16) ((uint16_t *)o->data)[at] = (uint16_t)v;
    else ((uint8_t *)o->data)[at] = (uint8_t)v;
}

/* Copies pixel x of a row of a block to `pixel` of the image; plane: the channel of separate planes, else -1. */
static void put_pixel(const tiff *f, const uint8_t *row, uint64_t x, int plane, uint64_t pixel)
{
    unsigned most = (1u << f->bits) - 1, full = f->bits == 16 ? 65535 : 255;
    uint8_t inks[4], rgb[3];
    int n = f->r->out->channels;
    if (f->kind == PALETTE) {
        for (int c = 0; c < 3; c++) put(f, pixel, c, f->colour[c][sample(f, row, x)] >> 8);
    } else if (f->kind == INKS) {
        for (int c = 0; c < 4; c++) inks[c] = (uint8_t)sample(f, row, x * f->samples + (uint64_t)c);
        ot_cmyk_to_rgb(inks, rgb);
        for (int c = 0; c < 3; c++) put(f, pixel, c, rgb[c]);
    } else {
        for (int c = plane < 0 ? 0 : plane; c < n && (plane < 0 || c == plane); c++) {
            unsigned v = sample(f, row, plane < 0 ? x * f->samples + (uint64_t)c : x);
            put(f, pixel, c, (f->white && c == 0 ? most - v : v) * full / most);
        }
    }
}

static ot_status read_blocks(const tiff *f, uint8_t *block, uint64_t size, bool tiled, uint32_t bw, uint32_t bh)
{
    bool apart = f->planar == PLANARCONFIG_SEPARATE && f->samples > 1;
    uint64_t row = tiled ? TIFFTileRowSize64(f->t) : TIFFScanlineSize64(f->t);
    int planes = apart ? f->r->out->channels : 1;
    if ((uint64_t)bw * (apart ? 1 : f->samples) * f->bits > row * 8 || row * bh > size)
        return ot_picture_bad(f->r, "the blocks differ in size from the "
                                    "header");
    for (int p = 0; p < planes; p++) {
        for (uint32_t y0 = 0; y0 < f->height; y0 += bh) {
            for (uint32_t x0 = 0; x0 < f->width; x0 += bw) {
                uint32_t rows = f->height - y0 < bh ? f->height - y0 : bh,
                         columns = f->width - x0 < bw ? f->width - x0 : bw;
                tmsize_t need = (tmsize_t)(tiled ? size : row * rows);
                tmsize_t got =
                    tiled ? TIFFReadEncodedTile(f->t, TIFFComputeTile(f->t, x0, y0, 0, (uint16_t)p), block, need)
                          : TIFFReadEncodedStrip(f->t, TIFFComputeStrip(f->t, y0, (uint16_t)p), block, need);
                if (got < need || f->said[0]) {
                    char where[96];
                    snprintf(where, sizeof where, "the pixels from row %u, column %u cannot be read", y0, x0);
                    return failed(f, where);
                }
                for (uint32_t y = 0; y < rows; y++)
                    for (uint32_t x = 0; x < columns; x++)
                        put_pixel(f, block + y * row, x, apart ? p : -1, (uint64_t)(y0 + y) * f->width + x0 + x);
            }
        }
    }
    return OT_OK;
}

/* Undoes the multiplication of the colours by alpha, the last channel. */
static void divide(const ot_pixels *o, int alpha)
{
    unsigned full = o->bits == 16 ? 65535 : 255;
    for (int64_t i = 0; i < o->width * o->height; i++) {
        for (int c = 0; c < alpha; c++) {
            int64_t at = i * o->channels, v;
            unsigned a = full == 255 ? ((uint8_t *)o->data)[at + alpha] : ((uint16_t *)o->data)[at + alpha];
            v = full == 255 ? ((uint8_t *)o->data)[at + c] : ((uint16_t *)o->data)[at + c];
            v = a ? v * full / a : 0;
            v = v > full ? full : v;
            if (full == 255) ((uint8_t *)o->data)[at + c] = (uint8_t)v;
            else ((uint16_t *)o->data)[at + c] = (uint16_t)v;
        }
    }
}

static ot_status read_samples(tiff *f)
{
    bool tiled = TIFFIsTiled(f->t);
    uint32_t bw = f->width, bh = f->height;
    if (tiled && (!TIFFGetField(f->t, TIFFTAG_TILEWIDTH, &bw) || !TIFFGetField(f->t, TIFFTAG_TILELENGTH, &bh)))
        return failed(f, "the tiles have no size");
    if (!tiled) TIFFGetFieldDefaulted(f->t, TIFFTAG_ROWSPERSTRIP, &bh);
    if (!tiled && bh > f->height) bh = f->height;
    uint64_t size = tiled ? TIFFTileSize64(f->t) : TIFFVStripSize64(f->t, bh);
    if (!bw || !bh || (uint64_t)bw * bh > (uint64_t)f->r->most + MOST_TILE || size / 64 > (uint64_t)bw * bh)
        return ot_picture_bad(f->r, "the tiles have %u x %u pixels", bw, bh);
    uint8_t *block = calloc(1, size ? size : 1);
    ot_status s = block ? read_blocks(f, block, size, tiled, bw, bh) : ot_picture_no_memory(f->r);
    free(block);
    if (s == OT_OK && f->premultiplied) divide(f->r->out, f->premultiplied);
    return s;
}

static ot_status read_shown(const tiff *f)
{
    char why[1024] = "";
    uint8_t *to = f->r->out->data;
    size_t n = (size_t)f->width * f->height;
    if (!TIFFRGBAImageOK(f->t, why)) return ot_picture_bad(f->r, "%s", why);
    uint32_t *all = calloc(n, sizeof *all);
    if (!all) return ot_picture_no_memory(f->r);
    /* Unrotated: requests the file's own orientation from libtiff. */
    bool good = TIFFReadRGBAImageOriented(f->t, f->width, f->height, all, f->r->out->orientation, 1) && !f->said[0];
    for (size_t i = 0; i < n && good; i++) {
        to[3 * i] = (uint8_t)TIFFGetR(all[i]);
        to[3 * i + 1] = (uint8_t)TIFFGetG(all[i]);
        to[3 * i + 2] = (uint8_t)TIFFGetB(all[i]);
    }
    free(all);
    return good ? OT_OK : failed(f, "the pixels cannot be read");
}

static ot_status read_open(tiff *f)
{
    int channels = 3;
    OT_TRY(look(f, &channels));
    OT_TRY(ot_picture_begin(f->r, f->width, f->height, channels, f->kind == PLAIN && f->bits == 16 ? 16 : 8));
    if (!f->r->out->data) return OT_OK;
    f->said[0] = 0; /* opened successfully despite a warning */
    return f->kind == SHOWN ? read_shown(f) : read_samples(f);
}

ot_status ot_tiff_read(ot_reading *r)
{
    tiff f = { .r = r };
    f.t = open_with(&f);
    if (!f.t) return failed(&f, "it cannot be opened");
    ot_status s = read_open(&f);
    TIFFClose(f.t);
    return s;
}

#else
typedef int ot_tiff_is_not_built;
#endif
