/* split.c - samples that are kept back: how many, of which classes, and that none is lost. */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/internal.h"

enum { SAMPLES = 103, CLASSES = 4 };

/* Sample i has the picture {i, -i}; class 3 has 3 samples, class 0 most; `wide` is fed whole. */
static ot_dataset *make(bool floats)
{
    ot_error err = { 0 };
    ot_dataset *d = ot_dataset_new("made");
    const char *const names[] = { "input", "target", "wide" };
    const ot_shape shapes[] = { { .rank = 2, .dim = { SAMPLES, 2 } },
                                { .rank = 1, .dim = { SAMPLES } },
                                { .rank = 1, .dim = { 5 } } };
    const ot_dtype types[] = { OT_F32, floats ? OT_F32 : OT_I64, OT_F32 };
    for (int k = 0; k < 3; k++) {
        ot_array *a = ot_dataset_add(d, names[k]);
        assert_int_equal(ot_array_alloc(d, a, types[k], &shapes[k], -1, names[k], &err), OT_OK);
    }
    for (int i = 0; i < SAMPLES; i++) {
        float *x = d->array[0].t.data;
        x[2 * i] = (float)i, x[2 * i + 1] = (float)-i;
        if (floats) ((float *)d->array[1].t.data)[i] = (float)i / 7;
        else ((int64_t *)d->array[1].t.data)[i] = i % 40 == 20 ? 3 : i % 5 == 0 ? 2 : i % 3 == 0 ? 1 : 0;
    }
    ot_dataset_arrange(d);
    assert_int_equal(ot_dataset_finish(d, &err), OT_OK);
    return d;
}

static void count(const ot_dataset *d, int *n)
{
    memset(n, 0, CLASSES * sizeof *n);
    for (int64_t i = 0; i < d->samples; i++) n[((int64_t *)d->array[1].t.data)[i]]++;
}

static void classes_give_their_share(void **state)
{
    (void)state;
    for (int percent = 1; percent < 100; percent += 7) {
        ot_error err = { 0 };
        int classes, all[CLASSES], train[CLASSES], val[CLASSES];
        ot_dataset *d = make(false), *v;
        count(d, all);
        assert_int_equal(ot_dataset_split(d, percent / 100.0, 3, &v, &classes, &err), OT_OK);
        count(d, train);
        count(v, val);
        assert_int_equal(classes, CLASSES);
        assert_int_equal(v->samples, (percent * SAMPLES + 50) / 100);
        for (int c = 0; c < CLASSES; c++) {
            double share = percent / 100.0 * all[c];
            assert_int_equal(train[c] + val[c], all[c]);
            assert_true(val[c] > share - 1 && val[c] < share + 1);
        }
        ot_dataset_free(v);
        ot_dataset_free(d);
    }
}

/* Prices and the like are whole numbers, too, but none are classes. */
static void prices_are_no_classes(void **state)
{
    (void)state;
    enum { N = 1000, PRICES = 200 };
    const struct {
        ot_dtype type;
        int64_t least, apart;
    } row[] = { { OT_F32, 0, 1 }, { OT_F32, 0, 500 }, { OT_I64, INT64_MIN, INT64_MAX / (PRICES / 2) } };
    for (int k = 0; k < OT_LEN(row); k++) {
        ot_error err = { 0 };
        int classes;
        ot_dataset *d = ot_dataset_new("made"), *v;
        const ot_shape shape = { .rank = 1, .dim = { N } };
        assert_int_equal(ot_array_alloc(d, ot_dataset_add(d, "x"), OT_F32, &shape, -1, "x", &err), OT_OK);
        assert_int_equal(ot_array_alloc(d, ot_dataset_add(d, "target"), row[k].type, &shape, -1, "target", &err),
                         OT_OK);
        for (int i = 0; i < N; i++) {
            int64_t price = (int64_t)((uint64_t)row[k].least +
                                      (uint64_t)(i % PRICES) * (uint64_t)row[k].apart); /* from end to end */
            if (row[k].type == OT_F32) ((float *)d->array[1].t.data)[i] = (float)price;
            else ((int64_t *)d->array[1].t.data)[i] = price;
        }
        ot_dataset_arrange(d);
        assert_int_equal(ot_dataset_finish(d, &err), OT_OK);
        assert_int_equal(ot_dataset_split(d, 0.1, 3, &v, &classes, &err), OT_OK);
        assert_int_equal(classes, row[k].apart == 1 ? PRICES : 0);
        assert_int_equal(v->samples, N / 10);
        ot_dataset_free(v);
        ot_dataset_free(d);
    }
}

/* Every sample is in one part, in the order of the file, with all of its arrays and its number. */
static void nothing_is_lost(void **state)
{
    (void)state;
    for (int floats = 0; floats < 2; floats++) {
        ot_error err = { 0 };
        int classes, seen[SAMPLES] = { 0 };
        ot_dataset *d = make(floats), *v;
        assert_int_equal(ot_dataset_split(d, 0.25, 5, &v, &classes, &err), OT_OK);
        assert_int_equal(classes, floats ? 0 : CLASSES);
        assert_int_equal(d->samples + v->samples, SAMPLES);
        assert_true(d->hash != v->hash);
        const ot_dataset *part[] = { d, v };
        for (int k = 0; k < 2; k++) {
            const float *x = part[k]->array[0].t.data;
            assert_int_equal(part[k]->array[2].t.dim[0], 5);
            for (int64_t i = 0; i < part[k]->samples; i++) {
                int own = (int)x[2 * i];
                assert_true(x[2 * i + 1] == -x[2 * i] && (i == 0 || x[2 * i] > x[2 * i - 2]));
                assert_int_equal(ot_dataset_origin(part[k], i), own);
                seen[own]++;
            }
        }
        for (int i = 0; i < SAMPLES; i++) assert_int_equal(seen[i], 1);
        ot_dataset_free(v);
        ot_dataset_free(d);
    }
}

static uint64_t choice(double fraction, uint64_t seed)
{
    ot_error err = { 0 };
    int classes;
    ot_dataset *d = make(false), *v;
    assert_int_equal(ot_dataset_split(d, fraction, seed, &v, &classes, &err), OT_OK);
    uint64_t h = ot_hash(v->hash, v->array[0].t.data, (size_t)v->samples * 8);
    ot_dataset_free(v);
    ot_dataset_free(d);
    return h;
}

static void the_seed_decides(void **state)
{
    (void)state;
    assert_true(choice(0.2, 1) == choice(0.2, 1));
    assert_true(choice(0.2, 1) != choice(0.2, 2));
    assert_true(choice(0.2, 1) != choice(0.3, 1));
}

/* One sample at least in each part; one sample alone is none to split. */
static void ends_of_the_range(void **state)
{
    (void)state;
    ot_error err = { 0 };
    int classes;
    ot_dataset *d = make(false), *v;
    assert_int_equal(ot_dataset_split(d, 1e-9, 1, &v, &classes, &err), OT_OK);
    assert_int_equal(v->samples, 1);
    ot_dataset_free(v);
    assert_int_equal(ot_dataset_split(d, 0.9999999, 1, &v, &classes, &err), OT_OK);
    assert_int_equal(d->samples, 1);
    ot_dataset *none = NULL;
    assert_int_equal(ot_dataset_split(d, 0.5, 1, &none, &classes, &err), OT_E_DATA);
    assert_null(none);
    ot_dataset_free(v);
    ot_dataset_free(d);
}

int ot_test_split(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_give_their_share), cmocka_unit_test(prices_are_no_classes),
        cmocka_unit_test(nothing_is_lost),          cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(ends_of_the_range),
    };
    return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
