/* npz.c - reads numpy's archive of arrays: a zip whose members are .npy files.
 *
 * Refused: members that are not .npy, duplicate names, what zip.c refuses.  An archive without members is an empty data set.
 * Source  NumPy Enhancement Proposal 1 (the members). */
#include "runtime/data/internal.h"
#include "runtime/data/zip.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 1 << 16 };

static int64_t read_stream(ot_stream *s, void *p, int64_t n, ot_error *err)
{
    (void)err; /* the archive's own */
    return ot_zip_read(s->state, p, n);
}

/* What to do with an archive of another kind, by its first member. */
static const char *other_archive(const ot_zip_member *m)
{
    if (ot_ends_in(m->name, "data.pkl"))
        return "; it is a file of torch.save: save its tensors with numpy.savez('data.npz', x=x.numpy(), ...)";
    bool office = ot_ends_in(m->name, ".xml") || ot_ends_in(m->name, ".rels") || !strcmp(m->name, "mimetype");
    return office ? "; if it is a spreadsheet, save the table as .csv" : "";
}

static ot_status read_array(void *user, ot_zip_member *m)
{
    ot_dataset *d = user;
    ot_error *err = m->z->err;
    uint32_t n = m->length;
    if (n < 4 || strcmp(m->name + n - 4, ".npy"))
        return ot_fail(err, OT_E_DATA, "%s: member '%s' is not an .npy array%s", m->z->path, m->name, other_archive(m));
    char *where = ot_arena_printf(d->arena, "%s: %s", m->z->path, m->name);
    char *name = where ? ot_arena_printf(d->arena, "%.*s", (int)n - 4, m->name) : NULL;
    ot_array *a = name ? ot_dataset_add(d, name) : NULL;
    if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", m->z->path);
    ot_stream s = { .name = where, .most = m->size, .state = m, .read = read_stream };
    OT_TRY(ot_zip_begin(m));
    ot_status status = ot_npy_read(&s, d, a, err);
    ot_zip_end(m);
    return status;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Of the arrays from `first` on. */
static ot_status check_names(const ot_zip *z, const ot_dataset *d, int first)
{
    int n = d->n - first;
    if (n < 2) return OT_OK;
    const char **name = malloc((size_t)n * sizeof *name);
    if (!name) return ot_fail(z->err, OT_E_NOMEM, "%s: no memory", z->path);
    for (int i = 0; i < n; i++) name[i] = d->array[first + i].t.name;
    qsort(name, (size_t)n, sizeof *name, by_name);
    ot_status s = OT_OK;
    for (int i = 1; i < n && !s; i++)
        if (!strcmp(name[i - 1], name[i]))
            s = ot_fail(z->err, OT_E_DATA, "%s: has two arrays named '%s'", z->path, name[i]);
    free(name);
    return s;
}

ot_status ot_npz_open(const char *path, ot_dataset *d, ot_error *err)
{
    ot_zip z;
    ot_error own = { 0 };
    int first = d->n;
    ot_status s = ot_zip_open(path, &z, err ? err : &own);
    if (!s) s = ot_zip_each(&z, MOST_MEMBERS, read_array, d);
    if (!s) s = check_names(&z, d, first);
    ot_zip_close(&z);
    return s;
}

ot_status ot_npz_read(const char *path, ot_dataset **out, ot_error *err)
{
    *out = NULL;
    ot_dataset *d = ot_dataset_new(path);
    if (!d) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    ot_status s = ot_npz_open(path, d, err);
    if (s) ot_dataset_free(d);
    else *out = d;
    return s;
}
