/* loops.c - compares the loops of every instruction set of this machine with the base loops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/map.h"
#include "tests/map/map_tests.h"
#include "tests/ops/harness.h"

enum { N = 77 };

typedef union tile {
    float f32[N];
    double f64[N];
    int64_t i64[N];
    uint64_t u64[N];
} tile;

static void fill(tile *t, int cls, int arg, dice *d)
{
    static const double edges[] = {
        0,          -0.0, 1, -1, 0.5, -0.5, 2, -3, 20, -20, 90, -90, 1000, -1000, (double)INFINITY, -(double)INFINITY,
        (double)NAN
    };
    for (int i = 0; i < N; i++) {
        double v = i < OT_LEN(edges) ? edges[(i + arg * 5) % OT_LEN(edges)] : dice_roll(d) * 6 - 3;
        switch (cls) {
        case OT_CLASS_F32: t->f32[i] = (float)v; break;
        case OT_CLASS_F64: t->f64[i] = v; break;
        case OT_CLASS_I64: t->i64[i] = i == 0 ? INT64_MIN : fabs(v) < 1e9 ? (int64_t)(v * 4) : -1; break;
        default: t->u64[i] = i == 0 ? UINT64_MAX : fabs(v) < 1e9 ? (uint64_t)(fabs(v) * 4) : 7; break;
        }
    }
}

static bool near(double a, double b, double tol)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tol * (fabs(b) > 1 ? fabs(b) : 1);
}

static bool same(const tile *a, const tile *b, int cls, int *at)
{
    for (int i = 0; i < N; i++) {
        bool ok = cls == OT_CLASS_F32   ? near((double)a->f32[i], (double)b->f32[i], 2e-6)
                  : cls == OT_CLASS_F64 ? near(a->f64[i], b->f64[i], 4e-15)
                                        : a->i64[i] == b->i64[i];
        *at = i;
        if (!ok) return false;
    }
    return true;
}

/* Every loop of `set` against the same one of `base`; the number that differ. */
static int compare(const ot_map_loops *base, const ot_map_loops *set, int *tried)
{
    static tile arg[OT_MAP_ARGS], y0, y1;
    int failed = 0, at;
    for (int cls = 0; cls < 4; cls++)
        for (int row = 0; row < OT_FN_Convert && set->row[cls]; row++) { /* NULL: those of base are used */
            dice d = { (uint64_t)row };
            if (!base->row[cls][row] != !set->row[cls][row]) failed++;
            if (!base->row[cls][row]) continue;
            ot_loop l = { .n = N, .p = 0.75, .q = 1.25 };
            for (int k = 0; k < OT_MAP_ARGS; k++) {
                fill(&arg[k], cls, k, &d);
                l.arg[k] = &arg[k];
            }
            l.y = &y0;
            base->row[cls][row](&l);
            l.y = &y1;
            set->row[cls][row](&l);
            (*tried)++;
            if (same(&y1, &y0, cls, &at)) continue;
            printf("loops: %s, column %d, class %d: element %d differs between %s and %s (%.9g and %.9g)\n",
                   ot_fn_of(row)->name, row % 4, cls, at, base->name, set->name, cls ? y0.f64[at] : (double)y0.f32[at],
                   cls ? y1.f64[at] : (double)y1.f32[at]);
            failed++;
        }
    return failed;
}

/* Loops with one element as an operand against those with a tile of copies of it: the same bits. */
static int compare_one(const ot_map_loops *set, int *tried)
{
    static tile arg[2], copies, y0, y1;
    int failed = 0;
    for (int k = 0; k < 2; k++)
        for (int row = 0; row < OT_FN_END; row++) {
            dice d = { (uint64_t)row };
            if (!set->one[k][row]) continue;
            fill(&arg[0], OT_CLASS_F32, 0, &d);
            fill(&arg[1], OT_CLASS_F32, 1, &d);
            for (int i = 0; i < N; i++) copies.f32[i] = arg[k].f32[3];
            ot_loop l = { .y = &y0, .arg = { &arg[0], &arg[1], &y0, &y0, &y0 }, .n = N };
            l.arg[k] = &copies;
            set->row[OT_CLASS_F32][row](&l);
            l.arg[k] = &arg[k].f32[3];
            l.y = &y1;
            set->one[k][row](&l);
            (*tried)++;
            if (!memcmp(y0.f32, y1.f32, N * sizeof *y0.f32)) continue;
            printf("loops: %s of %s with one element as argument %d differs\n", ot_fn_of(row)->name, set->name, k);
            failed++;
        }
    return failed;
}

static int compare_conversions(const ot_map_loops *base, const ot_map_loops *set, int *tried)
{
    static tile x, y0, y1, z0, z1;
    int failed = 0;
    for (int cls = 0; cls < 4; cls++)
        for (int t = 0; t < OT_LOOP_TYPES; t++) {
            dice d = { (uint64_t)t };
            if (!base->store[cls][t]) continue;
            fill(&x, cls, 0, &d);
            memset(&y0, 0, sizeof y0), memset(&y1, 0, sizeof y1);
            memset(&z0, 0, sizeof z0), memset(&z1, 0, sizeof z1);
            base->store[cls][t](&y0, &x, N);
            set->store[cls][t](&y1, &x, N);
            base->load[cls][t](&z0, &y0, N);
            set->load[cls][t](&z1, &y0, N);
            *tried += 2;
            if (!values_close("loops", "store", (ot_dtype)t, N, &y1, &y0, 0) ||
                !values_close("loops", "load", ot_class_dtype((ot_class)cls), N, &z1, &z0, 0)) {
                printf("loops: conversion of class %d and %s differs between %s and %s\n", cls,
                       ot_dtype_name((ot_dtype)t), base->name, set->name);
                failed++;
            }
        }
    return failed;
}

/* Elements (n, pixel, channel) of operands that lie (n, channel, pixel): any part, against one element after the other. */
static int gather_transposed(int *tried)
{
    enum { SAMPLES = 2, MOST = SAMPLES * 40 * 33 };
    static const int64_t pixels[] = { 1, 2, 7, 40 }, channels[] = { 1, 3, 16, 33 };
    static uint64_t x[MOST], y[MOST + 1];
    int failed = 0;
    for (int i = 0; i < MOST; i++) x[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
    for (int p = 0; p < 4; p++)
        for (int k = 0; k < 4; k++)
            for (int size = 1; size <= 8; size *= 2) {
                int64_t P = pixels[p], C = channels[k], all = SAMPLES * P * C;
                cpu_map m = { .rank = 3, .dim = { SAMPLES, P, C } };
                cpu_operand o = { .stride = { C * P, 1, P }, .size = size };
                bool same = true;
                for (int64_t from = 0; from < all; from += 5)
                    for (int64_t n = 1; from + n <= all; n += 13) {
                        memset(y, 0xA5, sizeof y);
                        cpu_map_gather(&m, &o, x, from, n, y);
                        for (int64_t j = 0; j < n; j++) {
                            int64_t at = from + j, there = at / (P * C) * P * C + at % C * P + at / C % P;
                            same &= !memcmp((char *)y + j * size, (const char *)x + there * size, (size_t)size);
                        }
                        same &= ((uint8_t *)y)[n * size] == 0xA5;
                    }
                *tried += 1;
                if (same) continue;
                printf("loops: transposed elements of %d bytes, %lld pixels of %lld channels, are wrong\n", size,
                       (long long)P, (long long)C);
                failed++;
            }
    return failed;
}

bool test_loops(void)
{
    int tried = 0, failed = gather_transposed(&tried);
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    failed += compare_one(&ot_map_loops_base, &tried);
    if (avx2) failed += compare_one(&ot_map_loops_avx2, &tried);
    if (avx512) failed += compare_one(&ot_map_loops_avx512, &tried);
    if (avx2) failed += compare(&ot_map_loops_base, &ot_map_loops_avx2, &tried);
    if (avx2) failed += compare_conversions(&ot_map_loops_base, &ot_map_loops_avx2, &tried);
    if (avx512) failed += compare(&ot_map_loops_base, &ot_map_loops_avx512, &tried);
    if (avx512) failed += compare_conversions(&ot_map_loops_base, &ot_map_loops_avx512, &tried);
    if (!avx2) printf("loops: this machine has the plain ones only\n");
#endif
    printf("loops: %d compared, %d differ\n", tried, failed);
    return !failed;
}
