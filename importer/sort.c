/* sort.c - sorts the nodes of a body topologically.
 *
 * ONNX requires producers before users, but some writers do not sort.  A sorted body keeps its order.  In others each
 * node follows its producers, and the order of the file decides between nodes that are independent. */
#include "importer/build.h"

/* The nodes that node i reads are edge[first[i] .. first[i + 1]). */
typedef struct uses {
    ot_arena *arena;
    ot_table by_name; /* result -> &index[i] */
    int *index, *edge;
    size_t *first, n;
    bool lost; /* no memory for a name */
} uses;

static void use(uses *u, const char *name, int self)
{
    const int *at = ot_table_find(&u->by_name, name);
    if (!at || *at == self) return;
    if (u->edge) u->edge[u->n] = *at;
    u->n++;
}

/* Gradient differentiates a tensor that it names in an attribute. */
static void use_named(uses *u, const Onnx__NodeProto *n, int self)
{
    for (size_t k = 0; k < n->n_attribute; k++) {
        const Onnx__AttributeProto *a = n->attribute[k];
        if (strcmp(ot_text(a->name), "y") || !a->s.len) continue;
        const char *name = ot_arena_printf(u->arena, "%.*s", (int)a->s.len, (const char *)a->s.data);
        if (name) use(u, name, self);
        u->lost |= !name;
    }
}

/* Counts (and, once there is room, keeps) the producers of what a node, or a body inside it, reads.
 * A body inside that gives a name of its own to what `self` makes outside hides it. */
static void use_all(uses *u, const Onnx__NodeProto *n, int self)
{
    for (size_t i = 0; i < n->n_input; i++) use(u, n->input[i], self);
    if (!strcmp(ot_text(n->op_type), "Gradient")) use_named(u, n, self);
    for (size_t k = 0; k < n->n_attribute; k++) {
        const Onnx__AttributeProto *a = n->attribute[k];
        for (size_t m = 0; m < a->n_graphs + (a->g != NULL); m++) {
            const Onnx__GraphProto *g = m < a->n_graphs ? a->graphs[m] : a->g;
            for (size_t i = 0; i < g->n_node; i++) use_all(u, g->node[i], self);
            for (size_t i = 0; i < g->n_output; i++) use(u, ot_text(g->output[i]->name), self);
        }
    }
}

static ot_status find_uses(uses *u, Onnx__NodeProto *const *node, size_t n)
{
    u->by_name.arena = u->arena;
    u->index = ot_arena_alloc(u->arena, (n + 1) * sizeof *u->index);
    u->first = ot_arena_alloc(u->arena, (n + 1) * sizeof *u->first);
    if (!u->index || !u->first) return OT_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        u->index[i] = (int)i;
        for (size_t k = 0; k < node[i]->n_output; k++)
            if (*node[i]->output[k] && !ot_table_set(&u->by_name, node[i]->output[k], &u->index[i])) return OT_E_NOMEM;
    }
    for (size_t i = 0; i < n; i++) use_all(u, node[i], (int)i);
    u->edge = ot_arena_alloc(u->arena, (u->n + 1) * sizeof *u->edge);
    if (!u->edge) return OT_E_NOMEM;
    u->n = 0;
    for (size_t i = 0; i < n; i++) {
        u->first[i] = u->n;
        use_all(u, node[i], (int)i);
    }
    u->first[n] = u->n;
    return u->lost ? OT_E_NOMEM : OT_OK;
}

enum { NEW, OPEN, DONE };

/* Puts node `start` after everything that it needs; the stack holds those that wait.  next[i] is
 * the edge that node i waits for.  false: one of them needs itself. */
static bool place(const uses *u, int start, unsigned char *state, size_t *next, int *stack, int *order, int *n)
{
    int depth = 0;
    stack[depth++] = start;
    state[start] = OPEN;
    while (depth) {
        int at = stack[depth - 1];
        while (next[at] < u->first[at + 1] && state[u->edge[next[at]]] == DONE) next[at]++;
        if (next[at] == u->first[at + 1]) {
            state[at] = DONE;
            order[(*n)++] = at;
            depth--;
            continue;
        }
        int producer = u->edge[next[at]];
        if (state[producer] == OPEN) return false;
        state[producer] = OPEN;
        stack[depth++] = producer;
    }
    return true;
}

static ot_status sort(uses *u, Onnx__NodeProto *const *node, size_t n, int *order, const char *where, ot_error *found)
{
    unsigned char *state = ot_arena_alloc(u->arena, n + 1);
    int *stack = ot_arena_alloc(u->arena, (n + 1) * sizeof *stack);
    size_t *next = ot_arena_alloc(u->arena, (n + 1) * sizeof *next);
    if (!state || !stack || !next || find_uses(u, node, n) != OT_OK)
        return ot_fail_more(found, OT_E_NOMEM, "no memory");
    for (size_t i = 0; i < n; i++) next[i] = u->first[i];
    int done = 0;
    for (size_t i = 0; i < n; i++)
        if (state[i] == NEW && !place(u, (int)i, state, next, stack, order, &done))
            return ot_fail_more(found, OT_E_MODEL,
                                "%.300snode '%.200s' (%.60s) depends on its own result: the nodes form a cycle", where,
                                ot_text(node[i]->name), ot_text(node[i]->op_type));
    return OT_OK;
}

ot_status ot_sort_nodes(ot_arena *a, Onnx__NodeProto *const *node, size_t n, const char *where, const int **out,
                        ot_error *found)
{
    uses u = { .arena = ot_arena_new() };
    int *order = ot_arena_alloc(a, (n + 1) * sizeof *order);
    ot_status s =
        u.arena && order ? sort(&u, node, n, order, where, found) : ot_fail_more(found, OT_E_NOMEM, "no memory");
    ot_arena_free(u.arena);
    *out = order;
    return s;
}
