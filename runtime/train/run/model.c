/* model.c - loads a model, cuts it at outputs; memory and clock of the process. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/train/run/model.h"

/* Resident bytes of the process now; 0: unknown. */
static int64_t resident_bytes(void)
{
    long long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    int n = fscanf(f, "%lld %lld", &pages, &resident);
    fclose(f);
    return n == 2 ? (int64_t)resident * sysconf(_SC_PAGESIZE) : 0;
}

/* getrusage would count what the process held before it became this program: that of a large parent, such as Python. */
int64_t ot_rss_peak(void)
{
    char line[256];
    long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1) break;
    if (f) (void)fclose(f);
    return kib * 1024;
}

double ot_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ot_status list_outputs(ot_model *m, ot_error *err)
{
    const ot_graph *g = m->file->graph;
    const char **name = ot_arena_alloc(m->arena, sizeof *name * (size_t)(g->n_outputs + 1));
    if (!name) return ot_fail(err, OT_E_NOMEM, "no memory for the model");
    for (int i = 0; i < g->n_outputs; i++) name[i] = g->outputs[i]->name;
    m->outputs = name;
    m->bytes = m->file->bytes;
    return OT_OK;
}

static ot_status tensor_given(const ot_tensor *t, int i, ot_error *err)
{
    ot_shape s = { .rank = t->rank };
    if (!t->name) return ot_fail(err, OT_E_USAGE, "tensor %d has no name", i);
    if (t->rank < 0 || t->rank > OT_MAX_RANK)
        return ot_fail(err, OT_E_USAGE, "tensor '%s' has rank %d; expected 0 to %d", t->name, t->rank, OT_MAX_RANK);
    memcpy(s.dim, t->dim, sizeof s.dim);
    for (int k = 0; k < s.rank; k++)
        if (s.dim[k] < 0)
            return ot_fail(err, OT_E_USAGE, "tensor '%s': dimension %d is %lld", t->name, k, (long long)s.dim[k]);
    if (t->dtype != OT_STRING && !ot_dtype_bits(t->dtype))
        return ot_fail(err, OT_E_USAGE, "tensor '%s': unknown element type %d", t->name, (int)t->dtype);
    if (!ot_shape_fits(&s, t->dtype)) return ot_fail(err, OT_E_USAGE, "tensor '%s' is too large", t->name);
    if (!t->data && ot_numel(&s)) return ot_fail(err, OT_E_USAGE, "tensor '%s' has no data", t->name);
    for (int64_t k = 0; t->dtype == OT_STRING && k < ot_numel(&s); k++)
        if (!((char **)t->data)[k])
            return ot_fail(err, OT_E_USAGE, "tensor '%s': string %lld is NULL", t->name, (long long)k);
    return OT_OK;
}

ot_status ot_tensors_given(const ot_tensor *t, int n, ot_error *err)
{
    if (n < 0 || (n && !t)) return ot_fail(err, OT_E_USAGE, "the list of %d tensors is NULL", n);
    for (int i = 0; i < n; i++) OT_TRY(tensor_given(&t[i], i, err));
    return OT_OK;
}

ot_status ot_tensor_of(ot_arena *a, const char *name, ot_exec *x, const ot_value *v, ot_tensor *out, ot_error *err)
{
    *out = (ot_tensor){ .name = ot_arena_strdup(a, name), .dtype = v->dtype, .rank = v->shape.rank };
    memcpy(out->dim, v->shape.dim, sizeof out->dim);
    out->data = ot_arena_alloc(a, ot_bytes(&v->shape, v->dtype) + 1);
    if (!out->name || !out->data) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", name);
    OT_TRY(ot_exec_read(x, v, out->data, err));
    char **text = out->data;
    for (int64_t i = 0, n = v->dtype == OT_STRING ? ot_numel(&v->shape) : 0; i < n; i++)
        if (!(text[i] = ot_arena_strdup(a, text[i]))) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", name);
    return OT_OK;
}

ot_status ot_model_load(const char *path, ot_model **out, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(path);
    OT_GIVEN(out);
    *out = NULL;
    int64_t before = resident_bytes();
    ot_model *m = calloc(1, sizeof *m);
    if (m) m->arena = ot_arena_new();
    if (!m || !m->arena) {
        ot_model_free(m);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    }
    m->rss_before = before;
    ot_status s = ot_import(path, &m->file, err);
    if (!s) s = list_outputs(m, err);
    if (s) {
        ot_model_free(m);
        return s;
    }
    *out = m;
    return OT_OK;
}

/* The tensor of that name that a node makes. */
static ot_value *made(const ot_graph *g, const char *name)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i]->producer && !strcmp(g->values[i]->name, name)) return g->values[i];
    return NULL;
}

ot_status ot_model_copy(const ot_model *m, ot_arena *a, ot_model *out, ot_error *err)
{
    ot_imported *file = ot_arena_copy(a, m->file, sizeof *file);
    ot_error *sticky = ot_arena_alloc(a, sizeof *sticky);
    *out = *m;
    out->file = NULL;
    if (!file || !sticky) return ot_fail(err, OT_E_NOMEM, "no memory for the model");
    file->graph = ot_graph_clone(m->file->graph, sticky);
    if (!file->graph) return ot_fail(err, OT_E_NOMEM, "no memory for the model");
    out->file = file;
    return OT_OK;
}

ot_status ot_model_cut(const ot_model *m, int n, const char *const *names, ot_arena *a, ot_model *out, ot_error *err)
{
    OT_TRY(ot_model_copy(m, a, out, err));
    ot_graph *g = out->file->graph;
    const ot_error *sticky = g->err;
    out->outputs = names;
    g->n_outputs = 0;
    for (int i = 0; i < n; i++) {
        ot_value *v = made(g, names[i]);
        if (v) ot_graph_output(g, v);
        else ot_fail(err, OT_E_USAGE, "--output %s: the graph has no tensor of that name", names[i]);
    }
    if (sticky->status) ot_fail(err, sticky->status, "%s", sticky->text);
    if (!err->status) return OT_OK;
    ot_model_cut_drop(out);
    return err->status;
}

void ot_model_cut_drop(ot_model *cut)
{
    if (cut->file) ot_graph_free(cut->file->graph);
    cut->file = NULL;
}

void ot_model_free(ot_model *m)
{
    if (!m) return;
    if (m->file) ot_import_free(m->file);
    ot_arena_free(m->arena);
    free(m);
}

static bool describe(const ot_value *v, ot_tensor *out)
{
    *out = (ot_tensor){ .name = v->name, .dtype = v->dtype, .rank = v->shape.rank < 0 ? 0 : v->shape.rank };
    for (int i = 0; i < out->rank; i++) out->dim[i] = v->shape.dim[i];
    return true;
}

bool ot_model_input(const ot_model *m, int i, ot_tensor *out)
{
    if (out) *out = (ot_tensor){ 0 };
    if (!m || !out || i < 0) return false;
    const ot_graph *g = m->file->graph;
    for (int k = 0; k < g->n_inputs; k++) {
        const ot_value *v = g->inputs[k];
        bool asked = v->role == OT_INPUT && !v->data && v != g->seed && v != g->counter;
        if (asked && i-- == 0) return describe(v, out);
    }
    return false;
}

bool ot_model_output(const ot_model *m, int i, ot_tensor *out)
{
    if (out) *out = (ot_tensor){ 0 };
    if (!m || !out) return false;
    const ot_graph *g = m->file->graph;
    return i >= 0 && i < g->n_outputs && describe(g->outputs[i], out);
}

bool ot_model_initializer(const ot_model *m, int i, ot_tensor *out)
{
    if (out) *out = (ot_tensor){ 0 };
    if (!m || !out) return false;
    if (i < 0 || i >= m->file->n_sources) return false;
    const ot_source *s = &m->file->sources[i];
    *out = (ot_tensor){ .name = s->name, .dtype = s->dtype, .rank = s->shape.rank, .data = (void *)(uintptr_t)s->data };
    for (int k = 0; k < out->rank; k++) out->dim[k] = s->shape.dim[k];
    return true;
}
