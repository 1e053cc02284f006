/* picture.c - the table of formats, and checks common to all. */
#include "runtime/picture/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct format {
    const char *name;
    bool (*is)(const uint8_t *p, size_t n);
    ot_status (*read)(ot_reading *r); /* NULL: not built in */
    const char *package;              /* the Debian package, if it may be missing */
} format;

static bool begins(const uint8_t *p, size_t n, const char *with, size_t m) { return n >= m && !memcmp(p, with, m); }

static bool is_jpeg(const uint8_t *p, size_t n) { return begins(p, n, "\xff\xd8\xff", 3); }
static bool is_png(const uint8_t *p, size_t n) { return begins(p, n, "\x89PNG\r\n\x1a\n", 8); }
static bool is_webp(const uint8_t *p, size_t n)
{
    return n >= 12 && begins(p, n, "RIFF", 4) && begins(p + 8, n - 8, "WEBP", 4);
}
static bool is_bmp(const uint8_t *p, size_t n) { return begins(p, n, "BM", 2); }
static bool is_pnm(const uint8_t *p, size_t n)
{
    return n >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '7' && (p[2] <= ' ' || p[2] == '#');
}

static bool is_tiff(const uint8_t *p, size_t n)
{
    return begins(p, n, "II*\0", 4) || begins(p, n, "MM\0*", 4) || begins(p, n, "II+\0", 4) || begins(p, n, "MM\0+", 4);
}

static bool is_jpeg2000(const uint8_t *p, size_t n)
{
    return begins(p, n, "\xff\x4f\xff\x51", 4) || begins(p, n, "\0\0\0\x0cjP  \r\n\x87\n", 12);
}

#ifdef OT_HAVE_TIFF
#define TIFF_READ ot_tiff_read
#else
#define TIFF_READ NULL
#endif
#ifdef OT_HAVE_OPENJPEG
#define JPEG2000_READ ot_jpeg2000_read
#else
#define JPEG2000_READ NULL
#endif

static const format formats[] = {
    { "JPEG", is_jpeg, ot_jpeg_read, NULL },
    { "PNG", is_png, ot_png_read, NULL },
    { "WebP", is_webp, ot_webp_read, NULL },
    { "BMP", is_bmp, ot_bmp_read, NULL },
    { "PNM", is_pnm, ot_pnm_read, NULL },
    { "TIFF", is_tiff, TIFF_READ, "libtiff-dev" },
    { "JPEG 2000", is_jpeg2000, JPEG2000_READ, "libopenjp2-7-dev" },
};

static const format *format_of(const uint8_t *p, size_t n)
{
    for (int i = 0; i < OT_LEN(formats); i++)
        if (formats[i].is(p, n)) return &formats[i];
    return NULL;
}

static ot_status run(const void *bytes, size_t n, int64_t most, bool numbers, ot_pixels *out, ot_error *err)
{
    const uint8_t *p = bytes;
    const format *f = format_of(p, n);
    uint8_t first[4] = { 0 };
    *out = (ot_pixels){ .orientation = 1 };
    if (n) memcpy(first, p, n < 4 ? n : 4);
    if (!n) return ot_fail(err, OT_E_DATA, "the image has no data");
    if (!f)
        return ot_fail(err, OT_E_DATA,
                       "is not an image of a supported format (JPEG, PNG, WebP, BMP, PNM, TIFF, JPEG "
                       "2000): it starts with %02x %02x %02x %02x",
                       first[0], first[1], first[2], first[3]);
    if (!f->read)
        return ot_fail(err, OT_E_DATA,
                       "%s: not supported by this build. On Debian: apt-get install %s, then build "
                       "again",
                       f->name, f->package);
    out->format = f->name;
    if (numbers && f->read != ot_png_read)
        return ot_fail(err, OT_E_DATA, "is %s; a mask of class numbers must be a PNG, grey or with a palette", f->name);
    ot_reading r = { .p = p, .n = n, .most = most, .numbers = numbers, .out = out, .err = err };
    ot_status s = f->read(&r);
    if (s != OT_OK) ot_pixels_free(out);
    return s;
}

ot_status ot_picture_size(const void *bytes, size_t n, ot_pixels *out, ot_error *err)
{
    return run(bytes, n, -1, false, out, err);
}

ot_status ot_picture_decode(const void *bytes, size_t n, int64_t most, ot_pixels *out, ot_error *err)
{
    return run(bytes, n, most < 0 ? 0 : most, false, out, err);
}

/* Replaces equal colour channels by one channel. */
static ot_status join_equal(ot_pixels *p, ot_error *err)
{
    uint8_t *x = p->data;
    int64_t n = p->height * p->width, colours = p->channels > 2 ? 3 : 1, step = p->channels;
    if (p->bits != 8)
        return ot_fail(err, OT_E_DATA, "%s: has %d bits; a mask of class numbers has 8 at most", p->format, p->bits);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *at = x + i * step;
        if (colours == 3 && (at[0] != at[1] || at[0] != at[2]))
            return ot_fail(err, OT_E_DATA,
                           "%s: contains the colour (%d, %d, %d); a mask needs class numbers, as grey values or as a "
                           "palette",
                           p->format, at[0], at[1], at[2]);
        x[i] = at[0];
    }
    p->channels = 1;
    return OT_OK;
}

ot_status ot_picture_numbers(const void *bytes, size_t n, int64_t most, ot_pixels *out, ot_error *err)
{
    OT_TRY(run(bytes, n, most < 0 ? 0 : most, true, out, err));
    ot_status s = join_equal(out, err);
    if (s) ot_pixels_free(out);
    return s;
}

const char *ot_picture_missing(const void *bytes, size_t n)
{
    const format *f = format_of(bytes, n);
    return f && !f->read ? f->package : NULL;
}

const char *ot_picture_format(int i, const char **missing)
{
    *missing = i < OT_LEN(formats) && !formats[i].read ? formats[i].package : NULL;
    return i < OT_LEN(formats) ? formats[i].name : NULL;
}

ot_status ot_picture_begin(ot_reading *r, int64_t width, int64_t height, int channels, int bits)
{
    ot_pixels *o = r->out;
    int64_t pixels, bytes;
    if (width < 1 || height < 1)
        return ot_picture_bad(r, "it has %lld x %lld pixels", (long long)width, (long long)height);
    *o = (ot_pixels){ o->format, height, width, channels, bits, o->orientation, NULL };
    if (r->most < 0) return OT_OK;
    if (!ot_mul(width, height, &pixels) || pixels > r->most || !ot_mul(pixels, channels * (bits / 8), &bytes))
        return ot_picture_bad(r, "it has %lld x %lld pixels; the limit is %lld", (long long)width, (long long)height,
                              (long long)r->most);
    o->data = calloc(1, (size_t)bytes);
    return o->data ? OT_OK : ot_picture_no_memory(r);
}

ot_status ot_picture_bad(const ot_reading *r, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)ot_vtext(text, sizeof text, fmt, ap);
    va_end(ap);
    return ot_fail(r->err, OT_E_DATA, "%s: %s", r->out->format, text);
}

ot_status ot_picture_no_memory(const ot_reading *r)
{
    return ot_fail(r->err, OT_E_NOMEM, "%s: no memory for %lld x %lld pixels", r->out->format, (long long)r->out->width,
                   (long long)r->out->height);
}

void ot_pixels_free(ot_pixels *p)
{
    free(p->data);
    p->data = NULL;
}
