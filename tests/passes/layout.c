/* layout.c - weights in the layout that a device's convolutions prefer: same results, same bytes in and out.
 *
 * The device is the CPU with a flag: its memory is the program's, its kernels are the CPU's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernel.h"
#include "runtime/base/random.h"
#include "tests/passes/build.h"

/* ---- the device ------------------------------------------------------------------ */

static ot_status dev_alloc(ot_device *d, int64_t bytes, void **out, ot_error *err)
{
    (void)d;
    *out = aligned_alloc(256, (size_t)(bytes + 511) / 256 * 256);
    return *out ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory");
}

static void dev_free(ot_device *d, void *p)
{
    (void)d;
    free(p);
}

static ot_status dev_copy(ot_device *d, void *to, const void *from, int64_t n, ot_error *err)
{
    (void)d;
    (void)err;
    memmove(to, from, (size_t)n);
    return OT_OK;
}

static ot_status dev_zero(ot_device *d, void *p, int64_t n, ot_error *err)
{
    (void)d;
    (void)err;
    memset(p, 0, (size_t)n);
    return OT_OK;
}

static ot_status dev_nothing(ot_device *d, ot_error *err)
{
    (void)d;
    (void)err;
    return OT_OK;
}

static void dev_info(ot_device *d, ot_device_info *out)
{
    (void)d;
    *out = (ot_device_info){ .name = "fake", .key = "fake", .memory = 1 << 30, .free = 1 << 30, .units = 1 };
}

static const ot_op *op_of(const char *name)
{
    const ot_op *o;
    for (int i = 0; (o = ot_op_at(i)); i++)
        if (!strcmp(o->name, name)) return o;
    return NULL;
}

static ot_layout wants(const ot_node *n, bool tf32)
{
    (void)n;
    (void)tf32;
    return OT_CHANNELS_LAST;
}

static const ot_kernel *const *dev_kernels(const char *op)
{
    static ot_kernel flagged[3];
    static const ot_kernel *list[3][3];
    static const ot_kernel *const cpu[3] = { &ot_cpu_Convolve, &ot_cpu_ConvolveDx, &ot_cpu_ConvolveDw };
    static const char *const names[3] = { "Convolve", "ConvolveDx", "ConvolveDw" };
    for (int i = 0; i < 3; i++) {
        if (strcmp(names[i], op)) continue;
        flagged[i] = *cpu[i];
        flagged[i].wants = wants;
        list[i][0] = &flagged[i];
        list[i][1] = ot_ref_kernel(op_of(op));
        return list[i];
    }
    return ot_kernels(op_of(op), NULL);
}

static void dev_range(ot_device *d, const char *name) { (void)d, (void)name; }

static ot_status dev_event(ot_device *d, void **out, ot_error *err) { return dev_alloc(d, 8, out, err); }

static ot_status dev_record(ot_device *d, void *mark, ot_error *err)
{
    (void)mark;
    return dev_nothing(d, err);
}

static ot_status dev_seconds(ot_device *d, void *from, void *to, double *seconds, ot_error *err)
{
    (void)from, (void)to;
    *seconds = 1;
    return dev_nothing(d, err);
}

static const ot_backend backend = {
    .name = "fake",
    .kernels = dev_kernels,
    .alloc = dev_alloc,
    .free = dev_free,
    .alloc_host = dev_alloc,
    .free_host = dev_free,
    .upload = dev_copy,
    .download = dev_copy,
    .copy = dev_copy,
    .zero = dev_zero,
    .wait = dev_nothing,
    .ready = dev_nothing,
    .info = dev_info,
    .event_new = dev_event,
    .event_record = dev_record,
    .event_seconds = dev_seconds,
    .event_free = dev_free,
    .range = dev_range,
};

static char outbox[OT_OUTBOX] __attribute__((aligned(64))); /* where a device's results come together */

/* ---- training on it ----------------------------------------------------------------- */

enum { STEPS = 4 };

typedef struct result {
    double loss;
    void *bytes[32];
    ot_dtype dtype[32];
    int64_t count[32];
    int n, last; /* states, and how many of them lie channels last */
} result;

static void train(const model *m, ot_config *c, result *r)
{
    ot_error e = { 0 };
    ot_plan *p;
    ot_exec *x;
    void *fed[16];
    double knob[3] = { 1e-3, 0.9, 1 };
    ot_timing timing = { 0 };
    *r = (result){ .n = 0 };
    if (ot_plan_new(m->g, c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
    if (ot_exec_new(p, NULL, &x, &e) != OT_OK) fail_msg("%s", e.text);
    timing.spent = calloc((size_t)(p->n_batch_steps + p->n_update_steps), sizeof *timing.spent);
    assert_non_null(timing.spent);
    assert_int_equal(ot_exec_measure(x, &timing, &e), OT_OK); /* what is measured is submitted, not recorded */
    for (int i = 0; i < p->graph->n_inputs; i++) {
        const ot_value *v = p->graph->inputs[i];
        fed[i] = calloc(1, ot_bytes(&v->shape, v->dtype) + 8);
        assert_non_null(fed[i]);
        for (int64_t k = 0, n = ot_numel(&v->shape); k < n; k++) {
            if (ot_is_float(v->dtype)) ot_set_f64(fed[i], v->dtype, k, ot_normal(11, (uint64_t)i, (uint64_t)k));
            else ot_set_i64(fed[i], v->dtype, k, k * 7 % 5);
        }
        ot_exec_feed(x, v,
                     v == p->knobs.lr         ? (void *)&knob[0]
                     : v == p->knobs.momentum ? (void *)&knob[1]
                     : v == p->knobs.t        ? (void *)&knob[2]
                                              : fed[i]);
    }
    for (int s = 0; s < STEPS; s++, knob[2]++) {
        for (int k = 0; k < c->accumulate; k++) assert_int_equal(ot_exec_batch(x, &e), OT_OK);
        assert_int_equal(ot_exec_update(x, &e), OT_OK);
    }
    uint64_t loss = 0;
    assert_int_equal(ot_exec_read(x, p->loss, &loss, &e), OT_OK);
    r->loss = ot_get_f64(&loss, p->loss->dtype, 0);
    assert_true(p->n_states <= OT_LEN(r->bytes));
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *v = p->states[i];
        r->bytes[r->n] = calloc(1, ot_bytes(&v->shape, v->dtype) + 8);
        r->dtype[r->n] = v->dtype;
        r->count[r->n] = ot_numel(&v->shape);
        assert_int_equal(ot_exec_read(x, v, r->bytes[r->n++], &e), OT_OK);
        r->last += v->layout == OT_CHANNELS_LAST;
    }
    for (int i = 0; i < p->graph->n_inputs; i++) free(fed[i]);
    free(timing.spent);
    ot_exec_free(x);
    ot_plan_free(p);
}

/* Conv 1x3x3 to 8, Conv 8x3x3 to 8 (the one whose layouts differ), adam or muon; batches that add up or not. */
static void same_training_in_both(void **state)
{
    static const struct {
        const char *optimizer;
        int accumulate, last;
        ot_precision precision;
    } cases[] = {
        { "sgd", 1, 1, OT_FP32 },  { "adamw", 1, 3, OT_FP32 },      { "adamw", 2, 4, OT_FP32 },
        { "lamb", 1, 3, OT_FP32 }, { "adamw", 1, 0, OT_PREC_BF16 }, /* no kernel of 16 bits here takes any layout */
    };
    (void)state;
    for (int i = 0; i < OT_LEN(cases); i++) {
        model m;
        ot_feed f[2];
        ot_device device = { .backend = &backend, .fault = outbox };
        result r[2];
        model_cnn(&m, 1);
        ot_config c = cnn_config(OT_WANT_TRAIN, 6, f);
        c.options.optimizer.name = cases[i].optimizer;
        c.accumulate = cases[i].accumulate;
        c.options.precision = cases[i].precision;
        c.ref_only = cases[i].precision != OT_FP32; /* else the CPU computes in f32 */
        train(&m, &c, &r[0]);
        c.ref_only = false;
        c.device = &device;
        train(&m, &c, &r[1]);
        assert_int_equal(r[0].last, 0);
        if (r[1].last != cases[i].last)
            fail_msg("%s, %d: %d states lie channels last, not %d", cases[i].optimizer, i, r[1].last, cases[i].last);
        assert_true(r[0].n == r[1].n && fabs(r[0].loss - r[1].loss) < 1e-5 * r[0].loss);
        for (int k = 0; k < r[0].n; k++)
            for (int64_t j = 0; j < r[0].count[k]; j++) {
                double a = ot_get_f64(r[0].bytes[k], r[0].dtype[k], j), b = ot_get_f64(r[1].bytes[k], r[1].dtype[k], j);
                if (!(fabs(a - b) < 1e-3 * (0.01 + fabs(a))))
                    fail_msg("%s, case %d, state %d: element %lld is %g, not %g", cases[i].optimizer, i, k,
                             (long long)j, b, a);
            }
        for (int k = 0; k < 2; k++)
            for (int j = 0; j < r[k].n; j++) free(r[k].bytes[j]);
        model_free(&m);
    }
}

/* An evaluation reads the weights where and as the training laid them; gradients to be looked at are plain. */
static void plans_agree(void **state)
{
    model m;
    ot_feed f[2], g[2];
    ot_error e = { 0 };
    ot_device device = { .backend = &backend, .fault = outbox };
    ot_plan *a, *b, *alone;
    int last = 0;
    (void)state;
    model_cnn(&m, 1);
    ot_config c = cnn_config(OT_WANT_TRAIN, 6, f), d = cnn_config(OT_WANT_EVAL, 2, g);
    c.device = d.device = &device;
    assert_int_equal(ot_plan_new(m.g, &c, NULL, &a, &e), OT_OK);
    d.ref_only = true; /* kernels that take plain weights alone */
    assert_int_equal(ot_plan_new(m.g, &d, a, &b, &e), OT_OK);
    for (int i = 0; i < b->n_states; i++) {
        const ot_value *there = ot_same_state(a, b->states[i]);
        assert_true(there && there->layout == b->states[i]->layout && there->offset == b->states[i]->offset);
        last += there->layout == OT_CHANNELS_LAST;
    }
    assert_int_equal(last, 1);
    for (const ot_node *n = b->graph->first; n; n = n->next)
        if (n->op == &ot_op_Convolve) assert_int_equal(n->in[1]->layout, OT_PLAIN);
    ot_plan_free(b);
    ot_plan_free(a);
    c = cnn_config(OT_WANT_GRAD, 6, f);
    c.device = &device;
    assert_int_equal(ot_plan_new(m.g, &c, NULL, &alone, &e), OT_OK);
    for (int i = 0; i < alone->n_kept; i++) assert_int_equal(alone->kept[i]->layout, OT_PLAIN);
    for (int i = 0; i < alone->n_weights; i++) assert_int_equal(alone->weights[i]->grad->layout, OT_PLAIN);
    ot_plan_free(alone);
    model_free(&m);
}

/* input (N, C, 64) -> Reshape (N, C, 8, 8) -> Tanh -> Conv: on the CPU, the layout in which the convolution reads its picture. */
static ot_layout picture_of(int64_t C)
{
    const int64_t shape[4] = { 0, 0, 8, 8 };
    ot_layout found = OT_PLAIN;
    int seen = 0;
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    model_new(&m);
    ot_value *x = model_input(&m, "input", OT_F32, SHAPE(-1, C, 64));
    x = model_node(&m, "Tanh", OT_IN(model_node(&m, "Reshape", OT_IN(x, model_ints(&m, shape, 4)))));
    model_output(&m, model_node(&m, "Conv", OT_IN(x, model_weight(&m, "w", SHAPE(16, C, 3, 3)))), "output");
    ot_feed f[] = { { .name = "input", .dtype = OT_F32, .shape = SHAPE(2, C, 64) },
                    { .name = "target", .dtype = OT_F32, .shape = SHAPE(2, 16, 6, 6) } };
    ot_config c = { .want = OT_WANT_TRAIN,
                    .n_feeds = 2,
                    .feeds = f,
                    .options = { .optimizer = { .name = "sgd" }, .dropout = -1 },
                    .accumulate = 1,
                    .threads = 2 };
    if (ot_plan_new(m.g, &c, NULL, &p, &e) != OT_OK) fail_msg("%s", e.text);
    for (const ot_node *n = p->graph->first; n; n = n->next)
        if (n->op == &ot_op_Convolve) found = n->in[0]->layout, seen++;
    assert_int_equal(seen, 1);
    ot_plan_free(p);
    model_free(&m);
    return found;
}

/* What is computed from plain values is written as the convolution reads it best, unless its channels are few. */
static void maps_order_for_convolutions(void **state)
{
    (void)state;
    assert_int_equal(picture_of(16), OT_CHANNELS_LAST);
    assert_int_equal(picture_of(3), OT_PLAIN);
}

int layout_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_training_in_both), cmocka_unit_test(plans_agree),
                                        cmocka_unit_test(maps_order_for_convolutions) };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
