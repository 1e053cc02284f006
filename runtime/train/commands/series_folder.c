/* series_folder.c - what the folder of a series says: whether it is one, and the options it continues with. */

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/commands/series.h"
#include "runtime/train/run/trainer.h"

json_t *ot_series_start(int folder)
{
    enum { LARGEST = 1 << 20 };
    int fd = openat(folder, "log.jsonl", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = fd < 0 ? NULL : malloc(LARGEST);
    int64_t n = text ? ot_read_at(fd, text, LARGEST, 0) : 0;
    const char *stop = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
    json_t *line = NULL;
    if (stop) (void)ot_json_parse(text, (size_t)(stop - text), &line);
    if (line && !json_string_value(json_object_get(line, "series"))) {
        json_decref(line);
        line = NULL;
    }
    if (fd >= 0) close(fd);
    free(text);
    return line;
}

bool ot_series_is_here(const json_t *start)
{
    char here[PATH_MAX];
    const char *was = json_string_value(json_object_get(start, "folder"));
    return was && getcwd(here, sizeof here) && !strcmp(here, was);
}

/* The name of the first training of that series. */
static const char *first_of(const json_t *start)
{
    return strcmp(json_string_value(json_object_get(start, "series")), "sweep") ? "fold-1" : "run-1";
}

unsigned ot_series_option(const char *name)
{
    enum {
        OWN = OT_SERIES_OWN | OT_SERIES_UNVARIED,
        ONE = OT_SERIES_REFUSED | OT_SERIES_UNVARIED,
        SHOWS = OT_SERIES_SHOWS | OT_SERIES_MAY_CHANGE
    };
    static const struct {
        const char *name;
        unsigned is;
    } table[] = {
        { "folds", OWN },
        { "grid", OWN },
        { "random", OWN },
        { "run-dir", OWN | SHOWS },
        { "o", OWN | ONE },
        { "deploy", ONE },
        { "config", OT_SERIES_UNVARIED },
        { "log", SHOWS | OT_SERIES_UNVARIED },
        { "quiet", SHOWS | OT_SERIES_UNVARIED },
        { "verbose", SHOWS | OT_SERIES_UNVARIED },
        { "log-every", SHOWS },
        { "device", OT_SERIES_MAY_CHANGE },
        { "threads", OT_SERIES_MAY_CHANGE },
        { "time-limit", OT_SERIES_MAY_CHANGE },
    };
    for (int i = 0; i < OT_LEN(table); i++)
        if (!strcmp(name, table[i].name)) return table[i].is;
    return 0;
}

static bool is_given(const ot_options *o, const char *name, int k, const json_t *value)
{
    const char *now = ot_options_nth(o, name, k), *then = json_string_value(value);
    return now && then && !strcmp(now, then);
}

static bool is_unchanged(const ot_options *o, const char *name, const json_t *then)
{
    if (json_is_string(then)) return is_given(o, name, 0, then);
    int n = (int)json_array_size(then);
    bool same = n > 0 && ot_options_count(o, name) == n;
    for (int k = 0; same && k < n; k++) same = is_given(o, name, k, json_array_get(then, (size_t)k));
    return same;
}

/* The options of a start event.  Others are refused: trainings that are over had those, and the table compares. */
static ot_status take_options(const json_t *start, const char *run_dir, ot_options *o, ot_error *err)
{
    const ot_option_info *row;
    const json_t *options = json_object_get(start, "options");
    for (int i = 0; (row = ot_option_at(i)); i++) {
        json_t *v = json_object_get(options, row->name), *one;
        size_t k;
        bool given = ot_options_nth(o, row->name, 0) != NULL;
        if (given && !(ot_series_option(row->name) & OT_SERIES_MAY_CHANGE) && !is_unchanged(o, row->name, v))
            return ot_fail(err, OT_E_USAGE,
                           "--%s: %s contains several trainings, which continue with the options they were started "
                           "with; remove the option, start a new series with it, or continue one training: onnxtrain "
                           "resume %s/%s --%s %s",
                           row->name, run_dir, run_dir, first_of(start), row->name, ot_options_nth(o, row->name, 0));
        if (!v || given) continue;
        if (json_is_string(v)) OT_TRY(ot_options_set(o, row->name, json_string_value(v), err));
        json_array_foreach(v, k, one) if (json_is_string(one))
            OT_TRY(ot_options_set(o, row->name, json_string_value(one), err));
    }
    return OT_OK;
}

ot_status ot_series_refuse(const char *run_dir, const char *command, ot_error *err)
{
    int fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    json_t *start = fd < 0 ? NULL : ot_series_start(fd);
    if (fd >= 0) close(fd);
    if (!start) return OT_OK;
    int64_t n = json_integer_value(json_object_get(start, "trainings"));
    const char *first = first_of(start);
    ot_status s = ot_fail(err, OT_E_USAGE,
                          "%s: is the folder of several trainings, compared in its %s; name the folder of one: "
                          "onnxtrain %s %s/%s, up to %.*s%lld",
                          run_dir, *first == 'r' ? "sweep.csv" : "folds.csv", command, run_dir, first,
                          (int)strcspn(first, "1"), first, (long long)n);
    json_decref(start);
    return s;
}

ot_status ot_series_runs(const char *path, ot_arena *a, const char ***list, int *n, ot_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    json_t *start = fd < 0 ? NULL : ot_series_start(fd);
    *list = NULL;
    *n = 0;
    if (start) {
        const char *first = first_of(start);
        int digit = (int)strcspn(first, "1");
        int64_t all = json_integer_value(json_object_get(start, "trainings"));
        if (all < 0 || all > OT_MOST_MEMBERS) all = 0;
        *list = ot_arena_alloc(a, (size_t)(all + 1) * sizeof **list);
        for (int64_t i = 1; *list && i <= all; i++) {
            const char *run = ot_arena_printf(a, "%s/%.*s%lld", path, digit, first, (long long)i);
            const char *log = run ? ot_arena_printf(a, "%.*s%lld/log.jsonl", digit, first, (long long)i) : NULL;
            if (!log) *list = NULL;
            else if (!faccessat(fd, log, R_OK, 0)) (*list)[(*n)++] = run;
        }
    }
    bool lost = start && !*list;
    if (fd >= 0) close(fd);
    json_decref(start);
    return lost ? ot_fail(err, OT_E_NOMEM, "no memory for the runs of %s", path) : OT_OK;
}

ot_status ot_series_open(const char *run_dir, ot_options *o, char **model, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(model);
    *model = NULL;
    OT_GIVEN(run_dir);
    OT_GIVEN(o);
    int fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    json_t *start = fd < 0 ? NULL : ot_series_start(fd);
    if (fd >= 0) close(fd);
    if (!start) return OT_OK;
    const char *path = json_string_value(json_object_get(start, "model")),
               *was = json_string_value(json_object_get(start, "folder"));
    ot_status s = path ? OT_OK : ot_fail(err, OT_E_IO, "%s/log.jsonl: names no model", run_dir);
    if (!s && !ot_series_is_here(start))
        s = ot_fail(err, OT_E_USAGE, "%s: a series continues in the folder that it was started in: cd %s", run_dir,
                    was ? was : "there");
    if (!s) s = take_options(start, run_dir, o, err);
    if (!s) s = ot_options_set(o, "run-dir", run_dir, err);
    if (!s && !(*model = strdup(path))) s = ot_fail(err, OT_E_NOMEM, "no memory for a path");
    json_decref(start);
    return s;
}
