/* predictions.c - steps that a prediction does not have: what follows a convolution and depends on weights only, and products that
 * another step computes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernels/dot.h"
#include "ops/kernels/map.h"
#include "tests/passes/build.h"

enum { CHANNELS = 6 };

/* How what follows the convolution is written: s a scale, t a shift per channel, n a BatchNormalization, r a Relu. */
static const char *const chains[] = { "", "s", "t", "n", "st", "ts", "tn", "ns", "nn", "stst", "tnr", "sr" };

static ot_value *followed(model *m, ot_value *y, char by)
{
    ot_shape column = SHAPE(CHANNELS, 1, 1), list = SHAPE(CHANNELS);
    if (by == 'r') return model_node(m, "Relu", OT_IN(y));
    if (by != 'n') return model_node(m, by == 's' ? "Mul" : "Add", OT_IN(y, model_weight(m, "by", column)));
    static const float one[CHANNELS] = { 1, 2, 3, 4, 5, 6 };
    ot_value *variance = ot_graph_const(m->g, "var", OT_F32, &list, one);
    ot_value *in[] = { y, model_weight(m, "scale", list), model_weight(m, "shift", list), model_weight(m, "mean", list),
                       variance };
    return model_node(m, "BatchNormalization", in, 5);
}

/* Inputs of the Maps of a plan without the value that they are applied to; of a convolution with a Map in one step, those beyond
 * its three. */
static int operands(const ot_plan *p)
{
    int n = 0;
    for (int t = 0; t < p->n_batch_steps; t++) {
        const ot_node *k = p->batch_steps[t].node;
        if (k->op == &ot_op_Map) n += k->n_in - 1;
        if (!strcmp(k->op->name, "Fused") && k->n_in > 3) n += k->n_in - 3;
    }
    return n;
}

/* Plans a prediction; the outputs of a batch go to y.  Returns `operands`. */
static int predict(const char *chain, bool settled, bool bias, float *y)
{
    model m;
    ot_error e = { 0 };
    ot_plan *p = NULL;
    ot_exec *x = NULL;
    float in[2 * 4 * 8 * 8];
    for (int i = 0; i < OT_LEN(in); i++) in[i] = (float)(i * 37 % 101) / 50 - 1;
    model_new(&m);
    ot_value *input = model_input(&m, "input", OT_F32, SHAPE(2, 4, 8, 8)),
             *w = model_weight(&m, "w", SHAPE(CHANNELS, 4, 3, 3)), *b = model_weight(&m, "b", SHAPE(CHANNELS));
    ot_value *z = model_node(&m, "Conv", (ot_value *[]){ input, w, b }, bias ? 3 : 2);
    for (const char *c = chain; *c; c++) z = followed(&m, z, *c);
    model_output(&m, model_node(&m, "Tanh", OT_IN(z)), "output"); /* outputs themselves keep their scale */
    ot_feed f = { .name = "input", .dtype = OT_F32, .shape = SHAPE(2, 4, 8, 8) };
    ot_config c = { .want = OT_WANT_RUN,
                    .n_feeds = 1,
                    .feeds = &f,
                    .accumulate = 1,
                    .threads = 1,
                    .options.eval_mode = true,
                    .options.dropout = -1,
                    .fixed = settled,
                    .settled = settled };
    if (ot_plan_new(m.g, &c, NULL, &p, &e) || ot_exec_new(p, NULL, &x, &e)) fail_msg("%s: %s", chain, e.text);
    const ot_value *out = p->graph->outputs[0];
    ot_exec_feed(x, p->graph->inputs[0], in);
    if (ot_exec_batch(x, &e) || ot_exec_read(x, out, y, &e)) fail_msg("%s: %s", chain, e.text);
    int n = operands(p);
    ot_exec_free(x);
    ot_plan_free(p);
    model_free(&m);
    return n;
}

static void scales_become_weights(void **state)
{
    (void)state;
    static float kept[2 * CHANNELS * 6 * 6], folded[OT_LEN(kept)];
    for (int i = 0; i < OT_LEN(chains); i++)
        for (int bias = 0; bias < 2; bias++) {
            int was = predict(chains[i], false, bias, kept);
            if (bias && *chains[i] && !was) fail_msg("'%s': no operands of Maps are seen without folding", chains[i]);
            int n = predict(chains[i], true, bias, folded);
            if (n) fail_msg("'%s': %d operands of Maps are left", chains[i], n);
            for (int k = 0; k < OT_LEN(kept); k++)
                if (!(fabsf(kept[k] - folded[k]) <= 1e-5f * (1 + fabsf(kept[k]))))
                    fail_msg("'%s': element %d is %g instead of %g", chains[i], k, (double)folded[k], (double)kept[k]);
        }
}

/* ---- products that are part of another step --------------------------------------------------- */

enum { STEPS = 3, INPUTS = 5, UNITS = 7, MOST_ROWS = 64 };

static ot_value *lstm(model *m, ot_value *x)
{
    ot_value *w = model_weight(m, "w", SHAPE(1, 4 * UNITS, INPUTS)),
             *r = model_weight(m, "r", SHAPE(1, 4 * UNITS, UNITS));
    return model_node(m, "LSTM", OT_IN(x, w, r));
}

static ot_value *layer(model *m, ot_value *x)
{
    ot_value *z = model_node(m, "MatMul", OT_IN(x, model_weight(m, "w", SHAPE(INPUTS, UNITS))));
    return model_node(m, "Elu", OT_IN(z));
}

/* The number of Dot steps of a prediction by one thread, whose output goes to y. */
static int products(ot_value *(*network)(model *, ot_value *), ot_shape shape, bool ref_only, float *y)
{
    static float in[STEPS * MOST_ROWS * INPUTS];
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    ot_exec *x;
    int n = 0;
    for (int i = 0; i < OT_LEN(in); i++) in[i] = (float)(i * 37 % 101) / 50 - 1;
    model_new(&m);
    model_output(&m, network(&m, model_input(&m, "input", OT_F32, shape)), "output");
    ot_feed f = { .name = "input", .dtype = OT_F32, .shape = shape };
    ot_config c = { .want = OT_WANT_RUN,
                    .n_feeds = 1,
                    .feeds = &f,
                    .accumulate = 1,
                    .threads = 1,
                    .options.eval_mode = true,
                    .options.dropout = -1,
                    .ref_only = ref_only,
                    .fixed = true,
                    .settled = true };
    if (ot_plan_new(m.g, &c, NULL, &p, &e) || ot_exec_new(p, NULL, &x, &e)) fail_msg("%s", e.text);
    for (int t = 0; t < p->n_batch_steps; t++) n += p->batch_steps[t].node->op == &ot_op_Dot;
    ot_exec_feed(x, p->graph->inputs[0], in);
    if (ot_exec_batch(x, &e) || ot_exec_read(x, p->graph->outputs[0], y, &e)) fail_msg("%s", e.text);
    ot_exec_free(x);
    ot_plan_free(p);
    model_free(&m);
    return n;
}

/* With many rows for a thread; with few the product stays a step of its own. */
static void products_join_their_readers(void **state)
{
    (void)state;
    static float fast[STEPS * MOST_ROWS * UNITS], plain[OT_LEN(fast)];
    const struct {
        const char *name;
        ot_value *(*network)(model *, ot_value *);
        ot_shape shape;
        int steps;
    } row[] = { { "LSTM of 48 samples", lstm, SHAPE(STEPS, 48, INPUTS), 0 },
                { "LSTM of 8 samples", lstm, SHAPE(STEPS, 8, INPUTS), 1 },
                { "layer of 48 samples", layer, SHAPE(48, INPUTS), 0 },
                { "layer of 8 samples", layer, SHAPE(8, INPUTS), 1 } };
    for (int i = 0; i < OT_LEN(row); i++) {
        memset(fast, 0, sizeof fast);
        memset(plain, 0, sizeof plain);
        int n = products(row[i].network, row[i].shape, false, fast);
        if (n != row[i].steps) fail_msg("%s: %d products are steps, not %d", row[i].name, n, row[i].steps);
        (void)products(row[i].network, row[i].shape, true, plain);
        for (int k = 0; k < OT_LEN(fast); k++)
            if (!(fabsf(fast[k] - plain[k]) <= 1e-5f * (1 + fabsf(plain[k]))))
                fail_msg("%s: element %d is %g instead of %g", row[i].name, k, (double)fast[k], (double)plain[k]);
    }
}

int prediction_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scales_become_weights),
                                        cmocka_unit_test(products_join_their_readers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
