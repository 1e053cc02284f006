/* names.c - names of weights have no effect: every name that the program uses itself, one name for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op.h"
#include "runtime/base/random.h"
#include "runtime/optimizers/optimizers.h"
#include "tests/passes/build.h"

enum { WEIGHTS = 3, UPDATES = 4, BATCH = 5, SHORT = 2, BYTES = 512 };

/* Names of states, from their table, and other names that the program generates. */
static const char *const words[] = {
#define X(kind, text) text,
    OT_STATE_KINDS(X)
#undef X
        "lr",
    "t",
    "seed",
    "counter",
    "samples",
    "index",
};

/* The name of the k-th weight.  CHAIN: each as a state of the one before would be; ALONE: as a state of the
 * training. */
typedef enum scheme { PLAIN, CHAIN, ALONE, ONE, SCHEMES } scheme;

static void names(scheme s, const char *word, char name[WEIGHTS][256])
{
    for (int k = 0; k < WEIGHTS; k++) {
        if (s == PLAIN) snprintf(name[k], 256, "w%d", k);
        if (s == CHAIN) snprintf(name[k], 256, "%.200s/%s", k ? name[k - 1] : "w0", word);
        if (s == ALONE) snprintf(name[k], 256, "onnxtrain.%s", word);
        if (s == ONE) snprintf(name[k], 256, "%s", word);
    }
}

/* x (N,6) -> three products -> classes (N,3). */
static void model_products(model *m, char name[WEIGHTS][256], ot_dtype t)
{
    static const int64_t size[WEIGHTS + 1] = { 6, 5, 4, 3 };
    model_new(m);
    ot_value *x = model_input(m, "input", t, SHAPE(-1, 6));
    for (int k = 0; k < WEIGHTS; k++) {
        ot_value *w = model_weight(m, name[k], SHAPE(size[k], size[k + 1]));
        if (t == OT_F16) {
            void *half = ot_graph_alloc(m->g, ot_bytes(&w->shape, OT_F16));
            assert_non_null(half);
            for (int64_t i = 0; i < ot_numel(&w->shape); i++)
                ot_set_f64(half, OT_F16, i, ot_get_f64(w->data, OT_F32, i));
            w->data = half;
            w->dtype = OT_F16;
        }
        x = model_node(m, "MatMul", OT_IN(x, w));
        if (k + 1 < WEIGHTS) x = model_node(m, "Tanh", OT_IN(x));
    }
    model_output(m, x, "output");
    assert_int_equal(m->err.status, OT_OK);
}

typedef struct variant {
    const char *optimizer, *key;
    double value;
    int accumulate;
    bool skip;
    ot_dtype dtype;
} variant;

static const variant variants[] = {
    { "sgd", NULL, 0, 1, false, OT_F32 },           { "sgd", "momentum", 0.9, 2, false, OT_F32 },
    { "adam", "amsgrad", 1, 1, true, OT_F32 },      { "adamw", NULL, 0, 2, true, OT_F32 },
    { "adagrad", NULL, 0, 1, false, OT_F32 },       { "adadelta", NULL, 0, 1, false, OT_F32 },
    { "rmsprop", "centered", 1, 1, false, OT_F32 }, { "adamax", NULL, 0, 1, false, OT_F32 },
    { "nadam", NULL, 0, 1, false, OT_F32 },         { "radam", NULL, 0, 1, false, OT_F32 },
    { "lion", NULL, 0, 1, false, OT_F32 },          { "lamb", NULL, 0, 1, false, OT_F32 },
    { "lars", NULL, 0, 1, false, OT_F32 },          { "muon", NULL, 0, 1, false, OT_F32 },
    { "adamw", NULL, 0, 1, false, OT_F16 },
};

/* One plan, run over fixed data. */
typedef struct runner {
    ot_plan *p;
    ot_exec *x;
    char input[BYTES], target[BYTES];
} runner;

static void feed(runner *r, const ot_config *c, int64_t batch)
{
    for (int64_t i = 0; i < batch * 6; i++) ot_set_f64(r->input, c->feeds[0].dtype, i, ot_normal(11, 1, (uint64_t)i));
    for (int64_t i = 0; i < batch; i++) ot_set_i64(r->target, OT_I64, i, i % 3);
    for (int i = 0; i < c->n_feeds; i++) {
        assert_non_null(r->p->fed[i]);
        ot_exec_feed(r->x, r->p->fed[i], i ? r->target : r->input);
    }
}

static ot_config config(const variant *v, const ot_param *param, ot_feed f[2], int64_t batch)
{
    f[0] = (ot_feed){ .name = "input", .dtype = v->dtype, .shape = SHAPE(batch, 6) };
    f[1] = (ot_feed){ .name = "target", .dtype = OT_I64, .shape = SHAPE(batch) };
    return (ot_config){ .want = OT_WANT_TRAIN,
                        .n_feeds = 2,
                        .feeds = f,
                        .accumulate = v->accumulate,
                        .options.dropout = -1,
                        .threads = 1,
                        .options.skip_nonfinite = v->skip,
                        .options.optimizer = { .name = v->optimizer, .n = v->key ? 1 : 0, .param = param } };
}

/* Trains by two plans in turn, of a full and of a short batch, and gives the weights afterwards. */
static void train(const variant *v, char name[WEIGHTS][256], char weights[WEIGHTS][BYTES])
{
    static const int64_t size[2] = { BATCH, SHORT };
    ot_param param = { .key = v->key, .text = "", .num = v->value };
    ot_feed f[2][2];
    runner r[2] = { 0 };
    ot_memory *memory;
    ot_error e = { 0 };
    model m;
    model_products(&m, name, v->dtype);
    for (int i = 0; i < 2; i++) {
        ot_config c = config(v, &param, f[i], size[i]);
        if (ot_plan_new(m.g, &c, i ? r[0].p : NULL, &r[i].p, &e) != OT_OK)
            fail_msg("%s, weights '%s': %s", v->optimizer, name[1], e.text);
    }
    const ot_plan *plans[2] = { r[0].p, r[1].p };
    assert_int_equal(ot_memory_new(plans, 2, 0, NULL, &memory, &e), OT_OK);
    double knob[3] = { 1e-2, 0.9, 0 };
    for (int i = 0; i < 2; i++) {
        ot_config c = config(v, &param, f[i], size[i]);
        const ot_step_scalars *k = &r[i].p->knobs;
        assert_int_equal(ot_exec_new(r[i].p, memory, &r[i].x, &e), OT_OK);
        feed(&r[i], &c, size[i]);
        ot_exec_feed(r[i].x, k->lr, &knob[0]);
        ot_exec_feed(r[i].x, k->momentum, &knob[1]);
        if (k->t) ot_exec_feed(r[i].x, k->t, &knob[2]);
    }
    for (int u = 0; u < UPDATES; u++) {
        knob[2] = u + 1;
        for (int k = 0; k < v->accumulate; k++) assert_int_equal(ot_exec_batch(r[u % 2].x, &e), OT_OK);
        assert_int_equal(ot_exec_update(r[u % 2].x, &e), OT_OK);
    }
    assert_int_equal(r[0].p->n_weights, WEIGHTS);
    for (int k = 0; k < WEIGHTS; k++) {
        memset(weights[k], 0, BYTES);
        assert_int_equal(ot_exec_read(r[0].x, r[0].p->weights[k], weights[k], &e), OT_OK);
    }
    for (int i = 0; i < 2; i++) ot_exec_free(r[i].x);
    ot_memory_free(memory);
    for (int i = 1; i >= 0; i--) ot_plan_free(r[i].p);
    model_free(&m);
}

static void names_change_nothing(void **state)
{
    (void)state;
    static char plain[WEIGHTS][BYTES], got[WEIGHTS][BYTES], name[WEIGHTS][256];
    for (const ot_entry *const *e = ot_optimizers.entries; *e; e++) {
        int found = 0;
        for (int i = 0; i < OT_LEN(variants); i++) found += !strcmp(variants[i].optimizer, (*e)->name);
        if (!found) fail_msg("optimizer %s is in no variant", (*e)->name);
    }
    for (int i = 0; i < OT_LEN(variants); i++) {
        names(PLAIN, "", name);
        train(&variants[i], name, plain);
        for (int w = 0; w < OT_LEN(words); w++)
            for (int s = PLAIN + 1; s < SCHEMES; s++) {
                names((scheme)s, words[w], name);
                train(&variants[i], name, got);
                if (memcmp(got, plain, sizeof plain))
                    fail_msg("%s (%d): weights called '%s', '%s' train differently", variants[i].optimizer, i, name[0],
                             name[1]);
            }
    }
}

/* The f32 master is that of its weight, not of one whose name begins the same. */
static void a_state_says_whose_it_is(void **state)
{
    (void)state;
    char name[WEIGHTS][256];
    variant v = { "adamw", NULL, 0, 2, false, OT_F16 };
    ot_feed f[2];
    ot_error e = { 0 };
    ot_plan *p;
    model m;
    int masters = 0, sums = 0;
    names(ONE, "w", name);
    model_products(&m, name, OT_F16);
    ot_config c = config(&v, NULL, f, BATCH);
    assert_int_equal(ot_plan_new(m.g, &c, NULL, &p, &e), OT_OK);
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *s = p->states[i];
        assert_true((s->kind == OT_STATE_OF_FILE) == (s->source >= 0));
        if (s->of) assert_true(s->of->role == OT_WEIGHT && ot_shape_eq(&s->of->shape, &s->shape));
        masters += s->kind == OT_STATE_MASTER;
        sums += s->kind == OT_STATE_ACCUMULATED;
    }
    assert_true(masters == WEIGHTS && sums == WEIGHTS);
    ot_plan_free(p);
    model_free(&m);
}

static void expect_broken(model *m, const char *says)
{
    ot_error e = { 0 };
    assert_int_equal(ot_graph_verify(m->g, false, &e), OT_E_INTERNAL);
    if (!strstr(e.text, "(I5)") || !strstr(e.text, says))
        fail_msg("'%s' does not say (invariant I5) and '%s'", e.text, says);
}

/* The invariant is checked: two states that are one, one that is nothing, one that belongs to no weight. */
static void broken_identities_are_found(void **state)
{
    (void)state;
    for (int k = 0; k < 5; k++) {
        model m;
        model_new(&m);
        ot_error e = { 0 };
        ot_value *w = model_weight(&m, "w", SHAPE(2, 2)), *other = model_weight(&m, "w", SHAPE(2, 2));
        w->role = other->role = OT_WEIGHT;
        ot_value *s = ot_graph_state(m.g, OT_STATE_M, w, OT_F32, &w->shape, 0);
        assert_non_null(ot_graph_state(m.g, OT_STATE_M, other, OT_F32, &w->shape, 1));
        assert_int_equal(ot_graph_verify(m.g, false, &e), OT_OK);
        if (k == 0) s->of = other, expect_broken(&m, "are the same state");
        if (k == 1) other->source = w->source, expect_broken(&m, "are the same state");
        if (k == 2) s->of = NULL, s->kind = OT_STATE_OF_FILE, expect_broken(&m, "is neither from the file");
        if (k == 3) w->role = OT_CONST, expect_broken(&m, "is not a weight of the file");
        if (k == 4) s->role = OT_CONST, expect_broken(&m, "but is not a state");
        model_free(&m);
    }
}

/* A copy of a graph has states of its own weights. */
static void copies_keep_identities(void **state)
{
    (void)state;
    ot_error e = { 0 };
    model m;
    model_new(&m);
    ot_value *w = model_weight(&m, "w", SHAPE(2, 2));
    w->role = OT_WEIGHT;
    assert_non_null(ot_graph_state(m.g, OT_STATE_V, w, OT_F32, &w->shape, 0.5));
    ot_graph *g = ot_graph_clone(m.g, &e);
    assert_non_null(g);
    assert_true(g->values[1]->of == g->values[0] && g->values[1]->kind == OT_STATE_V);
    assert_string_equal(g->values[1]->name, "w/v");
    assert_true(ot_get_f64(g->values[1]->data, OT_F32, 3) == 0.5);
    ot_graph_free(g);
    model_free(&m);
}

/* An input may be called as a target is: its array is not taken for one. */
static void an_input_called_target(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        ot_error e = { 0 };
        ot_plan *p = NULL;
        model m;
        model_new(&m);
        ot_value *x = model_input(&m, "target", OT_F32, SHAPE(-1, 3));
        model_output(&m, model_node(&m, "MatMul", OT_IN(x, model_weight(&m, "w", SHAPE(3, 3)))), "output");
        ot_feed f[2] = { { .name = "target", .dtype = OT_F32, .shape = SHAPE(4, 3) },
                         { .name = "target", .target = true, .dtype = OT_F32, .shape = SHAPE(4, 3) } };
        ot_spec mse = { .name = "mse" };
        ot_config c = { .want = OT_WANT_GRAD,
                        .n_feeds = 1 + given,
                        .feeds = f,
                        .options.n_losses = 1,
                        .options.losses = &mse,
                        .accumulate = 1,
                        .options.dropout = -1,
                        .threads = 1 };
        ot_status s = ot_plan_new(m.g, &c, NULL, &p, &e);
        assert_int_equal(s, given ? OT_OK : OT_E_DATA);
        if (given) assert_true(p->fed[0] != p->fed[1] && p->fed[1] == p->targets[0]);
        ot_plan_free(p);
        model_free(&m);
    }
}

int name_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_change_nothing),        cmocka_unit_test(a_state_says_whose_it_is),
        cmocka_unit_test(broken_identities_are_found), cmocka_unit_test(copies_keep_identities),
        cmocka_unit_test(an_input_called_target),
    };
    return cmocka_run_group_tests_name("passes.names", tests, NULL, NULL);
}
