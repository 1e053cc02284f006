/* io.c - files: reading whole ones, replacing them atomically. */
#include "runtime/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, LARGEST_CALL = 1 << 30 };

#define REASON(number) strerror_r((number), (char[128]){0}, 128)

/* ---- reading --------------------------------------------------------------- */

/* Up to n bytes; fewer at the end of the file.  -1 and errno after a failure. */
static ssize_t read_all(int fd, unsigned char *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        size_t want = n - done < LARGEST_CALL ? n - done : LARGEST_CALL;
        ssize_t got = read(fd, p + done, want);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

ot_status ot_read_file(const char *path, size_t limit, void **bytes, size_t *n, ot_error *err)
{
    *bytes = NULL;
    *n = 0;
    /* O_NONBLOCK: a pipe is refused below instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ot_fail(err, OT_E_IO, "%s: cannot be opened: %s", path, REASON(errno));
    ot_status s = OT_OK;
    unsigned char *p = NULL;
    struct stat st;
    if (fstat(fd, &st)) {
        s = ot_fail(err, OT_E_IO, "%s: cannot be examined: %s", path, REASON(errno));
    } else if (!S_ISREG(st.st_mode)) {
        s = ot_fail(err, OT_E_IO, "%s: is %s; a regular file is needed", path,
                    S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
    } else if ((uint64_t)st.st_size > limit) {
        s = ot_fail(err, OT_E_IO, "%s: has %lld bytes; at most %zu are read", path,
                    (long long)st.st_size, limit);
    } else if (!(p = malloc((size_t)st.st_size + 1))) {
        s = ot_fail(err, OT_E_NOMEM, "%s: no memory for its %lld bytes", path,
                    (long long)st.st_size);
    } else {
        ssize_t got = read_all(fd, p, (size_t)st.st_size);
        if (got < 0) {
            s = ot_fail(err, OT_E_IO, "%s: cannot be read: %s", path, REASON(errno));
        } else if (got < st.st_size) {
            s = ot_fail(err, OT_E_IO, "%s: shrank to %lld bytes while it was read", path,
                        (long long)got);
        } else {
            p[got] = 0; /* a text can be used as a string */
            *bytes = p;
            *n = (size_t)got;
            p = NULL;
        }
    }
    free(p);
    close(fd);
    return s;
}

/* ---- the cache folder -------------------------------------------------------- */

static bool make_folders(char *path)
{
    struct stat st;
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
    mkdir(path, 0777);
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool ot_cache_path(const char *folder, const char *name, bool make, char *path, size_t n)
{
    const char *root = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool        own = root && *root == '/';
    if (!own && (!home || *home != '/')) return false;
    if (snprintf(path, n, "%s%s/onnxtrain/%s", own ? root : home, own ? "" : "/.cache", folder) >= (int)n) return false;
    if (make && !make_folders(path)) return false;
    size_t at = strlen(path);
    return snprintf(path + at, n - at, "/%s", name) < (int)(n - at);
}

/* ---- replacing ------------------------------------------------------------- */

struct ot_replace {
    char *path; /* as given: for messages */
    char *temp; /* path of the temporary file */
    const char *base, *temp_base; /* their last parts: names in the folder */
    int dir;    /* the folder, open: a changed working directory does no harm */
    int fd;
    mode_t mode; /* of the file that is replaced; 0: there is none */
    bool exists; /* the temporary file is there */
    bool failed; /* a write failed: never rename */
    bool dirty;  /* written since the last sync */
    size_t n;    /* bytes in the buffer */
    unsigned char buffer[BUFFER];
};

static void replace_free(ot_replace *r)
{
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    if (r->exists) unlinkat(r->dir, r->temp_base, 0);
    if (r->dir >= 0) close(r->dir);
    free(r->path);
    free(r->temp);
    free(r);
}

static ot_status replace_fail(ot_replace *r, const char *what, int number, ot_error *err)
{
    r->failed = true;
    return ot_fail(err, OT_E_IO, "%s: %s: %s", r->path, what, REASON(number));
}

/* Opens the folder and looks at what is there now. */
static ot_status open_folder(ot_replace *r, ot_error *err)
{
    const char *slash = strrchr(r->path, '/');
    r->base = slash ? slash + 1 : r->path;
    if (!*r->base) return ot_fail(err, OT_E_IO, "%s: names a folder; a file is needed", r->path);
    char *folder = slash ? strndup(r->path, (size_t)(slash - r->path) + 1) : strdup("./");
    if (!folder) return ot_fail(err, OT_E_NOMEM, "%s: no memory", r->path);
    r->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = errno;
    free(folder);
    if (r->dir < 0) return replace_fail(r, "its folder cannot be opened", number, err);
    struct stat st;
    if (fstatat(r->dir, r->base, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISREG(st.st_mode)) r->mode = st.st_mode & 0777;
        else if (!S_ISLNK(st.st_mode)) /* a link is replaced by a file: it may lead anywhere */
            return ot_fail(err, OT_E_IO, "%s: is %s; a regular file can be replaced", r->path,
                           S_ISDIR(st.st_mode) ? "a folder" : "a device, pipe or socket");
    }
    return OT_OK;
}

/* A new file ".<name>.<process>-<try>.tmp" beside the path. */
static ot_status open_temp(ot_replace *r, ot_error *err)
{
    const size_t room = strlen(r->path) + 64, head = (size_t)(r->base - r->path);
    r->temp = malloc(room);
    if (!r->temp) return ot_fail(err, OT_E_NOMEM, "%s: no memory", r->path);
    memcpy(r->temp, r->path, head);
    r->temp_base = r->temp + head;
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    int number = EEXIST;
    for (unsigned k = 0; k < 100 && number == EEXIST; k++) {
        unsigned long tag = (unsigned long)now.tv_nsec + k;
        /* 200: a name of 255 bytes, the usual most, still has room for the tag */
        snprintf(r->temp + head, room - head, ".%.200s.%ld-%lx.tmp", r->base, (long)getpid(), tag);
        r->fd = openat(r->dir, r->temp_base, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        number = r->fd < 0 ? errno : 0;
        if (number == EINTR) number = EEXIST;
    }
    if (r->fd < 0) return replace_fail(r, "no file can be made beside it", number, err);
    r->exists = true;
    return OT_OK;
}

ot_status ot_replace_begin(const char *path, ot_replace **out, ot_error *err)
{
    *out = NULL;
    ot_replace *r = calloc(1, sizeof *r);
    if (!r) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    r->dir = r->fd = -1;
    r->path = strdup(path);
    ot_status s = r->path ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (!s) s = open_folder(r, err);
    if (!s) s = open_temp(r, err);
    if (s) {
        replace_free(r);
        return s;
    }
    *out = r;
    return OT_OK;
}

/* Writes past the buffer. */
static ot_status write_out(ot_replace *r, const unsigned char *p, size_t n, ot_error *err)
{
    while (n) {
        ssize_t done = write(r->fd, p, n < LARGEST_CALL ? n : LARGEST_CALL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            return replace_fail(r, "cannot be written", done < 0 ? errno : ENOSPC, err);
        p += done;
        n -= (size_t)done;
    }
    return OT_OK;
}

static ot_status flush(ot_replace *r, ot_error *err)
{
    if (r->failed) return ot_fail(err, OT_E_IO, "%s: an earlier write failed", r->path);
    OT_TRY(write_out(r, r->buffer, r->n, err));
    r->n = 0;
    return OT_OK;
}

ot_status ot_replace_write(ot_replace *r, const void *p, size_t n, ot_error *err)
{
    if (n == 0) return OT_OK;
    r->dirty = true;
    if (n > BUFFER - r->n) {
        OT_TRY(flush(r, err));
        if (n >= BUFFER) return write_out(r, p, n, err);
    }
    if (r->failed) return ot_fail(err, OT_E_IO, "%s: an earlier write failed", r->path);
    memcpy(r->buffer + r->n, p, n);
    r->n += n;
    return OT_OK;
}

const char *ot_replace_path(const ot_replace *r) { return r->temp; }

ot_status ot_replace_sync(ot_replace *r, ot_error *err)
{
    OT_TRY(flush(r, err));
    if (!r->dirty) return OT_OK;
    /* A failed fsync is never retried: the kernel may have dropped the pages already. */
    while (fsync(r->fd))
        if (errno != EINTR) return replace_fail(r, "cannot be brought to disk", errno, err);
    r->dirty = false;
    return OT_OK;
}

static ot_status commit(ot_replace *r, ot_error *err)
{
    r->dirty = true; /* an empty file is synced as well */
    OT_TRY(ot_replace_sync(r, err));
    if (r->mode && fchmod(r->fd, r->mode))
        return replace_fail(r, "cannot keep its permissions", errno, err);
    int fd = r->fd;
    r->fd = -1;
    if (close(fd) && errno != EINTR) return replace_fail(r, "cannot be closed", errno, err);
    if (renameat(r->dir, r->temp_base, r->dir, r->base))
        return replace_fail(r, "cannot be renamed into place", errno, err);
    r->exists = false;
    while (fsync(r->dir)) {
        if (errno == EINVAL || errno == ENOTSUP) break; /* no such thing on this file system */
        if (errno != EINTR)
            return replace_fail(r, "is written, but its folder cannot be brought to disk", errno,
                                err);
    }
    return OT_OK;
}

ot_status ot_replace_commit(ot_replace *r, ot_error *err)
{
    ot_status s = commit(r, err);
    replace_free(r);
    return s;
}

void ot_replace_abort(ot_replace *r) { replace_free(r); }
