/* main.c - properties of the passes: memory without overlap near the lower bound, equal results with passes on and off
 * and with equal threads, batch sizes, error messages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/onnx/control.h"
#include "ops/kernel.h"
#include "tests/passes/build.h"

/* ---- memory ------------------------------------------------------------------- */

typedef struct span {
    int64_t lo, hi;
    int from, to;
} span;

static const ot_node *node_at(const ot_plan *p, int t)
{
    return t < p->n_batch_steps ? p->batch_steps[t].node : p->update_steps[t - p->n_batch_steps].node;
}

/* When each base of the scratch slab is alive, from the schedule alone. */
static int spans(const ot_plan *p, span *out)
{
    int steps = p->n_batch_steps + p->n_update_steps, n = 0;
    span *of = calloc((size_t)p->graph->n_values, sizeof *of);
    assert_non_null(of);
    for (int i = 0; i < p->graph->n_values; i++) of[i] = (span){ 0, 0, -1, -1 };
    for (int t = 0; t < steps; t++) {
        const ot_node *k = node_at(p, t);
        for (int i = 0; i < k->n_in + k->n_out; i++) {
            const ot_value *v = i < k->n_in ? k->in[i] : k->out[i - k->n_in];
            if (!v || v->base->slab != OT_SLAB_SCRATCH) continue;
            span *s = &of[v->base->id];
            if (s->from < 0)
                *s = (span){ v->base->offset, v->base->offset + (int64_t)ot_bytes(&v->base->shape, v->base->dtype), t,
                             t };
            s->to = t;
        }
    }
    for (int i = 0; i < p->n_kept; i++)
        if (p->kept[i]->base->slab == OT_SLAB_SCRATCH) of[p->kept[i]->base->id].to = steps;
    for (int i = 0; i < p->graph->n_values; i++)
        if (of[i].from >= 0 && of[i].hi > of[i].lo) out[n++] = of[i];
    free(of);
    return n;
}

static void memory_has_no_overlap(void **state)
{
    model m;
    ot_feed f[2];
    ot_error e = { 0 };
    ot_plan *p;
    (void)state;
    model_cnn(&m, 6);
    ot_config c = cnn_config(OT_WANT_TRAIN, 16, f);
    assert_int_equal(ot_plan_new(m.g, &c, NULL, &p, &e), OT_OK);
    span *s = calloc((size_t)p->graph->n_values + 1, sizeof *s);
    int n = spans(p, s), steps = p->n_batch_steps + p->n_update_steps;
    int64_t bound = 0;
    assert_true(n > 20);
    for (int i = 0; i < n; i++) {
        assert_true(s[i].lo >= 0 && s[i].hi <= p->scratch_bytes);
        for (int k = 0; k < i; k++) {
            bool time = s[i].from <= s[k].to && s[k].from <= s[i].to, place = s[i].lo < s[k].hi && s[k].lo < s[i].hi;
            assert_false(time && place);
        }
    }
    for (int t = 0; t < steps; t++) {
        const ot_step *k = t < p->n_batch_steps ? &p->batch_steps[t] : &p->update_steps[t - p->n_batch_steps];
        int64_t live = 0;
        for (int i = 0; i < n; i++) {
            bool alive = s[i].from <= t && t <= s[i].to;
            if (alive) live += s[i].hi - s[i].lo;
            if (alive && k->work >= 0) assert_false(k->work >= s[i].lo && k->work < s[i].hi);
        }
        if (live > bound) bound = live;
    }
    assert_true(p->scratch_bytes >= bound);
    free(s);
    ot_plan_free(p);
    model_free(&m);
}

/* Bytes of a plan by nodes of the file, however many there are: Conv, Relu and Add, their gradients, and the
 * update of two weights by AdamW. */
static void plans_are_small(void **state)
{
    size_t used[2];
    int nodes[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        model m;
        ot_feed f[2];
        ot_error e = { 0 };
        ot_plan *p;
        model_cnn(&m, i ? 400 : 100);
        ot_config c = cnn_config(OT_WANT_TRAIN, 1, f);
        assert_int_equal(ot_plan_new(m.g, &c, NULL, &p, &e), OT_OK);
        used[i] = ot_arena_used(p->graph->arena);
        nodes[i] = m.g->n_nodes;
        ot_plan_free(p);
        model_free(&m);
    }
    printf("%d nodes: %zu bytes each\n", nodes[1], used[1] / (size_t)nodes[1]);
    assert_true(used[1] < 22000 * (size_t)nodes[1]);
    assert_true((double)(used[1] - used[0]) / (nodes[1] - nodes[0]) < 22000);
}

/* Plans of other batch sizes find every weight where the first one put it. */
static void plans_share_state(void **state)
{
    model m;
    ot_feed f[2];
    ot_error e = { 0 };
    ot_plan *a, *b;
    (void)state;
    model_cnn(&m, 1);
    ot_config c = cnn_config(OT_WANT_TRAIN, 16, f);
    assert_int_equal(ot_plan_new(m.g, &c, NULL, &a, &e), OT_OK);
    c = cnn_config(OT_WANT_EVAL, 5, f);
    assert_int_equal(ot_plan_new(m.g, &c, a, &b, &e), OT_OK);
    assert_true(b->n_states > 0 && a->n_weights == 6);
    for (int i = 0; i < b->n_states; i++) {
        bool found = false;
        for (int k = 0; k < a->n_states; k++)
            if (a->states[k]->source == b->states[i]->source) found = a->states[k]->offset == b->states[i]->offset;
        assert_true(found);
    }
    ot_plan_free(b);
    ot_plan_free(a);
    model_free(&m);
}

/* ---- results ------------------------------------------------------------------- */

static void same_bits_for_equal_threads(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        model m;
        ot_feed f[2];
        void *w[2];
        size_t n[2];
        model_cnn(&m, 2);
        ot_config c = cnn_config(OT_WANT_TRAIN, 32, f);
        c.threads = threads;
        double a = run_steps(&m, &c, 5, &w[0], &n[0]), b = run_steps(&m, &c, 5, &w[1], &n[1]);
        assert_true(a == b && n[0] == n[1]);
        assert_memory_equal(w[0], w[1], n[0]);
        free(w[0]);
        free(w[1]);
        model_free(&m);
    }
}

static void fast_kernels_follow_the_reference(void **state)
{
    model m;
    ot_feed f[2];
    void *w[2];
    size_t n;
    (void)state;
    model_cnn(&m, 2);
    ot_config c = cnn_config(OT_WANT_TRAIN, 8, f);
    double a = run_steps(&m, &c, 10, &w[0], &n);
    c.ref_only = true;
    double b = run_steps(&m, &c, 10, &w[1], &n);
    if (!(fabs(a - b) < 1e-4 * fabs(b))) fail_msg("loss %.9g with fast kernels, %.9g with the reference", a, b);
    free(w[0]);
    free(w[1]);
    model_free(&m);
}

/* The mean over two equal batches is the batch: accumulation changes nothing but rounding. */
static void accumulation_is_the_mean(void **state)
{
    model m;
    ot_feed f[2];
    void *w[2];
    size_t n[2];
    (void)state;
    model_cnn(&m, 0);
    ot_config c = cnn_config(OT_WANT_TRAIN, 8, f);
    c.options.optimizer.name = "sgd";
    double a = run_steps(&m, &c, 10, &w[0], &n[0]);
    c.accumulate = 3;
    double b = run_steps(&m, &c, 10, &w[1], &n[1]);
    assert_true(fabs(a - b) < 1e-5 * fabs(b));
    free(w[0]);
    free(w[1]);
    model_free(&m);
}

/* ---- batches --------------------------------------------------------------------- */

/* input (1,12) -> Reshape to the constant (1,3,4) -> Concat with a (1,1,4) weight -> ReduceSum: at batch 6. */
static void baked_batch_follows(void **state)
{
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    int64_t shape[] = { 1, 3, 4 };
    (void)state;
    model_new(&m);
    ot_value *x = model_input(&m, "input", OT_F32, SHAPE(1, 12));
    ot_value *y = model_node(&m, "Reshape", OT_IN(x, model_ints(&m, shape, 3)));
    ot_node *cat = ot_graph_node(m.g, ot_find_op("", "Concat"), "cat", NULL,
                                 OT_IN(model_weight(&m, "token", SHAPE(1, 1, 4)), y), 1);
    for (const ot_attr *a = cat->op->attrs; a->name; a++)
        if (!strcmp(a->name, "axis")) *(int64_t *)((char *)(uintptr_t)cat->attrs + a->offset) = 1;
    model_output(&m, cat->out[0], "output");
    ot_feed f = { .name = "input", .dtype = OT_F32, .shape = SHAPE(6, 12) };
    ot_config c = { .want = OT_WANT_RUN, .n_feeds = 1, .feeds = &f, .threads = 1, .accumulate = 1 };
    if (ot_plan_new(m.g, &c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
    assert_true(ot_shape_eq(&p->graph->outputs[0]->shape, &SHAPE(6, 4, 4)));
    ot_plan_free(p);
    model_free(&m);
}

/* ---- transposes --------------------------------------------------------------------- */

static int count_ops(const ot_plan *p, const ot_op *op)
{
    int n = 0;
    for (int t = 0; t < p->n_batch_steps + p->n_update_steps; t++) n += node_at(p, t)->op == op;
    return n;
}

/* input (6,5) . (w^T) as exporters write a linear layer: one Dot forward, one for the gradient of w, and no Copy; the
 * gradient is that of the same layer without the detour. */
static void a_transposed_operand_is_no_copy(void **state)
{
    double loss[2];
    void *w[2];
    size_t n[2];
    (void)state;
    for (int gemm = 0; gemm < 2; gemm++) {
        model m;
        ot_error e = { 0 };
        ot_plan *p;
        model_new(&m);
        ot_value *x = model_input(&m, "input", OT_F32, SHAPE(-1, 5)), *v = model_weight(&m, "w", SHAPE(3, 5)), *y;
        if (gemm) {
            y = model_node(&m, "Gemm", OT_IN(x, v));
            for (const ot_attr *a = y->producer->op->attrs; a->name; a++)
                if (!strcmp(a->name, "transB")) *(int64_t *)((char *)(uintptr_t)y->producer->attrs + a->offset) = 1;
        } else {
            y = model_node(&m, "MatMul", OT_IN(x, model_node(&m, "Transpose", OT_IN(v))));
        }
        model_output(&m, y, "output");
        ot_feed f[] = { { .name = "input", .dtype = OT_F32, .shape = SHAPE(6, 5) },
                        { .name = "target", .dtype = OT_F32, .shape = SHAPE(6, 3) } };
        ot_spec mse = { .name = "mse" };
        ot_config c = { .want = OT_WANT_TRAIN,
                        .n_feeds = 2,
                        .feeds = f,
                        .options.n_losses = 1,
                        .options.losses = &mse,
                        .threads = 1,
                        .accumulate = 1,
                        .options.optimizer = { .name = "sgd" } };
        if (ot_plan_new(m.g, &c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
        assert_int_equal(count_ops(p, &ot_op_Copy), 0);
        assert_int_equal(count_ops(p, &ot_op_Dot), 2);
        ot_plan_free(p);
        loss[gemm] = run_steps(&m, &c, 4, &w[gemm], &n[gemm]);
        model_free(&m);
    }
    assert_true(fabs(loss[0] - loss[1]) < 1e-6 && n[0] == n[1]);
    for (size_t i = 0; i < n[0] / sizeof(float); i++)
        assert_true(fabsf(((float *)w[0])[i] - ((float *)w[1])[i]) < 1e-6f);
    free(w[0]);
    free(w[1]);
}

/* ---- control flow ------------------------------------------------------------------ */

/* y = cond ? x * w : x + w, over weights of the outer graph; cond fed or constant. */
static void model_if(model *m, int cond)
{
    ot_if a = { 0 };
    model_new(m);
    ot_value *x = model_node(m, "Relu", OT_IN(model_input(m, "input", OT_F32, SHAPE(-1, 3))));
    ot_value *w = model_weight(m, "w", SHAPE(3)); /* right at the input it would be a normaliser */
    uint8_t yes = (uint8_t)cond;
    ot_value *c =
        cond < 0 ? model_input(m, "cond", OT_BOOL, OT_SCALAR) : ot_graph_const(m->g, "cond", OT_BOOL, &OT_SCALAR, &yes);
    for (int i = 0; i < 2; i++) {
        ot_graph *sub = ot_graph_sub(m->g, i ? "else" : "then");
        ot_node *n = ot_graph_node(sub, ot_find_op("", i ? "Add" : "Mul"), "b", NULL, OT_IN(x, w), 1);
        ot_graph_output(sub, n->out[0]);
        *(i ? &a.else_branch : &a.then_branch) = sub;
    }
    ot_node *n = ot_graph_node(m->g, ot_find_op("", "If"), "if", &a, OT_IN(c), 1);
    model_output(m, n->out[0], "output");
}

static void branches_take_the_place_of_if(void **state)
{
    (void)state;
    for (int cond = -1; cond < 2; cond++)
        for (uint8_t fed = 0; fed < 2; fed++) {
            model m;
            ot_error e = { 0 };
            ot_plan *p;
            ot_exec *x;
            float in[6] = { 1, 2, 3, 4, 5, 6 }, target[6] = { 0 };
            double knob[3] = { 0, 0, 1 };
            model_if(&m, cond);
            ot_feed f[3] = { { .name = "input", .dtype = OT_F32, .shape = SHAPE(2, 3) },
                             { .name = "target", .dtype = OT_F32, .shape = SHAPE(2, 3) },
                             { .name = "cond", .dtype = OT_BOOL, .shape = OT_SCALAR, .whole = true } };
            ot_config c = { .want = OT_WANT_GRAD, .n_feeds = 3, .feeds = f, .threads = 1, .accumulate = 1 };
            if (ot_plan_new(m.g, &c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
            assert_int_equal(p->n_weights, 1);
            assert_int_equal(ot_exec_new(p, NULL, &x, &e), OT_OK);
            for (int i = 0; i < p->graph->n_inputs; i++) {
                ot_value *v = p->graph->inputs[i];
                ot_exec_feed(x, v,
                             !strcmp(v->name, "input")    ? (void *)in
                             : !strcmp(v->name, "target") ? (void *)target
                             : !strcmp(v->name, "cond")   ? (void *)&fed
                                                          : (void *)knob);
            }
            assert_int_equal(ot_exec_batch(x, &e), OT_OK);
            const float *w = p->weights[0]->data, *g = ot_exec_bytes(x, p->weights[0]->grad);
            bool taken = cond < 0 ? fed : cond;
            for (int k = 0; k < 3; k++) { /* loss = mean of y^2 over 6 */
                double want = 0;
                for (int r = 0; r < 2; r++) {
                    double xv = in[3 * r + k], y = taken ? xv * w[k] : xv + w[k];
                    want += 2 * y / 6 * (taken ? xv : 1);
                }
                if (!(fabs(want - g[k]) < 1e-5 * (1 + fabs(want))))
                    fail_msg("cond %d fed %d: gradient %d is %g, wants %g", cond, fed, k, (double)g[k], want);
            }
            ot_exec_free(x);
            ot_plan_free(p);
            model_free(&m);
        }
}

/* ---- rounding ---------------------------------------------------------------------- */

/* y = relu(x) * dequantised(quantised(w)): the gradient goes through, but not where w is out of range. */
static void quantised_and_back_has_a_gradient(void **state)
{
    static const float weight[3] = { 0.6f, -3, 200 }, scale = 0.5f, want[3] = { 0.5f, -1, 126.5f };
    static const uint8_t zero = 2;
    (void)state;
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    ot_exec *x;
    float in[3] = { 1, 2, 3 }, target[3] = { 0 };
    double knob[3] = { 0, 0, 1 };
    model_new(&m);
    ot_value *w = model_weight(&m, "w", SHAPE(3)),
             *r = model_node(&m, "Relu", OT_IN(model_input(&m, "input", OT_F32, SHAPE(-1, 3))));
    w->data = weight;
    ot_value *s = ot_graph_const(m.g, "s", OT_F32, &OT_SCALAR, &scale),
             *z = ot_graph_const(m.g, "z", OT_U8, &OT_SCALAR, &zero);
    ot_value *s2 = ot_graph_const(m.g, "s2", OT_F32, &OT_SCALAR, &scale),
             *q = model_node(&m, "QuantizeLinear", OT_IN(w, s, z));
    model_output(&m, model_node(&m, "Mul", OT_IN(r, model_node(&m, "DequantizeLinear", OT_IN(q, s2, z)))), "output");
    ot_feed f[2] = { { .name = "input", .dtype = OT_F32, .shape = SHAPE(1, 3) },
                     { .name = "target", .dtype = OT_F32, .shape = SHAPE(1, 3) } };
    ot_config c = { .want = OT_WANT_GRAD, .n_feeds = 2, .feeds = f, .threads = 1, .accumulate = 1 };
    if (ot_plan_new(m.g, &c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
    assert_int_equal(p->n_weights, 1);
    assert_int_equal(ot_exec_new(p, NULL, &x, &e), OT_OK);
    for (int i = 0; i < p->graph->n_inputs; i++) {
        ot_value *v = p->graph->inputs[i];
        ot_exec_feed(x, v,
                     !strcmp(v->name, "input")    ? (void *)in
                     : !strcmp(v->name, "target") ? (void *)target
                                                  : (void *)knob);
    }
    assert_int_equal(ot_exec_batch(x, &e), OT_OK);
    const float *g = ot_exec_bytes(x, p->weights[0]->grad), *loss = ot_exec_bytes(x, p->loss);
    float sum = 0;
    for (int k = 0; k < 3; k++) { /* loss = mean of y^2 */
        float y = in[k] * want[k], d = k == 0 ? 2 * y * in[k] / 3 : 0;
        sum += y * y / 3;
        if (fabsf(g[k] - d) > 1e-5f) fail_msg("gradient %d is %g, wants %g", k, (double)g[k], (double)d);
    }
    if (fabsf(*loss - sum) > 1e-5f * sum) fail_msg("the loss is %g, wants %g", (double)*loss, (double)sum);
    ot_exec_free(x);
    ot_plan_free(p);
    model_free(&m);
}

/* ---- errors ----------------------------------------------------------------------- */

static void expect(const model *m, const ot_config *c, ot_status s, const char *text)
{
    ot_error e = { 0 };
    ot_plan *p;
    assert_int_equal(ot_plan_new(m->g, c, NULL, &p, &e), s);
    assert_null(p);
    if (!strstr(e.text, text)) fail_msg("'%s' says nothing of '%s'", e.text, text);
}

static void patterns(void **state)
{
    (void)state;
    int all = ot_pattern_rank("*", "fc.weight"), some = ot_pattern_rank("fc.*", "fc.weight");
    assert_int_equal(ot_pattern_rank("conv.*", "fc.weight"), -1);
    assert_true(all >= 0 && all < some);
    assert_true(some < ot_pattern_rank("fc.weight", "fc.weight"));
    assert_true(ot_pattern_rank("a[b]", "a[b]") >
                ot_pattern_rank("a[[]b?", "a[b]")); /* an exact name beats a glob of more letters */
}

static void errors_say_what(void **state)
{
    model m;
    ot_feed f[2];
    const char *none = "nothing.*", *all = "*";
    (void)state;
    model_cnn(&m, 0);
    ot_config c = cnn_config(OT_WANT_TRAIN, 8, f);
    c.options.freeze = &none, c.options.n_freeze = 1;
    expect(&m, &c, OT_E_USAGE, "nothing.*");
    c.options.freeze = &all;
    expect(&m, &c, OT_E_MODEL, "nothing to train");
    c.options.freeze = NULL, c.options.n_freeze = 0;
    c.options.lr_scale = &none, c.options.n_lr_scale = 1, c.options.lr_scale_by = (const double[]){ 2 };
    expect(&m, &c, OT_E_USAGE, "--lr-scale nothing.*");
    c.options.n_lr_scale = 0;
    c.options.no_decay = (const char *const[]){ "norms", none }, c.options.n_no_decay = 2;
    expect(&m, &c, OT_E_USAGE, "--no-decay nothing.*");
    c = cnn_config(OT_WANT_TRAIN, 8, f);
    c.options.optimizer.name = "adamm";
    expect(&m, &c, OT_E_USAGE, "adamm");
    c = cnn_config(OT_WANT_TRAIN, 8, f);
    f[1].shape = SHAPE(8, 3);
    expect(&m, &c, OT_E_DATA, "class axis");
    c = cnn_config(OT_WANT_TRAIN, 8, f);
    f[0].shape = SHAPE(8, 1, 8, 9);
    expect(&m, &c, OT_E_DATA, "input 'input'");
    c = cnn_config(OT_WANT_TRAIN, 8, f);
    ot_spec l = { .name = "mse", .output = "nowhere" };
    c.options.losses = &l, c.options.n_losses = 1;
    expect(&m, &c, OT_E_USAGE, "nowhere");
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_has_no_overlap),
        cmocka_unit_test(plans_are_small),
        cmocka_unit_test(plans_share_state),
        cmocka_unit_test(same_bits_for_equal_threads),
        cmocka_unit_test(fast_kernels_follow_the_reference),
        cmocka_unit_test(accumulation_is_the_mean),
        cmocka_unit_test(baked_batch_follows),
        cmocka_unit_test(quantised_and_back_has_a_gradient),
        cmocka_unit_test(a_transposed_operand_is_no_copy),
        cmocka_unit_test(branches_take_the_place_of_if),
        cmocka_unit_test(patterns),
        cmocka_unit_test(errors_say_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) + layout_tests() + precision_tests() + recognise_tests() +
           recognise_norm_tests() + recognise_softmax_tests() + recognise_loss_tests() + recognise_batchnorm_tests() +
           recognise_activation_tests() + recognise_bias_tests() + recognise_root_tests() + candidate_tests() +
           verify_tests() + name_tests() + decay_tests() + prediction_tests() + copy_tests();
}
