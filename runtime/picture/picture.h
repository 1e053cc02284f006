/* picture.h - pictures in memory: the bytes of a file to pixels.
 *
 * JPEG, PNG, WebP, BMP, PBM/PGM/PPM/PAM; TIFF and JPEG 2000 where the build found their libraries.  A format is known by
 * its first bytes; names of files play no part.  Values are those of Pillow, to a grey level where formats leave a choice.
 *
 * Errors  OT_E_DATA: of no known format, of one the build is without (its package is named), malformed, cut, or larger than
 *         the caller allows.  OT_E_NOMEM.  Texts begin with the format ("JPEG: ..."); the caller knows the file.
 * Memory  what a header claims is held against `most` before anything is made for it; beside the result a decoder takes
 *         a few times as much. */
#ifndef OT_PICTURE_H
#define OT_PICTURE_H

#include "runtime/base/base.h"

typedef struct ot_pixels {
    const char *format;    /* "JPEG" */
    int64_t height, width; /* as it lies in the file */
    int channels;          /* 1: grey · 2: grey, alpha · 3: R, G, B · 4: R, G, B, alpha */
    int bits;              /* 8: uint8_t · 16: uint16_t, of which 65535 is white */
    int orientation;       /* EXIF's: how it is to be turned (ot_pixels_turn); 1: it stands upright */
    void *data;            /* (height, width, channels), malloc'ed */
} ot_pixels;

/* All but the pixels, from the header; out->data is NULL. */
ot_status ot_picture_size(const void *bytes, size_t n, ot_pixels *out, ot_error *err);

/* The first picture of a file.  Palettes become colours, CMYK becomes RGB, fewer than 8 bits become 8, 9 to 15 become 16; a
 * colour that stands for transparency is a colour.  Refuses more than `most` pixels.  The caller frees out. */
ot_status ot_picture_decode(const void *bytes, size_t n, int64_t most, ot_pixels *out, ot_error *err);

/* The format is known and the build is without it: the Debian package that brings it.  NULL: it is not so. */
const char *ot_picture_missing(const void *bytes, size_t n);

/* Name of format i, NULL behind the last; *missing: the package that this build is without, or NULL. */
const char *ot_picture_format(int i, const char **missing);

/* To bytes and to 1 channel (ITU-R 601 luma) or 3, without alpha, which is dropped.  Errors: OT_E_NOMEM; p stays whole. */
ot_status ot_pixels_to_bytes(ot_pixels *p, int channels, ot_error *err);

/* Turns the pixels as p->orientation says, which is 1 afterwards.  Errors: OT_E_NOMEM; p stays as it was. */
ot_status ot_pixels_turn(ot_pixels *p, ot_error *err);

void ot_pixels_free(ot_pixels *p); /* p->data, which is NULL afterwards */

#endif
