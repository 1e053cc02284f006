/* options.c - the option table, config files, and the resulting settings. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/train/options/options.h"
#include "tests/train/train.h"

static void table_is_sound(void **state)
{
    (void)state;
    const ot_option_info *r, *q;
    for (int i = 0; (r = ot_option_at(i)); i++) {
        assert_non_null(r->help);
        assert_non_null(r->group);
        assert_true(r->commands != 0);
        assert_ptr_equal(ot_option_find(r->name), r);
        for (int k = 0; k < i; k++) {
            q = ot_option_at(k);
            assert_string_not_equal(r->name, q->name);
            if (r->letter) assert_int_not_equal(r->letter, q->letter);
        }
        /* A default must pass its own check. */
        ot_options *o = ot_options_new();
        ot_error err = { 0 };
        if (r->value) assert_ok(ot_options_set(o, r->name, r->value, &err), err);
        ot_options_free(o);
    }
}

static ot_status set(const char *name, const char *value, ot_error *err)
{
    ot_options *o = ot_options_new();
    *err = (ot_error){ 0 };
    ot_status s = ot_options_set(o, name, value, err);
    ot_options_free(o);
    return s;
}

static void mistakes(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "bach-size", "1", "did you mean 'batch-size'" },
        { "zzzzzz", "1", "unknown option" },
        { "batch-size", "0", "out of range" },
        { "batch-size", "1.5", "not a whole number" },
        { "batch-size", "many", "not a whole number" },
        { "lr", "-1", "out of range" },
        { "lr", "nan", "not a number" },
        { "lr", "inf", "not a number" },
        { "batch-size", "0x10", "not a whole number" },
        { "no-shuffle", "1", "expected true or false" },
        { "bn", "on", "expected one of: auto" },
        { "precision", "fp8", "expected one of: fp32" },
        { "o", "", "empty" },
    };
    for (int i = 0; i < OT_LEN(bad); i++) {
        ot_error err;
        assert_int_equal(set(bad[i][0], bad[i][1], &err), OT_E_USAGE);
        assert_says(err, bad[i][2]);
    }
}

static void write_file(char path[32], const char *text)
{
    strcpy(path, "/tmp/ot_conf_XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void config_files(void **state)
{
    (void)state;
    char path[32];
    ot_error err = { 0 };
    ot_options *o = ot_options_new();
    write_file(path, "# comment\nbatch-size = 64\n  lr = 0.5\nno-shuffle = true\nfreeze = a*\nfreeze = b*\n");
    assert_ok(ot_options_set(o, "batch-size", "16", &err), err); /* before: wins */
    assert_ok(ot_options_set(o, "config", path, &err), err);
    assert_string_equal(ot_options_get(o, "batch-size"), "16");
    assert_string_equal(ot_options_get(o, "lr"), "0.5");
    assert_true(ot_options_flag(o, "no-shuffle"));
    assert_int_equal(ot_options_count(o, "freeze"), 2);
    assert_ok(ot_options_set(o, "freeze", "c*", &err), err); /* after: replaces */
    assert_int_equal(ot_options_count(o, "freeze"), 1);
    ot_options_free(o);
    unlink(path);
}

static void bad_config_files(void **state)
{
    (void)state;
    char path[32], text[600] = "lr = ";
    static const char *const bad[][2] = {
        { "batchsize = 3\n", ":1: unknown option 'batchsize'" },
        { "lr = 1\n[part]\nlr = 2\n", "sections" },
        { "lr = 1\nthis is nothing\n", ":2: expected 'key = value'" },
        { "lr = 1\nlr = x\n", ":2: --lr" },
        { "config = x\n", "another one" },
    };
    ot_error err;
    for (int i = 0; i < OT_LEN(bad); i++) {
        write_file(path, bad[i][0]);
        assert_int_equal(set("config", path, &err), OT_E_USAGE);
        assert_says(err, bad[i][1]);
        unlink(path);
    }
    memset(text + 5, '1', 500);
    write_file(path, text);
    assert_int_equal(set("config", path, &err), OT_E_USAGE);
    unlink(path);
    assert_int_equal(set("config", "/no/such/file", &err), OT_E_IO);
}

static ot_status settings(const char *const (*pairs)[2], ot_settings *s, ot_arena *a, ot_error *err)
{
    ot_options *o = ot_options_new();
    static const char *const outputs[] = { "y", NULL };
    *err = (ot_error){ 0 };
    for (; (*pairs)[0]; pairs++) assert_ok(ot_options_set(o, (*pairs)[0], (*pairs)[1], err), *err);
    ot_status r = ot_settings_read(o, outputs, a, s, err);
    ot_options_free(o);
    return r;
}

static void resolved(void **state)
{
    (void)state;
    ot_settings s;
    ot_error err;
    ot_arena *a = ot_arena_new();
    const char *const pairs[][2] = { { "optimizer", "sgd:lr=1,momentum=0.5" },
                                     { "lr", "0.25" },
                                     { "no-decay", "norms,biases" },
                                     { "lr-scale", "a=b*=0.1" },
                                     { "dropout", "off" },
                                     { "loss", "y=mse" },
                                     { NULL, NULL } };
    assert_ok(settings(pairs, &s, a, &err), err);
    assert_near(ot_spec_num(&s.options.optimizer, "lr"), 0.25, 0);
    assert_near(ot_spec_num(&s.options.optimizer, "momentum"), 0.5, 0);
    assert_int_equal(s.options.n_no_decay, 2);
    assert_string_equal(s.options.no_decay[1], "biases");
    assert_string_equal(s.options.lr_scale[0], "a=b*");
    assert_near(s.options.lr_scale_by[0], 0.1, 0);
    assert_near(s.options.dropout, 0, 0);
    assert_string_equal(s.options.losses[0].output, "y");
    assert_true(s.shuffle);
    const char *const none[][2] = { { NULL, NULL } };
    assert_ok(settings(none, &s, a, &err), err);
    assert_string_equal(s.options.optimizer.name, "adamw");
    assert_int_equal(s.accumulate, 1);
    assert_true(s.options.dropout < 0);
    ot_arena_free(a);
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "momentum", "0.9", "adamw has no momentum" },
        { "optimizer", "sgd:nesterov=true", "nesterov needs" },
        { "optimizer", "adam:beta1=1", "less than 1" },
        { "optimizer", "sgd:lr=-1", "--optimizer sgd: invalid value lr=-1; expected a number of at least 0" },
        { "device", "gpu", "expected auto" },
        { "device", "cuda:", "expected auto" },
        { "device", "cuda:1x", "expected auto" },
        { "dropout", "1.5", "expected file, off" },
        { "lr-scale", "x", "PATTERN=X" },
        { "loss", "z=mse", "no output 'z'" },
    };
    ot_arena *a = ot_arena_new();
    for (int i = 0; i < OT_LEN(bad); i++) {
        ot_settings s;
        ot_error err;
        const char *const pairs[][2] = { { bad[i][0], bad[i][1] }, { NULL, NULL } };
        assert_int_equal(settings(pairs, &s, a, &err), OT_E_USAGE);
        assert_says(err, bad[i][2]);
    }
    ot_settings s;
    ot_error err;
    const char *const cuda[][2] = { { "device", "cuda:1" }, { NULL, NULL } };
    assert_ok(settings(cuda, &s, a, &err), err);
    assert_int_equal(s.device, OT_DEVICE_CUDA);
    assert_int_equal(s.device_index, 1);
    ot_arena_free(a);
}

static void commands(void **state)
{
    (void)state;
    ot_error err = { 0 };
    ot_options *o = ot_options_new();
    assert_ok(ot_options_set(o, "epochs", "3", &err), err);
    assert_ok(ot_options_check(o, OT_CMD_TRAIN, &err), err);
    assert_int_equal(ot_options_check(o, OT_CMD_RUN, &err), OT_E_USAGE);
    ot_options_free(o);
    const ot_command_info *c;
    unsigned taken = 0;
    for (int i = 0; (c = ot_command_at(i)); i++) {
        if (!c->bit || c->bit & (c->bit - 1) || c->bit & taken) fail_msg("%s: bit %u is not its own", c->name, c->bit);
        taken |= c->bit;
        assert_ptr_equal(ot_command_find(c->name), c);
    }
}

int test_options(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sound),   cmocka_unit_test(mistakes), cmocka_unit_test(config_files),
        cmocka_unit_test(bad_config_files), cmocka_unit_test(resolved), cmocka_unit_test(refused),
        cmocka_unit_test(commands),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
