/* beneath.c - opens files that lie in a folder or below, whatever links say. */
#include "runtime/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool lies_under(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strcmp(folder, "/") || (!strncmp(path, folder, n) && path[n] == '/');
}

int ot_open_under(const char *dir, const char *location, const char *folder)
{
    char path[PATH_MAX], real[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, location);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (!realpath(path, real)) return -1;
    if (!lies_under(real, folder)) {
        errno = EXDEV;
        return -1;
    }
    return open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
}

int ot_open_beneath(int at, const char *dir, const char *location)
{
    int base = openat(at, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base < 0) return -1;
    struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    int fd = (int)syscall(SYS_openat2, base, location, &how, sizeof how);
    int reason = errno;
    if (fd < 0 && (reason == ENOSYS || reason == EPERM)) {
        /* No such call here (or it is filtered): by names. */
        char self[48], real[PATH_MAX];
        snprintf(self, sizeof self, "/proc/self/fd/%d", base);
        fd = realpath(self, real) ? ot_open_under(real, location, real) : -1;
        reason = errno;
    }
    close(base);
    errno = reason;
    return fd;
}
