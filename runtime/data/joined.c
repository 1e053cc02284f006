/* joined.c - the files of several archives as those of one, such as the shards of a data set. */
#include "runtime/data/members.h"

#include <stdlib.h>
#include <string.h>

static ot_status read_joined(const ot_members *m, const ot_packed_file *f, uint8_t *to, ot_error *err)
{
    const ot_members *of = m->joined[f->in];
    return of->read(of, f, to, err);
}

static ot_status join(ot_members *m, ot_error *err)
{
    for (int k = 0; k < m->n_joined; k++)
        for (int64_t i = 0; i < m->joined[k]->n; i++) {
            ot_packed_file f = m->joined[k]->list[i];
            f.in = k;
            OT_TRY(ot_members_add(m, f.name, strlen(f.name), &f, err));
        }
    return ot_members_sort(m, err);
}

ot_status ot_members_tars(const char *name, const char *const *path, int n, ot_members **out, ot_error *err)
{
    *out = NULL;
    ot_members *m = ot_members_new(name);
    if (m) m->joined = calloc((size_t)n + 1, sizeof(ot_members *));
    if (!m || !m->joined) {
        ot_members_free(m);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", name);
    }
    m->read = read_joined;
    ot_status s = OT_OK;
    for (int i = 0; i < n && !s; i++) {
        s = ot_members_tar(path[i], &m->joined[i], err);
        m->n_joined += !s;
    }
    if (!s) s = join(m, err);
    if (s) ot_members_free(m);
    else *out = m;
    return s;
}
