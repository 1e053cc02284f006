/* graph.c - builds and copies graphs.
 *
 * Memory  everything is allocated in the graph's arena; lists grow by doubling, the old arrays remain allocated. */
#include "runtime/graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "ops/op.h"

ot_graph *ot_graph_new(ot_error *err)
{
    ot_arena *a = ot_arena_new();
    ot_graph *g = a ? ot_arena_alloc(a, sizeof *g) : NULL;
    ot_room *room = g ? ot_arena_alloc(a, sizeof *room) : NULL;
    if (!room) {
        ot_arena_free(a);
        ot_fail(err, OT_E_NOMEM, "no memory for a graph");
        return NULL;
    }
    *room = (ot_room){ .most = SIZE_MAX, .work = INT64_MAX, .copies = INT64_MAX };
    g->arena = a;
    g->err = err;
    g->room = room;
    g->name = "";
    return g;
}

static void *no_room(ot_graph *g, size_t n)
{
    const ot_node *at = g->room->at;
    char who[512] = "the graph";
    size_t most = g->room->most >> 20, more = n >> 20;
    if (at) snprintf(who, sizeof who, "%.400s: %.100s", at->name, at->op->name);
    if (n > g->room->most)
        ot_fail(g->err, OT_E_NOMEM,
                "%s: out of memory: a constant or list needs %zu MiB; the limit for a file of "
                "this size is %zu MiB",
                who, more, most);
    else if (ot_arena_used(g->arena) > g->room->most - n)
        ot_fail(g->err, OT_E_NOMEM,
                "%s: out of memory: the graph with its loops unrolled needs more than %zu MiB, "
                "the limit for a file of this size",
                who, most);
    else ot_fail(g->err, OT_E_NOMEM, "%s: no memory for %zu bytes more", who, n);
    return NULL;
}

/* A NULL argument is recorded too: builders check only the graph's error. */
static const char *name_of(ot_graph *g, const char *name)
{
    const char *copy = ot_arena_strdup(g->arena, name);
    return copy ? copy : no_room(g, strlen(name) + 1);
}

ot_graph *ot_graph_sub(ot_graph *parent, const char *name)
{
    ot_graph *g = ot_graph_alloc(parent, sizeof *g);
    if (!g) return NULL;
    g->arena = parent->arena;
    g->err = parent->err;
    g->room = parent->room;
    g->parent = parent;
    g->name = name_of(g, name);
    return g->name ? g : NULL;
}

void ot_graph_free(ot_graph *g)
{
    if (g && !g->parent) ot_arena_free(g->arena);
}

void *ot_graph_alloc(ot_graph *g, size_t n)
{
    if (n > g->room->most || ot_arena_used(g->arena) > g->room->most - n) return no_room(g, n);
    enum { SMALL = 256 }; /* nodes, values, lists: many allocations */
    void *p = n < SMALL ? ot_arena_struct(g->arena, n) : ot_arena_alloc(g->arena, n);
    return p ? p : no_room(g, n);
}

/* Ensures space for one more element in a list of pointers or structs; false: no memory. */
static bool grow(ot_graph *g, void *list_pointer, int n, int *cap, size_t size)
{
    if (n < *cap) return true;
    int wider = *cap ? *cap * 2 : 8;
    void *old, *now = ot_graph_alloc(g, (size_t)wider * size);
    if (!now) return false;
    memcpy(&old, list_pointer, sizeof old);
    if (n) memcpy(now, old, (size_t)n * size);
    memcpy(list_pointer, &now, sizeof now);
    *cap = wider;
    return true;
}

ot_value *ot_graph_value(ot_graph *g, const char *name, ot_role role, ot_dtype t, const ot_shape *s)
{
    if (g->err && g->err->status != OT_OK) return NULL;
    ot_value *v = ot_graph_alloc(g, sizeof *v);
    if (!v || !grow(g, &g->values, g->n_values, &g->cap_values, sizeof *g->values)) return NULL;
    v->name = name_of(g, name ? name : "");
    if (!v->name) return NULL;
    v->id = g->n_values;
    v->role = role;
    v->dtype = t;
    v->shape = s ? *s : (ot_shape){ .rank = -1 };
    v->source = -1;
    g->values[g->n_values++] = v;
    return v;
}

ot_value *ot_graph_const_of(ot_graph *g, const char *name, ot_dtype t, const ot_shape *s, const void *bytes)
{
    ot_value *v = ot_graph_value(g, name, OT_CONST, t, s);
    if (v) v->data = bytes;
    return v;
}

ot_value *ot_graph_const(ot_graph *g, const char *name, ot_dtype t, const ot_shape *s, const void *bytes)
{
    if (g->err && g->err->status != OT_OK) return NULL;
    size_t n = ot_bytes(s, t);
    void *p = ot_graph_alloc(g, n);
    if (!p) return NULL;
    if (n) memcpy(p, bytes, n);
    return ot_graph_const_of(g, name, t, s, p);
}

ot_value *ot_graph_state(ot_graph *g, ot_state_kind kind, ot_value *of, ot_dtype t, const ot_shape *s, double start)
{
    static const char *const text[] = { [OT_STATE_OF_FILE] = "",
#define X(kind, word) [OT_STATE_##kind] = word,
                                        OT_STATE_KINDS(X)
#undef X
    };
    char *name = ot_arena_printf(g->arena, "%s%s%s", of ? of->name : "onnxtrain", of ? "/" : ".", text[kind]);
    ot_value *v = name ? ot_graph_value(g, name, OT_STATE, t, s) : NULL;
    if (!name) ot_fail(g->err, OT_E_NOMEM, "no memory for a name");
    if (!v) return NULL;
    v->of = of;
    v->kind = kind;
    if (start == 0) return v;
    void *p = ot_graph_alloc(g, ot_bytes(s, t));
    if (!p) return NULL;
    for (int64_t i = 0, n = ot_numel(s); i < n; i++) ot_set_f64(p, t, i, start);
    v->data = p;
    return v;
}

static void link_before(ot_graph *g, ot_node *n, ot_node *at)
{
    n->next = at;
    n->prev = at ? at->prev : g->last;
    if (n->prev) n->prev->next = n;
    else g->first = n;
    if (at) at->prev = n;
    else g->last = n;
    g->n_nodes++;
}

ot_node *ot_graph_node(ot_graph *g, const ot_op *op, const char *name, const void *attrs, ot_value *const *in, int n_in,
                       int n_out)
{
    if (g->err && g->err->status != OT_OK) return NULL;
    ot_node *n = ot_graph_alloc(g, sizeof *n);
    if (!n) return NULL;
    n->op = op;
    n->graph = g;
    n->phase = g->phase;
    n->n_in = n_in;
    n->n_out = n_out;
    n->name = name_of(g, name ? name : op->name);
    n->in = ot_graph_alloc(g, (size_t)n_in * sizeof *n->in);
    n->out = ot_graph_alloc(g, (size_t)n_out * sizeof *n->out);
    if (!n->name || !n->in || !n->out) return NULL;
    if (n_in) memcpy(n->in, in, (size_t)n_in * sizeof *in);
    if (op->attr_size) {
        void *a = ot_graph_alloc(g, op->attr_size);
        if (!a) return NULL;
        if (attrs) memcpy(a, attrs, op->attr_size);
        else ot_attr_defaults(op, a);
        n->attrs = a;
    }
    for (int i = 0; i < n_out; i++) {
        n->out[i] = ot_graph_value(g, n->name, OT_TEMP, OT_UNDEFINED, NULL);
        if (!n->out[i]) return NULL;
        n->out[i]->producer = n;
        n->out[i]->port = i;
    }
    link_before(g, n, g->cursor);
    return n;
}

void ot_graph_remove(ot_graph *g, ot_node *n)
{
    if (n->prev) n->prev->next = n->next;
    else g->first = n->next;
    if (n->next) n->next->prev = n->prev;
    else g->last = n->prev;
    if (g->cursor == n) g->cursor = n->next;
    g->n_nodes--;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->producer == n) n->out[i]->producer = NULL;
}

void ot_graph_input(ot_graph *g, ot_value *v)
{
    if (v && grow(g, &g->inputs, g->n_inputs, &g->cap_inputs, sizeof *g->inputs)) g->inputs[g->n_inputs++] = v;
}

void ot_graph_output(ot_graph *g, ot_value *v)
{
    if (v && grow(g, &g->outputs, g->n_outputs, &g->cap_outputs, sizeof *g->outputs)) g->outputs[g->n_outputs++] = v;
}

void ot_graph_assign(ot_graph *g, ot_value *state, ot_value *value)
{
    if (!state || !value) return;
    if (grow(g, &g->assigns, g->n_assigns, &g->cap_assigns, sizeof *g->assigns))
        g->assigns[g->n_assigns++] = (ot_assign){ state, value };
}

/* The subgraph in attribute a of n; NULL: none. */
static ot_graph *subgraph(const ot_node *n, const ot_attr *a)
{
    ot_graph *sub = NULL;
    if (a->kind == OT_GRAPH) memcpy(&sub, (const char *)n->attrs + a->offset, sizeof sub);
    return sub;
}

void ot_graph_replace(ot_graph *g, ot_value *old, ot_value *now)
{
    for (ot_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == old) n->in[i] = now;
        for (const ot_attr *a = n->op->attrs; a && a->name; a++) {
            ot_graph *sub = subgraph(n, a);
            if (sub) ot_graph_replace(sub, old, now);
        }
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == old) g->outputs[i] = now;
    for (int i = 0; i < g->n_assigns; i++) {
        if (g->assigns[i].state == old) g->assigns[i].state = now;
        if (g->assigns[i].value == old) g->assigns[i].value = now;
    }
}

static void clear_marks(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (ot_node *n = g->first; n; n = n->next)
        for (const ot_attr *a = n->op->attrs; a && a->name; a++)
            if (subgraph(n, a)) clear_marks(subgraph(n, a));
}

static bool mark_nodes(ot_graph *g)
{
    bool any = false;
    for (ot_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_in && !n->mark; i++) n->mark = n->in[i] && n->in[i]->mark;
        for (const ot_attr *a = n->op->attrs; a && a->name; a++)
            if (subgraph(n, a) && mark_nodes(subgraph(n, a))) n->mark = 1;
        for (int i = 0; i < n->n_out && n->mark; i++)
            if (n->out[i]) n->out[i]->mark = 1;
        any |= n->mark != 0;
    }
    for (int i = 0; i < g->n_outputs; i++) any |= g->outputs[i]->mark != 0;
    return any;
}

void ot_graph_mark_behind(ot_graph *g)
{
    clear_marks(g);
    (void)mark_nodes(g);
}

static ot_value *knob(ot_graph *g, ot_value **slot, const char *name)
{
    while (g->parent) g = g->parent;
    if (!*slot) {
        *slot = ot_graph_value(g, name, OT_INPUT, OT_U64, &OT_SCALAR);
        ot_graph_input(g, *slot);
    }
    return *slot;
}

ot_value *ot_graph_seed(ot_graph *g)
{
    while (g->parent) g = g->parent;
    return knob(g, &g->seed, "onnxtrain.seed");
}

ot_value *ot_graph_counter(ot_graph *g)
{
    while (g->parent) g = g->parent;
    return knob(g, &g->counter, "onnxtrain.counter");
}

/* ---- copying --------------------------------------------------------------- */

/* Maps values of the source graphs to their copies: a chain of frames, innermost first. */
typedef struct frame {
    const ot_graph *src;
    ot_value **copy; /* by id */
    const struct frame *outer;
} frame;

/* The copy of v: its graph is found by identity, since ids are unique within one graph only.  A value of a graph
 * that is not being copied is not replaced. */
static ot_value *copied(const frame *f, ot_value *v)
{
    for (; v && f; f = f->outer)
        if (v->id < f->src->n_values && f->src->values[v->id] == v) return f->copy[v->id];
    return v;
}

/* inputs: replacements for the source's inputs; NULL: copies of them. */
static bool copy_body(const ot_graph *src, ot_graph *g, const frame *outer, ot_value *const *inputs);

/* Attributes that contain subgraphs are copied with them; all others are shared. */
static bool copy_attrs(ot_node *n, const frame *f)
{
    for (const ot_attr *a = n->op->attrs; a && a->name; a++) {
        ot_graph *sub = subgraph(n, a), *dup;
        if (!sub) continue;
        dup = ot_graph_sub(n->graph, sub->name);
        if (!dup || !copy_body(sub, dup, f, NULL)) return false;
        memcpy((char *)(uintptr_t)n->attrs + a->offset, &dup, sizeof dup);
    }
    return true;
}

static bool copy_nodes(const ot_graph *src, ot_graph *g, const frame *f)
{
    for (const ot_node *s = src->first; s; s = s->next) {
        ot_node *n = ot_graph_alloc(g, sizeof *n);
        if (!n) return false;
        *n = *s;
        n->graph = g;
        n->prev = n->next = NULL;
        n->in = ot_graph_alloc(g, (size_t)s->n_in * sizeof *n->in);
        n->out = ot_graph_alloc(g, (size_t)s->n_out * sizeof *n->out);
        if (!n->in || !n->out) return false;
        for (int i = 0; i < s->n_in; i++) n->in[i] = copied(f, s->in[i]);
        for (int i = 0; i < s->n_out; i++) {
            n->out[i] = copied(f, s->out[i]);
            if (n->out[i] && s->out[i]->producer == s) n->out[i]->producer = n;
        }
        if (s->op->attr_size) {
            void *a = ot_graph_alloc(g, s->op->attr_size);
            if (!a) return false;
            memcpy(a, s->attrs, s->op->attr_size);
            n->attrs = a;
        }
        link_before(g, n, NULL);
        if (!copy_attrs(n, f)) return false;
    }
    return true;
}

static bool copy_body(const ot_graph *src, ot_graph *g, const frame *outer, ot_value *const *inputs)
{
    ot_value **copy = ot_graph_alloc(g, (size_t)src->n_values * sizeof *copy);
    frame f = { src, copy, outer };
    if (!copy) return false;
    for (int i = 0; i < src->n_inputs && inputs; i++) copy[src->inputs[i]->id] = inputs[i];
    for (int i = 0; i < src->n_values; i++) {
        const ot_value *s = src->values[i];
        if (copy[i]) continue;
        ot_value *v = ot_graph_value(g, s->name, s->role, s->dtype, &s->shape);
        if (!v) return false;
        v->data = s->data;
        v->source = s->source;
        v->declared = s->declared;
        v->dim_names = s->dim_names;
        v->port = s->port;
        v->why = s->why;
        v->from_constant = s->from_constant;
        v->differentiated = s->differentiated;
        v->said = s->said;
        v->list = s->list;
        v->table = s->table;
        v->undecided = s->undecided;
        v->stored = s->stored;
        v->kind = s->kind;
        copy[i] = v;
    }
    for (int i = 0; i < src->n_values; i++) copy[i]->of = copied(&f, src->values[i]->of);
    if (!copy_nodes(src, g, &f)) return false;
    for (int i = 0; i < src->n_inputs && !inputs; i++) ot_graph_input(g, copied(&f, src->inputs[i]));
    for (int i = 0; i < src->n_outputs; i++) ot_graph_output(g, copied(&f, src->outputs[i]));
    for (int i = 0; i < src->n_assigns; i++)
        ot_graph_assign(g, copied(&f, src->assigns[i].state), copied(&f, src->assigns[i].value));
    g->seed = copied(&f, src->seed);
    g->counter = copied(&f, src->counter);
    return !g->err || g->err->status == OT_OK;
}

ot_graph *ot_graph_copy_sub(const ot_graph *sub, ot_value *const *inputs)
{
    ot_graph *g = ot_graph_sub(sub->parent, sub->name);
    return g && copy_body(sub, g, NULL, inputs) ? g : NULL;
}

int64_t ot_graph_size(const ot_graph *g)
{
    int64_t n = (int64_t)g->n_nodes + g->n_values;
    for (const ot_node *k = g->first; k; k = k->next)
        for (const ot_attr *a = k->op->attrs; a && a->name; a++)
            if (subgraph(k, a)) n += ot_graph_size(subgraph(k, a));
    return n;
}

/* Bytes of the file's tensors; small integers may become floats. */
static size_t tensor_bytes(const ot_graph *g)
{
    size_t bytes = 0;
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        bool small = ot_is_int(v->dtype) && ot_dtype_bits(v->dtype) < 32;
        if (v->source >= 0 && v->data && v->dtype != OT_STRING) bytes += ot_bytes(&v->shape, small ? OT_F32 : v->dtype);
    }
    for (const ot_node *n = g->first; n; n = n->next)
        for (const ot_attr *a = n->op->attrs; a && a->name; a++)
            if (subgraph(n, a)) bytes += tensor_bytes(subgraph(n, a));
    return bytes;
}

/* Optimizers keep up to three values per weight and the passes a few copies; a node of the file becomes a few nodes
 * and their gradients.  Growth by loops and constants is limited in addition, however small the file is. */
static ot_room room_for(const ot_graph *src)
{
    enum {
        BASE_MIB = 384,
        BY_TENSORS = 8,
        BY_STRUCTURE = 32,
        BASE_WORK = 1 << 28,
        WORK_BY_TENSORS = 16,
        BASE_COPIES = 250000,
        COPIES_BY_SIZE = 512
    };
    size_t tensors = tensor_bytes(src);
    return (ot_room){ .most =
                          ((size_t)BASE_MIB << 20) + BY_TENSORS * tensors + BY_STRUCTURE * ot_arena_used(src->arena),
                      .work = BASE_WORK + WORK_BY_TENSORS * (int64_t)tensors,
                      .copies = BASE_COPIES + COPIES_BY_SIZE * ot_graph_size(src) };
}

ot_graph *ot_graph_clone(const ot_graph *src, ot_error *err)
{
    ot_graph *g = ot_graph_new(err);
    if (!g) return NULL;
    g->name = src->name;
    g->lost_parameters = src->lost_parameters;
    g->lost_biases = src->lost_biases;
    *g->room = room_for(src);
    if (!copy_body(src, g, NULL, NULL)) {
        ot_fail(err, OT_E_NOMEM, "no memory for a copy of the graph");
        ot_graph_free(g);
        return NULL;
    }
    return g;
}
