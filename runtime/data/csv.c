/* csv.c - opens tables as data sets: the order in which a table's columns, inputs and arrays are found.
 *
 * The file is read twice, and a third time in between for the texts of categories: only the arrays are in memory. */
#include <string.h>

#include "runtime/data/table.h"

/* Reads the whole table for the current target. */
static ot_status arrange(ot_dataset *d, ot_columns *t, ot_error *err)
{
    OT_TRY(ot_table_find_columns(d, t, err));
    if (!t->rows) return OT_OK; /* a part that it does not have */
    OT_TRY(ot_texts_find(d, t, err));
    OT_TRY(ot_row_windows_choose(d, t, err));
    OT_TRY(ot_table_recall_order(d, t, err));
    OT_TRY(ot_table_choose_targets(d, t, err));
    ot_row_windows_drop_target(d, t);
    OT_TRY(ot_table_recall(d, t, &t->recorded, err));
    if (t->options.columns && (t->recorded || t->order)) {
        t->options.columns = NULL;
        OT_TRY(ot_dataset_tell(d, err, "%s: --inputs has no effect: the model records the columns that it takes",
                               t->path));
    }
    OT_TRY(ot_table_tell_anew(d, t, err));
    OT_TRY(ot_table_name_columns(d, t, err));
    if (!t->recorded) ot_table_find_mapping(t);
    OT_TRY(ot_table_collect_words(d, t, err));
    OT_TRY(ot_table_hint_parts(d, t, err));
    if (!t->recorded) OT_TRY(ot_table_choose_inputs(d, t, err));
    OT_TRY(ot_table_add_arrays(d, t, err));
    if ((!t->regular || t->place) && !(t->line = ot_arena_alloc(d->arena, (size_t)t->rows * sizeof *t->line)))
        return ot_table_no_memory(t, err);
    if (t->text) OT_TRY(ot_texts_read(d, t, err));
    OT_TRY(ot_tags_read(d, t, err));
    OT_TRY(ot_table_fill(d, t, err));
    return ot_row_windows_make(d, t, err);
}

static ot_status arranged(ot_dataset *d, ot_columns *t, ot_error *err)
{
    ot_error own = { 0 };
    if (!err) err = &own;
    t->point = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    ot_status s = t->point ? arrange(d, t, err) : ot_table_no_memory(t, err);
    if (t->point) freelocale(t->point);
    ot_table_forget(t);
    if (!s && t->rows && !t->options.part) s = ot_dataset_fit(d, NULL, err);
    return s;
}

/* ---- the data set ------------------------------------------------------------------------------------ */

/* A copy, so that the table can be read again for another target. */
static ot_status keep_options(ot_dataset *d, ot_columns *t, const ot_data_options *o, ot_error *err)
{
    ot_arena *a = d->arena;
    ot_data_options *own = &t->options;
    *own = *o;
    own->search = NULL;
    const char **text[] = { &own->target, &own->preprocess, &own->columns,   &own->categories, &own->passed,
                            &own->parts,  &own->group,      &own->normalize, &own->text,       &own->tokenizer };
    for (int i = 0; i < OT_LEN(text); i++)
        if (*text[i] && !(*text[i] = ot_arena_strdup(a, *text[i]))) return ot_table_no_memory(t, err);
    ot_data_input *in = ot_arena_alloc(a, sizeof *in * (size_t)(o->n_inputs + 1));
    if (!in) return ot_table_no_memory(t, err);
    own->input = in;
    for (int i = 0; i < o->n_inputs; i++) {
        in[i] = o->input[i];
        if (!(in[i].name = ot_arena_strdup(a, in[i].name))) return ot_table_no_memory(t, err);
    }
    t->target = own->target;
    return OT_OK;
}

ot_status ot_csv_open(const char *path, ot_dataset *d, ot_error *err)
{
    ot_columns *t = ot_arena_alloc(d->arena, sizeof *t);
    if (!t) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    t->path = d->name; /* the same text, and it stays */
    t->mark = ot_is_folder(path) ? OT_ROWS_FOLDER : ot_rows_mark(path);
    OT_TRY(keep_options(d, t, d->options, err));
    bool tokens = t->options.tokenizer || t->options.text || ot_texts_known(&t->options);
    if (tokens && t->mark == OT_ROWS_JSON) t->mark = OT_ROWS_TAGGED;
    t->part = d->of;
    d->table = t;
    return arranged(d, t, err);
}

ot_status ot_table_target(ot_dataset *d, const char *name, ot_error *err)
{
    ot_columns *t = d->table;
    if (t->target && !strcmp(t->target, name)) return OT_OK;
    if (!(t->target = ot_arena_strdup(d->arena, name))) return ot_table_no_memory(t, err);
    OT_TRY(arranged(d, t, err));
    ot_dataset_arrange(d);
    return ot_dataset_finish(d, err);
}

ot_status ot_dataset_target_line(const ot_dataset *d, ot_arena *a, const char **line, ot_error *err)
{
    *line = NULL;
    if (!d->table || !d->column || !*d->column) return OT_OK;
    *line = ot_arena_printf(a, "%s: the target is column '%s'%s%s (change with --target)", d->name, d->column,
                            d->rule ? ", " : "", d->rule ? d->rule : "");
    return *line ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a note");
}

bool ot_dataset_odd_header(const ot_dataset *d) { return d->table && d->table->odd_header; }

bool ot_dataset_has_gaps(const ot_dataset *d) { return d->table && d->table->line && d->table->mark != OT_ROWS_FOLDER; }
