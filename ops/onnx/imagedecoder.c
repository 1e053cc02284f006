/* imagedecoder.c - ImageDecoder: decodes an image file to pixels.
 *
 * Spec    ai.onnx ImageDecoder 20.  The pixels as stored in the file (EXIF's orientation is ignored), 8 bits, without
 *         alpha.  A damaged stream or an unknown format gives an empty matrix, as in the standard, and a warning.  A
 *         format that this build does not support, and an image beyond the graph's size limit, are errors.
 * Shapes  encoded_stream: (bytes) uint8   y: (H, W, 3), of Grayscale (H, W, 1).  The stream must be known while
 *         planning, because H and W are sizes.
 * Grad    none: the stream is of integers. */
#include "ops/kernels/move.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/findings.h"
#include "runtime/picture/picture.h"

typedef struct decoder_attrs {
    int64_t format;
} decoder_attrs;

enum { RGB, BGR, GRAY };
static const char *const formats[] = { "RGB", "BGR", "Grayscale", NULL };

static const ot_attr rows[] = {
    { "pixel_format", OT_ENUM, offsetof(decoder_attrs, format), RGB, formats },
    { 0 },
};

enum { BYTES_A_PIXEL = 16 }; /* memory of decoding: samples of 16 bits, the library's, the result */

/* The image in bytes of `channels`; an empty one if it cannot be decoded. */
static ot_status decode(const ot_node *n, int channels, ot_pixels *p, ot_error *err)
{
    const ot_value *x = n->in[0];
    size_t bytes = (size_t)x->shape.dim[0];
    ot_room *room = n->graph->room;
    int64_t pixels = 0, most = (int64_t)(room->most / BYTES_A_PIXEL);
    ot_error why = { 0 };
    if (most > room->work) most = room->work;
    ot_status s = ot_picture_size(x->data, bytes, p, &why);
    if (ot_picture_missing(x->data, bytes)) return ot_node_fail(n, err, "%s", why.text);
    if (s == OT_OK && (!ot_mul(p->height, p->width, &pixels) || pixels > most))
        return ot_fail(err, OT_E_NOMEM,
                       "%s: ImageDecoder: out of memory: the image has %lld x %lld pixels; the limit "
                       "for a file of this size is %lld",
                       n->name, (long long)p->width, (long long)p->height, (long long)most);
    room->work -= pixels;
    if (s == OT_OK) s = ot_picture_decode(x->data, bytes, most, p, &why);
    if (s == OT_OK) s = ot_pixels_to_bytes(p, channels, &why);
    if (s == OT_OK) return OT_OK;
    ot_pixels_free(p);
    *p = (ot_pixels){ 0 };
    if (s == OT_E_DATA) /* without a name: a node is inferred more than once */
        ot_find(room->findings, OT_FINDING_WARNING, NULL, NULL,
                "%s: ImageDecoder: the stream cannot be decoded; the "
                "image is empty, as ONNX requires: %s",
                n->name, why.text);
    return s == OT_E_DATA ? OT_OK : ot_fail(err, s, "%s: ImageDecoder: %s", n->name, why.text);
}

static ot_status infer(ot_node *n, ot_error *err)
{
    const ot_value *x = n->in[0];
    int64_t format = ((const decoder_attrs *)n->attrs)->format;
    ot_pixels p = { 0 };
    if (x->shape.rank != 1) return ot_node_fail(n, err, "encoded_stream must be a list of bytes");
    if (!ot_is_const(x))
        return ot_node_fail(n, err,
                            "encoded_stream must be known before the run, because it "
                            "determines the size of the image");
    ot_shape y = { .rank = 3, .dim = { 0, 0, format == GRAY ? 1 : 3 } };
    ot_status s = decode(n, (int)y.dim[2], &p, err);
    y.dim[0] = p.height;
    y.dim[1] = p.width;
    size_t size = (size_t)ot_numel(&y);
    uint8_t *to = s == OT_OK ? ot_node_alloc(n, size + 1) : NULL;
    if (to && size) memcpy(to, p.data, size);
    for (size_t i = 0; to && format == BGR && i < size; i += 3) {
        uint8_t red = to[i];
        to[i] = to[i + 2];
        to[i + 2] = red;
    }
    ot_pixels_free(&p);
    if (s != OT_OK) return s;
    if (!to) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    n->out[0]->data = to;
    n->out[0]->role = OT_CONST;
    return ot_set(n->out[0], OT_U8, &y);
}

static void lower(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    if (!ot_broken(b)) ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, y->data));
}

const ot_op ot_op_ImageDecoder = {
    .name = "ImageDecoder",
    .types = { "T", .T = OT_TYPE(OT_U8) },
    .since = 20,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_COUNTED,
    .nondiff = 1,
    .attrs = rows,
    .attr_size = sizeof(decoder_attrs),
    .infer = infer,
    .lower = lower,
    .grad_zero = "its input is a byte stream",

};
