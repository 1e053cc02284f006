/* folder.c - creates, locks and renames run folders. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/folder.h"

const char *ot_stem(const char *path, ot_arena *a)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return ot_arena_printf(a, "%.*s", (int)(dot && dot > name ? dot - name : (long)strlen(name)), name);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static ot_status make_all(char *path, const char *option, ot_error *err)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        int bad = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
        *p = '/';
        if (bad) return ot_fail(err, ot_failed_call(bad), "%s: %s", path, strerror(bad));
    }
    if (!mkdir(path, 0777) || (errno == EEXIST && is_folder(path))) return OT_OK;
    if (errno == EEXIST) return ot_fail(err, OT_E_IO, "%s: is a file; %s needs a folder", path, option);
    return ot_fail(err, ot_failed_call(errno), "%s: %s", path, strerror(errno));
}

ot_status ot_folder_make(const char *path, const char *option, ot_error *err)
{
    char *own = strdup(path);
    ot_status s = own ? make_all(own, option, err) : ot_fail(err, OT_E_NOMEM, "no memory for %s", option);
    free(own);
    return s;
}

ot_status ot_folder_within(int folder, const char *name, const char *shown, ot_error *err)
{
    struct stat st;
    if (mkdirat(folder, name, 0777) && errno != EEXIST)
        return ot_fail(err, ot_failed_call(errno), "%s: %s", shown, strerror(errno));
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", shown, strerror(errno));
    if (S_ISLNK(st.st_mode))
        return ot_fail(err, OT_E_USAGE, "%s: is a symbolic link; files in a run folder are not written through links",
                       shown);
    return S_ISDIR(st.st_mode) ? OT_OK : ot_fail(err, OT_E_IO, "%s: is not a folder", shown);
}

/* path -> path.1, path.1 -> path.2 ... */
static ot_status move_away(const char *path, ot_arena *a, ot_error *err)
{
    int n = 1;
    while (n < 100000 && !access(ot_arena_printf(a, "%s.%d", path, n), F_OK)) n++;
    for (; n > 0; n--) {
        const char *to = ot_arena_printf(a, "%s.%d", path, n);
        const char *from = n > 1 ? ot_arena_printf(a, "%s.%d", path, n - 1) : path;
        if (!to || !from) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
        if (rename(from, to))
            return ot_fail(err, ot_failed_call(errno), "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
    }
    return OT_OK;
}

/* Opens and locks the folder; *free is false where another run has it.  A file system without such locks is
 * trusted. */
static int lock_folder(const char *path, bool *is_free)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int bad = fd < 0 ? 0 : flock(fd, LOCK_EX | LOCK_NB);
    while (bad && errno == EINTR) bad = flock(fd, LOCK_EX | LOCK_NB);
    *is_free = !bad || errno != EWOULDBLOCK;
    return fd;
}

static bool still_there(int fd, const char *path)
{
    ot_file_id open, named;
    return ot_file_of_open(fd, &open) && ot_file_of(AT_FDCWD, path, &named) && ot_file_same(open, named);
}

/* Whether the folder has the options.conf of an older run; an options.conf of another program is an error. */
static ot_status find_old(int fd, const char *path, bool *old, ot_error *err)
{
    char head[sizeof OT_FOLDER_MARK - 1];
    int file = openat(fd, "options.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *old = file >= 0;
    if (file < 0 && errno == ENOENT) return OT_OK;
    int64_t n = file < 0 ? -1 : ot_read_at(file, head, (int64_t)sizeof head, 0);
    int number = errno;
    if (file >= 0) close(file);
    if (n < 0)
        return ot_fail(err, ot_failed_call(number), "%s/options.conf: cannot be examined: %s", path, strerror(number));
    if (n == (int64_t)sizeof head && !memcmp(head, OT_FOLDER_MARK, sizeof head)) return OT_OK;
    return ot_fail(err, OT_E_USAGE,
                   "--run-dir %s: contains an options.conf that is not from a run; it is not "
                   "overwritten: use another folder",
                   path);
}

const char *const ot_folder_files[] = { "options.conf",    "log.jsonl",   "best.onnx",    "epochs.csv",
                                        "report.html",     "profile.csv", "profile.json", "trace.json",
                                        "evaluation.json", "sweep.csv",   "folds.csv",    NULL };

int ot_folder_checkpoints(int folder, int64_t *step, int most, bool clean)
{
    static const char temporary[] = ".checkpoint-";
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    if (!d) {
        int number = errno;
        if (fd >= 0) close(fd);
        errno = number;
        return -1;
    }
    while ((e = readdir(d))) {
        long long v;
        char again[64];
        if (clean && !strncmp(e->d_name, temporary, sizeof temporary - 1)) (void)unlinkat(folder, e->d_name, 0);
        if (sscanf(e->d_name, "checkpoint-%lld.npz", &v) != 1 || v < 0 || (n == most && v < step[n - 1])) continue;
        snprintf(again, sizeof again, OT_FOLDER_CHECKPOINT, v);
        if (strcmp(again, e->d_name)) continue;
        int k = n < most ? n++ : n - 1;
        for (; k > 0 && step[k - 1] < v; k--) step[k] = step[k - 1];
        step[k] = v;
    }
    closedir(d);
    return n;
}

/* Without an options.conf the folder has no run, so files with names of a run are the user's.  A log is checked when it is
 * opened: a run that was killed may have left it. */
static ot_status check_fresh(int fd, const char *path, ot_error *err)
{
    struct stat st;
    char checkpoint[64];
    const char *found = NULL;
    int64_t step;
    for (int i = 2; ot_folder_files[i] && !found; i++)
        if (!fstatat(fd, ot_folder_files[i], &st, AT_SYMLINK_NOFOLLOW)) found = ot_folder_files[i];
    if (!found && ot_folder_checkpoints(fd, &step, 1, false) > 0) {
        snprintf(checkpoint, sizeof checkpoint, OT_FOLDER_CHECKPOINT, (long long)step);
        found = checkpoint;
    }
    return !found ? OT_OK
                  : ot_fail(err, OT_E_USAGE,
                            "--run-dir %s: contains a file %s, but no run (options.conf); it is not overwritten: use "
                            "another folder",
                            path, found);
}

/* May the older run in it be moved? */
static ot_status check_old(int fd, const char *path, const ot_inputs *in, ot_arena *a, ot_error *err)
{
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path,
               *what = ot_arena_printf(a, "--run-dir %s", path);
    if (!what) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    if (!strcmp(last, ".") || !strcmp(last, "..") || !*last)
        return ot_fail(err, OT_E_USAGE, "%s: contains an older run and cannot be renamed; use another folder", what);
    return ot_inputs_outside(in, fd, what, err);
}

/* Opens the folder of --run-dir; a folder with an older run is renamed while it is locked, and a new one is created. */
static ot_status open_named(char *path, const ot_inputs *in, ot_arena *a, ot_folder *out, ot_error *err)
{
    enum { TRIES = 100 }; /* others may make and move it at the same time */
    for (int i = 0; i < TRIES; i++) {
        bool is_free;
        OT_TRY(make_all(path, "--run-dir", err));
        int fd = lock_folder(path, &is_free);
        if (fd < 0 && errno == ENOENT) continue;
        if (fd < 0) return ot_fail(err, ot_failed_call(errno), "%s: %s", path, strerror(errno));
        if (!is_free) {
            close(fd);
            return ot_fail(err, OT_E_USAGE,
                           "--run-dir %s: another run is writing to it; use another folder, or omit --run-dir for a "
                           "numbered one",
                           path);
        }
        bool same = still_there(fd, path), old = false;
        ot_status s = same ? find_old(fd, path, &old, err) : OT_OK;
        if (s == OT_OK && same && !old) s = check_fresh(fd, path, err);
        if (s == OT_OK && same && !old) {
            *out = (ot_folder){ .path = path, .fd = fd, .moved = out->moved };
            return OT_OK;
        }
        if (s == OT_OK && old) s = check_old(fd, path, in, a, err);
        if (s == OT_OK && old) s = move_away(path, a, err);
        close(fd);
        OT_TRY(s);
        if (old && !(out->moved = ot_arena_printf(a, "%s.1", path)))
            return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    }
    return ot_fail(err, OT_E_IO, "%s: other runs keep renaming this folder", path);
}

static ot_status open_numbered(const char *model, ot_arena *a, ot_folder *out, ot_error *err)
{
    static const char advice[] = "use --run-dir for another place, or --run-dir none for no run folder";
    char runs[] = "runs";
    ot_error e = { 0 };
    const char *stem = ot_stem(model, a);
    if (make_all(runs, "--run-dir", &e)) return ot_fail(err, e.status, "%-s; %s", e.text, advice);
    for (int n = 1; stem && n < 1000000; n++) {
        bool is_free;
        out->path = ot_arena_printf(a, "runs/%s-%d", stem, n);
        if (!out->path) break;
        if (mkdir(out->path, 0777)) {
            if (errno == EEXIST) continue;
            return ot_fail(err, ot_failed_call(errno), "%s: %s; %s", out->path, strerror(errno), advice);
        }
        out->fd = lock_folder(out->path, &is_free);
        if (out->fd >= 0 && is_free) return OT_OK;
        if (out->fd < 0 && errno != ENOENT)
            return ot_fail(err, ot_failed_call(errno), "%s: cannot be opened: %s", out->path, strerror(errno));
        ot_folder_close(out); /* another run renamed or locked it in the meantime */
    }
    return ot_fail(err, OT_E_IO, "runs: no unused folder number");
}

ot_status ot_folder_open(const char *asked, const ot_inputs *in, ot_arena *a, ot_folder *out, ot_error *err)
{
    *out = (ot_folder){ .fd = -1 };
    if (!asked) return open_numbered(in->model->path, a, out, err);
    char *path = ot_arena_strdup(a, asked);
    if (!path) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
    return open_named(path, in, a, out, err);
}

ot_status ot_folder_reopen(const char *path, ot_arena *a, ot_folder *out, ot_error *err)
{
    bool is_free, old = false;
    *out = (ot_folder){ .fd = -1 };
    char *own = ot_arena_strdup(a, path);
    if (!own) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    for (size_t n = strlen(own); n > 1 && own[n - 1] == '/'; n--) own[n - 1] = '\0';
    int fd = lock_folder(own, &is_free);
    if (fd < 0 && errno == ENOTDIR) return ot_fail(err, OT_E_USAGE, "%s: is a file, not the folder of a run", own);
    if (fd < 0 && errno == ENOENT)
        return ot_fail(err, OT_E_USAGE, "%s: does not exist; expected the folder of a run, such as runs/lenet-1", own);
    if (fd < 0) return ot_fail(err, ot_failed_call(errno), "%s: %s", own, strerror(errno));
    ot_status s =
        is_free ? find_old(fd, own, &old, err) : ot_fail(err, OT_E_USAGE, "%s: this run is still in progress", own);
    if (!s && !old) s = ot_fail(err, OT_E_USAGE, "%s: is not the folder of a run; it has no options.conf", own);
    if (s) close(fd);
    else *out = (ot_folder){ .path = own, .fd = fd };
    return s;
}

void ot_folder_close(ot_folder *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}
