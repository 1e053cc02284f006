/* things.c - the grammar name:key=value,key=[1,2]. */

#include <math.h>

#include "exporter/new.h"
#include "runtime/data/data.h"
#include "runtime/losses/losses.h"
#include "runtime/optimizers/optimizers.h"
#include "runtime/train/options/schedules.h"
#include "runtime/train/options/specs.h"
#include "runtime/train/options/metrics.h"
#include "tests/train/train.h"

static ot_status parse(const char *text, const ot_registry *known, const char *const *outputs, ot_spec *t,
                       ot_error *err)
{
    static ot_arena *a;
    if (a) ot_arena_free(a);
    a = ot_arena_new();
    *err = (ot_error){ 0 };
    return ot_spec_parse(text, known, outputs, a, t, err);
}

static void parameters(void **state)
{
    (void)state;
    ot_spec t;
    ot_error err;
    assert_ok(parse("sgd:lr=2e-3,momentum=0.9,nesterov=True", &ot_optimizers, NULL, &t, &err), err);
    assert_string_equal(t.name, "sgd");
    assert_int_equal(t.n, 3);
    assert_near(ot_spec_num(&t, "lr"), 2e-3, 0);
    assert_true(ot_spec_flag(&t, "nesterov"));
    assert_near(ot_spec_num(&t, "dampening"), 0, 0); /* its default */
    assert_ok(parse("multistep:milestones=[8, 15,22],gamma=0.3", &ot_schedules, NULL, &t, &err), err);
    const ot_param *p = ot_spec_find(&t, "milestones");
    assert_int_equal(p->n, 3);
    assert_near(p->list[1], 15, 0);
    assert_true(isnan(p->num));
    assert_ok(parse("mse", &ot_losses, NULL, &t, &err), err);
    assert_int_equal(t.n, 0);
}

static void outputs(void **state)
{
    (void)state;
    static const char *const names[] = { "cls", "cls=mse", "Identity:0", "a/b;c", NULL };
    ot_spec t;
    ot_error err;
    assert_ok(parse("cls=cross_entropy:label_smoothing=0.1", &ot_losses, names, &t, &err), err);
    assert_string_equal(t.output, "cls");
    assert_ok(parse("cls=mse=l1", &ot_losses, names, &t, &err), err); /* the longest output */
    assert_string_equal(t.output, "cls=mse");
    assert_string_equal(t.name, "l1");
    assert_ok(parse("Identity:0=huber:delta=0.5", &ot_losses, names, &t, &err), err);
    assert_string_equal(t.output, "Identity:0");
    assert_ok(parse("a/b;c=mse:weight=2", &ot_losses, names, &t, &err), err);
    assert_near(ot_spec_num(&t, "weight"), 2, 0);
    assert_ok(parse("mse:weight=2", &ot_losses, names, &t, &err), err);
    assert_null(t.output);
}

typedef struct mistake {
    const char *text, *says;
    const ot_registry *known;
} mistake;

static void all_refused(const mistake *m, int n, const char *const *outputs)
{
    for (int i = 0; i < n; i++) {
        ot_spec t;
        ot_error err;
        if (parse(m[i].text, m[i].known, outputs, &t, &err) != OT_E_USAGE) fail_msg("'%s' was accepted", m[i].text);
        assert_says(err, m[i].says);
    }
}

static void mistakes(void **state)
{
    (void)state;
    static const char *const names[] = { "cls", NULL };
    static const mistake bad[] = {
        { "crossentropy", "did you mean 'cross_entropy'", &ot_losses },
        { "nothing_like_it", "supported: cross_entropy, nll", &ot_losses },
        { "reg=mse", "no output 'reg'", &ot_losses },
        { "mse:delta=1", "has no parameter 'delta'", &ot_losses },
        { "huber:delta", "expected key=value, got 'delta'", &ot_losses },
        { "huber:delta=", "has no value", &ot_losses },
        { "huber:delta=1,", "expected key=value after the last ','", &ot_losses },
        { "huber:delta=1,delta=2", "given twice", &ot_losses },
        { "cross_entropy:class_weights=[1,2", "no closing ']'", &ot_losses },
        { "cross_entropy:class_weights=[1,x]", "'x' is not a number", &ot_losses },
        { "cross_entropy:class_weights=[1,,2]", "'' is not a number", &ot_losses },
        { "cross_entropy:class_weights=[1]x", "expected ',' after the list", &ot_losses },
        { "", "unknown", &ot_losses },
        { "sgd:LR=1", "has no parameter 'LR'", &ot_optimizers },
    };
    all_refused(bad, OT_LEN(bad), names);
}

/* What a value may be is looked at when it is read: nothing trains with one that means nothing. */
static void impossible_values(void **state)
{
    (void)state;
    static const mistake bad[] = {
        { "mse:reduction=median", "reduction=median; expected mean or sum", &ot_losses },
        { "mse:reduction=[1]", "expected mean or sum", &ot_losses },
        { "huber:delta=0", "delta=0; expected a number above 0", &ot_losses },
        { "smooth_l1:beta=-1", "beta=-1; expected a number of at least 0", &ot_losses },
        { "cross_entropy:label_smoothing=2", "a number from 0 to 1", &ot_losses },
        { "cross_entropy:label_smoothing=-1", "a number from 0 to 1", &ot_losses },
        { "cross_entropy:class_axis=x", "a whole number from -8 to 7", &ot_losses },
        { "cross_entropy:class_axis=1.5", "a whole number", &ot_losses },
        { "cross_entropy:class_axis=9", "a whole number from -8 to 7", &ot_losses },
        { "cross_entropy:ignore_index=x", "ignore_index=x; expected a whole number", &ot_losses },
        { "mse:weight=[1,2]", "weight=[1,2]; expected a number", &ot_losses },
        { "mse:weight=heavy", "expected a number", &ot_losses },
        { "mse:weight=nan", "expected a number", &ot_losses },
        { "mse:weight=0x10", "expected a number", &ot_losses },
        { "mse:weight=[nan,1]", "'nan' is not a number", &ot_losses },
        { "nll:class_weights=[1,nan]", "'nan' is not a number", &ot_losses },
        { "nll:class_weights=[1,inf]", "'inf' is not a number", &ot_losses },
        { "nll:class_weights=[1,-1]", "a list of numbers of at least 0", &ot_losses },
        { "nll:class_weights=2", "a list of numbers of at least 0", &ot_losses },
        { "nll:class_weights=[]", "a list of numbers", &ot_losses },
        { "bce:pos_weight=-1", "a number or a list of numbers of at least 0", &ot_losses },
        { "mse:tail=relu", "auto, none, softmax, logsoftmax or sigmoid", &ot_losses },
        { "mse:", "expected key=value after ':'", &ot_losses },
        { "sgd:", "expected key=value after ':'", &ot_optimizers },
        { "sgd:momentum=2", "a number from 0 to 1", &ot_optimizers },
        { "sgd:nesterov=2", "true or false", &ot_optimizers },
        { "sgd:nesterov=maybe", "true or false", &ot_optimizers },
        { "adam:beta2=1", "at least 0 and less than 1", &ot_optimizers },
        { "adam:lr=[1]", "a number of at least 0", &ot_optimizers },
        { "adam:eps=-1", "a number of at least 0", &ot_optimizers },
        { "adadelta:rho=1.5", "from 0 to 1", &ot_optimizers },
        { "rmsprop:alpha=1.01", "from 0 to 1", &ot_optimizers },
        { "muon:ns_steps=0", "a whole number from 1 to 99", &ot_optimizers },
        { "muon:ns_steps=2.5", "a whole number", &ot_optimizers },
        { "multistep:milestones=[-1]", "whole numbers of at least 0 in ascending order", &ot_schedules },
        { "multistep:milestones=[9,3]", "in ascending order", &ot_schedules },
        { "multistep:milestones=[1.5]", "whole numbers", &ot_schedules },
        { "multistep:milestones=soon", "a number or a list of whole numbers", &ot_schedules },
        { "step:step_size=0", "a whole number of at least 1", &ot_schedules },
        { "step:step_size=1.5", "a whole number", &ot_schedules },
        { "constant:warmup=-1", "a whole number of at least 0", &ot_schedules },
        { "constant:warmup_start_factor=2", "from 0 to 1", &ot_schedules },
        { "plateau:patience=2.5", "a whole number", &ot_schedules },
        { "onecycle:cycle_momentum=up", "true or false", &ot_schedules },
        { "onecycle:max_momentum=1", "less than 1", &ot_schedules },
        { "onecycle:div_factor=0", "above 0", &ot_schedules },
    };
    all_refused(bad, OT_LEN(bad), NULL);
}

/* The edges of the ranges, and what PyTorch accepts. */
static void possible_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const ot_registry *known;
    } good[] = {
        { "cross_entropy:label_smoothing=1,class_axis=-1,ignore_index=-100,class_weights=[0,1],reduction=sum",
          &ot_losses },
        { "bce_with_logits:pos_weight=3,tail=sigmoid", &ot_losses },
        { "bce:pos_weight=[1,2,0.5]", &ot_losses },
        { "smooth_l1:beta=0,weight=0", &ot_losses },
        { "hinge:margin=-0.5,weight=1e-3", &ot_losses },
        { "sgd:lr=0,momentum=1,dampening=0.3,nesterov=False", &ot_optimizers },
        { "adam:beta1=0,beta2=0.999,eps=0,amsgrad=True,weight_decay=0.0", &ot_optimizers },
        { "muon:ns_steps=5,momentum=0.95,nesterov=true", &ot_optimizers },
        { "multistep:milestones=8", &ot_schedules },
        { "multistep:milestones=[0,8,8,22],gamma=0.3", &ot_schedules },
        { "onecycle:pct_start=0,anneal_strategy=linear,cycle_momentum=true,base_momentum=0", &ot_schedules },
        { "plateau:mode=max,factor=0,patience=0,threshold_mode=abs,cooldown=0,min_lr=0,per=epoch", &ot_schedules },
        { "cosine-restarts:T_0=6.0,T_mult=2,eta_min=1e-08,warmup=0", &ot_schedules },
    };
    for (int i = 0; i < OT_LEN(good); i++) {
        ot_spec t;
        ot_error err;
        assert_ok(parse(good[i].text, good[i].known, NULL, &t, &err), err);
    }
}

/* What the registries say is complete and holds: every key has a meaning, a kind with its range, and a default that it takes
 * itself, or a description of what replaces it. */
static void registries(void **state)
{
    (void)state;
    const ot_registry *const sorts[] = { &ot_losses,  &ot_optimizers,   &ot_schedules,
                                         &ot_recipes, &ot_data_sources, &ot_metrics };
    ot_arena *a = ot_arena_new();
    int keys = 0;
    for (int i = 0; i < OT_LEN(sorts); i++)
        for (const ot_entry *const *e = sorts[i]->entries; *e; e++) {
            assert_ptr_equal(ot_registry_find(sorts[i], (*e)->name), *e); /* no name twice */
            assert_true(*(*e)->meaning);
            for (const ot_key *k = (*e)->keys; k && k->name; k++, keys++) {
                assert_ptr_equal(ot_entry_key(*e, k->name), k);
                const char *wants = ot_key_wants(k, a);
                if (!k->meaning || !*k->meaning || !wants || !*wants)
                    fail_msg("%s: %s has no meaning", (*e)->name, k->name);
                if (!k->dflt) continue;
                ot_param p = { k->name, k->dflt, ot_key_number(k->dflt), 0, NULL };
                if (!ot_key_fits(k, &p)) fail_msg("%s: %s=%s is not %s", (*e)->name, k->name, k->dflt, wants);
                if (k->without) fail_msg("%s: %s has two defaults", (*e)->name, k->name);
            }
        }
    assert_true(keys > 220);
    ot_arena_free(a);
}

/* An unknown key's error lists the keys, an unknown name's the names. */
static void errors_list_what_there_is(void **state)
{
    (void)state;
    const ot_registry *const sorts[] = { &ot_losses, &ot_optimizers, &ot_schedules };
    ot_arena *a = ot_arena_new();
    for (int i = 0; i < OT_LEN(sorts); i++) {
        ot_spec t;
        ot_error err;
        assert_int_equal(parse("no-such-thing", sorts[i], NULL, &t, &err), OT_E_USAGE);
        for (const ot_entry *const *e = sorts[i]->entries; *e; e++) {
            assert_says(err, (*e)->name);
            ot_error unknown;
            assert_int_equal(parse(ot_arena_printf(a, "%s:no_such_key=1", (*e)->name), sorts[i], NULL, &t, &unknown),
                             OT_E_USAGE);
            for (const ot_key *k = (*e)->keys; k && k->name; k++) assert_says(unknown, k->name);
        }
    }
    ot_arena_free(a);
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
    assert_false(ot_number("0x10", &v)); /* strtod reads these */
    assert_false(ot_number("inf", &v));
    assert_false(ot_number("nan", &v));
    assert_false(ot_number("1e999", &v));
}

int test_things(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters),
        cmocka_unit_test(outputs),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(impossible_values),
        cmocka_unit_test(possible_values),
        cmocka_unit_test(registries),
        cmocka_unit_test(errors_list_what_there_is),
        cmocka_unit_test(distance),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests_name("things", tests, NULL, NULL);
}
