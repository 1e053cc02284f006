/* recognise_bias.c - the bias behind a product becomes part of it where it is one, and the gradients of parts are joined; the
 * results are those of graphs in which neither happens. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernels/copy.h"
#include "tests/passes/build.h"

enum { N = 8, MOST = 4096 };

static bool is_biased(const ot_node *n) { return n->op == &ot_op_Dot && n->n_in > 2; }
static bool is_joined(const ot_node *n) { return n->op == &ot_op_Copy && ((const ot_copy *)n->attrs)->n > 1; }

typedef ot_value *build(model *m, ot_value *x, bool plain);

/* x w + b; plain: as x w - (-b). */
static ot_value *with(model *m, ot_value *x, ot_value *b, bool first, bool plain)
{
    ot_value *y = model_node(m, "MatMul", OT_IN(x, model_weight(m, "w", SHAPE(N, N))));
    if (plain) return model_node(m, "Sub", OT_IN(y, model_node(m, "Neg", OT_IN(b))));
    return first ? model_node(m, "Add", OT_IN(b, y)) : model_node(m, "Add", OT_IN(y, b));
}

static ot_value *behind(model *m, ot_value *x, bool plain)
{
    return with(m, x, model_weight(m, "b", SHAPE(N)), false, plain);
}

static ot_value *in_front(model *m, ot_value *x, bool plain)
{
    return with(m, x, model_weight(m, "b", SHAPE(N)), true, plain);
}

static ot_value *of_more_axes(model *m, ot_value *x, bool plain)
{
    return with(m, x, model_weight(m, "b", SHAPE(1, 1, N)), false, plain);
}

static ot_value *of_rows(model *m, ot_value *x, bool plain)
{
    return with(m, x, model_weight(m, "b", SHAPE(3, 1)), false, plain);
}

static ot_value *reshaped(model *m, ot_value *x, bool plain)
{
    const int64_t shape = N;
    ot_value *b = model_node(m, "Reshape", OT_IN(model_weight(m, "b", SHAPE(N, 1)), model_ints(m, &shape, 1)));
    return with(m, x, b, false, plain);
}

static ot_value *constant(model *m, ot_value *x, float most, bool plain)
{
    const float b[N] = { 0, -1, 0, 0, -2, most };
    return with(m, x, ot_graph_const(m->g, "b", OT_F32, &SHAPE(N), b), false, plain);
}

static ot_value *a_constant(model *m, ot_value *x, bool plain) { return constant(m, x, 3, plain); }
static ot_value *a_mask(model *m, ot_value *x, bool plain) { return constant(m, x, -1e5f, plain); }

static ot_value *read_twice(model *m, ot_value *x, bool plain)
{
    ot_value *y = model_node(m, "MatMul", OT_IN(x, model_weight(m, "w", SHAPE(N, N))));
    ot_value *b = model_weight(m, "b", SHAPE(N));
    ot_value *z =
        plain ? model_node(m, "Sub", OT_IN(y, model_node(m, "Neg", OT_IN(b)))) : model_node(m, "Add", OT_IN(y, b));
    return model_node(m, "Mul", OT_IN(z, y));
}

/* Channels first .. first + N / 2 of h; plain: by a product with zeros and ones. */
static ot_value *part(model *m, ot_value *h, int first, bool plain)
{
    const int64_t from = first, to = first + N / 2, axis = 2;
    float one[N * N / 2] = { 0 };
    for (int i = 0; i < N / 2; i++) one[(first + i) * N / 2 + i] = 1;
    if (plain) return model_node(m, "MatMul", OT_IN(h, ot_graph_const(m->g, "ones", OT_F32, &SHAPE(N, N / 2), one)));
    return model_node(m, "Slice", OT_IN(h, model_ints(m, &from, 1), model_ints(m, &to, 1), model_ints(m, &axis, 1)));
}

static ot_value *two_parts(model *m, ot_value *x, int second, bool plain)
{
    ot_value *h = model_node(m, "MatMul", OT_IN(x, model_weight(m, "w", SHAPE(N, N))));
    ot_value *a = part(m, h, 0, plain), *b = part(m, h, second, plain);
    return model_node(m, "Add",
                      OT_IN(model_node(m, "MatMul", OT_IN(a, model_weight(m, "u", SHAPE(N / 2, N)))),
                            model_node(m, "MatMul", OT_IN(b, model_weight(m, "v", SHAPE(N / 2, N))))));
}

static ot_value *parts(model *m, ot_value *x, bool plain) { return two_parts(m, x, N / 2, plain); }
static ot_value *parts_that_overlap(model *m, ot_value *x, bool plain) { return two_parts(m, x, N / 4, plain); }

static const struct {
    const char *name;
    build *f;
    bool (*counts)(const ot_node *n);
    int found;
} rows[] = {
    { "behind", behind, is_biased, 1 },
    { "in front", in_front, is_biased, 1 },
    { "of more axes", of_more_axes, is_biased, 1 },
    { "of rows", of_rows, is_biased, 0 },
    { "reshaped", reshaped, is_biased, 1 },
    { "a constant", a_constant, is_biased, 1 },
    { "a mask", a_mask, is_biased, 0 },
    { "read twice", read_twice, is_biased, 0 },
    { "parts", parts, is_joined, 1 },
    { "parts that overlap", parts_that_overlap, is_joined, 0 },
};

static void biases_and_parts(void **state)
{
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++) {
        static double all[2][MOST];
        int n[2], found[2];
        for (int plain = 0; plain < 2; plain++) {
            model m;
            model_new(&m);
            ot_value *x = model_input(&m, "input", OT_F32, SHAPE(2, 3, N));
            model_output(&m, rows[i].f(&m, x, plain), "output");
            n[plain] = model_gradients(&m, all[plain], rows[i].counts, &found[plain]);
            if (n[plain] < 0) fail_msg("%s: %s", rows[i].name, m.err.text);
            model_free(&m);
        }
        if (found[0] != rows[i].found || found[1]) fail_msg("%s: found %d and %d", rows[i].name, found[0], found[1]);
        assert_int_equal(n[0], n[1]);
        for (int k = 0; k < n[0]; k++)
            if (!(fabs(all[0][k] - all[1][k]) <= 1e-5 * (1 + fabs(all[1][k]))))
                fail_msg("%s: number %d is %g, expected %g", rows[i].name, k, all[0][k], all[1][k]);
    }
}

int recognise_bias_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(biases_and_parts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
