/* sweep.c - the trainings of a sweep: every combination of --grid, or --random draws of it.
 *
 * A value of --grid is NAME=A,B,C, separated by bars where a value holds commas, or for --random a range NAME=A..B, by its
 * logarithm as NAME=log:A..B; a range between whole numbers gives whole numbers.  Draws of lists alone are without
 * replacement. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/train/commands/series.h"

enum { MOST_AXES = 32, MOST_VALUES = 1000, OT_STREAM_SWEEP = 0x20000 };

typedef struct axis {
    const char *name;
    int n;
    const char **value; /* a list; else a range: */
    double from, to;
    bool log, whole;
} axis;

static bool read_range(const char *text, axis *x)
{
    const char *dots = strstr(text, ".."), *digits = "0123456789";
    char head[40];
    if (!dots || dots - text >= (long)sizeof head) return false;
    snprintf(head, sizeof head, "%.*s", (int)(dots - text), text);
    x->whole = !head[strspn(head, digits)] && !dots[2 + strspn(dots + 2, digits)];
    return ot_number(head, &x->from) && ot_number(dots + 2, &x->to) && x->from < x->to && isfinite(x->from) &&
           isfinite(x->to);
}

/* "A,B" or "A|B"; commas within brackets are the value's. */
static ot_status read_list(const char *text, ot_arena *a, axis *x, ot_error *err)
{
    char by = strchr(text, '|') ? '|' : ',';
    x->value = ot_arena_alloc(a, MOST_VALUES * sizeof *x->value);
    if (!x->value) return ot_fail(err, OT_E_NOMEM, "no memory for --grid");
    for (const char *p = text;; p++) {
        int depth = 0;
        const char *from = p;
        for (; *p && (*p != by || depth > 0); p++) depth += (*p == '[') - (*p == ']');
        if (p == from || x->n == MOST_VALUES)
            return ot_fail(err, OT_E_USAGE,
                           p == from ? "--grid %s=%s: a value is empty" : "--grid %s: too many values: %s", x->name,
                           text);
        if (!(x->value[x->n++] = ot_arena_printf(a, "%.*s", (int)(p - from), from)))
            return ot_fail(err, OT_E_NOMEM, "no memory for --grid");
        if (!*p) return OT_OK;
    }
}

static ot_status read_axis(const char *text, bool random, ot_arena *a, axis *x, ot_error *err)
{
    const char *eq = strchr(text, '=');
    const char *name = eq ? ot_arena_printf(a, "%.*s", (int)(eq - text), text) : NULL;
    if (!eq) return ot_fail(err, OT_E_USAGE, "--grid: expected NAME=VALUE,VALUE with an option's name, got '%s'", text);
    if (!name) return ot_fail(err, OT_E_NOMEM, "no memory for --grid");
    while (*name == '-') name++;
    *x = (axis){ .name = name, .log = !strncmp(eq + 1, "log:", 4) };
    const ot_option_info *row = ot_option_find(name);
    if (!row) {
        const char *near = ot_option_nearest(name);
        return ot_fail(err, OT_E_USAGE, "--grid: unknown option '%s'%s%s%s", name, near ? "; did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
    }
    if ((ot_series_option(name) & OT_SERIES_UNVARIED) || !(row->commands & OT_CMD_TRAIN))
        return ot_fail(err, OT_E_USAGE, "--grid: option '%s' cannot be varied", name);
    const char *range = eq + 1 + (x->log ? 4 : 0);
    if (!x->log && !strstr(range, "..")) return read_list(range, a, x, err);
    if (!random)
        return ot_fail(err, OT_E_USAGE,
                       "--grid %s: a range needs --random N, the number of trainings; else list values", text);
    if (read_range(range, x) && (!x->log || x->from > 0)) return OT_OK;
    return ot_fail(err, OT_E_USAGE, "--grid %s: invalid range; expected A..B with A less than B%s", text,
                   x->log ? ", both above 0" : "");
}

/* The value of an axis for a draw: u is from [0,1). */
static const char *draw(const axis *x, double u, ot_arena *a)
{
    if (x->value) return x->value[(int)(u * x->n)];
    double up = x->to + (x->whole ? 1 : 0), v = x->log ? x->from * pow(up / x->from, u) : x->from + u * (up - x->from);
    return x->whole ? ot_arena_printf(a, "%.0f", fmin(floor(v), x->to)) : ot_arena_printf(a, "%.6g", v);
}

typedef struct grid {
    axis x[MOST_AXES];
    int n;
    bool random; /* draws; else every combination */
    uint64_t seed;
    ot_arena *a;
} grid;

/* Combination or draw k; again: how often it was drawn before. */
static ot_status set_values(const grid *g, ot_member *b, int k, uint64_t again, ot_error *err)
{
    for (int i = g->n - 1, rest = k; i >= 0; i--) {
        const axis *x = &g->x[i];
        uint32_t bits[4];
        ot_philox(g->seed, (uint64_t)k | again << 32, OT_STREAM_SWEEP + (uint64_t)i, bits);
        double u = ((double)bits[0] + (double)(bits[1] >> 11) * 0x1p-21) * 0x1p-32;
        b->pair[i][0] = x->name;
        b->pair[i][1] = g->random ? draw(x, u, g->a) : x->value[rest % x->n];
        if (!b->pair[i][1]) return ot_fail(err, OT_E_NOMEM, "no memory for --grid");
        if (!g->random) rest /= x->n;
    }
    return OT_OK;
}

/* Whether one of the n members has the values of b, which are of lists: the same addresses. */
static bool is_among(const ot_member *member, int n, const ot_member *b)
{
    for (int i = 0; i < n; i++) {
        bool same = true;
        for (int k = 0; same && k < b->n; k++) same = member[i].pair[k][1] == b->pair[k][1];
        if (same) return true;
    }
    return false;
}

static ot_status fill_member(const grid *g, bool lists, ot_member *all, int k, ot_error *err)
{
    ot_member *b = &all[k];
    *b = (ot_member){ .name = ot_arena_printf(g->a, "run-%d", k + 1),
                      .n = g->n,
                      .pair = ot_arena_alloc(g->a, (size_t)g->n * sizeof *b->pair),
                      .best = NAN };
    if (!b->name || !b->pair) return ot_fail(err, OT_E_NOMEM, "no memory for --grid");
    uint64_t again = 0;
    do OT_TRY(set_values(g, b, k, again++, err));
    while (g->random && lists && is_among(all, k, b));
    return OT_OK;
}

ot_status ot_sweep_members(const ot_options *o, ot_arena *a, ot_member **out, int *n, ot_error *err)
{
    int64_t random = ot_options_int(o, "random"), count = 1;
    grid g = { .n = ot_options_count(o, "grid"), .seed = (uint64_t)ot_options_int(o, "seed"), .a = a };
    bool lists = true;
    if (g.n < 1 || g.n > MOST_AXES)
        return ot_fail(err, OT_E_USAGE, "sweep needs --grid NAME=VALUE,VALUE, up to %d times", MOST_AXES);
    for (int i = 0; i < g.n; i++) {
        axis *x = &g.x[i];
        OT_TRY(read_axis(ot_options_nth(o, "grid", i), random > 0, a, x, err));
        for (int k = 0; k < i; k++)
            if (!strcmp(g.x[k].name, x->name))
                return ot_fail(err, OT_E_USAGE, "--grid: option '%s' is given twice", x->name);
        lists &= x->value != NULL;
        if (count <= OT_MOST_MEMBERS) count *= x->value ? x->n : 1;
    }
    g.random = random > 0 && (!lists || random < count); /* more draws than combinations: every one of them */
    if (g.random) count = random;
    if (count > OT_MOST_MEMBERS)
        return ot_fail(err, OT_E_USAGE, "--grid: more than %d combinations; use --random N of them", OT_MOST_MEMBERS);
    *n = (int)count;
    *out = ot_arena_alloc(a, (size_t)count * sizeof **out);
    if (!*out) return ot_fail(err, OT_E_NOMEM, "no memory for --grid");
    for (int k = 0; k < *n; k++) OT_TRY(fill_member(&g, lists, *out, k, err));
    return OT_OK;
}
