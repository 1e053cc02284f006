/* sources.c - the tensors of the file: their order, the list of those that may train, and their names. */
#include <stdio.h>
#include <stdlib.h>

#include "importer/build.h"

/* ---- tensors of the file, in order ---------------------------------------------- */

typedef struct tensor_list {
    const void **t;
    int n, cap;
} tensor_list;

static void list_tensor(tensor_list *l, const void *t)
{
    if (l->t && l->n < l->cap) l->t[l->n] = t;
    l->n++;
}

/* Does the exporter find numbers of a in it (exporter/walk.c)?  A list of floats, or the float of a Constant. */
static bool has_floats(const ot_attribute *a)
{
    return a->n_floats || (a->has_f && !strcmp(ot_text(a->name), "value_float"));
}

static void list_nodes(tensor_list *l, Onnx__NodeProto *const *node, size_t n);

static void list_graph(tensor_list *l, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++) list_tensor(l, g->initializer[i]);
    list_nodes(l, g->node, g->n_node);
}

static void list_nodes(tensor_list *l, Onnx__NodeProto *const *node, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < node[i]->n_attribute; k++) {
            const ot_attribute *a = node[i]->attribute[k];
            if (a->t) list_tensor(l, a->t);
            for (size_t m = 0; m < a->n_tensors; m++) list_tensor(l, a->tensors[m]);
            if (has_floats(a)) list_tensor(l, a);
            if (a->g) list_graph(l, a->g);
            for (size_t m = 0; m < a->n_graphs; m++) list_graph(l, a->graphs[m]);
        }
}

/* The graph's tensors, then those of the functions, then those of training algorithms. */
static void list_model(tensor_list *l, const Onnx__ModelProto *m)
{
    list_graph(l, m->graph);
    for (size_t i = 0; i < m->n_functions; i++) list_nodes(l, m->functions[i]->node, m->functions[i]->n_node);
    for (size_t i = 0; i < m->n_training_info; i++)
        if (m->training_info[i]->algorithm) list_graph(l, m->training_info[i]->algorithm);
}

typedef struct placed {
    const void *t;
    int at;
} placed;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const placed *)a)->t, y = (uintptr_t)((const placed *)b)->t;
    return x < y ? -1 : x > y;
}

ot_status ot_tensors_order(ot_job *j)
{
    tensor_list l = { 0 };
    list_model(&l, j->f->model);
    l.cap = l.n;
    l.n = 0;
    l.t = ot_job_alloc(j, (size_t)l.cap * sizeof *l.t);
    placed *p = ot_job_alloc(j, (size_t)l.cap * sizeof *p);
    j->order = l.t;
    j->order_of = ot_job_alloc(j, (size_t)l.cap * sizeof *j->order_of);
    j->order_value = ot_job_alloc(j, (size_t)l.cap * sizeof *j->order_value);
    if (!l.t || !p || !j->order_of || !j->order_value) return OT_E_NOMEM;
    list_model(&l, j->f->model);
    for (int i = 0; i < l.n; i++) p[i] = (placed){ l.t[i], i };
    if (l.n) qsort(p, (size_t)l.n, sizeof *p, by_address);
    for (int i = 0; i < l.n; i++) {
        j->order[i] = p[i].t;
        j->order_of[i] = p[i].at;
    }
    j->n_order = l.n;
    return OT_OK;
}

int ot_tensor_index(const ot_job *j, const void *t)
{
    int low = 0, high = j->n_order;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if ((uintptr_t)j->order[mid] < (uintptr_t)t) low = mid + 1;
        else high = mid;
    }
    return low < j->n_order && j->order[low] == t ? low : -1;
}

/* ---- sources ------------------------------------------------------------------------ */

static ot_status grow_sources(ot_job *j)
{
    ot_imported *m = j->m;
    if (m->n_sources < j->cap_sources) return OT_OK;
    int n = m->n_sources, wider = n ? 2 * n : 64;
    ot_source *source = ot_job_alloc(j, (size_t)wider * sizeof *source);
    ot_origin *origin = ot_job_alloc(j, (size_t)wider * sizeof *origin);
    const char **path = ot_job_alloc(j, (size_t)wider * sizeof *path);
    ot_value **value = ot_job_alloc(j, (size_t)wider * sizeof *value);
    if (!source || !origin || !path || !value) return OT_E_NOMEM;
    if (n) {
        memcpy(source, m->sources, (size_t)n * sizeof *source);
        memcpy(origin, j->f->origins, (size_t)n * sizeof *origin);
        memcpy(path, j->path_of, (size_t)n * sizeof *path);
        memcpy(value, j->value_of, (size_t)n * sizeof *value);
    }
    m->sources = source;
    j->f->origins = origin;
    j->path_of = path;
    j->value_of = value;
    j->cap_sources = wider;
    return OT_OK;
}

int ot_source_add(ot_job *j, ot_scope *s, const void *t, const ot_blob *b, const ot_external *e, const char *name,
                  int kind)
{
    if (grow_sources(j) != OT_OK) return -1;
    int n = j->m->n_sources++, at = ot_tensor_index(j, t);
    ot_source *o = &j->m->sources[n];
    *o = (ot_source){ .name = name,
                      .dtype = b->dtype,
                      .shape = b->shape,
                      .data = b->data,
                      .order = at < 0 ? -1 : j->order_of[at],
                      .external = e != NULL };
    o->kind = kind;
    j->f->origins[n] = (ot_origin){ kind == OT_FROM_ATTRIBUTE ? NULL : t, e };
    j->path_of[n] = s->path;
    return n;
}

/* ---- names --------------------------------------------------------------------------- */

/* How often a name is used, and the last number that was tried to make it unique. */
typedef struct name_use {
    int asked, next;
} name_use;

static name_use *use_of(ot_job *j, ot_table *t, const char *name)
{
    name_use *u = ot_table_find(t, name);
    if (u) return u;
    u = ot_job_alloc(j, sizeof *u);
    return u && ot_table_set(t, name, u) ? u : NULL;
}

/* `name` for the first that asks, then name#2, name#3 ...  NULL: no memory. */
static const char *free_name(ot_job *j, ot_table *given, const char *name)
{
    name_use *first = use_of(j, given, name), *u = first;
    while (u && u->asked) {
        const char *next = ot_arena_printf(j->f->arena, "%s#%d", name, ++first->next + 1);
        u = next ? use_of(j, given, next) : NULL;
        if (u && !u->asked) name = next;
    }
    if (u) u->asked++;
    return u ? name : NULL;
}

/* Users select tensors by name, so names are unique.  A tensor inside a subgraph has its plain name where that is unique in
 * the file, else node/branch/name.  Where a name is still taken (an initializer "f/w", and a constant "w" of a function that
 * node f calls) the one that comes later in the file is numbered: "f/w#2".  Initializers of the file's graph come first,
 * so theirs are as the file has them. */
ot_status ot_sources_name(ot_job *j)
{
    ot_table plain = { .arena = j->f->arena }, given = { .arena = j->f->arena };
    for (int i = 0; i < j->m->n_sources; i++) {
        name_use *u = use_of(j, &plain, j->m->sources[i].name);
        if (!u) return OT_E_NOMEM;
        u->asked++;
    }
    for (int i = 0; i < j->m->n_sources; i++) {
        ot_source *o = &j->m->sources[i];
        name_use *u = ot_table_find(&plain, o->name);
        const char *name = o->name;
        if (*j->path_of[i] && u->asked > 1) name = ot_arena_printf(j->f->arena, "%s%s", j->path_of[i], o->name);
        name = name ? free_name(j, &given, name) : NULL;
        if (!name) return OT_E_NOMEM;
        o->name = name;
        if (j->value_of[i]) j->value_of[i]->name = name;
    }
    return OT_OK;
}
