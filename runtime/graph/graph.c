/* graph.c - graphs and their values.
 *
 * Memory  everything is allocated in the graph's arena; lists grow by doubling, the old arrays remain allocated. */
#include "runtime/graph/graph.h"

#include <stdio.h>
#include <string.h>

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
    char who[512] = "the graph";
    size_t most = g->room->most >> 20, more = n >> 20;
    if (g->room->at) snprintf(who, sizeof who, "%.400s: %.100s", g->room->at, g->room->at_op);
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

const char *ot_graph_name(ot_graph *g, const char *name)
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
    g->name = ot_graph_name(g, name);
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
    const char *copy = name && *name ? ot_graph_name(g, name) : "";
    return copy ? ot_graph_value_named(g, copy, role, t, s) : NULL;
}

ot_value *ot_graph_value_named(ot_graph *g, const char *lasting, ot_role role, ot_dtype t, const ot_shape *s)
{
    if (g->err && g->err->status != OT_OK) return NULL;
    ot_value *v = ot_graph_alloc(g, sizeof *v);
    if (!v || !grow(g, &g->values, g->n_values, &g->cap_values, sizeof *g->values)) return NULL;
    v->name = lasting;
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

void ot_graph_link(ot_graph *g, ot_node *n, ot_node *at)
{
    n->next = at;
    n->prev = at ? at->prev : g->last;
    if (n->prev) n->prev->next = n;
    else g->first = n;
    if (at) at->prev = n;
    else g->last = n;
    g->n_nodes++;
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
