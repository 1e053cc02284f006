/* tune.c - measures every kernel and variant for a node on the device, once, and keeps the fastest.
 *
 * A node is identified by what determines its time: operator, attributes, types, shapes and layouts, as text.  For
 * each such key every candidate that can run it (ot_kernels), in each of its variants, is prepared and captured as a
 * few runs in a row, and the captured graph is launched between events: kernels then follow each other as closely as
 * in a plan, and submission does not count.  The medians of a few launches are compared.
 *
 * The results are in the device's cache folder, in the file `tune-<its name>`: a line of text per key.  It is
 * written after every node, so that an interrupted run continues where it stopped.  Every plan for that device reads
 * it; without it the order of the candidates decides, which does not depend on measurements.
 *
 * A candidate whose results are not those of the first one, within the rounding of its type, or that writes around them, is not
 * used: libraries offer such.
 *
 * Only operators with several kernels are measured (`ot_op.words`).  Floats are random numbers, since the time of a
 * product depends on the power that its operands draw; integers are zeros, which are valid labels and indices; masks
 * are all true. */
#include "runtime/passes/tune.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"

enum { GUARD = 256, COMPARED = 1 << 20 }; /* bytes around a result; of a result that are compared, at most */
enum { MOST_VARIANTS = 16, MOST_RUNS = 16, REPLAYS = 5, MOST_VALUES = 32, PATTERN = 1 << 18, LARGEST_FILE = 64 << 20 };

typedef struct entry {
    struct entry *next;
    const char *key;
    char kernel[32];
    int variant;
    double seconds;
    bool counted;
} entry;

struct ot_tune {
    ot_plan *plan;
    const ot_config *config;
    ot_device *device;
    const ot_backend *backend;
    ot_arena *arena;
    entry *first, **end;
    char path[4096]; /* of the cache file; "": none, because no folder for it was found */
    char head[64];
    int tuned, known, too_large, faulty;
    void *events[2];
    void *pattern;
    ot_error unwritten; /* the file could not be */
};

/* ---- keys -------------------------------------------------------------------------- */

static void add_value(FILE *f, const ot_value *v)
{
    char shape[128];
    if (!v) fputs(" -", f);
    else
        fprintf(f, " %s%s%s", ot_dtype_name(v->dtype), ot_shape_text(&v->shape, shape),
                v->layout == OT_CHANNELS_LAST ? "last" : "");
}

/* The operator, its attributes, types and shapes: "Dot tb float32[64,800] float32[500,800] -> float32[64,500]" (tb: the
 * second operand is transposed).  The caller frees it.  NULL: there is no choice of
 * kernels, or no memory. */
static char *key_of(const ot_tune *t, const ot_node *n)
{
    char *text = NULL;
    size_t size = 0;
    ot_prep p = ot_schedule_prep(t->plan, t->config, 0);
    if (!n->op->words || n->n_in > MOST_VALUES || n->n_out > MOST_VALUES) return NULL;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    fputs(n->op->name, f);
    n->op->words(f, n->attrs);
    fprintf(f, "%s%s", p.tf32 ? " tf32" : "", p.precise ? " precise" : "");
    for (int i = 0; i < n->n_in; i++) add_value(f, n->in[i]);
    fputs(" ->", f);
    for (int i = 0; i < n->n_out; i++) add_value(f, n->out[i]);
    if (ot_memstream_close(f)) return text;
    free(text);
    return NULL;
}

/* ---- the file ------------------------------------------------------------------------ */

static entry *find(const ot_tune *t, const char *key)
{
    for (entry *e = t->first; e; e = e->next)
        if (!strcmp(e->key, key)) return e;
    return NULL;
}

static void set(entry *e, const char *kernel, int variant, double seconds)
{
    snprintf(e->kernel, sizeof e->kernel, "%s", kernel);
    e->variant = variant;
    e->seconds = seconds;
}

static entry *add(ot_tune *t, const char *key, const char *kernel, int variant, double seconds)
{
    entry *e = ot_arena_alloc(t->arena, sizeof *e);
    if (!e || !(e->key = ot_arena_strdup(t->arena, key))) return NULL;
    set(e, kernel, variant, seconds);
    *t->end = e;
    t->end = &e->next;
    return e;
}

/* "cublaslt 3 12.4 us: Dot ..."; false: the line is invalid. */
static bool parse_line(ot_tune *t, const char *line)
{
    char kernel[32];
    int variant, key = -1;
    double us;
    if (sscanf(line, "%31s %d %lf us: %n", kernel, &variant, &us, &key) != 3 || key < 0 || !line[key]) return false;
    return variant >= 0 && us >= 0 && us < 1e12 && add(t, line + key, kernel, variant, us * 1e-6);
}

/* A file of another version is ignored, and so is an incomplete last line; any other invalid line discards the file. */
static void read_lines(ot_tune *t, char *text, size_t size)
{
    int number = 1;
    for (char *line = text, *end; (end = memchr(line, '\n', size - (size_t)(line - text))); line = end + 1, number++) {
        *end = 0;
        if (number == 1 && !strncmp(line, "onnxtrain tune ", 15) && strcmp(line, t->head) != 0) return;
        if (number == 1 ? !strcmp(line, t->head) : strlen(line) == (size_t)(end - line) && parse_line(t, line))
            continue;
        ot_plan_note(t->plan, "%s: line %d is damaged; the file is ignored", t->path, number);
        t->first = NULL;
        t->end = &t->first;
        return;
    }
}

static void read_file(ot_tune *t)
{
    void *bytes;
    size_t n;
    ot_error e = { 0 };
    if (!*t->path || access(t->path, F_OK)) return;
    if (ot_read_file(t->path, LARGEST_FILE, &bytes, &n, &e) != OT_OK) {
        ot_plan_note(t->plan, "%s: the file is ignored", e.text);
        return;
    }
    read_lines(t, bytes, n);
    free(bytes);
}

/* Entries that cannot be written are measured again by the next run; the plan reports it. */
static void write_file(ot_tune *t)
{
    ot_replace *r = NULL;
    char line[64];
    if (!*t->path || t->unwritten.status || ot_replace_begin(t->path, &r, &t->unwritten) != OT_OK) return;
    ot_status s = ot_replace_write(r, line, (size_t)snprintf(line, sizeof line, "%s\n", t->head), &t->unwritten);
    for (const entry *e = t->first; e && s == OT_OK; e = e->next) {
        s = ot_replace_write(
            r, line, (size_t)snprintf(line, sizeof line, "%s %d %.3f us: ", e->kernel, e->variant, e->seconds * 1e6),
            &t->unwritten);
        if (s == OT_OK) s = ot_replace_write(r, e->key, strlen(e->key), &t->unwritten);
        if (s == OT_OK) s = ot_replace_write(r, "\n", 1, &t->unwritten);
    }
    if (s == OT_OK) (void)!ot_replace_commit(r, &t->unwritten);
    else ot_replace_abort(r);
}

/* ---- one candidate ------------------------------------------------------------------ */

/* A node's values in the device's memory. */
typedef struct bench {
    void *in[MOST_VALUES], *out[MOST_VALUES];
    void *work, *table;
    char *first[MOST_VALUES]; /* what the first candidate computed; malloc'ed.  NULL: none has run */
} bench;

static int64_t bytes_of(const ot_value *v) { return (int64_t)ot_bytes(&v->shape, v->dtype); }

/* Floats in [-1, 1), the same in every run; true; zeros. */
static ot_status fill(ot_tune *t, const ot_value *v, void *at, ot_error *err)
{
    int64_t n = bytes_of(v), have = n < PATTERN ? n : PATTERN;
    bool floats = ot_is_float(v->dtype) && ot_dtype_bits(v->dtype) >= 16;
    uint64_t x = 0x9E3779B97F4A7C15u;
    if (!floats && v->dtype != OT_BOOL) return t->backend->zero(t->device, at, n, err);
    memset(t->pattern, 1, PATTERN);
    for (int64_t i = 0; floats && i < PATTERN * 8 / ot_dtype_bits(v->dtype); i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        ot_set_f64(t->pattern, v->dtype, i, (double)(int64_t)x * 0x1p-63);
    }
    OT_TRY(t->backend->upload(t->device, at, t->pattern, have, err));
    OT_TRY(t->backend->wait(t->device, err)); /* the pattern may change */
    for (; have < n; have *= 2)
        OT_TRY(t->backend->copy(t->device, (char *)at + have, at, have < n - have ? have : n - have, err));
    return OT_OK;
}

/* Zeros, also in the guards. */
static ot_status clear_output(ot_tune *t, const ot_value *v, void *at, ot_error *err)
{
    return t->backend->zero(t->device, (char *)at - GUARD, bytes_of(v) + 2 * GUARD, err);
}

static ot_status make_values(ot_tune *t, const ot_node *n, bench *b, ot_error *err)
{
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        OT_TRY(t->backend->alloc(t->device, bytes_of(n->in[i]), &b->in[i], err));
        OT_TRY(fill(t, n->in[i], b->in[i], err));
    }
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        OT_TRY(t->backend->alloc(t->device, bytes_of(n->out[i]) + 2 * GUARD, &b->out[i], err));
        b->out[i] = (char *)b->out[i] + GUARD;
        OT_TRY(clear_output(t, n->out[i], b->out[i], err));
    }
    return OT_OK;
}

static void free_values(ot_tune *t, bench *b)
{
    for (int i = 0; i < MOST_VALUES; i++) {
        t->backend->free(t->device, b->in[i]);
        t->backend->free(t->device, b->out[i] ? (char *)b->out[i] - GUARD : NULL);
        free(b->first[i]);
    }
}

/* ---- is it right ---------------------------------------------------------------------- */

/* The largest relative distance of results that are equal but for the order of their sums.  tf32 in place of f32 is 3e-4. */
static double tolerance(const ot_node *n, const ot_prep *p)
{
    double most = 1e-9;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        double one = !v || !ot_is_float(v->dtype)   ? 0
                     : ot_dtype_bits(v->dtype) < 32 ? 3e-2
                     : v->dtype == OT_F64           ? 0
                     : p->tf32 && !p->precise       ? 5e-3
                                                    : 1e-4;
        if (one > most) most = one;
    }
    return most;
}

static bool same_numbers(const ot_value *v, const void *a, const void *b, int64_t bytes, double most)
{
    double off = 0, all = 0;
    if (!ot_is_float(v->dtype) || ot_dtype_bits(v->dtype) < 16) return !memcmp(a, b, (size_t)bytes);
    for (int64_t i = 0, n = bytes * 8 / ot_dtype_bits(v->dtype); i < n; i++) {
        double x = ot_get_f64(a, v->dtype, i), y = ot_get_f64(b, v->dtype, i);
        if (isfinite(x) != isfinite(y)) return false;
        if (!isfinite(x)) continue;
        off += (x - y) * (x - y);
        all += y * y;
    }
    return sqrt(off) <= most * sqrt(all);
}

/* Reads output i, and whether nothing is written around it, and clears it for the next candidate. */
static ot_status take_output(ot_tune *t, const ot_value *v, char *at, char *got, bool *good, ot_error *err)
{
    static const char zeros[GUARD];
    char guard[2][GUARD];
    int64_t all = bytes_of(v), bytes = all < COMPARED ? all : COMPARED;
    OT_TRY(t->backend->download(t->device, guard[0], at - GUARD, GUARD, err));
    OT_TRY(t->backend->download(t->device, guard[1], at + all, GUARD, err));
    if (bytes) OT_TRY(t->backend->download(t->device, got, at, bytes, err));
    OT_TRY(t->backend->wait(t->device, err));
    *good = *good && !memcmp(guard[0], zeros, GUARD) && !memcmp(guard[1], zeros, GUARD);
    return clear_output(t, v, at, err);
}

/* Compares a candidate's results with those of the first good one, which it becomes if there is none yet. */
static ot_status compare(ot_tune *t, const ot_node *n, const ot_prep *p, bench *b, bool *good, ot_error *err)
{
    char *got[MOST_VALUES] = { NULL };
    ot_status s = OT_OK;
    for (int i = 0; i < n->n_out && s == OT_OK; i++) {
        if (!n->out[i]) continue;
        int64_t all = bytes_of(n->out[i]), bytes = all < COMPARED ? all : COMPARED;
        got[i] = malloc((size_t)bytes + 1);
        s = got[i] ? take_output(t, n->out[i], b->out[i], got[i], good, err)
                   : ot_fail(err, OT_E_NOMEM, "no memory to tune");
        if (s == OT_OK && b->first[i])
            *good = *good && same_numbers(n->out[i], got[i], b->first[i], bytes, tolerance(n, p));
    }
    for (int i = 0; i < n->n_out; i++) {
        bool first = s == OT_OK && *good && !b->first[i];
        if (first) b->first[i] = got[i];
        else free(got[i]);
    }
    return s;
}

/* ---- how long it takes ------------------------------------------------------------------ */

/* Seconds between events around `runs` calls, submitted one by one or as a captured graph. */
static ot_status between(ot_tune *t, const ot_kernel *k, const ot_call *c, ot_device_graph *r, double *seconds,
                         ot_error *err)
{
    OT_TRY(t->backend->event_record(t->device, t->events[0], err));
    OT_TRY(r ? t->backend->launch(t->device, r, err) : k->run(c));
    OT_TRY(t->backend->event_record(t->device, t->events[1], err));
    return t->backend->event_seconds(t->device, t->events[0], t->events[1], seconds, err);
}

static int by_size(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static ot_status record(ot_tune *t, const ot_kernel *k, const ot_call *c, int runs, ot_device_graph **out,
                        ot_error *err)
{
    ot_status s = OT_OK;
    *out = NULL;
    OT_TRY(t->backend->capture_begin(t->device, err));
    for (int i = 0; i < runs && s == OT_OK; i++) s = k->run(c);
    ot_status ended = t->backend->capture_end(t->device, out, err);
    return s == OT_OK ? ended : s;
}

/* The median time of one run.  A first run decides whether to go on: *seconds is its time if it is far above the
 * best so far. */
static ot_status time_runs(ot_tune *t, const ot_kernel *k, const ot_call *c, double best, double *seconds,
                           ot_error *err)
{
    double took[REPLAYS], once;
    ot_device_graph *r;
    OT_TRY(k->run(c)); /* triggers lazy loading */
    OT_TRY(between(t, k, c, NULL, &once, err));
    *seconds = once;
    if (best > 0 && once > 4 * best + 1e-4) return OT_OK;
    int runs = once < 1e-3 / (double)MOST_RUNS ? MOST_RUNS : once < 1e-3 ? (int)(1e-3 / once) : 1;
    ot_status s = record(t, k, c, runs, &r, err);
    for (int i = -1; i < REPLAYS && s == OT_OK; i++)
        s = between(t, k, c, r, &took[i < 0 ? 0 : i], err); /* the first is a warm-up */
    t->backend->graph_free(t->device, r);
    OT_TRY(s);
    qsort(took, REPLAYS, sizeof *took, by_size);
    *seconds = took[REPLAYS / 2] / runs;
    return OT_OK;
}

static ot_status time_prepared(ot_tune *t, const ot_kernel *k, const ot_node *n, const ot_prep *p, bench *b,
                               double best, double *seconds, ot_error *err)
{
    if (p->work) OT_TRY(t->backend->alloc(t->device, (int64_t)p->work, &b->work, err));
    if (p->table_bytes) {
        OT_TRY(t->backend->alloc(t->device, (int64_t)p->table_bytes, &b->table, err));
        OT_TRY(t->backend->upload(t->device, b->table, p->table, (int64_t)p->table_bytes, err));
    }
    ot_call c = { .node = n,
                  .in = (const void *const *)b->in,
                  .out = b->out,
                  .work = b->work,
                  .state = p->state,
                  .threads = p->threads,
                  .err = err,
                  .device = t->device,
                  .table = b->table };
    return time_runs(t, k, &c, best, seconds, err);
}

/* Measures one variant; *variants: how many the kernel has, 0: it refuses.  *ran: it ran, and rightly; if not, the device still
 * works, and the next candidate is tried. */
static ot_status time_variant(ot_tune *t, const ot_kernel *k, int variant, const ot_node *n, bench *b, double best,
                              int *variants, bool *ran, double *seconds)
{
    ot_error mine = { 0 };
    ot_prep p = ot_schedule_prep(t->plan, t->config, variant);
    p.err = &mine;
    *variants = 0;
    *ran = false;
    ot_status s = k->prepare ? k->prepare(n, &p) : OT_OK;
    if (s != OT_OK || p.refused) return s == OT_E_NOMEM ? ot_fail(t->plan->graph->err, s, "%s", mine.text) : OT_OK;
    s = time_prepared(t, k, n, &p, b, best, seconds, &mine);
    ot_status alive = t->backend->wait(t->device, t->plan->graph->err);
    if (k->release && p.state) k->release(p.state);
    t->backend->free(t->device, b->work);
    t->backend->free(t->device, b->table);
    b->work = b->table = NULL;
    *variants = p.variants > 1 ? p.variants : 1;
    *ran = s == OT_OK;
    if (*ran && alive == OT_OK) alive = compare(t, n, &p, b, ran, t->plan->graph->err);
    t->faulty += s == OT_OK && !*ran;
    return alive;
}

/* ---- one node ------------------------------------------------------------------------- */

/* Are there several variants?  A single kernel is prepared to count its variants. */
static ot_status has_choice(const ot_tune *t, const ot_node *n, bool *yes)
{
    const ot_kernel *only = NULL;
    const char *why;
    int count = 0;
    for (const ot_kernel *const *k = ot_kernels(n->op, t->device); *k; k++)
        if (ot_schedule_can(*k, n, &why)) only = *k, count++;
    *yes = count > 1;
    if (count != 1 || !only->prepare) return OT_OK;
    ot_prep p = ot_schedule_prep(t->plan, t->config, 0);
    OT_TRY(only->prepare(n, &p));
    if (only->release && p.state) only->release(p.state);
    *yes = !p.refused && p.variants > 1;
    return OT_OK;
}

static ot_status time_all(ot_tune *t, const ot_node *n, bench *b, ot_choice *best)
{
    const char *why;
    for (const ot_kernel *const *k = ot_kernels(n->op, t->device); *k; k++) {
        if (!ot_schedule_can(*k, n, &why)) continue;
        for (int v = 0, all = 1; v < all && v < MOST_VARIANTS; v++) {
            double seconds = 0;
            int variants;
            bool ran;
            OT_TRY(time_variant(t, *k, v, n, b, best->kernel ? best->seconds : 0, &variants, &ran, &seconds));
            if (!v) all = variants;
            if (ran && (!best->kernel || seconds < best->seconds)) *best = (ot_choice){ *k, v, seconds };
        }
    }
    return OT_OK;
}

/* e: an outdated entry; NULL: none. */
static ot_status tune_node(ot_tune *t, const ot_node *n, const char *key, entry *e, ot_choice *out)
{
    bench b = { .work = NULL };
    ot_error mine = { 0 };
    bool choice;
    OT_TRY(has_choice(t, n, &choice));
    if (!choice) return OT_OK;
    ot_status s = make_values(t, n, &b, &mine);
    if (s == OT_E_NOMEM) { /* larger than the free memory: the order of the candidates decides */
        t->too_large++;
        s = OT_OK;
    } else if (s == OT_OK) {
        s = time_all(t, n, &b, out);
    } else {
        ot_fail(t->plan->graph->err, s, "%s", mine.text);
    }
    free_values(t, &b);
    if (s != OT_OK || !out->kernel) return s;
    if (e) set(e, out->kernel->name, out->variant, out->seconds);
    else if (!(e = add(t, key, out->kernel->name, out->variant, out->seconds)))
        return ot_fail(t->plan->graph->err, OT_E_NOMEM, "no memory to tune");
    e->counted = true;
    t->tuned++;
    write_file(t);
    return OT_OK;
}

static const ot_kernel *kernel_named(const ot_tune *t, const ot_node *n, const char *name)
{
    const char *why;
    for (const ot_kernel *const *k = ot_kernels(n->op, t->device); *k; k++)
        if (!strcmp((*k)->name, name) && ot_schedule_can(*k, n, &why)) return *k;
    return NULL;
}

ot_status ot_tune_choose(ot_tune *t, const ot_node *n, ot_choice *out)
{
    *out = (ot_choice){ .kernel = NULL };
    if (!t || (!t->config->tune && !t->first)) return OT_OK;
    char *key = key_of(t, n);
    if (!key) return OT_OK;
    entry *e = find(t, key);
    const ot_kernel *k = e ? kernel_named(t, n, e->kernel) : NULL;
    ot_status s = OT_OK;
    if (k) {
        *out = (ot_choice){ k, e->variant, e->seconds };
        t->known += !e->counted;
        e->counted = true;
    } else if (t->config->tune) {
        s = tune_node(t, n, key, e, out);
    }
    free(key);
    return s;
}

/* ---- the whole -------------------------------------------------------------------------- */

static ot_status prepare_timing(ot_tune *t, ot_error *err)
{
    t->pattern = ot_arena_alloc(t->arena, PATTERN);
    if (!t->pattern) return ot_fail(err, OT_E_NOMEM, "no memory to tune");
    OT_TRY(t->backend->event_new(t->device, &t->events[0], err));
    return t->backend->event_new(t->device, &t->events[1], err);
}

/* "tune-NVIDIA-H200": two devices may run the same kernels at different speeds. */
static void name_file(ot_tune *t)
{
    ot_device_info i;
    char name[160];
    t->backend->info(t->device, &i);
    snprintf(name, sizeof name, "tune-%s", i.name);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '-';
    if (!ot_cache_path(i.key, name, t->config->tune, t->path, sizeof t->path)) t->path[0] = 0;
}

ot_status ot_tune_open(ot_plan *p, const ot_config *c, ot_tune **out)
{
    *out = NULL;
    if (c->tune && !c->device) ot_plan_note(p, "--tune: no effect on the CPU");
    if (!c->device || c->ref_only) return OT_OK;
    if (!c->device->fault) { /* only a description: nothing can run on it */
        if (c->tune) ot_plan_note(p, "--tune: no effect: no GPU is available");
        return OT_OK;
    }
    ot_arena *a = ot_arena_new();
    ot_tune *t = a ? ot_arena_alloc(a, sizeof *t) : NULL;
    if (!t) {
        ot_arena_free(a);
        return ot_fail(p->graph->err, OT_E_NOMEM, "no memory to tune");
    }
    *t = (ot_tune){ .plan = p, .config = c, .device = c->device, .backend = c->device->backend, .arena = a };
    t->end = &t->first;
    snprintf(t->head, sizeof t->head, "onnxtrain tune 1 %s", OT_VERSION);
    name_file(t);
    read_file(t);
    *out = t;
    return c->tune ? prepare_timing(t, p->graph->err) : OT_OK;
}

void ot_tune_close(ot_tune *t)
{
    if (!t) return;
    if (t->config->tune) {
        ot_plan_note(t->plan, "tuning: %d operators measured, %d from the cache", t->tuned, t->known);
        if (t->faulty)
            ot_plan_note(t->plan, "tuning: %d kernels are not used: their results differ from those of the first one",
                         t->faulty);
        if (t->too_large)
            ot_plan_note(t->plan, "%d operators were not tuned: not enough free GPU memory", t->too_large);
        if (t->unwritten.status || !*t->path)
            ot_plan_note(t->plan, "tuning results are not saved: %s", *t->path ? t->unwritten.text : "no cache folder");
        /* The random operands are invalid for some kernels. */
        ot_error ignored = { 0 };
        (void)!t->backend->zero(t->device, t->device->fault, sizeof(ot_fault), &ignored);
    }
    t->backend->event_free(t->device, t->events[0]);
    t->backend->event_free(t->device, t->events[1]);
    ot_arena_free(t->arena);
}
