/* recognise_loss.c - decomposed softmax cross-entropy becomes one CrossEntropy, similar graphs do not; it is one node with its
 * gradient unless that depends on it; the results are the same: the loss, gradients, five steps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op.h"
#include "tests/passes/build.h"

enum { N = 4, T = 3, C = 7, STEPS = 5 };

/* What a model computes with l, the log-probabilities (N, T, C), and its other inputs. */
typedef ot_value *rule(model *m, ot_value *l);

static ot_value *num(model *m, double x)
{
    return ot_graph_const(m->g, "number", OT_F32, &(ot_shape){ 0 }, &(float){ (float)x });
}
static ot_value *two(model *m, const char *op, ot_value *a, ot_value *b) { return model_node(m, op, OT_IN(a, b)); }
static ot_value *one(model *m, const char *op, ot_value *a) { return model_node(m, op, OT_IN(a)); }

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
static ot_value *labels(model *m) { return model_input(m, "labels", OT_I64, SHAPE(N, T)); }
static ot_value *mean_of(model *m, ot_value *x)
{
    return one(m, "Neg", with_int(one(m, "ReduceMean", x), "keepdims", 0));
}

static ot_value *picked(model *m, ot_value *l)
{
    ot_value *at = two(m, "Unsqueeze", labels(m), model_ints(m, (int64_t[]){ -1 }, 1));
    return with_int(two(m, "GatherElements", l, at), "axis", -1);
}
static ot_value *gather(model *m, ot_value *l) { return mean_of(m, picked(m, l)); }
static ot_value *gather_masked(model *m, ot_value *l)
{
    ot_value *w = one(m, "Sin", picked(m, l)); /* whatever reads it */
    return mean_of(m, two(m, "Mul", w, w));
}
static ot_value *one_hot(model *m, ot_value *l)
{
    float values[] = { 0, 1 };
    int64_t depth = C;
    ot_value *t = with_int(model_node(m, "OneHot",
                                      OT_IN(labels(m), ot_graph_const(m->g, "depth", OT_I64, &(ot_shape){ 0 }, &depth),
                                            ot_graph_const(m->g, "values", OT_F32, &SHAPE(2), values))),
                           "axis", -1);
    return mean_of(m, over(m, "ReduceSum", two(m, "Mul", t, l), 2));
}
static ot_value *shares(model *m, ot_value *l)
{
    ot_value *t = model_input(m, "shares", OT_F32, SHAPE(N, T, C));
    ot_value *s = with_int(one(m, "ReduceSum", two(m, "Mul", l, t)), "keepdims", 0);
    return one(m, "Neg", two(m, "Div", s, num(m, N)));
}
static ot_value *likelihood(model *m, ot_value *l)
{
    static const int64_t perm[] = { 0, 2, 1 };
    ot_node *n = ot_graph_node(m->g, ot_find_op("", "Transpose"), "transpose", NULL, OT_IN(l), 1);
    for (const ot_attr *a = n->op->attrs; a->name; a++)
        if (!strcmp(a->name, "perm")) *(ot_ints *)((char *)(uintptr_t)n->attrs + a->offset) = (ot_ints){ 3, perm };
    return two(m, "NegativeLogLikelihoodLoss", n->out[0], labels(m));
}
static ot_value *flat_likelihood(model *m, ot_value *l) /* of rows, where l is LogSoftmax(logits) itself */
{
    ot_value *t = two(m, "Reshape", labels(m), model_ints(m, (int64_t[]){ N * T }, 1));
    ot_node *n = l->producer;
    ot_value *rows = two(m, "Reshape", n->in[0], model_ints(m, (int64_t[]){ N * T, C }, 2));
    return two(m, "NegativeLogLikelihoodLoss", with_int(one(m, "LogSoftmax", rows), "axis", 1), t);
}

static ot_value *squared(model *m, ot_value *l) /* its gradient depends on its value */
{
    ot_value *y = likelihood(m, l);
    return two(m, "Mul", y, y);
}
static ot_value *penalised(model *m, ot_value *l) /* something reads it before its gradient is computed */
{
    return two(m, "Add", likelihood(m, l),
               two(m, "Mul", num(m, 0.5), one(m, "ReduceSum", model_weight(m, "w", SHAPE(3)))));
}

static ot_value *trained_shares(model *m, ot_value *l)
{
    ot_value *t = two(m, "Mul", model_weight(m, "temperature", SHAPE(C)), one(m, "Sin", l->producer->in[0]));
    return mean_of(m, over(m, "ReduceSum", two(m, "Mul", t, l), -1));
}
static ot_value *other_axis(model *m, ot_value *l)
{
    ot_value *t = model_input(m, "shares", OT_F32, SHAPE(N, T, C));
    return mean_of(m, over(m, "ReduceSum", two(m, "Mul", t, l), 1));
}
static ot_value *several_picked(model *m, ot_value *l)
{
    ot_value *at = two(m, "Unsqueeze", labels(m), model_ints(m, (int64_t[]){ -1 }, 1));
    return mean_of(m, with_int(two(m, "GatherElements", l, with_int(two(m, "Concat", at, at), "axis", 2)), "axis", -1));
}

/* ---- both ------------------------------------------------------------------------- */

/* once: nothing else reads the log-probabilities.  *losses: CrossEntropy in the plan, and how many of them are one node with
 * their gradient. */
static int trained(const char *name, rule *r, bool once, ot_want want, double *all, int *losses, int *joined)
{
    static float data[N * T * C];
    static int64_t class[N * T];
    model m;
    ot_plan *p;
    ot_exec *x;
    int n = 0, n_feeds = 0;
    model_new(&m);
    ot_value *v = model_input(&m, "input", OT_F32, SHAPE(N, T, C));
    v = two(&m, "MatMul", v, model_weight(&m, "first", SHAPE(C, C)));
    v = two(&m, "MatMul", v, model_weight(&m, "last", SHAPE(C, C)));
    ot_value *l = with_int(one(&m, "LogSoftmax", v), "axis", -1), *y = r(&m, l);
    if (!once) y = two(&m, "Add", y, two(&m, "Mul", with_int(one(&m, "ReduceMax", l), "keepdims", 0), num(&m, 0)));
    model_output(&m, y, "loss");
    ot_feed feeds[3];
    for (int i = 0; i < m.g->n_inputs; i++)
        feeds[n_feeds++] =
            (ot_feed){ .name = m.g->inputs[i]->name, .dtype = m.g->inputs[i]->dtype, .shape = m.g->inputs[i]->shape };
    ot_spec loss = { .output = "loss", .name = "output" };
    ot_config c = { .want = want,
                    .n_feeds = n_feeds,
                    .feeds = feeds,
                    .options.n_losses = 1,
                    .options.losses = &loss,
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = 1,
                    .options.optimizer = { .name = "sgd" } };
    for (int i = 0; i < N * T * C; i++) data[i] = 0.5f + sinf((float)i * 1.7f);
    for (int i = 0; i < N * T; i++) class[i] = i % 5 ? i * 3 % C : -1 - i % C; /* some count from the end */
    bool ends = r == likelihood || r == flat_likelihood || r == one_hot || r == squared || r == penalised;
    for (int i = 0; i < N * T && ends; i++) class[i] = i * 3 % C;
    if (ot_plan_new(m.g, &c, NULL, &p, &m.err) != OT_OK) fail_msg("%s: %s", name, m.err.text);
    assert_int_equal(ot_exec_new(p, NULL, &x, &m.err), OT_OK);
    double knob[3] = { 0.1, 0.9, 1 };
    for (int i = 0; i < p->graph->n_inputs; i++)
        ot_exec_feed(x, p->graph->inputs[i], p->graph->inputs[i]->dtype == OT_I64 ? (void *)class : (void *)data);
    if (p->knobs.lr) ot_exec_feed(x, p->knobs.lr, &knob[0]);
    if (p->knobs.momentum) ot_exec_feed(x, p->knobs.momentum, &knob[1]);
    if (p->knobs.t) ot_exec_feed(x, p->knobs.t, &knob[2]);
    for (int s = 0; s < (want == OT_WANT_TRAIN ? STEPS : 1); s++) {
        assert_int_equal(ot_exec_batch(x, &m.err), OT_OK);
        if (want == OT_WANT_TRAIN) assert_int_equal(ot_exec_update(x, &m.err), OT_OK);
    }
    *losses = *joined = 0;
    for (int i = 0; i < p->n_batch_steps; i++) {
        const ot_node *k = p->batch_steps[i].node;
        bool both = !strcmp(k->op->name, "CrossEntropyDx") && k->n_out > 1;
        *losses += both || !strcmp(k->op->name, "CrossEntropy");
        *joined += both;
    }
    all[n++] = ot_get_f64(ot_exec_bytes(x, p->loss), p->loss->dtype, 0);
    for (int i = 0; i < p->n_weights; i++) {
        const ot_value *g = want == OT_WANT_GRAD ? p->weights[i]->grad : p->weights[i];
        for (int64_t k = 0; k < ot_numel(&g->shape); k++) all[n++] = ot_get_f64(ot_exec_bytes(x, g), g->dtype, k);
    }
    ot_exec_free(x);
    ot_plan_free(p);
    model_free(&m);
    return n;
}

static void losses(void **state)
{
    static const struct {
        const char *name;
        rule *r;
        int found, before, joined;
    } rows[] = {
        { "gathered by labels", gather, 1, 0, 1 },
        { "gathered, and used further", gather_masked, 1, 0, 0 },
        { "times one-hot labels", one_hot, 1, 0, 1 },
        { "times shares, all summed", shares, 1, 0, 1 },
        { "the likelihood of rows", flat_likelihood, 1, 1, 1 },
        { "the likelihood of transposed rows", likelihood, 1, 1, 1 },
        { "squared", squared, 1, 1, 0 },
        { "with a penalty", penalised, 1, 1, 1 },
        { "shares that weights reach", trained_shares, 0, 0, 0 },
        { "summed over another axis", other_axis, 0, 0, 0 },
        { "two for a row", several_picked, 0, 0, 0 },
    };
    static const ot_want wants[] = { OT_WANT_GRAD, OT_WANT_TRAIN };
    static double a[256], b[256];
    (void)state;
    for (int i = 0; i < OT_LEN(rows); i++)
        for (int w = 0; w < 2; w++) {
            int found, before, joined, other;
            int n = trained(rows[i].name, rows[i].r, true, wants[w], a, &found, &joined),
                k = trained(rows[i].name, rows[i].r, false, wants[w], b, &before, &other);
            if (found != rows[i].found || before != rows[i].before || joined != rows[i].joined)
                fail_msg("%s: %d and %d CrossEntropy, %d with its gradient", rows[i].name, found, before, joined);
            assert_int_equal(n, k);
            for (int j = 0; j < n; j++)
                if (!(fabs(a[j] - b[j]) <= 1e-7 + 1e-5 * fabs(b[j])))
                    fail_msg("%s: number %d is %.9g, in pieces %.9g", rows[i].name, j, a[j], b[j]);
        }
}

int recognise_loss_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
