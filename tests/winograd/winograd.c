/* winograd.c - Winograd convolution in every instruction set of this machine against direct sums in f64: edges of
 * tiles, blocks and panels, parts of threads, NaN, equal bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/cpu/vector.h"
#include "ops/cpu/winograd.h"

typedef struct shape {
    int64_t N, C, M, high, wide, pad_lo[2], pad_hi[2];
} shape;

static const shape shapes[] = {
    { 1, 16, 16, 4, 4, { 1, 1 }, { 1, 1 } },    /* one tile */
    { 1, 5, 3, 5, 9, { 0, 2 }, { 0, 1 } },      /* fewer channels than lanes, asymmetric padding, a tile's edge */
    { 3, 70, 66, 13, 11, { 1, 2 }, { 2, 1 } },  /* channels that are no multiple of the lanes, or of a panel */
    { 2, 20, 132, 7, 10, { 1, 1 }, { 1, 1 } },  /* three groups of columns; few tiles */
    { 2, 136, 80, 6, 6, { 0, 0 }, { 0, 0 } },   /* more channels than a product takes at a time; no padding */
    { 2, 16, 24, 33, 37, { 2, 2 }, { 2, 2 } },  /* several blocks of tiles */
    { 1, 32, 16, 5, 6, { 3, 0 }, { 3, 4 } },    /* padding as wide as the window */
    { 3, 20, 50, 12, 12, { 0, 0 }, { 0, 0 } },  /* dx transposed: y has fewer tiles than x */
    { 2, 132, 20, 9, 14, { 0, 1 }, { 0, 0 } },  /* the same by groups of columns */
    { 2, 136, 264, 10, 9, { 1, 1 }, { 1, 1 } }, /* too large for a set of weights per thread */
};

static const char *const kind_names[] = { "forward", "dx", "dw" };

typedef struct test {
    const shape *s;
    int W; /* of the window: 3 or 5 */
    ot_convolve a;
    ot_value x, w, b, y;
    float *px, *pw, *pb, *py;
    double *want, *want_db; /* of the kind that is tested */
} test;

static float *numbers(const ot_value *v, uint64_t seed)
{
    int64_t n = ot_numel(&v->shape);
    float *p = malloc((size_t)n * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = (float)(seed >> 40) / (1 << 23) - 1;
    }
    return p;
}

static ot_value value(ot_layout layout, ot_shape s)
{
    return (ot_value){ .name = "v", .dtype = OT_F32, .layout = layout, .shape = s };
}

static void start(test *t, const shape *s, int W)
{
    *t = (test){ .s = s, .W = W, .a = { .window = { .nd = 2 }, .group = 1 } };
    for (int j = 0; j < 2; j++) {
        t->a.window.kernel[j] = W;
        t->a.window.stride[j] = t->a.window.dilation[j] = 1;
        t->a.window.pad_lo[j] = s->pad_lo[j];
        t->a.window.pad_hi[j] = s->pad_hi[j];
    }
    t->x = value(OT_CHANNELS_LAST, (ot_shape){ 4, { s->N, s->C, s->high, s->wide } });
    t->y = value(OT_CHANNELS_LAST, (ot_shape){ 4,
                                               { s->N, s->M, s->high + s->pad_lo[0] + s->pad_hi[0] + 1 - W,
                                                 s->wide + s->pad_lo[1] + s->pad_hi[1] + 1 - W } });
    t->w = value(OT_PLAIN, (ot_shape){ 4, { s->M, s->C, W, W } });
    t->b = value(OT_PLAIN, (ot_shape){ 1, { s->M } });
    t->px = numbers(&t->x, 1);
    t->pw = numbers(&t->w, 2);
    t->pb = numbers(&t->b, 3);
    t->py = numbers(&t->y, 4);
}

static void stop(test *t)
{
    void *const all[] = { t->px, t->pw, t->pb, t->py };
    for (int i = 0; i < OT_LEN(all); i++) free(all[i]);
}

static const ot_value *result_of(const test *t, ot_conv_kind kind)
{
    return kind == OT_CONV_FORWARD ? &t->y : kind == OT_CONV_DX ? &t->x : &t->w;
}

/* Adds all products of one window element of one pixel of y. */
static void one(test *t, ot_conv_kind kind, int64_t pixel_y, int64_t pixel_x, int64_t tap)
{
    int64_t C = t->s->C, M = t->s->M;
    const float *x = t->px + pixel_x * C, *y = t->py + pixel_y * M;
    for (int64_t m = 0; m < M; m++)
        for (int64_t c = 0; c < C; c++) {
            int64_t at = (m * C + c) * t->W * t->W + tap;
            double w = (double)t->pw[at];
            if (kind == OT_CONV_FORWARD) t->want[pixel_y * M + m] += (double)x[c] * w;
            else if (kind == OT_CONV_DX) t->want[pixel_x * C + c] += (double)y[m] * w;
            else t->want[at] += (double)y[m] * (double)x[c];
        }
}

static void direct(test *t, ot_conv_kind kind)
{
    const shape *s = t->s;
    int64_t high = t->y.shape.dim[2], wide = t->y.shape.dim[3];
    t->want = calloc((size_t)ot_numel(&result_of(t, kind)->shape), sizeof *t->want);
    t->want_db = calloc((size_t)s->M, sizeof *t->want_db);
    assert_non_null(t->want);
    assert_non_null(t->want_db);
    for (int64_t at = 0; at < s->N * high * wide; at++) {
        int64_t n = at / high / wide, i = at / wide % high, j = at % wide;
        for (int64_t m = 0; m < s->M; m++) {
            if (kind == OT_CONV_FORWARD) t->want[at * s->M + m] += (double)t->pb[m];
            else t->want_db[m] += (double)t->py[at * s->M + m];
        }
        for (int64_t tap = 0; tap < t->W * t->W; tap++) {
            int64_t h = i + tap / t->W - s->pad_lo[0], l = j + tap % t->W - s->pad_lo[1];
            if (h >= 0 && h < s->high && l >= 0 && l < s->wide) one(t, kind, at, (n * s->high + h) * s->wide + l, tap);
        }
    }
}

/* Runs one kind into got and db, with workspace full of NaN and guarded at its end. */
static void run(const test *t, ot_conv_kind kind, int set, int threads, float *got, float *db)
{
    enum { GUARD = 64 };
    ot_error err = { 0 };
    ot_prep p = { .threads = threads, .err = &err };
    ot_node n = { .name = "conv", .attrs = &t->a };
    ot_winograd *s;
    ot_conv_call c = { .kind = kind,
                       .attrs = &t->a,
                       .x = &t->x,
                       .w = &t->w,
                       .y = &t->y,
                       .x_arg = OT_ARG_IN,
                       .w_arg = OT_ARG_IN + 1,
                       .y_arg = OT_ARG_IN + 2,
                       .b_arg = OT_ARG_IN + 3 };
    const void *in[4] = { t->px, t->pw, t->py, t->pb };
    void *out[2] = { got, db };
    if (kind == OT_CONV_FORWARD) c.y_arg = OT_ARG_OUT;
    else if (kind == OT_CONV_DX) c.x_arg = OT_ARG_OUT, c.b_arg = OT_ARG_NONE;
    else c.w_arg = OT_ARG_OUT, c.b_arg = OT_ARG_OUT + 1;
    assert_int_equal(ot_winograd_new(&n, &c, set, &p, &s), OT_OK);
    char *work = aligned_alloc(64, (p.work + GUARD + 63) / 64 * 64);
    assert_non_null(work);
    memset(work, 0xff, p.work + GUARD);
    assert_int_equal(
        ot_winograd_run(s, &(ot_call){ .node = &n, .in = in, .out = out, .work = work, .err = &err }, NULL), OT_OK);
    for (int i = 0; i < GUARD; i++) assert_int_equal((unsigned char)work[p.work + (size_t)i], 0xff);
    free(work);
    free(s);
}

/* The relative error of n numbers, in the Euclidean norm. */
static double error_of(const float *got, const double *want, int64_t n)
{
    double error = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        error += d * d;
        all += want[i] * want[i];
    }
    return sqrt(error / all);
}

static void compare(test *t, ot_conv_kind kind, int set)
{
    int64_t n = ot_numel(&result_of(t, kind)->shape);
    size_t size = (size_t)n * sizeof(float);
    float *got = malloc(size), *again = malloc(size), db[512];
    assert_non_null(got);
    assert_non_null(again);
    for (int threads = 1; threads <= 5; threads += 2) {
        run(t, kind, set, threads, got, db);
        double e = error_of(got, t->want, n), e_db = kind == OT_CONV_DW ? error_of(db, t->want_db, t->s->M) : 0;
        if (!(e < 2e-6) || !(e_db < 1e-6))
            fail_msg("%s, shape %d, window %d, set %d, %d threads: error %g, of db %g", kind_names[kind],
                     (int)(t->s - shapes), t->W, set, threads, e, e_db);
        run(t, kind, set, threads, again, db);
        assert_memory_equal(got, again, size);
    }
    free(got);
    free(again);
}

static void errors(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * OT_LEN(shapes) - 1; i++) /* the last, which takes longest, with 3 only */
        for (int kind = OT_CONV_FORWARD; kind <= OT_CONV_DW; kind++) {
            test t;
            start(&t, &shapes[i / 2], i % 2 ? 5 : 3);
            direct(&t, (ot_conv_kind)kind);
            for (int set = OT_CPU_BASE; set <= ot_instruction_set(); set++) compare(&t, (ot_conv_kind)kind, set);
            free(t.want);
            free(t.want_db);
            stop(&t);
        }
}

/* Does the tile of 6 x 6 that pixel i of y is computed from read pixel `at` of x, along one axis? */
static bool tile_reads(int i, int at, int W)
{
    int side = 7 - W, first = i / side * side - W / 2;
    return at >= first && at < first + 6;
}

/* A NaN or infinity in x is NaN or infinite in every y that reads it, and reaches the y of its tiles alone. */
static void not_finite(void **state)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    enum { ROW = 6, COLUMN = 8 };
    (void)state;
    for (int k = 0; k < 2 * OT_LEN(bad); k++) {
        int W = k % 2 ? 5 : 3, pad = W / 2;
        const shape s = { 1, 16, 16, 14, 14, { pad, pad }, { pad, pad } };
        test t;
        start(&t, &s, W);
        float *got = malloc(14 * 14 * 16 * sizeof *got);
        assert_non_null(got);
        t.px[(ROW * 14 + COLUMN) * 16 + 3] = bad[k / 2];
        run(&t, OT_CONV_FORWARD, ot_instruction_set(), 2, got, NULL);
        for (int i = 0; i < 14; i++)
            for (int j = 0; j < 14; j++)
                for (int m = 0; m < 16; m++) {
                    bool reads = abs(i - ROW) <= pad && abs(j - COLUMN) <= pad,
                         near = tile_reads(i, ROW, W) && tile_reads(j, COLUMN, W);
                    if (reads) assert_false(isfinite(got[(i * 14 + j) * 16 + m]));
                    if (!near) assert_true(isfinite(got[(i * 14 + j) * 16 + m]));
                }
        free(got);
        stop(&t);
    }
}

/* The kernels choose it for this shape, or a direct convolution for the smallest error, and either result is right. */
static void kernels(void **state)
{
    static const ot_kernel *const all[] = { &ot_cpu_Convolve, &ot_cpu_ConvolveDx, &ot_cpu_ConvolveDw };
    (void)state;
    for (int kind = OT_CONV_FORWARD; kind <= OT_CONV_DW; kind++)
        for (int i = 0; i < 4; i++) {
            int W = i / 2 ? 5 : 3, precise = i % 2, pad = W / 2;
            const shape s = { 4, 24, 40, 12, 15, { pad, pad }, { pad, pad } };
            test t;
            start(&t, &s, W);
            direct(&t, (ot_conv_kind)kind);
            ot_value *values[3][5] = { { &t.x, &t.w, &t.b, &t.y }, { &t.y, &t.w, &t.x }, { &t.y, &t.x, &t.w, &t.b } };
            const void *bytes[3][3] = { { t.px, t.pw, t.pb }, { t.py, t.pw }, { t.py, t.px } };
            static const ot_op *const ops[] = { &ot_op_Convolve, &ot_op_ConvolveDx, &ot_op_ConvolveDw };
            int n_in = kind == OT_CONV_FORWARD ? 3 : 2, n_out = kind == OT_CONV_DW ? 2 : 1;
            ot_node n = { .op = ops[kind],
                          .name = "conv",
                          .attrs = &t.a,
                          .n_in = n_in,
                          .n_out = n_out,
                          .in = values[kind],
                          .out = values[kind] + n_in };
            int64_t numbers = ot_numel(&n.out[0]->shape);
            float *got = malloc((size_t)numbers * sizeof *got), db[64];
            void *out[2] = { got, db };
            ot_error err = { 0 };
            ot_prep p = { .threads = 2, .precise = precise, .err = &err };
            assert_non_null(got);
            assert_int_equal(all[kind]->prepare(&n, &p), OT_OK);
            assert_string_equal(p.how, !precise ? "Winograd" : kind == OT_CONV_DW ? "lines" : "oneDNN");
            void *work = aligned_alloc(64, (p.work + 64) / 64 * 64);
            assert_non_null(work);
            ot_call c = {
                .node = &n, .in = bytes[kind], .out = out, .work = work, .state = p.state, .threads = 2, .err = &err
            };
            assert_int_equal(all[kind]->run(&c), OT_OK);
            assert_true(error_of(got, t.want, numbers) < 2e-6);
            if (kind == OT_CONV_DW) assert_true(error_of(db, t.want_db, s.M) < 1e-6);
            all[kind]->release(p.state);
            free(work);
            free(got);
            free(t.want);
            free(t.want_db);
            stop(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(errors), cmocka_unit_test(not_finite),
                                        cmocka_unit_test(kernels) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
