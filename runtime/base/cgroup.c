/* cgroup.c - finds the control groups of this process.
 *
 * Source  proc(5) for the formats of cgroup and mountinfo. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

/* Visits the group at mount/path and its ancestors, up to the mount point. */
static void upwards(const char *mount, const char *path, void (*each)(const char *dir, void *user), void *user)
{
    char dir[4096];
    int n = snprintf(dir, sizeof dir, "%s%s", mount, strcmp(path, "/") ? path : "");
    if (n < 0 || n >= (int)sizeof dir) return;
    for (size_t root = strlen(mount);;) {
        each(dir, user);
        char *slash = strrchr(dir, '/');
        if (!slash || slash < dir + root) return;
        *slash = '\0';
    }
}

static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == n && !strncmp(list, word, n)) return true;
    return false;
}

/* The path of the process's group, from /proc/self/cgroup: "0::/a/b" (version 2) or "4:cpu,cpuacct:/a/b".  false: none. */
static bool group_path(const char *root, const char *kind, bool v2, char *out, size_t size)
{
    char line[4096];
    bool found = false;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *f = fopen(line, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *kinds = strchr(line, ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!path || path[1] != '/') continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        found = v2 ? !kinds[1] : listed(kinds + 1, kind);
        if (found) snprintf(out, size, "%s", path);
    }
    if (f) fclose(f);
    return found;
}

/* A container sees its own group as the root of the mount: the hidden part is removed from the path. */
static const char *below(const char *path, const char *mounted)
{
    size_t n = strlen(mounted);
    if (!strcmp(mounted, "/")) return path;
    return !strncmp(path, mounted, n) && (!path[n] || path[n] == '/') ? path + n : "/";
}

/* One line of mountinfo: "31 23 0:28 ROOT POINT options [optional ...] - TYPE source OPTIONS". */
static void groups_of_mount(const char *root, const char *kind, char *line, void (*each)(const char *dir, void *user),
                            void *user)
{
    char mounted[4096], point[4096], type[32], options[1024], path[4096], where[8192];
    const char *tail = strstr(line, " - ");
    if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", mounted, point) != 2) return;
    if (sscanf(tail, " - %31s %*s %1023s", type, options) != 2) return;
    bool v2 = !strcmp(type, "cgroup2");
    if (!v2 && (strcmp(type, "cgroup") || !listed(options, kind))) return;
    if (!group_path(root, kind, v2, path, sizeof path)) return;
    snprintf(where, sizeof where, "%s%s", root, point);
    upwards(where, below(path, mounted), each, user);
}

void ot_cgroups(const char *root, const char *kind, void (*each)(const char *dir, void *user), void *user)
{
    char line[16384];
    snprintf(line, sizeof line, "%s/proc/self/mountinfo", root);
    FILE *f = fopen(line, "r");
    while (f && fgets(line, sizeof line, f)) groups_of_mount(root, kind, line, each, user);
    if (f) fclose(f);
}
