/* members.c - the list of the files of a folder or an archive, and their content. */
#include "runtime/data/members.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

static ot_status no_memory(const ot_members *m, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory for the list of its files", m->path);
}

ot_members *ot_members_new(const char *path)
{
    ot_members *m = calloc(1, sizeof *m);
    if (m) m->names = ot_arena_new();
    if (m && m->names) m->path = ot_arena_strdup(m->names, path);
    if (!m || !m->path) {
        if (m) ot_arena_free(m->names);
        free(m);
        return NULL;
    }
    m->fd = -1;
    return m;
}

void ot_members_free(ot_members *m)
{
    if (!m) return;
    for (int i = 0; i < m->n_joined; i++) ot_members_free(m->joined[i]);
    free(m->joined);
    if (m->fd >= 0) close(m->fd);
    free(m->list);
    ot_arena_free(m->names);
    free(m);
}

ot_status ot_members_add(ot_members *m, const char *name, size_t length, const ot_packed_file *f, ot_error *err)
{
    if (m->n == m->room) {
        int64_t room = m->room ? 2 * m->room : 256;
        ot_packed_file *wide = realloc(m->list, (size_t)room * sizeof *wide);
        if (!wide) return no_memory(m, err);
        m->list = wide;
        m->room = room;
    }
    if (m->left < length + 1) {
        m->left = length + 1 > BLOCK ? length + 1 : BLOCK;
        if (!(m->block = ot_arena_alloc(m->names, m->left))) return no_memory(m, err);
    }
    ot_packed_file *to = &m->list[m->n++];
    *to = *f;
    to->name = m->block;
    memcpy(m->block, name, length);
    m->block[length] = '\0';
    m->block += length + 1;
    m->left -= length + 1;
    return OT_OK;
}

/* As strcmp, but '/' is less than any other character: "a/b" comes before "a-b/c", as "a" before "a-b". */
static int by_name(const void *a, const void *b)
{
    const unsigned char *x = (const unsigned char *)((const ot_packed_file *)a)->name;
    const unsigned char *y = (const unsigned char *)((const ot_packed_file *)b)->name;
    while (*x && *x == *y) x++, y++;
    int u = !*x ? 0 : *x == '/' ? 1 : *x + 1, v = !*y ? 0 : *y == '/' ? 1 : *y + 1;
    return u - v;
}

ot_status ot_members_sort(ot_members *m, ot_error *err)
{
    if (m->n) qsort(m->list, (size_t)m->n, sizeof *m->list, by_name);
    for (int64_t i = 1; i < m->n; i++)
        if (!strcmp(m->list[i].name, m->list[i - 1].name) && m->list[i].size >= 0)
            return ot_fail(err, OT_E_DATA, "%s: contains %s twice", m->path, m->list[i].name);
    return OT_OK;
}

bool ot_file_room_reserve(ot_file_room *r, size_t n)
{
    if (n <= r->size) return true;
    free(r->data);
    r->size = 0;
    r->data = malloc(n + n / 4 + 64);
    if (r->data) r->size = n + n / 4 + 64;
    return r->data != NULL;
}

ot_status ot_members_read(const ot_members *m, int64_t i, ot_file_room *r, ot_error *err)
{
    const ot_packed_file *f = &m->list[i];
    if (f->size > OT_MEMBER_MOST)
        return ot_fail(err, OT_E_DATA, "%s/%s: has %lld MiB; the limit is %d MiB", m->path, f->name,
                       (long long)(f->size >> 20), OT_MEMBER_MOST >> 20);
    if (!ot_file_room_reserve(r, (size_t)f->size + 1))
        return ot_fail(err, OT_E_NOMEM, "%s/%s: no memory for its %lld bytes", m->path, f->name, (long long)f->size);
    return m->read(m, f, r->data, err);
}

ot_status ot_members_peek(const ot_members *m, int64_t i, uint8_t *to, int64_t *n, ot_error *err)
{
    ot_packed_file f = m->list[i];
    if (f.size < *n) *n = f.size;
    f.part = *n < f.size;
    f.size = *n;
    return m->read(m, &f, to, err);
}
