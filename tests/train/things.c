/* things.c - the grammar name:key=value,key=[1,2]. */

#include <math.h>

#include "runtime/train/things.h"
#include "tests/train/train.h"

static ot_status parse(const char *text, const ot_thing_kind *known, const char *const *outputs,
                       ot_thing *t, ot_error *err)
{
    static ot_arena *a;
    if (a) ot_arena_free(a);
    a = ot_arena_new();
    *err = (ot_error){ 0 };
    return ot_thing_parse(text, "loss", known, outputs, a, t, err);
}

static void parameters(void **state)
{
    (void)state;
    ot_thing t;
    ot_error err;
    assert_ok(parse("sgd:lr=2e-3,momentum=0.9,nesterov=True", ot_optimizers, NULL, &t, &err), err);
    assert_string_equal(t.name, "sgd");
    assert_int_equal(t.n, 3);
    assert_near(ot_thing_num(&t, "lr", 0), 2e-3, 0);
    assert_true(ot_thing_flag(&t, "nesterov", false));
    assert_near(ot_thing_num(&t, "dampening", 0.25), 0.25, 0);
    assert_ok(parse("multistep:milestones=[8, 15,22],gamma=0.3", ot_schedules, NULL, &t, &err),
              err);
    const ot_param *p = ot_thing_find(&t, "milestones");
    assert_int_equal(p->n, 3);
    assert_near(p->list[1], 15, 0);
    assert_true(isnan(p->num));
    assert_ok(parse("mse", ot_losses, NULL, &t, &err), err);
    assert_int_equal(t.n, 0);
}

static void outputs(void **state)
{
    (void)state;
    static const char *const names[] = { "cls", "cls=mse", "Identity:0", "a/b;c", NULL };
    ot_thing t;
    ot_error err;
    assert_ok(parse("cls=cross_entropy:label_smoothing=0.1", ot_losses, names, &t, &err), err);
    assert_string_equal(t.output, "cls");
    assert_ok(parse("cls=mse=l1", ot_losses, names, &t, &err), err); /* the longest output */
    assert_string_equal(t.output, "cls=mse");
    assert_string_equal(t.name, "l1");
    assert_ok(parse("Identity:0=huber:delta=0.5", ot_losses, names, &t, &err), err);
    assert_string_equal(t.output, "Identity:0");
    assert_ok(parse("a/b;c=mse:weight=2", ot_losses, names, &t, &err), err);
    assert_near(ot_thing_num(&t, "weight", 1), 2, 0);
    assert_ok(parse("mse:weight=2", ot_losses, names, &t, &err), err);
    assert_null(t.output);
}

static void mistakes(void **state)
{
    (void)state;
    static const char *const names[] = { "cls", NULL };
    static const struct {
        const char *text, *says;
        const ot_thing_kind *known;
    } bad[] = {
        { "crossentropy", "did you mean 'cross_entropy'", ot_losses },
        { "nothing_like_it", "there are cross_entropy, nll", ot_losses },
        { "reg=mse", "no output 'reg'", ot_losses },
        { "mse:delta=1", "has no 'delta'", ot_losses },
        { "huber:delta", "no key=value", ot_losses },
        { "huber:delta=", "has no value", ot_losses },
        { "huber:delta=1,", "nothing follows", ot_losses },
        { "huber:delta=1,delta=2", "given twice", ot_losses },
        { "cross_entropy:class_weights=[1,2", "no ']'", ot_losses },
        { "cross_entropy:class_weights=[1,x]", "'x' is no number", ot_losses },
        { "cross_entropy:class_weights=[1,,2]", "'' is no number", ot_losses },
        { "cross_entropy:class_weights=[1]x", "follows a list", ot_losses },
        { "", "unknown", ot_losses },
        { "sgd:LR=1", "has no 'LR'", ot_optimizers },
    };
    for (int i = 0; i < OT_LEN(bad); i++) {
        ot_thing t;
        ot_error err;
        assert_int_equal(parse(bad[i].text, bad[i].known, names, &t, &err), OT_E_USAGE);
        assert_says(err, bad[i].says);
    }
}

static void distance(void **state)
{
    (void)state;
    assert_int_equal(ot_edit_distance("epochs", "epochs", 2), 0);
    assert_int_equal(ot_edit_distance("epohcs", "epochs", 2), 1);
    assert_int_equal(ot_edit_distance("epoch", "epochs", 2), 1);
    assert_int_equal(ot_edit_distance("bachsize", "batch-size", 2), 2);
    assert_int_equal(ot_edit_distance("x", "epochs", 2), 3);
    assert_int_equal(ot_edit_distance("", "", 2), 0);
}

static void numbers(void **state)
{
    (void)state;
    double v;
    assert_true(ot_number("1e-3", &v));
    assert_near(v, 1e-3, 0);
    assert_false(ot_number("", &v));
    assert_false(ot_number(" 1", &v));
    assert_false(ot_number("1 ", &v));
    assert_false(ot_number("1,5", &v));
}

int test_things(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters), cmocka_unit_test(outputs), cmocka_unit_test(mistakes),
        cmocka_unit_test(distance),   cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests_name("things", tests, NULL, NULL);
}
