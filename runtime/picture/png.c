/* png.c - PNG through libspng: every colour type and depth, interlaced or not; checksums are checked. */
#include "runtime/picture/internal.h"

#include <string.h>

#include <spng.h>

/* Limit of a text or colour profile chunk, and of all that are kept together. */
enum { MOST_CHUNK = 32 << 20 };

/* Deflate expands by at most 1032. */
enum { DEFLATE_MOST = 1032 };

/* The chunk of that name; NULL: there is none (before the pixels, if `early`). */
static const uint8_t *find_chunk(const ot_reading *r, const char *name, bool early, size_t *size)
{
    for (size_t at = 8, length; r->n - at >= 12; at += length + 12) {
        length = ot_be32(r->p + at);
        if (length > r->n - at - 12 || (early && !memcmp(r->p + at + 4, "IDAT", 4))) return NULL;
        *size = length;
        if (!memcmp(r->p + at + 4, name, 4)) return r->p + at + 8;
    }
    return NULL;
}

static ot_status failed(const ot_reading *r, int code)
{
    if (code == SPNG_EMEM) return ot_picture_no_memory(r);
    if (code == SPNG_IO_EOF) return ot_picture_bad(r, "truncated after %zu bytes, before the end of the pixels", r->n);
    return ot_picture_bad(r, "%s", spng_strerror(code));
}

/* Bytes of all rows, unpacked, including the filter byte of each. */
static int64_t raw_bytes(const struct spng_ihdr *h)
{
    static const int samples[] = { 1, 0, 3, 1, 2, 0, 4 };
    return ((int64_t)h->width * samples[h->color_type] * h->bit_depth + 7) / 8 * h->height + h->height;
}

/* Numbers of `bits` bits each, rows rounded up to bytes, to one byte each; they grow from the end. */
static void unpack(uint8_t *x, int64_t height, int64_t width, int bits)
{
    int64_t row = (width * bits + 7) / 8;
    for (int64_t i = height - 1; i >= 0 && bits < 8; i--)
        for (int64_t j = width - 1; j >= 0; j--)
            x[i * width + j] = (uint8_t)(x[i * row + j * bits / 8] >> (8 - bits - j * bits % 8) & ((1 << bits) - 1));
}

static ot_status read_numbers(spng_ctx *z, ot_reading *r, const struct spng_ihdr *h)
{
    size_t bytes;
    OT_TRY(ot_picture_begin(r, h->width, h->height, 1, 8));
    int code = spng_decoded_image_size(z, SPNG_FMT_PNG, &bytes);
    if (!code && bytes > (size_t)(r->out->width * r->out->height))
        return ot_picture_bad(r, "the size differs from the header");
    if (!code) code = spng_decode_image(z, r->out->data, bytes, SPNG_FMT_PNG, 0);
    if (!code) code = spng_decode_chunks(z);
    if (code) return failed(r, code);
    unpack(r->out->data, r->out->height, r->out->width, h->bit_depth);
    return OT_OK;
}

static ot_status read_with(spng_ctx *z, ot_reading *r)
{
    struct spng_ihdr h;
    size_t size = 0, bytes;
    int code = spng_set_png_buffer(z, r->p, r->n), format, flags = 0;
    if (!code) code = spng_set_crc_action(z, SPNG_CRC_ERROR, SPNG_CRC_ERROR);
    if (!code) code = spng_set_chunk_limits(z, MOST_CHUNK, MOST_CHUNK);
    if (!code) code = spng_get_ihdr(z, &h);
    if (code) return failed(r, code);
    const uint8_t *exif = find_chunk(r, "eXIf", false, &size);
    if (exif) r->out->orientation = ot_exif_orientation(exif, size);
    bool grey = !(h.color_type & 2), own = h.color_type & 4, palette = h.color_type == SPNG_COLOR_TYPE_INDEXED;
    bool key = !own && find_chunk(r, "tRNS", true, &size),
         alpha = own || key; /* of a palette, or one transparent colour */
    if (r->most >= 0 && raw_bytes(&h) / DEFLATE_MOST > (int64_t)r->n)
        return ot_picture_bad(r, "%zu bytes are too few for %u x %u pixels", r->n, h.width, h.height);
    if (r->numbers && (palette || (grey && !own && h.bit_depth <= 8))) return read_numbers(z, r, &h);
    OT_TRY(ot_picture_begin(r, h.width, h.height, (grey ? 1 : 3) + alpha, h.bit_depth == 16 ? 16 : 8));
    if (!r->out->data) return OT_OK;
    bool wide = h.bit_depth == 16;
    if (palette) format = key ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8;
    else if (key && grey) format = wide ? SPNG_FMT_GA16 : SPNG_FMT_GA8;
    else if (key) format = wide ? SPNG_FMT_RGBA16 : SPNG_FMT_RGBA8;
    else format = grey && !own && !wide ? SPNG_FMT_G8 : SPNG_FMT_PNG;
    if (key) flags = SPNG_DECODE_TRNS;
    code = spng_decoded_image_size(z, format, &bytes);
    if (!code && bytes != (size_t)(r->out->width * r->out->height) * (size_t)(r->out->channels * r->out->bits / 8))
        return ot_picture_bad(r, "the size differs from the header");
    if (!code) code = spng_decode_image(z, r->out->data, bytes, format, flags);
    if (!code) code = spng_decode_chunks(z); /* to the end: chunks after the pixels are checked too */
    return code ? failed(r, code) : OT_OK;
}

ot_status ot_png_read(ot_reading *r)
{
    spng_ctx *z = spng_ctx_new(0);
    if (!z) return ot_picture_no_memory(r);
    ot_status s = read_with(z, r);
    spng_ctx_free(z);
    return s;
}

/* Colours that differ for neighbouring numbers: the bits of a number, three by three, are the highest bits of red, green, blue. */
static int set_palette(spng_ctx *z)
{
    struct spng_plte p = { .n_entries = 256 };
    for (unsigned i = 0; i < 256; i++) {
        struct spng_plte_entry *e = &p.entries[i];
        for (unsigned k = 0, v = i; k < 8; k++, v >>= 3) {
            e->red |= (uint8_t)((v & 1) << (7 - k));
            e->green |= (uint8_t)((v >> 1 & 1) << (7 - k));
            e->blue |= (uint8_t)((v >> 2 & 1) << (7 - k));
        }
    }
    return spng_set_plte(z, &p);
}

ot_status ot_picture_png(const uint8_t *pixels, int64_t width, int64_t height, int channels, uint8_t **out, size_t *n,
                         ot_error *err)
{
    spng_ctx *z = spng_ctx_new(SPNG_CTX_ENCODER);
    struct spng_ihdr h = { .width = (uint32_t)width,
                           .height = (uint32_t)height,
                           .bit_depth = 8,
                           .color_type = channels == 0   ? SPNG_COLOR_TYPE_INDEXED
                                         : channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE
                                                         : SPNG_COLOR_TYPE_TRUECOLOR };
    int bad = z ? spng_set_option(z, SPNG_ENCODE_TO_BUFFER, 1) : SPNG_EMEM;
    if (!bad) bad = spng_set_ihdr(z, &h);
    if (!bad && !channels) bad = set_palette(z);
    if (!bad)
        bad = spng_encode_image(z, pixels, (size_t)(width * height * (channels ? channels : 1)), SPNG_FMT_PNG,
                                SPNG_ENCODE_FINALIZE);
    *out = bad ? NULL : spng_get_png_buffer(z, n, &bad);
    spng_ctx_free(z);
    if (*out) return OT_OK;
    return bad == SPNG_EMEM ? ot_fail(err, OT_E_NOMEM, "no memory for a PNG")
                            : ot_fail(err, OT_E_INTERNAL, "a PNG cannot be encoded: %s", spng_strerror(bad));
}
