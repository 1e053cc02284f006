/* copied.c - columns of a table as the file has them, for predictions that are written beside them. */
#include <string.h>

#include "runtime/data/table.h"

/* Of windows of rows, the last row of each is copied. */
typedef struct copier {
    const int *list;
    int n;
    const char **text;
    const int64_t *place; /* of each row; NULL: as in the file */
    ot_arena *arena;
} copier;

static ot_status copy_row(void *user, const ot_rows *r, int64_t row, ot_error *err)
{
    const copier *k = user;
    if (k->place) row = k->place[row];
    for (int i = 0; i < k->n; i++)
        if (!(k->text[row * k->n + i] = ot_arena_strdup(k->arena, r->cell[k->list[i]])))
            return ot_fail(err, OT_E_NOMEM, "no memory for the columns of --copy");
    return OT_OK;
}

ot_status ot_dataset_copy_columns(const ot_dataset *d, const char *columns, ot_arena *a, ot_copied_columns *out,
                                  ot_error *err)
{
    const ot_columns *t = d->table;
    *out = (ot_copied_columns){ .n = 0 };
    if (!t) return ot_fail(err, OT_E_USAGE, "--copy: %s is not a table of one file", d->name);
    int *list = ot_arena_alloc(a, sizeof *list * ((size_t)t->columns + 1)), n;
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory for the columns of --copy");
    OT_TRY(ot_table_columns(t, columns, "--copy", list, &n, err));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (list[k] == list[i])
                return ot_fail(err, OT_E_USAGE, "--copy: column '%s' is named twice", t->column[list[i]].name);
    const char **name = ot_arena_alloc(a, sizeof *name * ((size_t)n + 1));
    const char **text = ot_arena_alloc(a, sizeof *text * ((size_t)n * (size_t)t->rows + 1));
    if (!name || !text) return ot_fail(err, OT_E_NOMEM, "no memory for the columns of --copy");
    for (int i = 0; i < n; i++)
        if (!(name[i] = ot_arena_strdup(a, t->column[list[i]].name)))
            return ot_fail(err, OT_E_NOMEM, "no memory for the columns of --copy");
    copier k = { list, n, text, t->place, a };
    OT_TRY(ot_table_each_row(t, copy_row, &k, err));
    for (int64_t i = 0; i < d->samples && t->windows.length; i++) /* they come in order: no text is needed twice */
        memmove(text + i * n, text + ot_row_windows_last(t, i) * n, (size_t)n * sizeof *text);
    *out = (ot_copied_columns){ n, t->windows.length ? d->samples : t->rows, name, text };
    return OT_OK;
}
