/* rows.c - 1x1 and depthwise convolutions in every instruction set of this machine against direct sums in f64: edges of panels, parts
 * and windows, and nothing written behind the result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/cpu/row_tiles.h"
#include "ops/cpu/vector.h"

static const ot_rows_tiles *const sets[] = { &ot_rows_tiles_base, &ot_rows_tiles_avx2, &ot_rows_tiles_avx512 };

enum { GUARD = 64 };
static const float untouched = 777;

static uint64_t seed;

static uint32_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static int64_t upto(int64_t most) { return 1 + draw() % most; }

/* n numbers between -1 and 1, and a guard behind them. */
static float *numbers(int64_t n)
{
    float *p = aligned_alloc(64, (size_t)(n + GUARD + 15) / 16 * 64);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)draw() / (1u << 30) - 1;
    for (int64_t i = n; i < n + GUARD; i++) p[i] = untouched;
    return p;
}

static void check_guard(const float *p, int64_t n)
{
    for (int64_t i = n; i < n + GUARD; i++) assert_true(p[i] == untouched);
}

/* w (M, C) as the kernel reads it: panels of columns, filled up with zeros. */
static float *packed(const float *w, int64_t C, int64_t M, int64_t columns)
{
    float *to = numbers(C * ot_rows_up(M));
    memset(to, 0, (size_t)(C * ot_rows_up(M)) * sizeof *to);
    for (int64_t m = 0; m < M; m++) {
        int64_t first = m / columns * columns, left = ot_rows_up(M - first), width = left < columns ? left : columns;
        for (int64_t c = 0; c < C; c++) to[first * C + c * width + m - first] = w[m * C + c];
    }
    return to;
}

static void multiply(const ot_rows_tiles *set, int64_t pixels, int64_t C, int64_t M, bool has_bias, int64_t block)
{
    float *x = numbers(pixels * C), *w = numbers(M * C), *bias = numbers(M), *y = numbers(pixels * M),
          *work = numbers(block * 16), *p = packed(w, C, M, set->columns);
    ot_rows_job j = { .x = x, .packed = p, .bias = has_bias ? bias : NULL, .y = y, .C = C, .M = M };
    for (int64_t i = 0; i < pixels; i += block) set->product(&j, i, i + block < pixels ? i + block : pixels, work);
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t m = 0; m < M; m++) {
            double sum = has_bias ? (double)bias[m] : 0, size = fabs(sum);
            for (int64_t c = 0; c < C; c++) {
                double one = (double)x[i * C + c] * (double)w[m * C + c];
                sum += one;
                size += fabs(one);
            }
            assert_true(fabs(sum - (double)y[i * M + m]) <= 1e-6 * size);
        }
    check_guard(y, pixels * M);
    free(x), free(w), free(bias), free(y), free(work), free(p);
}

static void products(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 1;
        for (int t = 0; t < 200; t++)
            multiply(sets[s], upto(60), upto(t % 9 ? 80 : 600), upto(t % 7 ? 150 : 400), draw() % 2, upto(60));
    }
}

static void windows(const ot_rows_tiles *set, int64_t N, ot_rows_job j)
{
    for (int a = 0; a < 2; a++) {
        int64_t extent = j.dilation[a] * (j.kernel[a] - 1) + 1;
        if (j.in[a] + 2 * j.pad[a] < extent) return;
        j.out[a] = (j.in[a] + 2 * j.pad[a] - extent) / j.stride[a] + 1;
    }
    int64_t C = j.C, taps = j.kernel[0] * j.kernel[1], n = N * j.out[0] * j.out[1] * C, rows = N * j.out[0];
    float *x = numbers(N * j.in[0] * j.in[1] * C), *w = numbers(taps * C), *bias = numbers(C), *y = numbers(n),
          *zeros = calloc((size_t)C, sizeof *zeros);
    assert_non_null(zeros);
    j.x = x, j.packed = w, j.bias = draw() % 2 ? bias : NULL, j.y = y, j.zeros = zeros;
    set->depthwise(&j, 0, rows / 2);
    set->depthwise(&j, rows / 2, rows);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % C, q = i / C % j.out[1], p = i / C / j.out[1] % j.out[0], sample = i / C / j.out[1] / j.out[0];
        double sum = j.bias ? (double)bias[c] : 0, size = fabs(sum);
        for (int64_t t = 0; t < taps; t++) {
            int64_t r = p * j.stride[0] - j.pad[0] + t / j.kernel[1] * j.dilation[0];
            int64_t k = q * j.stride[1] - j.pad[1] + t % j.kernel[1] * j.dilation[1];
            if (r < 0 || k < 0 || r >= j.in[0] || k >= j.in[1]) continue;
            double one = (double)x[((sample * j.in[0] + r) * j.in[1] + k) * C + c] * (double)w[t * C + c];
            sum += one;
            size += fabs(one);
        }
        assert_true(fabs(sum - (double)y[i]) <= 1e-6 * size);
    }
    check_guard(y, n);
    free(x), free(w), free(bias), free(y), free(zeros);
}

static void depthwise(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 2;
        for (int t = 0; t < 1500; t++) {
            ot_rows_job j = { .C = upto(90) };
            int64_t stride = upto(3), dilation = upto(2), kernel = t % 4 == 0 ? 3 : t % 4 == 1 ? 5 : 0;
            for (int a = 0; a < 2; a++) {
                j.in[a] = upto(14), j.kernel[a] = kernel ? kernel : upto(7), j.pad[a] = upto(4) - 1;
                j.stride[a] = stride, j.dilation[a] = dilation;
            }
            j.M = j.C;
            windows(sets[s], upto(3), j);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products), cmocka_unit_test(depthwise) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
