/* random.c - compares Philox with its published answers, normal numbers with their moments. */
#include "test.h"

#include <math.h>

#include "runtime/base/random.h"

/* Known answers of Random123 1.14 for philox4x32 with 10 rounds. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, lo, hi;
        uint32_t r[4];
    } row[] = {
        { 0, 0, 0, { 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8 } },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD } },
        { UINT64_C(0x299F31D0A4093822),
          UINT64_C(0x85A308D3243F6A88),
          UINT64_C(0x0370734413198A2E),
          { 0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1 } },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        uint32_t r[4];
        ot_philox(row[i].key, row[i].lo, row[i].hi, r);
        for (int k = 0; k < 4; k++) assert_int_equal(r[k], row[i].r[k]);
    }
}

static void uniform_stays_below_one(void **state)
{
    (void)state;
    assert_true(ot_uniform(0) == 0.0f);
    assert_true(ot_uniform(UINT32_MAX) < 1.0f);
}

static void normal_moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    double m[4] = { 0 };
    for (int i = 0; i < N; i++) {
        double v = ot_normal(7, OT_STREAM_INIT, (uint64_t)i);
        assert_true(isfinite(v));
        for (int k = 0; k < 4; k++) m[k] += pow(v, k + 1) / N;
    }
    assert_true(fabs(m[0]) < 0.01 && fabs(m[1] - 1) < 0.02 && fabs(m[2]) < 0.05 && fabs(m[3] - 3) < 0.15);
    assert_true(ot_normal(7, 1, 0) != ot_normal(8, 1, 0) && ot_normal(7, 1, 0) != ot_normal(7, 2, 0));
}

int ot_test_random(void)
{
    const struct CMUnitTest random[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(uniform_stays_below_one),
        cmocka_unit_test(normal_moments),
    };
    return cmocka_run_group_tests(random, NULL, NULL);
}
