/* main.c - compares images of every kind with Pillow's pixels; truncated, damaged and forged ones.
 *
 *     test_picture [FLIPS]      so many times each fixture has a few bits turned (100) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>
#include <zlib.h>

#include "runtime/base/io.h"
#include "runtime/picture/picture.h"

#define FOLDER OT_SOURCE_ROOT "/tests/picture/fixtures/"

enum { MOST = 1 << 16, PATIENCE_MIB = 400 };
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

typedef struct fixture {
    char name[64], format[16];
    int width, height, channels, bits, orientation, tolerance;
    uint8_t *p;
    size_t n;
} fixture;

static fixture list[200];
static int count, flips = 100;

static void load(const char *name, uint8_t **p, size_t *n)
{
    char path[512];
    void *bytes;
    ot_error err = { 0 };
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (ot_read_file(path, 1 << 24, &bytes, n, &err) != OT_OK) fail_msg("%s", err.text);
    *p = bytes;
}

static int load_all(void **state)
{
    FILE *f = fopen(FOLDER "list", "r");
    char line[256];
    (void)state;
    while (f && fgets(line, sizeof line, f)) {
        fixture *x = &list[count];
        if (sscanf(line, "%63s %15s %d %d %d %d %d %d", x->name, x->format, &x->width, &x->height, &x->channels,
                   &x->bits, &x->orientation, &x->tolerance) != 8)
            continue;
        for (char *c = x->format; *c; c++) *c = *c == '_' ? ' ' : *c;
        load(x->name, &x->p, &x->n);
        if (!ot_picture_missing(x->p, x->n)) count++;
        else print_message("not built: %s\n", x->name), free(x->p);
    }
    if (f) fclose(f);
    return count > 0 ? 0 : -1;
}

static int free_all(void **state)
{
    (void)state;
    for (int i = 0; i < count; i++) free(list[i].p);
    return 0;
}

static ot_pixels decoded(const fixture *f)
{
    ot_pixels x;
    ot_error err = { 0 };
    if (ot_picture_decode(f->p, f->n, MOST, &x, &err) != OT_OK) fail_msg("%s: %s", f->name, err.text);
    return x;
}

static void holds_what_the_list_says(void **state)
{
    (void)state;
    for (int i = 0; i < count; i++) {
        const fixture *f = &list[i];
        ot_pixels size, x = decoded(f);
        ot_error err = { 0 };
        if (ot_picture_size(f->p, f->n, &size, &err) != OT_OK) fail_msg("%s: %s", f->name, err.text);
        assert_null(size.data);
        for (const ot_pixels *p = &size; p; p = p == &size ? &x : NULL) {
            bool good = !strcmp(p->format, f->format) && p->width == f->width && p->height == f->height &&
                        p->channels == f->channels && p->bits == f->bits && p->orientation == f->orientation;
            if (!good)
                fail_msg("%s: is %s, %lld x %lld of %d channels of %d bits, orientation %d", f->name, p->format,
                         (long long)p->width, (long long)p->height, p->channels, p->bits, p->orientation);
        }
        ot_pixels_free(&x);
    }
}

/* PNG's one transparent colour: of these fixtures, that of the first pixel. */
static void transparent_colour(void **state)
{
    int keyed = 0;
    (void)state;
    for (int i = 0; i < count; i++) {
        const fixture *f = &list[i];
        if (!strstr(f->name, "_key.png")) continue;
        ot_pixels x = decoded(f);
        int64_t size = x.bits / 8, colours = (x.channels - 1) * size, pixel = x.channels * size, clear = 0;
        for (int64_t k = 0; k < x.width * x.height; k++) {
            const uint8_t *p = (const uint8_t *)x.data + k * pixel;
            bool same = !memcmp(p, x.data, (size_t)colours);
            for (int64_t b = 0; b < size; b++) assert_int_equal(p[colours + b], same ? 0 : 255);
            clear += same;
        }
        assert_true(clear > 0 && clear < x.width * x.height);
        ot_pixels_free(&x);
        keyed++;
    }
    assert_int_equal(keyed, 5);
}

/* Prints, per format, the mean and the largest difference; each must be within its fixture's tolerance. */
static void equals_pillow(void **state)
{
    double sum = 0;
    long elements = 0;
    int worst = 0;
    (void)state;
    for (int i = 0; i < count; i++) {
        const fixture *f = &list[i];
        ot_pixels x = decoded(f);
        ot_error err = { 0 };
        char name[80];
        uint8_t *p;
        size_t n;
        int w, h, head, most = 0;
        snprintf(name, sizeof name, "%.63s.ppm", f->name);
        load(name, &p, &n);
        assert_int_equal(sscanf((const char *)p, "P6 %d %d 255%n", &w, &h, &head), 2);
        assert_int_equal(ot_pixels_turn(&x, &err), OT_OK);
        assert_int_equal(ot_pixels_to_bytes(&x, 3, &err), OT_OK);
        assert_int_equal(x.width, w);
        assert_int_equal(x.height, h);
        assert_int_equal(n, head + 1 + 3 * w * h);
        for (int k = 0; k < 3 * w * h; k++) {
            int d = abs(((uint8_t *)x.data)[k] - p[head + 1 + k]);
            most = d > most ? d : most;
            sum += d;
        }
        elements += 3L * w * h;
        worst = most > worst ? most : worst;
        if (most > f->tolerance) fail_msg("%s: differs from Pillow's pixels by %d", f->name, most);
        free(p);
        ot_pixels_free(&x);
    }
    print_message("%d pictures against Pillow: mean difference %.5f, largest %d grey levels\n", count,
                  sum / (double)elements, worst);
}

static void keeps_all_of_16_bits(void **state)
{
    static const uint8_t pgm[] = "P5 2 2 65535\n\x01\x02\x03\x04\xff\xfe\x00\x07";
    ot_pixels x;
    ot_error err = { 0 };
    (void)state;
    assert_int_equal(ot_picture_decode(pgm, sizeof pgm - 1, MOST, &x, &err), OT_OK);
    assert_memory_equal(x.data, ((uint16_t[]){ 0x0102, 0x0304, 0xfffe, 7 }), 8);
    ot_pixels_free(&x);
    for (int i = 0; i < count; i++) { /* the same grey by four roads; of the others the list says 16 bits */
        const fixture *f = &list[i];
        if (strncmp(f->name, "grey16.", 7) != 0) continue;
        x = decoded(f);
        for (int k = 0; k < 14 * 21; k++) assert_int_equal(((uint16_t *)x.data)[k] % 257, k % 21 * 3);
        ot_pixels_free(&x);
    }
}

static void luma_is_pillows(void **state)
{
    static const uint8_t ppm[] = "P6 4 1 255\n\xff\0\0\0\xff\0\0\0\xff\x0a\x64\xc8";
    ot_pixels x;
    ot_error err = { 0 };
    (void)state;
    assert_int_equal(ot_picture_decode(ppm, sizeof ppm - 1, MOST, &x, &err), OT_OK);
    assert_int_equal(ot_pixels_to_bytes(&x, 1, &err), OT_OK);
    assert_memory_equal(x.data, ((uint8_t[]){ 76, 150, 29, 84 }), 4); /* Image.convert("L") */
    ot_pixels_free(&x);
}

/* Decodes arbitrary bytes: an error with a text and nothing left, or complete pixels. */
static ot_status held(const char *name, const uint8_t *p, size_t n, ot_pixels *x)
{
    uint8_t *exact = malloc(n ? n : 1); /* a byte beyond is seen by the sanitizer */
    ot_pixels size;
    ot_error err = { 0 }, e1 = { 0 };
    memcpy(exact, p, n);
    ot_status looked = ot_picture_size(exact, n, &size, &e1), s = ot_picture_decode(exact, n, MOST, x, &err);
    free(exact);
    if (s == OT_OK) {
        volatile uint8_t sink = 0;
        if (looked != OT_OK || size.width != x->width || size.height != x->height || size.channels != x->channels ||
            size.bits != x->bits)
            fail_msg("%s: the size is not that of the pixels", name);
        if (x->width * x->height > MOST)
            fail_msg("%s: %lld x %lld pixels", name, (long long)x->width, (long long)x->height);
        for (int64_t i = 0; i < x->width * x->height * x->channels * (x->bits / 8); i++) sink = ((uint8_t *)x->data)[i];
        (void)sink;
    } else if (s != OT_E_DATA || err.status != s || !err.text[0] || x->data || strstr(err.text, "  ")) {
        fail_msg("%s: status %d, '%s'", name, (int)s, err.text);
    }
    return s;
}

static void refuses_what_is_cut(void **state)
{
    (void)state;
    for (int i = 0; i < count; i++) {
        const fixture *f = &list[i];
        ot_pixels whole = decoded(f), x;
        size_t passed = 0;
        bool text = !strncmp(f->name, "text.", 5); /* "255" cut is "25" */
        for (size_t n = 0; n < f->n; n++) {
            if (held(f->name, f->p, n, &x) != OT_OK) continue;
            passed++;
            if (!text && (x.width != whole.width ||
                          memcmp(x.data, whole.data, (size_t)(x.width * x.height * x.channels * (x.bits / 8))) != 0))
                fail_msg("%s: of its first %zu bytes come other pixels", f->name, n);
            ot_pixels_free(&x);
        }
        if (passed > 24 && strcmp(f->format, "TIFF") != 0) fail_msg("%s: %zu cuts pass", f->name, passed);
        ot_pixels_free(&whole);
    }
}

static uint64_t rolled;
static uint32_t roll(uint32_t below)
{
    rolled = rolled * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rolled >> 33) % below);
}

static long resident_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss >> 10;
}

static void survives_turned_bits(void **state)
{
    long whole = 0, damaged = 0, before = resident_mib();
    (void)state;
    for (int i = 0; i < count; i++) {
        const fixture *f = &list[i];
        uint8_t *p = malloc(f->n);
        ot_pixels x;
        rolled = (uint64_t)i;
        for (int k = 0; k < flips; k++) {
            memcpy(p, f->p, f->n);
            size_t near = k % 2 && f->n > 64 ? 64 : f->n; /* headers are the better half */
            for (uint32_t b = roll(3) + 1; b; b--) p[roll((uint32_t)near)] ^= (uint8_t)(1u << roll(8));
            if (held(f->name, p, f->n, &x) == OT_OK) whole++, ot_pixels_free(&x);
            else damaged++;
        }
        free(p);
        if (!SANITIZED && resident_mib() - before > PATIENCE_MIB)
            fail_msg("%s: takes %ld MiB", f->name, resident_mib() - before);
    }
    print_message("bits turned: %ld refused, %ld read; %ld MiB\n", damaged, whole, resident_mib());
}

/* ---- headers that boast -------------------------------------------------------- */

static void refused(const char *what, const uint8_t *p, size_t n, int64_t most, const char *text)
{
    ot_pixels x;
    ot_error err = { 0 };
    long before = resident_mib();
    ot_status s = ot_picture_decode(p, n, most, &x, &err);
    if (s != OT_E_DATA || !strstr(err.text, text)) fail_msg("%s: status %d, '%s'", what, (int)s, err.text);
    if (!SANITIZED && resident_mib() - before > 100) fail_msg("%s: takes %ld MiB", what, resident_mib() - before);
}

static void big(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static fixture copy_of(const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(list[i].name, name) != 0) continue;
        fixture f = list[i];
        f.p = malloc(f.n);
        memcpy(f.p, list[i].p, f.n);
        return f;
    }
    return (fixture){ 0 };
}

static void png_head(uint8_t *p, uint32_t size)
{
    big(p + 16, size);
    big(p + 20, size);
    big(p + 29, (uint32_t)crc32(0, p + 12, 17));
}

/* Whole, and good: 50000 x 50000 zeros of one bit. */
static void png_of_zeros(void)
{
    enum { ROOM = 4 << 20, ROW = 1 + 6250, ROWS = 50000 };
    static const uint8_t row[ROW];
    uint8_t *p = malloc(ROOM);
    memcpy(p, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\0\1\0\0\0\0", 29);
    png_head(p, ROWS);
    memcpy(p + 37, "IDAT", 4);
    z_stream z = { .next_out = p + 41, .avail_out = ROOM - 41 - 16 };
    assert_int_equal(deflateInit(&z, 1), Z_OK);
    for (int y = 0; y < ROWS; y++) {
        z.next_in = (uint8_t *)row;
        z.avail_in = ROW;
        assert_int_equal(deflate(&z, y + 1 < ROWS ? Z_NO_FLUSH : Z_FINISH), y + 1 < ROWS ? Z_OK : Z_STREAM_END);
    }
    size_t n = z.total_out;
    deflateEnd(&z);
    big(p + 33, (uint32_t)n);
    big(p + 41 + n, (uint32_t)crc32(0, p + 37, (uInt)n + 4));
    memcpy(p + 45 + n, "\0\0\0\0IEND\xae\x42\x60\x82", 12);
    print_message("a PNG of 50000 x 50000 in %zu bytes\n", n + 57);
    refused("PNG of 50000 x 50000", p, n + 57, 1 << 24, "it has 50000 x 50000 pixels; the limit is 16777216");
    free(p);
}

static void refuses_bombs(void **state)
{
    static const uint8_t bmp[] =
        "BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\0\0\1\0\0\0\1\0\1\0\x08\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\1";
    (void)state;
    png_of_zeros();
    fixture f = copy_of("rgb.png");
    png_head(f.p, 50000);
    refused("PNG that is too small", f.p, f.n, INT64_MAX, "are too few for");
    free(f.p);
    refused("BMP of 65536 x 65536", bmp, sizeof bmp - 1, 1 << 24, "the limit is");
    refused("PPM of 2^31 squared", (const uint8_t *)"P6 2147483647 2147483647 255\n123", 32, INT64_MAX, "truncated");
    f = copy_of("420.jpg");
    for (size_t i = 2; i + 9 < f.n; i += 2 + (f.p[i + 2] << 8 | f.p[i + 3])) {
        if (f.p[i + 1] == 0xc0) memcpy(f.p + i + 5, "\xff\xdc\xff\xdc", 4);
        if (f.p[i + 1] == 0xda) break;
    }
    refused("JPEG of 65500 x 65500", f.p, f.n, 1 << 24, "65500 x 65500");
    free(f.p);
    f = copy_of("lossless.webp"); /* 14 bits each, behind the signature */
    memcpy(f.p + 21, "\xff\xff\xff\x0f", 4);
    refused("WebP of 16384 x 16384", f.p, f.n, 1 << 24, "16384 x 16384");
    free(f.p);
    f = copy_of("grey16.j2k");
    if (f.p) {
        big(f.p + 8, 1 << 30), big(f.p + 12, 1 << 30); /* of tiles as small as they are */
        refused("JPEG 2000 of many tiles", f.p, f.n, INT64_MAX, "tiles");
        big(f.p + 24, 1 << 30), big(f.p + 28, 1 << 30);
        refused("JPEG 2000 of 2^30 squared", f.p, f.n, 1 << 24, "the limit is");
        big(f.p + 8, UINT32_MAX), big(f.p + 12, UINT32_MAX);
        refused("JPEG 2000 of 2^32 squared", f.p, f.n, INT64_MAX, "extends to");
        free(f.p);
        f = copy_of("precincts.jp2");
        size_t at = 0;
        while (memcmp(f.p + at, "\xff\x52", 2) != 0) at++; /* the coding style; precincts of one pixel */
        size_t siz = at;
        while (memcmp(f.p + siz, "\xff\x51", 2) != 0) siz--;
        memset(f.p + at + 14, 0, (size_t)f.p[at + 9] + 1);
        for (size_t i = 6; i <= 22; i += 16) big(f.p + siz + i, 2000), big(f.p + siz + i + 4, 2000); /* one tile */
        refused("JPEG 2000 of precincts of one pixel", f.p, f.n, 1 << 24, "precincts");
        free(f.p);
    }
    f = copy_of("white.tif");
    if (f.p) { /* entries of 12 bytes, the width first: one strip of 30000 x 30000 */
        memcpy(f.p + 10 + 8, "\x30\x75\0\0", 4);
        memcpy(f.p + 10 + 12 + 8, "\x30\x75\0\0", 4);
        refused("TIFF of 30000 x 30000", f.p, f.n, 1 << 24, "the limit is");
        for (size_t i = 10; i < 10 + 12 * 9; i += 12)
            if (f.p[i] == 0x16 && f.p[i + 1] == 1) memcpy(f.p + i + 8, "\x30\x75", 2);
        refused("TIFF of one huge strip", f.p, f.n, 1 << 24, "the limit is");
        free(f.p);
    }
}

static void says_what_it_is(void **state)
{
    (void)state;
    refused("GIF", (const uint8_t *)"GIF89a", 6, MOST, "supported format");
    refused("nothing", (const uint8_t *)"", 0, MOST, "no data");
    fixture f = copy_of("420.jpg");
    refused("cut", f.p, f.n - 20, MOST, "truncated after");
    free(f.p);
    f = copy_of("rgb.png");
    f.p[f.n - 20] ^= 1;
    refused("checksum", f.p, f.n, MOST, "PNG: ");
    free(f.p);
    f = copy_of("rgb.png");
    refused("limit", f.p, f.n, 14 * 21 - 1, "it has 21 x 14 pixels; the limit is 293");
    free(f.p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_what_the_list_says),
        cmocka_unit_test(transparent_colour),
        cmocka_unit_test(equals_pillow),
        cmocka_unit_test(keeps_all_of_16_bits),
        cmocka_unit_test(luma_is_pillows),
        cmocka_unit_test(says_what_it_is),
        cmocka_unit_test(refuses_what_is_cut),
        cmocka_unit_test(survives_turned_bits),
        cmocka_unit_test(refuses_bombs),
    };
    if (argc > 1) flips = atoi(argv[1]);
    return cmocka_run_group_tests(tests, load_all, free_all);
}
