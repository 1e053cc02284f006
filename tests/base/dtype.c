/* dtype.c - element types: sizes, rounding, special values, packing. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "casts.h"

static const ot_dtype small[] = { OT_F16, OT_BF16, OT_F8E4M3FN, OT_F8E4M3FNUZ, OT_F8E5M2, OT_F8E5M2FNUZ, OT_F4E2M1 };

static double double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float float_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void names_and_bits(void **state)
{
    (void)state;
    assert_string_equal(ot_dtype_name(OT_F32), "float32");
    assert_string_equal(ot_dtype_name((ot_dtype)99), "unknown type");
    assert_int_equal(ot_dtype_bits(OT_I4), 4);
    assert_int_equal(ot_dtype_bits(OT_STRING), 0);
    assert_int_equal(ot_dtype_bits((ot_dtype)-1), 0);
    assert_true(ot_is_float(OT_F8E8M0) && !ot_is_float(OT_BOOL) && !ot_is_float(OT_STRING));
    assert_true(ot_is_int(OT_U2) && !ot_is_int(OT_BOOL));
    assert_true(ot_is_signed(OT_I2) && ot_is_signed(OT_F16) && !ot_is_signed(OT_U64));
}

static void casts_agree_with_ml_dtypes(void **state)
{
    (void)state;
    for (int i = 0; i < OT_LEN(cast); i++) {
        double v = double_of(cast[i].bits);
        uint32_t got = ot_float_encode(v, cast[i].t, false);
        if (isnan(ot_float_decode(got, cast[i].t)) && isnan(ot_float_decode(cast[i].code, cast[i].t))) continue;
        if (got != cast[i].code) fail_msg("%g to %s: %x, not %x", v, ot_dtype_name(cast[i].t), got, cast[i].code);
    }
}

/* Every code survives a round trip; the midpoint of two neighbours rounds to the even one. */
static void codes_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < OT_LEN(small); i++) {
        ot_dtype t = small[i];
        uint32_t half = 1u << (ot_dtype_bits(t) - 1);
        for (uint32_t c = 0; c < 2 * half; c++) {
            double v = ot_float_decode(c, t);
            uint32_t back = ot_float_encode(v, t, false);
            if (isnan(v)) assert_true(isnan(ot_float_decode(back, t)));
            else assert_int_equal(back, c);
            double next = c + 1 < half ? ot_float_decode(c + 1, t) : (double)NAN;
            if (!isfinite(v) || !isfinite(next) || c >= half) continue;
            double middle = (v + next) / 2;
            assert_int_equal(ot_float_encode(middle, t, false), c & 1 ? c + 1 : c);
            assert_int_equal(ot_float_encode(nextafter(middle, 0), t, false), c);
            assert_int_equal(ot_float_encode(nextafter(middle, (double)INFINITY), t, false), c + 1);
        }
    }
}

/* The fast conversions of f32 agree with the general one. */
static void fast_halves_agree(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 4093) {
        float v = float_of((uint32_t)u);
        uint16_t h = ot_f32_to_f16(v), b = ot_f32_to_bf16(v);
        if (isnan(v)) {
            assert_true(isnan(ot_f16_to_f32(h)) && isnan(ot_bf16_to_f32(b)));
            continue;
        }
        assert_int_equal(h, ot_float_encode((double)v, OT_F16, true));
        assert_int_equal(b, ot_float_encode((double)v, OT_BF16, true));
    }
    for (uint32_t c = 0; c < 65536; c++) {
        float h = ot_f16_to_f32((uint16_t)c), b = ot_bf16_to_f32((uint16_t)c);
        assert_true(isnan(h) ? isnan(ot_float_decode(c, OT_F16)) : (double)h == ot_float_decode(c, OT_F16));
        assert_true(isnan(b) ? isnan(ot_float_decode(c, OT_BF16)) : (double)b == ot_float_decode(c, OT_BF16));
    }
    assert_int_equal(ot_f32_to_bf16(float_of(0x7F800001)) & 0x7FFF, 0x7FC0); /* NaN does not become infinite */
}

/* ONNX's Cast with saturate. */
static void saturation(void **state)
{
    (void)state;
    static const struct {
        ot_dtype t;
        uint32_t most, overflow, nan;
    } row[] = {
        { OT_F8E4M3FN, 0x7E, 0x7F, 0x7F },   { OT_F8E4M3FNUZ, 0x7F, 0x80, 0x80 }, { OT_F8E5M2, 0x7B, 0x7C, 0x7E },
        { OT_F8E5M2FNUZ, 0x7F, 0x80, 0x80 }, { OT_F4E2M1, 0x7, 0x7, 0x8 },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        assert_int_equal(ot_float_encode(1e9, row[i].t, true), row[i].most);
        assert_int_equal(ot_float_encode((double)INFINITY, row[i].t, true), row[i].most);
        assert_int_equal(ot_float_encode(1e9, row[i].t, false), row[i].overflow);
        assert_int_equal(ot_float_encode((double)NAN, row[i].t, true), row[i].nan);
    }
    assert_int_equal(ot_float_encode(1e9, OT_F16, true), 0x7C00);
    assert_int_equal(ot_float_encode(-0.0, OT_F8E4M3FNUZ, true), 0);
    assert_int_equal(ot_float_encode(5, OT_F8E8M0, true), 130); /* up to 8 */
    assert_int_equal(ot_float_encode(4, OT_F8E8M0, true), 129);
    assert_int_equal(ot_float_encode(0, OT_F8E8M0, true), 0);
    assert_int_equal(ot_float_encode((double)INFINITY, OT_F8E8M0, true), 0xFF);
}

static void elements_pack_and_wrap(void **state)
{
    (void)state;
    unsigned char b[8] = { 0 };
    for (int i = 0; i < 8; i++) ot_set_i64(b, OT_I4, i, i - 4);
    for (int i = 0; i < 8; i++) assert_int_equal(ot_get_i64(b, OT_I4, i), i - 4);
    assert_int_equal(b[0], 0xDC); /* element 0 is the low half */
    for (int i = 0; i < 4; i++) ot_set_i64(b, OT_U2, i, i);
    assert_int_equal(b[0], 0xE4);
    assert_true(ot_get_i64(b, OT_I2, 2) == -2 && ot_get_i64(b, OT_U2, 2) == 2);
    ot_set_f64(b, OT_F4E2M1, 1, -1.5);
    assert_true(ot_get_f64(b, OT_F4E2M1, 1) == -1.5);
    ot_set_i64(b, OT_U8, 0, -1);
    assert_int_equal(ot_get_i64(b, OT_U8, 0), 255);
    ot_set_f64(b, OT_U8, 0, 257.9);
    assert_int_equal(ot_get_i64(b, OT_U8, 0), 1);
    ot_set_f64(b, OT_I32, 0, -3.9);
    assert_int_equal(ot_get_i64(b, OT_I32, 0), -3);
    ot_set_f64(b, OT_BOOL, 0, 0.25);
    assert_int_equal(b[0], 1);
    ot_set_f64(b, OT_U64, 0, 0x1p63);
    assert_true(ot_get_f64(b, OT_U64, 0) == 0x1p63);
    ot_set_f64(b, OT_I64, 0, (double)NAN);
    assert_int_equal(ot_get_i64(b, OT_I64, 0), 0);
    ot_set_f64(b, OT_I64, 0, 1e300);
    assert_true(ot_get_i64(b, OT_I64, 0) == INT64_MAX);
    ot_set_i64(b + 1, OT_I16, 0, -300); /* no alignment is needed */
    assert_int_equal(ot_get_i64(b + 1, OT_I16, 0), -300);
    /* 2^60 + 1 is above the midpoint of two bfloat16 only by its last bit */
    int64_t middle = (INT64_C(1) << 60) + (INT64_C(1) << 52);
    ot_set_i64(b, OT_BF16, 0, middle);
    assert_true(ot_get_f64(b, OT_BF16, 0) == 0x1p60);
    ot_set_i64(b, OT_BF16, 0, middle + 1);
    assert_true(ot_get_f64(b, OT_BF16, 0) == 0x1p60 + 0x1p53);
}

int ot_test_dtype(void)
{
    const struct CMUnitTest dtype[] = {
        cmocka_unit_test(names_and_bits),   cmocka_unit_test(casts_agree_with_ml_dtypes),
        cmocka_unit_test(codes_round_trip), cmocka_unit_test(fast_halves_agree),
        cmocka_unit_test(saturation),       cmocka_unit_test(elements_pack_and_wrap),
    };
    return cmocka_run_group_tests(dtype, NULL, NULL);
}
