/* main.c - models as ONNX Runtime's quantiser and optimizer write them: compares outputs with ONNX Runtime's, updates
 * with PyTorch's.
 *
 * cases/NAME.onnx and cases/NAME.npz are made by make_*.py, which document the arrays. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/data/data.h"

#define CASES OT_SOURCE_ROOT "/tests/onnxruntime/cases/"

enum { MOST = 16 };

typedef struct example {
    const char *name;
    double
        far; /* by how much an output may be off: of quantised ones a step, where a sum falls on the other side of a half */
    const char *loss; /* NULL: it does not train here */
} example;

static const example quantised[] = {
    { "tensor", 1e-6, "cross_entropy" }, { "channel", 1e-6, "cross_entropy" }, { "unsigned", 0.005, "cross_entropy" },
    { "tokens", 1e-6, "cross_entropy" }, { "aware", 1e-6, "cross_entropy" },   { "blocks", 1e-6, "cross_entropy" },
};

#define CLASSES "cross_entropy:class_axis=-1"

static const example fused[] = {
    { "bert-script", 1e-6, "cross_entropy" },
    { "bert-session", 1e-6, "cross_entropy" },
    { "gpt-script", 1e-6, CLASSES },
    { "gpt-session", 1e-6, CLASSES },
    { "llama-script", 1e-6, CLASSES },
    { "llama-session", 1e-6, CLASSES },
    { "convs-session", 1e-6, "cross_entropy" },
};

static const example single[] = {
    { "attention", 1e-6, "mse" },
    { "attention-causal", 1e-6, "output=mse" },
    { "attention-lengths", 1e-6, "mse" },
    { "attention-sizes", 1e-6, "mse" },
    { "embedding", 1e-6, "output=mse" },
    { "gelus", 1e-6, "mse" },
    { "groups", 1e-6, "output=mse" },
    { "groups-packed", 1e-6, "output=mse" },
    { "groups-window", 1e-6, "output=mse" },
    { "heads", 1e-6, "mse" },
    { "heads-past", 1e-6, "output=mse" },
    { "nbits", 1e-6, "mse" },
    { "products", 1e-6, "mse" },
    { "rotary", 1e-6, "mse" },
    { "skips", 1e-6, "mse" },
};

/* Of quantised ones by one step, where a sum falls on the other side of a half. */
static const example forward[] = {
    { "bert-dynamic", 1e-6, "cross_entropy" },
    { "bert-script-dynamic", 1e-6, "cross_entropy" },
    { "gpt-dynamic", 1e-6, CLASSES },
    { "dynamic", 1e-6, NULL },
    { "table", 1e-6, NULL },
    { "nbits-8", 1e-6, NULL },
    { "nbits-blocks", 1e-6, NULL },
    { "qgemm", 1e-6, NULL },
    { "qlinear", 1.0, NULL },
    { "to-float", 1e-6, NULL },
};

enum { BERT_PARAMETERS = 5075, GPT_PARAMETERS = 7488 }; /* of the modules in networks.py */

typedef struct job {
    const example *e;
    char model[256], data[256], out[64], written[64];
    ot_model *m;
    ot_dataset *d;
    ot_options *o;
} job;

#define check_ok(j, expr)                                                                \
    do {                                                                                 \
        ot_error e_ = { 0 };                                                             \
        if ((expr) != OT_OK) fail_msg("%s: %s", (j)->e->name, e_.text);                  \
    } while (0)

static void set(job *j, const char *name, const char *value) { check_ok(j, ot_options_set(j->o, name, value, &e_)); }

static job begin(const example *x)
{
    job j = { .e = x };
    snprintf(j.model, sizeof j.model, CASES "%s.onnx", x->name);
    snprintf(j.data, sizeof j.data, CASES "%s.npz", x->name);
    snprintf(j.out, sizeof j.out, "/tmp/onnxtrain-ort-%d.npz", (int)getpid());
    snprintf(j.written, sizeof j.written, "/tmp/onnxtrain-ort-%d.onnx", (int)getpid());
    j.o = ot_options_new();
    check_ok(&j, ot_model_load(j.model, &j.m, &e_));
    check_ok(&j, ot_dataset_open(j.data, OT_SPLIT_TRAIN, NULL, &j.d, &e_));
    set(&j, "threads", "2");
    set(&j, "run-dir", "none");
    if (x->loss) set(&j, "loss", x->loss);
    return j;
}

static void end(job *j)
{
    unlink(j->out);
    unlink(j->written);
    ot_options_free(j->o);
    ot_dataset_free(j->d);
    ot_model_free(j->m);
}

static const ot_tensor *array(const ot_dataset *d, const char *prefix, const char *name)
{
    char text[512];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->array[i].t.name, text)) return &d->array[i].t;
    return NULL;
}

static int64_t elements(const ot_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

static void close_to(const job *j, const ot_tensor *is, const ot_tensor *want, double far)
{
    if (!want) fail_msg("%s: nothing is known of '%s'", j->e->name, is->name);
    assert_int_equal(elements(is), elements(want));
    for (int64_t i = 0; i < elements(is); i++) {
        double a = ot_get_f64(is->data, is->dtype, i), b = ot_get_f64(want->data, want->dtype, i);
        if (!(fabs(a - b) <= far * (1 + fabs(b))))
            fail_msg("%s: element %lld of '%s' is %.9g, not %.9g", j->e->name, (long long)i, is->name, a, b);
    }
}

/* Inputs of the model; with `target`, that too. */
static int batch(const job *j, bool target, ot_tensor *in)
{
    ot_tensor t;
    int n = 0;
    for (int i = 0; ot_model_input(j->m, i, &t); i++) {
        const ot_tensor *a = array(j->d, "", t.name);
        if (!a) fail_msg("%s: no array '%s'", j->e->name, t.name);
        in[n++] = *a;
    }
    for (int i = 0; target && i < j->d->n; i++)
        if (!strncmp(j->d->array[i].t.name, "target", 6)) in[n++] = j->d->array[i].t;
    return n;
}

static void runs(const example *x)
{
    job j = begin(x);
    ot_tensor in[MOST];
    ot_tensors out = { 0 };
    int n = batch(&j, false, in);
    check_ok(&j, ot_run(j.m, j.o, in, n, &out, &e_));
    assert_true(out.n > 0);
    for (int i = 0; i < out.n; i++)
        if (out.t[i].name && *out.t[i].name) close_to(&j, &out.t[i], array(j.d, "want_", out.t[i].name), x->far);
    ot_tensors_free(&out);
    end(&j);
}

/* The trained file: every initializer that PyTorch trained too is what it made of it; nothing else has changed. */
static void written_is_right(const job *j)
{
    ot_model *w = NULL;
    ot_tensor is, was;
    int compared = 0, known = 0;
    check_ok(j, ot_model_load(j->written, &w, &e_));
    for (int i = 0; i < j->d->n; i++) known += !strncmp(j->d->array[i].t.name, "end_", 4);
    for (int i = 0; ot_model_initializer(w, i, &is) && ot_model_initializer(j->m, i, &was); i++) {
        const ot_tensor *want = array(j->d, "end_", is.name);
        if (want) close_to(j, &is, want, ot_is_float(is.dtype) ? 1e-5 : 0);
        else if (known) close_to(j, &is, &was, 0);
        compared += want != NULL;
    }
    assert_int_equal(compared, known);
    ot_model_free(w);
}

static void trains(const example *x)
{
    job j = begin(x);
    ot_trainer *t = NULL;
    ot_tensor in[MOST];
    const ot_tensor *losses = array(j.d, "", "losses");
    int n = batch(&j, true, in);
    assert_non_null(losses);
    set(&j, "optimizer", "sgd:lr=0.05");
    check_ok(&j, ot_trainer_new(j.m, j.o, NULL, &t, &e_));
    for (int64_t i = 0; i < elements(losses); i++) {
        double loss, want = ot_get_f64(losses->data, losses->dtype, i);
        check_ok(&j, ot_trainer_step(t, in, n, &loss, &e_));
        if (!(fabs(loss - want) <= 2e-6 * (1 + fabs(want))))
            fail_msg("%s: the loss of update %lld is %.9g, not %.9g", x->name, (long long)i + 1, loss, want);
    }
    check_ok(&j, ot_trainer_export(t, j.written, &e_));
    written_is_right(&j);
    ot_trainer_free(t);
    end(&j);
}

static size_t whole(const char *path, char **bytes)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *bytes = malloc(1 << 20);
    size_t n = fread(*bytes, 1, 1 << 20, f);
    fclose(f);
    return n;
}

static void stays_the_same(const example *x)
{
    job j = begin(x);
    ot_trainer *t = NULL;
    ot_tensor in[MOST];
    char *a, *b;
    int n = batch(&j, true, in);
    set(&j, "optimizer", "sgd:lr=0");
    check_ok(&j, ot_trainer_new(j.m, j.o, NULL, &t, &e_));
    check_ok(&j, ot_trainer_step(t, in, n, NULL, &e_));
    check_ok(&j, ot_trainer_export(t, j.written, &e_));
    size_t n_a = whole(j.model, &a), n_b = whole(j.written, &b);
    if (n_a != n_b || memcmp(a, b, n_a)) fail_msg("%s: a rate of 0 gives another file", x->name);
    free(a);
    free(b);
    ot_trainer_free(t);
    end(&j);
}

static double number(const ot_tensor *t, int64_t i) { return ot_get_f64(t->data, t->dtype, t->rank ? i : 0); }

static double largest(const ot_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < elements(t); i++) most = fmax(most, fabs(number(t, i)));
    return most;
}

static ot_tensor initializer(const ot_model *m, const char *name)
{
    ot_tensor t;
    for (int i = 0; ot_model_initializer(m, i, &t); i++)
        if (!strcmp(t.name, name)) return t;
    fail_msg("no initializer '%s'", name);
    return t;
}

/* Gradients of all initializers that differences were taken of. */
static void has_gradients(const example *x)
{
    job j = begin(x);
    ot_dataset *g = NULL;
    int compared = 0;
    set(&j, "data", j.data);
    set(&j, "o", j.out);
    check_ok(&j, ot_grad_file(j.m, j.o, NULL, &e_));
    check_ok(&j, ot_dataset_open(j.out, OT_SPLIT_TRAIN, NULL, &g, &e_));
    for (int i = 0; i < j.d->n; i++) {
        const ot_tensor *want = &j.d->array[i].t;
        if (strncmp(want->name, "grad_", 5) != 0) continue;
        const ot_tensor *is = array(g, "", want->name + 5);
        if (!is) fail_msg("%s: '%s' has no gradient", x->name, want->name + 5);
        double most = 0;
        for (int64_t k = 0; k < elements(want); k++) most = fmax(most, fabs(ot_get_f64(want->data, want->dtype, k)));
        for (int64_t k = 0; k < elements(want); k++) {
            double a = ot_get_f64(is->data, is->dtype, k), b = ot_get_f64(want->data, want->dtype, k);
            if (!(fabs(a - b) <= 2e-3 * most))
                fail_msg("%s: the gradient of element %lld of '%s' is %g, not %g", x->name, (long long)k, is->name, a,
                         b);
        }
        compared++;
    }
    assert_true(compared > 0);
    ot_dataset_free(g);
    end(&j);
}

#define EACH(list, what) for (size_t i_ = 0; i_ < sizeof list / sizeof *list; i_++) what(&list[i_])

static void fused_networks_run(void **state)
{
    (void)state;
    EACH(fused, runs);
}

static void fused_networks_train_as_before(void **state)
{
    (void)state;
    EACH(fused, trains);
}

static void fused_operators_run(void **state)
{
    (void)state;
    EACH(single, runs);
    EACH(forward, runs);
}

static void fused_operators_have_gradients(void **state)
{
    (void)state;
    EACH(single, has_gradients);
}

/* Everything but constants trains in a transformer that was quantised, or fused and quantised; the last layer's weights move. */
static void quantised_transformers_train(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        job j = begin(&forward[k]);
        ot_trainer *t = NULL;
        ot_tensor in[MOST], w;
        double first, last = 0;
        int n = batch(&j, true, in);
        int64_t trained = 0;
        set(&j, "optimizer", "sgd:lr=0.05");
        check_ok(&j, ot_trainer_new(j.m, j.o, NULL, &t, &e_));
        check_ok(&j, ot_trainer_step(t, in, n, &first, &e_));
        for (int i = 0; i < 4; i++) check_ok(&j, ot_trainer_step(t, in, n, &last, &e_));
        for (int i = 0; ot_trainer_weight_at(t, i, &w); i++) trained += elements(&w);
        assert_int_equal(trained, k == 2 ? GPT_PARAMETERS : BERT_PARAMETERS);
        assert_true(last < (k == 2 ? 0.95 : 0.5) * first);
        check_ok(&j, ot_trainer_export(t, j.written, &e_));
        ot_trainer_free(t);
        end(&j);
        stays_the_same(&forward[k]);
    }
}

/* Bytes of two weights of 4 bits are written as such; what did not train stays. */
static void weights_of_four_bits_are_written(void **state)
{
    static const example x = { "nbits", 0, "mse" };
    (void)state;
    stays_the_same(&x);
    job j = begin(&x);
    ot_trainer *t = NULL;
    ot_model *w = NULL;
    ot_tensor in[MOST];
    double first, last = 0;
    int n = batch(&j, true, in), moved = 0;
    set(&j, "optimizer", "adam:lr=0.02");
    check_ok(&j, ot_trainer_new(j.m, j.o, NULL, &t, &e_));
    check_ok(&j, ot_trainer_step(t, in, n, &first, &e_));
    for (int i = 0; i < 20; i++) check_ok(&j, ot_trainer_step(t, in, n, &last, &e_));
    assert_true(last < 0.8 * first);
    check_ok(&j, ot_trainer_export(t, j.written, &e_));
    check_ok(&j, ot_model_load(j.written, &w, &e_));
    ot_tensor was = initializer(j.m, "w"), is = initializer(w, "w"), s = initializer(j.m, "s"),
              same = initializer(w, "s");
    assert_int_equal(is.dtype, OT_U8);
    for (int64_t i = 0; i < elements(&is); i++) moved += number(&is, i) != number(&was, i);
    assert_true(moved > elements(&is) / 10);
    close_to(&j, &same, &s, 0);
    ot_trainer_free(t);
    ot_model_free(w);
    end(&j);
}

static void quantised_models_run(void **state)
{
    (void)state;
    EACH(quantised, runs);
}

static void quantised_models_train_as_in_pytorch(void **state)
{
    (void)state;
    EACH(quantised, trains);
}

static void a_rate_of_zero_keeps_the_file(void **state)
{
    (void)state;
    EACH(quantised, stays_the_same);
    EACH(fused, stays_the_same);
}

/* ---- scales that follow the weights ------------------------------------------------------- */

/* Weights use their whole range again; the scale of a bias stays that of the input times that of the weight. */
static void scales_are_recomputed(void **state)
{
    (void)state;
    static const example channel = { "channel", 0, "cross_entropy" }, uint8 = { "unsigned", 0, "cross_entropy" };
    const example *both[] = { &channel, &uint8 };
    for (int k = 0; k < 2; k++) {
        job j = begin(both[k]);
        ot_trainer *t = NULL;
        ot_model *w = NULL;
        ot_tensor in[MOST];
        int n = batch(&j, true, in);
        set(&j, "optimizer", "sgd:lr=0.3");
        set(&j, "quantized-scales", "recompute");
        check_ok(&j, ot_trainer_new(j.m, j.o, NULL, &t, &e_));
        for (int i = 0; i < 5; i++) check_ok(&j, ot_trainer_step(t, in, n, NULL, &e_));
        check_ok(&j, ot_trainer_export(t, j.written, &e_));
        check_ok(&j, ot_model_load(j.written, &w, &e_));
        ot_tensor q = initializer(w, "conv1.weight_quantized"), scale = initializer(w, "conv1.weight_scale"),
                  was = initializer(j.m, "conv1.weight_scale");
        ot_tensor b = initializer(w, "conv1.bias_quantized_scale"),
                  b_was = initializer(j.m, "conv1.bias_quantized_scale");
        assert_true(fabs(number(&scale, 0) - number(&was, 0)) > 1e-6);
        for (int64_t i = 0; i < elements(&scale); i++) {
            double ratio = number(&b, i) / number(&b_was, i) / (number(&scale, i) / number(&was, i));
            if (fabs(ratio - 1) > 1e-6) fail_msg("%s: the scale of the bias does not follow", j.e->name);
        }
        if (k == 0) assert_true(largest(&q) == 127);
        else {
            double low = 255, high = 0;
            for (int64_t i = 0; i < elements(&q); i++) low = fmin(low, number(&q, i)), high = fmax(high, number(&q, i));
            assert_true(low == 0 && high == 255);
        }
        ot_trainer_free(t);
        ot_model_free(w);
        end(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantised_models_run),
        cmocka_unit_test(quantised_models_train_as_in_pytorch),
        cmocka_unit_test(a_rate_of_zero_keeps_the_file),
        cmocka_unit_test(scales_are_recomputed),
        cmocka_unit_test(fused_networks_run),
        cmocka_unit_test(fused_networks_train_as_before),
        cmocka_unit_test(fused_operators_run),
        cmocka_unit_test(fused_operators_have_gradients),
        cmocka_unit_test(quantised_transformers_train),
        cmocka_unit_test(weights_of_four_bits_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
