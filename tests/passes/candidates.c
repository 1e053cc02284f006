/* candidates.c - which kernel of a device runs a node: refusals, low-priority ones, and the reported reasons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernel.h"
#include "tests/passes/build.h"

/* ---- a device whose kernels compute nothing ------------------------------------------------ */

static ot_status refuse(const ot_node *n, ot_prep *p)
{
    (void)n;
    p->refused = "refused while it prepared";
    return OT_OK;
}

static ot_status accept(const ot_node *n, ot_prep *p)
{
    (void)n;
    memcpy(p->how, "in its way", sizeof "in its way");
    return OT_OK;
}

static bool cannot(const ot_node *n, const char **why)
{
    (void)n;
    *why = "it cannot";
    return false;
}

static bool slow(const ot_node *n, const char **why)
{
    (void)n;
    *why = "slower here";
    return true;
}

static const ot_kernel unable = { .name = "unable", .can = cannot, .prepare = accept, .any_layout = true };
static const ot_kernel refuses = { .name = "refuses", .prepare = refuse, .any_layout = true };
static const ot_kernel yielding = { .name = "yielding", .yields = slow, .prepare = accept, .any_layout = true };
static const ot_kernel plain = { .name = "plain", .prepare = accept };
static const ot_kernel takes = { .name = "takes", .prepare = accept, .any_layout = true };

static const ot_kernel *of_convolve[8];

static const ot_kernel *const *kernels(const char *op)
{
    static const ot_kernel *const others[] = { &takes, NULL }, *const none[] = { NULL };
    if (!strcmp(op, "Fused")) return none; /* nothing is joined */
    return strcmp(op, "Convolve") != 0 ? others : of_convolve;
}

static ot_status ready(ot_device *d, ot_error *err)
{
    (void)d, (void)err;
    return OT_OK;
}

static void info(ot_device *d, ot_device_info *i)
{
    (void)d;
    *i = (ot_device_info){ .units = 1 };
}

static const ot_backend backend = { .name = "nothing", .kernels = kernels, .ready = ready, .info = info };

/* Plans a small network; s: a step of its second convolution, whose input is channels last. */
static ot_status plan(model *m, ot_plan **p, const ot_step **s, ot_error *err)
{
    static ot_device device;
    ot_feed f[2];
    int seen = 0;
    device.backend = &backend;
    model_cnn(m, 1);
    ot_config c = cnn_config(OT_WANT_RUN, 4, f);
    c.n_feeds = 1;
    c.device = &device;
    *s = NULL;
    OT_TRY(ot_plan_new(m->g, &c, NULL, p, err));
    for (int i = 0; i < (*p)->n_batch_steps; i++)
        if (!strcmp((*p)->batch_steps[i].node->op->name, "Convolve") && seen++ == 1) *s = &(*p)->batch_steps[i];
    assert_non_null(*s);
    return OT_OK;
}

/* ---- what is chosen -------------------------------------------------------------------------- */

static void says(const ot_step *s, int i, const char *kernel, const char *why)
{
    assert_true(i < s->n_refused);
    assert_string_equal(s->refused[i].kernel->name, kernel);
    assert_string_equal(s->refused[i].why, why);
}

static void the_next_candidate_is_asked(void **state)
{
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    const ot_step *s;
    (void)state;
    memcpy(of_convolve, (const ot_kernel *[8]){ &unable, &refuses, &yielding, &plain, &takes }, sizeof of_convolve);
    assert_int_equal(plan(&m, &p, &s, &e), OT_OK);
    assert_string_equal(s->kernel->name, "takes");
    assert_string_equal(s->how, "in its way");
    assert_int_equal(s->n_refused, 4);
    says(s, 0, "unable", "it cannot");
    says(s, 1, "refuses", "refused while it prepared");
    says(s, 2, "yielding", "slower here");
    says(s, 3, "plain", "it supports plain memory layouts only");
    ot_plan_free(p);
    model_free(&m);
}

static void one_that_yields_is_better_than_none(void **state)
{
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    const ot_step *s;
    (void)state;
    memcpy(of_convolve, (const ot_kernel *[8]){ &yielding, &refuses }, sizeof of_convolve);
    assert_int_equal(plan(&m, &p, &s, &e), OT_OK);
    assert_string_equal(s->kernel->name, "yielding");
    says(s, 0, "yielding", "slower here");
    says(s, 1, "refuses", "refused while it prepared");
    ot_plan_free(p);
    model_free(&m);
}

static void no_candidate_is_an_error_with_its_reason(void **state)
{
    model m;
    ot_error e = { 0 };
    ot_plan *p;
    const ot_step *s;
    (void)state;
    memcpy(of_convolve, (const ot_kernel *[8]){ &unable, &refuses }, sizeof of_convolve);
    assert_int_equal(plan(&m, &p, &s, &e), OT_E_MODEL);
    assert_non_null(strstr(e.text, "refused while it prepared"));
    model_free(&m);
}

int candidate_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_candidate_is_asked),
        cmocka_unit_test(one_that_yields_is_better_than_none),
        cmocka_unit_test(no_candidate_is_an_error_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
