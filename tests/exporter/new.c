/* new.c - new models: every kind imports at every opset, options have an effect or are refused. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/new.h"

static void every_kind_and_opset(void **state)
{
    (void)state;
    for (const ot_entry *const *e = ot_recipes.entries; *e; e++)
        for (int opset = OT_NEW_OPSET_MIN; opset <= OT_NEW_OPSET_MAX; opset++) {
            const ot_entry *kind = *e;
            bool sequences = !strcmp(kind->name, "gpt2") || !strcmp(kind->name, "bert");
            ot_new_options o = { .opset = opset,
                                 .scale = sequences ? 0.0833 : 0.0625,
                                 .layers = sequences ? 2 : 0,
                                 .tokens = sequences ? 16 : 0,
                                 .classes = 7 };
            if (sequences && opset < 20) continue; /* Gelu */
            ot_imported *m = NULL;
            ot_error err = { 0 };
            assert_int_equal(ot_new_model(kind->name, &o, in_folder("m.onnx"), &err), OT_OK);
            if (ot_import(in_folder("m.onnx"), &m, &err) != OT_OK)
                fail_msg("%s at opset %d: %s", kind->name, opset, err.text);
            assert_int_equal(m->opset, opset);
            assert_string_equal(m->producer, "onnxtrain");
            ot_import_free(m);
        }
}

static void same_options_same_bytes(void **state)
{
    (void)state;
    ot_error err = { 0 };
    size_t n[3];
    unsigned char *p[3];
    for (int i = 0; i < 3; i++) {
        ot_new_options o = { .seed = i == 2 };
        assert_int_equal(ot_new_model("lenet", &o, in_folder("m.onnx"), &err), OT_OK);
        p[i] = file_get(in_folder("m.onnx"), &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(p[0], p[1], n[0]);
    assert_int_equal(n[0], n[2]);
    assert_memory_not_equal(p[0], p[2], n[0]); /* another seed */
    for (int i = 0; i < 3; i++) free(p[i]);
}

/* models/ holds what its README says. */
static void models_of_the_tree(void **state)
{
    (void)state;
    static const char *const name[] = { "lenet", "mlp" };
    for (int i = 0; i < OT_LEN(name); i++) {
        char path[512];
        ot_error err = { 0 };
        size_t n;
        snprintf(path, sizeof path, "%s/models/%s.onnx", OT_SOURCE_ROOT, name[i]);
        assert_int_equal(ot_new_model(name[i], NULL, in_folder("m.onnx"), &err), OT_OK);
        unsigned char *p = file_get(path, &n);
        assert_file_is(in_folder("m.onnx"), p, n);
        free(p);
    }
}

static void weights(void **state)
{
    (void)state;
    ot_imported *m;
    ot_error err = { 0 };
    assert_int_equal(ot_new_model("lenet", NULL, in_folder("m.onnx"), &err), OT_OK);
    assert_int_equal(ot_import(in_folder("m.onnx"), &m, &err), OT_OK);
    assert_int_equal(m->n_sources, 8);
    const ot_source *s = &m->sources[source_of(m, "conv2.weight")];
    assert_int_equal(s->shape.dim[0], 50);
    assert_int_equal(s->shape.dim[1], 20);
    const float *w = s->data;
    double bound = 0.0447214, sum = 0, least = 0, most = 0; /* 1 / sqrt(20 * 25) */
    int64_t n = ot_numel(&s->shape);
    for (int64_t i = 0; i < n; i++) {
        sum += w[i];
        least = w[i] < least ? w[i] : least;
        most = w[i] > most ? w[i] : most;
    }
    assert_true(most <= bound && most > 0.99 * bound && least >= -bound && least < -0.99 * bound);
    assert_true(sum / (double)n < 0.001 && sum / (double)n > -0.001);
    ot_import_free(m);
}

static void options_act(void **state)
{
    (void)state;
    ot_imported *m;
    ot_error err = { 0 };
    const int64_t hidden[] = { 7, 6, 5 };
    ot_new_options o = {
        .classes = 3, .channels = 2, .height = 4, .width = 3, .n_hidden = 3, .hidden = hidden, .batch = 8
    };
    assert_int_equal(ot_new_model("mlp", &o, in_folder("m.onnx"), &err), OT_OK);
    assert_int_equal(ot_import(in_folder("m.onnx"), &m, &err), OT_OK);
    assert_int_equal(m->n_sources, 8);
    const ot_shape *first = &m->sources[source_of(m, "fc1.weight")].shape,
                   *last = &m->sources[source_of(m, "fc4.weight")].shape;
    assert_int_equal(first->dim[0], 7);
    assert_int_equal(first->dim[1], 24);
    assert_int_equal(last->dim[0], 3);
    assert_int_equal(last->dim[1], 5);
    ot_import_free(m);
}

static void options_refused(void **state)
{
    (void)state;
    static const int64_t none[] = { 0 };
    static const struct {
        const char *kind;
        ot_new_options o;
        const char *says;
    } row[] = {
        { "alexnot",
          { 0 },
          "did you mean 'alexnet'? There are lenet, mlp, vgg, resnet18, mobilenet, autoencoder, alexnet, resnet50, gpt2, bert" },
        { "gpt2", { .opset = 19 }, "gpt2 needs operators of opset 20, but opset is 19" },
        { "gpt2", { .channels = 3 }, "number of tokens" },
        { "lenet", { .tokens = 3 }, "must be channels, height and width, such as 1x28x28, or 1x1x3 for 3 values" },
        { "lenet", { .layers = 3 }, "not for lenet" },
        { "lenet", { .opset = 6 }, "opset is 6" },
        { "lenet", { .opset = 26 }, "opset is 26" },
        { "lenet", { .classes = -1 }, "classes is -1" },
        { "lenet", { .height = 8, .width = 8 }, "does not fit in 2x2" },
        { "lenet", { .scale = -1 }, "multiplier is -1" },
        { "lenet", { .batch = -2 }, "batch is -2" },
        { "lenet", { .n_hidden = 1, .hidden = none }, "hidden layers can be set for mlp only" },
        { "mlp", { .n_hidden = 1, .hidden = none }, "hidden layer 1 has 0 units" },
        { "mlp", { .height = 65536, .width = 65536 }, "2 GiB" },
        { "autoencoder", { .height = 30 }, "multiples of 4" },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        ot_error err = { 0 };
        assert_int_equal(ot_new_model(row[i].kind, &row[i].o, in_folder("m.onnx"), &err), OT_E_USAGE);
        if (!strstr(err.text, row[i].says)) fail_msg("'%s' does not say '%s'", err.text, row[i].says);
        assert_int_equal(folder_count(), 0);
    }
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

int ot_test_new(void)
{
    const struct CMUnitTest tests[] = {
        ROW(every_kind_and_opset), ROW(same_options_same_bytes), ROW(models_of_the_tree), ROW(weights),
        ROW(options_act),          ROW(options_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
