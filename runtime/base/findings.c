/* findings.c - findings about a model or a run, for the user. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/findings.h"

static ot_finding *same(const ot_findings *f, ot_severity s, const char *what, const char *remedy)
{
    for (int i = 0; i < f->n; i++)
        if (f->list[i].severity == s && !strcmp(f->list[i].what, what) && !strcmp(f->list[i].remedy, remedy))
            return &f->list[i];
    return NULL;
}

static ot_finding *append(ot_findings *f, ot_severity s, const char *what, const char *remedy)
{
    if (f->n == f->cap) {
        int cap = f->cap ? 2 * f->cap : 8;
        ot_finding *list = ot_arena_alloc(f->a, (size_t)cap * sizeof *list);
        if (!list) return NULL;
        if (f->n) memcpy(list, f->list, (size_t)f->n * sizeof *list);
        f->list = list;
        f->cap = cap;
    }
    char *w = ot_arena_strdup(f->a, what), *r = ot_arena_strdup(f->a, remedy);
    if (!w || !r) return NULL;
    f->list[f->n] = (ot_finding){ .severity = s, .what = w, .remedy = r };
    return &f->list[f->n++];
}

static void add(ot_findings *f, ot_severity s, const char *remedy, const char *what, int n, const char *const *name)
{
    ot_finding *x = same(f, s, what, remedy);
    if (!x) x = append(f, s, what, remedy);
    if (!x) {
        f->lost = true;
        return;
    }
    for (int i = 0; i < n && i < OT_FINDING_NAMES && x->n + i < OT_FINDING_NAMES; i++)
        if (name[i] && !(x->name[x->n + i] = ot_arena_strdup(f->a, name[i]))) f->lost = true;
    x->n += n;
}

void ot_find(ot_findings *f, ot_severity s, const char *name, const char *remedy, const char *what, ...)
{
    char text[1024];
    va_list ap;
    if (!f || !f->a) return;
    va_start(ap, what);
    ot_vtext(text, sizeof text, what, ap);
    va_end(ap);
    add(f, s, remedy ? remedy : "", text, name != NULL, &name);
}

void ot_find_all(ot_findings *f, const ot_findings *more)
{
    f->lost |= more->lost;
    for (int i = 0; i < more->n; i++) {
        const ot_finding *x = &more->list[i];
        if (!same(f, x->severity, x->what, x->remedy)) add(f, x->severity, x->remedy, x->what, x->n, x->name);
    }
}

void ot_find_lines(ot_findings *f, ot_severity s, const char *lines)
{
    while (lines && *lines) {
        size_t n = strcspn(lines, "\n");
        ot_find(f, s, NULL, NULL, "%.*s", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

const char *ot_finding_line(const ot_finding *x, ot_arena *a)
{
    char names[400] = "", shown[104];
    size_t at = 0;
    for (int i = 0; i < x->n && i < OT_FINDING_NAMES && x->name[i] && at < sizeof names - 1; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "",
                               ot_shown(x->name[i], shown, sizeof shown));
    const char *more = x->n > OT_FINDING_NAMES ? ", …" : "", *then = *x->remedy ? ": " : "";
    if (!x->n) return ot_arena_printf(a, "%s%s%s", x->what, then, x->remedy);
    if (x->n == 1) return ot_arena_printf(a, "%s (%s)%s%s", x->what, names, then, x->remedy);
    return ot_arena_printf(a, "%s (%d: %s%s)%s%s", x->what, x->n, names, more, then, x->remedy);
}

const char *ot_findings_text(const ot_findings *f, ot_severity s)
{
    const char *text = f->lost ? NULL : "";
    for (int i = 0; text && i < f->n; i++) {
        if (f->list[i].severity != s) continue;
        const char *line = ot_finding_line(&f->list[i], f->a);
        text = line ? ot_arena_printf(f->a, "%s%s%s", text, *text ? "\n" : "", line) : NULL;
    }
    return text;
}

const char *ot_severity_name(ot_severity s)
{
    return s == OT_FINDING_ERROR ? "error" : s == OT_FINDING_WARNING ? "warning" : "note";
}
