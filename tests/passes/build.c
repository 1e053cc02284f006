/* build.c - small models made in memory. */
#include "tests/passes/build.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op.h"
#include "runtime/base/random.h"

void model_new(model *m)
{
    memset(m, 0, sizeof *m);
    m->g = ot_graph_new(&m->err);
    assert_non_null(m->g);
}

void model_free(model *m) { ot_graph_free(m->g); }

ot_value *model_input(model *m, const char *name, ot_dtype t, ot_shape s)
{
    ot_value *v = ot_graph_value(m->g, name, OT_INPUT, t, &s);
    ot_graph_input(m->g, v);
    return v;
}

ot_value *model_weight(model *m, const char *name, ot_shape s)
{
    int64_t n = ot_numel(&s);
    float *w = malloc((size_t)n * sizeof *w + 1);
    assert_non_null(w);
    for (int64_t i = 0; i < n; i++) w[i] = (float)(0.3 * ot_normal(7, OT_STREAM_INIT, m->draws++));
    ot_value *v = ot_graph_const(m->g, name, OT_F32, &s, w);
    free(w);
    assert_non_null(v);
    v->source = v->id;
    return v;
}

ot_value *model_ints(model *m, const int64_t *v, int n) { return ot_graph_const(m->g, "ints", OT_I64, &SHAPE(n), v); }

ot_value *model_node(model *m, const char *op, ot_value *const *in, int n_in)
{
    const ot_op *o = ot_find_op("", op);
    assert_non_null(o);
    ot_node *n = ot_graph_node(m->g, o, op, NULL, in, n_in, 1);
    assert_non_null(n);
    return n->out[0];
}

void model_output(model *m, ot_value *v, const char *name)
{
    v->name = name;
    ot_graph_output(m->g, v);
}

/* Writes one integer-list attribute by name. */
static void set_ints(ot_value *v, const char *name, const int64_t *list, int n)
{
    for (const ot_attr *a = v->producer->op->attrs; a && a->name; a++)
        if (!strcmp(a->name, name))
            *(ot_ints *)((char *)(uintptr_t)v->producer->attrs + a->offset) = (ot_ints){ n, list };
}

void model_cnn(model *m, int deep)
{
    static const int64_t k[2] = { 2, 2 }, pads[4] = { 1, 1, 1, 1 };
    model_new(m);
    ot_value *x = model_input(m, "input", OT_F32, SHAPE(-1, 1, 8, 8));
    x = model_node(m, "Conv", OT_IN(x, model_weight(m, "c0.w", SHAPE(8, 1, 3, 3)), model_weight(m, "c0.b", SHAPE(8))));
    set_ints(x, "pads", pads, 4);
    x = model_node(m, "Relu", OT_IN(x));
    for (int i = 0; i < deep; i++) {
        ot_value *y = model_node(
            m, "Conv", OT_IN(x, model_weight(m, "cn.w", SHAPE(8, 8, 3, 3)), model_weight(m, "cn.b", SHAPE(8))));
        set_ints(y, "pads", pads, 4);
        x = model_node(m, "Add", OT_IN(model_node(m, "Relu", OT_IN(y)), x));
    }
    x = model_node(m, "MaxPool", OT_IN(x));
    set_ints(x, "kernel_shape", k, 2);
    set_ints(x, "strides", k, 2);
    x = model_node(m, "Flatten", OT_IN(x));
    x = model_node(m, "Gemm", OT_IN(x, model_weight(m, "f.w", SHAPE(128, 5)), model_weight(m, "f.b", SHAPE(5))));
    model_output(m, x, "output");
    assert_int_equal(m->err.status, OT_OK);
}

ot_config cnn_config(ot_want want, int64_t batch, ot_feed feeds[2])
{
    feeds[0] = (ot_feed){ .name = "input", .dtype = OT_F32, .shape = SHAPE(batch, 1, 8, 8) };
    feeds[1] = (ot_feed){ .name = "target", .dtype = OT_I64, .shape = SHAPE(batch) };
    return (ot_config){ .want = want,
                        .n_feeds = 2,
                        .feeds = feeds,
                        .options.optimizer = { .name = "adamw" },
                        .accumulate = 1,
                        .options.dropout = -1,
                        .threads = 2 };
}

static void feed_random(ot_exec *x, ot_value *v, void *bytes, uint64_t stream)
{
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++) {
        if (ot_is_float(v->dtype)) ot_set_f64(bytes, v->dtype, i, ot_normal(11, stream, (uint64_t)i));
        else ot_set_i64(bytes, v->dtype, i, (int64_t)(i * 7 % 5));
    }
    ot_exec_feed(x, v, bytes);
}

double run_steps(const model *m, const ot_config *c, int steps, void **bytes, size_t *n)
{
    ot_error e = { 0 };
    ot_plan *p;
    ot_exec *x;
    if (ot_plan_new(m->g, c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
    assert_int_equal(ot_exec_new(p, NULL, &x, &e), OT_OK);
    int n_in = p->graph->n_inputs;
    void **fed = calloc((size_t)n_in, sizeof *fed);
    assert_non_null(fed);
    for (int i = 0; i < n_in; i++) {
        ot_value *v = p->graph->inputs[i];
        fed[i] = calloc(1, ot_bytes(&v->shape, v->dtype) + 8);
        feed_random(x, v, fed[i], (uint64_t)i);
    }
    double knob[3] = { 1e-3, 0.9, 1 };
    if (p->knobs.lr) ot_exec_feed(x, p->knobs.lr, &knob[0]);
    if (p->knobs.momentum) ot_exec_feed(x, p->knobs.momentum, &knob[1]);
    if (p->knobs.t) ot_exec_feed(x, p->knobs.t, &knob[2]);
    for (int s = 0; s < steps; s++) {
        knob[2] = s + 1;
        for (int k = 0; k < c->accumulate; k++) assert_int_equal(ot_exec_batch(x, &e), OT_OK);
        assert_int_equal(ot_exec_update(x, &e), OT_OK);
    }
    double loss = ot_get_f64(ot_exec_bytes(x, p->loss), p->loss->dtype, 0);
    *n = (size_t)p->state_bytes;
    *bytes = malloc(*n + 1);
    assert_non_null(*bytes);
    memset(*bytes, 0, *n);
    for (int i = 0; i < p->n_weights; i++) {
        const ot_value *w = p->weights[i];
        memcpy((char *)*bytes + w->offset, ot_exec_bytes(x, w), ot_bytes(&w->shape, w->dtype));
    }
    for (int i = 0; i < n_in; i++) free(fed[i]);
    free(fed);
    ot_exec_free(x);
    ot_plan_free(p);
    return loss;
}

int model_gradients(model *m, double *all, bool (*counts)(const ot_node *n), int *found)
{
    static float data[2][4096];
    const ot_value *in = m->g->inputs[0];
    ot_feed feeds[2] = { { .name = "input", .dtype = OT_F32, .shape = in->shape },
                         { .name = "target_output", .dtype = OT_F32, .shape = in->shape } };
    ot_spec loss = { .output = "output", .name = "mse" };
    ot_config c = { .want = OT_WANT_GRAD,
                    .n_feeds = 2,
                    .feeds = feeds,
                    .options.n_losses = 1,
                    .options.losses = &loss,
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = 1 };
    ot_plan *p;
    ot_exec *x;
    int n = 0;
    for (int i = 0; i < OT_LEN(data[0]); i++) {
        data[0][i] = sinf((float)i * 1.7f) * 2 + 0.5f;
        data[1][i] = cosf((float)i * 0.9f);
    }
    if (ot_plan_new(m->g, &c, NULL, &p, &m->err) != OT_OK) return -1;
    if (ot_exec_new(p, NULL, &x, &m->err) != OT_OK) {
        ot_plan_free(p);
        return -1;
    }
    for (int i = 0; i < p->graph->n_inputs; i++)
        ot_exec_feed(x, p->graph->inputs[i], data[strcmp(p->graph->inputs[i]->name, "input") != 0]);
    ot_exec_feed(x, p->targets[0], data[1]);
    assert_int_equal(ot_exec_batch(x, &m->err), OT_OK);
    *found = 0;
    for (int i = 0; i < p->n_batch_steps; i++) *found += counts(p->batch_steps[i].node);
    all[n++] = ot_get_f64(ot_exec_bytes(x, p->loss), p->loss->dtype, 0);
    for (int i = 0; i < p->n_weights; i++) {
        const ot_value *g = p->weights[i]->grad;
        for (int64_t k = 0; k < ot_numel(&g->shape); k++) all[n++] = ot_get_f64(ot_exec_bytes(x, g), g->dtype, k);
    }
    ot_exec_free(x);
    ot_plan_free(p);
    return n;
}
