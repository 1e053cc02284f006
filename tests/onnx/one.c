/* one.c - one case of the standard: model.onnx, and test_data_set_N/{input,output}_K.pb. */
#include "tests/onnx/onnx_tests.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "importer/import.h"
#include "runtime/exec/exec.h"
#include "runtime/passes/passes.h"

enum { MAX_FEEDS = 64 };

typedef struct feeds {
    int n;
    ot_tensor tensor[MAX_FEEDS]; /* named as the inputs of the graph */
} feeds;

/* A path that is cut names no file: it is reported as missing. */
OT_PRINTF(2, 3) static void path_of(char path[4096], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(path, 4096, fmt, ap);
    va_end(ap);
}

/* Relative, absolute: the standard's own 1e-3 and a little room near zero. */
static bool close_enough(ot_dtype t, double want, double got)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (want == got) return true;
    double rel = 1e-3, abs = 1e-5;
    if (t == OT_F16) rel = 1e-2, abs = 1e-3;
    if (t == OT_BF16) rel = 2e-2, abs = 1e-2;
    return fabs(want - got) <= abs + rel * fabs(want);
}

static const char *compare(const ot_value *v, const void *got, const ot_tensor *want, bool values, char *buf,
                           size_t cap)
{
    ot_shape s = { .rank = want->rank };
    memcpy(s.dim, want->dim, sizeof s.dim);
    char a[128], b[128];
    if (v->dtype != want->dtype) {
        snprintf(buf, cap, "%s: is %s, wants %s", v->name, ot_dtype_name(v->dtype), ot_dtype_name(want->dtype));
        return buf;
    }
    if (!ot_shape_eq(&v->shape, &s)) {
        snprintf(buf, cap, "%s: is %s, wants %s", v->name, ot_shape_text(&v->shape, a), ot_shape_text(&s, b));
        return buf;
    }
    if (!values) return NULL;
    if (v->layout != OT_PLAIN) return "an output is not in plain layout";
    int64_t n = ot_numel(&s);
    for (int64_t i = 0; i < n; i++) {
        if (v->dtype == OT_STRING) {
            const char *x = ((const char *const *)want->data)[i], *y = ((const char *const *)got)[i];
            if (!strcmp(x, y)) continue;
            snprintf(buf, cap, "%s[%lld] of %s: is '%.60s', wants '%.60s'", v->name, (long long)i, ot_shape_text(&s, a),
                     y, x);
        } else if (ot_is_float(v->dtype)) {
            double x = ot_get_f64(want->data, want->dtype, i), y = ot_get_f64(got, v->dtype, i);
            if (close_enough(v->dtype, x, y)) continue;
            snprintf(buf, cap, "%s[%lld] of %s: is %.9g, wants %.9g", v->name, (long long)i, ot_shape_text(&s, a), y,
                     x);
        } else {
            int64_t x = ot_get_i64(want->data, want->dtype, i), y = ot_get_i64(got, v->dtype, i);
            if (x == y) continue;
            snprintf(buf, cap, "%s[%lld] of %s: is %lld, wants %lld", v->name, (long long)i, ot_shape_text(&s, a),
                     (long long)y, (long long)x);
        }
        return buf;
    }
    return NULL;
}

static const char *load_inputs(const char *set, const ot_graph *g, ot_arena *arena, feeds *f, ot_error *err)
{
    for (int i = 0, k = 0; i < g->n_inputs; i++, k++) {
        char path[4096];
        path_of(path, "%s/input_%d.pb", set, k);
        if (access(path, R_OK)) continue; /* has a default */
        if (f->n == MAX_FEEDS) return "more inputs than the runner feeds";
        ot_tensor *t = &f->tensor[f->n++];
        if (ot_import_tensor(path, arena, t, err)) return err->text;
        t->name = g->inputs[i]->name;
    }
    return NULL;
}

static const char *run_plan(const char *set, const ot_plan *p, ot_exec *x, const feeds *f, ot_arena *arena, bool values,
                            char *buf, size_t cap, ot_error *err)
{
    static const uint64_t zero[2];
    for (int i = 0; i < p->graph->n_inputs; i++) {
        const ot_value *v = p->graph->inputs[i];
        const void *bytes = NULL;
        for (int k = 0; k < f->n; k++)
            if (!strcmp(f->tensor[k].name, v->name)) bytes = f->tensor[k].data;
        if (!bytes && v->shape.rank == 0) bytes = zero; /* a knob */
        if (!bytes && ot_shape_known(&v->shape) && ot_numel(&v->shape) == 0) bytes = zero;
        if (!bytes) return "an input has no data";
        ot_exec_feed(x, v, bytes);
    }
    if (ot_exec_batch(x, err)) return err->text;
    for (int k = 0; k < p->graph->n_outputs; k++) {
        char path[4096];
        ot_tensor want = { 0 };
        path_of(path, "%s/output_%d.pb", set, k);
        if (access(path, R_OK)) continue;
        if (ot_import_tensor(path, arena, &want, err)) return err->text;
        const ot_value *v = p->graph->outputs[k];
        const char *why = compare(v, ot_exec_bytes(x, v), &want, values, buf, cap);
        if (why) return why;
    }
    return NULL;
}

/* true: passed; else buf says why not. */
static bool run_set(const char *set, const ot_imported *m, const ot_setting *s, bool values, char *buf, size_t cap,
                    ot_error *err)
{
    ot_arena *arena = ot_arena_new();
    feeds f = { 0 };
    ot_feed feed[MAX_FEEDS];
    ot_plan *plan = NULL;
    ot_exec *exec = NULL;
    const char *why = arena ? load_inputs(set, m->graph, arena, &f, err) : "no memory";
    for (int i = 0; i < f.n; i++) {
        const ot_tensor *t = &f.tensor[i];
        feed[i] = (ot_feed){ .name = t->name, .dtype = t->dtype, .shape = { .rank = t->rank }, .whole = true };
        memcpy(feed[i].shape.dim, t->dim, sizeof t->dim);
    }
    ot_config c = { .want = OT_WANT_RUN,
                    .n_feeds = f.n,
                    .feeds = feed,
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = s->threads,
                    .ref_only = s->ref_only };
    if (!why && ot_plan_new(m->graph, &c, NULL, &plan, err)) {
        /* Sizes may come from data: once more, with everything known. */
        for (int i = 0; i < f.n; i++) feed[i].data = f.tensor[i].data;
        *err = (ot_error){ 0 };
        if (ot_plan_new(m->graph, &c, NULL, &plan, err)) why = err->text;
    }
    if (!why && ot_exec_new(plan, NULL, &exec, err)) why = err->text;
    if (!why) why = run_plan(set, plan, exec, &f, arena, values, buf, cap, err);
    if (why && why != buf) snprintf(buf, cap, "%s", why);
    ot_exec_free(exec);
    ot_plan_free(plan);
    ot_arena_free(arena);
    return !why;
}

const char *ot_run_case(const char *folder, const ot_setting *s, bool values, char *buf, size_t cap)
{
    char path[4096];
    ot_error err = { 0 };
    ot_imported *m = NULL;
    bool ok = true;
    int sets = 0;
    path_of(path, "%s/model.onnx", folder);
    if (ot_import(path, &m, &err)) {
        snprintf(buf, cap, "import: %s", err.text);
        return buf;
    }
    for (; ok; sets++) {
        path_of(path, "%s/test_data_set_%d", folder, sets);
        if (access(path, R_OK)) break;
        ok = run_set(path, m, s, values, buf, cap, &err);
    }
    ot_import_free(m);
    return !ok ? buf : sets ? NULL : "no data";
}
