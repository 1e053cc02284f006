/* webp.c - WebP through libwebp: lossy, lossless, with alpha; not animations. */
#include "runtime/picture/internal.h"

#include <string.h>

#include <webp/decode.h>

/* Chunk EXIF of the container. */
static int orientation(const ot_reading *r)
{
    for (size_t at = 12, length; r->n - at >= 8; at += 8 + length) {
        length = ot_le32(r->p + at + 4);
        if (length > r->n - at - 8) return 1;
        if (!memcmp(r->p + at, "EXIF", 4)) return ot_exif_orientation(r->p + at + 8, length);
        length += length & 1;
        if (length > r->n - at - 8) return 1;
    }
    return 1;
}

static ot_status failed(const ot_reading *r, VP8StatusCode code)
{
    if (code == VP8_STATUS_OUT_OF_MEMORY) return ot_picture_no_memory(r);
    if (code == VP8_STATUS_NOT_ENOUGH_DATA)
        return ot_picture_bad(r,
                              "truncated after %zu bytes, before the end of "
                              "the pixels",
                              r->n);
    return ot_picture_bad(
        r, "%s", code == VP8_STATUS_UNSUPPORTED_FEATURE ? "it uses an unknown feature" : "the data is damaged");
}

ot_status ot_webp_read(ot_reading *r)
{
    WebPDecoderConfig c;
    if (!WebPInitDecoderConfig(&c))
        return ot_fail(r->err, OT_E_INTERNAL,
                       "WebP: the version of libwebp differs from "
                       "the one of the build");
    VP8StatusCode code = WebPGetFeatures(r->p, r->n, &c.input);
    if (code != VP8_STATUS_OK) return failed(r, code);
    if (c.input.has_animation) return ot_picture_bad(r, "animations are not supported");
    /* The container gives its length, chunks after the pixels included. */
    if (ot_le32(r->p + 4) > r->n - 8)
        return ot_picture_bad(r, "truncated after %zu of %lld bytes", r->n, 8LL + ot_le32(r->p + 4));
    r->out->orientation = orientation(r);
    OT_TRY(ot_picture_begin(r, c.input.width, c.input.height, c.input.has_alpha ? 4 : 3, 8));
    if (!r->out->data) return OT_OK;
    int64_t stride = r->out->width * r->out->channels;
    c.output.colorspace = c.input.has_alpha ? MODE_RGBA : MODE_RGB;
    c.output.is_external_memory = 1;
    c.output.u.RGBA = (WebPRGBABuffer){ r->out->data, (int)stride, (size_t)(stride * r->out->height) };
    code = WebPDecode(r->p, r->n, &c);
    WebPFreeDecBuffer(&c.output);
    return code == VP8_STATUS_OK ? OT_OK : failed(r, code);
}
