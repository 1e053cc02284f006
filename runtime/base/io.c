/* io.c - reads whole files, replaces files atomically. */
#include "runtime/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, LARGEST_CALL = 1 << 30 };

#define REASON(number) strerror_r((number), (char[128]){0}, 128)

/* ---- reading --------------------------------------------------------------- */

int64_t ot_read_at(int fd, void *p, int64_t n, int64_t at)
{
    int64_t done = 0;
    while (done < n) {
        int64_t want = n - done < LARGEST_CALL ? n - done : LARGEST_CALL;
        ssize_t got = pread(fd, (char *)p + done, (size_t)want, at + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += got;
    }
    return done;
}

ot_status ot_read_open(int fd, const char *path, size_t limit, void **bytes, size_t *n, ot_error *err)
{
    *bytes = NULL;
    *n = 0;
    struct stat st;
    if (fstat(fd, &st)) return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", path, REASON(errno));
    if (!S_ISREG(st.st_mode))
        return ot_fail(err, OT_E_IO, "%s: is %s", path,
                       S_ISDIR(st.st_mode) ? "a folder; expected a file"
                                           : "not a regular file; write what a pipe has into a file first");
    if ((uint64_t)st.st_size > limit)
        return ot_fail(err, OT_E_IO, "%s: has %lld bytes; the limit is %zu", path, (long long)st.st_size, limit);
    unsigned char *p = malloc((size_t)st.st_size + 1);
    if (!p) return ot_fail(err, OT_E_NOMEM, "%s: no memory for its %lld bytes", path, (long long)st.st_size);
    int64_t got = ot_read_at(fd, p, st.st_size, 0);
    if (got == st.st_size) {
        p[got] = 0; /* allows use as a string */
        *bytes = p;
        *n = (size_t)got;
        return OT_OK;
    }
    int number = errno;
    free(p);
    if (got < 0) return ot_fail(err, ot_failed_call(number), "%s: cannot be read: %s", path, REASON(number));
    return ot_fail(err, OT_E_IO, "%s: shrank to %lld bytes while it was read", path, (long long)got);
}

ot_status ot_read_file(const char *path, size_t limit, void **bytes, size_t *n, ot_error *err)
{
    *bytes = NULL;
    *n = 0;
    /* O_NONBLOCK: a pipe is refused below; opening it must not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be opened: %s", path, REASON(errno));
    ot_status s = ot_read_open(fd, path, limit, bytes, n, err);
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
    bool own = root && *root == '/';
    if (!own && (!home || *home != '/')) return false;
    if (snprintf(path, n, "%s%s/onnxtrain/%s", own ? root : home, own ? "" : "/.cache", folder) >= (int)n) return false;
    if (make && !make_folders(path)) return false;
    size_t at = strlen(path);
    return snprintf(path + at, n - at, "/%s", name) < (int)(n - at);
}

/* ---- replacing ------------------------------------------------------------- */

/* The new file has no name until it is complete, if the file system supports that (O_TMPFILE): nothing is left
 * behind however the process ends.  Otherwise it has a temporary name beside the path. */
struct ot_replace {
    char *path; /* as given, for messages */
    char *base; /* the name of the file in the folder */
    char *temp; /* a temporary name in the folder; NULL: the file has none yet */
    int dir;    /* the folder, open: changing the working directory or moving the folder has no effect */
    int fd;
    mode_t mode;           /* of the replaced file; 0: there is none */
    int number;            /* errno of the first failure; 0: none */
    bool lent;             /* the folder is the caller's */
    bool named;            /* the temporary name exists */
    bool placed;           /* the file has its final name */
    bool failed;           /* a write failed: never rename */
    bool dirty;            /* written since the last sync */
    size_t n;              /* bytes in the buffer */
    unsigned char *buffer; /* BUFFER bytes; NULL until needed */
};

static void replace_free(ot_replace *r)
{
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    if (r->named) unlinkat(r->dir, r->temp, 0);
    if (r->dir >= 0 && !r->lent) close(r->dir);
    free(r->buffer);
    free(r->path);
    free(r->base);
    free(r->temp);
    free(r);
}

static ot_status replace_fail(ot_replace *r, const char *what, int number, ot_error *err)
{
    r->failed = true;
    if (!r->number) r->number = number;
    return ot_fail(err, ot_failed_call(number), "%s: %s: %s", r->path, what, REASON(number));
}

/* A user's file without write permission is refused, as a shell does that redirects to it; the folder alone would allow to
 * replace it. */
static ot_status check_replaced(ot_replace *r, bool users, ot_error *err)
{
    struct stat st;
    if (fstatat(r->dir, r->base, &st, AT_SYMLINK_NOFOLLOW) || S_ISLNK(st.st_mode)) return OT_OK;
    if (!S_ISREG(st.st_mode))
        return ot_fail(err, OT_E_IO, "%s: is %s; only a regular file can be replaced", r->path,
                       S_ISDIR(st.st_mode) ? "a folder" : "a device, pipe or socket");
    r->mode = st.st_mode & 0777;
    if (!users || !faccessat(r->dir, r->base, W_OK, AT_EACCESS)) return OT_OK;
    return ot_fail(err, ot_failed_call(errno),
                   "%s: exists and cannot be written: %s; it is not replaced: use another name, or change its "
                   "permissions",
                   r->path, REASON(errno));
}

/* Opens the folder, relative to `at`, and examines the existing file. */
static ot_status open_folder(ot_replace *r, int at, ot_error *err)
{
    bool users = at == AT_FDCWD;
    r->lent = !users && !strchr(r->path, '/');
    if (r->lent) {
        r->dir = at;
        if (!*r->path) return ot_fail(err, OT_E_IO, "%s: is a folder; expected a file", r->path);
        if (!(r->base = strdup(r->path))) return ot_fail(err, OT_E_NOMEM, "%s: no memory", r->path);
    } else {
        ot_place_at place;
        OT_TRY(ot_place_find(at, r->path, users, &place, err));
        r->dir = place.dir;
        r->base = place.name;
    }
    return check_replaced(r, users, err);
}

/* Tries names ".<name>.<process>-<try>.tmp" until `make` finds a free one; 0, or the errno of the failure. */
static int take_name(ot_replace *r, bool (*make)(ot_replace *r))
{
    const size_t room = strlen(r->base) + 64;
    if (!r->temp && !(r->temp = malloc(room))) return ENOMEM;
    struct timespec now = { 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    int number = EEXIST;
    for (unsigned k = 0; k < 100 && (number == EEXIST || number == EINTR); k++) {
        unsigned long tag = (unsigned long)now.tv_nsec + k;
        /* 200: a name of 255 bytes, the usual limit, has space for the suffix */
        snprintf(r->temp, room, ".%.200s.%ld-%lx.tmp", r->base, (long)getpid(), tag);
        number = make(r) ? 0 : errno;
    }
    r->named = !number;
    return number;
}

static bool make_named(ot_replace *r)
{
    r->fd = openat(r->dir, r->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return r->fd >= 0;
}

/* Gives the open file a name: through /proc, since linking a descriptor needs a privilege. */
static bool link_to(const ot_replace *r, const char *name)
{
    char self[48];
    snprintf(self, sizeof self, "/proc/self/fd/%d", r->fd);
    return !linkat(AT_FDCWD, self, r->dir, name, AT_SYMLINK_FOLLOW);
}

static bool link_temp(ot_replace *r) { return link_to(r, r->temp); }

static ot_status open_temp(ot_replace *r, ot_error *err)
{
    struct stat st, own;
    char self[48];
    r->fd = openat(r->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (r->fd >= 0) {
        snprintf(self, sizeof self, "/proc/self/fd/%d", r->fd);
        if (!stat(self, &st) && !fstat(r->fd, &own) && st.st_ino == own.st_ino && st.st_dev == own.st_dev) return OT_OK;
        close(r->fd); /* it could never get a name */
        r->fd = -1;
    }
    int number = take_name(r, make_named);
    return number ? replace_fail(r, "cannot create a file in its folder", number, err) : OT_OK;
}

static ot_status begin(int at, const char *path, ot_replace **out, ot_error *err)
{
    *out = NULL;
    ot_replace *r = calloc(1, sizeof *r);
    if (!r) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    r->dir = r->fd = -1;
    r->path = strdup(path);
    ot_status s = r->path ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (!s) s = open_folder(r, at, err);
    if (s) replace_free(r);
    else *out = r;
    return s;
}

ot_status ot_replace_begin_at(int at, const char *path, ot_replace **out, ot_error *err)
{
    ot_replace *r;
    *out = NULL;
    OT_TRY(begin(at, path, &r, err));
    ot_status s = open_temp(r, err);
    if (s) replace_free(r);
    else *out = r;
    return s;
}

ot_status ot_replace_begin(const char *path, ot_replace **out, ot_error *err)
{
    return ot_replace_begin_at(AT_FDCWD, path, out, err);
}

/* Creates it as the file itself will be created: without a name if possible, so that nothing is left whenever the
 * process ends. */
ot_status ot_replace_probe(const char *path, uint64_t size, ot_error *err)
{
    ot_replace *r;
    struct statvfs disk;
    ot_status s = ot_replace_begin(path, &r, err);
    if (!s && !fstatvfs(r->fd, &disk) && disk.f_blocks) { /* 0: a file system that does not say */
        uint64_t unit = disk.f_frsize ? disk.f_frsize : disk.f_bsize, blocks = disk.f_bfree;
        if (unit && size / unit > blocks)
            s = ot_fail(err, OT_E_IO,
                        "%s: the file needs %.1f MB, but its file system has %.1f MB free; free some space, or use "
                        "another folder",
                        path, (double)size / 1e6, (double)blocks * (double)unit / 1e6);
    }
    replace_free(r);
    return s;
}

int ot_truncate(int fd, int64_t size)
{
    int bad;
    do bad = ftruncate(fd, (off_t)size);
    while (bad && errno == EINTR);
    return bad;
}

/* Writes directly, past the buffer. */
static ot_status write_out(ot_replace *r, const unsigned char *p, size_t n, ot_error *err)
{
    while (n) {
        ssize_t done = write(r->fd, p, n < LARGEST_CALL ? n : LARGEST_CALL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return replace_fail(r, "cannot be written", done < 0 ? errno : ENOSPC, err);
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
    if (!r->buffer && !(r->buffer = malloc(BUFFER))) {
        r->failed = true;
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", r->path);
    }
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

int ot_replace_fd(const ot_replace *r) { return r->fd; }
int ot_replace_folder(const ot_replace *r) { return r->dir; }
const char *ot_replace_name(const ot_replace *r) { return r->base; }
bool ot_replace_placed(const ot_replace *r) { return r->placed; }
bool ot_replace_full(const ot_replace *r) { return r->number == ENOSPC || r->number == EDQUOT; }

ot_status ot_replace_sync(ot_replace *r, ot_error *err)
{
    OT_TRY(flush(r, err));
    if (!r->dirty) return OT_OK;
    /* A failed fsync is never retried: the kernel may have dropped the pages already. */
    while (fsync(r->fd))
        if (errno != EINTR) return replace_fail(r, "cannot be flushed to disk", errno, err);
    r->dirty = false;
    free(r->buffer); /* saves a descriptor: many files may wait to be renamed together */
    r->buffer = NULL;
    return OT_OK;
}

/* Syncs all data, with the permissions of the replaced file. */
static ot_status complete(ot_replace *r, ot_error *err)
{
    r->dirty = true; /* an empty file is synced as well */
    OT_TRY(ot_replace_sync(r, err));
    if (r->mode && fchmod(r->fd, r->mode)) return replace_fail(r, "cannot keep its permissions", errno, err);
    return OT_OK;
}

static ot_status sync_folder(ot_replace *r, ot_error *err)
{
    while (fsync(r->dir)) {
        if (errno == EINVAL || errno == ENOTSUP) break; /* not supported by this file system */
        if (errno != EINTR) return replace_fail(r, "is written, but its folder cannot be flushed to disk", errno, err);
    }
    return OT_OK;
}

ot_status ot_replace_place(ot_replace *r, ot_error *err)
{
    OT_TRY(complete(r, err));
    int number = r->named ? 0 : take_name(r, link_temp);
    if (number) return replace_fail(r, "cannot be named", number, err);
    int fd = r->fd;
    r->fd = -1;
    if (close(fd) && errno != EINTR) return replace_fail(r, "cannot be closed", errno, err);
    if (renameat(r->dir, r->temp, r->dir, r->base)) return replace_fail(r, "cannot be renamed into place", errno, err);
    r->named = false;
    r->placed = true;
    return sync_folder(r, err);
}

/* Renames the temporary file to its final name if that is free: in one step if the file system can. */
static bool rename_new(ot_replace *r)
{
    if (!renameat2(r->dir, r->temp, r->dir, r->base, RENAME_NOREPLACE)) {
        r->named = false;
        return true;
    }
    return (errno == EINVAL || errno == ENOSYS) && !linkat(r->dir, r->temp, r->dir, r->base, 0);
}

ot_status ot_replace_place_new(ot_replace *r, ot_error *err)
{
    OT_TRY(complete(r, err));
    if (!(r->named ? rename_new(r) : link_to(r, r->base))) return replace_fail(r, "cannot be named", errno, err);
    r->placed = true;
    if (r->named && unlinkat(r->dir, r->temp, 0))
        return replace_fail(r, "its temporary name cannot be removed", errno, err);
    r->named = false;
    return sync_folder(r, err);
}

void ot_replace_undo(ot_replace *r)
{
    if (r && r->placed) unlinkat(r->dir, r->base, 0);
    replace_free(r);
}

ot_status ot_replace_commit(ot_replace *r, ot_error *err)
{
    ot_status s = ot_replace_place(r, err);
    replace_free(r);
    return s;
}

void ot_replace_abort(ot_replace *r) { replace_free(r); }

ot_status ot_replace_file(int folder, const char *shown, const char *name, const void *p, size_t n, ot_error *err)
{
    ot_replace *r = NULL;
    ot_error e = { 0 };
    ot_status s = ot_replace_begin_at(folder, name, &r, &e);
    if (!s) s = ot_replace_write(r, p, n, &e);
    if (!s) s = ot_replace_place(r, &e);
    ot_replace_abort(r);
    return s ? ot_fail(err, s, "%s%s%-s", shown ? shown : "", shown ? "/" : "", e.text) : OT_OK;
}

bool ot_memstream_close(FILE *f)
{
    bool good = !ferror(f);
    return !fclose(f) && good;
}

/* ---- which file it is -------------------------------------------------------- */

bool ot_file_of(int at, const char *path, ot_file_id *out)
{
    struct stat st;
    if (fstatat(at, path, &st, 0)) return false;
    *out = (ot_file_id){ (uint64_t)st.st_dev, (uint64_t)st.st_ino };
    return true;
}

bool ot_file_of_open(int fd, ot_file_id *out)
{
    struct stat st;
    if (fstat(fd, &st)) return false;
    *out = (ot_file_id){ (uint64_t)st.st_dev, (uint64_t)st.st_ino };
    return true;
}

bool ot_file_same(ot_file_id a, ot_file_id b) { return a.dev == b.dev && a.ino == b.ino; }

bool ot_path_same(const char *a, const char *b)
{
    ot_file_id p, q;
    bool there = ot_file_of(AT_FDCWD, a, &p), other = ot_file_of(AT_FDCWD, b, &q);
    if (there || other) return there && other && ot_file_same(p, q);
    ot_place_at place[2] = { { .dir = -1 }, { .dir = -1 } };
    ot_error ignored = { 0 };
    bool same = !ot_place_find(AT_FDCWD, a, true, &place[0], &ignored) &&
                !ot_place_find(AT_FDCWD, b, true, &place[1], &ignored) && ot_file_of_open(place[0].dir, &p) &&
                ot_file_of_open(place[1].dir, &q) && ot_file_same(p, q) && !strcmp(place[0].name, place[1].name);
    for (int i = 0; i < 2; i++) ot_place_free(&place[i]);
    return same;
}
