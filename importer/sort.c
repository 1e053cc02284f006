/* sort.c - the order to build the nodes of a body in.
 *
 * ONNX wants producers before users; some writers do not keep that.  Sorted bodies keep their
 * order; others are walked from users to producers, in the order of the file where there is a choice. */
#include "importer/build.h"

typedef struct producers {
    ot_table by_name;            /* output -> &index[i] */
    int     *index;
} producers;

typedef bool (*visit)(void *context, int producer);

/* Calls f for every node of the body that makes something that `n`, or a body inside it, reads.
 * A body inside that gives a name of its own to what `self` makes outside hides it. */
static bool each_use(const producers *p, const Onnx__NodeProto *n, int self, visit f, void *context)
{
    for (size_t i = 0; i < n->n_input; i++) {
        const int *at = ot_table_find(&p->by_name, n->input[i]);
        if (at && *at != self && !f(context, *at)) return false;
    }
    for (size_t k = 0; k < n->n_attribute; k++) {
        const Onnx__AttributeProto *a = n->attribute[k];
        for (size_t m = 0; m < a->n_graphs + (a->g != NULL); m++) {
            const Onnx__GraphProto *g = m < a->n_graphs ? a->graphs[m] : a->g;
            for (size_t i = 0; i < g->n_node; i++)
                if (!each_use(p, g->node[i], self, f, context)) return false;
            for (size_t i = 0; i < g->n_output; i++) {
                const int *at = ot_table_find(&p->by_name, ot_text(g->output[i]->name));
                if (at && *at != self && !f(context, *at)) return false;
            }
        }
    }
    return true;
}

typedef struct search {
    unsigned char *state;        /* 0 new, 1 open, 2 done */
    int            next;         /* a producer that is not done; -1: none */
} search;

static bool find_open(void *context, int producer)
{
    search *s = context;
    if (s->state[producer] == 2) return true;
    s->next = producer;
    return false;
}

/* Walks from node `start`; the stack holds the nodes that wait for a producer. */
static bool place(const producers *p, Onnx__NodeProto *const *node, int start, search *s, int *stack, int *order, int *n)
{
    int depth = 0;
    stack[depth++] = start;
    s->state[start] = 1;
    while (depth) {
        int at = stack[depth - 1];
        s->next = -1;
        each_use(p, node[at], at, find_open, s);
        if (s->next < 0) {
            s->state[at] = 2;
            order[(*n)++] = at;
            depth--;
        } else if (s->state[s->next] == 1) {
            return false;
        } else {
            s->state[s->next] = 1;
            stack[depth++] = s->next;
        }
    }
    return true;
}

const int *ot_sort_nodes(ot_arena *a, Onnx__NodeProto *const *node, size_t n, const char *where, ot_error *found)
{
    producers p = { .by_name = { .arena = a }, .index = ot_arena_alloc(a, (n + 1) * sizeof *p.index) };
    search s = { .state = ot_arena_alloc(a, n + 1) };
    int *order = ot_arena_alloc(a, (n + 1) * sizeof *order), *stack = ot_arena_alloc(a, (n + 1) * sizeof *stack);
    bool whole = p.index && s.state && order && stack;
    for (size_t i = 0; whole && i < n; i++) {
        p.index[i] = (int)i;
        for (size_t k = 0; whole && k < node[i]->n_output; k++)
            if (*node[i]->output[k]) whole = ot_table_set(&p.by_name, node[i]->output[k], &p.index[i]);
    }
    if (!whole) return ot_fail_more(found, OT_E_NOMEM, "no memory"), NULL;
    int done = 0;
    for (size_t i = 0; i < n; i++) {
        if (s.state[i]) continue;
        if (place(&p, node, (int)i, &s, stack, order, &done)) continue;
        ot_fail_more(found, OT_E_MODEL, "%snode '%.200s' (%.60s) needs its own result: the nodes form a cycle", where,
                     ot_text(node[i]->name), ot_text(node[i]->op_type));
        return NULL;
    }
    return order;
}
