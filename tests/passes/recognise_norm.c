/* recognise_norm.c - decomposed norms of rows become one LayerNorm, similar graphs do not; the results are the same. */
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
    bool rms, twice; /* twice: the difference is computed again for the result */
    enum { NO_SCALE, ROW, ONES_ROW, PER_TOKEN } scale;
    bool bias;
    int axes;     /* trailing axes in a row; 0: axis 1 alone, which is no row */
    bool outside; /* epsilon is added to the deviation */
    bool other;   /* the square is of another tensor */
    int norms;    /* in the plan */
} form;

static ot_value *number(model *m, float x) { return ot_graph_const(m->g, "number", OT_F32, &(ot_shape){ 0 }, &x); }
static ot_value *binary(model *m, const char *op, ot_value *a, ot_value *b) { return model_node(m, op, OT_IN(a, b)); }

static ot_value *mean(model *m, const form *f, const char *op, ot_value *x)
{
    static const int64_t last[] = { -1 }, two[] = { 1, -1 }, middle[] = { 1 };
    return model_node(m, op,
                      OT_IN(x, model_ints(m,
                                          !f->axes       ? middle
                                          : f->axes == 2 ? two
                                                         : last,
                                          f->axes == 2 ? 2 : 1)));
}

static ot_value *variance(model *m, const form *f, ot_value *d)
{
    if (f->square == SUM_SQUARE)
        return binary(m, "Div", mean(m, f, "ReduceSumSquare", d), number(m, f->axes == 2 ? T * D : D));
    return mean(m, f, "ReduceMean", f->square == PRODUCT ? binary(m, "Mul", d, d) : binary(m, "Pow", d, number(m, 2)));
}

static ot_value *weight(model *m, const form *f, const char *name)
{
    ot_shape s = f->scale == PER_TOKEN  ? SHAPE(T, 1)
                 : f->axes == 2         ? SHAPE(T, D)
                 : f->scale == ONES_ROW ? SHAPE(1, 1, D)
                                        : SHAPE(D);
    return model_weight(m, name, s);
}

/* Decomposed. */
static ot_value *spelled(model *m, const form *f, ot_value *x)
{
    ot_value *mu = mean(m, f, "ReduceMean", x), *d = f->rms ? x : binary(m, "Sub", x, mu);
    ot_value *square_of = f->other ? binary(m, "Sub", x, mean(m, f, "ReduceMax", x)) : d,
             *v = variance(m, f, square_of);
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
    float one[T * D];
    for (int i = 0; i < T * D; i++) one[i] = 1;
    ot_shape row = f->axes == 2 ? SHAPE(T, D) : SHAPE(D);
    bool inside = f->scale && f->scale != PER_TOKEN;
    ot_value *scale = f->scale ? weight(m, f, "scale") : NULL, *bias = f->bias ? weight(m, f, "bias") : NULL;
    ot_value *kernel = inside ? scale : ot_graph_const(m->g, "ones", OT_F32, &row, one);
    ot_node *n = ot_graph_node(m->g, ot_find_op("", f->rms ? "RMSNormalization" : "LayerNormalization"), "norm", NULL,
                               OT_IN(x, kernel), 1);
    for (const ot_attr *a = n->op->attrs; a->name; a++) {
        if (!strcmp(a->name, "axis")) *(int64_t *)((char *)(uintptr_t)n->attrs + a->offset) = -f->axes;
        if (!strcmp(a->name, "epsilon")) *(double *)((char *)(uintptr_t)n->attrs + a->offset) = 1e-3f;
    }
    ot_value *y = n->out[0];
    if (scale && !inside) y = binary(m, "Mul", y, scale);
    return bias ? binary(m, "Add", y, bias) : y;
}

static bool is_norm(const ot_node *n) { return !strcmp(n->op->name, "LayerNorm"); }

/* Loss and gradients of one batch; *found: how many LayerNorm the plan has. */
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
        { .name = "the difference twice, squared by a product",
          .square = PRODUCT,
          .twice = true,
          .scale = ROW,
          .bias = true,
          .axes = 1,
          .norms = 1 },
        { .name = "the sum of squares", .square = SUM_SQUARE, .scale = ROW, .axes = 1, .norms = 1 },
        { .name = "times the reciprocal", .by = RECIPROCAL, .scale = ONES_ROW, .bias = true, .axes = 1, .norms = 1 },
        { .name = "times one by the root", .by = ONE_BY, .axes = 1, .norms = 1 },
        { .name = "times a power", .by = POWER, .scale = ROW, .bias = true, .axes = 1, .norms = 1 },
        { .name = "Keras' LayerNormalization",
          .by = SHIFTED,
          .square = PRODUCT,
          .twice = true,
          .scale = ROW,
          .bias = true,
          .axes = 1,
          .norms = 1 },
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
        if (in_pieces != forms[i].norms)
            fail_msg("%s: %d LayerNorm, wants %d", forms[i].name, in_pieces, forms[i].norms);
        if (!forms[i].norms) continue;
        assert_int_equal(gradients(&forms[i], false, b, &as_one), n);
        for (int k = 0; k < n; k++)
            if (!(fabs(a[k] - b[k]) <= 1e-7 + 1e-5 * fabs(b[k])))
                fail_msg("%s: number %d is %.9g, as one operator %.9g", forms[i].name, k, a[k], b[k]);
    }
}

/* ---- by the statistics of the batch, and in groups ------------------------------------------ */

/* A norm of (N, T, D) that is no norm of rows. */
typedef struct batch_form {
    const char *name;
    int channels; /* their axis; -1: groups of T, two each */
    bool apart;   /* means lose their axes, and get them back */
    enum { PLAIN, KERAS, INSTANCE, ROWS } how;
    enum { RIGHT, TWO_KEPT, UNBIASED } wrong;
    const char *op; /* in the plan */
} batch_form;

static ot_value *set_int(ot_value *y, const char *name, int64_t to)
{
    for (const ot_attr *a = y->producer->op->attrs; a->name; a++)
        if (!strcmp(a->name, name)) *(int64_t *)((char *)(uintptr_t)y->producer->attrs + a->offset) = to;
    return y;
}

static ot_value *batch_mean(model *m, const batch_form *f, ot_value *x)
{
    int64_t axes[2] = { 0, f->channels == 1 ? 2 : 1 };
    int n = f->wrong == TWO_KEPT ? 1 : 2;
    ot_value *y = binary(m, "ReduceMean", x, model_ints(m, axes, n));
    if (f->apart) y = binary(m, "Unsqueeze", set_int(y, "keepdims", 0), model_ints(m, axes, n));
    return y;
}

static ot_value *batch_spelled(model *m, const batch_form *f, ot_value *x, ot_value *scale, ot_value *bias)
{
    ot_value *mu = batch_mean(m, f, x), *d = binary(m, "Sub", x, mu), *v = batch_mean(m, f, binary(m, "Mul", d, d));
    if (f->wrong == UNBIASED) v = binary(m, "Mul", v, number(m, 12.0f / 11));
    ot_value *root = model_node(m, "Sqrt", OT_IN(binary(m, "Add", v, number(m, 1e-3f))));
    if (f->how == PLAIN) return binary(m, "Add", binary(m, "Mul", binary(m, "Div", d, root), scale), bias);
    ot_value *w = binary(m, "Mul", model_node(m, "Reciprocal", OT_IN(root)), scale);
    return binary(m, "Add", binary(m, "Mul", x, w), binary(m, "Sub", bias, binary(m, "Mul", mu, w)));
}

static ot_value *epsilon(ot_value *y)
{
    for (const ot_attr *a = y->producer->op->attrs; a->name; a++)
        if (!strcmp(a->name, "epsilon")) *(double *)((char *)(uintptr_t)y->producer->attrs + a->offset) = 1e-3f;
    return y;
}

/* As torch.onnx writes a GroupNorm, and as LayerNorm of rows. */
static ot_value *groups_spelled(model *m, const batch_form *f, ot_value *x, ot_value *scale, ot_value *bias)
{
    static const int64_t rows[] = { 0, T / 2, -1 }, back[] = { B, T, D };
    static const float ones[T / 2] = { 1, 1 }, none[T / 2] = { 0 };
    ot_value *g = binary(m, "Reshape", x, model_ints(m, rows, 3)), *y;
    if (f->how == INSTANCE) {
        ot_value *one = ot_graph_const(m->g, "ones", OT_F32, &SHAPE(T / 2), ones),
                 *zero = ot_graph_const(m->g, "none", OT_F32, &SHAPE(T / 2), none);
        y = epsilon(model_node(m, "InstanceNormalization", OT_IN(g, one, zero)));
    } else {
        form r = { .axes = 1 };
        y = spelled(m, &r, g);
    }
    return binary(m, "Add", binary(m, "Mul", binary(m, "Reshape", y, model_ints(m, back, 3)), scale), bias);
}

static ot_value *batch_whole(model *m, const batch_form *f, ot_value *x, ot_value *scale, ot_value *bias)
{
    static const int64_t list[] = { -1 }, flat[] = { -1, D }, back[] = { B, T, D };
    static const float some[D] = { 0.5f, 1, 2, 1, 0.5f, 1 };
    scale = binary(m, "Reshape", scale, model_ints(m, list, 1));
    bias = binary(m, "Reshape", bias, model_ints(m, list, 1));
    if (f->channels < 0)
        return set_int(epsilon(model_node(m, "GroupNormalization", OT_IN(x, scale, bias))), "num_groups", T / 2);
    ot_shape s = f->channels == 1 ? SHAPE(T) : SHAPE(D);
    ot_value *stat = ot_graph_const(m->g, "statistic", OT_F32, &s, some),
             *v = f->channels == 1 ? x : binary(m, "Reshape", x, model_ints(m, flat, 2));
    v = set_int(epsilon(model_node(m, "BatchNormalization", OT_IN(v, scale, bias, stat, stat))), "training_mode", 1);
    return f->channels == 1 ? v : binary(m, "Reshape", v, model_ints(m, back, 3));
}

static const char *op_wanted;
static bool is_wanted(const ot_node *n) { return !strcmp(n->op->name, op_wanted); }
static bool is_any(const ot_node *n) { return n != NULL; }

static int batch_gradients(const batch_form *f, bool pieces, double *all, bool (*counts)(const ot_node *n), int *found)
{
    model m;
    model_new(&m);
    ot_value *x =
        binary(&m, "MatMul", model_input(&m, "input", OT_F32, SHAPE(B, T, D)), model_weight(&m, "first", SHAPE(D, D)));
    ot_shape s = f->channels == 2 ? SHAPE(D) : SHAPE(T, 1);
    ot_value *scale = model_weight(&m, "scale", s), *bias = model_weight(&m, "bias", s);
    ot_value *y = !pieces           ? batch_whole(&m, f, x, scale, bias)
                  : f->channels < 0 ? groups_spelled(&m, f, x, scale, bias)
                                    : batch_spelled(&m, f, x, scale, bias);
    model_output(&m, y, "output");
    int n = model_gradients(&m, all, counts, found);
    if (n < 0) fail_msg("%s: %s", f->name, m.err.text);
    model_free(&m);
    return n;
}

static void batches_and_groups(void **state)
{
    static const batch_form forms[] = {
        { .name = "batch statistics of axis 1", .channels = 1, .op = "BatchNorm" },
        { .name = "batch statistics of the last axis", .channels = 2, .op = "BatchNorm" },
        { .name = "means without their axes", .channels = 1, .apart = true, .op = "BatchNorm" },
        { .name = "batch statistics as Keras", .channels = 2, .how = KERAS, .op = "BatchNorm" },
        { .name = "as Keras, means without their axes", .channels = 1, .how = KERAS, .apart = true, .op = "BatchNorm" },
        { .name = "two axes are left", .channels = 1, .wrong = TWO_KEPT, .op = "BatchNorm" },
        { .name = "the unbiased variance", .channels = 2, .wrong = UNBIASED, .op = "BatchNorm" },
        { .name = "GroupNorm by InstanceNormalization", .channels = -1, .how = INSTANCE, .op = "LayerNorm" },
        { .name = "GroupNorm by rows in pieces", .channels = -1, .how = ROWS, .op = "LayerNorm" },
    };
    static double a[1024], b[1024];
    (void)state;
    for (int i = 0; i < OT_LEN(forms); i++) {
        const batch_form *f = &forms[i];
        int found, nodes, others;
        op_wanted = f->op;
        int n = batch_gradients(f, true, a, is_wanted, &found);
        if (found != !f->wrong) fail_msg("%s: %d %s", f->name, found, f->op);
        if (f->wrong) continue;
        assert_int_equal(batch_gradients(f, false, b, is_any, &others), n);
        batch_gradients(f, true, a, is_any, &nodes);
        if (nodes > others) fail_msg("%s: %d nodes, as one operator %d", f->name, nodes, others);
        for (int k = 0; k < n; k++)
            if (!(fabs(a[k] - b[k]) <= 1e-6 + 1e-5 * fabs(b[k])))
                fail_msg("%s: number %d is %.9g, as one operator %.9g", f->name, k, a[k], b[k]);
    }
}

int recognise_norm_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(norms), cmocka_unit_test(batches_and_groups) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
