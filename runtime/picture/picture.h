/* picture.h - decodes images in memory to pixels.
 *
 * JPEG, PNG, WebP, BMP, PBM/PGM/PPM/PAM; TIFF and JPEG 2000 if the build found their libraries.  A format is
 * recognised by its first bytes, not by file names.  Values equal Pillow's, within one grey level where formats
 * leave a choice.
 *
 * Errors  OT_E_DATA: unknown format, format not in this build (its package is named), malformed, truncated, or
 *         larger than the caller allows.  OT_E_NOMEM.  Messages begin with the format ("JPEG: ..."); the caller adds
 *         the file.
 * Memory  sizes in a header are compared with `most` before memory is allocated for them; besides the result a
 *         decoder uses a few times as much. */
#ifndef OT_PICTURE_H
#define OT_PICTURE_H

#include "runtime/base/base.h"

typedef struct ot_pixels {
    const char *format;    /* "JPEG" */
    int64_t height, width; /* as stored in the file */
    int channels;          /* 1: grey · 2: grey, alpha · 3: R, G, B · 4: R, G, B, alpha */
    int bits;              /* 8: uint8_t · 16: uint16_t, of which 65535 is white */
    int orientation;       /* EXIF's: how the image must be rotated (ot_pixels_turn); 1: not at all */
    void *data;            /* (height, width, channels), malloc'ed */
} ot_pixels;

/* Reads everything except the pixels, from the header; out->data is NULL. */
ot_status ot_picture_size(const void *bytes, size_t n, ot_pixels *out, ot_error *err);

/* The first picture of a file.  Palettes become colours, CMYK becomes RGB, fewer than 8 bits become 8, 9 to 15 become
 * 16; a colour marked as transparent stays a colour.  Refuses more than `most` pixels.  The caller frees out. */
ot_status ot_picture_decode(const void *bytes, size_t n, int64_t most, ot_pixels *out, ot_error *err);

/* The first picture of a PNG as numbers, 8 bits, 1 channel: indices of its palette, or grey values as they are stored (a bit is 0 or 1);
 * colours only where all three are equal.  Otherwise as ot_picture_decode.  Errors: also OT_E_DATA for other formats and colours. */
ot_status ot_picture_numbers(const void *bytes, size_t n, int64_t most, ot_pixels *out, ot_error *err);

/* If the format is known but not in this build: the Debian package that provides it; else NULL. */
const char *ot_picture_missing(const void *bytes, size_t n);

/* Name of format i, NULL after the last; *missing: the package that this build lacks, or NULL. */
const char *ot_picture_format(int i, const char **missing);

/* Converts to bytes and to 1 channel (ITU-R 601 luma) or 3, without alpha, or 4; without transparency alpha is 255.  Errors: OT_E_NOMEM; p is unchanged. */
ot_status ot_pixels_to_bytes(ot_pixels *p, int channels, ot_error *err);

/* Rotates and mirrors the pixels by p->orientation, which becomes 1.  Errors: OT_E_NOMEM; p is unchanged. */
ot_status ot_pixels_turn(ot_pixels *p, ot_error *err);

/* The bytes of a PNG file, malloc'ed: pixels (height, width, channels), of 1 channel (grey) or 3; channels 0: class
 * numbers, with a palette.  Errors: OT_E_NOMEM. */
ot_status ot_picture_png(const uint8_t *pixels, int64_t width, int64_t height, int channels, uint8_t **out, size_t *n,
                         ot_error *err);

void ot_pixels_free(ot_pixels *p); /* frees p->data and sets it to NULL */

#endif
