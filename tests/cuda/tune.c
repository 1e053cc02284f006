/* tune.c - the tuner on the emulator: measurements are stored and reused, damaged or truncated files are harmless.
 *
 * The times are the emulator's and mean nothing; the test checks that they are stored, and nothing else is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/kernels/host.h"
#include "ops/kernel.h"
#include "runtime/base/io.h"
#include "tests/passes/build.h"

static char folder[] = "/tmp/ot-tune-XXXXXX";

static const ot_backend *backend;
static ot_device *device;
static char path[4096];

/* Three products of different sizes, one of them twice. */
static void products(model *m)
{
    model_new(m);
    ot_value *x = model_input(m, "input", OT_F32, SHAPE(6, 20));
    ot_value *y = model_node(m, "MatMul", OT_IN(x, model_weight(m, "w1", SHAPE(20, 16))));
    y = model_node(m, "MatMul", OT_IN(y, model_weight(m, "w2", SHAPE(16, 16))));
    y = model_node(m, "MatMul", OT_IN(y, model_weight(m, "w3", SHAPE(16, 16))));
    model_output(m, model_node(m, "MatMul", OT_IN(y, model_weight(m, "w4", SHAPE(16, 12)))), "output");
}

enum { PRODUCTS = 4, DIFFERENT = 3, STEPS = 64 };

/* One convolution. */
static void image(model *m)
{
    model_new(m);
    ot_value *x = model_input(m, "input", OT_F32, SHAPE(2, 8, 7, 6));
    model_output(m, model_node(m, "Conv", OT_IN(x, model_weight(m, "w", SHAPE(8, 8, 3, 3)))), "output");
}

typedef struct result {
    char kernel[STEPS][32], how[STEPS][64], notes[4096];
    double tuned[STEPS];
    int n, dots, timed;
} result;

static ot_status plan_of(void (*build)(model *m), ot_shape shape, ot_device *d, bool tune, result *out, ot_error *err)
{
    model m;
    ot_plan *p = NULL;
    build(&m);
    ot_feed f = { .name = "input", .dtype = OT_F32, .shape = shape };
    ot_config c = {
        .want = OT_WANT_RUN, .n_feeds = 1, .feeds = &f, .threads = 1, .accumulate = 1, .device = d, .tune = tune
    };
    *out = (result){ .n = 0 };
    ot_status s = ot_plan_new(m.g, &c, NULL, &p, err);
    for (int i = 0; s == OT_OK && i < p->n_batch_steps && i < STEPS; i++) {
        const ot_step *k = &p->batch_steps[i];
        snprintf(out->kernel[i], sizeof *out->kernel, "%s", k->kernel->name);
        snprintf(out->how[i], sizeof *out->how, "%s", k->how);
        out->tuned[i] = k->tuned;
        out->dots += !strcmp(k->node->op->name, "Dot");
        out->timed += k->tuned > 0;
        out->n++;
    }
    if (s == OT_OK) snprintf(out->notes, sizeof out->notes, "%s", ot_findings_text(&p->findings, OT_FINDING_NOTE));
    ot_plan_free(p);
    model_free(&m);
    return s;
}

static ot_status plan_on(ot_device *d, bool tune, result *out, ot_error *err)
{
    return plan_of(products, SHAPE(6, 20), d, tune, out, err);
}

static result plan(bool tune)
{
    result r;
    ot_error e = { 0 };
    if (plan_on(device, tune, &r, &e) != OT_OK) fail_msg("%s", e.text);
    assert_int_equal(r.dots, PRODUCTS);
    return r;
}

static void same_choices(const result *a, const result *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_string_equal(a->kernel[i], b->kernel[i]);
        assert_string_equal(a->how[i], b->how[i]);
    }
}

static void expect_note(const result *r, const char *words)
{
    if (!strstr(r->notes, words)) fail_msg("no \"%s\" among the notes:\n%s", words, r->notes);
}

/* ---- the file ------------------------------------------------------------------- */

static char *content(void)
{
    void *bytes;
    size_t n;
    ot_error e = { 0 };
    if (ot_read_file(path, 1 << 20, &bytes, &n, &e) != OT_OK) fail_msg("%s", e.text);
    return bytes;
}

static void put(const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Where line i (from 0) of the text begins. */
static char *line(char *text, int i)
{
    while (i-- && text) text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    assert_non_null(text);
    return text;
}

/* A file in which everything is known. */
static char *tuned(result *r)
{
    unlink(path);
    *r = plan(true);
    return content();
}

/* ---- tests --------------------------------------------------------------------------- */

static void nothing_is_timed_twice(void **state)
{
    result first, second, without;
    (void)state;
    char *before = tuned(&first);
    expect_note(&first, "tuning: 3 operators measured, 0 from the cache");
    assert_int_equal(first.timed, PRODUCTS);
    second = plan(true);
    expect_note(&second, "tuning: 0 operators measured, 3 from the cache");
    same_choices(&first, &second);
    without = plan(false); /* is used without --tune */
    same_choices(&first, &without);
    assert_int_equal(without.timed, PRODUCTS);
    assert_null(strstr(without.notes, "tune"));
    char *after = content();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void without_a_file_the_order_decides(void **state)
{
    (void)state;
    unlink(path);
    result a = plan(false), b = plan(false);
    same_choices(&a, &b);
    assert_int_equal(a.timed, 0);
    assert_int_equal(access(path, F_OK), -1); /* nothing is made */
}

/* The line's choice is taken, whatever the order of the candidates says. */
static void the_file_decides(void **state)
{
    result r;
    char text[8192], *old = tuned(&r);
    (void)state;
    for (int variant = 0; variant < 2; variant++) {
        int n = (int)(line(old, 1) - old), at = n;
        memcpy(text, old, (size_t)n);
        for (int i = 1; i <= DIFFERENT; i++) {
            const char *key = strstr(line(old, i), "us: ");
            at += snprintf(text + at, sizeof text - (size_t)at, "cublaslt %d 1.500 %.*s\n", variant,
                           (int)strcspn(key, "\n"), key);
        }
        put(text, (size_t)at);
        result c = plan(false);
        for (int i = 0; i < c.n; i++) {
            char want[32];
            if (c.tuned[i] == 0) continue;
            snprintf(want, sizeof want, "algorithm %d of", variant + 1);
            assert_string_equal(c.kernel[i], "cublaslt");
            assert_memory_equal(c.how[i], want, strlen(want));
            assert_true(fabs(c.tuned[i] - 1.5e-6) < 1e-12);
        }
        assert_int_equal(c.timed, PRODUCTS);
    }
    free(old);
}

/* A run was stopped after the first node; or its last line is not whole. */
static void a_cut_file_goes_on(void **state)
{
    result r;
    char *old = tuned(&r), *rest;
    (void)state;
    size_t ends[] = { (size_t)(line(old, 1) - old), (size_t)(line(old, 2) - old), (size_t)(line(old, 3) - old),
                      (size_t)(line(old, 3) - old) + 9 };
    int known[] = { 0, 1, 2, 2 };
    for (int i = 0; i < OT_LEN(ends); i++) {
        char words[64];
        put(old, ends[i]);
        result c = plan(true);
        snprintf(words, sizeof words, "tuning: %d operators measured, %d from the cache", DIFFERENT - known[i],
                 known[i]);
        expect_note(&c, words);
        rest = content();
        assert_memory_equal(old, rest, i == 3 ? ends[2] : ends[i]); /* what was known stays as it was */
        line(rest, DIFFERENT + 1);
        free(rest);
    }
    free(old);
}

static void a_damaged_file_is_ignored(void **state)
{
    result r;
    char *good = tuned(&r);
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        char *bad = strdup(good);
        size_t n = strlen(bad);
        if (kind == 0) bad[0] = '#';
        if (kind == 1) *line(bad, 2) = '\n';
        if (kind == 2) strstr(line(bad, 2), " us: ")[1] = 'm';
        if (kind == 3) *line(bad, 3) = 0;
        if (kind == 4) strchr(line(bad, 1), ' ')[1] = '-';
        put(bad, n);
        result c = plan(false);
        expect_note(&c, "is damaged; the file is ignored");
        assert_int_equal(c.timed, 0);
        c = plan(true); /* which makes a whole one */
        expect_note(&c, "tuning: 3 operators measured, 0 from the cache");
        c = plan(false);
        assert_int_equal(c.timed, PRODUCTS);
        free(bad);
    }
    free(good);
}

static void choices_of_another_version_are_timed_again(void **state)
{
    result r;
    char *old = tuned(&r);
    (void)state;
    old[line(old, 1) - old - 2] ^= 1;
    put(old, strlen(old));
    r = plan(false);
    assert_int_equal(r.timed, 0);
    assert_null(strstr(r.notes, "damaged"));
    r = plan(true);
    expect_note(&r, "tuning: 3 operators measured, 0 from the cache");
    free(old);
}

/* A variant that is no more: the order of the candidates decides for that node.  A kernel that is no more: timed again. */
static void choices_that_are_gone(void **state)
{
    result r;
    char text[8192], *old = tuned(&r);
    (void)state;
    const char *names[] = { "cublaslt 99", "gone 0" };
    for (int i = 0; i < OT_LEN(names); i++) {
        const char *key = strstr(line(old, 1), " us: ");
        size_t n = (size_t)(line(old, 1) - old);
        memcpy(text, old, n);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s 1.0%s", names[i], key);
        put(text, n);
        r = plan(false);
        assert_int_equal(r.timed, PRODUCTS - 1);
    }
    r = plan(true);
    expect_note(&r, "tuning: 1 operators measured, 2 from the cache");
    free(old);
}

/* An engine that computes something else, and one that writes behind its result, are measured and not used. */
static void faulty_engines_are_not_used(void **state)
{
    result r;
    ot_error e = { 0 };
    (void)state;
    setenv("ONNXTRAIN_EMULATOR_CUDNN", "faulty", 1);
    for (int i = 0; i < 3; i++) { /* the times are noise */
        unlink(path);
        if (plan_of(image, SHAPE(2, 8, 7, 6), device, true, &r, &e) != OT_OK) fail_msg("%s", e.text);
        expect_note(&r, "tuning: 2 kernels are not used: their results differ");
        for (int k = 0; k < r.n; k++)
            if (strstr(r.how[k], "engine 909") || strstr(r.how[k], "engine 910")) fail_msg("%s is used", r.how[k]);
    }
    unsetenv("ONNXTRAIN_EMULATOR_CUDNN");
}

static void where_nothing_can_be_timed(void **state)
{
    static const char described[] =
        "{\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,\"driverVer\":13000,\"multiProcessorCount\":132,\"totalGlobalMem\":34359738368}";
    ot_device *d;
    result r;
    ot_error e = { 0 };
    (void)state;
    assert_int_equal(plan_on(NULL, true, &r, &e), OT_OK);
    expect_note(&r, "no effect on the CPU");
    assert_int_equal(backend->open(0, described, &d, &e), OT_OK);
    if (plan_on(d, true, &r, &e) != OT_OK) fail_msg("%s", e.text);
    expect_note(&r, "no GPU is available");
    backend->close(d);
}

static bool name_file(ot_device *d)
{
    ot_device_info i;
    backend->info(d, &i);
    return ot_cache_path(i.key, "tune-emulated-GPU", true, path, sizeof path);
}

/* Every call fails once: an error or a plan, never a torn file, and the next run continues. */
static int in_child(int fail)
{
    pid_t child = fork();
    if (child == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", fail);
        setenv("ONNXTRAIN_EMULATOR_FAIL", number, 1);
        ot_device *d;
        result r;
        ot_error e = { 0 };
        if (!(backend = ot_backend_find(&e)) || backend->open(0, NULL, &d, &e) != OT_OK) _exit(2);
        name_file(d);
        unlink(path);
        ot_status s = plan_on(d, true, &r, &e);
        backend->close(d);
        _exit(s == OT_OK ? (strstr(r.notes, "tuning: 3 operators") ? 0 : 1) : e.status == s && *e.text ? 2 : 3);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status)) fail_msg("call %d fails: ended by signal %d", fail, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* Calls of an undisturbed run, when kernels and algorithms are on disk already. */
static int count_calls(void)
{
    char log[256], text[1024];
    int n = 0;
    snprintf(log, sizeof log, "%s/log", folder);
    in_child(0);
    setenv("ONNXTRAIN_EMULATOR_LOG", log, 1);
    assert_int_equal(in_child(0), 0);
    unsetenv("ONNXTRAIN_EMULATOR_LOG");
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    while (fgets(text, sizeof text, f)) n++;
    fclose(f);
    return n;
}

/* Before anything else: the children load the module themselves.  How often a node is run depends on its time, so the
 * last calls of the count may not come; and they repeat, so behind the first node every 13th will do. */
static void no_failing_call_does_harm(void **state)
{
    int calls = count_calls(), codes[3] = { 0 };
    (void)state;
    assert_true(calls > 100);
    for (int fail = 1; fail <= calls; fail += fail < 200 ? 1 : 13) {
        int code = in_child(fail);
        if (code == 3) fail_msg("call %d fails: an error without words", fail);
        codes[code]++;
    }
    assert_true(codes[0] > 0 && codes[2] > 10); /* a candidate fails, and another is taken; or the plan fails */
}

static int open_device(void **state)
{
    ot_error e = { 0 };
    (void)state;
    backend = ot_backend_find(&e);
    if (!backend || backend->open(0, NULL, &device, &e) != OT_OK) {
        printf("%s\n", e.text);
        return -1;
    }
    return name_file(device) ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    backend->close(device);
    return 0;
}

int main(void)
{
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1)) return 1;
    const struct CMUnitTest alone[] = { cmocka_unit_test(no_failing_call_does_harm) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_timed_twice),
        cmocka_unit_test(without_a_file_the_order_decides),
        cmocka_unit_test(the_file_decides),
        cmocka_unit_test(a_cut_file_goes_on),
        cmocka_unit_test(a_damaged_file_is_ignored),
        cmocka_unit_test(choices_of_another_version_are_timed_again),
        cmocka_unit_test(choices_that_are_gone),
        cmocka_unit_test(where_nothing_can_be_timed),
        cmocka_unit_test(faulty_engines_are_not_used),
    };
    int bad = cmocka_run_group_tests(alone, NULL, NULL);
    bad += cmocka_run_group_tests(tests, open_device, close_device);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return bad + (system(command) != 0);
}
