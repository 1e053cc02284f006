/* jpeg2000.c - JPEG 2000 through OpenJPEG: bare codestreams and JP2; grey, RGB, YCbCr, with alpha.
 *
 * Spec    ISO/IEC 15444-1: markers SIZ (size, tiles, components), COD and COC (precincts), SOT; boxes jp2h, pclr, jp2c.
 * Memory  OpenJPEG allocates structures for every tile, precinct and component that a header declares: the headers are
 *         compared with the number of pixels first. */
#ifdef OT_HAVE_OPENJPEG

#include "runtime/picture/internal.h"

#include <string.h>

#include <openjpeg.h>

enum { SIZ = 0xff51, COD = 0xff52, COC = 0xff53, SOT = 0xff90, SOD = 0xff93, EOC = 0xffd9 };
enum { PIXELS_A_TILE = 1024, FEW_TILES = 64 };         /* so many at least, beside a few */
enum { PIXELS_A_PRECINCT = 64, FEW_PRECINCTS = 4096 }; /* of all resolutions together */

typedef struct jp2 {
    ot_reading *r;
    size_t at;             /* of the source, as OpenJPEG reads it */
    const uint8_t *stream; /* the codestream */
    size_t n;
    int64_t width, height;
    int components, bits;
    char said[200]; /* OpenJPEG's first error message */
} jp2;

/* ---- headers -------------------------------------------------------------------- */

/* The box of that name within p[0..n); NULL: none. */
static const uint8_t *find_box(const uint8_t *p, size_t n, const char *name, size_t *size)
{
    for (size_t at = 0; n - at >= 8;) {
        uint64_t length = ot_be32(p + at), head = 8;
        if (length == 1 && n - at >= 16) {
            length = (uint64_t)ot_be32(p + at + 8) << 32 | ot_be32(p + at + 12);
            head = 16;
        }
        if (!length || length > n - at) length = n - at; /* to the end of the file, or truncated */
        if (length < head) return NULL;
        if (!memcmp(p + at + 4, name, 4)) {
            *size = (size_t)(length - head);
            return p + at + head;
        }
        at += length;
    }
    return NULL;
}

static ot_status cut(const jp2 *f) { return ot_picture_bad(f->r, "truncated after %zu bytes, in the header", f->r->n); }

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static ot_status read_size(jp2 *f)
{
    const uint8_t *p = f->stream;
    int64_t v[8]; /* end, begin, tile, begin of tiles: x, y */
    if (f->n < 42) return cut(f);
    if (ot_be16(p) != 0xff4f || ot_be16(p + 2) != SIZ)
        return ot_picture_bad(f->r, "the codestream does not start with a "
                                    "size");
    for (int i = 0; i < 8; i++) v[i] = ot_be32(p + 8 + 4 * i);
    f->components = (int)ot_be16(p + 40);
    if (f->components < 1 || f->components > 4)
        return ot_picture_bad(f->r, "%d components; supported are 1 to 4", f->components);
    if (f->n < 42 + 3 * (size_t)f->components) return cut(f);
    for (int c = 0; c < f->components; c++) {
        const uint8_t *s = p + 42 + 3 * c;
        int bits = (s[0] & 0x7f) + 1;
        if (!s[1] || !s[2] || s[1] > 4 || s[2] > 4)
            return ot_picture_bad(f->r,
                                  "a component has one sample for %d x "
                                  "%d pixels, which is not supported",
                                  s[1], s[2]);
        if (bits > 16) return ot_picture_bad(f->r, "%d bits per sample; supported are 1 to 16", bits);
        f->bits = bits > f->bits ? bits : f->bits;
    }
    if (!v[4] || !v[5] || v[0] <= v[2] || v[1] <= v[3]) return ot_picture_bad(f->r, "it has no pixels");
    if (v[0] > INT32_MAX || v[1] > INT32_MAX)
        return ot_picture_bad(f->r, "it extends to %lld x %lld pixels", (long long)v[0], (long long)v[1]);
    f->width = up(v[0], p[43]) - up(v[2], p[43]);
    f->height = up(v[1], p[44]) - up(v[3], p[44]);
    int64_t tiles;
    if (v[6] > v[2] || v[7] > v[3] || !ot_mul(up(v[0] - v[6], v[4]), up(v[1] - v[7], v[5]), &tiles) ||
        tiles > FEW_TILES + (v[0] - v[2]) * (v[1] - v[3]) / PIXELS_A_TILE)
        return ot_picture_bad(f->r, "the tiles are too small for %lld x %lld pixels", (long long)f->width,
                              (long long)f->height);
    return OT_OK;
}

/* The precincts of a coding style, the lowest resolution first; `at` is the byte with the number of levels. */
static bool precincts_fit(const jp2 *f, size_t at, size_t end)
{
    const uint8_t *size = f->stream + at + 5;
    int levels = at < end ? f->stream[at] : 0;
    int64_t count = 0;
    for (int i = 0; i <= levels && levels <= 32 && at + 5 + (size_t)i < end; i++) {
        int64_t scale = (int64_t)1 << (levels - i), w = up(f->width, scale), h = up(f->height, scale);
        count += up(w, (int64_t)1 << (size[i] & 15)) * up(h, (int64_t)1 << (size[i] >> 4));
        if (count > FEW_PRECINCTS + f->width * f->height / PIXELS_A_PRECINCT) return false;
    }
    return true;
}

/* Every coding style, of the file and of its tiles. */
static ot_status check_styles(const jp2 *f)
{
    const uint8_t *p = f->stream;
    size_t at = 2, tile_end = f->n, length;
    for (; f->n - at >= 4; at += 2 + length) {
        uint32_t marker = ot_be16(p + at);
        length = ot_be16(p + at + 2);
        if (marker == EOC) return OT_OK;
        if (marker == SOD) { /* after the data of the tile; only a damaged file has it before */
            if (tile_end < at + 2) return OT_OK;
            length = tile_end - at - 2;
            continue;
        }
        if (length < 2 || length > f->n - at - 2) return OT_OK; /* OpenJPEG reports the error */
        size_t end = at + 2 + length;
        if (marker == SOT && length >= 10) {
            uint64_t part = ot_be32(p + at + 6);
            tile_end = part >= 14 && part <= f->n - at ? at + (size_t)part : f->n;
        }
        bool fits = (marker != COD || length < 3 || !(p[at + 4] & 1) || precincts_fit(f, at + 9, end)) &&
                    (marker != COC || length < 4 || !(p[at + 5] & 1) || precincts_fit(f, at + 6, end));
        if (!fits)
            return ot_picture_bad(f->r, "the precincts are too small for %lld x %lld pixels", (long long)f->width,
                                  (long long)f->height);
        if (tile_end < end) tile_end = end;
    }
    return OT_OK;
}

static ot_status look(jp2 *f)
{
    size_t size = 0;
    const uint8_t *head;
    f->stream = f->r->p;
    f->n = f->r->n;
    if (f->r->p[0] == 0) {
        head = find_box(f->r->p, f->r->n, "jp2h", &size);
        if (head && find_box(head, size, "pclr", &size)) return ot_picture_bad(f->r, "palettes are not supported");
        f->stream = find_box(f->r->p, f->r->n, "jp2c", &f->n);
        if (!f->stream) return cut(f);
    }
    return read_size(f);
}

/* ---- the source that OpenJPEG reads ------------------------------------------------ */

static OPJ_SIZE_T read_bytes(void *to, OPJ_SIZE_T n, void *user)
{
    jp2 *f = user;
    size_t left = f->r->n - f->at;
    if (!left) return (OPJ_SIZE_T)-1;
    if (n > left) n = left;
    memcpy(to, f->r->p + f->at, n);
    f->at += n;
    return n;
}

static OPJ_OFF_T skip(OPJ_OFF_T n, void *user)
{
    jp2 *f = user;
    size_t left = f->r->n - f->at;
    if (n < 0) return -1;
    if ((uint64_t)n > left) n = (OPJ_OFF_T)left;
    f->at += (size_t)n;
    return n;
}

static OPJ_BOOL seek(OPJ_OFF_T to, void *user)
{
    jp2 *f = user;
    if (to < 0 || (uint64_t)to > f->r->n) return OPJ_FALSE;
    f->at = (size_t)to;
    return OPJ_TRUE;
}

static void complain(const char *text, void *user)
{
    jp2 *f = user;
    size_t n = strcspn(text, "\n");
    if (f->said[0]) return;
    if (n >= sizeof f->said) n = sizeof f->said - 1;
    memcpy(f->said, text, n);
    f->said[n] = 0;
}

static void ignore(const char *text, void *user) { (void)text, (void)user; }

/* ---- pixels -------------------------------------------------------------------------- */

/* Component c at (x, y), from 0 to `full`. */
static int value(const opj_image_t *image, int c, int64_t x, int64_t y, int full)
{
    const opj_image_comp_t *k = &image->comps[c];
    int64_t most = (1 << k->prec) - 1;
    if (k->w != image->comps[0].w) x = x * k->w / image->comps[0].w;
    if (k->h != image->comps[0].h) y = y * k->h / image->comps[0].h;
    int64_t v = k->data[y * k->w + x] + (k->sgnd ? 1 << (k->prec - 1) : 0);
    v = v < 0 ? 0 : v > most ? most : v;
    return (int)((v * full + most / 2) / most);
}

static int near(double v, int full) { return v < 0 ? 0 : v > full ? full : (int)(v + 0.5); }

static void to_rgb(int v[4], int full)
{
    double y = v[0], cb = v[1] - (full + 1) / 2, cr = v[2] - (full + 1) / 2;
    v[0] = near(y + 1.402 * cr, full);
    v[1] = near(y - 0.344136 * cb - 0.714136 * cr, full);
    v[2] = near(y + 1.772 * cb, full);
}

static ot_status copy(const jp2 *f, const opj_image_t *image)
{
    const ot_pixels *o = f->r->out;
    int full = o->bits == 16 ? 65535 : 255, v[4] = { 0 };
    bool apart = image->color_space == OPJ_CLRSPC_SYCC && o->channels >= 3;
    if (image->color_space == OPJ_CLRSPC_CMYK || image->color_space == OPJ_CLRSPC_EYCC)
        return ot_picture_bad(f->r, "CMYK and e-YCC colours are not "
                                    "supported");
    if ((int)image->numcomps != o->channels)
        return ot_picture_bad(f->r, "%u components, but the header says %d", image->numcomps, o->channels);
    for (OPJ_UINT32 c = 0; c < image->numcomps; c++) {
        const opj_image_comp_t *k = &image->comps[c];
        if (!k->data || !k->w || !k->h || k->prec < 1 || k->prec > 16)
            return ot_picture_bad(f->r, "component %u has no pixels", c);
    }
    if (image->comps[0].w != o->width || image->comps[0].h != o->height)
        return ot_picture_bad(f->r, "the size differs from the header");
    for (int64_t i = 0; i < o->width * o->height; i++) {
        for (int c = 0; c < o->channels; c++) v[c] = value(image, c, i % o->width, i / o->width, full);
        if (apart) to_rgb(v, full);
        for (int c = 0; c < o->channels; c++) {
            if (full == 255) ((uint8_t *)o->data)[i * o->channels + c] = (uint8_t)v[c];
            else ((uint16_t *)o->data)[i * o->channels + c] = (uint16_t)v[c];
        }
    }
    return OT_OK;
}

static ot_status decode(jp2 *f, opj_codec_t *codec, opj_stream_t *stream)
{
    opj_dparameters_t parameters;
    opj_image_t *image = NULL;
    opj_set_default_decoder_parameters(&parameters);
    opj_set_error_handler(codec, complain, f);
    opj_set_warning_handler(codec, ignore, f);
    opj_set_info_handler(codec, ignore, f);
    opj_stream_set_user_data(stream, f, NULL);
    opj_stream_set_user_data_length(stream, f->r->n);
    opj_stream_set_read_function(stream, read_bytes);
    opj_stream_set_skip_function(stream, skip);
    opj_stream_set_seek_function(stream, seek);
    bool good = opj_setup_decoder(codec, &parameters) && opj_read_header(stream, codec, &image) &&
                opj_decode(codec, stream, image) && opj_end_decompress(codec, stream);
    ot_status s =
        good ? copy(f, image) : ot_picture_bad(f->r, "the pixels cannot be read%s%s", f->said[0] ? ": " : "", f->said);
    opj_image_destroy(image);
    return s;
}

ot_status ot_jpeg2000_read(ot_reading *r)
{
    jp2 f = { .r = r };
    OT_TRY(look(&f));
    OT_TRY(check_styles(&f));
    OT_TRY(ot_picture_begin(r, f.width, f.height, f.components, f.bits > 8 ? 16 : 8));
    if (!r->out->data) return OT_OK;
    opj_codec_t *codec = opj_create_decompress(f.stream == r->p ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    opj_stream_t *stream = opj_stream_create(64 << 10, OPJ_TRUE);
    ot_status s = codec && stream ? decode(&f, codec, stream) : ot_picture_no_memory(r);
    if (stream) opj_stream_destroy(stream);
    if (codec) opj_destroy_codec(codec);
    return s;
}

#else
typedef int ot_jpeg2000_is_not_built;
#endif
