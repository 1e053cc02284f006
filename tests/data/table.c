/* table.c - tables of more than numbers: kinds of columns, forms, inputs, what is recorded and recalled. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ANY { -1, { 0 } }

static ot_dataset *open_with(const char *text, const ot_data_options *o, ot_status want, ot_error *e)
{
    char path[128];
    ot_dataset *d = NULL;
    *e = (ot_error){ 0 };
    ot_folder_put("t.csv", text, strlen(text));
    snprintf(path, sizeof path, "%s/t.csv", ot_test_folder);
    ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, o, &d, e);
    if (s != want) fail_msg("'%s': status %d, not %d: %s", text, s, want, e->text);
    return d;
}

static void assert_row(const ot_dataset *d, const char *name, int64_t row, int n, const float *x)
{
    const ot_array *a = ot_dataset_find(d, name);
    assert_non_null(a);
    assert_true(a->t.dtype == OT_F32 && a->t.rank == 2);
    assert_int_equal(a->t.dim[1], n);
    for (int i = 0; i < n; i++) {
        float have = ((const float *)a->t.data)[row * n + i];
        if (!(fabsf(have - x[i]) < 1e-5f) && !(isnan(have) && isnan(x[i])))
            fail_msg("row %lld, element %d: %g, not %g", (long long)row, i, (double)have, (double)x[i]);
    }
}

static const char *const people = "age,job,since,ok,zip,y\n"
                                  "20,nurse,2024-02-29,true,00123,1\n"
                                  "40,clerk,2024-03-01,false,00123,0\n"
                                  "NA,,2024-03-02,true,99999,1\n"
                                  "60,nurse,2024-03-03,true,00123,0\n";

static void kinds_and_widths(void **state)
{
    (void)state;
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = ANY };
    const ot_data_options o = { .input = &in, .n_inputs = 1, .normalize = "none" };
    ot_error e;
    ot_dataset *d = open_with(people, &o, OT_OK, &e);
    /* age, job (clerk, nurse, missing), year, month, day, weekday, ok, zip (00123, 99999) */
    assert_row(d, "x", 0, 11, (float[]){ 20, 0, 1, 0, 2024, 2, 29, 3, 1, 1, 0 });
    assert_row(d, "x", 2, 11, (float[]){ 40, 0, 0, 1, 2024, 3, 2, 5, 1, 0, 1 });
    assert_non_null(strstr(d->notes, "job"));
    assert_non_null(d->preprocess);
    assert_int_equal(ot_dataset_check(d, &e), OT_OK);
    ot_dataset_free(d);
}

/* 1,5 is a number where no number of the column has a point; 1,234 only where something shows what the comma is. */
static void decimal_comma(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float x[2];
    } good[] = { { "a;b;y\n1,5;-2,25e1;0,5\n3;4;1,5\n", { 1.5f, -22.5f } },
                 { "1,5;-2,25e1;0,5\n3;4;1,5\n", { 1.5f, -22.5f } },
                 { "a\tb\ty\n1,5\t1,234\t0,5\n3\t4,125\t1,5\n", { 1.5f, 1.234f } },
                 { "a;b;y\n1,500;2.5;0,5\n3;4;1,5\n", { 1.5f, 2.5f } },
                 { "a,b,y\n\"1,5\",\"2,25\",\"0,5\"\n3,4,1\n", { 1.5f, 2.25f } } };
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = ANY };
    const ot_data_options o = { .input = &in, .n_inputs = 1, .normalize = "none" };
    ot_error e;
    for (int i = 0; i < OT_LEN(good); i++) {
        ot_dataset *d = open_with(good[i].text, &o, OT_OK, &e);
        assert_row(d, d->array[0].t.name, 0, 2,
                   good[i].x); /* a table of numbers alone does not take the input's name */
        const ot_array *y = ot_dataset_find(d, "target");
        assert_true(y && y->t.dtype == OT_F32 && ((float *)y->t.data)[0] == 0.5f);
        assert_non_null(strstr(d->notes, "decimal comma"));
        ot_dataset_free(d);
    }
    /* Points between thousands, where a number shows what the comma is; else they are decimal points. */
    static const struct {
        const char *text;
        float x[2];
        bool grouped;
    } points[] = { { "a;b;y\n900;1.268,25;0,5\n1.268;4;1,5\n", { 900, 1268.25f }, true },
                   { "a;b;y\n1.268;-12.500.000;0,5\n3;4;1,5\n", { 1268, -12500000 }, true },
                   { "1.268;12.500,5;0,5\n3;4;1,5\n", { 1268, 12500.5f }, true },
                   { "a;b;y\n1.268;2,5;0,5\n3.25;4;1,5\n", { 1.268f, 2.5f }, false },
                   { "a;b;y\n1.268;0.345;0,5\n3;1.345;1,5\n", { 1.268f, .345f }, false },
                   { "a;b;y\n1.268,5;0.345;0,5\n3;1.345;1,5\n", { 1268.5f, .345f }, true } };
    for (int i = 0; i < OT_LEN(points); i++) {
        ot_dataset *d = open_with(points[i].text, &o, OT_OK, &e);
        assert_row(d, d->array[0].t.name, 0, 2, points[i].x);
        assert_int_equal(strstr(d->notes, "separate thousands") != NULL, points[i].grouped);
        ot_dataset_free(d);
    }
    /* Texts: thousands, and a comma beside points. */
    static const char *const text[] = { "a,y\n\"1,234\",0\n\"5,678\",1\n", "a\ty\n1,234\t0\n5,678\t1\n",
                                        "a;y\n1,5;0\n2.5;1\n" };
    for (int i = 0; i < OT_LEN(text); i++) {
        ot_dataset *d = open_with(text[i], &o, OT_OK, &e);
        assert_null(strstr(d->notes, "decimal comma"));
        assert_non_null(strstr(d->notes, "category"));
        ot_dataset_free(d);
    }
}

/* As many elements as columns: a number for each. */
static void ids(void **state)
{
    (void)state;
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = { 2, { -1, 5 } } };
    ot_data_options o = { .input = &in, .n_inputs = 1, .normalize = "none" };
    ot_error e;
    ot_dataset *d = open_with(people, &o, OT_OK, &e);
    assert_row(d, "x", 0, 5, (float[]){ 20, 1, 19782, 1, 0 });
    assert_row(d, "x", 2, 5, (float[]){ 40, 2, 19784, 1, 1 });
    ot_dataset_free(d);
    const ot_data_input other = { .name = "x", .dtype = OT_F32, .shape = { 2, { -1, 7 } } };
    o.input = &other;
    assert_null(open_with(people, &o, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "11"));
    assert_non_null(strstr(e.text, "or 5 with one element per column"));
}

static void several_inputs(void **state)
{
    (void)state;
    const ot_data_input in[] = { { .name = "num", .dtype = OT_F32, .shape = { 2, { -1, -1 } } },
                                 { .name = "cat", .dtype = OT_I64, .shape = { 2, { -1, 2 } } },
                                 { .name = "age", .dtype = OT_F32, .shape = { 2, { -1, 1 } } },
                                 { .name = "word", .dtype = OT_STRING, .shape = { 2, { -1, 1 } } } };
    ot_data_options o = { .input = in, .n_inputs = 4, .normalize = "none", .columns = "word=job;num=since,ok" };
    ot_error e;
    ot_dataset *d = open_with(people, &o, OT_E_DATA, &e); /* one column is left for two elements */
    assert_non_null(strstr(e.text, "input 'cat'"));
    o.columns = "word=job;num=since,ok;cat=zip,job";
    d = open_with(people, &o, OT_OK, &e);
    assert_row(d, "num", 1, 5, (float[]){ 2024, 3, 1, 4, 0 });
    assert_row(d, "age", 1, 1, (float[]){ 40 });
    const ot_array *cat = ot_dataset_find(d, "cat"), *word = ot_dataset_find(d, "word");
    assert_true(cat->t.dtype == OT_I64 && ((int64_t *)cat->t.data)[4] == 1 && ((int64_t *)cat->t.data)[5] == 2);
    assert_string_equal(((char **)word->t.data)[1], "clerk");
    ot_dataset_free(d);
    o.columns = "mad=job";
    assert_null(open_with(people, &o, OT_E_USAGE, &e));
    o.columns = "num=mad";
    assert_null(open_with(people, &o, OT_E_DATA, &e));
}

/* Columns that --categories names are categories, whatever they hold, and are recorded as such. */
static void named_categories(void **state)
{
    (void)state;
    char text[1000] = "user,kind,x,y\n";
    for (int i = 0; i < 30; i++) sprintf(text + strlen(text), "%d,%d,0.5,%d\n", 1029 - i, i % 2 ? 7 : 10, i % 3);
    ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = { 2, { -1, 3 } } };
    ot_data_options o = { .input = &in, .n_inputs = 1, .normalize = "none", .categories = "user,kind" };
    ot_error e;
    ot_dataset *d = open_with(text, &o, OT_OK, &e); /* whole numbers in their order: 7, 10 */
    assert_row(d, "x", 0, 3, (float[]){ 29, 1, 0.5f });
    assert_row(d, "x", 1, 3, (float[]){ 28, 0, 0.5f });
    ot_data_options again = { .input = &in, .n_inputs = 1, .preprocess = d->preprocess, .unlabelled = true };
    ot_dataset *r = open_with("x,kind,user\n1,7,1003\n", &again, OT_OK, &e);
    assert_row(r, "x", 0, 3, (float[]){ 3, 0, 1 });
    ot_dataset_free(r);
    again.categories = "user";
    r = open_with("x,kind,user\n1,7,1003\n", &again, OT_OK, &e);
    assert_non_null(strstr(r->notes, "--categories has no effect"));
    ot_dataset_free(r);
    assert_null(open_with("x,kind,user\n1,7,2000\n", &again, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "'2000' is not one of the 30 categories of training"));
    ot_dataset_free(d);
    in.shape.dim[1] = 4;
    o.categories = "kind";
    d = open_with(text, &o, OT_OK, &e);
    assert_row(d, "x", 0, 4, (float[]){ 1029, 0, 1, 0.5f });
    ot_dataset_free(d);
    /* A stray cell is one more category. */
    d = open_with("a,b,y\n1,1,0\n1,1,0\n1,1,0\n1,1,0\n1,1,0\n1,1,0\n1,1,0\n1,1,0\n1,1,0\nx,1,0\n",
                  &(ot_data_options){ .categories = "a", .normalize = "none" }, OT_OK, &e);
    assert_row(d, "", 9, 3, (float[]){ 0, 1, 1 });
    ot_dataset_free(d);
    /* The numbers of a target are names of classes; -10 is below -9, and 010 is no whole number. */
    o = (ot_data_options){ .categories = "y" };
    const char *const *name;
    d = open_with("x,y\n0,-9\n0,2\n0,-10\n0,10\n", &o, OT_OK, &e);
    assert_int_equal(ot_dataset_classes(d, d->array + 1, &name), 4);
    const char *const whole[] = { "-10", "-9", "2", "10" };
    for (int i = 0; i < 4; i++) assert_string_equal(name[i], whole[i]);
    ot_dataset_free(d);
    d = open_with("x,y\n0,9\n0,010\n0,10\n", &o, OT_OK, &e);
    assert_int_equal(ot_dataset_classes(d, d->array + 1, &name), 3);
    const char *const text_order[] = { "010", "10", "9" };
    for (int i = 0; i < 3; i++) assert_string_equal(name[i], text_order[i]);
    ot_dataset_free(d);
    o = (ot_data_options){ .input = &in, .n_inputs = 1, .normalize = "none" };
    o.categories = "kind,nosuch";
    assert_null(open_with(text, &o, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "no column 'nosuch' for --categories"));
}

/* Numbers of --passthrough beside others that are standardised. */
static void passed_through(void **state)
{
    (void)state;
    const ot_data_input in[] = { { .name = "x", .dtype = OT_F32, .shape = { 2, { -1, -1 } } },
                                 { .name = "w", .dtype = OT_F32, .shape = { 2, { -1, 1 } } } };
    ot_data_options o = { .input = in, .n_inputs = 2, .passed = "b,w" };
    const char *const text = "a,b,c,w,y\n1,5,p,0.5,0\n3,6,q,2,1\n";
    ot_error e;
    ot_dataset *d = open_with(text, &o, OT_OK, &e);
    assert_row(d, "x", 1, 4, (float[]){ 1, 6, 0, 1 });
    assert_row(d, "w", 0, 1, (float[]){ 0.5f });
    ot_data_options again = { .input = in, .n_inputs = 2, .preprocess = d->preprocess, .passed = "a" };
    ot_dataset *r = open_with(text, &again, OT_OK, &e);
    assert_row(r, "x", 1, 4, (float[]){ 1, 6, 0, 1 });
    assert_row(r, "w", 1, 1, (float[]){ 2 });
    assert_non_null(strstr(r->notes, "--passthrough has no effect"));
    ot_dataset_free(r);
    ot_dataset_free(d);
    o.passed = "b,v";
    assert_null(open_with(text, &o, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "no column 'v' for --passthrough"));
}

/* Columns that no input gets; the others are distributed as without --inputs. */
static void omitted(void **state)
{
    (void)state;
    const ot_data_input in[] = { { .name = "num", .dtype = OT_F32, .shape = { 2, { -1, -1 } } },
                                 { .name = "zip", .dtype = OT_I64, .shape = { 2, { -1, -1 } } } };
    ot_data_options o = { .input = in, .n_inputs = 2, .normalize = "none", .columns = "-since,-ok" };
    ot_error e;
    for (int k = 0; k < 2; k++) {
        ot_dataset *d = open_with(people, &o, OT_OK, &e);
        const ot_array *zip = ot_dataset_find(d, "zip");
        assert_int_equal(zip->t.dim[1], 1);
        assert_int_equal(((int64_t *)zip->t.data)[2], k ? 2 : 1); /* the category of job, where zip is omitted */
        if (k) assert_row(d, "num", 1, 1, (float[]){ 40 });
        else assert_row(d, "num", 1, 4, (float[]){ 40, 1, 0, 0 });
        ot_dataset_free(d);
        o.columns = "-since,-ok;-zip";
    }
    o.columns = "-since,ok";
    assert_null(open_with(people, &o, OT_E_USAGE, &e));
    assert_non_null(strstr(e.text, "expected INPUT=COLUMN,... or -COLUMN,..., got '-since,ok'"));
}

/* Means of the samples that train, also for those that are kept back; the same from the record. */
static void measured_on_the_rest(void **state)
{
    (void)state;
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = ANY };
    ot_data_options o = { .input = &in, .n_inputs = 1, .part = true };
    ot_error e;
    int classes;
    ot_dataset *v, *d = open_with("a,b,y\n1,p,0.5\n2,q,1.5\n3,p,2.5\n10,q,3.5\n,p,4.5\n", &o, OT_OK, &e);
    assert_int_equal(ot_dataset_split(d, 0.4, 3, &v, &classes, &e), OT_OK);
    assert_int_equal(ot_dataset_fit(d, v, &e), OT_OK);
    double mean = 0, square = 0, raw[5] = { 1, 2, 3, 10, NAN };
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (!isnan(raw[d->origin[i]])) mean += raw[d->origin[i]], n++;
    mean /= n;
    for (int i = 0; i < 3; i++)
        if (!isnan(raw[d->origin[i]])) square += pow(raw[d->origin[i]] - mean, 2);
    double std = sqrt(square / n);
    ot_dataset *const part[] = { d, v };
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < part[k]->samples; i++) {
            int64_t at = part[k]->origin[i];
            float want = (float)(isnan(raw[at]) ? 0 : (raw[at] - mean) / std);
            assert_row(part[k], "x", i, 3, (float[]){ want, at % 2 == 0, at % 2 == 1 });
        }
    ot_data_options again = { .input = &in, .n_inputs = 1, .preprocess = d->preprocess };
    ot_dataset *r = open_with("y,z,b,a\n1.5,7,p,10\n2.5,7,new,\n", &again, OT_OK, &e);
    assert_row(r, "x", 0, 3, (float[]){ (float)((10 - mean) / std), 1, 0 });
    assert_row(r, "x", 1, 3, (float[]){ 0, 0, 0 });
    assert_non_null(strstr(r->notes, "'z' is not used"));
    assert_non_null(strstr(r->notes, "'new' in line 3"));
    assert_null(strstr(r->notes, "missing, first"));
    ot_dataset_free(r);
    r = open_with("y,z,b,a\n1.5,7,p,10\n2.5,7,NA,1\n2.5,7,,1\n", &again, OT_OK, &e);
    assert_row(r, "x", 1, 3, (float[]){ (float)((1 - mean) / std), 0, 0 });
    assert_non_null(strstr(r->notes, "column 'b': 2 values are missing, first in line 3, but none was in training"));
    assert_string_equal(r->column, "y");
    ot_dataset_free(r);
    assert_null(open_with("y,a\n1,2\n", &again, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "no column 'b'"));
    assert_null(open_with("b,a\np,2\n", &again, OT_E_DATA, &e));
    again.unlabelled = true;
    r = open_with("b,a\np,2\n", &again, OT_OK, &e);
    assert_true(r->samples == 1 && r->n == 1);
    ot_dataset_free(r);
    ot_dataset_free(v);
    ot_dataset_free(d);
}

static void several_targets(void **state)
{
    (void)state;
    ot_data_options o = { .target = "p,q" };
    ot_error e;
    ot_dataset *d = open_with("a,p,q,r\n1,0,1,x\n2,1,1,y\n", &o, OT_OK, &e);
    const ot_array *y = ot_dataset_find(d, "target");
    assert_true(y->t.dtype == OT_I64 && y->t.rank == 2 && y->t.dim[1] == 2 && ((int64_t *)y->t.data)[1] == 1);
    ot_dataset_free(d);
    o.target = "out=r;aux=p,a";
    d = open_with("a,p,q,r\n1,0,1,x\n2,1,1,y\n", &o, OT_OK, &e);
    assert_int_equal(ot_dataset_find(d, "target_out")->t.dtype, OT_I64);
    assert_int_equal(ot_dataset_find(d, "target_aux")->t.dtype, OT_F32);
    assert_string_equal(d->class_name[1], "y");
    ot_dataset_free(d);
    o.target = "p,r";
    assert_null(open_with("a,p,q,r\n1,0,1,x\n2,1,1,y\n", &o, OT_E_DATA, &e));
}

static void identifiers(void **state)
{
    (void)state;
    char text[2000] = "id,a,y\n";
    ot_error e;
    for (int i = 0; i < 30; i++) sprintf(text + strlen(text), "no. %d,%s,%d\n", i, i % 2 ? "p" : "q", i % 3);
    ot_dataset *d = open_with(text, NULL, OT_OK, &e);
    assert_int_equal(d->array[0].t.dim[1], 2);
    assert_non_null(strstr(d->notes, "'id' is not used"));
    ot_dataset_free(d);
}

/* One cell that is no number, or no date, in a column whose cells all differ. */
static void stray_cells(void **state)
{
    (void)state;
    static const struct {
        const char *cell, *stray, *says;
    } row[] = {
        { "%d", "unknown", "line 7, column 'a': contains 'unknown'; expected a number as in 29 other rows" },
        { "%d.5", "-", "line 7, column 'a': contains '-'; expected a number as in 29 other rows" },
        { "2024-01-%02d", "2024-02-30",
          "line 7, column 'a': contains '2024-02-30'; expected a date such as 2024-05-31 as in 29 other rows" },
        { "2024-01-%02dT10:00", "5", "line 7, column 'a': contains '5'; expected a date" },
        { "no. %d", "5", NULL }, /* an identifier */
        { "%04d", "A12", NULL }, /* codes */
    };
    for (int k = 0; k < OT_LEN(row); k++) {
        char text[2000] = "a,b,y\n";
        ot_error e;
        for (int i = 0; i < 30; i++) {
            sprintf(text + strlen(text), i == 5 ? row[k].stray : row[k].cell, i + 1);
            sprintf(text + strlen(text), ",%s,%d\n", i % 2 ? "p" : "q", i % 3);
        }
        ot_dataset *d = open_with(text, NULL, row[k].says ? OT_E_DATA : OT_OK, &e);
        if (!d && !strstr(e.text, row[k].says)) fail_msg("no '%s' in '%s'", row[k].says, e.text);
        if (!d) assert_non_null(strstr(e.text, "--inputs=-a omits the column"));
        if (d) assert_non_null(strstr(d->notes, "'a' is not used: identifiers"));
        ot_dataset_free(d);
        const ot_data_options without = { .columns = "-a" };
        d = open_with(text, &without, OT_OK, &e);
        assert_int_equal(d->array[0].t.dim[1], 2);
        ot_dataset_free(d);
    }
}

static void headers(void **state)
{
    (void)state;
    ot_error e;
    ot_dataset *d = open_with("colour,size\nred,big\nblue,big\nred,small\n", NULL, OT_OK, &e);
    assert_true(d->samples == 3);
    assert_string_equal(d->column, "size");
    ot_dataset_free(d);
    d = open_with("red,big\nblue,big\nred,small\n", NULL, OT_OK, &e);
    assert_true(d->samples == 3);
    assert_string_equal(d->column, "2");
    assert_true(ot_dataset_line(d, 2) == 3);
    ot_dataset_free(d);
    assert_null(open_with("colour,size\nr\xE9"
                          "d,1\nblue,2\n",
                          NULL, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "is not UTF-8"));
    assert_null(open_with("gr\xF6\xDF"
                          "e,y\n1,0\n2,1\n",
                          NULL, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "line 1: the name of column 1, 'gr\\xf6\\xdfe', is not UTF-8"));
    assert_null(open_with("a,a,y\np,1,1\nq,2,2\n", NULL, OT_E_DATA, &e));
    assert_non_null(strstr(e.text, "two columns are named 'a'"));
}

/* A record is a model's text, and may say anything. */
static void hostile_records(void **state)
{
    (void)state;
    static const char *const good =
        "{\"inputs\":{\"x\":{\"kind\":\"table\",\"columns\":["
        "{\"name\":\"a\",\"type\":\"number\",\"as\":\"value\",\"mean\":1.0,\"std\":2.0,\"missing\":1.0},"
        "{\"name\":\"b\",\"type\":\"category\",\"as\":\"one-hot\",\"values\":[\"p\",\"q\"],\"missing\":false}]}},"
        "\"target\":\"y\"}";
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = ANY };
    char text[512];
    for (size_t i = 0; i <= strlen(good); i++)
        for (int kind = 0; kind < 3; kind++) {
            ot_error e = { 0 };
            ot_dataset *d = NULL;
            char path[128];
            snprintf(text, sizeof text, "%s", good);
            if (kind == 0) text[i] = 0;
            else if (i < strlen(good)) text[i] = kind == 1 ? (char)(text[i] ^ 4) : '9';
            ot_data_options o = { .input = &in, .n_inputs = 1, .preprocess = text };
            ot_folder_put("t.csv", "a,b,y\n1,p,1\n2,q,2\n", 18);
            snprintf(path, sizeof path, "%s/t.csv", ot_test_folder);
            ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e);
            assert_true(s == OT_OK || s == OT_E_DATA || s == OT_E_MODEL);
            assert_int_equal(s == OT_OK, d != NULL);
            ot_dataset_free(d);
        }
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, ot_folder_make, ot_folder_remove)

int ot_test_table(void)
{
    const struct CMUnitTest table[] = {
        IN_FOLDER(kinds_and_widths),     IN_FOLDER(decimal_comma),    IN_FOLDER(ids),         IN_FOLDER(several_inputs),
        IN_FOLDER(measured_on_the_rest), IN_FOLDER(several_targets),  IN_FOLDER(identifiers), IN_FOLDER(omitted),
        IN_FOLDER(passed_through),       IN_FOLDER(named_categories), IN_FOLDER(stray_cells), IN_FOLDER(headers),
        IN_FOLDER(hostile_records),
    };
    return cmocka_run_group_tests(table, NULL, NULL);
}
