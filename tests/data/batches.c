/* batches.c - the order of samples; compares batches with the plain formula. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void order_is_a_permutation(void **state)
{
    (void)state;
    enum { N = 1000 };
    static int64_t order[N], again[N];
    for (int64_t n = 0; n <= N; n = n * 3 + 1) {
        bool seen[N] = { false };
        ot_order(3, 1, n, order);
        for (int64_t i = 0; i < n; i++) {
            assert_true(order[i] >= 0 && order[i] < n && !seen[order[i]]);
            seen[order[i]] = true;
        }
        ot_order(3, 1, n, again);
        assert_memory_equal(order, again, (size_t)n * sizeof *order);
    }
}

/* A permutation must not change between versions, which resume each other's runs. */
static void order_depends_on_seed_and_epoch(void **state)
{
    (void)state;
    enum { N = 100 };
    static int64_t order[5][N];
    ot_order(0, 0, N, order[0]);
    ot_order(0, 1, N, order[1]);
    ot_order(1, 0, N, order[2]);
    ot_order(0, UINT64_C(1) << 40, N, order[3]);
    ot_order(UINT64_C(1) << 40, 0, N, order[4]);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++) {
            int same = 0;
            for (int j = 0; j < N; j++) same += order[i][j] == order[k][j];
            assert_true(same < 10);
        }
    static const int64_t first[10] = { 0, 3, 5, 1, 4, 7, 9, 8, 6, 2 };
    ot_order(0, 0, 10, order[0]);
    assert_memory_equal(order[0], first, sizeof first);
}

/* Each of the 24 orders of four is equally frequent. */
static void order_is_even(void **state)
{
    (void)state;
    enum { N = 24000 };
    int count[256] = { 0 };
    int64_t o[4];
    for (uint64_t e = 0; e < N; e++) {
        ot_order(5, e, 4, o);
        count[o[0] << 6 | o[1] << 4 | o[2] << 2 | o[3]]++;
    }
    double chi2 = 0;
    int kinds = 0;
    for (int i = 0; i < 256; i++) {
        if (!count[i]) continue;
        kinds++;
        chi2 += (count[i] - 1000.0) * (count[i] - 1000.0) / 1000.0;
    }
    assert_int_equal(kinds, 24);
    assert_true(chi2 < 60); /* 23 degrees of freedom: beyond 60 once in 30,000 */
}

/* Beyond what is listed: a permutation of its own for each seed and epoch, without visible order. */
static void large_order_is_a_permutation(void **state)
{
    (void)state;
    static const int64_t first[4] = { 2080398, 410408, 2377878, 1097522 };
    enum { N = OT_MOST_LISTED + 3, BUCKETS = 256 };
    ot_arena *a = ot_arena_new();
    ot_permutation p, q;
    ot_error err = { 0 };
    bool *seen = calloc(N, 1);
    int at[BUCKETS] = { 0 }, step[BUCKETS] = { 0 }, same = 0;
    assert_int_equal(ot_permutation_new(a, N, &p, &err), OT_OK);
    assert_int_equal(ot_permutation_new(a, N, &q, &err), OT_OK);
    assert_null(p.list);
    assert_int_equal(ot_permutation_at(&p, N - 1), N - 1);
    ot_permutation_shuffle(&p, 3, 1);
    ot_permutation_shuffle(&q, 3, 2);
    for (int64_t i = 0, last = 0; i < N; i++) {
        int64_t k = ot_permutation_at(&p, i);
        assert_true(k >= 0 && k < N && !seen[k]);
        seen[k] = true;
        same += k == ot_permutation_at(&q, i);
        if (i < 4) assert_int_equal(k, first[i]);
        if (i < 100000) at[k * BUCKETS / N]++, step[(k - last + N) % N * BUCKETS / N]++;
        last = k;
    }
    double chi2[2] = { 0 };
    for (int i = 0; i < BUCKETS; i++) {
        double mean = 100000.0 / BUCKETS;
        chi2[0] += (at[i] - mean) * (at[i] - mean) / mean;
        chi2[1] += (step[i] - mean) * (step[i] - mean) / mean;
    }
    assert_true(chi2[0] < 360 && chi2[1] < 360); /* 255 degrees of freedom: beyond 360 once in 60,000 */
    assert_true(same < 20);                      /* 1 on average */
    free(seen);
    ot_arena_free(a);
}

/* ---- gathering ------------------------------------------------------------------ */

static double element(ot_dtype t, int64_t i)
{
    int64_t v = i * 37 % 251;
    if (t == OT_BOOL) return v % 2 == 0;
    if (!ot_is_signed(t)) return (double)v;
    return ot_is_float(t) ? (double)(v - 125) / 4 : (double)(v / 2 - 60);
}

/* dst element i of a sample by data.h's formula. */
static void plain(const ot_gather *g, int64_t sample, void *dst, int64_t base)
{
    ot_dtype from = g->src->t.dtype, to = g->dtype;
    int64_t planes = g->permute[2], pixels = planes ? g->permute[0] * g->permute[1] : 0;
    for (int64_t i = 0; i < g->elements; i++) {
        int64_t at = planes ? i % pixels * planes + i / pixels : i;
        at += sample * g->elements;
        double v = ot_get_f64(g->src->t.data, from, at);
        int64_t c = i / g->inner % g->channels;
        if (!g->scale) {
            if (ot_is_float(from)) ot_set_f64(dst, to, base + i, v);
            else ot_set_i64(dst, to, base + i, ot_get_i64(g->src->t.data, from, at));
        } else if (to == OT_F64) {
            volatile double product = v * (double)g->mul[c];
            ot_set_f64(dst, to, base + i, product + (double)g->add[c]);
        } else {
            volatile float product = (float)v * g->mul[c];
            volatile float sum = product + g->add[c];
            ot_set_f64(dst, to, base + i, (double)sum);
        }
    }
}

static void assert_gathers(ot_gather *g, int64_t samples, int threads)
{
    enum { N = 7, GUARD = 16 };
    int64_t index[N];
    size_t bytes = (size_t)(N * g->elements * ot_dtype_bits(g->dtype) / 8);
    unsigned char *got = malloc(bytes + GUARD), *want = malloc(bytes + GUARD);
    memset(got, 0xA5, bytes + GUARD);
    memset(want, 0xA5, bytes + GUARD);
    for (int i = 0; i < N; i++) index[i] = (i * 5 + 3) % samples;
    ot_gather_run(g, index, N, got, threads);
    for (int i = 0; i < N; i++) plain(g, index[i], want, i * g->elements);
    if (memcmp(got, want, bytes + GUARD)) {
        int64_t i = 0;
        while (i < N * g->elements && ot_get_f64(got, g->dtype, i) == ot_get_f64(want, g->dtype, i)) i++;
        fail_msg("%s to %s, %lld elements, scale %d, %d channels of %lld, permute %lld %lld %lld: "
                 "element %lld is "
                 "%.9g, not %.9g",
                 ot_dtype_name(g->src->t.dtype), ot_dtype_name(g->dtype), (long long)g->elements, g->scale, g->channels,
                 (long long)g->inner, (long long)g->permute[0], (long long)g->permute[1], (long long)g->permute[2],
                 (long long)i, i < N * g->elements ? ot_get_f64(got, g->dtype, i) : -1,
                 i < N * g->elements ? ot_get_f64(want, g->dtype, i) : -1);
    }
    free(got);
    free(want);
}

/* Every pair of types, with and without factors, in every order of channels, of sizes around blocks. */
static void gathers_as_the_formula_says(void **state)
{
    (void)state;
    static const ot_dtype type[] = { OT_F32, OT_F64, OT_F16, OT_U8,  OT_I8,   OT_U16, OT_I16,
                                     OT_U32, OT_I32, OT_U64, OT_I64, OT_BOOL, OT_BF16 };
    static const int64_t size[][3] = { { 1, 1, 1 },   { 3, 5, 1 },   { 4, 4, 3 }, { 13, 17, 3 },
                                       { 1, 700, 1 }, { 23, 29, 4 }, { 2, 2, 16 } };
    enum { SAMPLES = 5 };
    double *room = malloc(SAMPLES * 3000 * sizeof *room);
    for (int f = 0; f < OT_LEN(type); f++) {
        for (int64_t i = 0; i < SAMPLES * 3000; i++) ot_set_f64(room, type[f], i, element(type[f], i));
        for (int t = 0; t < OT_LEN(type); t++) {
            for (int s = 0; s < OT_LEN(size) * 8; s++) {
                const int64_t *d = size[s / 8], pixels = d[0] * d[1], c = d[2];
                bool turn = s & 1, scale = s & 2, last = s & 4;
                if (scale && !ot_is_float(type[t])) continue;
                ot_array a = {
                    .t = { .name = "x", .dtype = type[f], .rank = 2, .dim = { SAMPLES, pixels * c }, .data = room }
                };
                ot_gather g = { .src = &a,
                                .dtype = type[t],
                                .elements = pixels * c,
                                .scale = scale,
                                .channels = scale ? (int)c : 1,
                                .inner = last ? 1 : pixels };
                for (int k = 0; k < OT_MAX_CHANNELS; k++) {
                    g.mul[k] = 0.1f + (float)k / 3;
                    g.add[k] = 0.7f * (float)k - 1;
                }
                if (turn && !last) memcpy(g.permute, (int64_t[]){ d[0], d[1], c }, sizeof g.permute);
                if (turn && last) memcpy(g.permute, (int64_t[]){ c, 1, pixels }, sizeof g.permute);
                assert_gathers(&g, SAMPLES, 1);
            }
        }
    }
    free(room);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    enum { SAMPLES = 9, EACH = 40000 };
    uint8_t *x = malloc(SAMPLES * EACH);
    for (int i = 0; i < SAMPLES * EACH; i++) x[i] = (uint8_t)(i * 31);
    ot_array a = { .t = { .name = "", .dtype = OT_U8, .rank = 2, .dim = { SAMPLES, EACH }, .data = x } };
    ot_gather g = {
        .src = &a, .dtype = OT_F32, .elements = EACH, .scale = true, .channels = 1, .inner = 1, .mul = { 1 / 255.f }
    };
    for (int threads = 1; threads <= 4; threads++) assert_gathers(&g, SAMPLES, threads);
    free(x);
}

static void nothing_to_gather(void **state)
{
    (void)state;
    ot_array a = { .t = { .name = "", .dtype = OT_F32, .rank = 2, .dim = { 0, 4 } } };
    ot_gather g = { .src = &a, .dtype = OT_F32, .elements = 4, .channels = 1, .inner = 1 };
    char untouched = 7;
    ot_gather_run(&g, NULL, 0, &untouched, 2);
    g.elements = 0;
    ot_gather_run(&g, (int64_t[]){ 0, 0 }, 2, &untouched, 2);
    assert_int_equal(untouched, 7);
}

int ot_test_batches(void)
{
    const struct CMUnitTest batches[] = {
        cmocka_unit_test(order_is_a_permutation),
        cmocka_unit_test(order_depends_on_seed_and_epoch),
        cmocka_unit_test(order_is_even),
        cmocka_unit_test(large_order_is_a_permutation),
        cmocka_unit_test(gathers_as_the_formula_says),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(nothing_to_gather),
    };
    return cmocka_run_group_tests(batches, NULL, NULL);
}
