/* recognise_root.c - roots of sums of squares have the gradient of ReduceL2, 0 where all squares are 0; other roots keep theirs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/passes/build.h"

enum { N = 5, D = 6 };

typedef ot_value *rule(model *m, ot_value *x);

static ot_value *num(model *m, double x)
{
    return ot_graph_const(m->g, "number", OT_F32, &(ot_shape){ 0 }, &(float){ (float)x });
}
static ot_value *two(model *m, const char *op, ot_value *a, ot_value *b) { return model_node(m, op, OT_IN(a, b)); }
static ot_value *over(model *m, const char *op, ot_value *x)
{
    return two(m, op, x, model_ints(m, &(int64_t){ -1 }, 1));
}
static ot_value *root(model *m, ot_value *x) { return model_node(m, "Sqrt", OT_IN(x)); }
static ot_value *centred(model *m, ot_value *x) { return two(m, "Sub", x, over(m, "ReduceMean", x)); }

static ot_value *norm(model *m, ot_value *x) { return over(m, "ReduceL2", x); }
static ot_value *by_product(model *m, ot_value *x) { return root(m, over(m, "ReduceSum", two(m, "Mul", x, x))); }
static ot_value *by_power(model *m, ot_value *x) { return root(m, over(m, "ReduceSum", two(m, "Pow", x, num(m, 2)))); }
static ot_value *by_reduction(model *m, ot_value *x) { return root(m, over(m, "ReduceSumSquare", x)); }
static ot_value *by_half_power(model *m, ot_value *x)
{
    return two(m, "Pow", over(m, "ReduceSumSquare", x), num(m, 0.5));
}
static ot_value *deviation(model *m, ot_value *x)
{
    return two(m, "Mul", norm(m, centred(m, x)), num(m, sqrt(1. / (D - 1))));
}
/* As TorchScript's exporter writes std(): the mean of the squares, times their number, over one less. */
static ot_value *std_of_script(model *m, ot_value *x)
{
    ot_value *d = centred(m, x), *v = over(m, "ReduceMean", two(m, "Mul", d, d));
    return root(m, two(m, "Div", two(m, "Mul", v, num(m, D)), num(m, D - 1)));
}
static ot_value *product(model *m, ot_value *x)
{
    ot_value *s = over(m, "ReduceSumSquare", x), *t = over(m, "ReduceSumSquare", two(m, "Mul", x, num(m, 3)));
    return root(m, two(m, "Mul", s, t));
}
static ot_value *of_norms(model *m, ot_value *x)
{
    return two(m, "Mul", norm(m, x), norm(m, two(m, "Mul", x, num(m, 3))));
}
static ot_value *of_a_sum(model *m, ot_value *x) { return root(m, over(m, "ReduceSum", x)); }

static bool is_sqrt(const ot_node *n) { return !strcmp(n->op->name, "Map"); }

/* zero: all squares are 0. */
static int gradients(rule *r, bool zero, double *all)
{
    model m;
    int found;
    model_new(&m);
    ot_value *x = model_input(&m, "input", OT_F32, SHAPE(N, D));
    x = two(&m, "MatMul", x, model_weight(&m, "first", SHAPE(D, D)));
    if (zero) x = two(&m, "Sub", x, x);
    model_output(&m, two(&m, "MatMul", r(&m, x), model_weight(&m, "last", SHAPE(1, D))), "output");
    int n = model_gradients(&m, all, is_sqrt, &found);
    if (n < 0) fail_msg("%s", m.err.text);
    model_free(&m);
    return n;
}

static void roots(void **state)
{
    static const struct {
        const char *name;
        rule *pieces, *whole; /* whole NULL: another root, of infinite slope at 0 */
    } rows[] = {
        { "a product", by_product, norm },
        { "a power", by_power, norm },
        { "ReduceSumSquare", by_reduction, norm },
        { "a power of a half", by_half_power, norm },
        { "PyTorch's std", std_of_script, deviation },
        { "a product of two", product, of_norms },
        { "a sum", of_a_sum, NULL },
    };
    static double a[256], b[256];
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++)
        for (int zero = 0; zero < 2; zero++) {
            if (!rows[i].whole && !zero) continue; /* a sum may be negative */
            int n = gradients(rows[i].pieces, zero, a), finite = 0;
            for (int k = 0; k < n; k++) finite += isfinite(a[k]);
            if (!rows[i].whole && finite == n) fail_msg("%s: all finite", rows[i].name);
            if (!rows[i].whole) continue;
            assert_int_equal(gradients(rows[i].whole, zero, b), n);
            for (int k = 0; k < n; k++)
                if (!(fabs(a[k] - b[k]) <= 1e-7 + 1e-5 * fabs(b[k])))
                    fail_msg("%s: number %d is %.9g, as one operator %.9g", rows[i].name, k, a[k], b[k]);
        }
}

int recognise_root_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(roots) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
