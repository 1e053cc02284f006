/* copy.c - copies of graphs, and limits on the growth of a copy. */
#include <string.h>

#include "ops/op.h"

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
        ot_graph *sub = ot_attr_graph(n, a), *dup;
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
            size_t bytes = ot_attr_bytes(s->op, s->attrs);
            void *a = ot_graph_alloc(g, bytes);
            if (!a) return false;
            memcpy(a, s->attrs, bytes);
            n->attrs = a;
        }
        ot_graph_link(g, n, NULL);
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
        ot_value *v = ot_graph_value_named(g, s->name, s->role, s->dtype, &s->shape);
        if (!v) return false;
        v->data = s->data;
        v->source = s->source;
        v->declared = s->declared;
        v->dim_names = s->dim_names;
        v->labels = s->labels;
        v->port = s->port;
        v->why = s->why;
        v->from_constant = s->from_constant;
        v->differentiated = s->differentiated;
        v->said = s->said;
        v->list = s->list;
        v->table = s->table;
        v->undecided = s->undecided;
        v->half = s->half;
        v->second = s->second;
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
        for (int i = 0; ot_subgraph(k, i); i++) n += ot_graph_size(ot_subgraph(k, i));
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
        for (int i = 0; ot_subgraph(n, i); i++) bytes += tensor_bytes(ot_subgraph(n, i));
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
    g->listed = src->listed;
    g->lost_parameters = src->lost_parameters;
    g->lost_biases = src->lost_biases;
    g->accounted = src->accounted;
    g->made_by = src->made_by;
    *g->room = room_for(src);
    if (!copy_body(src, g, NULL, NULL)) {
        ot_fail(err, OT_E_NOMEM, "no memory for a copy of the graph");
        ot_graph_free(g);
        return NULL;
    }
    return g;
}
