/* precision.c - the choice of 16 bits, training with it; the loss scale; skipped updates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernel.h"
#include "runtime/base/random.h"
#include "tests/passes/build.h"

/* ---- running a plan by hand ---------------------------------------------------- */

typedef struct run {
    ot_plan *p;
    ot_exec *x;
    void *fed[16];
    double knob[3];
} run;

static void plan_new(run *r, const model *m, const ot_config *c)
{
    ot_error e = { 0 };
    memset(r, 0, sizeof *r);
    if (ot_plan_new(m->g, c, NULL, &r->p, &e) != OT_OK) fail_msg("%s", e.text);
    assert_int_equal(ot_exec_new(r->p, NULL, &r->x, &e), OT_OK);
    assert_true(r->p->graph->n_inputs <= OT_LEN(r->fed));
    for (int i = 0; i < r->p->graph->n_inputs; i++) {
        const ot_value *v = r->p->graph->inputs[i];
        r->fed[i] = calloc(1, ot_bytes(&v->shape, v->dtype) + 8);
        assert_non_null(r->fed[i]);
        for (int64_t k = 0, n = ot_numel(&v->shape); k < n; k++) {
            if (ot_is_float(v->dtype)) ot_set_f64(r->fed[i], v->dtype, k, ot_normal(11, (uint64_t)i, (uint64_t)k));
            else ot_set_i64(r->fed[i], v->dtype, k, k * 7 % 5);
        }
        ot_exec_feed(r->x, v, r->fed[i]);
    }
    r->knob[0] = 1e-3, r->knob[1] = 0.9, r->knob[2] = 1;
    if (r->p->knobs.lr) ot_exec_feed(r->x, r->p->knobs.lr, &r->knob[0]);
    if (r->p->knobs.momentum) ot_exec_feed(r->x, r->p->knobs.momentum, &r->knob[1]);
    if (r->p->knobs.t) ot_exec_feed(r->x, r->p->knobs.t, &r->knob[2]);
}

/* By the reference kernels, which compute the graph that a device gets. */
static void run_new(run *r, const model *m, const ot_config *c)
{
    ot_config ref = *c;
    ref.ref_only = true;
    plan_new(r, m, &ref);
}

static void run_free(run *r)
{
    for (int i = 0; i < r->p->graph->n_inputs; i++) free(r->fed[i]);
    ot_exec_free(r->x);
    ot_plan_free(r->p);
}

static void step(run *r, int accumulate)
{
    ot_error e = { 0 };
    for (int k = 0; k < accumulate; k++) assert_int_equal(ot_exec_batch(r->x, &e), OT_OK);
    assert_int_equal(ot_exec_update(r->x, &e), OT_OK);
    r->knob[2]++;
}

static double number(run *r, const ot_value *v)
{
    ot_error e = { 0 };
    uint64_t bytes = 0;
    assert_int_equal(ot_exec_read(r->x, v, &bytes, &e), OT_OK);
    return ot_get_f64(&bytes, v->dtype, 0);
}

static const ot_value *state(run *r, const char *name)
{
    for (int i = 0; i < r->p->n_states; i++)
        if (!strcmp(r->p->states[i]->name, name)) return r->p->states[i];
    fail_msg("there is no state '%s'", name);
    return NULL;
}

/* Every state one after the other, but those whose names begin with `but`; malloc'ed. */
static char *all_state(run *r, const char *but, size_t *n)
{
    ot_error e = { 0 };
    char *bytes = malloc((size_t)r->p->state_bytes + 64);
    assert_non_null(bytes);
    *n = 0;
    for (int i = 0; i < r->p->n_states; i++) {
        const ot_value *v = r->p->states[i];
        if (but && !strncmp(v->name, but, strlen(but))) continue;
        assert_int_equal(ot_exec_read(r->x, v, bytes + *n, &e), OT_OK);
        *n += ot_bytes(&v->shape, v->dtype);
    }
    return bytes;
}

/* ---- models --------------------------------------------------------------------- */

static ot_value *ones(model *m, const char *name, int64_t n)
{
    ot_value *v = model_weight(m, name, SHAPE(n));
    for (int64_t i = 0; i < n; i++) ot_set_f64((void *)(uintptr_t)v->data, OT_F32, i, 1);
    return v;
}

/* input (N,1,8,8) -> Conv -> BatchNormalization -> Relu -> GlobalAveragePool, with a layer of attention's parts behind:
 * MatMul, Add, Softmax, LayerNormalization, Gelu, MatMul -> output (N,5). */
static void model_mix(model *m)
{
    model_new(m);
    ot_value *x = model_input(m, "input", OT_F32, SHAPE(-1, 1, 8, 8));
    x = model_node(m, "Conv", OT_IN(x, model_weight(m, "c.w", SHAPE(6, 1, 3, 3))));
    x = model_node(m, "BatchNormalization",
                   OT_IN(x, ones(m, "n.s", 6), model_weight(m, "n.b", SHAPE(6)), model_weight(m, "n.m", SHAPE(6)),
                         ones(m, "n.v", 6)));
    x = model_node(m, "Relu", OT_IN(x));
    x = model_node(m, "Flatten", OT_IN(model_node(m, "GlobalAveragePool", OT_IN(x))));
    x = model_node(m, "Add",
                   OT_IN(model_node(m, "MatMul", OT_IN(x, model_weight(m, "a.w", SHAPE(6, 8)))),
                         model_weight(m, "a.b", SHAPE(8))));
    ot_value *p =
        model_node(m, "Softmax", OT_IN(model_node(m, "MatMul", OT_IN(x, model_weight(m, "q.w", SHAPE(8, 8))))));
    x = model_node(m, "Add", OT_IN(x, model_node(m, "MatMul", OT_IN(p, model_weight(m, "v.w", SHAPE(8, 8))))));
    x = model_node(m, "LayerNormalization", OT_IN(x, ones(m, "l.s", 8), model_weight(m, "l.b", SHAPE(8))));
    x = model_node(m, "MatMul", OT_IN(model_node(m, "Gelu", OT_IN(x)), model_weight(m, "f.w", SHAPE(8, 5))));
    model_output(m, x, "output");
    if (m->err.status != OT_OK) fail_msg("%s", m->err.text);
}

/* ---- types ------------------------------------------------------------------------ */

static bool named(const ot_node *n, const char *begin) { return !strncmp(n->op->name, begin, strlen(begin)); }

/* Of every product and movement 16 bits; of norms x and y; the loss, norms' parameters, weights and state f32. */
static void types_follow_the_policy(void **state_)
{
    (void)state_;
    for (int i = 0; i < 2; i++) {
        model m;
        ot_feed f[2];
        run r;
        int products = 0, norms = 0, losses = 0;
        ot_dtype half = i ? OT_F16 : OT_BF16;
        model_mix(&m);
        ot_config c = cnn_config(OT_WANT_TRAIN, 4, f);
        c.options.precision = i ? OT_PREC_FP16 : OT_PREC_BF16;
        run_new(&r, &m, &c);
        for (const ot_node *n = r.p->graph->first; n; n = n->next) {
            if (named(n, "Dot") || named(n, "Convolve")) {
                products++;
                for (int k = 0; k < n->n_in; k++) assert_int_equal(n->in[k]->dtype, half);
                assert_int_equal(n->out[0]->dtype, half);
            } else if (!strcmp(n->op->name, "BatchNorm") || !strcmp(n->op->name, "LayerNorm")) {
                norms++;
                assert_int_equal(n->in[0]->dtype, n->op->name[0] == 'B' ? half : n->out[0]->dtype);
                for (int k = 1; k < n->n_in; k++) assert_int_equal(n->in[k]->dtype, OT_F32);
                for (int k = 1; k < n->n_out; k++) assert_true(!n->out[k] || n->out[k]->dtype == OT_F32);
            } else if (!strcmp(n->op->name, "CrossEntropyDx")) { /* computes the loss too */
                losses++;
                assert_int_equal(n->n_out, 2);
                assert_int_equal(n->in[1]->dtype, half);
                assert_int_equal(n->out[0]->dtype, half);
                assert_int_equal(n->out[1]->dtype, OT_F32);
            }
        }
        assert_true(products == 5 + 9); /* no dx of the input; dw of all five */
        assert_true(norms == 2 && losses == 1);
        for (int k = 0; k < r.p->n_weights; k++) assert_int_equal(r.p->weights[k]->dtype, OT_F32);
        for (int k = 0; k < r.p->n_states; k++)
            assert_true(r.p->states[k]->dtype == OT_F32 || !strcmp(r.p->states[k]->name, "onnxtrain.updates"));
        run_free(&r);
        model_free(&m);
    }
}

/* A coordinate made of 16 bits is computed in f32: floor(100.3 y) of what a product gave. */
static void places_stay_exact(void **state_)
{
    static const float by = 100.3f;
    (void)state_;
    model m;
    model_new(&m);
    ot_value *x = model_input(&m, "input", OT_F32, SHAPE(-1, 16));
    ot_value *y = model_node(&m, "MatMul", (ot_value *[]){ x, model_weight(&m, "w", SHAPE(16, 32)) }, 2);
    ot_value *times = ot_graph_const(m.g, "by", OT_F32, &OT_SCALAR, &by);
    ot_value *place =
        model_node(&m, "Floor", (ot_value *[]){ model_node(&m, "Mul", (ot_value *[]){ y, times }, 2) }, 1);
    model_output(&m, y, "y");
    model_output(&m, place, "place");
    ot_feed f = { .name = "input", .dtype = OT_F32, .shape = SHAPE(4, 16) };
    ot_config c = { .want = OT_WANT_RUN,
                    .n_feeds = 1,
                    .feeds = &f,
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = 1,
                    .options.precision = OT_PREC_BF16 };
    run r;
    ot_error e = { 0 };
    float got[2][4 * 32];
    run_new(&r, &m, &c);
    assert_int_equal(ot_exec_batch(r.x, &e), OT_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(ot_exec_read(r.x, r.p->graph->outputs[i], got[i], &e), OT_OK);
    int large = 0;
    for (int i = 0; i < OT_LEN(got[0]); i++) {
        assert_true(got[0][i] ==
                    ot_float_decode(ot_float_encode(got[0][i], OT_BF16, false), OT_BF16)); /* it was 16 bits */
        assert_true(got[1][i] == floorf(got[0][i] * by));
        large += fabsf(got[1][i]) > 256; /* where bf16 has no whole numbers */
    }
    assert_true(large > 0);
    run_free(&r);
    model_free(&m);
}

/* The text of a small graph, whole: outputs f32, weights cast, the sum before a mask too large for f16 not rounded to it. */
static void a_small_graph_as_text(void **state_)
{
    static const char *const want[] = {
        [OT_FP32] = "float32", [OT_PREC_BF16] = "bfloat16", [OT_PREC_FP16] = "float16"
    };
    static const ot_precision asked[] = { OT_FP32, OT_PREC_BF16, OT_PREC_FP16 };
    static const float mask[2] = { 0, -1e6f };
    (void)state_;
    for (int i = 0; i < OT_LEN(asked); i++) {
        model m;
        ot_error e = { 0 };
        ot_plan *p;
        char line[128];
        model_new(&m);
        ot_value *x = model_node(
            &m, "MatMul", OT_IN(model_input(&m, "input", OT_F32, SHAPE(3, 4)), model_weight(&m, "w", SHAPE(4, 2))));
        x = model_node(&m, "Add", OT_IN(x, ot_graph_const(m.g, "mask", OT_F32, &SHAPE(2), mask)));
        model_output(&m, model_node(&m, "Softmax", OT_IN(x)), "output");
        ot_feed f = { .name = "input", .dtype = OT_F32, .shape = SHAPE(3, 4) };
        ot_config c = { .want = OT_WANT_RUN,
                        .n_feeds = 1,
                        .feeds = &f,
                        .threads = 1,
                        .accumulate = 1,
                        .options.precision = asked[i],
                        .ref_only = true };
        if (ot_plan_new(m.g, &c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
        char *text = ot_graph_text(p->graph);
        assert_non_null(text);
        const char *at = text;
        const char *const lines[] = { "Dot(", "Map(", "SoftmaxAxis(" };
        for (int k = 0; k < 3; k++) { /* in this order, with these types */
            bool narrow = k == 0 || (k == 1 && asked[i] == OT_PREC_BF16) || (k == 2 && asked[i] == OT_PREC_BF16);
            snprintf(line, sizeof line, ": %s[3,2]", want[narrow ? asked[i] : OT_FP32]);
            const char *found = strstr(at, lines[k]);
            while (found && k == 1 && !memcmp(found, "Map(input)", 10)) found = strstr(found + 1, lines[k]);
            while (found && k == 1 && !memcmp(found, "Map(w)", 6)) found = strstr(found + 1, lines[k]);
            if (!found || !strstr(found, line) || strstr(found, line) > strchr(found, '\n'))
                fail_msg("no %s with %s in\n%s", lines[k], line, text);
            at = found;
        }
        assert_int_equal(p->graph->outputs[0]->dtype, OT_F32);
        free(text);
        ot_plan_free(p);
        model_free(&m);
    }
}

/* ---- training ----------------------------------------------------------------------- */

/* Losses and norms of 16 bits stay near those of f32, and are not the same. */
static void sixteen_bits_train(void **state_)
{
    (void)state_;
    for (int k = 0; k < 4; k++) {
        double loss[3][20], norm[3][20];
        bool mix = k & 1, accumulate = k & 2;
        for (int i = 0; i < 3; i++) {
            static const ot_precision asked[] = { OT_FP32, OT_PREC_BF16, OT_PREC_FP16 };
            model m;
            ot_feed f[2];
            run r;
            if (mix) model_mix(&m);
            else model_cnn(&m, 2);
            ot_config c = cnn_config(OT_WANT_TRAIN, 8, f);
            c.options.precision = asked[i];
            c.accumulate = accumulate ? 2 : 1;
            run_new(&r, &m, &c);
            r.knob[0] = 2e-3;
            for (int s = 0; s < 20; s++) {
                int skipped = 0;
                do step(&r, c.accumulate);
                while (i == 2 && !isfinite(number(&r, r.p->grad_norm)) && skipped++ < 8);
                loss[i][s] = number(&r, r.p->loss);
                norm[i][s] = number(&r, r.p->grad_norm);
            }
            run_free(&r);
            model_free(&m);
        }
        assert_true(loss[0][19] < 0.95 * loss[0][0]);
        for (int i = 1; i < 3; i++) {
            double eps = i == 1 ? 1.0 / 32 : 1.0 / 256;
            assert_true(loss[i][0] != loss[0][0]);
            for (int s = 0; s < 20; s++) {
                double near = s ? 4 * eps : eps; /* roundings of earlier updates add up */
                if (!(fabs(loss[i][s] - loss[0][s]) <= near * (0.1 + loss[0][s])))
                    fail_msg("model %d, %s, update %d: the loss is %g, in f32 %g", k, i == 1 ? "bf16" : "fp16", s + 1,
                             loss[i][s], loss[0][s]);
                if (s == 0 && !(fabs(norm[i][s] - norm[0][s]) <= 2 * eps * norm[0][s]))
                    fail_msg("model %d, %s: the gradient's norm is %g, in f32 %g", k, i == 1 ? "bf16" : "fp16",
                             norm[i][s], norm[0][s]);
            }
        }
    }
}

/* A weight whose transposed matrix is multiplied too: neither it nor its gradient is transposed in memory, though casts are
 * between the Transpose and the product, and the sum of its gradients widens them itself. */
static void casts_do_not_stop_folding(void **state_)
{
    static const ot_precision asked[] = { OT_FP32, OT_PREC_BF16, OT_PREC_FP16 };
    double loss[3], norm[3];
    (void)state_;
    for (int i = 0; i < 3; i++) {
        model m;
        ot_feed f[2];
        run r;
        model_new(&m);
        ot_value *x = model_node(&m, "Flatten", OT_IN(model_input(&m, "input", OT_F32, SHAPE(-1, 1, 8, 8))));
        ot_value *w = model_weight(&m, "w", SHAPE(64, 5));
        x = model_node(&m, "Relu", OT_IN(model_node(&m, "MatMul", OT_IN(x, w))));
        x = model_node(&m, "MatMul", OT_IN(x, model_node(&m, "Transpose", OT_IN(w))));
        x = model_node(&m, "Relu", OT_IN(x));
        model_output(&m, model_node(&m, "MatMul", OT_IN(x, model_weight(&m, "v", SHAPE(64, 5)))), "output");
        ot_config c = cnn_config(OT_WANT_TRAIN, 4, f);
        c.options.precision = asked[i];
        run_new(&r, &m, &c);
        for (const ot_node *n = r.p->graph->first; n; n = n->next) {
            assert_false(named(n, "Copy"));
            if (named(n, "Map") && n->phase == OT_PHASE_BATCH)
                assert_false(n->n_in == 1 && ot_dtype_bits(n->in[0]->dtype) == 16 && n->out[0]->dtype == OT_F32);
        }
        step(&r, 1);
        loss[i] = number(&r, r.p->loss);
        norm[i] = number(&r, r.p->grad_norm);
        run_free(&r);
        model_free(&m);
        assert_true(fabs(loss[i] - loss[0]) < 0.02 * loss[0] && fabs(norm[i] - norm[0]) < 0.04 * norm[0]);
    }
}

/* The gradient of w, which is multiplied, and of the table whose rows are gathered: w itself, or a copy of it. */
static void table_gradient(bool tied, double *sum, int64_t n, int *scatters)
{
    model m;
    ot_feed f[2];
    run r;
    ot_error e = { 0 };
    model_new(&m);
    ot_value *x = model_node(&m, "Flatten", OT_IN(model_input(&m, "input", OT_F32, SHAPE(-1, 1, 8, 8))));
    ot_value *w = model_weight(&m, "w", SHAPE(64, 5)), *table = tied ? w : model_weight(&m, "table", SHAPE(64, 5));
    if (!tied) memcpy((void *)(uintptr_t)table->data, w->data, (size_t)n * sizeof(float));
    ot_value *rows = model_node(&m, "Gather", OT_IN(table, model_ints(&m, (int64_t[]){ 3, -1, 3, 7 }, 4)));
    x = model_node(&m, "Add", OT_IN(model_node(&m, "MatMul", OT_IN(x, w)), model_node(&m, "Sin", OT_IN(rows))));
    model_output(&m, x, "output");
    ot_config c = cnn_config(OT_WANT_GRAD, 4, f);
    run_new(&r, &m, &c);
    assert_int_equal(ot_exec_batch(r.x, &e), OT_OK);
    for (int i = 0; i < r.p->n_weights; i++) {
        const float *g = ot_exec_bytes(r.x, r.p->weights[i]->grad);
        for (int64_t k = 0; k < n; k++) sum[k] += (double)g[k];
    }
    *scatters = 0;
    for (const ot_node *k = r.p->graph->first; k; k = k->next) {
        *scatters += named(k, "Scatter") - named(k, "TakeDx");
        if (named(k, "Scatter")) assert_true(ot_node_bytes(k) == 4 * 8 + 3 * 4 * 5 * sizeof(float)); /* of 64 rows, 4 */
        if (!strcmp(k->op->name, "Take")) assert_true(ot_node_bytes(k) == 4 * 8 + 2 * 4 * 5 * sizeof(float));
    }
    run_free(&r);
    model_free(&m);
}

/* Gathered rows of a weight that is multiplied too are added to the gradient of the product. */
static void rows_are_added_in_place(void **state_)
{
    enum { ALL = 64 * 5 };
    double tied[ALL] = { 0 }, apart[ALL] = { 0 };
    int scatters[2];
    (void)state_;
    table_gradient(true, tied, ALL, &scatters[0]);
    table_gradient(false, apart, ALL, &scatters[1]);
    assert_true(scatters[0] == 1 && scatters[1] == -1);
    for (int i = 0; i < ALL; i++) assert_true(fabs(tied[i] - apart[i]) <= 1e-6 * (1 + fabs(apart[i])));
}

/* The norm is that of all gradients, of more than a Map reads at a time, and than as many Maps do. */
static void the_norm_of_many_gradients(void **state_)
{
    static const int layers[] = { 3, 20, 300 };
    (void)state_;
    for (int k = 0; k < OT_LEN(layers); k++) {
        double sum = 0;
        for (int i = 0; i < 2; i++) {
            model m;
            ot_feed f[2];
            run r;
            ot_error e = { 0 };
            model_new(&m);
            ot_value *x = model_node(&m, "Flatten", OT_IN(model_input(&m, "input", OT_F32, SHAPE(-1, 1, 8, 8))));
            x = model_node(&m, "MatMul", OT_IN(x, model_weight(&m, "w", SHAPE(64, 5))));
            for (int l = 0; l < layers[k]; l++)
                x = model_node(&m, "Sin", OT_IN(model_node(&m, "Add", OT_IN(x, model_weight(&m, "b", SHAPE(5))))));
            model_output(&m, x, "output");
            ot_config c = cnn_config(i ? OT_WANT_TRAIN : OT_WANT_GRAD, 8, f);
            run_new(&r, &m, &c);
            assert_int_equal(r.p->n_weights, layers[k] + 1);
            if (i) step(&r, 1);
            else assert_int_equal(ot_exec_batch(r.x, &e), OT_OK);
            for (int w = 0; w < r.p->n_weights && !i; w++) {
                const ot_value *g = r.p->weights[w]->grad;
                const float *bytes = ot_exec_bytes(r.x, g);
                for (int64_t j = 0; j < ot_numel(&g->shape); j++) sum += (double)bytes[j] * (double)bytes[j];
            }
            if (i) assert_true(sum > 0 && fabs(number(&r, r.p->grad_norm) / sqrt(sum) - 1) < 1e-6);
            run_free(&r);
            model_free(&m);
        }
    }
}

/* Gradients to be looked at are those of the loss, not of the scaled one. */
static void gradients_are_unscaled(void **state_)
{
    (void)state_;
    double got[2];
    for (int i = 0; i < 2; i++) {
        model m;
        ot_feed f[2];
        run r;
        ot_error e = { 0 };
        float g[5];
        model_cnn(&m, 0);
        ot_config c = cnn_config(OT_WANT_GRAD, 8, f);
        c.options.precision = i ? OT_PREC_FP16 : OT_FP32;
        run_new(&r, &m, &c);
        assert_int_equal(ot_exec_batch(r.x, &e), OT_OK);
        const ot_value *w = r.p->weights[r.p->n_weights - 1];
        assert_true(ot_numel(&w->shape) == 5 && w->grad->dtype == OT_F32);
        assert_int_equal(ot_exec_read(r.x, w->grad, g, &e), OT_OK);
        got[i] = (double)g[0];
        run_free(&r);
        model_free(&m);
    }
    assert_true(fabs(got[0] - got[1]) < 1e-3 * fabs(got[0]));
}

/* ---- updates that change nothing ------------------------------------------------------- */

/* input (N,4) -> Relu -> MatMul -> output (N,1), mse. */
static void model_line(model *m, run *r, ot_config *c, ot_feed f[2], ot_spec *mse)
{
    model_new(m);
    ot_value *x = model_node(m, "Relu", OT_IN(model_input(m, "input", OT_F32, SHAPE(-1, 4))));
    model_output(m, model_node(m, "MatMul", OT_IN(x, model_weight(m, "w", SHAPE(4, 1)))), "output");
    f[0] = (ot_feed){ .name = "input", .dtype = OT_F32, .shape = SHAPE(2, 4) };
    f[1] = (ot_feed){ .name = "target", .dtype = OT_F32, .shape = SHAPE(2, 1) };
    *mse = (ot_spec){ .name = "mse" };
    *c = (ot_config){ .want = OT_WANT_TRAIN,
                      .n_feeds = 2,
                      .feeds = f,
                      .options.n_losses = 1,
                      .options.losses = mse,
                      .options.optimizer = { .name = "adam" },
                      .accumulate = 1,
                      .options.dropout = -1,
                      .threads = 1,
                      .options.precision = c->options.precision,
                      .options.skip_nonfinite = c->options.skip_nonfinite };
    run_new(r, m, c);
}

static void set_fed(run *r, const char *name, double v)
{
    for (int i = 0; i < r->p->graph->n_inputs; i++) {
        const ot_value *in = r->p->graph->inputs[i];
        for (int64_t k = 0; !strcmp(in->name, name) && k < ot_numel(&in->shape); k++)
            ot_set_f64(r->fed[i], in->dtype, k, v);
    }
}

/* dL/dy = 1000 x 65536 is too much for f16: updates are skipped and the scale halved until it fits. */
static void an_overflow_skips_the_update(void **state_)
{
    model m;
    run r;
    ot_feed f[2];
    ot_spec mse;
    ot_config c = { .options.precision = OT_PREC_FP16 };
    float before[4], w[4];
    ot_error e = { 0 };
    size_t n[2];
    (void)state_;
    model_line(&m, &r, &c, f, &mse);
    assert_null(r.p->knobs.t);
    set_fed(&r, "input", 1);
    set_fed(&r, "target", 1000);
    double scale = 65536;
    int skipped = 0;
    assert_int_equal(ot_exec_read(r.x, r.p->weights[0], before, &e), OT_OK);
    for (;; skipped++) {
        char *a = all_state(&r, "onnxtrain.loss_scale", &n[0]);
        assert_true(number(&r, r.p->loss_scale) == scale);
        step(&r, 1);
        assert_true(fabs(number(&r, r.p->loss) - 1e6) < 1e4); /* of the loss itself */
        if (isfinite(number(&r, r.p->grad_norm))) {
            free(a);
            break;
        }
        char *b = all_state(&r, "onnxtrain.loss_scale", &n[1]);
        assert_true(n[0] == n[1]);
        assert_memory_equal(a, b, n[0]);
        free(a);
        free(b);
        scale /= 2;
        assert_true(skipped < 20);
    }
    /* 1000 x scale < 65520 */
    assert_true(scale == 32 && skipped == 11);
    assert_true(number(&r, r.p->loss_scale) == scale && number(&r, state(&r, "onnxtrain.updates")) == 1);
    assert_true(fabs(number(&r, r.p->grad_norm) / 4000 - 1) < 0.01); /* four times dL/dw = 2 x 1000 */
    assert_int_equal(ot_exec_read(r.x, r.p->weights[0], w, &e), OT_OK);
    /* Adam's first step is the rate; counted as the twelfth it would be 0.32 of it. */
    for (int i = 0; i < 4; i++) assert_true(fabs((double)(w[i] - before[i]) - 1e-3) < 1e-5);
    run_free(&r);
    model_free(&m);
}

static void the_scale_grows(void **state_)
{
    model m;
    run r;
    ot_feed f[2];
    ot_spec mse;
    ot_config c = { .options.precision = OT_PREC_FP16 };
    (void)state_;
    model_line(&m, &r, &c, f, &mse);
    r.knob[0] = 0;
    set_fed(&r, "input", 0.01);
    set_fed(&r, "target", 0);
    for (int s = 0; s < 1999; s++) step(&r, 1);
    assert_true(number(&r, r.p->loss_scale) == 65536);
    step(&r, 1);
    assert_true(number(&r, r.p->loss_scale) == 131072 && number(&r, state(&r, "onnxtrain.loss_scale_count")) == 0);
    step(&r, 1);
    set_fed(&r, "input", (double)INFINITY);
    step(&r, 1); /* and starts again after an overflow */
    assert_true(number(&r, r.p->loss_scale) == 65536 && number(&r, state(&r, "onnxtrain.loss_scale_count")) == 0);
    assert_true(number(&r, state(&r, "onnxtrain.updates")) == 2001);
    run_free(&r);
    model_free(&m);
}

/* --on-nonfinite skip: a batch without a finite loss leaves no trace, in any of an update's batches. */
static void a_bad_batch_leaves_no_trace(void **state_)
{
    (void)state_;
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        char *bytes[2];
        size_t n[2];
        for (int i = 0; i < 2; i++) {
            model m;
            run r;
            ot_feed f[2];
            ot_error e = { 0 };
            model_cnn(&m, 0);
            ot_config c = cnn_config(OT_WANT_TRAIN, 8, f);
            c.options.skip_nonfinite = true;
            c.accumulate = accumulate;
            run_new(&r, &m, &c);
            float *in = r.fed[0], kept = in[3];
            for (int s = 0; s < 6; s++) {
                if (i && s == 3) { /* the first batch of one more update */
                    in[3] = NAN;
                    assert_int_equal(ot_exec_batch(r.x, &e), OT_OK);
                    in[3] = kept;
                    for (int k = 1; k < accumulate; k++) assert_int_equal(ot_exec_batch(r.x, &e), OT_OK);
                    assert_int_equal(ot_exec_update(r.x, &e), OT_OK);
                    assert_true(isnan(number(&r, r.p->grad_norm)));
                }
                step(&r, accumulate);
            }
            assert_true(number(&r, state(&r, "onnxtrain.updates")) == 6);
            bytes[i] = all_state(&r, NULL, &n[i]);
            run_free(&r);
            model_free(&m);
        }
        assert_true(n[0] == n[1]);
        assert_memory_equal(bytes[0], bytes[1], n[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
}

/* ---- the CPU ------------------------------------------------------------------------- */

static bool said(const ot_plan *p, const char *what)
{
    for (int i = 0; i < p->findings.n; i++)
        if (strstr(p->findings.list[i].what, what)) return true;
    return false;
}

/* Two products, each 64 samples or pixels wide: matrix products, or convolutions. */
static void model_products(model *m, bool conv)
{
    model_new(m);
    const char *op = conv ? "Conv" : "MatMul";
    ot_value *w = model_weight(m, "w", conv ? SHAPE(32, 16, 3, 3) : SHAPE(64, 96));
    ot_value *v = model_weight(m, "v", conv ? SHAPE(16, 32, 3, 3) : SHAPE(96, 64));
    ot_value *x = model_input(m, "input", OT_F32, conv ? SHAPE(-1, 16, 8, 8) : SHAPE(-1, 64));
    x = model_node(m, "Relu", OT_IN(model_node(m, op, OT_IN(x, w))));
    model_output(m, model_node(m, op, OT_IN(x, v)), "output");
}

/* bf16 on the CPU: every value stays f32; products that round say so, and without one the results are those of fp32. */
static void the_cpu_rounds_operands_only(void **state_)
{
    static const ot_precision asked[] = { OT_FP32, OT_PREC_BF16, OT_PREC_FP16 };
    (void)state_;
    for (int i = 0; i < 6; i++) {
        static double loss[3], norm[3];
        static int rounded;
        bool conv = i >= 3;
        int k = i % 3;
        model m;
        ot_feed f[2] = { { .name = "input", .dtype = OT_F32, .shape = conv ? SHAPE(4, 16, 8, 8) : SHAPE(64, 64) },
                         { .name = "target", .dtype = OT_F32, .shape = conv ? SHAPE(4, 16, 4, 4) : SHAPE(64, 64) } };
        ot_spec mse = { .name = "mse" };
        run r;
        model_products(&m, conv);
        ot_config c = { .want = OT_WANT_TRAIN,
                        .n_feeds = 2,
                        .feeds = f,
                        .options.n_losses = 1,
                        .options.losses = &mse,
                        .options.optimizer = { .name = "sgd" },
                        .accumulate = 1,
                        .options.dropout = -1,
                        .threads = 1,
                        .options.precision = asked[k] };
        plan_new(&r, &m, &c);
        for (int j = 0; j < r.p->graph->n_values; j++) assert_true(ot_dtype_bits(r.p->graph->values[j]->dtype) != 16);
        if (k == 1) rounded = r.p->bf16_products;
        else assert_int_equal(r.p->bf16_products, 0);
        if (k == 1) assert_true(said(r.p, rounded ? "5 of 5" : "no effect on this CPU"));
        if (k == 2) assert_true(said(r.p, "precision fp16: no effect on the CPU"));
        step(&r, 1);
        loss[k] = number(&r, r.p->loss);
        norm[k] = number(&r, r.p->grad_norm);
        run_free(&r);
        model_free(&m);
        if (k < 2) continue;
        assert_true(rounded == 0 || rounded == 5); /* forward twice, dw twice, dx once */
        assert_true(fabs(loss[1] - loss[0]) < 0.01 * loss[0] && (loss[1] != loss[0]) == (rounded > 0));
        assert_true(fabs(norm[1] - norm[0]) < 0.01 * norm[0] && (norm[1] != norm[0]) == (rounded > 0));
        assert_true(fabs(loss[2] - loss[0]) < 1e-6 * loss[0] && fabs(norm[2] - norm[0]) < 1e-6 * norm[0]);
    }
}

/* A file in 16 bits: kernels compute it in f32, what leaves the plan has the file's types, and a Cast of the file
 * rounds. */
static void files_in_16_bits(void **state_)
{
    (void)state_;
    for (int i = 0; i < 2; i++) {
        model m;
        ot_dtype half = i ? OT_BF16 : OT_F16;
        ot_feed f = { .name = "input", .dtype = half, .shape = SHAPE(8, 16) };
        ot_config c = {
            .want = OT_WANT_RUN, .n_feeds = 1, .feeds = &f, .accumulate = 1, .options.dropout = -1, .threads = 1
        };
        run r[2];
        double y[2][8 * 4];
        model_new(&m);
        ot_value *x = model_input(&m, "input", half, SHAPE(-1, 16)), *w = model_weight(&m, "w", SHAPE(16, 4));
        uint16_t *narrow = ot_graph_alloc(m.g, 16 * 4 * sizeof *narrow);
        assert_non_null(narrow);
        for (int k = 0; k < 16 * 4; k++) ot_set_f64(narrow, half, k, ot_get_f64(w->data, OT_F32, k));
        w->data = narrow, w->dtype = half;
        x = model_node(&m, "Softmax", OT_IN(model_node(&m, "MatMul", OT_IN(model_node(&m, "Relu", OT_IN(x)), w))));
        model_output(&m, x, "output");
        plan_new(&r[0], &m, &c);
        run_new(&r[1], &m, &c);
        assert_int_equal(r[0].p->graph->outputs[0]->dtype, half);
        assert_true(said(r[0].p, "16 bits are computed in float32") && !said(r[1].p, "16 bits are computed"));
        for (int k = 0; k < r[0].p->n_batch_steps; k++) {
            const ot_step *s = &r[0].p->batch_steps[k];
            assert_string_not_equal(s->kernel->name, "ref");
            for (int j = 0; j < s->node->n_in && s->node->op != &ot_op_Map; j++)
                assert_int_equal(s->node->in[j]->dtype, OT_F32);
        }
        for (int k = 0; k < 2; k++) {
            ot_error e = { 0 };
            uint16_t bytes[8 * 4];
            assert_int_equal(ot_exec_batch(r[k].x, &e), OT_OK);
            assert_int_equal(ot_exec_read(r[k].x, r[k].p->graph->outputs[0], bytes, &e), OT_OK);
            for (int j = 0; j < OT_LEN(bytes); j++) y[k][j] = ot_get_f64(bytes, half, j);
            run_free(&r[k]);
        }
        for (int j = 0; j < OT_LEN(y[0]); j++) assert_true(fabs(y[0][j] - y[1][j]) < (i ? 0.02 : 0.0025));
        model_free(&m);
    }
}

int precision_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_follow_the_policy),   cmocka_unit_test(places_stay_exact),
        cmocka_unit_test(a_small_graph_as_text),     cmocka_unit_test(sixteen_bits_train),
        cmocka_unit_test(gradients_are_unscaled),    cmocka_unit_test(an_overflow_skips_the_update),
        cmocka_unit_test(the_scale_grows),           cmocka_unit_test(a_bad_batch_leaves_no_trace),
        cmocka_unit_test(casts_do_not_stop_folding), cmocka_unit_test(the_norm_of_many_gradients),
        cmocka_unit_test(rows_are_added_in_place),   cmocka_unit_test(the_cpu_rounds_operands_only),
        cmocka_unit_test(files_in_16_bits),
    };
    return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}
