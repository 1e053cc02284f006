/* folder.c - the files below a folder. */
#include "runtime/base/io.h"
#include "runtime/data/members.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 16 };

typedef struct walk {
    ot_members *m;
    char path[PATH_MAX]; /* relative to the folder, of the entry that is looked at */
    ot_error *err;
} walk;

static ot_status failed(const ot_members *m, const char *name, int number, ot_error *err)
{
    if (number == EXDEV)
        return ot_fail(err, OT_E_DATA, "%s/%s: is a link that leads out of the folder; put the file itself there",
                       m->path, name);
    if (number == ENOMEM) return ot_fail(err, OT_E_NOMEM, "%s/%s: no memory to open it", m->path, name);
    return ot_fail(err, OT_E_IO, "%s/%s: cannot be opened: %s", m->path, name,
                   strerror_r(number, (char[128]){ 0 }, 128));
}

static int64_t changed(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + (int64_t)st->st_mtim.tv_nsec;
}

static ot_status walk_folder(walk *w, int fd, size_t length, int depth);

/* The entry w->path of the open folder.  Takes fd: the entry itself, opened because it is a link; -1: it is none. */
static ot_status take_entry(walk *w, int folder, size_t from, int link, int depth)
{
    struct stat st;
    const char *name = w->path + from;
    int bad = link >= 0 ? fstat(link, &st) : fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW);
    int number = errno;
    if (bad) {
        if (link >= 0) close(link);
        return failed(w->m, w->path, number, w->err);
    }
    if (S_ISDIR(st.st_mode)) {
        int fd = link >= 0 ? link : openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) return failed(w->m, w->path, errno, w->err);
        return walk_folder(w, fd, strlen(w->path), depth + 1);
    }
    if (link >= 0) close(link);
    if (!S_ISREG(st.st_mode)) { /* pipes, devices */
        if (!w->m->special++ && !(w->m->special_name = ot_arena_strdup(w->m->names, w->path)))
            return ot_fail(w->err, OT_E_NOMEM, "%s: no memory", w->m->path);
        return OT_OK;
    }
    ot_packed_file f = { .size = st.st_size, .at = changed(&st), .packed = -1 };
    return ot_members_add(w->m, w->path, strlen(w->path), &f, w->err);
}

static ot_status walk_entry(walk *w, int folder, size_t length, const struct dirent *e, int depth)
{
    size_t from = length + (length > 0), n = strlen(e->d_name);
    int link = -1;
    if (from + n + 2 > sizeof w->path)
        return ot_fail(w->err, OT_E_DATA, "%s/%s: its name is too long", w->m->path, w->path);
    if (length) w->path[length] = '/';
    memcpy(w->path + from, e->d_name, n + 1);
    struct stat st;
    bool linked = e->d_type == DT_LNK || (e->d_type == DT_UNKNOWN &&
                                          !fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode));
    if (linked && (link = ot_open_beneath(w->m->fd, ".", w->path)) < 0) return failed(w->m, w->path, errno, w->err);
    return take_entry(w, folder, from, link, depth);
}

/* Adds the files below a folder.  Takes ownership of fd. */
static ot_status walk_folder(walk *w, int fd, size_t length, int depth)
{
    DIR *dir = depth < DEEPEST ? fdopendir(fd) : NULL;
    int64_t before = w->m->n;
    ot_status s = OT_OK;
    if (!dir) {
        int number = errno;
        close(fd);
        if (depth >= DEEPEST)
            return ot_fail(w->err, OT_E_DATA, "%s/%s: folders are nested more than %d deep", w->m->path, w->path,
                           DEEPEST);
        return failed(w->m, w->path, number, w->err);
    }
    const struct dirent *e;
    while (!s && (errno = 0, e = readdir(dir))) {
        if (*e->d_name == '.') continue;
        s = walk_entry(w, fd, length, e, depth);
        w->path[length] = '\0';
    }
    if (!s && errno) s = failed(w->m, w->path, errno, w->err);
    closedir(dir);
    if (s || !length || w->m->n > before) return s;
    w->path[length] = '/';
    return ot_members_add(w->m, w->path, length + 1, &(ot_packed_file){ .size = -1, .packed = -1 }, w->err);
}

static ot_status read_file(const ot_members *m, const ot_packed_file *f, uint8_t *to, ot_error *err)
{
    struct stat st;
    int fd = ot_open_beneath(m->fd, ".", f->name);
    if (fd < 0) return failed(m, f->name, errno, err);
    ot_status s = OT_OK;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        s = ot_fail(err, OT_E_DATA, "%s/%s: is not a regular file any more", m->path, f->name);
    int64_t got = s ? 0 : ot_read_at(fd, to, f->size, 0);
    if (!s && got < 0) s = failed(m, f->name, errno, err);
    if (!s && got < f->size)
        s = ot_fail(err, OT_E_IO, "%s/%s: has %lld bytes, but had %lld when the data set was opened", m->path, f->name,
                    (long long)got, (long long)f->size);
    close(fd);
    return s;
}

static ot_status not_opened(const char *path, ot_error *err)
{
    return ot_fail(err, OT_E_IO, "%s: cannot be opened: %s", path, strerror_r(errno, (char[128]){ 0 }, 128));
}

ot_status ot_members_beside(const char *folder, ot_members **out, ot_error *err)
{
    *out = NULL;
    ot_members *m = ot_members_new(folder);
    if (!m) return ot_fail(err, OT_E_NOMEM, "%s: no memory", folder);
    m->read = read_file;
    m->fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ot_status s = m->fd < 0 ? not_opened(folder, err) : OT_OK;
    if (s) ot_members_free(m);
    else *out = m;
    return s;
}

bool ot_members_id(const ot_members *m, int64_t i, ot_file_id *out)
{
    const ot_packed_file *f = &m->list[i];
    return m->read == read_file && f->size >= 0 && ot_file_of(m->fd, f->name, out);
}

bool ot_members_take(ot_members *m, const char *name, int64_t *at)
{
    struct stat st;
    int fd = ot_open_beneath(m->fd, ".", name);
    if (fd < 0) return false;
    int number = fstat(fd, &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : S_ISREG(st.st_mode) ? 0 : EINVAL;
    close(fd);
    ot_packed_file f = { .size = st.st_size, .at = changed(&st), .packed = -1 };
    *at = m->n;
    if (!number && ot_members_add(m, name, strlen(name), &f, NULL)) number = ENOMEM;
    errno = number;
    return !number;
}

ot_status ot_members_folder(const char *path, ot_members **out, ot_error *err)
{
    ot_members *m;
    OT_TRY(ot_members_beside(path, out, err));
    m = *out;
    *out = NULL;
    int fd = openat(m->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    walk w = { .m = m, .err = err };
    ot_status s = fd < 0 ? not_opened(path, err) : walk_folder(&w, fd, 0, 0);
    if (!s) s = ot_members_sort(m, err);
    if (s) ot_members_free(m);
    else *out = m;
    return s;
}
