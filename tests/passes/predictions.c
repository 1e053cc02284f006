/* predictions.c - what follows a convolution and depends on weights only is no step of a prediction. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    ot_plan *p;
    ot_exec *x;
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

int prediction_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scales_become_weights) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
