/* normalize.c - --normalize: accepted values, statistics, scaled pixels. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void accepted_texts(void **state)
{
    (void)state;
    ot_normalize z;
    ot_error e = { 0 };
    assert_int_equal(ot_normalize_parse(NULL, &z, &e), OT_OK);
    assert_int_equal(z.kind, OT_NORMALIZE_UNIT);
    assert_int_equal(ot_normalize_parse("1/255", &z, &e), OT_OK);
    assert_int_equal(z.kind, OT_NORMALIZE_UNIT);
    assert_int_equal(ot_normalize_parse("none", &z, &e), OT_OK);
    assert_int_equal(z.kind, OT_NORMALIZE_NONE);
    assert_int_equal(ot_normalize_parse("mean,std", &z, &e), OT_OK);
    assert_int_equal(z.kind, OT_NORMALIZE_MEASURE);
    assert_int_equal(ot_normalize_parse("imagenet", &z, &e), OT_OK);
    assert_true(z.kind == OT_NORMALIZE_GIVEN && z.channels == 3 && z.mean[2] == 0.406);
    assert_int_equal(ot_normalize_parse("0.1307,.3081", &z, &e), OT_OK);
    assert_true(z.channels == 1 && z.mean[0] == 0.1307 && z.std[0] == 0.3081);
    assert_int_equal(ot_normalize_parse("[0.5,-1e-1],[1,2]", &z, &e), OT_OK);
    assert_true(z.channels == 2 && z.mean[1] == -0.1 && z.std[1] == 2);
}

static void refused_texts(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "half",     "1/256",    "0.5",       "0.5,",      ",0.5",   "0.5,0", "0.5,-1",
        "0.5,nan",  "inf,1",    "[1,2],3",   "[1,2],[3]", "[1,2",   "[],[]", "0.5,0.5,0.5",
        " 0.5,0.5", "0.5,0.5x", "mean, std", "0x1,1",     "0.5,1]",
    };
    static char many[4 * OT_MAX_CHANNELS + 16]; /* one channel more than there may be */
    char *to = many;
    for (int list = 0; list < 2; list++)
        for (int i = 0; i <= OT_MAX_CHANNELS; i++)
            to += sprintf(to, "%s1%s", i ? "," : list ? ",[" : "[", i == OT_MAX_CHANNELS ? "]" : "");
    assert_int_equal(ot_normalize_parse(many, &(ot_normalize){ 0 }, &(ot_error){ 0 }), OT_E_USAGE);
    for (int i = 0; i < OT_LEN(bad); i++) {
        ot_normalize z;
        ot_error e = { 0 };
        if (ot_normalize_parse(bad[i], &z, &e) != OT_E_USAGE) fail_msg("'%s' was accepted", bad[i]);
        assert_non_null(strstr(e.text, bad[i]));
    }
}

/* Two channels of known mean and deviation, in both layouts. */
static void measured(void **state)
{
    (void)state;
    uint8_t first[2 * 3 * 4] = { 0 }, last[2 * 3 * 4] = { 0 };
    double sum[3] = { 0 }, square[3] = { 0 };
    for (int s = 0; s < 2; s++)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 4; i++) {
                uint8_t v = (uint8_t)(c * 40 + i * 17 + s * 3);
                first[s * 12 + c * 4 + i] = last[s * 12 + i * 3 + c] = v;
                sum[c] += v / 255.0 / 8;
                square[c] += v / 255.0 * v / 255.0 / 8;
            }
    for (int k = 0; k < 2; k++) {
        ot_array a = { .t = { .name = "", .dtype = OT_U8, .rank = 4, .data = k ? last : first }, .picture = true };
        memcpy(a.t.dim, k ? (int64_t[]){ 2, 2, 2, 3 } : (int64_t[]){ 2, 3, 2, 2 }, 4 * sizeof(int64_t));
        ot_picture q;
        assert_true(ot_picture_of(&a, &q));
        assert_true(q.c == 3 && q.h == 2 && q.w == 2 && q.channels_last == (k == 1));
        ot_normalize z;
        ot_error e = { 0 };
        ot_gather g = { .src = &a };
        char line[256];
        assert_int_equal(ot_normalize_parse("mean,std", &z, &e), OT_OK);
        assert_int_equal(ot_normalize_apply(&z, 3, &g, line, &e), OT_E_INTERNAL);
        e = (ot_error){ 0 };
        assert_int_equal(ot_normalize_fit(&z, &a, &e), OT_OK);
        assert_int_equal(ot_normalize_apply(&z, 3, &g, line, &e), OT_OK);
        assert_true(g.scale && g.channels == 3);
        for (int c = 0; c < 3; c++) {
            double std = sqrt(square[c] - sum[c] * sum[c]);
            assert_true(fabs(z.mean[c] - sum[c]) < 1e-12 && fabs(z.std[c] - std) < 1e-12);
            double y = 100 * (double)g.mul[c] + (double)g.add[c];
            assert_true(fabs(y - (100 / 255.0 - sum[c]) / std) < 1e-5);
        }
        assert_non_null(strstr(line, "mean ["));
    }
}

static void applied(void **state)
{
    (void)state;
    ot_normalize z;
    ot_gather g = { 0 };
    ot_error e = { 0 };
    char line[256];
    assert_int_equal(ot_normalize_parse("none", &z, &e), OT_OK);
    assert_int_equal(ot_normalize_apply(&z, 1, &g, line, &e), OT_OK);
    assert_false(g.scale);
    assert_int_equal(ot_normalize_parse("", &z, &e), OT_OK);
    assert_int_equal(ot_normalize_apply(&z, 1, &g, line, &e), OT_OK);
    assert_true(g.scale && g.channels == 1 && g.mul[0] == 1 / 255.f && g.add[0] == 0);
    assert_int_equal(ot_normalize_parse("imagenet", &z, &e), OT_OK);
    assert_int_equal(ot_normalize_apply(&z, 1, &g, line, &e), OT_E_DATA); /* grey pictures */
    e = (ot_error){ 0 };
    ot_array none = { .t = { .dtype = OT_F32, .rank = 2, .dim = { 1, 1 } } };
    assert_int_equal(ot_normalize_parse("mean,std", &z, &e), OT_OK);
    assert_int_equal(ot_normalize_fit(&z, &none, &e), OT_E_DATA);
    uint8_t black[4] = { 0 };
    ot_array flat = { .t = { .dtype = OT_U8, .rank = 3, .dim = { 1, 2, 2 }, .data = black }, .picture = true };
    e = (ot_error){ 0 };
    assert_int_equal(ot_normalize_fit(&z, &flat, &e), OT_OK);
    assert_int_equal(ot_normalize_apply(&z, 1, &g, line, &e), OT_OK);
    assert_true(isfinite(g.mul[0]) && g.add[0] == 0);
}

int ot_test_normalize(void)
{
    const struct CMUnitTest normalize[] = {
        cmocka_unit_test(accepted_texts),
        cmocka_unit_test(refused_texts),
        cmocka_unit_test(measured),
        cmocka_unit_test(applied),
    };
    return cmocka_run_group_tests(normalize, NULL, NULL);
}
