/* fuse_reduce.c - fuses a Map into the Reduce that reads it: the Map's result is never stored.
 *
 * Numerics  Unchanged: an element is rounded as if it had been stored (ops/kernels/reduce.h). */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/fuse.h"

static int *count_readers(const ot_graph *g)
{
    int *readers = calloc((size_t)g->n_values + 1, sizeof *readers);
    for (const ot_node *n = g->first; n && readers; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) readers[n->in[i]->id]++;
    return readers;
}

/* The Map whose result only the Reduce n reads; NULL: none. */
static ot_node *map_before(const ot_node *n, const bool *kept, const int *readers)
{
    const ot_reduce *a = n->attrs;
    const ot_value *x = n->in[0];
    ot_node *m = x->producer;
    if (a->program || !m || m->graph != n->graph || m->op != &ot_op_Map || m->phase != n->phase) return NULL;
    return m->n_out == 1 && m->n_in > 0 && !kept[x->id] && readers[x->id] == 1 ? m : NULL;
}

/* Would the backend of the Map compute the Reduce, with a kernel that is not slower? */
static bool is_taken(const ot_node *joined, const ot_node *map, const ot_config *c)
{
    const char *why;
    const ot_kernel *k = ot_kernel_for(joined, c->device, false, &why), *m = ot_kernel_for(map, c->device, false, &why);
    return k && m && !strcmp(k->name, m->name);
}

static ot_status join(ot_graph *g, ot_node *n, ot_node *map, const ot_config *c, int *readers)
{
    ot_reduce a = *(const ot_reduce *)n->attrs;
    size_t bytes = ot_program_bytes(map->attrs);
    ot_program *program = ot_graph_alloc(g, bytes);
    ot_value *y = n->out[0];
    if (!program) return g->err->status;
    memcpy(program, map->attrs, bytes);
    a.program = program;
    g->cursor = n;
    g->phase = n->phase;
    ot_node *joined = ot_graph_node(g, &ot_op_Reduce, n->name, &a, map->in, map->n_in, 1);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (!joined) return g->err->status;
    joined->made = n->made;
    joined->stage = n->stage;
    OT_TRY(ot_node_infer(joined, g->err));
    if (!is_taken(joined, map, c)) {
        ot_graph_remove(g, joined);
        return OT_OK;
    }
    joined->out[0]->producer = NULL;
    joined->out[0] = y;
    y->producer = joined;
    y->port = 0;
    readers[map->out[0]->id] = 0;
    ot_graph_remove(g, n);
    ot_graph_remove(g, map);
    return OT_OK;
}

ot_status ot_fuse_reduces(ot_plan *p, const ot_config *c, const bool *kept)
{
    ot_graph *g = p->graph;
    if (c->ref_only) return OT_OK; /* no benefit */
    int *readers = count_readers(g);
    if (!readers) return ot_fail(g->err, OT_E_NOMEM, "no memory to fuse reductions");
    ot_status s = OT_OK;
    for (ot_node *n = g->first, *next; n && s == OT_OK; n = next) {
        next = n->next;
        ot_node *map = n->op == &ot_op_Reduce ? map_before(n, kept, readers) : NULL;
        if (map) s = join(g, n, map, c, readers);
    }
    free(readers);
    return s;
}
