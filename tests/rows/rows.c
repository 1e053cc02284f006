/* rows.c - 1x1, windowed and depthwise convolutions in every instruction set of this machine against direct sums in f64: edges of panels, parts
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

#include "ops/cpu/convolve_weights.h"
#include "ops/cpu/row_tiles.h"
#include "ops/cpu/vector.h"
#include "tests/rows/numbers.h"

static const ot_rows_tiles *const sets[] = { &ot_rows_tiles_base, &ot_rows_tiles_avx2, &ot_rows_tiles_avx512 };

/* w (M, C, taps) as the kernel reads it: panels of columns, filled up with zeros, of rows by taps, then by channels. */
static float *packed(const float *w, int64_t C, int64_t M, int64_t taps, int64_t columns)
{
    int64_t depth = taps * C;
    float *to = numbers(depth * ot_floats_up(M));
    memset(to, 0, (size_t)(depth * ot_floats_up(M)) * sizeof *to);
    for (int64_t m = 0; m < M; m++) {
        int64_t first = m / columns * columns, left = ot_floats_up(M - first), width = left < columns ? left : columns;
        for (int64_t i = 0; i < depth; i++)
            to[first * depth + i * width + m - first] = w[(m * C + i % C) * taps + i / C];
    }
    return to;
}

static void multiply(const ot_rows_tiles *set, int64_t pixels, int64_t C, int64_t M, bool has_bias, int64_t block)
{
    int64_t step = C + upto(20) - 1;
    float *x = numbers(pixels * step), *w = numbers(M * C), *bias = numbers(M), *y = numbers(pixels * M),
          *work = numbers(block * 16), *p = packed(w, C, M, 1, set->columns);
    ot_rows_job j = { .x = x, .packed = p, .bias = has_bias ? bias : NULL, .y = y, .step = step, .C = C, .M = M };
    int64_t some = upto(2) == 1 ? C : upto(C);
    for (int64_t i = 0; i < pixels; i += block)
        for (j.c = 0; j.c < C; j.c += some) {
            j.c_end = j.c + some < C ? j.c + some : C;
            j.x = x + j.c;
            set->product(&j, i, i + block < pixels ? i + block : pixels, work);
        }
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t m = 0; m < M; m++) {
            double sum = has_bias ? (double)bias[m] : 0, size = fabs(sum);
            for (int64_t c = 0; c < C; c++) {
                double one = (double)x[i * step + c] * (double)w[m * C + c];
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

/* Does the window have a place in the picture?  Finds the extents of y. */
static bool fits(ot_rows_job *j)
{
    for (int a = 0; a < 2; a++) {
        int64_t extent = j->p.dilation[a] * (j->p.kernel[a] - 1) + 1;
        if (j->p.in[a] + 2 * j->p.pad[a] < extent) return false;
        j->p.out[a] = (j->p.in[a] + 2 * j->p.pad[a] - extent) / j->p.stride[a] + 1;
    }
    return true;
}

/* Element i of y, summed in f64; each: channels of x that it reads, from channel c on. */
static void check_window(const ot_rows_job *j, int64_t i, const float *w, int64_t c, int64_t each)
{
    int64_t taps = j->p.kernel[0] * j->p.kernel[1], m = i % j->M, q = i / j->M % j->p.out[1],
            p = i / j->M / j->p.out[1] % j->p.out[0], sample = i / j->M / j->p.out[1] / j->p.out[0];
    double sum = j->bias ? (double)j->bias[m] : 0, size = fabs(sum);
    for (int64_t t = 0; t < taps; t++) {
        int64_t r = p * j->p.stride[0] - j->p.pad[0] + t / j->p.kernel[1] * j->p.dilation[0];
        int64_t k = q * j->p.stride[1] - j->p.pad[1] + t % j->p.kernel[1] * j->p.dilation[1];
        if (r < 0 || k < 0 || r >= j->p.in[0] || k >= j->p.in[1]) continue;
        for (int64_t e = 0; e < each; e++) {
            double one = (double)j->x[((sample * j->p.in[0] + r) * j->p.in[1] + k) * j->C + c + e] *
                         (double)w[(m * each + e) * taps + t];
            sum += one;
            size += fabs(one);
        }
    }
    assert_true(fabs(sum - (double)j->y[i]) <= 1e-6 * size);
}

/* by_sample: the products of pixels of all samples. */
static void windows(const ot_rows_tiles *set, int64_t N, ot_rows_job j, bool by_sample)
{
    if (!fits(&j)) return;
    int64_t taps = j.p.kernel[0] * j.p.kernel[1], n = N * j.p.out[0] * j.p.out[1] * j.M,
            rows = by_sample ? N : N * j.p.out[0], part = upto(rows), each = j.p.out[1] * (by_sample ? j.p.out[0] : 1);
    float *x = numbers(N * j.p.in[0] * j.p.in[1] * j.C), *w = numbers(taps * j.C * j.M), *bias = numbers(j.M),
          *y = numbers(n), *p = packed(w, j.C, j.M, taps, set->columns), *work = numbers(16 * part * each);
    j.x = x, j.packed = p, j.bias = draw() % 2 ? bias : NULL, j.y = y, j.step = j.C;
    for (int64_t i = 0; i < rows; i += part)
        (by_sample ? set->pixels : set->windows)(&j, i, i + part < rows ? i + part : rows, work);
    for (int64_t i = 0; i < n; i++) check_window(&j, i, w, 0, j.C);
    check_guard(y, n);
    check_guard(work, 16 * part * each);
    free(x), free(w), free(bias), free(y), free(p), free(work);
}

static void depthwise_windows(const ot_rows_tiles *set, int64_t N, ot_rows_job j)
{
    if (!fits(&j)) return;
    int64_t C = j.C, taps = j.p.kernel[0] * j.p.kernel[1], n = N * j.p.out[0] * j.p.out[1] * C, rows = N * j.p.out[0];
    float *x = numbers(N * j.p.in[0] * j.p.in[1] * C), *w = numbers(taps * C), *turned = numbers(taps * C),
          *bias = numbers(C), *y = numbers(n), *zeros = calloc((size_t)C, sizeof *zeros);
    assert_non_null(zeros);
    for (int64_t i = 0; i < taps * C; i++) turned[i % taps * C + i / taps] = w[i];
    j.x = x, j.packed = turned, j.bias = draw() % 2 ? bias : NULL, j.y = y, j.zeros = zeros;
    set->depthwise(&j, 0, rows / 2);
    set->depthwise(&j, rows / 2, rows);
    for (int64_t i = 0; i < n; i++) check_window(&j, i, w, i % C, 1);
    check_guard(y, n);
    free(x), free(w), free(turned), free(bias), free(y), free(zeros);
}

/* A picture, window, stride and dilation of any kind. */
static void draw_window(ot_rows_job *j, int t)
{
    int64_t stride = upto(3), dilation = upto(2), kernel = t % 4 == 0 ? 3 : t % 4 == 1 ? 5 : 0;
    for (int a = 0; a < 2; a++) {
        j->p.in[a] = upto(14), j->p.kernel[a] = kernel ? kernel : upto(7), j->p.pad[a] = upto(4) - 1;
        j->p.stride[a] = stride, j->p.dilation[a] = dilation;
    }
}

static void windowed(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 3;
        for (int t = 0; t < 200; t++) {
            ot_rows_job j = { .C = upto(t % 17 ? 40 : 300), .M = upto(90) };
            draw_window(&j, t);
            windows(sets[s], upto(3), j, false);
            for (int a = 0; a < 2; a++) j.p.in[a] = upto(4);
            windows(sets[s], upto(20), j, true);
        }
    }
}

static ot_value picture(int64_t N, int64_t channels, const int64_t size[2], bool last)
{
    return (ot_value){ .name = "v",
                       .dtype = OT_F32,
                       .layout = last ? OT_CHANNELS_LAST : OT_PLAIN,
                       .shape = { 4, { N, channels, size[0], size[1] } } };
}

/* Element (sample, channel, row, column) of v. */
static int64_t at(const ot_value *v, int64_t n, int64_t c, int64_t r, int64_t k)
{
    const int64_t *d = v->shape.dim;
    return v->layout == OT_CHANNELS_LAST ? ((n * d[2] + r) * d[3] + k) * d[1] + c
                                         : ((n * d[1] + c) * d[2] + r) * d[3] + k;
}

/* dw of tap (a, b), channels m and c, summed in f64. */
static void check_weight(const ot_rows_job *j, const ot_value *x, const ot_value *y, const float *px, const float *py,
                         float got, int64_t m, int64_t c, int64_t a, int64_t b)
{
    double sum = 0, size = 0;
    for (int64_t n = 0; n < x->shape.dim[0]; n++)
        for (int64_t p = 0; p < j->p.out[0]; p++)
            for (int64_t q = 0; q < j->p.out[1]; q++) {
                int64_t r = p * j->p.stride[0] - j->p.pad[0] + a * j->p.dilation[0],
                        k = q * j->p.stride[1] - j->p.pad[1] + b * j->p.dilation[1];
                if (r < 0 || k < 0 || r >= j->p.in[0] || k >= j->p.in[1]) continue;
                double one = (double)px[at(x, n, c, r, k)] * (double)py[at(y, n, m, p, q)];
                sum += one;
                size += fabs(one);
            }
    assert_true(fabs(sum - (double)got) <= 1e-6 * size);
}

/* dw and db by one kernel; of ot_dw_depthwise j.M = j.C.  `must`: the kernel pays for it. */
static void run_weights(const ot_dw_kernel *kernel, int set, int64_t N, ot_rows_job j, bool must)
{
    if (!fits(&j)) return;
    bool depthwise = kernel == &ot_dw_depthwise, lines = kernel == &ot_dw_lines,
         x_wide = j.C >= 16 && (j.M < 16 || draw() % 2);
    for (int i = 0; i < 2 && lines; i++) j.p.out[i] += upto(3) - 1; /* more padding behind */
    ot_convolve a = { .window = { .nd = 2 }, .group = depthwise ? j.C : 1 };
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = j.p.kernel[i], a.window.stride[i] = j.p.stride[i], a.window.dilation[i] = j.p.dilation[i];
        a.window.pad_lo[i] = a.window.pad_hi[i] = j.p.pad[i];
    }
    int64_t inner = depthwise ? 1 : j.C, n = j.M * inner * j.p.kernel[0] * j.p.kernel[1];
    ot_value x = picture(N, j.C, j.p.in, depthwise || (lines && x_wide) || draw() % 2),
             y = picture(N, j.M, j.p.out, depthwise || (lines && !x_wide) || draw() % 2),
             w = picture(j.M, inner, j.p.kernel, false);
    float *px = numbers(ot_numel(&x.shape)), *py = numbers(ot_numel(&y.shape)), *dw = numbers(n), *db = numbers(j.M);
    ot_error err = { 0 };
    ot_prep p = { .threads = (int)upto(3), .err = &err };
    ot_node node = { .name = "conv", .attrs = &a };
    void *state = NULL;
    ot_conv_call c = { .kind = OT_CONV_DW,
                       .attrs = &a,
                       .x = &x,
                       .w = &w,
                       .y = &y,
                       .x_arg = OT_ARG_IN + 1,
                       .y_arg = OT_ARG_IN,
                       .w_arg = OT_ARG_OUT,
                       .b_arg = OT_ARG_OUT + 1 };
    assert_true(!must || kernel->pays(&c));
    assert_int_equal(kernel->prepare(&node, &c, set, &p, &state), OT_OK);
    float *work = numbers((int64_t)(p.work / sizeof(float)));
    for (size_t i = 0; i < p.work / sizeof(float); i++) work[i] = NAN;
    ot_call call = {
        .node = &node, .in = (const void *[]){ py, px }, .out = (void *[]){ dw, db }, .work = work, .err = &err
    };
    kernel->run(state, &call);
    for (int64_t i = 0; i < n; i++) {
        int64_t m = i / (n / j.M), channel = depthwise ? m : i / j.p.kernel[0] / j.p.kernel[1] % j.C;
        check_weight(&j, &x, &y, px, py, dw[i], m, channel, i / j.p.kernel[1] % j.p.kernel[0], i % j.p.kernel[1]);
    }
    for (int64_t m = 0; m < j.M; m++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < ot_numel(&y.shape) / j.M; i++) {
            double one =
                (double)py[at(&y, i / j.p.out[0] / j.p.out[1], m, i / j.p.out[1] % j.p.out[0], i % j.p.out[1])];
            sum += one;
            size += fabs(one);
        }
        assert_true(fabs(sum - (double)db[m]) <= 1e-6 * size);
    }
    check_guard(dw, n);
    check_guard(db, j.M);
    check_guard(work, (int64_t)(p.work / sizeof(float)));
    free(px), free(py), free(dw), free(db), free(work), free(state);
}

static void tiny_weights(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 4;
        for (int t = 0; t < 60; t++) {
            ot_rows_job j = { .C = upto(t % 5 ? 40 : 150), .M = upto(t % 7 ? 40 : 120) };
            draw_window(&j, t);
            for (int i = 0; i < 2; i++) j.p.in[i] = upto(4), j.p.stride[i] = 1;
            run_weights(&ot_dw_pixels, s, upto(t % 9 ? 20 : 300), j, false);
        }
    }
}

static void depthwise(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 2;
        for (int t = 0; t < 1500; t++) {
            ot_rows_job j = { .C = upto(90) };
            draw_window(&j, t);
            j.M = j.C;
            depthwise_windows(sets[s], upto(3), j);
        }
    }
}

static void depthwise_weights(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 5;
        for (int t = 0; t < 300; t++) {
            ot_rows_job j = { .C = 15 + upto(90) };
            draw_window(&j, t);
            j.M = j.C;
            run_weights(&ot_dw_depthwise, s, upto(3), j, true);
        }
    }
}

/* Lines shorter and longer than a whole product, with few channels of y and with many. */
static void line_weights(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 6;
        for (int t = 0; t < 200; t++) {
            int64_t wide = 15 + upto(t % 5 ? 40 : 150), other = upto(t % 3 ? 15 : 70);
            ot_rows_job j = { .C = t % 2 ? wide : other, .M = t % 2 ? other : wide };
            draw_window(&j, t);
            if (t % 7 == 0) j.p.in[1] = upto(600), j.p.in[0] = j.p.kernel[0] = 1, j.p.pad[0] = 0;
            if (t % 4 == 3)
                for (int i = 0; i < 2; i++) j.p.kernel[i] = j.p.stride[i] = 1, j.p.pad[i] = 0;
            run_weights(&ot_dw_lines, s, upto(5), j, false);
        }
        run_weights(
            &ot_dw_lines, s, 4,
            (ot_rows_job){ .C = 21,
                           .M = 3,
                           .p = { .in = { 9, 12 }, .kernel = { 3, 3 }, .stride = { 1, 1 }, .dilation = { 1, 1 } } },
            true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products),          cmocka_unit_test(windowed),
                                        cmocka_unit_test(tiny_weights),      cmocka_unit_test(depthwise),
                                        cmocka_unit_test(depthwise_weights), cmocka_unit_test(line_weights) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
