/* recognise.c - decomposed attention is recognised where it is attention, and nowhere else, and computes the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernel.h"
#include "tests/passes/build.h"

enum { B = 3, H = 2, D = 4, MOST_T = 67 };

/* Tokens: with few, attention stays decomposed on the CPU. */
static int T;

/* How one model masks and scales its scores. */
typedef struct form {
    const char *name;
    const char *scale; /* "Mul", "Div", "Before": queries and keys, NULL: none */
    enum { NONE, CAUSAL_WHERE, CAUSAL_ADD, SOME_WHERE, FED_ADD, TRAINED_ADD, ADD_BEFORE_SCALE } mask;
    bool split;   /* heads by Reshape and Transpose of (B, T, H D), the key (B, H, D, T) by one Transpose */
    bool escapes; /* the probabilities are read twice */
    bool is_attention;
    bool whole;  /* ONNX's Attention itself, with such a mask */
    bool joint;  /* one product of x for q, k and v, and a Split */
    bool zeroed; /* probabilities that are NaN become 0, and the mask hides a sample whole */
} form;

static void set(ot_node *n, const char *name, ot_ints list)
{
    for (const ot_attr *a = n->op->attrs; a->name; a++)
        if (!strcmp(a->name, name)) *(ot_ints *)((char *)(uintptr_t)n->attrs + a->offset) = list;
}

static ot_value *transpose(model *m, ot_value *x, const int64_t *perm)
{
    ot_node *n = ot_graph_node(m->g, ot_find_op("", "Transpose"), "transpose", NULL, OT_IN(x), 1);
    set(n, "perm", (ot_ints){ 4, perm });
    return n->out[0];
}

static ot_value *constant(model *m, ot_dtype t, ot_shape s, double below, double above)
{
    static double v[MOST_T * MOST_T];
    for (int64_t i = 0; i < ot_numel(&s); i++) ot_set_f64(v, t, i, i / T % T >= i % T ? below : above);
    return ot_graph_const(m->g, "constant", t, &s, v);
}

static ot_value *scores(model *m, const form *f, ot_value *s)
{
    ot_value *scale = constant(m, OT_F32, OT_SCALAR, f->scale && *f->scale == 'D' ? 2 : 0.5, 0);
    if (f->mask == ADD_BEFORE_SCALE) s = model_node(m, "Add", OT_IN(s, constant(m, OT_F32, SHAPE(T, T), 0, -1e9)));
    if (f->scale && *f->scale != 'B') s = model_node(m, f->scale, OT_IN(s, scale));
    ot_value *hidden = constant(m, OT_F32, OT_SCALAR, -1e9, -1e9);
    switch (f->mask) {
    case CAUSAL_WHERE: return model_node(m, "Where", OT_IN(constant(m, OT_BOOL, SHAPE(1, 1, T, T), 1, 0), s, hidden));
    case SOME_WHERE: return model_node(m, "Where", OT_IN(constant(m, OT_BOOL, SHAPE(T, T), 0, 1), s, hidden));
    case CAUSAL_ADD: return model_node(m, "Add", OT_IN(s, constant(m, OT_F32, SHAPE(T, T), 0, -3e38)));
    case FED_ADD: return model_node(m, "Add", OT_IN(s, model_input(m, "mask", OT_F32, SHAPE(B, 1, 1, T))));
    case TRAINED_ADD: return model_node(m, "Add", OT_IN(model_weight(m, "bias", SHAPE(H, T, T)), s));
    default: return s;
    }
}

static ot_value *attention_node(model *m, const form *f, ot_value *const *part)
{
    ot_value *mask =
        f->mask == SOME_WHERE ? constant(m, OT_BOOL, SHAPE(T, T), 0, 1)
        : f->mask == FED_ADD  ? model_input(m, "mask", OT_F32, SHAPE(B, 1, 1, T))
        : f->mask == TRAINED_ADD
            ? model_node(m, "Add",
                         OT_IN(model_weight(m, "bias", SHAPE(H, T, T)), constant(m, OT_F32, SHAPE(T, T), 0, 0)))
            : NULL;
    ot_node *n =
        ot_graph_node(m->g, ot_find_op("", "Attention"), "attention", NULL, OT_IN(part[0], part[1], part[2], mask), 1);
    for (const ot_attr *a = n->op->attrs; a->name; a++)
        if (!strcmp(a->name, "is_causal"))
            *(int64_t *)((char *)(uintptr_t)n->attrs + a->offset) = f->mask == CAUSAL_WHERE;
    return n->out[0];
}

static void project(model *m, ot_value *x, ot_value **part)
{
    static const int64_t sizes[] = { H * D, H * D, H * D };
    ot_value *all = model_node(m, "MatMul", OT_IN(x, model_weight(m, "w", SHAPE(H * D, 3 * H * D))));
    ot_node *n = ot_graph_node(m->g, ot_find_op("", "Split"), "split", NULL, OT_IN(all, model_ints(m, sizes, 3)), 3);
    for (const ot_attr *a = n->op->attrs; a->name; a++)
        if (!strcmp(a->name, "axis")) *(int64_t *)((char *)(uintptr_t)n->attrs + a->offset) = 2;
    for (int i = 0; i < 3; i++) part[i] = n->out[i];
}

static void build(model *m, const form *f)
{
    static const int64_t rows[] = { 0, 2, 1, 3 }, columns[] = { 0, 2, 3, 1 }, swap[] = { 0, 1, 3, 2 };
    const int64_t split[] = { B, T, H, D };
    ot_value *part[3];
    model_new(m);
    ot_value *x = model_input(m, "input", OT_F32, f->split ? SHAPE(B, T, H * D) : SHAPE(B, H, T, D));
    if (f->joint) project(m, x, part);
    for (int i = 0; i < 3; i++) {
        if (!f->joint) {
            ot_value *w = model_weight(m, "w", f->split ? SHAPE(H * D, H * D) : SHAPE(D, D));
            part[i] = model_node(m, "MatMul", OT_IN(x, w));
        }
        if (f->split) {
            part[i] = model_node(m, "Reshape", OT_IN(part[i], model_ints(m, split, 4)));
            part[i] = transpose(m, part[i], i == 1 && !f->whole ? columns : rows);
        } else if (i == 1) {
            part[i] = transpose(m, part[i], swap);
        }
    }
    if (f->whole) {
        model_output(m, attention_node(m, f, part), "output");
        return;
    }
    for (int i = 0; i < 2 && f->scale && *f->scale == 'B'; i++)
        part[i] = model_node(m, "Mul", OT_IN(part[i], constant(m, OT_F32, OT_SCALAR, 0.7, 0.7)));
    ot_value *s = scores(m, f, model_node(m, "MatMul", OT_IN(part[0], part[1])));
    ot_node *p = ot_graph_node(m->g, ot_find_op("", "Softmax"), "softmax", NULL, OT_IN(s), 1);
    for (const ot_attr *a = p->op->attrs; a->name; a++)
        if (!strcmp(a->name, "axis")) *(int64_t *)((char *)(uintptr_t)p->attrs + a->offset) = -1;
    ot_value *rows_of = p->out[0];
    if (f->zeroed)
        rows_of = model_node(
            m, "Where", OT_IN(model_node(m, "IsNaN", OT_IN(rows_of)), constant(m, OT_F32, OT_SCALAR, 0, 0), rows_of));
    ot_value *y = model_node(m, "MatMul", OT_IN(rows_of, part[2]));
    if (f->escapes) y = model_node(m, "Add", OT_IN(y, model_node(m, "MatMul", OT_IN(p->out[0], part[0]))));
    model_output(m, y, "output");
}

static int count(const ot_plan *p, const ot_op *op)
{
    int n = 0;
    for (int i = 0; i < p->n_batch_steps; i++) n += p->batch_steps[i].node->op == op;
    return n;
}

/* Loss and gradients of one batch; *attends: nodes of the two operators in the plan, *copies: of Copy. */
static double *gradients(const model *m, const form *f, bool ref_only, int *n, int *attends, int *copies)
{
    ot_shape in = f->split ? SHAPE(B, T, H * D) : SHAPE(B, H, T, D), out = SHAPE(B, H, T, D), mask = SHAPE(B, 1, 1, T);
    ot_feed feeds[3] = { { .name = "input", .dtype = OT_F32, .shape = in },
                         { .name = "target_output", .dtype = OT_F32, .shape = out },
                         { .name = "mask", .dtype = OT_F32, .shape = mask } };
    ot_spec loss = { .output = "output", .name = "mse" };
    ot_config c = { .want = OT_WANT_GRAD,
                    .n_feeds = f->mask == FED_ADD ? 3 : 2,
                    .feeds = feeds,
                    .options.n_losses = 1,
                    .options.losses = &loss,
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = 1,
                    .ref_only = ref_only };
    ot_error e = { 0 };
    ot_plan *p;
    ot_exec *x;
    static float data[3][B * H * MOST_T * D];
    if (ot_plan_new(m->g, &c, NULL, &p, &e) != OT_OK) fail_msg("%s: %s", f->name, e.text);
    for (int i = 0; i < B * H * T * D; i++) {
        data[0][i] = sinf((float)i * 1.7f);
        data[1][i] = cosf((float)i * 0.9f);
        data[2][i] = f->zeroed && i < T ? -INFINITY : i % 3 ? 0 : -2.5f; /* added to the scores */
    }
    assert_int_equal(ot_exec_new(p, NULL, &x, &e), OT_OK);
    for (int i = 0; i < p->graph->n_inputs; i++)
        ot_exec_feed(x, p->graph->inputs[i], data[strcmp(p->graph->inputs[i]->name, "input") ? 2 : 0]);
    for (int i = 0; i < p->n_targets; i++) ot_exec_feed(x, p->targets[i], data[1]);
    assert_int_equal(ot_exec_batch(x, &e), OT_OK);
    *attends = count(p, &ot_op_FusedAttention) + count(p, &ot_op_FusedAttentionDx);
    *copies = count(p, &ot_op_Copy);
    double *all = calloc(16384, sizeof *all);
    *n = 0;
    all[(*n)++] = ot_get_f64(ot_exec_bytes(x, p->loss), p->loss->dtype, 0);
    for (int i = 0; i < p->n_weights; i++) {
        const ot_value *g = p->weights[i]->grad;
        for (int64_t k = 0; k < ot_numel(&g->shape); k++) all[(*n)++] = ot_get_f64(ot_exec_bytes(x, g), g->dtype, k);
    }
    ot_exec_free(x);
    ot_plan_free(p);
    return all;
}

static void attention(void **state)
{
    static const form forms[] = {
        { "a joint projection", "Mul", NONE, true, false, true, false, true, false },
        { "a joint projection, causal", "Div", CAUSAL_WHERE, true, false, true, false, true, false },
        { "plain", NULL, NONE, false, false, true, false, false, false },
        { "multiplied", "Mul", NONE, true, false, true, false, false, false },
        { "divided", "Div", SOME_WHERE, true, false, true, false, false, false },
        { "causal by Where", "Div", CAUSAL_WHERE, true, false, true, false, false, false },
        { "causal by Add", "Mul", CAUSAL_ADD, false, false, true, false, false, false },
        { "a mask that is fed", "Mul", FED_ADD, true, false, true, false, false, false },
        { "a bias that trains", "Mul", TRAINED_ADD, true, false, false, false, false, false },
        { "masked before it is scaled", "Mul", ADD_BEFORE_SCALE, true, false, false, false, false, false },
        { "probabilities are read twice", "Mul", NONE, true, true, false, false, false, false },
        { "scaled before the product", "Before", CAUSAL_ADD, true, false, true, false, false, false },
        { "a sample without a key", "Mul", FED_ADD, true, false, true, false, false, true },
        { "Attention", NULL, NONE, true, false, true, true, false, false },
        { "Attention, causal", NULL, CAUSAL_WHERE, true, false, true, true, false, false },
        { "Attention, a table of truth values", NULL, SOME_WHERE, true, false, true, true, false, false },
        { "Attention, a mask that is fed", NULL, FED_ADD, true, false, true, true, false, false },
        { "Attention, a bias that trains", NULL, TRAINED_ADD, true, false, false, true, false, false },
    };
    (void)state;
    for (int i = 0; i < 2 * OT_LEN(forms); i++) {
        model m;
        int n, k, found, some, copied, copies;
        const form *f = &forms[i / 2];
        T = i % 2 ? MOST_T : 5;
        build(&m, f);
        double *whole = gradients(&m, f, true, &n, &found, &copied),
               *other = gradients(&m, f, false, &k, &some, &copies);
        if (found != (f->is_attention ? 2 : 0) || some != (T == MOST_T ? found : 0))
            fail_msg("%s, %d tokens: %d and %d nodes", f->name, T, found, some);
        if (f->joint && T == MOST_T && (copies || copied < 8)) /* q, k, v and y; dq, dk, dv and dy, and their join */
            fail_msg("%s: %d copies, by the reference %d", f->name, copies, copied);
        assert_int_equal(n, k);
        for (int j = 0; j < n; j++)
            if (!(fabs(whole[j] - other[j]) <= 1e-6 + 1e-5 * fabs(other[j])))
                fail_msg("%s, %d tokens: number %d is %.9g, on the CPU %.9g", f->name, T, j, whole[j], other[j]);
        free(whole);
        free(other);
        model_free(&m);
    }
}

int recognise_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(attention) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
