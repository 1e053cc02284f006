/* files.c - what a command reads is never what it writes.
 *
 * Files are compared by device and number, so that links, hard links and roundabout paths are seen through. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/files.h"

#define REASON(number) strerror_r((number), (char[128]){ 0 }, 128)

/* How a file that is read is called; NULL: it is not read. */
static const char *read_as(const ot_inputs *in, ot_file_id id, const char **name)
{
    if (in->model && ot_import_reads(in->model, id, name))
        return *name == in->model->path ? "the model" : "external data of the model";
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

static bool begins(int fd, const char *text)
{
    char head[32];
    size_t n = strlen(text);
    return ot_read_at(fd, head, (int64_t)n, 0) == (int64_t)n && !memcmp(head, text, n);
}

static bool is_of(int fd, uint64_t size, ot_file_kind kind)
{
    switch (kind) {
    case OT_FILE_MODEL: return ot_import_is_model(fd, size);
    case OT_FILE_ARRAYS: return begins(fd, "PK\3\4") || begins(fd, "PK\5\6");
    case OT_FILE_LOG: return begins(fd, "{\"event\":");
    }
    return false;
}

/* A regular file that is there and open. */
static ot_status judge(const ot_inputs *in, int fd, const struct stat *st, ot_file_kind kind, const char *what, ot_error *err)
{
    static const char *const kinds[] = { [OT_FILE_MODEL] = "ONNX file", [OT_FILE_ARRAYS] = ".npz", [OT_FILE_LOG] = "log of a run" };
    const char *name = "";
    const char *as = read_as(in, (ot_file_id){ (uint64_t)st->st_dev, (uint64_t)st->st_ino }, &name);
    if (as)
        return ot_fail(err, OT_E_USAGE, "%s: is %s that is read, %s; what is read is not written over: name another file", what,
                       as, name);
    if (st->st_size && !is_of(fd, (uint64_t)st->st_size, kind))
        return ot_fail(err, OT_E_USAGE, "%s: exists and is no %s; it is not written over: name another file, or remove it", what,
                       kinds[kind]);
    return OT_OK;
}

ot_status ot_output_check(const ot_inputs *in, int at, const char *path, ot_file_kind kind, const char *what, ot_error *err)
{
    struct stat st;
    bool there = !fstatat(at, path, &st, 0);
    if (there && S_ISREG(st.st_mode)) {
        int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ot_status s = fd < 0 || fstat(fd, &st) ? ot_fail(err, OT_E_IO, "%s: cannot be examined: %s", what, REASON(errno))
                                               : judge(in, fd, &st, kind, what, err);
        if (fd >= 0) close(fd);
        OT_TRY(s);
    }
    if (there && S_ISDIR(st.st_mode)) return ot_fail(err, OT_E_IO, "%s: is a folder; a file is needed", what);
    if (!there || kind != OT_FILE_LOG) return at == AT_FDCWD ? ot_replace_probe(path, err) : OT_OK;
    if (faccessat(at, path, W_OK, AT_EACCESS)) return ot_fail(err, OT_E_IO, "%s: cannot be written: %s", what, REASON(errno));
    return OT_OK;
}

ot_status ot_output_open(const ot_inputs *in, int at, const char *path, ot_file_kind kind, const char *what, int *fd,
                         ot_error *err)
{
    struct stat st;
    int nofollow = at == AT_FDCWD ? 0 : O_NOFOLLOW;
    bool device = !fstatat(at, path, &st, 0) && !S_ISREG(st.st_mode);
    /* Reading shows what it is; a pipe is opened as writers do, and waits for its reader. */
    *fd = openat(at, path, (device ? O_WRONLY : O_RDWR | O_CREAT) | O_CLOEXEC | nofollow, 0666);
    if (*fd < 0 && errno == ELOOP && nofollow)
        return ot_fail(err, OT_E_USAGE, "%s: is a link; in the folder of a run nothing is written through links", what);
    if (*fd < 0) return ot_fail(err, OT_E_IO, "%s: cannot be written: %s", what, REASON(errno));
    ot_status s = OT_OK;
    if (fstat(*fd, &st)) s = ot_fail(err, OT_E_IO, "%s: cannot be examined: %s", what, REASON(errno));
    if (!s && S_ISREG(st.st_mode)) {
        s = judge(in, *fd, &st, kind, what, err);
        if (!s && ftruncate(*fd, 0)) s = ot_fail(err, OT_E_IO, "%s: cannot be written: %s", what, REASON(errno));
    }
    if (!s) return OT_OK;
    close(*fd);
    *fd = -1;
    return s;
}
