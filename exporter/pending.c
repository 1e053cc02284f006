/* pending.c - a model and its data files that appear together, or not at all.
 *
 * No file that is there is ever written: a data file's name has a checksum in it, and one that is there and already holds
 * the very bytes is used.
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
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t stem = strlen(base);
    *p = (ot_pending){ .arena = a };
    OT_TRY(ot_replace_begin_at(folder ? *folder : AT_FDCWD, path, &p->r, err));
    if (stem > 5 && !strcmp(base + stem - 5, ".onnx")) stem -= 5;
    p->to = (ot_place){ .path = path, .dir = ot_replace_folder(p->r), .base = base };
    p->to.stem = ot_arena_printf(a, "%.*s", (int)(stem < 200 ? stem : 200), base);
    return p->to.stem ? OT_OK : no_memory(p, err);
}

/* ---- sinks -------------------------------------------------------------------------------- */

ot_status ot_sink_file(void *r, const void *bytes, size_t n, ot_error *err) { return ot_replace_write(r, bytes, n, err); }

static ot_status sink_checksum(void *to, const void *bytes, size_t n, ot_error *err)
{
    (void)err;
    uint32_t *crc = to;
    *crc = (uint32_t)crc32_z(*crc, bytes, n);
    return OT_OK;
}

typedef struct compare {
    int     fd;
    int64_t at;
    bool    differs;
} compare;

static ot_status sink_compare(void *to, const void *bytes, size_t n, ot_error *err)
{
    (void)err;
    compare *c = to;
    const unsigned char *p = bytes;
    unsigned char block[4096];
    while (n && !c->differs) {
        ssize_t got = pread(c->fd, block, n < sizeof block ? n : sizeof block, (off_t)c->at);
        if (got < 0 && errno == EINTR) continue;
        c->differs = got <= 0 || memcmp(block, p, (size_t)got) != 0;
        p += got > 0 ? got : 0;
        c->at += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return OT_OK;
}

/* ---- data files ----------------------------------------------------------------------------- */

static bool holds(const ot_content *content, int fd, ot_error *err)
{
    struct stat st;
    compare c = { .fd = fd };
    return !fstat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == content->size &&
           content->stream(content->what, sink_compare, &c, err) == OT_OK && !c.differs;
}

/* Whether `name` is a plain file, or one that waits to become it, with just that content.  *there: something is. */
static bool holds_it(const ot_pending *p, const ot_content *c, const char *name, bool *there, ot_error *err)
{
    struct stat st;
    for (const ot_data_files *made = p->data; made; made = made->next)
        if (!strcmp(made->name, name)) return *there = true, holds(c, ot_replace_fd(made->r), err);
    *there = fstatat(p->to.dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
    if (!*there || !S_ISREG(st.st_mode) || st.st_nlink != 1) return false;
    int fd = openat(p->to.dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool same = fd >= 0 && holds(c, fd, err);
    if (fd >= 0) close(fd);
    return same;
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
        bool there;
        if (holds_it(p, c, *name, &there, err)) return OT_OK;
        if (!there) return data_make(p, c, *name, err);
    }
    return ot_fail(err, OT_E_IO, "%s: no free name for its external data", p->to.path);
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
    return ot_fail(err, s == OT_E_NOMEM ? s : OT_E_IO, "%s: what was written does not read back: %-s", p->to.path, found.text);
}

/* The data first. */
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
