/* memory.c - available memory: of the machine, the control groups, and the process's own limit.
 *
 * Source  proc(5); the kernel's cgroup-v2 (memory.max, .current, .stat) and cgroup-v1 (memory.*_in_bytes). */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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

/* The number after a key, the first in its line; -1: none. */
static int64_t keyed_number(const char *path, const char *key)
{
    char line[256];
    long long v = -1;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), "%*[: ]%lld", &v) == 1) break;
    if (f) fclose(f);
    return v;
}

/* Bytes of the process's address space; -1: unknown. */
static int64_t address_space(void)
{
    int64_t pages = file_number("/proc/self/statm");
    return pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

/* What remains in a group.  Inactive page cache counts as available: it is reclaimed on demand, and after reading a
 * large data set it fills the group. */
static void take_least(const char *dir, void *least)
{
    static const char *const file[2][4] = { { "memory.max", "memory.current", "memory.stat", "inactive_file" },
                                            { "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat",
                                              "total_inactive_file" } };
    int64_t *to = least;
    for (int v = 0; v < 2; v++) {
        char path[3][4400];
        for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%s", dir, file[v][i]);
        int64_t limit = file_number(path[0]), used = file_number(path[1]), files = keyed_number(path[2], file[v][3]);
        if (limit < 0 || used < 0) continue;
        if (files > 0) used = files < used ? used - files : 0;
        int64_t left = limit > used ? limit - used : 0;
        if (left < *to) *to = left;
    }
}

int64_t ot_memory_of_groups(const char *root)
{
    int64_t least = INT64_MAX;
    ot_cgroups(root, "memory", take_least, &least);
    return least;
}

int64_t ot_memory_available(void)
{
    int64_t system = keyed_number("/proc/meminfo", "MemAvailable"), swap = keyed_number("/proc/meminfo", "SwapFree");
    int64_t least = ot_memory_of_groups(""), taken = address_space();
    if (system >= 0 && 1024 * (system + (swap > 0 ? swap : 0)) < least) least = 1024 * (system + (swap > 0 ? swap : 0));
    struct rlimit r;
    if (!getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY && taken >= 0 && (int64_t)r.rlim_cur - taken < least)
        least = (int64_t)r.rlim_cur > taken ? (int64_t)r.rlim_cur - taken : 0;
    return least;
}

/* Nothing is touched, so only limits count.  Private and writable: what RLIMIT_AS, RLIMIT_DATA and strict overcommit
 * count. */
bool ot_memory_fits(int64_t bytes)
{
    if (bytes <= 0) return true;
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    munmap(p, (size_t)bytes);
    return true;
}

void ot_memory_ask_large_pages(void *p, size_t n)
{
    const uintptr_t large = 2 << 20, mask = 4095;
    uintptr_t begin = ((uintptr_t)p + mask) & ~mask, end = ((uintptr_t)p + n) & ~mask;
    if (n >= 2 * large) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void ot_memory_give_back(void *p, size_t n)
{
    const uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    uintptr_t begin = ((uintptr_t)p + mask) & ~mask, end = ((uintptr_t)p + n) & ~mask;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

bool ot_memory_limited(void)
{
    struct rlimit space, data;
    bool either = getrlimit(RLIMIT_AS, &space) || getrlimit(RLIMIT_DATA, &data);
    return either || space.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY ||
           file_number("/proc/sys/vm/overcommit_memory") == 2;
}
