/* recognise_batchnorm.c - a decomposed BatchNormalization becomes one operator, similar graphs do not; training is
 * the same: gradients, five steps, statistics. */
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

enum { N = 4, C = 6, H = 3, STEPS = 5 };

/* How one model spells it out. */
typedef struct form {
    const char *name;
    enum { CHANNELS_FIRST, CHANNELS_LAST, ROWS, UNKNOWN_RANK } where;
    enum {
        VECTORS,
        IN_FULL,
        UNSQUEEZED,
        RESHAPED,
        CONCAT
    } shaped; /* parameters: (C,1,1), (1,C,1,1); of (C) by an operator */
    enum { DIV, RECIPROCAL, ONE_BY, POWER } by;
    enum { PLAIN, SHIFTED, FACTORED, NEGATED } how;
    bool no_scale, no_bias;
    enum { NOTHING, SHARED_MEAN, OUTSIDE, OTHER_AXIS, SAID, TWICE, DOUBLED, ANOTHER_MEAN } wrong;
    int twin;         /* layers that share all of it: 0: one */
    bool by_identity; /* the last layer, if it is one operator, reads its statistics through Identity */
} form;

static ot_value *number(model *m, float x) { return ot_graph_const(m->g, "number", OT_F32, &(ot_shape){ 0 }, &x); }
static ot_value *two(model *m, const char *op, ot_value *a, ot_value *b) { return model_node(m, op, OT_IN(a, b)); }

typedef struct tensors {
    ot_value *scale, *bias, *mean, *var;
} tensors;

static ot_value *tensor(model *m, const char *name, const ot_shape *s, double from, double step)
{
    float v[C];
    for (int i = 0; i < C; i++) v[i] = (float)(from + step * sin(3.7 * i + from));
    ot_value *w = ot_graph_const(m->g, name, OT_F32, s, v);
    w->source = w->id;
    return w;
}

static tensors parameters(model *m, const form *f, bool whole)
{
    ot_shape s = whole || f->where != CHANNELS_FIRST || f->shaped >= UNSQUEEZED ? SHAPE(C)
                 : f->shaped == IN_FULL                                         ? SHAPE(1, C, 1, 1)
                                                                                : SHAPE(C, 1, 1);
    tensors t = { tensor(m, "norm.scale", &s, 1, 0.3), tensor(m, "norm.bias", &s, 0.1, 0.5),
                  tensor(m, "norm.mean", &s, 0.2, 0.7), tensor(m, "norm.var", &s, 1.5, 0.9) };
    return t;
}

/* p as it meets x. */
static ot_value *shaped(model *m, const form *f, ot_value *p)
{
    static const int64_t axes[] = { 0, 2, 3 }, to[] = { 1, -1, 1, 1 };
    if (f->shaped == UNSQUEEZED) return two(m, "Unsqueeze", p, model_ints(m, axes, 3));
    if (f->shaped == CONCAT)
        return two(m, "Reshape", p, two(m, "Concat", model_ints(m, to, 2), model_ints(m, to + 2, 2)));
    return f->shaped == RESHAPED ? two(m, "Reshape", p, model_ints(m, to, 4)) : p;
}

static ot_value *spelled(model *m, const form *f, const tensors *t, ot_value *x)
{
    ot_value *g = f->no_scale ? NULL : shaped(m, f, t->scale), *b = f->no_bias ? NULL : shaped(m, f, t->bias),
             *mean = shaped(m, f, t->mean), *r;
    ot_value *var = f->wrong == OUTSIDE ? t->var : two(m, "Add", t->var, number(m, 1e-3f));
    ot_value *root = f->by == POWER ? NULL : model_node(m, "Sqrt", OT_IN(shaped(m, f, var)));
    if (f->wrong == OUTSIDE) root = two(m, "Add", root, number(m, 1e-3f));
    if (f->how == PLAIN && f->by == DIV) {
        ot_value *d = two(m, "Sub", x, mean), *y = two(m, "Div", d, root);
        if (g) y = two(m, "Mul", y, g);
        return b ? two(m, "Add", b, y) : y;
    }
    if (f->by == POWER) r = shaped(m, f, two(m, "Pow", var, number(m, -0.5f)));
    else r = f->by == ONE_BY ? two(m, "Div", number(m, 1), root) : model_node(m, "Reciprocal", OT_IN(root));
    if (f->how == FACTORED || f->how == NEGATED) {
        ot_value *w = g ? two(m, "Mul", g, r) : r;
        if (f->wrong == DOUBLED) w = two(m, "Mul", w, number(m, 2));
        ot_value *d = f->how == NEGATED ? two(m, "Add", model_node(m, "Neg", OT_IN(mean)), x) : two(m, "Sub", x, mean),
                 *y = two(m, "Mul", w, d);
        return b ? two(m, "Add", y, b) : y;
    }
    if (g) r = two(m, "Mul", r, g);
    if (f->how == PLAIN) return two(m, "Add", two(m, "Mul", two(m, "Sub", x, mean), r), b);
    ot_value *other = f->wrong == ANOTHER_MEAN ? two(m, "Mul", mean, number(m, 1.5f)) : mean;
    return two(m, "Add", two(m, "Mul", x, r), two(m, "Sub", b, two(m, "Mul", other, r)));
}

static ot_value *whole(model *m, const form *f, const tensors *t, ot_value *x)
{
    float ones[C] = { 1, 1, 1, 1, 1, 1 }, none[C] = { 0 };
    ot_value *g = f->no_scale ? ot_graph_const(m->g, "one", OT_F32, &SHAPE(C), ones) : t->scale,
             *b = f->no_bias ? ot_graph_const(m->g, "zero", OT_F32, &SHAPE(C), none) : t->bias;
    static const int64_t flat[] = { -1, C };
    ot_value *shape = f->where == CHANNELS_LAST || f->where == UNKNOWN_RANK ? model_node(m, "Shape", OT_IN(x)) : NULL;
    if (shape) x = two(m, "Reshape", x, model_ints(m, flat, 2));
    ot_node *n =
        ot_graph_node(m->g, ot_find_op("", "BatchNormalization"), "norm", NULL, OT_IN(x, g, b, t->mean, t->var), 1);
    for (const ot_attr *a = n->op->attrs; a->name; a++)
        if (!strcmp(a->name, "epsilon")) *(double *)((char *)(uintptr_t)n->attrs + a->offset) = 1e-3f;
    return shape ? two(m, "Reshape", n->out[0], shape) : n->out[0];
}

static void build(model *m, const form *f, bool pieces)
{
    model_new(m);
    bool last = f->where == CHANNELS_LAST || f->where == UNKNOWN_RANK;
    ot_value *x = model_input(m, "input", OT_F32,
                              f->where == ROWS ? SHAPE(N, C)
                              : last           ? SHAPE(N, H, H, C)
                                               : SHAPE(N, C, H, H));
    x = two(m, f->where == CHANNELS_FIRST ? "Conv" : "MatMul", x,
            model_weight(m, "first", f->where == CHANNELS_FIRST ? SHAPE(C, C, 1, 1) : SHAPE(C, C)));
    if (f->where == UNKNOWN_RANK)
        x = model_node(m, "Sin", OT_IN(x)); /* whose rank is unknown before shapes are inferred */
    tensors t = parameters(m, f, !pieces);
    if (f->wrong == SAID) t.var->said = OT_SAID_PARAMETER;
    for (int i = 0; i <= f->twin; i++) {
        ot_value *z = x;
        if (f->by_identity && i == f->twin)
            t.mean = model_node(m, "Identity", OT_IN(t.mean)), t.var = model_node(m, "Identity", OT_IN(t.var));
        x = pieces ? spelled(m, f, &t, x) : whole(m, f, &t, x);
        if (f->wrong == TWICE) x = two(m, "Add", x, two(m, "Sub", z, t.var));
    }
    if (f->wrong == SHARED_MEAN) x = two(m, "Add", x, t.mean);
    model_output(m, x, "output");
}

/* What a model trains: the loss, gradients or weights, then statistics. */
static int trained_as(const form *f, bool pieces, ot_want want, bool unbiased, double *all, int *norms, int *statistics)
{
    static float data[2][N * C * H * H];
    model m;
    ot_plan *p;
    ot_exec *x;
    int n = 0;
    build(&m, f, pieces);
    ot_shape in = m.g->inputs[0]->shape;
    ot_feed feeds[2] = { { .name = "input", .dtype = OT_F32, .shape = in },
                         { .name = "target_output", .dtype = OT_F32, .shape = in } };
    ot_spec loss = { .output = "output", .name = "mse" };
    ot_config c = { .want = want,
                    .n_feeds = 2,
                    .feeds = feeds,
                    .options.n_losses = 1,
                    .options.losses = &loss,
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = 1,
                    .options.optimizer = { .name = "sgd" },
                    .options.bn_unbiased = unbiased };
    for (int i = 0; i < OT_LEN(data[0]); i++)
        data[0][i] = sinf((float)i * 1.7f) * 2 + 0.5f, data[1][i] = cosf((float)i * 0.9f);
    if (ot_plan_new(m.g, &c, NULL, &p, &m.err) != OT_OK) fail_msg("%s: %s", f->name, m.err.text);
    assert_int_equal(ot_exec_new(p, NULL, &x, &m.err), OT_OK);
    double knob[3] = { 0.05, 0.9, 1 };
    for (int i = 0; i < p->graph->n_inputs; i++)
        ot_exec_feed(x, p->graph->inputs[i], data[strcmp(p->graph->inputs[i]->name, "input") != 0]);
    if (p->knobs.lr) ot_exec_feed(x, p->knobs.lr, &knob[0]);
    if (p->knobs.momentum) ot_exec_feed(x, p->knobs.momentum, &knob[1]);
    if (p->knobs.t) ot_exec_feed(x, p->knobs.t, &knob[2]);
    for (int s = 0; s < (want == OT_WANT_TRAIN ? STEPS : 1); s++) {
        assert_int_equal(ot_exec_batch(x, &m.err), OT_OK);
        if (want == OT_WANT_TRAIN) assert_int_equal(ot_exec_update(x, &m.err), OT_OK);
    }
    *norms = *statistics = 0;
    for (int i = 0; i < p->n_batch_steps; i++) *norms += !strcmp(p->batch_steps[i].node->op->name, "BatchNorm");
    all[n++] = ot_get_f64(ot_exec_bytes(x, p->loss), p->loss->dtype, 0);
    for (int i = 0; i < p->n_weights && want != OT_WANT_EVAL; i++) {
        const ot_value *v = want == OT_WANT_GRAD ? p->weights[i]->grad : p->weights[i];
        for (int64_t k = 0; k < ot_numel(&v->shape); k++) all[n++] = ot_get_f64(ot_exec_bytes(x, v), v->dtype, k);
    }
    for (int i = 0; i < p->n_states && want == OT_WANT_TRAIN; i++) {
        const ot_value *v = p->states[i];
        *statistics += v->role == OT_STATE && v->source >= 0;
        for (int64_t k = 0; v->role == OT_STATE && v->source >= 0 && k < ot_numel(&v->shape); k++)
            all[n++] = ot_get_f64(ot_exec_bytes(x, v), v->dtype, k);
    }
    ot_exec_free(x);
    ot_plan_free(p);
    model_free(&m);
    return n;
}

static int trained(const form *f, bool pieces, ot_want want, double *all, int *norms, int *statistics)
{
    return trained_as(f, pieces, want, false, all, norms, statistics);
}

static void batch_norms(void **state)
{
    static const form forms[] = {
        { .name = "the difference by the deviation" },
        { .name = "parameters of four axes", .shaped = IN_FULL },
        { .name = "parameters unsqueezed (Paddle)", .shaped = UNSQUEEZED },
        { .name = "parameters reshaped, one by the root", .shaped = RESHAPED, .by = ONE_BY },
        { .name = "parameters of a shape put together (torch.export)",
          .shaped = CONCAT,
          .how = SHIFTED,
          .by = RECIPROCAL },
        { .name = "times the reciprocal", .by = RECIPROCAL },
        { .name = "times a power", .by = POWER, .shaped = IN_FULL },
        { .name = "Keras' in channels that come first", .how = SHIFTED, .by = RECIPROCAL },
        { .name = "Keras'", .where = CHANNELS_LAST, .how = SHIFTED, .by = RECIPROCAL },
        { .name = "Keras' behind Dense", .where = ROWS, .how = SHIFTED, .by = RECIPROCAL },
        { .name = "TensorFlow's, of unknown rank", .where = UNKNOWN_RANK, .how = SHIFTED, .by = POWER },
        { .name = "the factor first", .how = FACTORED, .by = ONE_BY, .where = ROWS },
        { .name = "the mean negated and added", .how = NEGATED, .by = RECIPROCAL, .shaped = UNSQUEEZED },
        { .name = "without a scale", .no_scale = true, .where = CHANNELS_LAST },
        { .name = "without a bias", .no_bias = true, .how = FACTORED, .by = RECIPROCAL },
        { .name = "one for two layers", .how = SHIFTED, .by = RECIPROCAL, .twin = 1 },
        { .name = "the mean is added elsewhere", .wrong = SHARED_MEAN },
        { .name = "epsilon outside the root", .wrong = OUTSIDE },
        { .name = "a variance that the file calls a parameter", .wrong = SAID },
        { .name = "the variance is read once more", .wrong = TWICE },
        { .name = "a factor of two", .how = FACTORED, .by = RECIPROCAL, .wrong = DOUBLED },
        { .name = "another mean in the shift", .how = SHIFTED, .by = RECIPROCAL, .wrong = ANOTHER_MEAN },
    };
    static const ot_want wants[] = { OT_WANT_EVAL, OT_WANT_GRAD, OT_WANT_TRAIN };
    static double a[1024], b[1024];
    (void)state;
    for (int i = 0; i < OT_LEN(forms); i++)
        for (int w = 0; w < OT_LEN(wants); w++) {
            const form *f = &forms[i];
            int in_pieces, as_one, statistics, others, n = trained(f, true, wants[w], a, &in_pieces, &statistics);
            if (f->wrong) {
                if (in_pieces || statistics) fail_msg("%s: %d norms, %d statistics", f->name, in_pieces, statistics);
                continue;
            }
            int whole_n = trained(f, false, wants[w], b, &as_one, &others);
            if (n != whole_n)
                fail_msg("%s: want %d: %d numbers, as one operator %d (%d norms, wants %d)", f->name, w, n, whole_n,
                         in_pieces, as_one);
            if (in_pieces != as_one || statistics != others)
                fail_msg("%s: %d norms, %d statistics, wants %d, %d", f->name, in_pieces, statistics, as_one, others);
            if (wants[w] == OT_WANT_TRAIN) assert_int_equal(statistics, 2);
            for (int k = 0; k < n; k++)
                if (!(fabs(a[k] - b[k]) <= 1e-6 + 1e-5 * fabs(b[k])))
                    fail_msg("%s: want %d, number %d is %.9g, as one operator %.9g", f->name, w, k, a[k], b[k]);
        }
}

/* --bn-variance: only what is added to the running variance differs, by m / (m - 1). */
static void the_unbiased_variance(void **state)
{
    static double population[1024], unbiased[1024];
    (void)state;
    for (int pieces = 0; pieces < 2; pieces++) {
        form f = { .name = "unbiased" };
        int norms, statistics, n = trained_as(&f, pieces, OT_WANT_TRAIN, false, population, &norms, &statistics),
                               equal = 0, wider = 0;
        double m = N * H * H, kept = pow(0.9, STEPS);
        assert_int_equal(trained_as(&f, pieces, OT_WANT_TRAIN, true, unbiased, &norms, &statistics), n);
        for (int k = 0; k < n - 2 * C; k++) assert_true(population[k] == unbiased[k]);
        for (int k = n - 2 * C; k < n; k++) {
            double start = kept * (double)(float)(1.5 + 0.9 * sin(3.7 * ((k - n + 2 * C) % C) + 1.5));
            equal += population[k] == unbiased[k];
            wider += population[k] != unbiased[k] &&
                     fabs((unbiased[k] - start) - (population[k] - start) * m / (m - 1)) < 1e-5 * fabs(unbiased[k]);
        }
        if (equal != C || wider != C) fail_msg("%d equal, %d wider", equal, wider);
    }
}

/* PyTorch's exporter writes Identity before the statistics of a norm that is called again: each call updates them. */
static void statistics_through_identity(void **state)
{
    static double direct[1024], through[1024];
    (void)state;
    for (int twin = 0; twin < 3; twin++) {
        form f = { .name = "through Identity", .twin = twin };
        int norms, statistics, n = trained(&f, false, OT_WANT_TRAIN, direct, &norms, &statistics);
        assert_int_equal(statistics, 2);
        f.by_identity = true;
        assert_int_equal(trained(&f, false, OT_WANT_TRAIN, through, &norms, &statistics), n);
        assert_int_equal(norms, twin + 1);
        assert_int_equal(statistics, 2);
        for (int k = 0; k < n; k++)
            if (direct[k] != through[k])
                fail_msg("%d layers: number %d is %.9g, read directly %.9g", twin + 1, k, through[k], direct[k]);
    }
}

int recognise_batchnorm_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(batch_norms), cmocka_unit_test(the_unbiased_variance),
                                        cmocka_unit_test(statistics_through_identity) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
