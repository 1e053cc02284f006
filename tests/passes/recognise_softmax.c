/* recognise_softmax.c - decomposed Softmax, Sigmoid, Tanh, Softplus become one operator, similar graphs do not; the
 * results are the same, and a loss is combined with them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernels/map.h"
#include "ops/kernels/softmax.h"
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
static ot_value *sub(model *m, ot_value *a, ot_value *b) { return two(m, "Sub", a, b); }
static ot_value *quot(model *m, ot_value *a, ot_value *b) { return two(m, "Div", a, b); }
static ot_value *ex(model *m, ot_value *a) { return one(m, "Exp", a); }

static ot_value *with_int(ot_value *y, const char *name, int64_t to)
{
    for (const ot_attr *a = y->producer->op->attrs; a->name; a++)
        if (!strcmp(a->name, name)) *(int64_t *)((char *)(uintptr_t)y->producer->attrs + a->offset) = to;
    return y;
}

static ot_value *over(model *m, const char *op, ot_value *x, int64_t axis)
{
    return two(m, op, x, model_ints(m, &axis, 1));
}
static ot_value *over_and_back(model *m, const char *op, ot_value *x, int64_t axis)
{
    return two(m, "Unsqueeze", with_int(over(m, op, x, axis), "keepdims", 0), model_ints(m, &axis, 1));
}
static ot_value *off(model *m, ot_value *x, int64_t axis) { return sub(m, x, over(m, "ReduceMax", x, axis)); }

/* ---- decomposed ------------------------------------------------------------------- */

static ot_value *soft(model *m, ot_value *x)
{
    ot_value *e = ex(m, off(m, x, -1));
    return quot(m, e, over(m, "ReduceSum", e, -1));
}
static ot_value *soft_plain(model *m, ot_value *x) { return quot(m, ex(m, x), over(m, "ReduceSum", ex(m, x), 1)); }
static ot_value *soft_product(model *m, ot_value *x)
{
    ot_value *e = ex(m, off(m, x, -1));
    return mul(m, one(m, "Reciprocal", over_and_back(m, "ReduceSum", e, -1)), e);
}
static ot_value *soft_first(model *m, ot_value *x) /* another axis; the maximum is added negated */
{
    ot_value *e = ex(m, add(m, one(m, "Neg", over_and_back(m, "ReduceMax", x, 0)), x));
    return mul(m, e, quot(m, num(m, 1), over(m, "ReduceSum", e, 0)));
}
static ot_value *soft_of_sum(model *m, ot_value *x) { return soft(m, add(m, x, one(m, "Sin", x))); }
static ot_value *log_two(model *m, ot_value *x)
{
    ot_value *d = off(m, x, -1);
    return sub(m, d, one(m, "Log", over(m, "ReduceSum", ex(m, d), -1)));
}
static ot_value *log_nested(model *m, ot_value *x) /* x - (max + log(sum(exp(x - max)))) */
{
    ot_value *top = over(m, "ReduceMax", x, 1);
    return sub(m, x, add(m, one(m, "Log", over(m, "ReduceSum", ex(m, sub(m, x, top)), 1)), top));
}
static ot_value *log_plain(model *m, ot_value *x) { return add(m, x, one(m, "Neg", over(m, "ReduceLogSumExp", x, 1))); }
static ot_value *log_of_soft(model *m, ot_value *x) { return one(m, "Log", soft(m, x)); }
static ot_value *exp_of_log(model *m, ot_value *x) { return ex(m, log_nested(m, x)); }

static ot_value *sig(model *m, ot_value *x) { return quot(m, num(m, 1), add(m, num(m, 1), ex(m, one(m, "Neg", x)))); }
static ot_value *sig_reciprocal(model *m, ot_value *x)
{
    return one(m, "Reciprocal", add(m, ex(m, mul(m, x, num(m, -1))), num(m, 1)));
}
static ot_value *sig_power(model *m, ot_value *x)
{
    return two(m, "Pow", add(m, ex(m, sub(m, num(m, 0), x)), num(m, 1)), num(m, -1));
}
static ot_value *sig_quotient(model *m, ot_value *x) { return quot(m, ex(m, x), add(m, num(m, 1), ex(m, x))); }
static ot_value *sig_tanh(model *m, ot_value *x)
{
    return mul(m, num(m, 0.5), add(m, one(m, "Tanh", mul(m, x, num(m, 0.5))), num(m, 1)));
}
static ot_value *sig_tanh_out(model *m, ot_value *x)
{
    return add(m, mul(m, one(m, "Tanh", quot(m, x, num(m, 2))), num(m, 0.5)), num(m, 0.5));
}
static ot_value *sig_scaled(model *m, ot_value *x)
{
    return quot(m, num(m, 1), add(m, num(m, 1), ex(m, mul(m, x, num(m, -3)))));
}
static ot_value *log_one_plus(model *m, ot_value *x) { return one(m, "Log", add(m, num(m, 1), ex(m, x))); }
/* Exponentials of these overflow, or are 0. */
static ot_value *large(model *m, ot_value *x) { return mul(m, x, num(m, 1000)); }
static ot_value *log_of_sig(model *m, ot_value *x) { return one(m, "Log", sig(m, large(m, x))); }
static ot_value *log_of_two(model *m, ot_value *x)
{
    return one(m, "Log", add(m, ex(m, large(m, x)), ex(m, one(m, "Sin", x))));
}
static ot_value *log_of_three(model *m, ot_value *x)
{
    return one(m, "Log", add(m, ex(m, mul(m, x, x)), add(m, ex(m, x), ex(m, one(m, "Sin", x)))));
}
static ot_value *log_of_difference(model *m, ot_value *x)
{
    return one(m, "Log", sub(m, ex(m, add(m, mul(m, x, x), num(m, 9))), ex(m, one(m, "Sin", x))));
}
static ot_value *tanh_four(model *m, ot_value *x)
{
    ot_value *p = ex(m, x), *n = ex(m, one(m, "Neg", x));
    return quot(m, sub(m, p, n), add(m, n, p));
}
static ot_value *tanh_twice(model *m, ot_value *x)
{
    ot_value *e = ex(m, mul(m, x, num(m, 2)));
    return quot(m, sub(m, e, num(m, 1)), add(m, e, num(m, 1)));
}
static ot_value *tanh_minus(model *m, ot_value *x)
{
    ot_value *e = ex(m, mul(m, num(m, -2), x));
    return quot(m, sub(m, num(m, 1), e), add(m, num(m, 1), e));
}
static ot_value *tanh_sigmoid(model *m, ot_value *x)
{
    return sub(m, mul(m, num(m, 2), one(m, "Sigmoid", mul(m, x, num(m, 2)))), num(m, 1));
}
static ot_value *swish_in_pieces(model *m, ot_value *x) { return mul(m, x, sig(m, x)); }

/* ---- what only looks like them ------------------------------------------------------ */

static ot_value *soft_epsilon(model *m, ot_value *x)
{
    ot_value *e = ex(m, x);
    return quot(m, e, add(m, over(m, "ReduceSum", e, -1), num(m, 1e-3)));
}
static ot_value *soft_other(model *m, ot_value *x)
{
    return quot(m, ex(m, x), over(m, "ReduceSum", ex(m, one(m, "Sin", x)), -1));
}
static ot_value *soft_of_all(model *m, ot_value *x)
{
    static const int64_t both[] = { 0, 1 };
    return quot(m, ex(m, x), two(m, "ReduceSum", ex(m, x), model_ints(m, both, 2)));
}
static ot_value *soft_mean(model *m, ot_value *x) { return quot(m, ex(m, x), over(m, "ReduceMean", ex(m, x), -1)); }
static ot_value *log_clipped(model *m, ot_value *x)
{
    return one(m, "Log", model_node(m, "Clip", OT_IN(soft(m, x), num(m, 0.15), num(m, 1))));
}
static ot_value *log_other(model *m, ot_value *x)
{
    return sub(m, mul(m, x, num(m, 2)), over(m, "ReduceLogSumExp", x, -1));
}
static ot_value *log_of_norm(model *m, ot_value *x) { return add(m, x, over(m, "ReduceLogSumExp", x, -1)); }
static ot_value *sig_two(model *m, ot_value *x)
{
    return quot(m, num(m, 2), add(m, num(m, 1), ex(m, one(m, "Neg", x))));
}
static ot_value *sig_wide(model *m, ot_value *x)
{
    return quot(m, num(m, 1), add(m, num(m, 1.5), ex(m, one(m, "Neg", x))));
}
static ot_value *tanh_uneven(model *m, ot_value *x)
{
    ot_value *p = ex(m, x), *n = ex(m, mul(m, x, num(m, -1.5)));
    return quot(m, sub(m, p, n), add(m, n, p));
}
static ot_value *tanh_upside(model *m, ot_value *x) /* coth */
{
    ot_value *e = ex(m, mul(m, x, num(m, 2)));
    return quot(m, add(m, e, num(m, 1)), sub(m, e, num(m, 1)));
}

/* ---- by ONNX's own operators ------------------------------------------------------ */

static ot_value *softmax(model *m, ot_value *x) { return with_int(one(m, "Softmax", x), "axis", 1); }
static ot_value *softmax_first(model *m, ot_value *x) { return with_int(one(m, "Softmax", x), "axis", 0); }
static ot_value *softmax_of_sum(model *m, ot_value *x) { return softmax(m, add(m, x, one(m, "Sin", x))); }
static ot_value *logsoftmax(model *m, ot_value *x) { return with_int(one(m, "LogSoftmax", x), "axis", 1); }
static ot_value *sigmoid(model *m, ot_value *x) { return one(m, "Sigmoid", x); }
static ot_value *sigmoid_scaled(model *m, ot_value *x) { return one(m, "Sigmoid", mul(m, x, num(m, 3))); }
static ot_value *softplus(model *m, ot_value *x) { return one(m, "Softplus", x); }
static ot_value *minus_softplus(model *m, ot_value *x)
{
    return one(m, "Neg", one(m, "Softplus", one(m, "Neg", large(m, x))));
}
static ot_value *all_of(model *m, ot_value **x, int n)
{
    static const int64_t first[] = { 0 };
    for (int i = 0; i < n; i++) x[i] = two(m, "Unsqueeze", x[i], model_ints(m, first, 1));
    return with_int(over(m, "ReduceLogSumExp", model_node(m, "Concat", x, n), 0), "keepdims", 0);
}
static ot_value *whole_two(model *m, ot_value *x)
{
    return all_of(m, (ot_value *[]){ large(m, x), one(m, "Sin", x) }, 2);
}
static ot_value *whole_three(model *m, ot_value *x)
{
    return all_of(m, (ot_value *[]){ mul(m, x, x), x, one(m, "Sin", x) }, 3);
}
static ot_value *whole_tanh(model *m, ot_value *x) { return one(m, "Tanh", x); }
static ot_value *swish(model *m, ot_value *x) { return one(m, "Swish", x); }

/* ---- both ------------------------------------------------------------------------- */

enum { ROWS = OT_FN_END, LOG_ROWS, ANY_ROWS };
static int wanted;

static bool has_it(const ot_node *n)
{
    const ot_program *p = !strcmp(n->op->name, "Map") ? n->attrs : NULL;
    if (!strcmp(n->op->name, "SoftmaxAxis"))
        return wanted == ANY_ROWS || wanted == (((const ot_softmax_axis *)n->attrs)->log ? LOG_ROWS : ROWS);
    for (int i = 0; p && i < p->n_inst; i++)
        if (p->inst[i].row == wanted) return true;
    return false;
}

static int gradients(const char *name, rule *r, double *all, int *found)
{
    model m;
    model_new(&m);
    ot_value *x = model_input(&m, "input", OT_F32, SHAPE(5, 6));
    x = two(&m, "MatMul", x, model_weight(&m, "first", SHAPE(6, 6)));
    model_output(&m, two(&m, "MatMul", r(&m, x), model_weight(&m, "last", SHAPE(6, 6))), "output");
    int n = model_gradients(&m, all, has_it, found);
    if (n < 0) fail_msg("%s: %s", name, m.err.text);
    model_free(&m);
    return n;
}

static void functions(void **state)
{
    static const struct {
        const char *name;
        rule *pieces, *whole;
        int what;
    } rows[] = {
        { "Softmax", soft, softmax, ROWS },
        { "Softmax without the maximum", soft_plain, softmax, ROWS },
        { "Softmax as a product", soft_product, softmax, ROWS },
        { "Softmax over the first axis", soft_first, softmax_first, ROWS },
        { "Softmax of a sum", soft_of_sum, softmax_of_sum, ROWS },
        { "LogSoftmax", log_two, logsoftmax, LOG_ROWS },
        { "LogSoftmax, nested", log_nested, logsoftmax, LOG_ROWS },
        { "LogSoftmax by ReduceLogSumExp", log_plain, logsoftmax, LOG_ROWS },
        { "Log of Softmax in pieces", log_of_soft, logsoftmax, LOG_ROWS },
        { "Exp of LogSoftmax in pieces", exp_of_log, softmax, ROWS },
        { "Sigmoid", sig, sigmoid, OT_FN_Sigmoid },
        { "Sigmoid by Reciprocal", sig_reciprocal, sigmoid, OT_FN_Sigmoid },
        { "Sigmoid by a power", sig_power, sigmoid, OT_FN_Sigmoid },
        { "Sigmoid as e / (1 + e)", sig_quotient, sigmoid, OT_FN_Sigmoid },
        { "Sigmoid by Tanh", sig_tanh, sigmoid, OT_FN_Sigmoid },
        { "Sigmoid by Tanh, multiplied out", sig_tanh_out, sigmoid, OT_FN_Sigmoid },
        { "Sigmoid of a product", sig_scaled, sigmoid_scaled, OT_FN_Sigmoid },
        { "Softplus", log_one_plus, softplus, OT_FN_Softplus },
        { "Log of Sigmoid", log_of_sig, minus_softplus, OT_FN_Softplus },
        { "Log of two exponentials", log_of_two, whole_two, OT_FN_Round },
        { "Log of three exponentials", log_of_three, whole_three, OT_FN_Round },
        { "Log of a difference", log_of_difference, NULL, OT_FN_Round },
        { "Tanh of four exponentials", tanh_four, whole_tanh, OT_FN_Tanh },
        { "Tanh of exp(2x)", tanh_twice, whole_tanh, OT_FN_Tanh },
        { "Tanh of exp(-2x)", tanh_minus, whole_tanh, OT_FN_Tanh },
        { "Tanh by Sigmoid", tanh_sigmoid, whole_tanh, OT_FN_Tanh },
        { "Swish by Sigmoid in pieces", swish_in_pieces, swish, OT_FN_Swish },
        { "a sum and epsilon", soft_epsilon, NULL, ROWS },
        { "the sum of something else", soft_other, NULL, ROWS },
        { "the sum of all", soft_of_all, NULL, ANY_ROWS },
        { "the mean", soft_mean, NULL, ROWS },
        { "a Clip between", log_clipped, NULL, LOG_ROWS },
        { "the logarithm of something else", log_other, NULL, LOG_ROWS },
        { "a sum in place of the difference", log_of_norm, NULL, LOG_ROWS },
        { "twice a Sigmoid", sig_two, NULL, OT_FN_Sigmoid },
        { "another number below", sig_wide, NULL, OT_FN_Sigmoid },
        { "exponents that are no opposites", tanh_uneven, NULL, OT_FN_Tanh },
        { "one over Tanh", tanh_upside, NULL, OT_FN_Tanh },
    };
    static double a[256], b[256];
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++) {
        int found, as_one;
        wanted = rows[i].what;
        int n = gradients(rows[i].name, rows[i].pieces, a, &found);
        if ((found > 0) != (rows[i].whole != NULL)) fail_msg("%s: in %d nodes", rows[i].name, found);
        if (!rows[i].whole) continue;
        assert_int_equal(gradients(rows[i].name, rows[i].whole, b, &as_one), n);
        for (int k = 0; k < n; k++)
            if (!(fabs(a[k] - b[k]) <= 1e-7 + 2e-5 * fabs(b[k])))
                fail_msg("%s: number %d is %.9g, as one operator %.9g", rows[i].name, k, a[k], b[k]);
    }
}

/* ---- tails --------------------------------------------------------------------------- */

/* The loss of inputs so large that the pieces themselves would overflow; how it is said goes to `said`. */
static double joined_loss(rule *r, bool classes, char *said, size_t size)
{
    model m;
    ot_plan *p;
    ot_exec *x;
    float in[30];
    int64_t class[5] = { 0, 3, 5, 1, 2 };
    float yes[30] = { 0 };
    model_new(&m);
    ot_value *v = model_input(&m, "input", OT_F32, SHAPE(5, 6));
    v = two(&m, "MatMul", v, model_weight(&m, "first", SHAPE(6, 6)));
    model_output(&m, r(&m, v), "output");
    ot_feed feeds[2] = { { .name = "input", .dtype = OT_F32, .shape = SHAPE(5, 6) },
                         { .name = "target",
                           .dtype = classes ? OT_I64 : OT_F32,
                           .shape = classes ? SHAPE(5) : SHAPE(5, 6),
                           .binary = !classes } };
    ot_config c = {
        .want = OT_WANT_GRAD, .n_feeds = 2, .feeds = feeds, .accumulate = 1, .options.dropout = -1, .threads = 1
    };
    for (int i = 0; i < 30; i++) in[i] = 400 * sinf((float)i * 1.3f), yes[i] = (float)(i % 3 == 0);
    if (ot_plan_new(m.g, &c, NULL, &p, &m.err) != OT_OK) fail_msg("%s", m.err.text);
    assert_int_equal(ot_exec_new(p, NULL, &x, &m.err), OT_OK);
    for (int i = 0; i < p->graph->n_inputs; i++)
        if (!strcmp(p->graph->inputs[i]->name, "input")) ot_exec_feed(x, p->graph->inputs[i], in);
    ot_exec_feed(x, p->targets[0], classes ? (void *)class : (void *)yes);
    assert_int_equal(ot_exec_batch(x, &m.err), OT_OK);
    double loss = ot_get_f64(ot_exec_bytes(x, p->loss), p->loss->dtype, 0);
    *said = '\0';
    for (int i = 0; i < p->findings.n; i++)
        if (strstr(p->findings.list[i].what, "loss ")) snprintf(said, size, "%s", p->findings.list[i].what);
    ot_exec_free(x);
    ot_plan_free(p);
    model_free(&m);
    return loss;
}

static ot_value *soft_and_away(model *m, ot_value *x)
{
    static const int64_t to[] = { 5, 6 };
    return two(m, "Reshape", soft_plain(m, x), model_ints(m, to, 2));
}

static void tails(void **state)
{
    static const struct {
        const char *name;
        rule *pieces, *whole;
        bool classes;
        const char *said;
    } rows[] = {
        { "Softmax", soft, softmax, true, "loss cross_entropy combined with the Softmax" },
        { "Softmax without the maximum", soft_plain, softmax, true, "loss cross_entropy combined with the Softmax" },
        { "Softmax, moved", soft_and_away, softmax, true, "loss cross_entropy combined with the Softmax" },
        { "LogSoftmax", log_nested, logsoftmax, true, "loss nll combined with the LogSoftmax" },
        { "Log of Softmax in pieces", log_of_soft, logsoftmax, true, "loss nll combined with the LogSoftmax" },
        { "Sigmoid", sig, sigmoid, false, "loss bce combined with the Sigmoid" },
        { "Sigmoid by e", sig_quotient, sigmoid, false, "loss bce combined with the Sigmoid" },
    };
    char a[512], b[512];
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++) {
        double in_pieces = joined_loss(rows[i].pieces, rows[i].classes, a, sizeof a),
               as_one = joined_loss(rows[i].whole, rows[i].classes, b, sizeof b);
        if (!strstr(a, rows[i].said)) fail_msg("%s: '%s'", rows[i].name, a);
        if (!(fabs(in_pieces - as_one) <= 1e-5 * fabs(as_one)) || !(as_one > 10))
            fail_msg("%s: %.9g, as one operator %.9g", rows[i].name, in_pieces, as_one);
    }
}

int recognise_softmax_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(functions), cmocka_unit_test(tails) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
