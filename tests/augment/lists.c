/* lists.c - lists of augmentations: what is refused; draws that depend on seed, epoch, sample and step alone; how often, and
 * in which range; maps, matrices and boxes follow the image. */
#include "tests/augment/augment.h"

#include <math.h>

#include "runtime/picture/augment.h"
#include "runtime/train/options/specs.h"

enum { H = 24, W = 31, SAMPLES = 2000 };

static const ot_fit plain = { .mode = OT_FIT_STRETCH, .filter = OT_BILINEAR };

typedef struct bed {
    ot_arena *a;
    ot_augment *g;
    ot_error err;
} bed;

/* The status of a list of texts, for images of h x w x c. */
static ot_status make(bed *b, const char *const *text, int64_t h, int64_t w, int c)
{
    ot_spec spec[8];
    int n = 0;
    if (b->a) ot_arena_free(b->a);
    *b = (bed){ .a = ot_arena_new() };
    for (; text[n]; n++) OT_TRY(ot_spec_parse(text[n], &ot_augmentations, NULL, b->a, &spec[n], &b->err));
    return ot_augment_make(spec, n, h, w, c, b->a, &b->g, &b->err);
}

#define MAKE(b, c, ...)                                                                            \
    do {                                                                                           \
        if (make(&(b), (const char *const[]){ __VA_ARGS__, NULL }, H, W, c)) fail_msg("%s", (b).err.text); \
    } while (0)

/* The result for one key, malloc'ed; map: room for H x W, or NULL. */
static uint8_t *run(const bed *b, const ot_image *from, int64_t h, int64_t w, ot_augment_key key,
                    ot_augment_geometry *how)
{
    ot_image to = { malloc((size_t)(h * w * from->channels)), h, w, from->channels, w * from->channels };
    size_t n = ot_augment_scratch(b->g, &plain, from->height, from->width, &to);
    uint8_t *scratch = malloc(n + 1); /* not aligned; ASan sees what is behind it */
    ot_augment_run(b->g, &plain, from, &to, how, &key, scratch + 1);
    free(scratch);
    return to.data;
}

/* Every pixel says where it was: row in the first channel, column in the second. */
static ot_image places(void)
{
    ot_image m = noise(H, W, 3);
    for (int i = 0; i < H * W; i++) m.data[3 * i] = (uint8_t)(i / W + 1), m.data[3 * i + 1] = (uint8_t)(i % W + 1);
    return m;
}

static const char *const all[] = { "flip",
                                   "vertical_flip",
                                   "crop:padding=5",
                                   "crop:padding=9,padding_mode=reflect",
                                   "rotate:degrees=180",
                                   "affine:degrees=20,translate=0.2,scale=[0.6,1.5],shear=[-20,20,-5,5]",
                                   "perspective:interpolation=nearest",
                                   "jitter:brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1",
                                   "grey",
                                   "blur",
                                   "sharpness:sharpness_factor=2",
                                   "invert",
                                   "posterize:bits=3",
                                   "solarize:threshold=100",
                                   "autocontrast",
                                   "equalize",
                                   "erase:value=random",
                                   "cutout:size=9",
                                   "rand_augment",
                                   "trivial_augment",
                                   "resized_crop",
                                   "noise:std=0.1" };

static void draws_depend_on_the_key_alone(void **state)
{
    bed b = { 0 };
    ot_image m = noise(H, W, 3);
    (void)state;
    for (int i = 0; i < H * W * 3; i++)
        m.data[i] = (uint8_t)(40 + m.data[i] / 2); /* not all values: autocontrast changes them */
    for (int i = 0; i < OT_LEN(all); i++) {
        MAKE(b, 3, all[i]);
        int other[3] = { 0 };
        for (uint64_t s = 0; s < 20; s++) {
            ot_augment_key key = { 5, 2, s };
            uint8_t *y = run(&b, &m, H, W, key, NULL), *again = run(&b, &m, H, W, key, NULL);
            assert_memory_equal(y, again, H * W * 3);
            for (int k = 0; k < 3; k++) {
                ot_augment_key q = { 5 + (k == 0), 2 + (k == 1), s + 20 * (k == 2) };
                uint8_t *z = run(&b, &m, H, W, q, NULL);
                other[k] += memcmp(y, z, H * W * 3) != 0;
                free(z);
            }
            free(y);
            free(again);
        }
        bool fixed = !strcmp(all[i], "blur"); /* every one differs a little */
        for (int k = 0; k < 3; k++)
            if (!other[k] || (fixed && other[k] < 20)) fail_msg("%s: %d does not matter", all[i], k);
    }
    ot_arena_free(b.a);
    free(m.data);
}

/* One more step at the end leaves what the others draw. */
static void steps_draw_apart(void **state)
{
    bed b = { 0 };
    ot_image m = places();
    (void)state;
    for (uint64_t s = 0; s < 50; s++) {
        ot_augment_key key = { 1, 0, s };
        int32_t one[H * W], two[H * W];
        ot_augment_geometry x = { .map = one }, y = { .map = two };
        MAKE(b, 3, "flip", "crop", "rotate:degrees=40");
        free(run(&b, &m, H, W, key, &x));
        MAKE(b, 3, "flip", "crop", "rotate:degrees=40", "jitter:hue=0.2", "erase:p=1");
        free(run(&b, &m, H, W, key, &y));
        assert_memory_equal(one, two, sizeof one);
    }
    ot_arena_free(b.a);
    free(m.data);
}

/* The map, which is also made without an image, is where the pixels of the image come from; the matrix says the same. */
static void maps_follow(void **state)
{
    bed b = { 0 };
    ot_image m = places(), none = m;
    (void)state;
    none.data = NULL;
    for (int i = 0; i < OT_LEN(all); i++) {
        MAKE(b, 3, all[i]);
        if (!ot_augment_moves(b.g) || !strcmp(all[i], "resized_crop")) continue; /* resized pixels are mixed ones */
        bool exact = !strstr(all[i], "_augment");                                /* these also change values */
        for (uint64_t s = 0; s < 30; s++) {
            MAKE(b, 3, all[i], "flip");
            int32_t map[H * W], alone[H * W];
            ot_augment_geometry how = { .map = map }, only = { .map = alone };
            ot_image to = { NULL, H, W, 3, W * 3 };
            ot_augment_key key = { 3, 1, s };
            uint8_t *y = run(&b, &m, H, W, key, &how), *scratch = malloc(ot_augment_scratch(b.g, &plain, H, W, &to));
            ot_augment_run(b.g, &plain, &none, &to, &only, &key, scratch);
            assert_memory_equal(map, alone, sizeof map);
            assert_memory_equal(how.matrix, only.matrix, sizeof how.matrix);
            for (int k = 0; k < H * W && exact; k++) {
                int at = y[3 * k] ? (y[3 * k] - 1) * W + y[3 * k + 1] - 1 : -1;
                assert_int_equal(map[k], at);
                if (at < 0 || all[i][0] == 'c') continue; /* reflected pixels are not where the matrix says */
                const double *a = how.matrix, u = k % W + 0.5, v = k / W + 0.5, z = a[6] * u + a[7] * v + a[8];
                double x = (a[0] * u + a[1] * v + a[2]) / z, t = (a[3] * u + a[4] * v + a[5]) / z;
                if (fabs(x - (at % W + 0.5)) > 0.500001 || fabs(t - (at / W + 0.5)) > 0.500001)
                    fail_msg("%s: pixel %d is of %d, the matrix says (%g, %g)", all[i], k, at, x, t);
            }
            free(scratch);
            free(y);
        }
    }
    ot_arena_free(b.a);
    free(m.data);
}

static void boxes_follow(void **state)
{
    bed b = { 0 };
    ot_image m = places();
    ot_augment_geometry how = { 0 };
    double y[4], box[4] = { 3, 4, 10, 20 }, far[4] = { 0, 0, 1, 1 };
    (void)state;
    MAKE(b, 3, "flip:p=1", "vertical_flip:p=1");
    free(run(&b, &m, H, W, (ot_augment_key){ 0, 0, 0 }, &how));
    assert_true(ot_augment_box(how.matrix, H, W, box, y));
    double expected[4] = { W - 10, H - 20, W - 3, H - 4 };
    for (int i = 0; i < 4; i++) assert_true(fabs(y[i] - expected[i]) < 1e-9);
    MAKE(b, 3, "affine:translate=0,scale=[2,2]"); /* around the middle: the corner is outside */
    free(run(&b, &m, H, W, (ot_augment_key){ 0, 0, 0 }, &how));
    assert_true(ot_augment_box(how.matrix, H, W, box, y));
    assert_true(fabs(y[2] - (2 * 10 - W / 2.)) < 1e-9 && y[0] == 0 && y[1] == 0 && fabs(y[3] - H) < 1e-9);
    assert_false(ot_augment_box(how.matrix, H, W, far, y));
    ot_arena_free(b.a);
    free(m.data);
}

/* How often a step with p is applied, and the parts that resized_crop takes: within 4 standard deviations of what they should be. */
static void probabilities_hold(void **state)
{
    bed b = { 0 };
    ot_image m = places();
    int flips = 0;
    double area = 0, low = 1, high = 0;
    (void)state;
    for (uint64_t s = 0; s < SAMPLES; s++) {
        ot_augment_geometry how = { 0 };
        MAKE(b, 3, "flip:p=0.3");
        free(run(&b, &m, H, W, (ot_augment_key){ 0, 0, s }, &how));
        flips += how.matrix[0] < 0;
        MAKE(b, 3, "resized_crop:scale=[0.2,0.6]");
        free(run(&b, &m, H, W, (ot_augment_key){ 0, 0, s }, &how));
        double part = how.matrix[0] * how.matrix[4], ratio = how.matrix[0] * W / (how.matrix[4] * H);
        area += part / SAMPLES;
        low = part < low ? part : low;
        high = part > high ? part : high;
        assert_true(ratio > 0.68 && ratio < 1.45);
    }
    assert_true(abs(flips - 600) < 4 * 21);
    assert_true(fabs(area - 0.4) < 4 * 0.116 / 44 && low > 0.17 && high < 0.64 && low < 0.22 && high > 0.58);
    ot_arena_free(b.a);
    free(m.data);
}

static void resized_crop_takes_large_images(void **state)
{
    bed b = { 0 };
    ot_image m = noise(90, 120, 3);
    (void)state;
    MAKE(b, 3, "resized_crop", "flip", "rand_augment", "blur:kernel_size=5");
    assert_int_equal(ot_augment_steps(b.g), 4);
    assert_string_equal(ot_augment_text(b.g), "resized_crop, flip, rand_augment, blur:kernel_size=5");
    for (uint64_t s = 0; s < 50; s++) free(run(&b, &m, 32, 32, (ot_augment_key){ 0, 0, s }, NULL));
    ot_arena_free(b.a);
    free(m.data);
}

static void automatic_fits_the_images(void **state)
{
    static const struct {
        int64_t side;
        int channels;
        const char *text;
    } rows[] = { { 28, 1, "crop" }, { 32, 3, "flip, crop" }, { 224, 3, "resized_crop, flip" }, { 224, 1, "crop" } };
    bed b = { 0 };
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++) {
        assert_int_equal(make(&b, (const char *const[]){ "auto", NULL }, rows[i].side, rows[i].side, rows[i].channels),
                         OT_OK);
        assert_string_equal(ot_augment_text(b.g), rows[i].text);
    }
    ot_arena_free(b.a);
}

static void contradictions_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = { { "flip:p=2", "p=2" },
                 { "flop", "unknown augment 'flop'" },
                 { "crop:padding=-1", "padding=-1" },
                 { "rotate", "needs degrees" },
                 { "rotate:degrees=[3,1]", "low not above high" },
                 { "affine:scale=2", "scale" },
                 { "affine:translate=[1,1,1]", "translate: expected" },
                 { "affine:shear=[1,2,3]", "shear: expected" },
                 { "blur:kernel_size=4", "an odd number" },
                 { "jitter:brightness=[1,0.5]", "brightness" },
                 { "rand_augment:magnitude=31", "below num_magnitude_bins" },
                 { "erase:value=[1,2]", "one value or one per channel (3), got 2" },
                 { "crop:fill=[1,2,3,4]", "one per channel (3), got 4" },
                 { "resized_crop:scale=[0.5,0.1]", "scale: expected" } };
    bed b = { 0 };
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++) {
        assert_int_equal(make(&b, (const char *const[]){ rows[i].text, NULL }, H, W, 3), OT_E_USAGE);
        if (!strstr(b.err.text, rows[i].says)) fail_msg("%s: says %s", rows[i].text, b.err.text);
    }
    assert_int_equal(make(&b, (const char *const[]){ "none", "flip", NULL }, H, W, 3), OT_E_USAGE);
    assert_int_equal(make(&b, (const char *const[]){ "resized_crop", "resized_crop", NULL }, H, W, 3), OT_E_USAGE);
    ot_arena_free(b.a);
}

int test_lists(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(draws_depend_on_the_key_alone),
                                        cmocka_unit_test(steps_draw_apart),
                                        cmocka_unit_test(maps_follow),
                                        cmocka_unit_test(boxes_follow),
                                        cmocka_unit_test(probabilities_hold),
                                        cmocka_unit_test(resized_crop_takes_large_images),
                                        cmocka_unit_test(automatic_fits_the_images),
                                        cmocka_unit_test(contradictions_are_refused) };
    return cmocka_run_group_tests_name("lists", tests, NULL, NULL);
}
