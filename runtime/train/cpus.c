/* cpus.c - how many threads the machine has for this process.
 *
 * More threads than processors wait for each other, and under a quota it is worse: all of them run until the time of a
 * period is spent, then none does.  So the default is the lesser of the affinity and of what the control groups grant.
 *
 * Source  proc(5) for the formats of cgroup and mountinfo; the kernel's cgroup-v2 (cpu.max) and sched-bwc (cpu.cfs_*). */
#include "runtime/train/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the quota of one group -------------------------------------------------------- */

/* The first two numbers of a file; "max" is -1.  false: they are not there. */
static bool two_numbers(const char *path, double *a, double *b)
{
    char  text[64];
    FILE *f = fopen(path, "r");
    int   n = f ? fscanf(f, "%63s %lf", text, b) : 0;
    if (f) fclose(f);
    if (n < 1) return false;
    *a = strcmp(text, "max") ? strtod(text, NULL) : -1;
    return n == 2;
}

/* Of the group in folder dir; 0: it has none. */
static double quota_of(const char *dir)
{
    char   path[2 * 4096];
    double quota = -1, period = 0, ignored;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (!two_numbers(path, &quota, &period)) {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
        (void)two_numbers(path, &quota, &ignored);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        (void)two_numbers(path, &period, &ignored);
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

static double lesser(double a, double b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* The least of the group at mount/path and those above it, up to the mount point. */
static double quota_upwards(const char *mount, const char *path)
{
    char   dir[4096];
    double least = 0;
    int    n = snprintf(dir, sizeof dir, "%s%s", mount, strcmp(path, "/") ? path : "");
    if (n < 0 || n >= (int)sizeof dir) return 0;
    for (size_t root = strlen(mount);;) {
        least = lesser(least, quota_of(dir));
        char *slash = strrchr(dir, '/');
        if (!slash || slash < dir + root) return least;
        *slash = '\0';
    }
}

/* ---- which groups ------------------------------------------------------------------- */

static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == n && !strncmp(list, word, n)) return true;
    return false;
}

/* The path of the process's group, from /proc/self/cgroup: "0::/a/b" (version 2) or "4:cpu,cpuacct:/a/b".  false: none. */
static bool group_path(const char *root, bool v2, char *out, size_t size)
{
    char  line[4096];
    bool  found = false;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *f = fopen(line, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *kinds = strchr(line, ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!path || path[1] != '/') continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        found = v2 ? !kinds[1] : listed(kinds + 1, "cpu");
        if (found) snprintf(out, size, "%s", path);
    }
    if (f) fclose(f);
    return found;
}

/* A container sees its own group as the root of the mount: what the mount hides above it is cut off the path. */
static const char *below(const char *path, const char *mounted)
{
    size_t n = strlen(mounted);
    if (!strcmp(mounted, "/")) return path;
    return !strncmp(path, mounted, n) && (!path[n] || path[n] == '/') ? path + n : "/";
}

/* One line of mountinfo: "31 23 0:28 ROOT POINT options [optional ...] - TYPE source OPTIONS". */
static double quota_of_mount(const char *root, char *line)
{
    char        mounted[4096], point[4096], type[32], options[1024], path[4096], where[8192];
    const char *tail = strstr(line, " - ");
    if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", mounted, point) != 2) return 0;
    if (sscanf(tail, " - %31s %*s %1023s", type, options) != 2) return 0;
    bool v2 = !strcmp(type, "cgroup2");
    if (!v2 && (strcmp(type, "cgroup") || !listed(options, "cpu"))) return 0;
    if (!group_path(root, v2, path, sizeof path)) return 0;
    snprintf(where, sizeof where, "%s%s", root, point);
    return quota_upwards(where, below(path, mounted));
}

double ot_cpu_quota(const char *root)
{
    char   line[16384];
    double least = 0;
    snprintf(line, sizeof line, "%s/proc/self/mountinfo", root);
    FILE *f = fopen(line, "r");
    while (f && fgets(line, sizeof line, f)) least = lesser(least, quota_of_mount(root, line));
    if (f) fclose(f);
    return least;
}

/* ---- together ------------------------------------------------------------------------ */

/* A part of a processor is worth a thread from a half on: below, the thread is in the way of the others more often than
 * it runs. */
int ot_threads_for(int processors, double quota)
{
    int n = quota > 0 && quota < processors ? (int)(quota + 0.5) : processors;
    return n < 1 ? 1 : n;
}

/* The mask must be as wide as the kernel's, which does not say how wide that is. */
static int processors(void)
{
    int n = 0;
    for (int width = 1024; !n && width <= 1 << 20; width *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)width);
        size_t     bytes = CPU_ALLOC_SIZE((size_t)width);
        if (!set) break;
        if (!sched_getaffinity(0, bytes, set)) n = CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
    }
    return n > 0 ? n : 1;
}

ot_cpus ot_cpus_read(void)
{
    ot_cpus c = { .processors = processors(), .quota = ot_cpu_quota("") };
    c.threads = ot_threads_for(c.processors, c.quota);
    return c;
}

const char *ot_cpus_text(const ot_cpus *c, char buf[96])
{
    *buf = '\0';
    if (c->threads < c->processors) snprintf(buf, 96, " (of %d processors; the CPU quota is %.4g)", c->processors, c->quota);
    return buf;
}
