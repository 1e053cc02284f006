/* table_targets.c - which columns of a table are targets, and whether their values are classes. */
#include <string.h>
#include <strings.h>

#include "runtime/data/table.h"

enum { NONE_SHARE = 20 }; /* None is a class of a target if one row in so many has it */

static bool is_text(const ot_column *q) { return q->odd.line > 0; }

/* Whether None is a class: in a target of strings and in many rows, or where the classes are known elsewhere. */
static bool none_is_class(const ot_columns *t, const ot_column *q)
{
    bool known = t->options.alone || t->options.preprocess || t->mark == OT_ROWS_FOLDER;
    return is_text(q) && (known || q->nones * NONE_SHARE >= t->rows);
}

/* A target must be known for every row. */
static ot_status check_target(ot_dataset *d, const ot_columns *t, const ot_column *q, ot_error *err)
{
    bool class = none_is_class(t, q);
    const ot_first *none = class ? NULL : &q->none, *lost = &q->lost;
    if (class && q->nones && t->mark != OT_ROWS_FOLDER)
        OT_TRY(ot_dataset_tell(d, err, "%s: column '%s': None is a class, in %lld of %lld rows", t->path, q->name,
                               (long long)q->nones, (long long)t->rows));
    if (none && none->line && (!lost->line || none->line < lost->line)) lost = none;
    if (!lost->line || t->mark == OT_ROWS_FOLDER) return OT_OK;
    int64_t n = ot_column_missing(q);
    if (t->options.described && n < t->rows)
        return ot_dataset_tell(
            d, err,
            "%s: the target (column '%s') is missing in %lld of %lld rows, first in line %lld: delete %s "
            "from the file for a training, or name another column with --target",
            t->path, q->name, (long long)n, (long long)t->rows, (long long)lost->line, n == 1 ? "it" : "them");
    ot_fail(err, OT_E_DATA, "%s: line %lld: the target (column '%s') is missing%s%.40s%s%s", t->path,
            (long long)lost->line, q->name, *lost->text ? " ('" : "", lost->text, *lost->text ? "')" : "",
            lost == none && is_text(q) ? "; a class None is in one row in 20 at least, or needs another name" : "");
    if (n < t->rows)
        ot_fail_more(err, OT_E_DATA,
                     "%lld of %lld rows have none; delete %s from the file, or name another column with --target",
                     (long long)n, (long long)t->rows, n == 1 ? "it" : "them");
    if (!d->rule) return OT_E_DATA;
    ot_fail_more(err, OT_E_DATA, "this column, %s, is the target unless --target names another:", d->rule);
    return ot_table_list_columns(t, err);
}

static ot_status add_target(ot_dataset *d, ot_columns *t, const char *name, const int *list, int n, ot_error *err)
{
    ot_goal *w = &t->wanted[t->n_targets++];
    *w = (ot_goal){ .name = name, .n = n, .column = ot_arena_copy(d->arena, list, (size_t)n * sizeof *list) };
    if (!name || !w->column) return ot_table_no_memory(t, err);
    for (int i = 0; i < n; i++) {
        ot_column *q = &t->column[list[i]];
        const char *other = list[i] == t->split_column ? "split" : list[i] == t->group_column ? "group" : NULL;
        if (other)
            return ot_fail(err, OT_E_USAGE,
                           "%s: column '%s' is the target and that of --%s: name another with --target", t->path,
                           q->name, other);
        OT_TRY(check_target(d, t, q, err));
        if (q->kind == OT_KIND_IMAGE && n == 1) {
            w->member = ot_arena_alloc(d->arena, sizeof *w->member * ((size_t)t->rows + 1));
            if (!w->member) return ot_table_no_memory(t, err);
            break;
        }
        w->tags = n == 1 && q->listed && t->text && ot_texts_are_words(t->text);
        OT_TRY(ot_table_names_classes(d, t, list[i], &q->named, err));
        w->text = w->tags ? q->strings : w->text || is_text(q) || q->named;
        if (q->listed && !w->tags)
            return ot_fail(
                err, OT_E_DATA,
                "%s: line %lld: column '%s', the target, contains lists (%.40s): for several labels use a column of 0 "
                "and 1 for each label; tags of words need a list of words in another column, and --tokenizer",
                t->path, (long long)q->odd.line, q->name, q->odd.text);
        bool values = q->whole < q->count[OT_CELL_NUMBER] + q->count[OT_CELL_CODE]; /* whole numbers may name classes */
        if (values && !q->named) OT_TRY(ot_table_check_stray(t, q, false, err));
        if (q->named && n > 1)
            return ot_fail(
                err, OT_E_DATA,
                "%s: --categories: column '%s' is one of several targets of an output, which must be numbers", t->path,
                q->name);
        if (w->text && n > 1)
            return ot_fail(
                err, OT_E_DATA,
                "%s: line %lld, column '%s': contains '%.40s'; several targets together must be numbers: write a "
                "column of 0 and 1 for each of its values",
                t->path, (long long)q->odd.line, q->name, q->odd.text);
    }
    for (int i = 0; i + 1 < t->n_targets; i++)
        if (w->text && t->wanted[i].text)
            return ot_fail(err, OT_E_DATA, "%s: columns '%s' and '%s' contain strings; only one target can", t->path,
                           t->column[t->wanted[i].column[0]].name, t->column[list[0]].name);
    d->column = t->n_targets > 1 || n > 1 ? t->target : t->column[list[0]].name;
    return OT_OK;
}

/* --target: a column, several, or OUTPUT=columns. */
static ot_status given_targets(ot_dataset *d, ot_columns *t, const char *text, ot_error *err)
{
    int n, *list = ot_arena_alloc(d->arena, (size_t)(t->columns + 1) * sizeof *list);
    if (!list) return ot_table_no_memory(t, err);
    list[0] = ot_column_find(t, text);
    if (list[0] >= 0) return add_target(d, t, "target", list, 1, err);
    for (const char *p = text, *from, *end; *p; p = *end ? end + 1 : end) {
        end = ot_table_group_end(p, &from);
        OT_TRY(ot_table_read_list(t, from, end, "the target", list, &n, NULL, err));
        if (!n) return ot_table_no_column(t, from, end, "the target", err);
        const char *name = from == p ? "target" : ot_arena_printf(d->arena, "target_%.*s", (int)(from - 1 - p), p);
        if (t->n_targets == t->columns) return ot_fail(err, OT_E_DATA, "%s: --target names too many columns", t->path);
        OT_TRY(add_target(d, t, name, list, n, err));
    }
    return t->n_targets ? OT_OK : ot_table_no_column(t, text, text, "the target", err);
}

/* Beside images, without --target. */
static ot_status image_labels(ot_dataset *d, ot_columns *t, ot_error *err)
{
    int n, *list = ot_arena_alloc(d->arena, (size_t)t->columns * sizeof *list);
    if (!list) return ot_table_no_memory(t, err);
    OT_TRY(ot_table_labels(d, t, list, &n, err));
    if (!n && t->options.unlabelled) return OT_OK;
    if (!n) return ot_fail(err, OT_E_DATA, "%s: has images only; a column for the target is missing", t->path);
    const char *names = d->column;
    OT_TRY(add_target(d, t, "target", list, n, err));
    d->column = names;
    d->rule = n == 1 && list[0] == t->columns - 1 ? "the last one" : NULL;
    return OT_OK;
}

/* How many columns are named `target`; *last is the last of them. */
static int named_target(const ot_columns *t, int compare(const char *, const char *), int *last)
{
    int n = 0;
    for (int i = 0; i < t->columns; i++)
        if (!compare(t->column[i].name, "target")) *last = i, n++;
    return n;
}

/* The column `last`; with it those of the same list of numbers, or all of the list `target`.  rule: why that column; NULL: it
 * is named target. */
static ot_status target_by_rule(ot_dataset *d, ot_columns *t, const char *rule, int last, ot_error *err)
{
    const char *name = t->column[last].name, *dot = strrchr(name, '.');
    int first = last, n = !rule ? 0 : ot_table_columns_of_list(t, "target", strlen("target"), &first);
    const char *list = n ? "target" : NULL;
    d->rule = n ? NULL : rule;
    if (!n && rule && dot) n = ot_table_columns_of_list(t, name, (size_t)(dot - name), &first);
    if (n < 2) return add_target(d, t, "target", n ? &first : &last, 1, err);
    int *all = ot_arena_alloc(d->arena, (size_t)n * sizeof *all);
    if (!list) list = ot_arena_printf(d->arena, "%.*s", (int)(dot - name), name);
    if (!all || !list) return ot_table_no_memory(t, err);
    for (int i = 0; i < n; i++) all[i] = first + i;
    OT_TRY(add_target(d, t, "target", all, n, err));
    d->column = list;
    return OT_OK;
}

ot_status ot_table_choose_targets(ot_dataset *d, ot_columns *t, ot_error *err)
{
    const ot_data_options *o = &t->options;
    const char *recorded = NULL, *rule = "the last one";
    int named = 0, last = t->columns - 1;
    while (last > 0 && (last == t->split_column || last == t->group_column)) last--;
    t->n_targets = 0;
    t->wanted = ot_arena_alloc(d->arena, sizeof *t->wanted * (size_t)t->columns);
    if (!t->wanted) return ot_table_no_memory(t, err);
    d->column = NULL;
    d->rule = NULL;
    if (!t->target) OT_TRY(ot_table_recall_target(t, d->arena, &recorded, err));
    if (recorded && t->mark == OT_ROWS_CONLL && ot_column_find(t, recorded) < 0)
        recorded = NULL; /* the file has no names of its own */
    if (t->target || recorded) {
        ot_error missing = { 0 };
        ot_status s = given_targets(d, t, t->target ? t->target : recorded, &missing);
        if (s && o->unlabelled && s == OT_E_DATA) {
            t->n_targets = 0;
            d->column = NULL;
            return OT_OK;
        }
        if (s) ot_fail(err, s, "%-s", missing.text);
        for (int i = 0; s == OT_E_DATA && t->target && i < o->n_inputs; i++)
            if (!strcmp(o->input[i].name, t->target))
                ot_fail_more(
                    err, s,
                    "the columns of input '%s' are the target of an autoencoder if both options name them: --inputs a,b "
                    "--target a,b",
                    t->target);
        return s;
    }
    if (t->text && o->unlabelled && t->columns == 1) return OT_OK;
    if (t->text && ot_texts_has(t->text, last)) { /* the first that is no text */
        last = 0;
        while (last < t->columns - 1 && ot_texts_has(t->text, last)) last++;
        if (last < t->columns - 1) rule = "the first without text";
    }
    int label = ot_column_find(t, "label");
    bool usable = t->text && label != t->split_column && label != t->group_column && !ot_texts_has(t->text, label);
    if (label >= 0 && label != last && usable) last = label, rule = "by its name";
    named = named_target(t, strcmp, &last);
    if (!named) named = named_target(t, strcasecmp, &last); /* Target, where no column is named exactly so */
    if (named > 1) return ot_fail(err, OT_E_DATA, "%s: %d columns are named 'target', expected one", t->path, named);
    if (!named && o->unlabelled && o->n_inputs == 1 && ot_table_elements(o->input) == t->columns) return OT_OK;
    if (!named && t->images) return image_labels(d, t, err);
    return target_by_rule(d, t, named ? NULL : rule, last, err);
}
