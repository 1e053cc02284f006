/* table_lists.c - lists of columns in options: "a,b" and "NAME=a,b;NAME=c"; and columns in messages. */
#include <string.h>

#include "runtime/data/table.h"

/* The column that `text` begins with, up to a comma or to `end`; names may have commas.  -1: there is none. */
static int first_column(const ot_columns *t, const char *text, const char *end, const char **behind)
{
    for (const char *stop = text; stop <= end; stop++) {
        if (stop < end && *stop != ',') continue;
        size_t n = (size_t)(stop - text);
        for (int i = 0; i < t->columns; i++) {
            if (strlen(t->column[i].name) != n || memcmp(t->column[i].name, text, n)) continue;
            *behind = stop < end ? stop + 1 : end;
            return i;
        }
    }
    return -1;
}

int ot_table_columns_of_list(const ot_columns *t, const char *name, size_t length, int *first)
{
    for (int i = 0; i < t->columns && ot_rows_has_objects(t->mark); i++) {
        int n = 0;
        for (; i + n < t->columns; n++) {
            char number[16];
            const char *is = t->column[i + n].name;
            snprintf(number, sizeof number, "%d", n);
            if (strncmp(is, name, length) || is[length] != '.' || strcmp(is + length + 1, number)) break;
        }
        *first = i;
        if (n) return n;
    }
    return 0;
}

ot_status ot_table_list_rest(int n, ot_error *err)
{
    if (n > OT_TABLE_MOST_NAMES) ot_fail_more(err, OT_E_DATA, "  (%d more)", n - OT_TABLE_MOST_NAMES);
    return OT_E_DATA;
}

ot_status ot_table_list_columns(const ot_columns *t, ot_error *err)
{
    for (int i = 0; i < t->columns && i < OT_TABLE_MOST_NAMES; i++)
        ot_fail_more(err, OT_E_DATA, "  %s", t->column[i].name);
    return ot_table_list_rest(t->columns, err);
}

ot_status ot_table_no_column(const ot_columns *t, const char *text, const char *end, const char *what, ot_error *err)
{
    size_t n = strcspn(text, ",");
    if (text + n > end) n = (size_t)(end - text);
    ot_fail(err, OT_E_DATA, "%s: no column '%.*s' for %s; its columns are:", t->path, (int)n, text, what);
    return ot_table_list_columns(t, err);
}

ot_status ot_table_read_list(const ot_columns *t, const char *text, const char *end, const char *what, int *list,
                             int *n, bool *without, ot_error *err)
{
    *n = 0;
    while (text < end) {
        const char *behind;
        int c = first_column(t, text, end, &behind), many = 1;
        bool minus = c < 0 && without && *text == '-';
        if (minus) c = first_column(t, text + 1, end, &behind);
        if (c < 0) {
            size_t length = strcspn(text + minus, ",");
            if (text + minus + length > end) length = (size_t)(end - text - minus);
            behind = text + minus + length + (text + minus + length < end);
            many = ot_table_columns_of_list(t, text + minus, length, &c);
        }
        if (c < 0 || !many || *n + many > t->columns) return ot_table_no_column(t, text + minus, end, what, err);
        for (int i = 0; i < many; i++)
            if (minus) without[c + i] = true;
            else list[(*n)++] = c + i;
        text = behind;
    }
    return OT_OK;
}

ot_status ot_table_columns(const ot_columns *t, const char *text, const char *what, int *list, int *n, ot_error *err)
{
    return ot_table_read_list(t, text, text + strlen(text), what, list, n, NULL, err);
}

const char *ot_table_group_end(const char *p, const char **list)
{
    const char *end = p + strcspn(p, ";"), *is = memchr(p, '=', (size_t)(end - p));
    *list = is ? is + 1 : p;
    return end;
}
