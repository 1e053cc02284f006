/* recognise_activation.c - decomposed activations become one function of a Map, similar graphs do not; the results
 * are the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernels/map.h"
#include "tests/passes/build.h"

typedef ot_value *rule(model *m, ot_value *x);

static ot_value *num(model *m, double x)
{
    return ot_graph_const(m->g, "number", OT_F32, &(ot_shape){ 0 }, &(float){ (float)x });
}
static ot_value *two(model *m, const char *op, ot_value *a, ot_value *b) { return model_node(m, op, OT_IN(a, b)); }
static ot_value *one(model *m, const char *op, ot_value *a) { return model_node(m, op, OT_IN(a)); }
static ot_value *mul(model *m, ot_value *a, ot_value *b) { return two(m, "Mul", a, b); }
static ot_value *add(model *m, ot_value *a, ot_value *b) { return two(m, "Add", a, b); }

static ot_value *with_float(ot_value *y, const char *name, double to)
{
    for (const ot_attr *a = y->producer->op->attrs; a->name; a++)
        if (!strcmp(a->name, name)) *(double *)((char *)(uintptr_t)y->producer->attrs + a->offset) = to;
    return y;
}

/* ---- decomposed ------------------------------------------------------------------- */

static ot_value *phi2(model *m, ot_value *x)
{
    return add(m, one(m, "Erf", two(m, "Div", x, num(m, sqrt(2)))), num(m, 1));
}
static ot_value *gelu_half_last(model *m, ot_value *x) { return mul(m, mul(m, x, phi2(m, x)), num(m, 0.5)); }
static ot_value *gelu_half_first(model *m, ot_value *x) { return mul(m, mul(m, num(m, 0.5), x), phi2(m, x)); }
static ot_value *gelu_half_inside(model *m, ot_value *x) { return mul(m, mul(m, num(m, 0.5), phi2(m, x)), x); }
static ot_value *gelu_divided(model *m, ot_value *x)
{
    return two(m, "Div", mul(m, x, add(m, num(m, 1), one(m, "Erf", mul(m, x, num(m, sqrt(0.5)))))), num(m, 2));
}
static ot_value *cube(model *m, ot_value *x, int how)
{
    return how == 0   ? two(m, "Pow", x, num(m, 3))
           : how == 1 ? mul(m, mul(m, x, x), x)
                      : mul(m, x, two(m, "Pow", x, num(m, 2)));
}
static ot_value *tanh_gelu(model *m, ot_value *x, int how)
{
    ot_value *u = add(m, x, mul(m, num(m, 0.044715), cube(m, x, how)));
    return mul(m, mul(m, num(m, 0.5), x), add(m, num(m, 1), one(m, "Tanh", mul(m, num(m, sqrt(2 / M_PI)), u))));
}
static ot_value *tanh_power(model *m, ot_value *x) { return tanh_gelu(m, x, 0); }
static ot_value *tanh_product(model *m, ot_value *x) { return tanh_gelu(m, x, 1); }
static ot_value *tanh_square(model *m, ot_value *x) { return tanh_gelu(m, x, 2); }
static ot_value *tanh_within(model *m, ot_value *x)
{
    ot_value *u = add(m, mul(m, mul(m, x, x), num(m, 0.044715)), num(m, 1));
    return mul(m, mul(m, x, num(m, 0.5)),
               add(m, one(m, "Tanh", mul(m, mul(m, x, num(m, sqrt(2 / M_PI))), u)), num(m, 1)));
}
static ot_value *silu(model *m, ot_value *x) { return mul(m, one(m, "Sigmoid", x), x); }
static ot_value *quick_gelu(model *m, ot_value *x) { return mul(m, x, one(m, "Sigmoid", mul(m, x, num(m, 1.702)))); }
static ot_value *hard_clip(model *m, ot_value *x)
{
    ot_value *c = model_node(m, "Clip", OT_IN(add(m, x, num(m, 3)), num(m, 0), num(m, 6)));
    return two(m, "Div", mul(m, x, c), num(m, 6));
}
static ot_value *clip(model *m, ot_value *x, double high)
{
    return model_node(m, "Clip", OT_IN(mul(m, x, num(m, 5)), num(m, 0), num(m, high)));
}
static ot_value *relu6(model *m, ot_value *x) { return clip(m, x, 6); }
static ot_value *clamp(model *m, ot_value *x) { return clip(m, x, 5); }
static ot_value *hard_sigmoid(model *m, ot_value *x)
{
    return mul(m, x, with_float(with_float(one(m, "HardSigmoid", x), "alpha", 1.0f / 6), "beta", 0.5));
}
static ot_value *mish(model *m, ot_value *x) { return mul(m, x, one(m, "Tanh", one(m, "Softplus", x))); }
static ot_value *silu_of_product(model *m, ot_value *x) { return silu(m, mul(m, x, num(m, 3))); }

static ot_value *gate_of_other(model *m, ot_value *x) { return mul(m, x, one(m, "Sigmoid", one(m, "Sin", x))); }
static ot_value *gelu_wrong_half(model *m, ot_value *x) { return mul(m, mul(m, x, phi2(m, x)), num(m, 0.25)); }
static ot_value *erf_unscaled(model *m, ot_value *x)
{
    return mul(m, mul(m, x, add(m, one(m, "Erf", x), num(m, 1))), num(m, 0.5));
}
static ot_value *tanh_other_cubic(model *m, ot_value *x)
{
    ot_value *u = add(m, x, mul(m, num(m, 0.0447), cube(m, x, 0)));
    return mul(m, mul(m, num(m, 0.5), x), add(m, num(m, 1), one(m, "Tanh", mul(m, num(m, sqrt(2 / M_PI)), u))));
}

/* ---- by ONNX's own operators ------------------------------------------------------ */

static ot_value *gelu(model *m, ot_value *x) { return one(m, "Gelu", x); }
static ot_value *gelu_tanh(model *m, ot_value *x)
{
    ot_value *y = one(m, "Gelu", x);
    for (const ot_attr *a = y->producer->op->attrs; a->name; a++)
        if (!strcmp(a->name, "approximate"))
            *(const char **)((char *)(uintptr_t)y->producer->attrs + a->offset) = "tanh";
    return y;
}
static ot_value *swish(model *m, ot_value *x) { return one(m, "Swish", x); }
static ot_value *swish_quick(model *m, ot_value *x) { return with_float(one(m, "Swish", x), "alpha", 1.702); }
static ot_value *swish_of_product(model *m, ot_value *x) { return swish(m, mul(m, x, num(m, 3))); }
static ot_value *hardswish(model *m, ot_value *x) { return one(m, "HardSwish", x); }
static ot_value *relu_and_bound(model *m, ot_value *x)
{
    return two(m, "Min", one(m, "Relu", mul(m, x, num(m, 5))), num(m, 6));
}
static ot_value *whole_mish(model *m, ot_value *x) { return one(m, "Mish", x); }

/* ---- both ------------------------------------------------------------------------- */

static int row_wanted;

static bool has_row(const ot_node *n)
{
    const ot_program *p = !strcmp(n->op->name, "Map") ? n->attrs : NULL;
    for (int i = 0; p && i < p->n_inst; i++)
        if (p->inst[i].row == row_wanted) return true;
    return false;
}

static int gradients(rule *r, double *all, int *found)
{
    model m;
    model_new(&m);
    ot_value *x = model_input(&m, "input", OT_F32, SHAPE(5, 6));
    x = two(&m, "MatMul", x, model_weight(&m, "first", SHAPE(6, 6)));
    model_output(&m, two(&m, "MatMul", r(&m, x), model_weight(&m, "last", SHAPE(6, 6))), "output");
    int n = model_gradients(&m, all, has_row, found);
    if (n < 0) fail_msg("%s", m.err.text);
    model_free(&m);
    return n;
}

static void activations(void **state)
{
    static const struct {
        const char *name;
        rule *pieces, *whole;
        int row;
    } rows[] = {
        { "Gelu, half last", gelu_half_last, gelu, OT_FN_Gelu },
        { "Gelu, half first", gelu_half_first, gelu, OT_FN_Gelu },
        { "Gelu, half inside", gelu_half_inside, gelu, OT_FN_Gelu },
        { "Gelu, divided", gelu_divided, gelu, OT_FN_Gelu },
        { "Gelu by tanh, a power", tanh_power, gelu_tanh, OT_FN_GeluTanh },
        { "Gelu by tanh, products", tanh_product, gelu_tanh, OT_FN_GeluTanh },
        { "Gelu by tanh, a square", tanh_square, gelu_tanh, OT_FN_GeluTanh },
        { "Gelu by tanh, x within", tanh_within, gelu_tanh, OT_FN_GeluTanh },
        { "Swish", silu, swish, OT_FN_Swish },
        { "Swish of a product", silu_of_product, swish_of_product, OT_FN_Swish },
        { "quick Gelu", quick_gelu, swish_quick, OT_FN_Swish },
        { "HardSwish by Clip", hard_clip, hardswish, OT_FN_HardSwish },
        { "HardSwish by HardSigmoid", hard_sigmoid, hardswish, OT_FN_HardSwish },
        { "Mish", mish, whole_mish, OT_FN_Mish },
        { "ReLU6", relu6, relu_and_bound, OT_FN_Relu6 },
        { "another bound", clamp, NULL, OT_FN_Relu6 },
        { "a gate that reads something else", gate_of_other, NULL, OT_FN_Swish },
        { "another factor", gelu_wrong_half, NULL, OT_FN_Gelu },
        { "erf of x itself", erf_unscaled, NULL, OT_FN_Gelu },
        { "another coefficient", tanh_other_cubic, NULL, OT_FN_GeluTanh },
    };
    static double a[256], b[256];
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++) {
        int found, as_one;
        row_wanted = rows[i].row;
        int n = gradients(rows[i].pieces, a, &found);
        if ((found > 0) != (rows[i].whole != NULL)) fail_msg("%s: in %d nodes", rows[i].name, found);
        if (!rows[i].whole) continue;
        assert_int_equal(gradients(rows[i].whole, b, &as_one), n);
        for (int k = 0; k < n; k++)
            if (!(fabs(a[k] - b[k]) <= 1e-7 + 1e-5 * fabs(b[k])))
                fail_msg("%s: number %d is %.9g, as one operator %.9g", rows[i].name, k, a[k], b[k]);
    }
}

int recognise_activation_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(activations) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
