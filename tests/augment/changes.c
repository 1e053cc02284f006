/* changes.c - each change of an image against torchvision's result for the same parameters (fixtures/changes). */
#include "tests/augment/augment.h"

#include <stdio.h>

#include "runtime/picture/augment_internal.h"

enum { MOST = 1 << 14 };

typedef struct row {
    const char *name;
    void (*change)(ot_canvas *c, const double *v);
} row;

static const uint8_t black[4], seven[4] = { 7, 7, 7, 7 };

static void brightness(ot_canvas *c, const double *v) { ot_canvas_brightness(c, v[0]); }
static void contrast(ot_canvas *c, const double *v) { ot_canvas_contrast(c, v[0]); }
static void saturation(ot_canvas *c, const double *v) { ot_canvas_saturation(c, v[0]); }
static void hue(ot_canvas *c, const double *v) { ot_canvas_hue(c, v[0]); }
static void sharpness(ot_canvas *c, const double *v) { ot_canvas_sharpness(c, v[0]); }
static void posterize(ot_canvas *c, const double *v) { ot_canvas_posterize(c, (int)v[0]); }
static void solarize(ot_canvas *c, const double *v) { ot_canvas_solarize(c, v[0]); }
static void blur(ot_canvas *c, const double *v) { ot_canvas_blur(c, (int)v[0], v[1]); }

#define PLAIN(name)                                                                                \
    static void name(ot_canvas *c, const double *v)                                                \
    {                                                                                              \
        (void)v;                                                                                   \
        ot_run_##name(NULL, NULL, c);                                                              \
    }
PLAIN(invert)
PLAIN(autocontrast)
PLAIN(equalize)
PLAIN(grey)

static void affine(ot_canvas *c, const double *v)
{
    ot_affine a = { v[0], v[1], v[2], v[3], v[4], v[5], 0, 0 };
    ot_canvas_affine(c, &a, (ot_resample)v[6], v[6] == 0 ? seven : black);
}

static void rotate(ot_canvas *c, const double *v)
{
    ot_affine a = { -v[0], 0, 0, 1, 0, 0, 0, 0 };
    ot_canvas_affine(c, &a, (ot_resample)v[1], black);
}

static void perspective(ot_canvas *c, const double *v)
{
    const double edge[8] = { 0, 0, 21, 0, 21, 21, 0, 21 };
    double m[9];
    assert_true(ot_perspective(v, edge, m));
    ot_canvas_warp(c, m, (ot_resample)v[8], black);
}

#define ROW(name) { #name, name }
static const row rows[] = { ROW(brightness), ROW(contrast), ROW(saturation), ROW(hue),    ROW(sharpness),
                            ROW(posterize),  ROW(solarize), ROW(invert),     ROW(grey),   ROW(autocontrast),
                            ROW(equalize),   ROW(blur),     ROW(affine),     ROW(rotate), ROW(perspective) };

/* Noise on slopes, as make_fixtures.py has it. */
static void fill(ot_image *m)
{
    for (int64_t i = 0; i < m->height; i++)
        for (int64_t j = 0; j < m->width; j++)
            for (int c = 0; c < m->channels; c++) {
                uint8_t *p = &m->data[i * m->stride + j * m->channels + c];
                int64_t slope = c == 0 ? j * 200 / m->width : c == 1 ? i * 200 / m->height : (j * 5 + i * 11) % 200;
                *p = (uint8_t)(slope + (*p >> 3));
            }
}

/* Results may differ by a grey level in one of 500 elements, those of `nearest` in one of 200 by more: a coordinate in the
 * middle of two pixels. */
static void compare(const char *name, const ot_image *m, const uint8_t *y, FILE *of, bool nearest)
{
    static uint8_t expected[MOST];
    int64_t n = m->height * m->width * m->channels, near = 0, far = 0;
    assert_true(n <= MOST && fread(expected, 1, (size_t)n, of) == (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        int d = abs(y[i] - expected[i]);
        near += d == 1;
        far += d > 1;
    }
    if (near * 500 > n + 500 || far * 200 > (nearest ? n : 0))
        fail_msg("%s of %d x %d x %d: %d of %d elements differ by 1, %d by more", name, (int)m->height, (int)m->width,
                 m->channels, (int)near, (int)n, (int)far);
}

static void equal_torchvision(void **state)
{
    FILE *f = fopen(FIXTURES "changes", "r"), *results = fopen(FIXTURES "changes.bin", "rb");
    static uint8_t spare[MOST], scratch[5 * MOST];
    long h, w;
    int c, n, cases[OT_LEN(rows)] = { 0 };
    char name[32];
    (void)state;
    assert_non_null(f);
    assert_non_null(results);
    while (fscanf(f, "%ld %ld %d %31s %d", &h, &w, &c, name, &n) == 5) {
        double v[16];
        const row *r = rows;
        for (int i = 0; i < n; i++) assert_int_equal(fscanf(f, "%lf", &v[i]), 1);
        while (r < rows + OT_LEN(rows) && strcmp(r->name, name)) r++;
        assert_true(r < rows + OT_LEN(rows));
        ot_image m = noise(h, w, c);
        fill(&m);
        ot_canvas q = { .now = m.data, .spare = spare, .height = h, .width = w, .channels = c, .scratch = scratch };
        r->change(&q, v);
        bool warp = !strcmp(name, "affine") || !strcmp(name, "rotate") || !strcmp(name, "perspective");
        compare(name, &m, q.now, results, warp && v[n - 1] == 0);
        free(m.data);
        cases[r - rows]++;
    }
    assert_true(feof(f) && fgetc(results) == EOF); /* every line was read, and every result compared */
    fclose(f);
    fclose(results);
    for (int i = 0; i < OT_LEN(rows); i++)
        if (!cases[i]) fail_msg("%s: no result of torchvision", rows[i].name);
}

int test_changes(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equal_torchvision) };
    return cmocka_run_group_tests_name("changes", tests, NULL, NULL);
}
