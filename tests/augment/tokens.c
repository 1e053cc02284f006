/* tokens.c - windows over tokens that are masked (BERT) or cropped: shares, targets, what they depend on. */
#include "tests/augment/augment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/feed/augmenting.h"

enum { LENGTH = 32, WINDOWS = 400, TOKENS = LENGTH * WINDOWS + 1, MASK = 30000, ROWS = 30001, STRIDE = LENGTH };

typedef struct set {
    ot_dataset *d;
    ot_augmenting how;
    ot_feeder input, target;
} set;

/* Token i is number i. */
static void open_set(set *s, double p, const char *split)
{
    static const ot_data_input in = { "ids", OT_I64, { 2, { -1, LENGTH } }, ROWS, false, false };
    char path[] = "/tmp/onnxtrain-augment-XXXXXX.bin";
    uint16_t token[TOKENS];
    for (int i = 0; i < TOKENS; i++) token[i] = (uint16_t)i;
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0 && write(fd, token, sizeof token) == (ssize_t)sizeof token && !close(fd));
    ot_data_options o = { .input = &in, .n_inputs = 1, .masking = { p, MASK, 0 } };
    ot_error e = { 0 };
    if (ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &s->d, &e)) fail_msg("%s", e.text);
    unlink(path);
    (void)split;
    s->how = (ot_augmenting){ .kind = OT_AUGMENTED_TOKENS, .of = s->d, .seed = 7, .samples = s->d->samples };
    ot_feeder f = { .name = "ids", .dtype = OT_I64, .sample = { 1, { LENGTH } }, .augment = &s->how };
    s->input = s->target = f;
    s->input.src = ot_dataset_find(s->d, "ids");
    s->target.src = ot_dataset_find(s->d, "target");
    s->target.name = "target";
    s->target.target = true;
    assert_true(s->input.src && s->target.src);
}

static void draw(const ot_feeder *f, int64_t first, int64_t n, int64_t given, int64_t *to)
{
    int64_t index[WINDOWS];
    for (int64_t i = 0; i < n; i++) index[i] = first + i;
    ot_augmenting_values(f, index, n, given, to, 1);
}

static void masks(void **state)
{
    (void)state;
    static int64_t x[TOKENS], y[TOKENS], again[TOKENS];
    set s;
    open_set(&s, 0.15, NULL);
    assert_int_equal(s.d->samples, WINDOWS);
    draw(&s.input, 0, WINDOWS, 0, x);
    draw(&s.target, 0, WINDOWS, 0, y);
    int64_t chosen = 0, masked = 0, kept = 0, n = LENGTH * WINDOWS;
    for (int64_t i = 0; i < n; i++) {
        if (y[i] == OT_IGNORED) {
            assert_int_equal(x[i], i);
            continue;
        }
        assert_int_equal(y[i], i); /* the token itself, not the next one */
        chosen++;
        masked += x[i] == MASK;
        kept += x[i] == i;
        assert_in_range(x[i], 0, ROWS - 1);
    }
    /* Five deviations of the binomial. */
    assert_true(llabs(chosen - n * 15 / 100) < 5 * 41);
    assert_true(llabs(masked - chosen * 8 / 10) < 5 * 18 && llabs(kept - chosen / 10) < 5 * 14);

    draw(&s.input, 0, WINDOWS, 0, again);
    assert_memory_equal(x, again, (size_t)n * sizeof *x);
    draw(&s.input, 5, 10, 5, again); /* the same samples of the same epoch, in another batch */
    assert_memory_equal(x + 5 * LENGTH, again, 10 * LENGTH * sizeof *x);
    draw(&s.input, 0, WINDOWS, WINDOWS, again); /* the next epoch */
    assert_memory_not_equal(x, again, (size_t)n * sizeof *x);
    s.how.seed++;
    draw(&s.input, 0, WINDOWS, 0, again);
    assert_memory_not_equal(x, again, (size_t)n * sizeof *x);
    draw(&s.input, 0, WINDOWS, OT_NOT_AUGMENTED, x); /* evaluations are masked, always the same */
    draw(&s.input, 0, WINDOWS, OT_NOT_AUGMENTED, again);
    assert_memory_equal(x, again, (size_t)n * sizeof *x);
    masked = 0;
    for (int64_t i = 0; i < n; i++) masked += x[i] == MASK;
    assert_true(masked > n / 10);
    ot_dataset_free(s.d);
}

/* However small the probability, something is predicted in every sample. */
static void at_least_one(void **state)
{
    (void)state;
    static int64_t y[TOKENS];
    set s;
    open_set(&s, 1e-9, NULL);
    draw(&s.target, 0, WINDOWS, 0, y);
    int64_t places[LENGTH] = { 0 }, distinct = 0;
    for (int64_t i = 0; i < WINDOWS; i++) {
        int64_t chosen = 0;
        for (int64_t k = 0; k < LENGTH; k++)
            if (y[i * LENGTH + k] != OT_IGNORED) chosen++, places[k]++;
        assert_int_equal(chosen, 1);
    }
    for (int k = 0; k < LENGTH; k++) distinct += places[k] > 0;
    assert_true(distinct > LENGTH / 2);
    ot_dataset_free(s.d);
}

/* Windows begin anywhere in their stride and stay in their part; the target goes with them. */
static void crops(void **state)
{
    (void)state;
    static int64_t x[TOKENS], y[TOKENS];
    set s;
    open_set(&s, 0, NULL);
    ot_dataset *kept;
    int classes;
    ot_error e = { 0 };
    assert_int_equal(ot_dataset_fold(s.d, 2, 4, 1, &kept, &classes, &e), OT_OK);
    int64_t n = s.d->samples, begin = TOKENS / 4, end = TOKENS / 2, moved = 0;
    s.how.later = true;
    s.how.samples = n;
    draw(&s.input, 0, n, 0, x);
    draw(&s.target, 0, n, 0, y);
    for (int64_t i = 0; i < n; i++) {
        int64_t first = x[i * LENGTH], last = first + LENGTH;
        int64_t at = s.input.src->row[i] * STRIDE;
        moved += first != at;
        assert_in_range(first - at, 0, STRIDE - 1);
        for (int64_t k = 0; k < LENGTH; k++)
            assert_true(x[i * LENGTH + k] == first + k && y[i * LENGTH + k] == first + k + 1);
        assert_true(last < TOKENS && (last < begin || first >= end)); /* last: the target of the last token */
    }
    assert_true(moved > n / 2);
    draw(&s.input, 0, n, OT_NOT_AUGMENTED, x);
    for (int64_t i = 0; i < n; i++) assert_int_equal(x[i * LENGTH], s.input.src->row[i] * STRIDE);
    ot_dataset_free(kept);
    ot_dataset_free(s.d);
}

int test_tokens(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(masks), cmocka_unit_test(at_least_one),
                                        cmocka_unit_test(crops) };
    return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
