/* decay.c - --no-decay biases keeps the bias of every operator that has one, packed or not, and no weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op.h"
#include "tests/passes/build.h"

enum { INPUTS = 4, BYTES = 1024 };

/* Inputs by number; rank 0: missing.  Input 0, and of DeformConv the offsets, are fed; the others are weights, `bias` the bias. */
typedef struct biased {
    const char *op;
    ot_shape in[INPUTS], y;
    int bias, fed;
} biased;

#define DIMS(...)                                                               \
    {                                                                           \
        (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } \
    }

static const biased rows[] = {
    { "Conv", { DIMS(2, 2, 4), DIMS(3, 2, 2), DIMS(3) }, DIMS(2, 3, 3), 2, 0 },
    { "ConvTranspose", { DIMS(2, 2, 4), DIMS(2, 3, 2), DIMS(3) }, DIMS(2, 3, 5), 2, 0 },
    { "CausalConvWithState", { DIMS(2, 2, 4), DIMS(2, 1, 3), DIMS(2) }, DIMS(2, 2, 4), 2, 0 },
    { "DeformConv", { DIMS(1, 2, 3, 3), DIMS(2, 2, 2, 2), DIMS(1, 8, 2, 2), DIMS(2) }, DIMS(1, 2, 2, 2), 3, 2 },
    { "Gemm", { DIMS(2, 3), DIMS(3, 4), DIMS(4) }, DIMS(2, 4), 2, 0 },
    { "LSTM", { DIMS(3, 2, 2), DIMS(1, 8, 2), DIMS(1, 8, 2), DIMS(1, 16) }, DIMS(3, 1, 2, 2), 3, 0 },
    { "GRU", { DIMS(3, 2, 2), DIMS(1, 6, 2), DIMS(1, 6, 2), DIMS(1, 12) }, DIMS(3, 1, 2, 2), 3, 0 },
    { "RNN", { DIMS(3, 2, 2), DIMS(1, 2, 2), DIMS(1, 2, 2), DIMS(1, 4) }, DIMS(3, 1, 2, 2), 3, 0 },
};

/* The weights of row r after one update of SGD, by input. */
static void update(const biased *r, double decay, char after[INPUTS][BYTES])
{
    static const char *const name[INPUTS] = { "in0", "in1", "in2", "in3" }, *const kept = "biases";
    ot_param param = { .key = "weight_decay", .text = "", .num = decay };
    ot_value *in[INPUTS] = { 0 };
    ot_feed f[3] = { 0 };
    float zeros[64] = { 0 };
    double lr = 0.1;
    ot_error e = { 0 };
    ot_config c = {
        .want = OT_WANT_TRAIN, .feeds = f, .options.n_no_decay = 1, .options.no_decay = &kept, .accumulate = 1
    };
    int n = 0;
    model m;
    ot_plan *p;
    ot_exec *x;
    model_new(&m);
    for (; n < INPUTS && r->in[n].rank; n++) {
        bool fed = n == 0 || n == r->fed;
        in[n] = fed ? model_input(&m, name[n], OT_F32, r->in[n]) : model_weight(&m, name[n], r->in[n]);
        if (fed) f[c.n_feeds++] = (ot_feed){ .name = name[n], .dtype = OT_F32, .shape = r->in[n] };
    }
    f[c.n_feeds++] = (ot_feed){ .name = "target", .target = true, .dtype = OT_F32, .shape = r->y };
    model_output(&m, model_node(&m, r->op, in, n), "output");
    ot_spec loss = { .name = "mse" };
    c.options.losses = &loss;
    c.options.n_losses = 1;
    c.options.dropout = -1;
    c.threads = 1;
    c.options.optimizer = (ot_spec){ .name = "sgd", .n = 1, .param = &param };
    if (ot_plan_new(m.g, &c, NULL, &p, &e) != OT_OK || ot_exec_new(p, NULL, &x, &e) != OT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < c.n_feeds; i++) ot_exec_feed(x, p->fed[i], zeros);
    ot_exec_feed(x, p->knobs.lr, &lr);
    assert_int_equal(ot_exec_batch(x, &e), OT_OK);
    assert_int_equal(ot_exec_update(x, &e), OT_OK);
    memset(after, 0, (size_t)INPUTS * BYTES);
    for (int k = 0; k < p->n_weights; k++)
        assert_int_equal(ot_exec_read(x, p->weights[k], after[p->weights[k]->name[2] - '0'], &e), OT_OK);
    assert_int_equal(p->n_weights, n - (r->fed ? 2 : 1));
    ot_exec_free(x);
    ot_plan_free(p);
    model_free(&m);
}

static void biases_do_not_decay(void **state)
{
    (void)state;
    static char plain[INPUTS][BYTES], decayed[INPUTS][BYTES];
    for (int i = 0; i < OT_LEN(rows); i++) {
        update(&rows[i], 0, plain);
        update(&rows[i], 0.5, decayed);
        for (int k = 1; k < INPUTS && rows[i].in[k].rank; k++) {
            if (k == rows[i].fed) continue;
            bool same = !memcmp(plain[k], decayed[k], BYTES);
            if (same != (k == rows[i].bias)) fail_msg("%s: input %d %s", rows[i].op, k, same ? "is kept" : "decays");
        }
    }
}

int decay_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(biases_do_not_decay) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
