/* internal.h - declarations that the readers of this folder share. */
#ifndef OT_PICTURE_INTERNAL_H
#define OT_PICTURE_INTERNAL_H

#include "runtime/picture/picture.h"

/* One image being read. */
typedef struct ot_reading {
    const uint8_t *p;
    size_t n;
    int64_t most;   /* pixels; negative: only the size is read */
    bool numbers;   /* ot_picture_numbers */
    ot_pixels *out; /* format and orientation 1 are set */
    ot_error *err;
} ot_reading;

/* A format's reader: sets out->orientation if there is one and calls ot_picture_begin.  If out->data is still NULL
 * then, returns OT_OK; else fills it. */
ot_status ot_jpeg_read(ot_reading *r);
ot_status ot_png_read(ot_reading *r);
ot_status ot_webp_read(ot_reading *r);
ot_status ot_bmp_read(ot_reading *r);
ot_status ot_pnm_read(ot_reading *r);
ot_status ot_tiff_read(ot_reading *r);
ot_status ot_jpeg2000_read(ot_reading *r);

/* Sets the size, and unless only the size is read allocates zeroed out->data. */
ot_status ot_picture_begin(ot_reading *r, int64_t width, int64_t height, int channels, int bits);

/* OT_E_DATA with "<format>: <text>". */
ot_status ot_picture_bad(const ot_reading *r, const char *fmt, ...) OT_PRINTF(2, 3);
ot_status ot_picture_no_memory(const ot_reading *r);

/* EXIF's orientation of a block as stored in a file; 1 if there is none. */
int ot_exif_orientation(const uint8_t *p, size_t n);

/* One pixel of CMYK to R, G, B, without a profile; 255 is full ink. */
void ot_cmyk_to_rgb(const uint8_t cmyk[4], uint8_t rgb[3]);

static inline uint32_t ot_be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static inline uint32_t ot_be32(const uint8_t *p) { return ot_be16(p) << 16 | ot_be16(p + 2); }
static inline uint32_t ot_le16(const uint8_t *p) { return (uint32_t)p[1] << 8 | p[0]; }
static inline uint32_t ot_le32(const uint8_t *p) { return ot_le16(p + 2) << 16 | ot_le16(p); }

#endif
