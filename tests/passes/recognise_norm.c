/* recognise_norm.c - rows normalised in pieces are one RowNorm where they are, are left where they are not, and compute the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op.h"
#include "tests/passes/build.h"

enum { B = 3, T = 4, D = 6 };

/* How one model divides by its deviation, and what follows. */
typedef struct form {
    const char *name;
    enum { DIV, RECIPROCAL, ONE_BY, POWER, SHIFTED, NAKED_SHIFT } by;
    enum { POW_2, PRODUCT, SUM_SQUARE } square;
    bool rms, twice;       /* twice: the difference is computed again for the result */
    enum { NO_SCALE, ROW, ONES_ROW, PER_TOKEN } scale;
    bool bias;
    int  axes;             /* trailing axes in a row; 0: axis 1 alone, which is no row */
    bool outside;          /* epsilon is added to the deviation */
    bool other;            /* the square is of another tensor */
    int  norms;            /* in the plan */
} form;

static ot_value *number(model *m, float x) { return ot_graph_const(m->g, "number", OT_F32, &(ot_shape){ 0 }, &x); }
static ot_value *binary(model *m, const char *op, ot_value *a, ot_value *b) { return model_node(m, op, OT_IN(a, b)); }

static ot_value *mean(model *m, const form *f, const char *op, ot_value *x)
{
    static const int64_t last[] = { -1 }, two[] = { 1, -1 }, middle[] = { 1 };
    return model_node(m, op, OT_IN(x, model_ints(m, !f->axes ? middle : f->axes == 2 ? two : last, f->axes == 2 ? 2 : 1)));
}

static ot_value *variance(model *m, const form *f, ot_value *d)
{
    if (f->square == SUM_SQUARE) return binary(m, "Div", mean(m, f, "ReduceSumSquare", d), number(m, f->axes == 2 ? T * D : D));
    return mean(m, f, "ReduceMean", f->square == PRODUCT ? binary(m, "Mul", d, d) : binary(m, "Pow", d, number(m, 2)));
}

static ot_value *weight(model *m, const form *f, const char *name)
{
    ot_shape s = f->scale == PER_TOKEN ? SHAPE(T, 1) : f->axes == 2 ? SHAPE(T, D) : f->scale == ONES_ROW ? SHAPE(1, 1, D) : SHAPE(D);
    return model_weight(m, name, s);
}

/* In pieces. */
static ot_value *spelled(model *m, const form *f, ot_value *x)
{
    ot_value *mu = mean(m, f, "ReduceMean", x), *d = f->rms ? x : binary(m, "Sub", x, mu);
    ot_value *square_of = f->other ? binary(m, "Sub", x, mean(m, f, "ReduceMax", x)) : d, *v = variance(m, f, square_of);
    if (f->twice) d = binary(m, "Sub", x, mu);
    ot_value *inner = f->outside ? v : binary(m, "Add", v, number(m, 1e-3f)), *r = NULL;
    if (f->by == POWER) r = binary(m, "Pow", inner, number(m, -0.5f));
    ot_value *root = r ? NULL : model_node(m, "Sqrt", OT_IN(inner));
    if (f->outside) root = binary(m, "Add", root, number(m, 1e-3f));
    if (f->by == ONE_BY) r = binary(m, "Div", number(m, 1), root);
    if (f->by == RECIPROCAL || f->by == SHIFTED || f->by == NAKED_SHIFT) r = model_node(m, "Reciprocal", OT_IN(root));
    ot_value *scale = f->scale ? weight(m, f, "scale") : NULL, *bias = f->bias ? weight(m, f, "bias") : NULL;
    if (f->by == SHIFTED || f->by == NAKED_SHIFT) {
        if (f->by == SHIFTED) r = binary(m, "Mul", r, scale);
        return binary(m, "Add", binary(m, "Mul", x, r), binary(m, "Sub", bias, binary(m, "Mul", mu, r)));
    }
    ot_value *y = r ? binary(m, "Mul", d, r) : binary(m, "Div", d, root);
    if (scale) y = binary(m, "Mul", y, scale);
    return bias ? binary(m, "Add", bias, y) : y;
}

/* By ONNX's own operator. */
static ot_value *whole(model *m, const form *f, ot_value *x)
{
    float     one[T * D];
    for (int i = 0; i < T * D; i++) one[i] = 1;
    ot_shape  row = f->axes == 2 ? SHAPE(T, D) : SHAPE(D);
    bool      inside = f->scale && f->scale != PER_TOKEN;
    ot_value *scale = f->scale ? weight(m, f, "scale") : NULL, *bias = f->bias ? weight(m, f, "bias") : NULL;
    ot_value *kernel = inside ? scale : ot_graph_const(m->g, "ones", OT_F32, &row, one);
    ot_node  *n = ot_graph_node(m->g, ot_find_op("", f->rms ? "RMSNormalization" : "LayerNormalization"), "norm", NULL, OT_IN(x, kernel), 1);
    for (const ot_attr *a = n->op->attrs; a->name; a++) {
        if (!strcmp(a->name, "axis")) *(int64_t *)((char *)(uintptr_t)n->attrs + a->offset) = -f->axes;
        if (!strcmp(a->name, "epsilon")) *(double *)((char *)(uintptr_t)n->attrs + a->offset) = 1e-3f;
    }
    ot_value *y = n->out[0];
    if (scale && !inside) y = binary(m, "Mul", y, scale);
    return bias ? binary(m, "Add", y, bias) : y;
}

static bool is_norm(const ot_node *n) { return !strcmp(n->op->name, "RowNorm"); }

/* Loss and gradients of one batch; *found: how many RowNorm the plan has. */
static int gradients(const form *f, bool pieces, double *all, int *found)
{
    model m;
    model_new(&m);
    ot_value *x = model_input(&m, "input", OT_F32, SHAPE(B, T, D));
    x = binary(&m, "MatMul", x, model_weight(&m, "first", SHAPE(D, D)));
    model_output(&m, pieces ? spelled(&m, f, x) : whole(&m, f, x), "output");
    int n = model_gradients(&m, all, is_norm, found);
    if (n < 0) fail_msg("%s: %s", f->name, m.err.text);
    model_free(&m);
    return n;
}

static void norms(void **state)
{
    static const form forms[] = {
        { .name = "PyTorch's LayerNorm", .scale = ROW, .bias = true, .axes = 1, .norms = 1 },
        { .name = "the difference twice, squared by a product", .square = PRODUCT, .twice = true, .scale = ROW, .bias = true, .axes = 1, .norms = 1 },
        { .name = "the sum of squares", .square = SUM_SQUARE, .scale = ROW, .axes = 1, .norms = 1 },
        { .name = "times the reciprocal", .by = RECIPROCAL, .scale = ONES_ROW, .bias = true, .axes = 1, .norms = 1 },
        { .name = "times one by the root", .by = ONE_BY, .axes = 1, .norms = 1 },
        { .name = "times a power", .by = POWER, .scale = ROW, .bias = true, .axes = 1, .norms = 1 },
        { .name = "Keras' LayerNormalization", .by = SHIFTED, .square = PRODUCT, .twice = true, .scale = ROW, .bias = true, .axes = 1, .norms = 1 },
        { .name = "Keras' without scale", .by = NAKED_SHIFT, .square = PRODUCT, .bias = true, .axes = 1, .norms = 1 },
        { .name = "rows of two axes", .scale = ROW, .bias = true, .axes = 2, .norms = 1 },
        { .name = "RMSNorm", .by = POWER, .rms = true, .scale = ROW, .axes = 1, .norms = 1 },
        { .name = "RMSNorm by division", .rms = true, .square = PRODUCT, .scale = ROW, .axes = 1, .norms = 1 },
        { .name = "a scale per token", .scale = PER_TOKEN, .axes = 1, .norms = 1 },
        { .name = "epsilon outside the root", .scale = ROW, .bias = true, .axes = 1, .outside = true },
        { .name = "an axis in the middle", .axes = 0 },
        { .name = "the deviation from something else", .scale = ROW, .axes = 1, .other = true },
    };
    static double a[1024], b[1024];
    (void)state;
    for (int i = 0; i < OT_LEN(forms); i++) {
        int in_pieces, as_one, n = gradients(&forms[i], true, a, &in_pieces);
        if (in_pieces != forms[i].norms) fail_msg("%s: %d RowNorm, wants %d", forms[i].name, in_pieces, forms[i].norms);
        if (!forms[i].norms) continue;
        assert_int_equal(gradients(&forms[i], false, b, &as_one), n);
        for (int k = 0; k < n; k++)
            if (!(fabs(a[k] - b[k]) <= 1e-7 + 1e-5 * fabs(b[k]))) fail_msg("%s: number %d is %.9g, as one operator %.9g", forms[i].name, k, a[k], b[k]);
    }
}

int recognise_norm_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(norms) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
