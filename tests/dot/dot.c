/* dot.c - packed matrix products in every instruction set of this machine against direct sums in f64: borders of tiles and blocks,
 * strides, threads, and nothing written behind the result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/cpu/dot_packed.h"
#include "ops/cpu/vector.h"
#include "tests/rows/numbers.h"

typedef enum beside { NOTHING, BIAS, TENSOR, WHATS } beside;

typedef struct product {
    int64_t M, N, K;
    bool ta, tb;
    beside add;
} product;

static ot_dot_call call_of(const product *q)
{
    return (ot_dot_call){ .rank = 2,
                          .a_dim = { q->M, q->K },
                          .a_stride = { q->ta ? 1 : q->K, q->ta ? q->M : 1 },
                          .b_dim = { q->K, q->N },
                          .b_stride = { q->tb ? 1 : q->N, q->tb ? q->K : 1 },
                          .y_dim = { q->M, q->N },
                          .y_stride = { q->N, 1 },
                          .a_arg = OT_ARG_IN,
                          .b_arg = OT_ARG_IN + 1,
                          .bias_arg = q->add == BIAS ? OT_ARG_IN + 2 : OT_ARG_NONE,
                          .add_arg = q->add == TENSOR ? OT_ARG_IN + 2 : OT_ARG_NONE,
                          .y_arg = OT_ARG_OUT };
}

static void multiply(const product *q, int set, int threads, const float *const in[3], float *y)
{
    ot_node n = { .name = "product" };
    ot_error err = { 0 };
    ot_prep p = { .threads = threads, .err = &err };
    ot_dot_packed *s;
    ot_dot_call c = call_of(q);
    assert_int_equal(ot_dot_packed_new(&n, &c, set, &p, &s), OT_OK);
    char *work = aligned_alloc(64, (p.work + 127) / 64 * 64);
    assert_non_null(work);
    memset(work, 0x7f, (p.work + 127) / 64 * 64);
    ot_dot_packed_run(s, &(ot_call){ .in = (const void *const *)in, .out = (void *[]){ y }, .work = work });
    for (size_t i = p.work; i < (p.work + 127) / 64 * 64; i++) assert_int_equal(work[i], 0x7f);
    free(work);
    free(s);
}

static void check(const product *q, const float *const in[3], const float *y)
{
    ot_dot_call c = call_of(q);
    for (int64_t i = 0; i < q->M; i++)
        for (int64_t k = 0; k < q->N; k++) {
            double sum = q->add == BIAS     ? (double)in[2][k]
                         : q->add == TENSOR ? (double)in[2][i * q->N + k]
                                            : 0,
                   size = fabs(sum);
            for (int64_t t = 0; t < q->K; t++) {
                double one = (double)in[0][i * c.a_stride[0] + t * c.a_stride[1]] *
                             (double)in[1][t * c.b_stride[0] + k * c.b_stride[1]];
                sum += one;
                size += fabs(one);
            }
            assert_true(fabs(sum - (double)y[i * q->N + k]) <= 1e-6 * size);
        }
    check_guard(y, q->M * q->N);
}

/* One thread, then three: checked, and the same bits. */
static void try(const product *q, int set)
{
    float *a = numbers(q->M * q->K), *b = numbers(q->K * q->N), *add = numbers(q->M * q->N), *y = numbers(q->M * q->N),
          *z = numbers(q->M * q->N);
    const float *in[3] = { a, b, add };
    multiply(q, set, 1, in, y);
    multiply(q, set, 3, in, z);
    check(q, in, y);
    assert_memory_equal(y, z, (size_t)(q->M * q->N) * sizeof *y);
    free(a), free(b), free(add), free(y), free(z);
}

static void products(void **state)
{
    (void)state;
    for (int s = OT_CPU_BASE; s <= ot_instruction_set(); s++) {
        seed = 1;
        for (int t = 0; t < 300; t++)
            try(&(product){ upto(t % 11 ? 40 : 400), upto(t % 13 ? 90 : 300), upto(t % 7 ? 60 : 700), draw() % 2,
                            draw() % 2, draw() % WHATS },
                s);
        for (int k = 0; k < 4; k++)
            try(&(product){ 13, 2100, 300, k & 1, k >> 1, k % WHATS }, s); /* blocks of columns too */
    }
}

static ot_dot_call plain(int64_t M, int64_t N, int64_t K)
{
    return call_of(&(product){ M, N, K, false, false, NOTHING });
}

/* Only rows that share sets of the caches, and enough of them. */
static void rule(void **state)
{
    (void)state;
    ot_dot_call c = plain(512, 256, 4096), one = plain(512, 256, 4096);
    assert_int_equal(ot_dot_packed_pays(&c, 2), ot_instruction_set() != OT_CPU_AVX512); /* oneDNN is faster with it */
    c = plain(512, 256, 4095);
    assert_false(ot_dot_packed_pays(&c, 2));
    c = plain(32, 256, 4096);
    assert_false(ot_dot_packed_pays(&c, 2));
    one.bf16 = true;
    assert_false(ot_dot_packed_pays(&one, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products), cmocka_unit_test(rule) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
