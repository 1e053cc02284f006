/* schedules.c - compares schedules with their closed forms, written independently. */

#include <math.h>
#include <string.h>

#include "runtime/train/options/schedules.h"
#include "runtime/train/options/specs.h"
#include "tests/train/train.h"

static ot_arena *arena;
static const char *asked[64]; /* names of the schedules that tests have started */
static int n_asked;

static bool was_asked(const char *name)
{
    for (int i = 0; i < n_asked; i++)
        if (!strcmp(asked[i], name)) return true;
    return false;
}

static ot_status start(ot_schedule *s, const char *text, double base, double momentum, int64_t total, int64_t epoch,
                       ot_error *err)
{
    ot_spec *t = ot_arena_alloc(arena, sizeof *t);
    *err = (ot_error){ 0 };
    ot_status r = ot_spec_parse(text, &ot_schedules, NULL, arena, t, err);
    if (!r && n_asked < OT_LEN(asked) && !was_asked(t->name)) asked[n_asked++] = t->name;
    return r ? r : ot_schedule_init(s, t, base, momentum, total, epoch, err);
}

static double rate(const char *text, int64_t k)
{
    ot_schedule s;
    ot_error err;
    double lr, m;
    assert_ok(start(&s, text, 0.1, NAN, 100, 10, &err), err);
    ot_schedule_at(&s, k, &lr, &m);
    return lr;
}

static void closed_forms(void **state)
{
    (void)state;
    static const double pi = 3.14159265358979323846;
    for (int k = 0; k < 100; k++) {
        double e = 1e-15, passed = (k >= 8) + (k >= 15) + (k >= 22);
        assert_near(rate("constant", k), 0.1, e);
        assert_near(rate("step:step_size=7,gamma=0.5", k), 0.1 * pow(0.5, k / 7), e);
        assert_near(rate("multistep:milestones=[8,15,22],gamma=0.3", k), 0.1 * pow(0.3, passed), e);
        assert_near(rate("multistep:milestones=8,gamma=0.3", k), k < 8 ? 0.1 : 0.1 * 0.3, e);
        assert_near(rate("exponential:gamma=0.93", k), 0.1 * pow(0.93, k), e);
        assert_near(rate("cosine:T_max=30,eta_min=0.01", k), 0.01 + 0.09 * (1 + cos(pi * k / 30)) / 2, e);
        assert_near(rate("cosine", k), 0.1 * (1 + cos(pi * k / 100)) / 2, e);
        assert_near(rate("linear:start_factor=1,end_factor=0.1,total_iters=20", k), 0.1 * (1 - 0.9 * fmin(k, 20) / 20),
                    e);
        assert_near(rate("polynomial:power=2,total_iters=25", k), 0.1 * pow(1 - fmin(k, 25) / 25, 2), e);
        double w = k < 10 ? 0.1 * (0.2 + 0.8 * k / 10) : 0.1 * pow(0.5, (k - 10) / 5);
        assert_near(rate("step:step_size=5,gamma=0.5,warmup=10,warmup_start_factor=0.2", k), w, e);
        assert_near(rate("step:step_size=3,gamma=0.5,per=epoch", k), 0.1 * pow(0.5, k / 10 / 3), e);
    }
}

static void cosine_restarts(void **state)
{
    (void)state;
    static const double pi = 3.14159265358979323846;
    /* Periods of 6, 12 and 24 updates. */
    static const int first[] = { 0, 6, 18, 42 };
    for (int p = 0; p < 3; p++)
        for (int k = first[p]; k < first[p + 1]; k++) {
            double part = (double)(k - first[p]) / (first[p + 1] - first[p]);
            assert_near(rate("cosine-restarts:T_0=6,T_mult=2,eta_min=0.001", k),
                        0.001 + 0.099 * (1 + cos(pi * part)) / 2, 1e-15);
        }
    assert_near(rate("cosine-restarts:T_0=6", 12), 0.1, 1e-15);
}

static void onecycle(void **state)
{
    (void)state;
    ot_schedule s;
    ot_error err;
    double lr, m;
    const char *text = "onecycle:max_lr=0.08,total_steps=30,pct_start=0.3,div_factor=10,final_div_"
                       "factor=100,cycle_momentum=true";
    assert_ok(start(&s, text, 0.1, 0.9, 30, 30, &err), err);
    assert_true(ot_schedule_moves_momentum(&s));
    ot_schedule_at(&s, 0, &lr, &m);
    assert_near(lr, 0.008, 1e-15);
    assert_near(m, 0.95, 1e-15);
    ot_schedule_at(&s, 8, &lr, &m); /* pct_start total_steps - 1 */
    assert_near(lr, 0.08, 1e-15);
    assert_near(m, 0.85, 1e-15);
    ot_schedule_at(&s, 29, &lr, &m);
    assert_near(lr, 0.00008, 1e-15);
    assert_near(m, 0.95, 1e-15);
    ot_schedule_at(&s, 500, &lr, &m); /* it stays there */
    assert_near(lr, 0.00008, 1e-15);
    assert_ok(start(&s, "onecycle", 0.1, 0, 1, 1, &err), err); /* a run of one update divides by nothing */
    ot_schedule_at(&s, 0, &lr, &m);
    assert_true(isfinite(lr));
    assert_ok(start(&s, "onecycle", 0.1, NAN, 30, 1, &err), err);
    assert_false(ot_schedule_moves_momentum(&s));
}

static void plateau(void **state)
{
    (void)state;
    ot_schedule s;
    ot_error err;
    double lr, m;
    assert_ok(start(&s, "plateau:factor=0.5,patience=2,threshold=0.1,cooldown=1,min_lr=0.03", 0.1, NAN, 100, 1, &err),
              err);
    /* 1, then never better by a tenth: three bad ones and it falls; one of cooldown; three more. */
    static const double expected[] = { 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.03, 0.03 };
    for (int k = 0; k < OT_LEN(expected); k++) {
        ot_schedule_at(&s, k, &lr, &m);
        assert_near(lr, expected[k], 1e-15);
        ot_schedule_feedback(&s, k, k == 0 ? 1 : 0.95);
    }
}

static void mistakes(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "step", "needs step_size" },
        { "multistep", "needs milestones" },
        { "exponential", "needs gamma" },
        { "cosine:T_max=0", "at least 1" },
        { "cosine:T_max=x", "at least 1" },
        { "cosine:per=day", "update or epoch" },
        { "onecycle:pct_start=2", "0 to 1" },
        { "onecycle:anneal_strategy=x", "cos or linear" },
        { "onecycle:cycle_momentum=true", "optimizer with momentum" },
        { "plateau:factor=2", "less than 1" },
        { "plateau:mode=up", "min or max" },
        { "cosine-restarts:T_mult=0.5", "T_mult=0.5" },
        { "linear:end_factor=-1", "from 0 to 1" },
    };
    for (int i = 0; i < OT_LEN(bad); i++) {
        ot_schedule s;
        ot_error err;
        assert_int_equal(start(&s, bad[i][0], 0.1, NAN, 100, 10, &err), OT_E_USAGE);
        assert_says(err, bad[i][1]);
    }
}

/* The last of them: a schedule that no test has started is a failure. */
static void all_asked(void **state)
{
    (void)state;
    for (const ot_entry *const *e = ot_schedules.entries; *e; e++)
        if (!was_asked((*e)->name)) fail_msg("schedule %s has no closed form here", (*e)->name);
}

int test_schedules(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms), cmocka_unit_test(cosine_restarts), cmocka_unit_test(onecycle),
        cmocka_unit_test(plateau),      cmocka_unit_test(mistakes),        cmocka_unit_test(all_asked),
    };
    arena = ot_arena_new();
    int failed = cmocka_run_group_tests_name("schedules", tests, NULL, NULL);
    ot_arena_free(arena);
    return failed;
}
