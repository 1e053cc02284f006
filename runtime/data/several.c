/* several.c - a data set of several files, whose arrays are put together, each file with the name of its array or without.
 *
 * A part is PATH or NAME=PATH, and parts are divided by newlines.  A file that exists by the whole text is that file. */
#include "runtime/data/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

const char *ot_data_path(const char *part)
{
    const char *first = strchr(part, '=');
    if (!first || first == part || exists(part)) return part;
    for (const char *p = first; p; p = strchr(p + 1, '=')) /* names of inputs and paths may contain it */
        if (exists(p + 1)) return p + 1;
    return first + 1;
}

bool ot_several(const char *spec) { return !exists(spec) && (strchr(spec, '\n') || ot_data_path(spec) != spec); }

/* Opens one part, whose arrays are added to d. */
static ot_status open_one(const char *part, ot_dataset *d, ot_error *err)
{
    const char *path = ot_data_path(part);
    struct stat st;
    int first = d->n, inputs = 0, at = 0;
    if (stat(path, &st))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be opened: %s", path,
                       strerror_r(errno, (char[128]){ 0 }, 128));
    if (!S_ISREG(st.st_mode))
        return ot_fail(err, OT_E_DATA, "%s: is not a file; only files of arrays can be given together", path);
    if (ot_ends_in(path, ".tar") || ot_ends_in(path, ".zip"))
        return ot_fail(
            err, OT_E_DATA,
            "%s: is an archive: several .tar files can be given together, but without names, other files and .zip",
            path);
    OT_TRY(ot_dataset_file(path, d, err));
    if (d->table || d->windows || d->members)
        return ot_fail(
            err, OT_E_DATA,
            "%s: only files of arrays can be given together, or with a name, not tables, text files and images; "
            "give it alone: --data %s",
            path, path);
    for (int i = first; i < d->n; i++)
        if (d->array[i].role == OT_ARRAY_INPUT) inputs++, at = i;
    if (path == part) return OT_OK;
    if (d->n - first == 1) at = first;
    else if (inputs != 1)
        return ot_fail(err, OT_E_DATA, "%s: contains %d arrays, which keep their names: give it without '%.*s='", path,
                       d->n - first, (int)(path - part) - 1, part);
    char *name = ot_arena_alloc(d->arena, (size_t)(path - part));
    if (!name) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    memcpy(name, part, (size_t)(path - part) - 1);
    d->array[at].t.name = name;
    return OT_OK;
}

/* Names differ; of two arrays without a name one is an input and one a target. */
static ot_status check_names(const ot_dataset *d, ot_error *err)
{
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < i; k++) {
            const ot_array *a = &d->array[i], *b = &d->array[k];
            if (strcmp(a->t.name, b->t.name)) continue;
            if (*a->t.name)
                return ot_fail(
                    err, OT_E_DATA,
                    "%s: two arrays are named '%s'; several files are the arrays of one set, not parts of it: use one file "
                    "after the other, or put the samples into one file",
                    d->name, a->t.name);
            if (a->role == b->role)
                return ot_fail(err, OT_E_DATA,
                               "%s: two files contain arrays without names; name them: --data INPUT=FILE --data "
                               "target=FILE; or use one file after the other, if they are parts of one set",
                               d->name);
        }
    return OT_OK;
}

ot_status ot_several_open(const char *spec, ot_dataset *d, ot_error *err)
{
    char *parts = ot_arena_strdup(d->arena, spec);
    if (!parts) return ot_fail(err, OT_E_NOMEM, "%s: no memory", spec);
    const char *all = NULL;
    d->several = true;
    for (char *p = parts, *next; p; p = next) {
        if ((next = strchr(p, '\n'))) *next++ = '\0';
        d->name = ot_data_path(p); /* in messages, and of the file that is opened */
        OT_TRY(open_one(p, d, err));
        all = all ? ot_arena_printf(d->arena, "%s + %s", all, d->name) : d->name;
        if (!all) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    }
    d->name = all;
    return check_names(d, err);
}
