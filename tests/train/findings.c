/* findings.c - findings about models whose training would not be as intended: tests/exports. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/findings.h"
#include "runtime/data/data.h"
#include "runtime/train/commands/inspect.h"
#include "tests/train/train.h"

#define EXPORTS OT_SOURCE_ROOT "/tests/exports/"

enum { SAMPLES = 20, MOST = 64 };

typedef struct bed {
    char folder[32], data[64], out[64];
    char said[16384];         /* every message, a line each, warnings marked */
    int progress, evaluating; /* calls */
    bool said_first;          /* there were messages before any progress */
    double loss[MOST];        /* of each step, by the log */
    int steps;
} bed;

static bed b;

static void on_message(void *user, ot_level level, const char *text)
{
    size_t at = strlen(b.said);
    (void)user;
    snprintf(b.said + at, sizeof b.said - at, "%s%s\n", level == OT_WARNING ? "warning: " : "", text);
}

static void on_progress(void *user, const ot_progress *p)
{
    (void)user;
    if (!b.progress++) b.said_first = *b.said != '\0';
    if (p->evaluating) {
        assert_true(p->step >= 0 && p->step <= p->steps && p->steps > 0);
        b.evaluating++;
    }
}

static void on_log(void *user, const char *line, size_t n)
{
    (void)user;
    json_t *e = json_loadb(line, n, 0, NULL);
    if (!strcmp(json_string_value(json_object_get(e, "event")), "step") && b.steps < MOST)
        b.loss[b.steps++] = json_number_value(json_object_get(e, "loss"));
    json_decref(e);
}

static const ot_callbacks callbacks = { .message = on_message, .progress = on_progress, .log = on_log };

static int open_bed(void **state)
{
    (void)state;
    if (open_folder(b.folder)) return 1;
    snprintf(b.data, sizeof b.data, "%s/d.npz", b.folder);
    snprintf(b.out, sizeof b.out, "%s/out.onnx", b.folder);
    return write_digits(b.data, SAMPLES, 4, 1);
}

static int close_bed(void **state)
{
    (void)state;
    return close_folder(b.folder);
}

#define PAIRS(...) ((const char *const[][2]){ __VA_ARGS__, { NULL, NULL } })
#define NONE       ((const char *const[][2]){ { NULL, NULL } })

static ot_options *options(const char *const (*pairs)[2])
{
    ot_options *o = ot_options_new();
    ot_error err = { 0 };
    assert_ok(ot_options_set(o, "device", "cpu", &err), err);
    assert_ok(ot_options_set(o, "threads", "1", &err), err);
    for (; (*pairs)[0]; pairs++) assert_ok(ot_options_set(o, (*pairs)[0], (*pairs)[1], &err), err);
    return o;
}

typedef ot_status describing(const ot_model *m, const ot_options *o, char **text, ot_error *err);

/* What a describing command prints about a model; caller frees. */
static char *described(describing *command, const char *path, const char *const (*pairs)[2], ot_status want,
                       ot_error *err)
{
    ot_model *m = NULL;
    ot_options *o = options(pairs);
    ot_error first = { 0 };
    char *text = NULL;
    assert_ok(ot_model_load(path, &m, &first), first);
    *err = (ot_error){ 0 };
    assert_int_equal(command(m, o, &text, err), want);
    assert_non_null(text);
    ot_options_free(o);
    ot_model_free(m);
    return text;
}

static void says(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' is not said in:\n%s", part, text);
}

static void says_not(const char *text, const char *part)
{
    if (strstr(text, part)) fail_msg("'%s' is said in:\n%s", part, text);
}

static int times(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static void checked(const char *name, const char *const (*pairs)[2], const char *const *parts)
{
    char path[256];
    ot_error err;
    snprintf(path, sizeof path, EXPORTS "%s.onnx", name);
    char *text = described(ot_check_text, path, pairs, OT_OK, &err);
    for (; *parts; parts++) says(text, *parts);
    free(text);
}

#define SAYS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Two updates, and their findings; the trainer's status, in *err. */
static ot_status trained(const char *path, const char *const (*pairs)[2], ot_result *r, ot_error *err)
{
    ot_model *m = NULL;
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    char runs[64];
    ot_options *o = options(pairs);
    snprintf(runs, sizeof runs, "%s/run", b.folder);
    if (!ot_options_get(o, "data")) assert_ok(ot_options_set(o, "data", b.data, &first), first);
    assert_ok(ot_options_set(o, "run-dir", runs, &first), first);
    assert_ok(ot_options_set(o, "batch-size", "10", &first), first);
    if (!ot_options_get(o, "steps") && !ot_options_get(o, "epochs"))
        assert_ok(ot_options_set(o, "steps", "2", &first), first);
    *b.said = '\0';
    b.progress = b.evaluating = b.steps = 0;
    *err = (ot_error){ 0 };
    assert_ok(ot_model_load(path, &m, &first), first);
    ot_status s = ot_trainer_new(m, o, &callbacks, &t, err);
    if (!s) s = ot_trainer_run(t, err);
    if (!s) s = ot_trainer_export(t, b.out, err);
    if (!s && r) ot_trainer_result(t, r);
    ot_trainer_free(t);
    ot_options_free(o);
    ot_model_free(m);
    return s;
}

/* ---- the list ---------------------------------------------------------------------- */

static void findings_count(void **state)
{
    ot_findings f = { .a = ot_arena_new() };
    char name[16];
    (void)state;
    assert_non_null(f.a);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "bn%d", i);
        ot_find(&f, OT_FINDING_WARNING, name, "do that", "norms are %s", "odd");
    }
    ot_find(&f, OT_FINDING_NOTE, NULL, NULL, "a note");
    ot_find(&f, OT_FINDING_WARNING, "x", NULL, "one thing");
    ot_find_lines(&f, OT_FINDING_NOTE, "first\nsecond");
    assert_string_equal(ot_findings_text(&f, OT_FINDING_WARNING),
                        "norms are odd (20: bn0, bn1, bn2, …): do that\none thing (x)");
    assert_string_equal(ot_findings_text(&f, OT_FINDING_NOTE), "a note\nfirst\nsecond");
    assert_string_equal(ot_findings_text(&f, OT_FINDING_ERROR), "");
    ot_findings again = { .a = f.a };
    ot_find_all(&again, &f);
    ot_find_all(&again, &f); /* existing findings are not counted twice */
    assert_string_equal(ot_findings_text(&again, OT_FINDING_WARNING), ot_findings_text(&f, OT_FINDING_WARNING));
    ot_arena_free(f.a);
}

/* ---- norms ------------------------------------------------------------------------- */

static void norms_in_training_mode_are_said(void **state)
{
    ot_error err;
    (void)state;
    checked("norms-training", NONE,
            SAYS("training_mode=1", "(5: /bn1/BatchNormalization, ", "onnxtrain export", "--deploy FILE"));
    assert_ok(trained(EXPORTS "norms-training.onnx", NONE, NULL, &err), err);
    says(b.said, "warning: BatchNormalization has training_mode=1");
    assert_int_equal(times(b.said, "training_mode=1"), 1);
}

static void the_written_file_is_run_as_it_is(void **state)
{
    ot_error err;
    (void)state;
    assert_ok(trained(EXPORTS "norms-training.onnx", NONE, NULL, &err), err);
    says(b.said,
         "warning: the written file gives other outputs than the evaluation: on a batch of 10 output 'output' is ");
    says(b.said, " of 10 samples: BatchNormalization is in training mode in the file; 'onnxtrain export ");
    says(b.said, b.out);
    assert_ok(trained(EXPORTS "norms-training.onnx", PAIRS({ "val", b.data }), NULL, &err), err);
    says(b.said, "warning: the written file gives other outputs than the evaluation");
    static const char *const same[] = { "norms-kept", "norms-shared", "folded-torchscript", "plain-dynamo",
                                        "quantised-dynamic" };
    for (int i = 0; i < OT_LEN(same); i++) {
        char path[256];
        snprintf(path, sizeof path, EXPORTS "%s.onnx", same[i]);
        assert_ok(trained(path, NONE, NULL, &err), err);
        says_not(b.said, "the written file");
    }
}

static void folded_norms_are_said(void **state)
{
    static const char *const folded[] = { "folded-torchscript", "folded-dynamo", "folded-dynamo-biases" },
                             *const whole[] = { "plain-torchscript", "plain-dynamo", "norms-kept", "norms-training",
                                                "norms-shared" };
    char path[256];
    ot_error err;
    (void)state;
    for (int i = 0; i < OT_LEN(folded); i++) {
        checked(folded[i], NONE,
                SAYS("warning: the exporter folded BatchNormalization into convolutions",
                     i == 2 ? "(8: " : "(5: ", "optimize=False"));
        snprintf(path, sizeof path, EXPORTS "%s.onnx", folded[i]);
        char *text = described(ot_inspect_text, path, NONE, OT_OK, &err);
        says(text, "folded BatchNormalization");
        free(text);
        assert_ok(trained(path, NONE, NULL, &err), err);
        assert_int_equal(times(b.said, "folded BatchNormalization"), 1);
    }
    for (int i = 0; i < OT_LEN(whole); i++) {
        snprintf(path, sizeof path, EXPORTS "%s.onnx", whole[i]);
        char *text = described(ot_check_text, path, NONE, OT_OK, &err);
        says_not(text, "folded");
        free(text);
    }
}

/* Five norms with one reason are one line. */
static void frozen_norms_are_one_line(void **state)
{
    ot_error err;
    (void)state;
    char *text = described(ot_check_text, EXPORTS "norms-shared.onnx", NONE, OT_OK, &err);
    says(text, "the exporter stored equal tensors once");
    says(text, "(5: /bn1/BatchNormalization, ");
    says(text, "optimize=False");
    assert_int_equal(times(text, "uses running statistics"), 1);
    free(text);
    text = described(ot_check_text, EXPORTS "norms-training.onnx", PAIRS({ "freeze", "*bn*" }), OT_OK, &err);
    says(text, "its scale and bias are frozen by --freeze (5: ");
    assert_int_equal(times(text, "uses running statistics"), 1);
    free(text);
}

/* ---- what does not train ------------------------------------------------------------ */

static void quantised_weights_are_said(void **state)
{
    ot_error err;
    (void)state;
    checked("quantised-dynamic", NONE,
            SAYS("weights are quantised in the file, as int8: they train as float32",
                 "(9: ", "trainable: 1446 parameters in 18 initializers"));
    checked("quantised-dynamic", PAIRS({ "freeze", "*weight_quantized" }),
            SAYS("warning: quantised weights do not train: they are integers (9: ", "features.0.weight_quantized"));
    checked(
        "quantised-static", NONE,
        SAYS("weights are quantised in the file, as int8: they train as float32 with the straight-through estimator",
             "with the scales of the file (9: ", "trainable: 1446 parameters in 18 initializers"));
    assert_int_equal(trained(EXPORTS "quantised-static.onnx", PAIRS({ "freeze", "*" }), NULL, &err), OT_E_MODEL);
    assert_says(err, "nothing to train: all 18 weights of the model are quantised");
    checked("plain-torchscript", NONE, SAYS("trainable: 1446 parameters"));
}

/* LeNet with one number changed in the first tensor of this many elements. */
static void damaged(int64_t elements, float number, const char *path)
{
    ot_model *m = NULL;
    ot_error err = { 0 };
    ot_tensor w;
    bool found = false;
    assert_ok(ot_model_load(LENET, &m, &err), err);
    for (int i = 0; !found && ot_model_initializer(m, i, &w); i++) {
        int64_t n = 1;
        for (int d = 0; d < w.rank; d++) n *= w.dim[d];
        found = n == elements;
    }
    assert_true(found);
    FILE *f = fopen(LENET, "rb"), *g = fopen(path, "wb");
    assert_true(f && g);
    static char bytes[4 << 20];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    char *at = memmem(bytes, n, w.data, (size_t)elements * sizeof(float));
    assert_non_null(at);
    memcpy(at + 8, &number, sizeof number);
    assert_int_equal(fwrite(bytes, 1, n, g), n);
    fclose(f);
    fclose(g);
    ot_model_free(m);
}

static void numbers_that_are_none_are_said(void **state)
{
    static const float odd[] = { NAN, INFINITY };
    static float x[784];
    char path[64];
    ot_error err;
    (void)state;
    snprintf(path, sizeof path, "%s/odd.onnx", b.folder);
    for (int i = 0; i < OT_LEN(odd); i++) {
        damaged(20 * 25, odd[i], path);
        assert_int_equal(trained(path, NONE, NULL, &err), OT_E_MODEL);
        assert_says(err, "conv1.weight");
        assert_says(err, i ? "an infinity" : "NaN");
        assert_int_equal(b.progress, 0);
        char *text = described(ot_check_text, path, NONE, OT_E_MODEL, &err);
        says(text, "cannot be trained");
        assert_says(err, "weights contain ");
        assert_null(strstr(text, "weights contain "));
        free(text);
        /* Running it is allowed. */
        ot_model *m = NULL;
        ot_tensors out = { 0 };
        ot_error e = { 0 };
        ot_options *o = options(NONE);
        ot_tensor in = { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { 1, 1, 28, 28 }, .data = x };
        assert_ok(ot_model_load(path, &m, &e), e);
        assert_ok(ot_run(m, o, &in, 1, &out, &e), e);
        ot_tensors_free(&out);
        ot_options_free(o);
        ot_model_free(m);
    }
}

static void class_numbers_are_no_output_to_train(void **state)
{
    ot_error err;
    char *text = described(ot_check_text, EXPORTS "argmax.onnx", NONE, OT_E_MODEL, &err);
    (void)state;
    says(text, "cannot be trained");
    assert_says(err, "int64");
    free(text);
    float x[4 * 8] = { 0 };
    int64_t y[4] = { 0, 1, 2, 3 };
    ot_tensor batch[2] = { { .name = "input", .dtype = OT_F32, .rank = 2, .dim = { 4, 8 }, .data = x },
                           { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { 4 }, .data = y } };
    ot_model *m = NULL;
    ot_trainer *t = NULL;
    ot_error e = { 0 };
    ot_options *o = options(NONE);
    assert_ok(ot_model_load(EXPORTS "argmax.onnx", &m, &e), e);
    assert_ok(ot_trainer_new(m, o, NULL, &t, &e), e);
    assert_int_equal(ot_trainer_step(t, batch, 2, NULL, &e), OT_E_MODEL);
    assert_says(e, "output 'label' is int64, produced by ArgMax");
    assert_says(e, "'scores'");
    ot_trainer_free(t);
    ot_options_free(o);
    ot_model_free(m);
}

/* ---- 16 bits ------------------------------------------------------------------------ */

static void half_weights_are_said(void **state)
{
    (void)state;
    checked("half", NONE, SAYS("weights are float16 in the file: they train as float32 copies", "(4: w1, b1, w2, …)"));
}

static void precision_on_the_cpu_is_said(void **state)
{
    static const struct {
        const char *name, *says;
    } cases[] = { { "bf16", "precision bf16: " },
                  { "fp16", "precision fp16: no effect on the CPU, which uses fp32" },
                  { "tf32", "precision tf32: no effect on the CPU, which uses fp32" } };
    ot_error err;
    (void)state;
    for (int i = 0; i < OT_LEN(cases); i++) {
        char *text = described(ot_check_text, LENET, PAIRS({ "precision", cases[i].name }), OT_OK, &err);
        says(text, cases[i].says);
        free(text);
        assert_ok(trained(LENET, PAIRS({ "precision", cases[i].name }, { "steps", "1" }), NULL, &err), err);
        says(b.said, cases[i].says);
        assert_true(b.said_first);
    }
    char *text = described(ot_check_text, LENET, NONE, OT_OK, &err);
    says_not(text, "precision ");
    free(text);
}

/* ---- screen -------------------------------------------------------------------------- */

static void evaluation_reports_its_progress(void **state)
{
    ot_error err;
    (void)state;
    assert_ok(trained(LENET, PAIRS({ "val", b.data }), NULL, &err), err);
    assert_true(b.evaluating >= 2); /* 20 samples in batches of 10 */
    says(b.said, "val: loss ");
    says(b.said, ", accuracy ");
    says(b.said, "20 samples, ");
}

static void the_loss_without_evaluation_is_the_epochs(void **state)
{
    ot_error err;
    ot_result r;
    (void)state;
    assert_ok(trained(LENET, PAIRS({ "epochs", "2" }, { "lr", "0.01" }), &r, &err), err);
    assert_int_equal(b.steps, 4);
    assert_true(fabs(b.loss[3] - b.loss[2]) > 1e-6);
    assert_near(r.loss, (b.loss[2] + b.loss[3]) / 2, 1e-6);
    assert_string_equal(r.split, "train");
    assert_ok(trained(LENET, PAIRS({ "val", b.data }), &r, &err), err);
    assert_string_equal(r.split, "val");
}

/* ---- without data -------------------------------------------------------------------- */

static void a_plan_without_data_is_a_trainings(void **state)
{
    ot_error err;
    (void)state;
    char *text = described(ot_plan_text, LENET, NONE, OT_OK, &err);
    says(text, "batch size 32:");
    says(text, "loss cross_entropy on output 'output' and batch size 32 are assumed");
    says(text, "CrossEntropy");
    free(text);
}

static void inspect_knows_the_shapes(void **state)
{
    ot_error err;
    (void)state;
    char *text = described(ot_inspect_text, EXPORTS "norms-training.onnx", NONE, OT_OK, &err);
    says(text, "[N,10]");
    says_not(text, "[2,10]");
    free(text);
    text = described(ot_inspect_text, EXPORTS "norms-kept.onnx", PAIRS({ "graph", "true" }), OT_OK, &err);
    says(text, "float32[?,4,14,14]");
    says_not(text, "undefined");
    free(text);
}

static void new_says_what_it_made(void **state)
{
    ot_error err = { 0 };
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "%s/new.onnx", b.folder);
    ot_options *o = options(PAIRS({ "input", "8x1x1" }, { "hidden", "64,64" }, { "o", path }));
    *b.said = '\0';
    assert_ok(ot_new_file("mlp", o, &callbacks, &err), err);
    says(b.said, "input [N,8] -> output [N,10]; 5386 parameters");
    says_not(b.said, "784");
    ot_options_free(o);
    o = options(PAIRS({ "classes", "128" }, { "layers", "2" }, { "input", "64" }, { "scale", "0.125" }, { "o", path }));
    *b.said = '\0';
    assert_ok(ot_new_file("gpt2", o, &callbacks, &err), err);
    says(b.said, "-> output [N,64,128]; 421376 parameters");
    says_not(b.said, "124M");
    ot_options_free(o);
}

int test_findings(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_count),
        cmocka_unit_test(norms_in_training_mode_are_said),
        cmocka_unit_test(the_written_file_is_run_as_it_is),
        cmocka_unit_test(folded_norms_are_said),
        cmocka_unit_test(frozen_norms_are_one_line),
        cmocka_unit_test(quantised_weights_are_said),
        cmocka_unit_test(numbers_that_are_none_are_said),
        cmocka_unit_test(class_numbers_are_no_output_to_train),
        cmocka_unit_test(half_weights_are_said),
        cmocka_unit_test(precision_on_the_cpu_is_said),
        cmocka_unit_test(evaluation_reports_its_progress),
        cmocka_unit_test(the_loss_without_evaluation_is_the_epochs),
        cmocka_unit_test(a_plan_without_data_is_a_trainings),
        cmocka_unit_test(inspect_knows_the_shapes),
        cmocka_unit_test(new_says_what_it_made),
    };
    return cmocka_run_group_tests_name("findings", tests, open_bed, close_bed);
}
