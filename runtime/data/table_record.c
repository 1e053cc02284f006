/* table_record.c - how columns became inputs, as JSON in a trained model, and back.
 *
 *   {"target": "income",
 *    "inputs": {"x": {"kind": "table", "columns": [
 *      {"name": "age", "type": "number", "as": "value", "mean": 38.6, "std": 13.6, "missing": 38.6},
 *      {"name": "job", "type": "category", "as": "one-hot", "values": ["clerk", "nurse"], "missing": true}, ...]}}}
 *
 * A column of texts has the record of texts.c under its input.  Where columns are numbers that the model takes as they are, their
 * names suffice, beside what else is recorded:
 *
 *   {"target": "price", "columns": ["rooms", "area"]}
 *
 * Where samples are windows of rows (row_windows.c), "windows" has their length, stride and distance to the target.
 *
 * "header" is false if the table had no line of names: its columns are named by their places, 1 to N, and no line of another table
 * is one of names because its values are these.
 *
 * A target whose numbers are names of classes (--categories) is named once more, as "target_category".
 *
 * An input's elements are those of its columns, in this order.  `missing`: the number that replaces a missing value before
 * mean and std apply; of a category, whether missing values are one more, the last.  A date as parts has lists of numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/data/table.h"

#define ORDER "columns"
#define HEADER "header"
#define CLASSES "target_category"

/* ---- writing ------------------------------------------------------------------------------------ */

static json_t *numbers(const double *v, int n)
{
    if (n == 1) return json_real(*v);
    json_t *list = json_array();
    for (int i = 0; i < n; i++) ot_json_add(&list, json_real(v[i]));
    return list;
}

static json_t *parts(int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) ot_json_add(&list, json_string(ot_date_part[i]));
    return list;
}

static json_t *words(const ot_words *w)
{
    json_t *list = json_array();
    for (int i = 0; i < w->n; i++) ot_json_add(&list, json_string(w->word[i]));
    return list;
}

static json_t *field_json(const ot_column_field *f, bool number, bool gaps)
{
    json_t *o = json_object();
    ot_json_set(&o, "name", json_string(f->name));
    ot_json_set(&o, "type", json_string(ot_kind_name[f->kind]));
    ot_json_set(&o, "as", json_string(ot_column_form_name[f->form]));
    if (f->form == OT_FORM_PARTS) ot_json_set(&o, "parts", parts(f->width));
    if (f->form == OT_FORM_ID || f->form == OT_FORM_ONE_HOT) {
        ot_json_set(&o, "values", words(f->words));
        ot_json_set(&o, "missing", json_boolean(f->own));
    }
    if (!number || gaps || (f->form != OT_FORM_VALUE && f->form != OT_FORM_PARTS)) return o;
    if (f->scaled) {
        ot_json_set(&o, "mean", numbers(f->mean, f->width));
        ot_json_set(&o, "std", numbers(f->std, f->width));
    }
    ot_json_set(&o, "missing", numbers(f->fill, f->width));
    return o;
}

static json_t *inputs_json(const ot_columns *t)
{
    json_t *inputs = json_object();
    if (t->text) {
        json_t *one;
        const char *input, *text = ot_texts_record(t->text, &input);
        (void)ot_json_parse(text, strlen(text), &one);
        ot_json_set(&inputs, input, one);
    }
    for (int i = 0; i < t->n_inputs; i++) {
        const ot_table_input *in = &t->input[i];
        json_t *one = json_object();
        if (in->member) {
            ot_json_set(&one, "kind", json_string("image"));
            ot_json_set(&one, "column", json_string(in->field->name));
            ot_json_set(&inputs, in->of, one);
            continue;
        }
        json_t *columns = json_array();
        for (int k = 0; k < in->n; k++) ot_json_add(&columns, field_json(&in->field[k], in->dtype == OT_F32, in->gaps));
        ot_json_set(&one, "kind", json_string("table"));
        ot_json_set(&one, "columns", columns);
        ot_json_set(&inputs, in->of, one);
    }
    return inputs;
}

static ot_status load(const ot_columns *t, json_t **root, ot_error *err)
{
    const char *text = t->options.preprocess;
    *root = NULL;
    if (!text) return OT_OK;
    if (ot_json_parse(text, strlen(text), root)) return ot_table_no_memory(t, err);
    if (json_is_object(*root)) return OT_OK;
    json_decref(*root);
    *root = NULL;
    return ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: is not a JSON object");
}

/* The text of root as JSON, in d's arena.  Takes ownership of root. */
static ot_status dump(const ot_dataset *d, const ot_columns *t, json_t *root, size_t flags, const char **out,
                      ot_error *err)
{
    char *text = ot_json_dump(root, JSON_COMPACT | flags);
    json_decref(root);
    *out = text ? ot_arena_strdup(d->arena, text) : NULL;
    free(text);
    return *out ? OT_OK : ot_table_no_memory(t, err);
}

static void record_target(json_t **root, const ot_dataset *d, const ot_columns *t)
{
    const char *target = t->target ? t->target : d->column;
    ot_row_windows_record(t, root);
    if (!t->n_targets || !target) return;
    json_object_del(*root, CLASSES);
    ot_json_set(root, "target", json_string(target));
    for (int i = 0; i < t->n_targets; i++) {
        const ot_column *q = &t->column[t->wanted[i].column[0]];
        if (q->named) ot_json_set(root, CLASSES, json_string(q->name));
    }
}

ot_status ot_table_record(const ot_dataset *d, const ot_columns *t, const char **out, ot_error *err)
{
    json_t *root = json_object();
    ot_json_set(&root, "inputs", inputs_json(t));
    if (!t->header) ot_json_set(&root, HEADER, json_false());
    record_target(&root, d, t);
    /* What was measured has so many digits; scores of a tokenizer have all. */
    return dump(d, t, root, t->text ? 0 : JSON_REAL_PRECISION(OT_TABLE_DIGITS), out, err);
}

ot_status ot_table_record_target(const ot_dataset *d, const ot_columns *t, const char **out, ot_error *err)
{
    json_t *root, *before;
    *out = NULL;
    OT_TRY(load(t, &root, err));
    if (!root) return OT_OK;
    before = json_deep_copy(root);
    if (before) record_target(&root, d, t);
    bool same = json_equal(root, before);
    if (before && !same) {
        json_decref(before);
        return dump(d, t, root, 0, out, err);
    }
    json_decref(root);
    json_decref(before);
    return before ? OT_OK : ot_table_no_memory(t, err);
}

ot_status ot_table_record_order(const ot_dataset *d, const ot_columns *t, const char **out, ot_error *err)
{
    const ot_table_input *in = t->input;
    const char *twice;
    *out = NULL;
    OT_TRY(ot_table_name_twice(t, &twice, err));
    if (!t->header || twice) return OT_OK;
    json_t *root;
    OT_TRY(load(t, &root, err));
    if (!root) root = json_object();
    json_t *columns = json_array();
    for (int i = 0; i < in->n; i++) ot_json_add(&columns, json_string(in->field[i].name));
    ot_json_set(&root, ORDER, columns);
    record_target(&root, d, t);
    return dump(d, t, root, 0, out, err);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* How many names a record has, how many of them are in the first row, and whether one of these is no number. */
typedef struct recorded {
    int64_t all, here;
    bool text;
} recorded;

static void look_up(const ot_columns *t, const ot_words *first, const json_t *name, recorded *x)
{
    const char *text = json_string_value(name);
    double v;
    bool here = text && ot_words_find(first, text) >= 0;
    x->all += text != NULL;
    x->here += here;
    x->text |= here && !ot_cell_number(text, t->point, &v);
}

/* Whether --target or --inputs, a list such as INPUT=A,-B;C, has that text, which is no number. */
static bool is_listed(const ot_columns *t, const char *list, const char *text)
{
    double v;
    size_t n = strlen(text);
    if (!list || !n || ot_cell_number(text, t->point, &v)) return false;
    for (const char *at = list; (at = strstr(at, text)); at++)
        if ((at == list || strchr(",;=-", at[-1])) && (!at[n] || strchr(",;=", at[n]))) return true;
    return false;
}

/* Whether the record names one of the cells.  One number is no name, but all of the recorded ones are: values that happen to be
 * these few would be in other rows too. */
static bool records_name(const ot_columns *t, const ot_words *first, bool apart)
{
    enum { FEW = 3 };
    const char *text = t->options.preprocess, *key;
    json_t *root, *one;
    recorded x = { 0 };
    if (ot_json_parse(text, strlen(text), &root)) return false;
    json_object_foreach(json_object_get(root, "inputs"), key, one)
    {
        const json_t *columns = json_object_get(one, "columns");
        look_up(t, first, json_object_get(one, "column"), &x);
        look_up(t, first, json_object_get(one, "pair"), &x);
        for (size_t i = 0; i < json_array_size(columns); i++)
            look_up(t, first, json_object_get(json_array_get(columns, i), "name"), &x);
    }
    const json_t *order = json_object_get(root, ORDER);
    for (size_t i = 0; i < json_array_size(order); i++) look_up(t, first, json_array_get(order, i), &x);
    bool named = !json_is_false(json_object_get(root, HEADER));
    json_decref(root);
    if (!named) return false;
    return x.text || (x.here && x.here == x.all && (x.all > FEW || apart));
}

ot_status ot_table_knows_name(const ot_columns *t, const char *const *first, bool apart, bool *known, ot_error *err)
{
    ot_words cells = { 0 };
    *known = false;
    for (int i = 0; i < t->columns && !*known; i++)
        *known = is_listed(t, t->target, first[i]) || is_listed(t, t->options.columns, first[i]) ||
                 is_listed(t, t->options.categories, first[i]) || is_listed(t, t->options.passed, first[i]) ||
                 is_listed(t, t->options.parts, first[i]);
    if (*known || !t->options.preprocess) return OT_OK;
    ot_arena *a = ot_arena_new();
    ot_status s = a ? OT_OK : ot_table_no_memory(t, err);
    for (int i = 0; i < t->columns && !s; i++) s = ot_words_add(&cells, first[i], OT_MOST_COLUMNS, a, t->path, err);
    *known = !s && records_name(t, &cells, apart);
    ot_words_free(&cells);
    ot_arena_free(a);
    return s;
}

bool ot_table_recorded(const ot_data_options *o)
{
    json_t *root = NULL, *one;
    const char *key;
    if (!o->preprocess || ot_json_parse(o->preprocess, strlen(o->preprocess), &root)) return false;
    bool is = json_is_array(json_object_get(root, ORDER));
    json_object_foreach(json_object_get(root, "inputs"), key, one) is |= json_is_array(json_object_get(one, "columns"));
    json_decref(root);
    return is;
}

const char *ot_dataset_in_order(const ot_dataset *d)
{
    const ot_columns *t = d->table;
    if (!t || t->recorded || t->order || t->options.columns || t->mapped || t->text) return NULL;
    if (t->header)
        return "the model records none of these columns; they are taken in their order, whatever their names";
    if (!ot_table_recorded(&t->options)) return NULL;
    return "the table has no column names; its columns are taken in the order that the model records";
}

/* --inputs chooses other columns for a training; in an evaluation only `auto` does. */
static bool recalls(const ot_columns *t)
{
    return !t->options.columns || (t->options.alone && strcmp(t->options.columns, "auto"));
}

ot_status ot_table_recall_target(const ot_columns *t, ot_arena *a, const char **out, ot_error *err)
{
    json_t *root;
    *out = NULL;
    OT_TRY(load(t, &root, err));
    const char *text = json_string_value(json_object_get(root, "target"));
    bool elsewhere = json_object_get(root, ORDER) && !t->order; /* of a table with other columns */
    if (text && !elsewhere) *out = ot_arena_strdup(a, text);
    ot_status s = text && !elsewhere && !*out ? ot_table_no_memory(t, err) : OT_OK;
    json_decref(root);
    return s;
}

/* Whether the model records that the numbers of that target are names of classes. */
static bool recalls_classes(const ot_columns *t, const char *column)
{
    json_t *root = NULL;
    const char *text = t->options.preprocess;
    if (!text || ot_json_parse(text, strlen(text), &root)) return false;
    const char *name = json_string_value(json_object_get(root, CLASSES));
    bool is = name && !strcmp(name, column);
    json_decref(root);
    return is;
}

ot_status ot_table_names_classes(ot_dataset *d, const ot_columns *t, int column, bool *is, ot_error *err)
{
    int n = 0, *list = ot_arena_alloc(d->arena, (size_t)(t->columns + 1) * sizeof *list);
    if (!list) return ot_table_no_memory(t, err);
    if (t->options.categories) OT_TRY(ot_table_columns(t, t->options.categories, "--categories", list, &n, err));
    *is = recalls_classes(t, t->column[column].name);
    for (int i = 0; i < n; i++) *is |= list[i] == column;
    return OT_OK;
}

static ot_status invalid(const char *what, const char *where, ot_error *err)
{
    return ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: column '%s': '%s' is invalid", where, what);
}

static bool one_of(const char *text, const char *const *name, int n, int *out)
{
    for (int i = 0; i < n; i++)
        if (text && !strcmp(text, name[i])) {
            *out = i;
            return true;
        }
    return false;
}

/* A number or a list of f->width; false: something else. */
static bool take_numbers(const json_t *v, int n, double *out)
{
    if (n == 1 && json_is_number(v)) out[0] = json_number_value(v);
    else if (n > 1 && json_array_size(v) == (size_t)n)
        for (int i = 0; i < n; i++) {
            if (!json_is_number(json_array_get(v, (size_t)i))) return false;
            out[i] = json_number_value(json_array_get(v, (size_t)i));
        }
    else return false;
    return true;
}

static ot_status take_words(ot_dataset *d, const ot_columns *t, const json_t *o, ot_column_field *f, ot_error *err)
{
    const json_t *list = json_object_get(o, "values");
    ot_words *w = ot_arena_alloc(d->arena, sizeof *w);
    if (!w) return ot_table_no_memory(t, err);
    if (!json_is_array(list) || json_array_size(list) > INT32_MAX / 8) return invalid("values", f->name, err);
    f->words = w;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text || ot_words_find(w, text) >= 0) return invalid("values", f->name, err);
        OT_TRY(ot_words_add(w, text, INT32_MAX / 8, d->arena, t->path, err));
    }
    f->own = json_is_true(json_object_get(o, "missing"));
    if (f->form == OT_FORM_ONE_HOT) f->width = w->n + f->own;
    return OT_OK;
}

static ot_status take_field(ot_dataset *d, const ot_columns *t, const json_t *o, ot_column_field *f, ot_error *err)
{
    const char *name = json_string_value(json_object_get(o, "name"));
    int kind, form;
    *f = (ot_column_field){ .width = 1, .measured = true, .std = { 1, 1, 1, 1, 1 } };
    if (!name) return invalid("name", "(without a name)", err);
    if (!(f->name = ot_arena_strdup(d->arena, name))) return ot_table_no_memory(t, err);
    if (!one_of(json_string_value(json_object_get(o, "type")), ot_kind_name, OT_KINDS, &kind))
        return invalid("type", name, err);
    if (!one_of(json_string_value(json_object_get(o, "as")), ot_column_form_name, OT_FORMS, &form))
        return invalid("as", name, err);
    f->kind = (ot_kind)kind;
    f->form = (ot_column_form)form;
    f->column = ot_column_find(t, name);
    if (f->form == OT_FORM_ID || f->form == OT_FORM_ONE_HOT) return take_words(d, t, o, f, err);
    if (f->form == OT_FORM_IMAGE) return invalid("as", name, err);
    if (f->form == OT_FORM_TEXT) return OT_OK;
    if (f->form == OT_FORM_PARTS) f->width = f->kind == OT_KIND_TIME ? OT_TIME_PARTS : OT_DATE_PARTS;
    bool calendar = f->kind == OT_KIND_DATE || f->kind == OT_KIND_TIME;
    if (f->kind == OT_KIND_CATEGORY || f->kind >= OT_KIND_LABEL || (f->form == OT_FORM_PARTS && !calendar))
        return invalid("type", name, err);
    const json_t *mean = json_object_get(o, "mean"), *std = json_object_get(o, "std"),
                 *fill = json_object_get(o, "missing");
    f->scaled = mean != NULL;
    if (fill && !take_numbers(fill, f->width, f->fill)) return invalid("missing", name, err);
    if (mean && !take_numbers(mean, f->width, f->mean)) return invalid("mean", name, err);
    if (mean && !take_numbers(std, f->width, f->std)) return invalid("std", name, err);
    for (int k = 0; k < f->width; k++)
        if (!isfinite(f->mean[k]) || !(f->std[k] > 0)) return invalid("std", name, err);
    return OT_OK;
}

static ot_status take_input(ot_dataset *d, const ot_columns *t, const json_t *list, const ot_data_input *of,
                            ot_table_input *in, const char **lost, ot_error *err)
{
    int64_t width = 0;
    bool number = ot_is_float(of->dtype), text = of->dtype == OT_STRING;
    *in = (ot_table_input){ .name = of->name, .of = of->name, .gaps = of->gaps && number };
    in->dtype = number ? OT_F32 : text ? OT_STRING : OT_I64;
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > OT_MOST_COLUMNS)
        return invalid("columns", of->name, err);
    in->n = (int)json_array_size(list);
    in->field = ot_arena_alloc(d->arena, sizeof *in->field * (size_t)in->n);
    if (!in->field) return ot_table_no_memory(t, err);
    for (int i = 0; i < in->n; i++) {
        ot_column_field *f = &in->field[i];
        OT_TRY(take_field(d, t, json_array_get(list, (size_t)i), f, err));
        if ((f->form == OT_FORM_TEXT) != text) return invalid("as", f->name, err);
        if (!number && (f->form == OT_FORM_ONE_HOT || f->form == OT_FORM_PARTS)) return invalid("as", f->name, err);
        if (f->column < 0 && !*lost) *lost = f->name;
        f->at = (int)width;
        width += f->width;
        if (width > INT32_MAX / 8) return invalid("values", f->name, err);
    }
    in->shape = ot_table_sample(of, width);
    return OT_OK;
}

/* Two columns of one name: which of them the model reads is unknown.  Names of columns that are not used may repeat. */
static ot_status check_extra(const ot_columns *t, const bool *used, ot_error *err)
{
    ot_words known = { 0 };
    ot_arena *a = ot_arena_new();
    ot_status s = a ? OT_OK : ot_table_no_memory(t, err);
    for (int i = 0; i < t->columns && !s; i++)
        if (used[i]) s = ot_words_add(&known, t->column[i].name, OT_MOST_COLUMNS, a, t->path, err);
    for (int i = 0; i < t->columns && !s; i++)
        if (!used[i] && ot_words_find(&known, t->column[i].name) >= 0)
            s = ot_fail(err, OT_E_DATA, "%s: two columns are named '%s'", t->path, t->column[i].name);
    ot_words_free(&known);
    ot_arena_free(a);
    return s;
}

/* Columns that the model does not know; targets are no such. */
static ot_status tell_extra(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    const char **name = ot_arena_alloc(d->arena, sizeof *name * (size_t)t->columns);
    bool *used = ot_arena_alloc(d->arena, (size_t)t->columns);
    int n = 0;
    if (!name || !used) return ot_table_no_memory(t, err);
    for (int i = 0; t->text && i < t->columns; i++) used[i] = ot_texts_has(t->text, i);
    for (int i = 0; i < t->n_inputs; i++)
        for (int k = 0; k < t->input[i].n; k++) used[t->input[i].field[k].column] = true;
    for (int i = 0; i < t->n_targets; i++)
        for (int k = 0; k < t->wanted[i].n; k++) used[t->wanted[i].column[k]] = true;
    if (t->split_column >= 0) used[t->split_column] = true;
    if (t->group_column >= 0) used[t->group_column] = true;
    OT_TRY(check_extra(t, used, err));
    for (int i = 0; i < t->columns; i++)
        if (!used[i]) name[n++] = t->column[i].name;
    const char *all = ot_arena_names(d->arena, name, n);
    if (!all) return ot_table_no_memory(t, err);
    return !n ? OT_OK
              : ot_dataset_tell(d, err, "%s: column%s %s %s not used: the model was trained without %s", t->path,
                                n > 1 ? "s" : "", all, n > 1 ? "are" : "is", n > 1 ? "them" : "it");
}

static void forget_fields(ot_columns *t)
{
    for (int i = 0; i < t->n_inputs && t->input; i++)
        for (int k = 0; k < t->input[i].n && t->input[i].field; k++)
            if (t->input[i].field[k].words) ot_words_free(t->input[i].field[k].words);
}

/* The column of images that was recorded, or the only one. */
static int image_column(const ot_columns *t, const json_t *one)
{
    const char *name = json_string_value(json_object_get(one, "column"));
    int only = -1, c = name ? ot_column_find(t, name) : -1;
    if (c >= 0 && t->column[c].kind == OT_KIND_IMAGE) return c;
    for (int i = 0; i < t->columns; i++)
        if (t->column[i].kind == OT_KIND_IMAGE) only = i;
    return t->images == 1 ? only : -1;
}

static ot_status no_column(const ot_columns *t, const char *name, ot_error *err)
{
    ot_fail(err, OT_E_DATA, "%s: no column '%s', which the model was trained with; its columns are:", t->path, name);
    ot_table_list_columns(t, err);
    return ot_fail_more(err, OT_E_DATA,
                        "to train on another table, choose its columns with --inputs (auto: by names and types)");
}

/* The model's inputs that are recorded as tables or images in files; *found false: they are not all there. */
static ot_status take_inputs(ot_dataset *d, ot_columns *t, const json_t *inputs, bool *found, ot_error *err)
{
    const ot_data_options *o = &t->options;
    const ot_data_input *of = o->n_inputs ? o->input : &ot_table_any_input;
    const char *lost = NULL;
    int n = o->n_inputs ? o->n_inputs : !t->text;
    *found = n > 0;
    t->input = ot_arena_alloc(d->arena, sizeof *t->input * (size_t)(n + 1));
    if (!t->input) return ot_table_no_memory(t, err);
    t->n_inputs = 0;
    for (int i = 0; i < n; i++) {
        const json_t *one = json_object_get(inputs, of[i].name);
        const char *kind = json_string_value(json_object_get(one, "kind"));
        int image = kind && (!strcmp(kind, "image") || !strcmp(kind, "audio")) ? image_column(t, one) : -1;
        if (image >= 0) {
            const char *before = json_string_value(json_object_get(one, "column"));
            if (before && strcmp(before, t->column[image].name))
                OT_TRY(ot_dataset_tell(
                    d, err, "%s: no column '%s' of files, which the model was trained with: column '%s' is taken",
                    t->path, before, t->column[image].name));
            OT_TRY(ot_table_image_input(d, t, image, &of[i], n == 1, &t->input[t->n_inputs++], err));
            continue;
        }
        if (!kind || strcmp(kind, "table")) {
            *found = false;
            forget_fields(t);
            t->n_inputs = 0;
            return OT_OK;
        }
        ot_table_input *in = &t->input[t->n_inputs++];
        OT_TRY(take_input(d, t, json_object_get(one, "columns"), &of[i], in, &lost, err));
    }
    if (lost) return no_column(t, lost, err);
    return *found ? tell_extra(d, t, err) : OT_OK;
}

ot_status ot_table_recall(ot_dataset *d, ot_columns *t, bool *found, ot_error *err)
{
    json_t *root;
    *found = false;
    if (!recalls(t)) return OT_OK;
    OT_TRY(load(t, &root, err));
    ot_status s = root ? take_inputs(d, t, json_object_get(root, "inputs"), found, err) : OT_OK;
    json_decref(root);
    return s;
}

ot_status ot_table_tell_anew(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    json_t *root, *one;
    const char *input;
    bool any = false;
    if (recalls(t)) return OT_OK;
    OT_TRY(load(t, &root, err));
    json_object_foreach(json_object_get(root, "inputs"), input, one)
    {
        const char *kind = json_string_value(json_object_get(one, "kind"));
        any |= kind && !strcmp(kind, "table");
    }
    json_decref(root);
    return !any ? OT_OK
                : ot_dataset_tell(
                      d, err,
                      "%s: --inputs chooses the columns again: their scaling and categories are those of this "
                      "table, not those that the model records (omit --inputs to keep them)",
                      t->path);
}

/* The column of each name in order[], or -1, by a table of hashes: a file may have a hundred thousand.  Errors: OT_E_MODEL: one is no
 * text. */
static ot_status find_all(ot_dataset *d, const ot_columns *t, const json_t *names, int *order, ot_error *err)
{
    ot_words known = { 0 };
    ot_status s = OT_OK;
    int *column = ot_arena_alloc(d->arena, sizeof *column * (size_t)t->columns); /* of each word, the first */
    if (!column) return ot_table_no_memory(t, err);
    for (int i = 0, n; i < t->columns && !s; i++) {
        n = known.n;
        s = ot_words_add(&known, t->column[i].name, OT_MOST_COLUMNS, d->arena, t->path, err);
        if (known.n > n) column[n] = i;
    }
    for (size_t i = 0; i < json_array_size(names) && !s; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        int k = name ? ot_words_find(&known, name) : -1;
        order[i] = k < 0 ? -1 : column[k];
        if (!name) s = ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: '" ORDER "' is invalid");
    }
    ot_words_free(&known);
    return s;
}

static ot_status take_order(ot_dataset *d, ot_columns *t, const json_t *names, const char *of, ot_error *err)
{
    int n = (int)json_array_size(names), there = 0;
    const char *lost = NULL;
    int *order = ot_arena_alloc(d->arena, sizeof *order * ((size_t)n + 1));
    bool *used = ot_arena_alloc(d->arena, (size_t)t->columns + 1);
    if (!order || !used) return ot_table_no_memory(t, err);
    OT_TRY(find_all(d, t, names, order, err));
    for (int i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(names, (size_t)i));
        if (order[i] < 0) lost = lost ? lost : name;
        else if (used[order[i]])
            return ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: column '%s' is there twice", name);
        else used[order[i]] = true, there++;
    }
    if (!there) return OT_OK;
    if (lost) return no_column(t, lost, err);
    t->order = order;
    t->n_order = n;
    t->ordered = used;
    int target = of ? ot_column_find(t, of) : -1;
    bool *named = ot_arena_copy(d->arena, used, (size_t)t->columns + 1);
    if (!named) return ot_table_no_memory(t, err);
    if (target >= 0) named[target] = true;
    return check_extra(t, named, err);
}

ot_status ot_table_recall_order(ot_dataset *d, ot_columns *t, ot_error *err)
{
    json_t *root;
    t->order = NULL;
    t->ordered = NULL;
    if (!recalls(t) || !t->header) return OT_OK;
    OT_TRY(load(t, &root, err));
    const json_t *names = json_object_get(root, ORDER);
    ot_status s = OT_OK;
    if (names && (!json_is_array(names) || json_array_size(names) > OT_MOST_COLUMNS))
        s = ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: '" ORDER "' is invalid");
    if (!s && names) s = take_order(d, t, names, json_string_value(json_object_get(root, "target")), err);
    json_decref(root);
    return s;
}

void ot_table_forget(ot_columns *t)
{
    for (int i = 0; i < t->columns && t->column; i++) ot_words_free(&t->column[i].words);
    forget_fields(t);
    ot_row_series_forget(t);
    ot_texts_forget(t->text);
}
