/* csv.c - tables: variants of the format, targets, and errors. */
#include "test.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ot_dataset *open_text(const char *text, ot_status want, ot_error *e)
{
    char path[128];
    ot_dataset *d;
    *e = (ot_error){ 0 };
    ot_folder_put("t.csv", text, strlen(text));
    snprintf(path, sizeof path, "%s/t.csv", ot_test_folder);
    ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, e);
    if (s != want) fail_msg("'%s': status %d, not %d: %s", text, s, want, e->text);
    return d;
}

/* The input's values in order, and the target's. */
static void assert_table(const char *text, int rows, int columns, const float *x, const double *y)
{
    ot_error e;
    ot_dataset *d = open_text(text, OT_OK, &e);
    assert_true(d->samples == rows && d->n == 2);
    assert_true(d->array[0].t.rank == 2 && d->array[0].t.dim[0] == rows && d->array[0].t.dim[1] == columns);
    assert_true(d->array[0].t.dtype == OT_F32 && d->array[0].role == OT_ARRAY_INPUT);
    assert_true(d->array[1].t.rank == 1 && d->array[1].role == OT_ARRAY_TARGET);
    for (int i = 0; i < rows * columns; i++)
        if (((float *)d->array[0].t.data)[i] != x[i]) fail_msg("'%s': input %d", text, i);
    for (int i = 0; i < rows; i++)
        if (ot_get_f64(d->array[1].t.data, d->array[1].t.dtype, i) != y[i]) fail_msg("'%s': target %d", text, i);
    ot_dataset_free(d);
}

static void forms(void **state)
{
    (void)state;
    const float x[] = { 1, 2.5f, -3, 4e2f };
    const double y[] = { 0, 1 };
    static const char *const text[] = {
        "1,2.5,0\n-3,4e2,1\n",
        "1,2.5,0\n-3,4e2,1",
        "1,2.5,0\r\n-3,4e2,1\r\n",
        "a,b,c\n1,2.5,0\n-3,4e2,1\n",
        " 1 , 2.5 ,0 \n\n-3,\t+4e2,1\n\n\n",
        "\"1\",\"2.5\",\"0\"\n\"-3\" , \"400\",\"1\"\n",
        "1;2.5;0\n-3;4e2;1\n",
        "1\t2.5\t0\n-3\t4e2\t1\n",
        ("\xEF\xBB\xBF"
         "1,2.5,0\n-3,4e2,1\n"),
        "\"a,\"\"b\",\"x\ny\",c\n1,2.5,0\n-3,4e2,1",
        "1.0,2.5,0\n-3.,.4e3,1",
    };
    for (int i = 0; i < OT_LEN(text); i++) assert_table(text[i], 2, 2, x, y);
}

static void targets(void **state)
{
    (void)state;
    ot_error e;
    ot_dataset *d = open_text("1,2\n3,4\n", OT_OK, &e);
    assert_true(d->array[1].t.dtype == OT_I64 && d->n_classes == 0);
    ot_dataset_free(d);
    d = open_text("1,2\n3,4.0\n", OT_OK, &e); /* written as no whole number: a measurement */
    assert_int_equal(d->array[1].t.dtype, OT_F32);
    ot_dataset_free(d);
    d = open_text("x,kind\n1,pear\n3,apple\n5,pear\n7,7\n", OT_OK, &e);
    const int64_t *y = d->array[1].t.data;
    assert_true(d->n_classes == 3 && y[0] == 2 && y[1] == 1 && y[2] == 2 && y[3] == 0);
    assert_string_equal(d->class_name[2], "pear");
    uint64_t hash = d->hash;
    assert_int_equal(ot_dataset_target(d, "kind", &e), OT_OK);
    assert_true(d->hash == hash);
    assert_int_equal(ot_dataset_target(d, "x", &e), OT_OK); /* the input is categories: table.c */
    assert_true(d->array[0].t.dim[1] == 3);
    ot_dataset_free(d);
}

static void another_column_is_the_target(void **state)
{
    (void)state;
    ot_error e;
    ot_dataset *d = open_text("a,b,c\n1,2,3\n4,5,6\n", OT_OK, &e);
    assert_int_equal(ot_dataset_target(d, "b", &e), OT_OK);
    assert_true(d->n == 2 && d->samples == 2);
    const float *x = d->array[0].t.data;
    const int64_t *y = d->array[1].t.data;
    assert_true(x[0] == 1 && x[1] == 3 && x[2] == 4 && x[3] == 6 && y[0] == 2 && y[1] == 5);
    assert_int_equal(ot_dataset_target(d, "d", &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "\n  b"));
    ot_dataset_free(d);
    d = open_text("1,2,3\n4,5,6\n", OT_OK, &e); /* no names: numbers from 1 */
    assert_int_equal(ot_dataset_target(d, "1", &e), OT_OK);
    assert_true(((int64_t *)d->array[1].t.data)[1] == 4);
    ot_dataset_free(d);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } row[] = {
        { "1,2\n3\n", "line 2: 1 columns" },
        { "1,2\n3,4,5\n", "line 2: 3 columns" },
        { "1\n2\n",
          "has 1 column; expected at least one input column and one target column; columns are separated by" },
        { "", "is empty" },
        { "\n\n", "is empty" },
        { "a,b\n", "has no samples" },
        { "1,2\n2,2\n3,2\n4,2\n5,2\n6,2\n7,2\n8,2\n9,2\nx,4\n", "line 10, column '1': contains 'x'" },
        { "a,b\n,2\nNA,4\n", "no column can be an input" },
        { "a,b\n1,2\n3,\n", "line 3: the target (column 'b') is missing" },
        { "a,b\n1,2\n3,?\n", "line 3: the target (column 'b') is missing ('?')" },
        { "a,b\n1,2\n3,NA\n4,\n", "2 of 3 rows have none; delete them from the file" },
        { "a,b\n1,2\n3,none\n4,null\n", "line 3: the target (column 'b') is missing ('none')" },
        { "a,b\n1,2.5\n3,N/A\n4,None\n", "line 3: the target (column 'b') is missing ('N/A')" },
        { "1,nan\n3,2\n", "line 1: the target (column '2') is missing ('nan')" },
        { "a,b\n1,p\n3,n/a\n4,n/a\n", "line 3: the target (column 'b') is missing ('n/a')" },
        { "1,\"2\n3,4\n", "line 1: a quote is not closed" },
        { "1,\"2\"x\n", "text after a closing quote" },
        { "1,2\n1,2\n2,2\n3,2\n4,2\n5,2\n6,2\n7,2\n8,2\n0x10,4\n", "contains '0x10'" },
        { "1,2\n1,2\n2,2\n3,2\n4,2\n5,2\n6,2\n7,2\n8,2\n1 2,4\n", "contains '1 2'" },
    };
    for (int i = 0; i < OT_LEN(row); i++) {
        ot_error e;
        assert_null(open_text(row[i].text, OT_E_DATA, &e));
        if (!strstr(e.text, row[i].why)) fail_msg("no '%s' in '%s'", row[i].why, e.text);
    }
    ot_error e;
    char path[128];
    ot_dataset *d;
    ot_folder_put("z.csv", "1,2\0,3", 6);
    snprintf(path, sizeof path, "%s/z.csv", ot_test_folder);
    e = (ot_error){ 0 };
    assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e), OT_E_DATA);
}

/* A target of strings may have a class None; a few cells of it are missing values, unless the classes are known. */
static void none_in_a_target(void **state)
{
    (void)state;
    for (int nones = 1; nones <= 2; nones++) {
        char text[1000] = "x,y\n";
        for (int i = 0; i < 40; i++)
            sprintf(text + strlen(text), "%d,%s\n", i, i < 40 - nones ? i % 2 ? "cat" : "dog" : "None");
        ot_error e;
        ot_dataset *d = open_text(text, nones > 1 ? OT_OK : OT_E_DATA, &e);
        if (d) {
            assert_int_equal(d->n_classes, 3);
            assert_string_equal(d->class_name[0], "None");
            assert_non_null(strstr(d->notes, "column 'y': None is a class, in 2 of 40 rows"));
        } else {
            assert_non_null(strstr(e.text, "line 41: the target (column 'y') is missing ('None'); a class None"));
        }
        ot_dataset_free(d);
        char path[128];
        snprintf(path, sizeof path, "%s/t.csv", ot_test_folder);
        const ot_data_options o = { .alone = true };
        assert_int_equal(ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e), OT_OK);
        assert_int_equal(d->n_classes, 3);
        ot_dataset_free(d);
    }
}

/* inf is a number that the check reports by its line and column. */
static void not_a_number(void **state)
{
    (void)state;
    ot_error e;
    ot_dataset *d = open_text("1,2\ninf,4\n", OT_OK, &e);
    assert_int_equal(ot_dataset_check(d, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "line 2, column '1': contains infinity"));
    ot_dataset_free(d);
    d = open_text("1,2\n1e300,4\n", OT_OK, &e); /* the file does not say infinity */
    assert_int_equal(ot_dataset_check(d, &e), OT_E_DATA);
    assert_non_null(strstr(e.text, "too large for float32"));
    ot_dataset_free(d);
}

/* Any truncation and any flipped bit results in a table or an error. */
static void damaged(void **state)
{
    (void)state;
    char text[] = "a,\"b \"\"c\"\"\",d\n1,2,3\n4,\"5\",6\r\n\n7;,8,9\n";
    for (size_t n = 0; n <= sizeof text - 1; n++)
        for (int bit = 0; bit < 8 * (int)n; bit++) {
            char path[128];
            ot_error e = { 0 };
            ot_dataset *d;
            text[bit / 8] ^= (char)(1 << bit % 8);
            if (n == sizeof text - 1 || bit < 8) {
                ot_folder_put("t.csv", text, n);
                snprintf(path, sizeof path, "%s/t.csv", ot_test_folder);
                ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e);
                assert_int_equal(s == OT_OK, d != NULL);
                ot_dataset_free(d);
            }
            text[bit / 8] ^= (char)(1 << bit % 8);
        }
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, ot_folder_make, ot_folder_remove)

int ot_test_csv(void)
{
    const struct CMUnitTest csv[] = {
        IN_FOLDER(forms),   IN_FOLDER(targets),          IN_FOLDER(another_column_is_the_target),
        IN_FOLDER(refused), IN_FOLDER(none_in_a_target), IN_FOLDER(not_a_number),
        IN_FOLDER(damaged),
    };
    return cmocka_run_group_tests(csv, NULL, NULL);
}
