/* resize.c - resized pictures equal Pillow's and torchvision's byte for byte (fixtures/resize); parts of pictures; the
 * scratch is enough, and no byte outside the target changes. */
#include "tests/augment/augment.h"

#include <stdio.h>
#include <zlib.h>

enum { EDGE = 16 };

/* `from` fitted in a target with bytes around every row, which stay, as do those behind the scratch. */
static uint32_t fitted(const ot_fit *fit, const ot_image *from, int64_t h, int64_t w)
{
    int64_t stride = w * from->channels + EDGE;
    uint8_t *all = malloc((size_t)(h * stride + EDGE)), *scratch;
    ot_image to = { all + EDGE, h, w, from->channels, stride };
    size_t n = ot_image_fit_scratch(fit, from->height, from->width, &to);
    uint32_t sum = 0;
    memset(all, 0x5a, (size_t)(h * stride + EDGE));
    scratch = malloc(n + EDGE);
    memset(scratch + n, 0x5a, EDGE);
    ot_image_fit(fit, from, &to, scratch);
    for (int64_t i = 0; i < EDGE; i++) {
        assert_int_equal(scratch[n + (size_t)i], 0x5a);
        for (int64_t r = 0; r <= h; r++) assert_int_equal(all[r * stride + i], 0x5a);
    }
    for (int64_t r = 0; r < h; r++) sum = (uint32_t)crc32(sum, to.data + r * stride, (uInt)(w * from->channels));
    free(scratch);
    free(all);
    return sum;
}

static void equals_pillow(void **state)
{
    FILE *f = fopen(FIXTURES "resize", "r");
    long h, w, th, tw, shorter;
    int c, mode, filter, n = 0;
    unsigned sum;
    (void)state;
    assert_non_null(f);
    while (fscanf(f, "%ld %ld %d %ld %ld %d %d %ld %u", &h, &w, &c, &th, &tw, &mode, &filter, &shorter, &sum) == 9) {
        ot_image m = noise(h, w, c);
        ot_fit fit = { (ot_fit_mode)mode, (ot_resample)filter, shorter, { 10, 20, 30, 40 } };
        if (fitted(&fit, &m, th, tw) != sum)
            fail_msg("%ld x %ld x %d to %ld x %ld, mode %d, filter %d: differs from Pillow", h, w, c, th, tw, mode,
                     filter);
        free(m.data);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 5 * 22);
}

/* A part of a picture is resized as if it were alone: nothing around it is seen. */
static void sees_its_part_alone(void **state)
{
    ot_image whole = noise(60, 50, 3), part = whole, alone = noise(31, 23, 3);
    ot_fit fit = { .filter = OT_BICUBIC };
    (void)state;
    part.data += 7 * whole.stride + 5 * 3;
    part.height = 31, part.width = 23;
    for (int64_t i = 0; i < 31; i++) memcpy(alone.data + i * alone.stride, part.data + i * part.stride, 23 * 3);
    assert_int_equal(fitted(&fit, &part, 17, 40), fitted(&fit, &alone, 17, 40));
    free(whole.data);
    free(alone.data);
}

/* Whatever the aspect ratio of the source, the scratch for the largest is enough (ASan sees what is written behind). */
static void scratch_covers_all_shapes(void **state)
{
    static const int64_t side[] = { 1, 2, 9, 64, 301 };
    (void)state;
    for (int mode = 0; mode < 3; mode++)
        for (int filter = 0; filter < 5; filter++)
            for (int i = 0; i < 25; i++) {
                ot_image m = noise(side[i / 5], side[i % 5], 3);
                ot_fit fit = { (ot_fit_mode)mode, (ot_resample)filter, 0, { 0 } };
                ot_image to = { malloc(24 * 33 * 3), 24, 33, 3, 33 * 3 };
                assert_true(ot_image_fit_scratch(&fit, 301, 301, &to) >=
                            ot_image_fit_scratch(&fit, m.height, m.width, &to));
                (void)fitted(&fit, &m, 24, 33);
                free(to.data);
                free(m.data);
            }
}

static void refuses_sizes_beyond_counting(void **state)
{
    ot_image to = { NULL, 10, 10, 3, 30 };
    ot_fit fit = { .filter = OT_LANCZOS };
    (void)state;
    assert_true(ot_image_fit_scratch(&fit, INT64_MAX / 4, 10, &to) == SIZE_MAX);
}

int test_resize(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equals_pillow), cmocka_unit_test(sees_its_part_alone),
                                        cmocka_unit_test(scratch_covers_all_shapes),
                                        cmocka_unit_test(refuses_sizes_beyond_counting) };
    return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
