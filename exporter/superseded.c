/* superseded.c - removes data files of ours that a replaced model has left behind.
 *
 * A file is removed only if it is certainly ours and unused: its name has our pattern for this very model and the
 * checksum of its bytes, the replaced model named it, and neither a model in the folder nor the model being trained
 * has data in it.  A model that cannot be read may name it, so the file stays. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "exporter/pending.h"

enum { BLOCK = 1 << 20, MOST_OLD = 1000 };

static const char suffix[] = ".onnx.data";

const char *ot_data_name(ot_arena *a, const char *stem, uint32_t number)
{
    return ot_arena_printf(a, "%s-%08x%s", stem, number, suffix);
}

static bool has_pattern(const char *name, const char *stem)
{
    size_t n = strlen(stem);
    return !strncmp(name, stem, n) && name[n] == '-' && strspn(name + n + 1, "0123456789abcdef") == 8 &&
           !strcmp(name + n + 9, suffix);
}

/* Whether the number in the name is that of the file's bytes (ot_pending_data): a date of eight digits is not. */
static bool has_checksum(int dir, const char *name, const char *stem)
{
    uint32_t number = (uint32_t)strtoul(name + strlen(stem) + 1, NULL, 16);
    uLong crc = 0;
    ssize_t got = -1;
    unsigned char *block = malloc(BLOCK);
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    while (block && fd >= 0 && ((got = read(fd, block, BLOCK)) > 0 || (got < 0 && errno == EINTR)))
        if (got > 0) crc = crc32_z(crc, block, (size_t)got);
    if (fd >= 0) close(fd);
    free(block);
    return !got && number - (uint32_t)crc < OT_DATA_NAMES;
}

/* Whether the bytes of `name` stand anywhere in the file, which had `size` bytes when it was opened: one that grows has an
 * end as well.  True where it cannot be read to there. */
static bool mentions(int fd, int64_t size, const char *name)
{
    size_t n = strlen(name), have = 0;
    char *block = malloc(BLOCK);
    bool found = !block;
    for (int64_t at = 0; !found && at < size;) {
        int64_t got = ot_read_at(fd, block + have, BLOCK - (int64_t)have, at);
        if (got <= 0) {
            found = got < 0;
            break;
        }
        at += got;
        have += (size_t)got;
        found = memmem(block, have, name, n) != NULL;
        size_t keep = have < n - 1 ? have : n - 1; /* it may stand across two blocks */
        memmove(block, block + have - keep, keep);
        have = keep;
    }
    free(block);
    return found;
}

/* Whether the model `file` of the folder names `name`; `other`: it need not be a model. */
static bool model_mentions(int dir, const char *file, bool other, const char *name)
{
    struct stat st;
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno != ENOENT;
    bool yes =
        fstat(fd, &st) || (S_ISREG(st.st_mode) && (!other || ot_import_is_model(fd, (uint64_t)st.st_size) != 0) &&
                           mentions(fd, st.st_size, name));
    close(fd);
    return yes;
}

static DIR *open_list(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) close(fd);
    return d;
}

static bool named_by_another(const ot_place *to, const char *name)
{
    DIR *d = open_list(to->dir);
    bool yes = !d;
    for (bool more = d != NULL; more && !yes;) {
        errno = 0;
        struct dirent *e = readdir(d);
        more = e != NULL;
        yes = e ? strcmp(e->d_name, name) != 0 && strcmp(e->d_name, to->base) != 0 &&
                      model_mentions(to->dir, e->d_name, true, name)
                : errno != 0;
    }
    if (d) closedir(d);
    return yes;
}

static bool is_old(const char *name, const ot_place *to, int fresh, const ot_imported *m)
{
    struct stat st, new;
    const char *ignored;
    if (!has_pattern(name, to->stem) || fstatat(to->dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return false;
    ot_file_id id = { (uint64_t)st.st_dev, (uint64_t)st.st_ino };
    return !ot_import_reads(m, id, &ignored) && model_mentions(to->dir, to->base, false, name) && !fstat(fresh, &new) &&
           !mentions(fresh, new.st_size, name) && !named_by_another(to, name) && has_checksum(to->dir, name, to->stem);
}

const char **ot_data_old(ot_arena *a, const ot_place *to, int fresh, const ot_imported *m)
{
    struct stat st;
    int n = 0;
    /* A link in a folder of ours is replaced itself: what it leads to stays, with its data. */
    if (fstatat(to->dir, to->base, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) return NULL;
    DIR *d = open_list(to->dir);
    const char **list = d ? ot_arena_alloc(a, sizeof *list * (MOST_OLD + 1)) : NULL;
    for (struct dirent *e; list && n < MOST_OLD && (e = readdir(d));)
        if (is_old(e->d_name, to, fresh, m) && (list[n] = ot_arena_strdup(a, e->d_name))) n++;
    if (d) closedir(d);
    return n ? list : NULL;
}
