/* memory.c - how much memory there is: the machine's, the control group's, the process's own limit. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/base.h"

/* The number in a file of one line; -1: none ("max"). */
static int64_t file_number(const char *path)
{
    long long v = -1;
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    if (fscanf(f, "%lld", &v) != 1) v = -1;
    fclose(f);
    return v;
}

static int64_t meminfo(const char *key)
{
    char line[256];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), ": %lld", &kib) == 1)
            break;
    if (f) fclose(f);
    return kib < 0 ? -1 : kib * 1024;
}

/* Bytes of address space the process has; -1: not known. */
static int64_t address_space(void)
{
    int64_t pages = file_number("/proc/self/statm");
    return pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

int64_t ot_memory_available(void)
{
    int64_t system = meminfo("MemAvailable"), swap = meminfo("SwapFree"), least = INT64_MAX;
    int64_t limit = file_number("/sys/fs/cgroup/memory.max"),
            used = file_number("/sys/fs/cgroup/memory.current");
    if (system >= 0) least = system + (swap > 0 ? swap : 0);
    if (limit >= 0 && used >= 0 && limit - used < least) least = limit > used ? limit - used : 0;
    struct rlimit r;
    int64_t taken = address_space();
    if (!getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY && taken >= 0 && (int64_t)r.rlim_cur - taken < least)
        least = (int64_t)r.rlim_cur > taken ? (int64_t)r.rlim_cur - taken : 0;
    return least;
}
