/* picture.c - bytes as an image of any format: size, pixels, rotation, conversion to one and three channels. */
#include "runtime/picture/picture.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { MOST = 1 << 18 };

const char *const fuzz_words[] = { "IHDR", "IDAT", "PLTE", "tRNS", "eXIf", "VP8 ", "VP8L",
                                   "VP8X", "ALPH", "jp2c", "jp2h", "Exif", NULL };

static size_t size_of(const ot_pixels *p)
{
    return (size_t)(p->height * p->width) * (size_t)(p->channels * p->bits / 8);
}

static void read_all(const ot_pixels *p)
{
    volatile uint8_t sink = 0;
    for (size_t i = 0; i < size_of(p); i++) sink = ((const uint8_t *)p->data)[i];
    (void)sink;
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_pixels size, x, again;
    ot_error e0 = { 0 }, e1 = { 0 }, e2 = { 0 };
    ot_status s0 = fuzz_status("ot_picture_size", ot_picture_size(p, n, &size, &e0), &e0);
    ot_status s1 = fuzz_status("ot_picture_decode", ot_picture_decode(p, n, MOST, &x, &e1), &e1);
    FUZZ_HOLD(!size.data && (s0 == OT_OK || s0 == OT_E_DATA), "looking at it is answered with %d", (int)s0);
    FUZZ_HOLD(s1 == OT_OK || (s1 == OT_E_DATA && !x.data), "decoding is answered with %d", (int)s1);
    FUZZ_HOLD(s1 != OT_OK || s0 == OT_OK, "it has pixels and no size");
    FUZZ_HOLD(s1 == ot_picture_decode(p, n, MOST, &again, &e2) && !strcmp(e1.text, e2.text),
              "decoded again, the answer is another");
    if (s1 != OT_OK) return;
    FUZZ_HOLD(size.height == x.height && size.width == x.width && size.channels == x.channels && size.bits == x.bits,
              "the size is another");
    FUZZ_HOLD(x.orientation == size.orientation && x.orientation >= 1 && x.orientation <= 8, "orientation %d",
              x.orientation);
    FUZZ_HOLD(x.height * x.width <= MOST, "more pixels than are allowed");
    FUZZ_HOLD(!memcmp(x.data, again.data, size_of(&x)), "decoded again, the pixels are others");
    read_all(&x);
    FUZZ_HOLD(!ot_pixels_turn(&x, &e1) && !ot_pixels_to_bytes(&x, 3, &e1), "%s", e1.text);
    read_all(&x);
    FUZZ_HOLD(!ot_pixels_to_bytes(&again, 1, &e1), "%s", e1.text);
    read_all(&again);
    ot_pixels_free(&x);
    ot_pixels_free(&again);
}
