/* table_parts.c - parts of a table for training, validation and test, which a column names (--split). */
#include <string.h>
#include <strings.h>

#include "runtime/data/table.h"

/* What users call the parts; the first is that of messages. */
static const char *const names[OT_SPLITS][4] = { [OT_SPLIT_TRAIN] = { "train", "training" },
                                                 [OT_SPLIT_VAL] = { "val", "valid", "validation", "dev" },
                                                 [OT_SPLIT_TEST] = { "test", "testing" } };

ot_status ot_table_find_named(const ot_columns *t, const ot_rows *first, const char *name, const char *option,
                              int *column, ot_error *err)
{
    *column = -1;
    for (int i = 0; i < first->n; i++)
        if (!strcmp(first->cell[i], name)) *column = i;
    if (*column >= 0) return OT_OK;
    ot_fail(err, OT_E_DATA, "%s: %s: it has no column '%s'; its columns are", t->path, option, name);
    for (int i = 0; i < first->n && i < 64; i++) ot_fail_more(err, OT_E_DATA, "  %s", first->cell[i]);
    return OT_E_DATA;
}

ot_status ot_table_find_parts(ot_columns *t, const ot_rows *first, ot_error *err)
{
    t->split_column = -1;
    return t->options.parts ? ot_table_find_named(t, first, t->options.parts, "--split", &t->split_column, err) : OT_OK;
}

static int part_of(const char *cell)
{
    for (int s = 0; s < OT_SPLITS; s++)
        for (int i = 0; i < OT_LEN(names[s]) && names[s][i]; i++)
            if (!strcasecmp(cell, names[s][i])) return s;
    return -1;
}

ot_status ot_table_reads_row(const ot_columns *t, const ot_rows *r, bool *reads, ot_error *err)
{
    *reads = true;
    if (t->split_column < 0 || t->split_column >= r->n) return OT_OK;
    int part = part_of(r->cell[t->split_column]);
    if (part < 0)
        return ot_fail(err, OT_E_DATA, "%s: line %lld: column '%s' (--split) has '%.60s'; expected train, val or test",
                       t->path, (long long)r->line, t->options.parts, r->cell[t->split_column]);
    *reads = part == (int)t->part;
    return OT_OK;
}

ot_status ot_table_hint_parts(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    for (int i = 0; i < t->columns && !t->options.parts && !t->options.alone; i++) {
        const ot_words *w = &t->column[i].words;
        bool parts = w->n > 1 && !ot_table_is_target(t, i);
        for (int k = 0; k < w->n && parts; k++) parts = part_of(w->word[k]) >= 0;
        if (parts)
            return ot_dataset_tell(d, err, "%s: column '%s' seems to name the part of each row; --split %s uses it",
                                   t->path, t->column[i].name, t->column[i].name);
    }
    return OT_OK;
}

ot_status ot_table_tell_part(ot_dataset *d, const ot_columns *t, ot_error *err)
{
    if (!t->rows)
        return ot_fail(err, OT_E_DATA, "%s: no row of column '%s' (--split) is '%s'", t->path, t->options.parts,
                       names[t->part][0]);
    return ot_dataset_tell(d, err, "%s: %lld rows are '%s' in column '%s' (--split)", t->path, (long long)t->rows,
                           names[t->part][0], t->options.parts);
}
