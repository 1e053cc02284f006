/* place.c - the folder and the name that a path leads to, with the links at its end followed.
 *
 * A file that is written beside its path and renamed over it replaces a link there.  So the links are followed here, by the
 * rules of the kernel. */
#include "runtime/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MOST_LINKS = 40, SHOWN = 2 * PATH_MAX };

#define REASON(number) strerror_r((number), (char[128]){ 0 }, 128)

/* Opens the folder of a path that is seen from `at`; the name is what follows it.  `shown` is for messages. */
static ot_status split(int at, const char *path, const char *shown, ot_place_at *out, ot_error *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    *out = (ot_place_at){ .dir = -1 };
    if (!*name) return ot_fail(err, OT_E_IO, "%s: is a folder; expected a file", shown);
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
    out->name = strdup(name);
    if (folder && out->name) out->dir = openat(at, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = errno;
    bool memory = folder && out->name;
    free(folder);
    if (out->dir >= 0) return OT_OK;
    ot_place_free(out);
    return memory ? ot_fail(err, ot_failed_call(number), "%s: its folder cannot be opened: %s", shown, REASON(number))
                  : ot_fail(err, OT_E_NOMEM, "%s: no memory", shown);
}

/* May the link be followed?  The kernel (protected_symlinks) does not follow a link of another user in a folder where all
 * users write: that user would choose the file. */
static ot_status check_link(const ot_place_at *p, const struct stat *link, const char *shown, ot_error *err)
{
    struct statfs fs;
    struct stat folder;
    const mode_t shared = S_ISVTX | S_IWOTH;
    if (fstatfs(p->dir, &fs) || fstat(p->dir, &folder))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", shown, REASON(errno));
    if (fs.f_type == PROC_SUPER_MAGIC)
        return ot_fail(
            err, OT_E_IO,
            "%s: is an open file of a process (a link in /proc), which cannot be replaced; use the name of a "
            "regular file",
            shown);
    if ((folder.st_mode & shared) == shared && link->st_uid != geteuid() && link->st_uid != folder.st_uid)
        return ot_fail(err, OT_E_IO,
                       "%s: is a link of another user in a folder where all users can write; it is not followed",
                       shown);
    return OT_OK;
}

/* From the link to what it contains; *linked is false where p is no link.  shown: the path in messages, with the link from
 * here on. */
static ot_status follow(ot_place_at *p, const char *path, char shown[SHOWN], bool *linked, ot_error *err)
{
    struct stat st;
    char to[PATH_MAX];
    *linked = !fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode);
    if (!*linked) return OT_OK;
    OT_TRY(check_link(p, &st, shown, err));
    ssize_t n = readlinkat(p->dir, p->name, to, sizeof to);
    if (n < 0 || n == sizeof to)
        return ot_fail(err, OT_E_IO, "%s: the link cannot be read: %s", shown, REASON(n < 0 ? errno : ENAMETOOLONG));
    to[n] = '\0';
    snprintf(shown, SHOWN, "%s (a link to %s)", path, to);
    ot_place_at next;
    OT_TRY(split(p->dir, to, shown, &next, err));
    ot_place_free(p);
    *p = next;
    return OT_OK;
}

ot_status ot_place_find(int at, const char *path, bool links, ot_place_at *out, ot_error *err)
{
    char shown[SHOWN];
    bool linked = links;
    snprintf(shown, sizeof shown, "%s", path);
    OT_TRY(split(at, path, path, out, err));
    ot_status s = OT_OK;
    for (int i = 0; linked && !s; i++)
        s = i < MOST_LINKS ? follow(out, path, shown, &linked, err)
                           : ot_fail(err, OT_E_IO, "%s: %s", path, REASON(ELOOP));
    if (s) ot_place_free(out);
    return s;
}

void ot_place_free(ot_place_at *p)
{
    if (p->dir >= 0) close(p->dir);
    free(p->name);
    *p = (ot_place_at){ .dir = -1 };
}
