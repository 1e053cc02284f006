/* pending.c - writes a model and its data files so that either all of them appear or none.
 *
 * An existing file is never written: the name of a data file contains a checksum, and an existing file of that name
 * with the same bytes is used.
 *
 * Memory  Data files are streamed, never held. */
#include "exporter/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static ot_status no_memory(const ot_pending *p, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory to write it", p->to.path);
}

ot_status ot_pending_open(ot_pending *p, ot_arena *a, const char *path, const int *folder, ot_error *err)
{
    *p = (ot_pending){ .arena = a };
    OT_TRY(ot_replace_begin_at(folder ? *folder : AT_FDCWD, path, &p->r, err));
    const char *base = ot_replace_name(p->r); /* links are followed: the data files belong beside the file */
    size_t stem = strlen(base);
    if (stem > 5 && !strcmp(base + stem - 5, ".onnx")) stem -= 5;
    p->to = (ot_place){ .path = path, .dir = ot_replace_folder(p->r), .base = base };
    p->to.stem = ot_arena_printf(a, "%.*s", (int)(stem < 200 ? stem : 200), base);
    return p->to.stem ? OT_OK : no_memory(p, err);
}

/* ---- sinks -------------------------------------------------------------------------------- */

ot_status ot_sink_file(void *r, const void *bytes, size_t n, ot_error *err)
{
    return ot_replace_write(r, bytes, n, err);
}

static ot_status sink_checksum(void *to, const void *bytes, size_t n, ot_error *err)
{
    (void)err;
    uint32_t *crc = to;
    *crc = (uint32_t)crc32_z(*crc, bytes, n);
    return OT_OK;
}

typedef struct compare {
    int fd;
    int64_t at;
    const char *name; /* for messages */
    bool differs;
} compare;

static ot_status cannot_read(const char *name, int number, ot_error *err)
{
    return ot_fail(err, OT_E_IO, "external data '%.300s': cannot be read: %s", name,
                   strerror_r(number, (char[128]){ 0 }, 128));
}

static ot_status sink_compare(void *to, const void *bytes, size_t n, ot_error *err)
{
    compare *c = to;
    const unsigned char *p = bytes;
    unsigned char block[4096];
    while (n && !c->differs) {
        int64_t want = n < sizeof block ? (int64_t)n : (int64_t)sizeof block,
                got = ot_read_at(c->fd, block, want, c->at);
        if (got < 0) return cannot_read(c->name, errno, err);
        c->differs = got < want || memcmp(block, p, (size_t)got) != 0;
        p += want;
        c->at += want;
        n -= (size_t)want;
    }
    return OT_OK;
}

/* ---- data files ----------------------------------------------------------------------------- */

static ot_status holds(const ot_content *content, int fd, const char *name, bool *yes, ot_error *err)
{
    struct stat st;
    compare c = { .fd = fd, .name = name };
    *yes = false;
    if (fstat(fd, &st)) return cannot_read(name, errno, err);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != content->size) return OT_OK;
    OT_TRY(content->stream(content->what, sink_compare, &c, err));
    *yes = !c.differs;
    return OT_OK;
}

/* *there: something has that name; *same: a plain file, or one that waits to become it, with just that content.  What may
 * not be read is another's. */
static ot_status holds_it(const ot_pending *p, const ot_content *c, const char *name, bool *there, bool *same,
                          ot_error *err)
{
    struct stat st;
    *same = false;
    for (const ot_data_files *made = p->data; made; made = made->next)
        if (!strcmp(made->name, name)) {
            *there = true;
            return holds(c, ot_replace_fd(made->r), name, same, err);
        }
    *there = !fstatat(p->to.dir, name, &st, AT_SYMLINK_NOFOLLOW);
    if (!*there) return errno == ENOENT ? OT_OK : cannot_read(name, errno, err);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1) return OT_OK;
    int fd = openat(p->to.dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return errno == EACCES || errno == EPERM ? OT_OK : cannot_read(name, errno, err);
    ot_status s = holds(c, fd, name, same, err);
    close(fd);
    return s;
}

static ot_status data_make(ot_pending *p, const ot_content *c, const char *name, ot_error *err)
{
    ot_data_files *made = ot_arena_alloc(p->arena, sizeof *made);
    if (!made) return no_memory(p, err);
    ot_replace *r = NULL;
    ot_status s = ot_replace_begin_at(p->to.dir, name, &r, err);
    if (s == OT_OK) s = c->stream(c->what, ot_sink_file, r, err);
    if (s == OT_OK) s = ot_replace_sync(r, err);
    if (s != OT_OK) {
        ot_replace_abort(r);
        return s;
    }
    *made = (ot_data_files){ p->data, name, r };
    p->data = made;
    return OT_OK;
}

ot_status ot_pending_data(ot_pending *p, const ot_content *c, const char *own, const char **name, ot_error *err)
{
    uint32_t crc = 0;
    for (int i = own ? -1 : 0; i < OT_DATA_NAMES; i++) {
        if (i == 0) OT_TRY(c->stream(c->what, sink_checksum, &crc, err));
        *name = i < 0 ? own : ot_data_name(p->arena, p->to.stem, crc + (uint32_t)i);
        if (!*name) return no_memory(p, err);
        bool there, same;
        OT_TRY(holds_it(p, c, *name, &there, &same, err));
        if (same) return OT_OK;
        if (!there) return data_make(p, c, *name, err);
    }
    return ot_fail(err, OT_E_IO, "%s: no unused name for its external data", p->to.path);
}

/* ---- the end ----------------------------------------------------------------------------------- */

ot_status ot_pending_import(const ot_pending *p, ot_imported **out, ot_error *err)
{
    ot_error found = { 0 };
    int n = 0;
    *out = NULL;
    for (const ot_data_files *d = p->data; d; d = d->next) n++;
    struct ot_unnamed_data *data = ot_arena_alloc(p->arena, sizeof *data * (size_t)(n + 1));
    if (!data) return ot_fail(err, OT_E_NOMEM, "%s: no memory to read it back", p->to.path);
    n = 0;
    for (const ot_data_files *d = p->data; d; d = d->next)
        data[n++] = (struct ot_unnamed_data){ d->name, ot_replace_fd(d->r) };
    ot_unnamed u = { .fd = ot_replace_fd(p->r), .folder = p->to.dir, .n = n, .data = data };
    ot_status s = ot_import_unnamed(&u, p->to.path, out, &found);
    if (s == OT_OK) return OT_OK;
    return ot_fail(err, s == OT_E_NOMEM ? s : OT_E_IO, "%s: the written file cannot be read back: %-s", p->to.path,
                   found.text);
}

/* Data files get their names before the model that refers to them. */
ot_status ot_pending_place(ot_pending *p, const ot_imported *m, ot_error *err)
{
    const char **old = ot_data_old(p->arena, &p->to, ot_replace_fd(p->r), m);
    ot_status s = OT_OK;
    for (ot_data_files *d = p->data; d && s == OT_OK; d = d->next) s = ot_replace_place_new(d->r, err);
    if (s == OT_OK) s = ot_replace_place(p->r, err);
    for (; s == OT_OK && old && *old; old++) unlinkat(p->to.dir, *old, 0); /* one that cannot be removed stays */
    return s;
}

void ot_pending_end(ot_pending *p)
{
    bool there = p->r && ot_replace_placed(p->r);
    for (const ot_data_files *d = p->data; d; d = d->next) {
        if (there) ot_replace_abort(d->r);
        else ot_replace_undo(d->r);
    }
    ot_replace_abort(p->r);
    p->r = NULL;
    p->data = NULL;
}
