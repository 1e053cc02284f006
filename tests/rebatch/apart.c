/* apart.c - every operator by its rule, and every operator once for each sample: the same loss and the same gradients. */
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "importer/import.h"
#include "runtime/exec/exec.h"

enum { BATCH = 4, MOST = 4 };

typedef struct numbers {
    int64_t nodes;
    double loss;
    int n;
    double **gradient;
    int64_t *elements;
} numbers;

static void fill(void *p, ot_dtype t, int64_t n)
{
    uint64_t s = 7;
    for (int64_t i = 0; i < n; i++) {
        s = s * UINT64_C(6364136223846793005) + 1;
        double u = (double)(s >> 11) * 0x1p-53;
        ot_set_f64(p, t, i, ot_is_float(t) ? 2 * u - 1 : u < 0.5);
    }
}

static void run(const ot_plan *p, const ot_feed *feeds, int n, numbers *out)
{
    ot_error err = { 0 };
    ot_exec *x;
    ot_numbers got;
    void *bytes[MOST];
    assert_int_equal(ot_exec_new(p, NULL, &x, &err), OT_OK);
    for (int i = 0; i < n; i++) {
        bytes[i] = calloc(1, ot_bytes(&feeds[i].shape, feeds[i].dtype) + 1);
        fill(bytes[i], feeds[i].dtype, ot_numel(&feeds[i].shape));
        if (p->fed[i]) ot_exec_feed(x, p->fed[i], bytes[i]);
    }
    uint64_t none = 0;
    if (p->knobs.seed) ot_exec_feed(x, p->knobs.seed, &none);
    if (p->knobs.counter) ot_exec_feed(x, p->knobs.counter, &none);
    assert_int_equal(ot_exec_batch(x, &err), OT_OK);
    assert_int_equal(ot_exec_numbers(x, NULL, &got, &err), OT_OK);
    *out = (numbers){ .nodes = p->n_batch_steps, .loss = got.loss, .n = p->n_weights };
    out->gradient = calloc((size_t)out->n + 1, sizeof *out->gradient);
    out->elements = calloc((size_t)out->n + 1, sizeof *out->elements);
    for (int i = 0; i < out->n; i++) {
        const ot_value *g = p->weights[i]->grad;
        int64_t m = ot_numel(&g->shape);
        void *raw = malloc(ot_bytes(&g->shape, g->dtype) + 1);
        assert_int_equal(ot_exec_read(x, g, raw, &err), OT_OK);
        out->elements[i] = m;
        out->gradient[i] = calloc((size_t)m + 1, sizeof(double));
        for (int64_t k = 0; k < m; k++) out->gradient[i][k] = ot_get_f64(raw, g->dtype, k);
        free(raw);
    }
    for (int i = 0; i < n; i++) free(bytes[i]);
    ot_exec_free(x);
}

static void drop(numbers *x)
{
    for (int i = 0; i < x->n; i++) free(x->gradient[i]);
    free(x->gradient);
    free(x->elements);
}

static numbers measure(const ot_imported *m, bool apart)
{
    const ot_graph *g = m->graph;
    ot_feed feeds[MOST];
    int n = 0;
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        if (v->role != OT_INPUT || v->data || v == g->seed || v == g->counter) continue;
        assert_true(n < MOST - 1);
        feeds[n] = (ot_feed){ .name = v->name, .dtype = v->dtype, .shape = v->shape };
        assert_int_equal(v->shape.dim[0], 1);
        feeds[n++].shape.dim[0] = BATCH;
    }
    feeds[n++] = (ot_feed){ .name = "target", .target = true, .dtype = OT_I64, .shape = { 1, { BATCH } } };
    ot_spec loss = { .name = "cross_entropy" };
    ot_config c = { .want = OT_WANT_GRAD,
                    .n_feeds = n,
                    .feeds = feeds,
                    .options.n_losses = 1,
                    .options.losses = &loss,
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = 1,
                    .options.apart = apart };
    ot_plan *p;
    ot_error err = { 0 };
    if (ot_plan_new(g, &c, NULL, &p, &err) != OT_OK) fail_msg("%s: %s", m->path, err.text);
    numbers out;
    run(p, feeds, n, &out);
    ot_plan_free(p);
    return out;
}

static void rules_change_nothing(void **state)
{
    (void)state;
    glob_t files;
    assert_int_equal(glob(OT_SOURCE_ROOT "/tests/rebatch/cases/*.onnx", 0, NULL, &files), 0);
    assert_true(files.gl_pathc > 30);
    for (size_t f = 0; f < files.gl_pathc; f++) {
        ot_imported *m;
        ot_error err = { 0 };
        assert_int_equal(ot_import(files.gl_pathv[f], &m, &err), OT_OK);
        numbers rules = measure(m, false), apart = measure(m, true);
        assert_true(rules.loss > 0.01);
        if (fabs(rules.loss - apart.loss) > 1e-5)
            fail_msg("%s: loss %.9g, apart %.9g", m->path, rules.loss, apart.loss);
        if (apart.nodes <= rules.nodes)
            fail_msg("%s: %lld nodes, apart %lld", m->path, (long long)rules.nodes, (long long)apart.nodes);
        assert_int_equal(rules.n, apart.n);
        for (int i = 0; i < rules.n; i++)
            for (int64_t k = 0; k < rules.elements[i]; k++)
                if (!(fabs(rules.gradient[i][k] - apart.gradient[i][k]) <= 1e-5))
                    fail_msg("%s: gradient %d [%lld]: %.9g, apart %.9g", m->path, i, (long long)k, rules.gradient[i][k],
                             apart.gradient[i][k]);
        drop(&rules);
        drop(&apart);
        ot_import_free(m);
    }
    globfree(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rules_change_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
