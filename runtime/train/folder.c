/* folder.c - the folder of a run. */

#include <errno.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/folder.h"

const char *ot_stem(const char *path, ot_arena *a)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    return ot_arena_printf(a, "%.*s", (int)(dot && dot > name ? dot - name : (long)strlen(name)),
                           name);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static ot_status make_all(char *path, ot_error *err)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        int bad = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
        *p = '/';
        if (bad) return ot_fail(err, OT_E_IO, "%s: %s", path, strerror(bad));
    }
    if (!mkdir(path, 0777) || (errno == EEXIST && is_folder(path))) return OT_OK;
    return ot_fail(err, OT_E_IO, "%s: %s", path, strerror(errno));
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
            return ot_fail(err, OT_E_IO, "%s: cannot become %s: %s", from, to, strerror(errno));
    }
    return OT_OK;
}

/* The file every run writes first. */
static bool holds_a_run(const char *path, ot_arena *a)
{
    const char *mark = ot_arena_printf(a, "%s/options.conf", path);
    return mark && !access(mark, F_OK);
}

ot_status ot_folder_make(const char *asked, const char *model, ot_arena *a, const char **out,
                         ot_error *err)
{
    if (asked) {
        char *path = ot_arena_strdup(a, asked);
        if (!path) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
        for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
        if (holds_a_run(path, a)) OT_TRY(move_away(path, a, err));
        *out = path;
        return make_all(path, err);
    }
    char runs[] = "runs";
    const char *stem = ot_stem(model, a);
    OT_TRY(make_all(runs, err));
    for (int n = 1; stem && n < 1000000; n++) {
        const char *path = ot_arena_printf(a, "runs/%s-%d", stem, n);
        if (!path) break;
        *out = path;
        if (!mkdir(path, 0777)) return OT_OK;
        if (errno != EEXIST) return ot_fail(err, OT_E_IO, "%s: %s", path, strerror(errno));
    }
    return ot_fail(err, OT_E_IO, "runs: no free folder");
}

ot_status ot_folder_check(const char *path, ot_arena *a, ot_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *folder = !slash          ? "."
                         : slash == path ? "/"
                                         : ot_arena_printf(a, "%.*s", (int)(slash - path), path);
    if (!folder) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    if (is_folder(path)) return ot_fail(err, OT_E_IO, "%s: is a folder; a file is needed", path);
    if (access(folder, W_OK))
        return ot_fail(err, OT_E_IO, "%s: nothing can be written in %s: %s", path, folder,
                       strerror(errno));
    return OT_OK;
}
