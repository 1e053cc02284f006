/* files.c - checks and opens output files.
 *
 * Files are compared by device and inode, so that links and different paths to one file are recognised. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/files.h"

#define REASON(number) strerror_r((number), (char[128]){ 0 }, 128)

/* What the file is to the command, for messages; NULL: the command does not read it. */
static const char *read_as(const ot_inputs *in, ot_file_id id, const char **name)
{
    if (in->model && ot_import_reads(in->model, id, name))
        return *name == in->model->path ? "the model" : "the external data of the model";
    if (in->teacher && ot_import_reads(in->teacher, id, name)) return "the teacher";
    for (int i = 0; i < OT_LEN(in->named); i++) {
        ot_file_id own;
        *name = in->named[i];
        if (*name && ot_file_of(AT_FDCWD, *name, &own) && ot_file_same(own, id)) return "data";
    }
    for (int i = 0; i < OT_LEN(in->data); i++)
        if (in->data[i] && ot_dataset_reads(in->data[i], id, name)) return "data";
    for (const ot_config_file *c = in->configs; c; c = c->next) {
        *name = c->path;
        if (ot_file_same(c->id, id)) return "the config file";
    }
    return NULL;
}

static int begins(int fd, const char *text)
{
    char head[32];
    size_t n = strlen(text);
    int64_t got = ot_read_at(fd, head, (int64_t)n, 0);
    return got < 0 ? -1 : got == (int64_t)n && !memcmp(head, text, n);
}

/* A zip archive whose first member is an array; documents are zip archives too. */
static int is_npz(int fd)
{
    enum { LOCAL = 30, EMPTY = 22 };
    unsigned char head[LOCAL + UINT16_MAX];
    int64_t got = ot_read_at(fd, head, sizeof head, 0);
    if (got < 0) return -1;
    if (got == EMPTY) return !memcmp(head, "PK\5\6", 4);
    if (got < LOCAL || memcmp(head, "PK\3\4", 4)) return 0;
    int64_t name = head[26] + 256 * head[27];
    return name > 4 && got >= LOCAL + name && !memcmp(head + LOCAL + name - 4, ".npy", 4);
}

/* Is the file of that kind?  -1: it cannot be read. */
static int is_of(int fd, uint64_t size, ot_file_kind kind)
{
    switch (kind) {
    case OT_FILE_MODEL: return ot_import_is_model(fd, size);
    case OT_FILE_ARRAYS: return is_npz(fd);
    case OT_FILE_LOG: return begins(fd, "{\"event\":");
    case OT_FILE_SVG: return begins(fd, "<svg ");
    case OT_FILE_PNG: return begins(fd, "\x89PNG\r\n\x1a\n");
    case OT_FILE_PREDICTIONS:
        return begins(fd, "sample,") || begins(fd, "{\"sample\":") || begins(fd, "[\n{\"sample\":") || begins(fd, "[]");
    }
    return 0;
}

static const char *const kinds[] = {
    [OT_FILE_MODEL] = "an ONNX file", [OT_FILE_ARRAYS] = "an .npz",  [OT_FILE_LOG] = "a run log",
    [OT_FILE_SVG] = "an SVG chart",   [OT_FILE_PNG] = "a PNG chart", [OT_FILE_PREDICTIONS] = "a file of predictions"
};

/* A name that says another kind of file is a slip: what is written would not be what the name says. */
static ot_status check_name(const char *path, ot_file_kind kind, const char *what, ot_error *err)
{
    static const struct {
        const char *ending;
        unsigned kinds; /* bits; 0: nothing that is written here */
    } known[] = {
        { ".onnx", 1 << OT_FILE_MODEL },
        { ".npz", 1 << OT_FILE_ARRAYS },
        { ".jsonl", 1 << OT_FILE_LOG | 1 << OT_FILE_PREDICTIONS },
        { ".svg", 1 << OT_FILE_SVG },
        { ".npy", 0 },
        { ".csv", 1 << OT_FILE_PREDICTIONS },
        { ".json", 1 << OT_FILE_PREDICTIONS },
        { ".conf", 0 },
        { ".gz", 0 },
        { ".png", 1 << OT_FILE_PNG },
    };
    static const char *const written[] = {
        [OT_FILE_MODEL] = "an ONNX model", [OT_FILE_ARRAYS] = "an .npz",  [OT_FILE_LOG] = "a JSON lines log",
        [OT_FILE_SVG] = "an SVG chart",    [OT_FILE_PNG] = "a PNG chart", [OT_FILE_PREDICTIONS] = "CSV or JSON"
    };
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    if (!strcmp(path, "-") && kind == OT_FILE_PREDICTIONS)
        return ot_fail(err, OT_E_USAGE,
                       "%s: without -o, predictions are printed to standard output as CSV, with --json as JSON; use "
                       "'./-' for a file of that name",
                       what);
    if (!strcmp(path, "-"))
        return ot_fail(err, OT_E_USAGE,
                       "%s: %s cannot be written to standard output; use './-' "
                       "for a file of that name",
                       what, written[kind]);
    for (int i = 0; dot && i < OT_LEN(known); i++)
        if (!strcasecmp(dot, known[i].ending) && !(known[i].kinds >> kind & 1))
            return ot_fail(err, OT_E_USAGE, "%s: the output is %s; the file name must not end in %s", what,
                           written[kind], dot);
    return OT_OK;
}

/* Checks an existing regular file, which is open. */
static ot_status judge(const ot_inputs *in, int fd, const struct stat *st, ot_file_kind kind, const char *what,
                       ot_error *err)
{
    const char *name = "";
    const char *as = read_as(in, (ot_file_id){ (uint64_t)st->st_dev, (uint64_t)st->st_ino }, &name);
    if (as)
        return ot_fail(err, OT_E_USAGE,
                       "%s: is %s that is being read, %s, and is not overwritten; use another file "
                       "name",
                       what, as, name);
    int is = st->st_size ? is_of(fd, (uint64_t)st->st_size, kind) : 1;
    if (is < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be read: %s", what, REASON(errno));
    if (!is)
        return ot_fail(err, OT_E_USAGE,
                       "%s: exists and is not %s; it is not overwritten: use another name, or remove "
                       "it",
                       what, kinds[kind]);
    return OT_OK;
}

/* stat of the file, through links; *there: it exists. */
static ot_status look(int at, const char *path, const char *what, struct stat *st, bool *there, ot_error *err)
{
    *there = !fstatat(at, path, st, 0);
    if (*there || errno == ENOENT || errno == ENOTDIR) return OT_OK; /* the call that creates it reports the cause */
    return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", what, REASON(errno));
}

ot_status ot_output_check(const ot_inputs *in, int at, const char *path, ot_file_kind kind, const char *what,
                          ot_error *err)
{
    struct stat st;
    bool there;
    OT_TRY(look(at, path, what, &st, &there, err));
    if (there && S_ISREG(st.st_mode)) {
        int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ot_status s = fd < 0 || fstat(fd, &st)
                          ? ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", what, REASON(errno))
                          : judge(in, fd, &st, kind, what, err);
        if (fd >= 0) close(fd);
        OT_TRY(s);
    }
    OT_TRY(check_name(path, kind, what, err));
    if (there && S_ISDIR(st.st_mode)) return ot_fail(err, OT_E_IO, "%s: is a folder; expected a file", what);
    if (!there || kind != OT_FILE_LOG) return at == AT_FDCWD ? ot_replace_probe(path, 0, err) : OT_OK;
    if (faccessat(at, path, W_OK, AT_EACCESS))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be written: %s", what, REASON(errno));
    return OT_OK;
}

/* Checks the open file and truncates it (not with keep).  Writes to a pipe or device block again. */
static ot_status begin_writing(const ot_inputs *in, int fd, bool keep, const char *what, ot_error *err)
{
    struct stat st;
    if (fstat(fd, &st)) return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", what, REASON(errno));
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be written: %s", what, REASON(errno));
    if (!S_ISREG(st.st_mode)) return OT_OK;
    OT_TRY(judge(in, fd, &st, OT_FILE_LOG, what, err));
    if (!keep && ot_truncate(fd, 0))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be written: %s", what, REASON(errno));
    return OT_OK;
}

ot_status ot_output_open_log(const ot_inputs *in, int at, const char *path, bool keep, const char *what, int *fd,
                             ot_error *err)
{
    struct stat st;
    bool there;
    int nofollow = at == AT_FDCWD ? 0 : O_NOFOLLOW;
    *fd = -1;
    OT_TRY(look(at, path, what, &st, &there, err));
    bool device = there && !S_ISREG(st.st_mode);
    /* O_RDWR: reading shows its kind.  O_NONBLOCK: without a reader, opening a pipe fails instead of blocking. */
    *fd = openat(at, path, (device ? O_WRONLY : O_RDWR | O_CREAT) | O_CLOEXEC | O_NONBLOCK | nofollow, 0666);
    if (*fd < 0 && errno == ELOOP && nofollow)
        return ot_fail(err, OT_E_USAGE, "%s: is a symbolic link; files in a run folder are not written through links",
                       what);
    if (*fd < 0 && errno == ENXIO && there && S_ISFIFO(st.st_mode))
        return ot_fail(err, OT_E_IO, "%s: is a pipe without a reader; start the reader first, or use a file", what);
    if (*fd < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be written: %s", what, REASON(errno));
    ot_status s = begin_writing(in, *fd, keep, what, err);
    if (!s) return OT_OK;
    close(*fd);
    *fd = -1;
    return s;
}

/* Checks every file of the folder and of folders in it, down to a depth that no run has; closes fd. */
static ot_status look_within(const ot_inputs *in, int fd, int depth, const char *what, ot_error *err)
{
    enum { DEEPEST = 6 };
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    ot_status s = OT_OK;
    if (!d) {
        int number = errno;
        if (fd >= 0) close(fd);
        return ot_fail(err, ot_failed_call(number), "%s: cannot be examined: %s", what, REASON(number));
    }
    for (struct dirent *e; s == OT_OK && (e = readdir(d));) {
        struct stat st;
        const char *name;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEEPEST)
            s = look_within(in, openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), depth + 1, what, err);
        else if (read_as(in, (ot_file_id){ (uint64_t)st.st_dev, (uint64_t)st.st_ino }, &name))
            s = ot_fail(err, OT_E_USAGE,
                        "%s: contains an older run, which would be renamed, and %s, which is being "
                        "read; use another folder",
                        what, name);
    }
    closedir(d);
    return s;
}

ot_status ot_inputs_outside(const ot_inputs *in, int folder, const char *what, ot_error *err)
{
    return look_within(in, openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0, what, err);
}
